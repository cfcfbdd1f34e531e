"""The embedded generator: a local model behind an OpenAI-compatible address, for the lifetime of the driver.

The rest of okralong treats it as one more endpoint, so that all models share one client.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import select
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from okralong.pipelines.core.child_process import module_command, module_environment, tail
from okralong.pipelines.core.types import ConfigError, EndpointError
from okralong.pipelines.models.downloads import DownloadedModel, downloaded
from okralong.pipelines.models.merged_model import Reader, merged_gguf
from okralong.pipelines.models.weights import (
    EMBEDDED,
    SMOLLM_SHA256,
    SMOLLM_WINDOW,
    available_cores,
    cache_folder,
    gguf_tokenizer,
    repacked_gguf,
)

START_LIMIT_S: Final = 180.0
"""Longest wait for the first reply, while some billion weights load from a cold disk. # project default"""

CORES_PER_PLACE: Final = 2
"""Cores per parallel request. On two cores, two prompts of 2,000 tokens were read at 165 tokens/s in parallel and at
218 one after the other. # project default"""

ATTEMPTS: Final = 3
"""Ports tried, because another process may take a free port first. # project default"""

EMBEDDED_NAME: Final = "SmolLM2-135M-Instruct-Q8_0"
"""The name of the embedded model without a reader, served from its GGUF file, whose weights are pinned."""

START_POLL_S: Final = 0.2
STOP_LIMIT_S: Final = 10.0


class EmbeddedServer:
    """A running local server; a context manager. Start one with ``start``.

    ``base_url`` ends in ``/v1``; requests must name ``model``. ``engine`` is "llama.cpp" or "openvino".
    ``window`` limits prompt and reply together, for each of ``parallel`` simultaneous requests.
    ``tokenizer`` is a folder for counting in the model's own tokens. ``identity`` is stable over restarts, unlike
    ``base_url``.
    """

    def __init__(self, process: subprocess.Popen[bytes], served: ServedModel, port: int, window: int, log: Path):
        self._process = process
        self._log = log
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.model = served.name
        self.engine: Engine = served.engine
        self.identity = served.identity
        self.tokenizer = served.tokenizer
        self.window = window

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    @classmethod
    def start(
        cls,
        engine: EngineChoice = "auto",
        parallel: int | None = None,
        window: int = SMOLLM_WINDOW,
        model: str = EMBEDDED,
        log_folder: Path | None = None,
        reader: Reader | None = None,
        early_end: EarlyEnd | None = None,
    ) -> EmbeddedServer:
        """Start a server and wait until it has answered a request for one token.

        Args:
            engine: "auto", "llama.cpp" or "openvino".
            parallel: Simultaneous requests; None means one per two cores.
            window: Tokens of prompt and reply together.
            model: "embedded", a name of ``configs/models.yaml`` or a ``.gguf`` file.
            log_folder: Folder of the log; default is the cache folder.
            reader: Adapter to merge into the model.
            early_end: Lets another thread end the server.

        Raises:
            ConfigError: Engine, model and reader do not fit together.
            EndpointError: The server did not start; the message quotes its log.
        """
        places = parallel or max(1, available_cores() // CORES_PER_PLACE)
        served = choose(model, engine, places, window, reader)
        folder = log_folder or cache_folder() / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"server-{uuid.uuid4().hex[:12]}.log"
        early_end = early_end or EarlyEnd()
        try:
            for _ in range(ATTEMPTS - 1):
                port = free_port()
                with contextlib.suppress(_PortTakenError):
                    return cls(launch(served, port, log, early_end), served, port, window, log)
            port = free_port()
            return cls(launch(served, port, log, early_end), served, port, window, log)
        except EndpointError:
            if early_end.came:  # the log will not be read
                log.unlink(missing_ok=True)
            raise

    def stop(self) -> None:
        """End the server and delete its log; a second call is a no-op."""
        _end(self._process)
        self._log.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class EarlyEnd:
    """Ends a server from another thread, even while it starts; ``start`` then raises EndpointError."""

    def __init__(self) -> None:
        self.came = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def began(self, process: subprocess.Popen[bytes]) -> None:
        """Register the server's process."""
        with self._lock:
            self._process = process
            if self.came:
                process.kill()

    def now(self) -> None:
        """Kill the server, which has no state to lose."""
        with self._lock:
            self.came = True
            if self._process is not None:
                self._process.kill()


class _PortTakenError(EndpointError):
    """Another process took the port before the server started."""


def launch(served: ServedModel, port: int, log: Path, early_end: EarlyEnd) -> subprocess.Popen[bytes]:
    """Start the server's process and wait until it answers."""
    environment = module_environment()
    if served.engine == "llama.cpp":
        # Its threads meet many times a token. By default those that wait keep their cores busy: beside one other
        # process on two cores 19 tokens took 0.7 to 10 s, without that 0.4 s.
        environment.setdefault("OMP_WAIT_POLICY", "passive")
    with log.open("wb") as out:
        # Nothing is written to the pipe: its end tells the child that this process is gone.
        process = subprocess.Popen(
            served.command(port), stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, env=environment
        )
    early_end.began(process)
    try:
        _wait_until_ready(process, served, port, log)
    except BaseException:
        _end(process)
        raise
    return process


def _wait_until_ready(process: subprocess.Popen[bytes], served: ServedModel, port: int, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        answered = _answers(port, served.name)
        if process.poll() is not None:
            words = log.read_text(encoding="utf-8", errors="replace")
            kind = _PortTakenError if answered or "address already in use" in words.lower() else EndpointError
            raise kind(
                f"The local {served.engine} server for {served.name} ended with code {process.returncode} before it "
                f"was ready. Its log {log} ends: {tail(words)}. Check the free memory and the model's files."
            )
        if answered:
            return
        time.sleep(START_POLL_S)
    raise EndpointError(
        f"The local {served.engine} server for {served.name} gave no reply within {START_LIMIT_S:.0f} s. Its log {log} "
        f"ends: {tail(log.read_text(encoding='utf-8', errors='replace'))}. Give it more cores or a smaller model."
    )


def _answers(port: int, model: str) -> bool:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    # Requests to the child must bypass proxies from the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=START_LIMIT_S) as response:
            return "usage" in json.load(response)
    except (OSError, ValueError):
        return False


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdin is not None:
        process.stdin.close()


# The choice of an engine for a model, and the command line that starts it.

Engine = Literal["llama.cpp", "openvino"]
EngineChoice = Literal["auto", "llama.cpp", "openvino"]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model with its engine and start command.

    Requests must give ``name`` as ``model``. ``identity`` identifies weights and engine and stays the same on every
    start, for keys that must be stable between runs. ``tokenizer`` is a folder with a ``tokenizer.json``.
    ``command(port)`` is the child's command line.
    """

    engine: Engine
    name: str
    identity: str
    tokenizer: str
    command: Callable[[int], list[str]]


def choose(
    model: str,
    engine: EngineChoice,
    parallel: int,
    window: int,
    reader: Reader | None = None,
) -> ServedModel:
    """Return the served model for "embedded", a downloaded name or a ``.gguf`` file, with ``reader`` merged.

    "auto" is llama.cpp for a GGUF file. For the embedded model it is OpenVINO on x86-64 if it is installed, else
    llama.cpp: llama.cpp's wheel is an AVX2 build, whatever the machine, and OpenVINO reads prompts two to four times as
    fast with AVX-512 (benchmarks/results/engine.md). The choice follows the machine and not a measurement, so that
    every run on it has the same engine.

    The name is part of the hash of each request, so it identifies the weights: a reader or GGUF file rebuilt under the
    same name is another model and shares no replies.

    Raises:
        ConfigError: Engine, model and reader do not fit together.
    """
    mark = f"+{reader.digest}" if reader else ""
    if model == EMBEDDED:
        if window > SMOLLM_WINDOW:
            raise ConfigError(
                f"The embedded model's window is {SMOLLM_WINDOW} tokens, but the config asks for {window}. Lower it, "
                "or serve a model of your own."
            )
        engine = _embedded_engine() if engine == "auto" else engine
        name = f"SmolLM2-135M-Instruct-{reader.name}-Q8_0@{reader.digest}" if reader else EMBEDDED_NAME
        gguf = merged_gguf(reader.folder) if reader else repacked_gguf()
        serve = llama_cpp_model if engine == "llama.cpp" else _openvino_model
        return serve(gguf, name, SMOLLM_SHA256[:12] + mark, parallel, window)
    named = downloaded(model)
    if named is not None:
        return _downloaded_model(named, engine, parallel, window, reader)
    path = Path(model).expanduser().resolve()
    if path.is_file() and path.suffix == ".gguf" and engine in ("auto", "llama.cpp"):
        _refuse_reader(reader, model)
        stamp = _stamped(path)
        return llama_cpp_model(path, f"{path.stem}@{stamp.rpartition('@')[2]}", stamp, parallel, window)
    raise ConfigError(
        f"The engine {engine!r} cannot serve the model {model!r}. Give 'embedded', a name of `okralong model list` or "
        "a .gguf file (llama.cpp). Convert a folder of safetensors with llama.cpp's convert_hf_to_gguf.py, or name "
        "your own endpoint with base_url and model."
    )


def _embedded_engine() -> Engine:
    """Return the engine of the embedded model on this machine (see ``choose``)."""
    has_openvino = platform.machine() in ("x86_64", "AMD64") and find_spec("openvino_genai") is not None
    return "openvino" if has_openvino else "llama.cpp"


def _downloaded_model(
    found: DownloadedModel, engine: EngineChoice, parallel: int, window: int, reader: Reader | None
) -> ServedModel:
    """Return how llama.cpp serves a named model. Its name contains the file's hash, and not its place or time."""
    if engine not in ("auto", "llama.cpp"):
        raise ConfigError(f"The model {found.name} is a GGUF file, which llama.cpp serves. Leave the engine out.")
    if window > found.row.window:
        raise ConfigError(
            f"The window of the model {found.name} is {found.row.window} tokens, but llm.window is {window}. Lower it."
        )
    _refuse_reader(reader, found.name)
    name = f"{found.file.stem}@{found.sha256[:12]}"
    return llama_cpp_model(found.file, name, name, parallel, window, quiet=found.row.thinks)


def _refuse_reader(reader: Reader | None, model: str) -> None:
    if reader is not None:
        raise ConfigError(
            f"The reader {reader.folder} cannot be merged into {model}: the weights of such a GGUF file are already "
            "rounded and stored in its own order. Set llm.reader: none."
        )


def _stamped(path: Path) -> str:
    """Return a model's path with a digest of its size and time."""
    stat = path.stat()
    said = f"{path.name}:{stat.st_size}:{stat.st_mtime_ns}"
    return f"{path}@{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def llama_cpp_model(
    gguf: Path, name: str, weights: str, parallel: int, window: int, quiet: bool = False
) -> ServedModel:
    """Return how llama.cpp serves a GGUF file; ``quiet`` switches off the thinking of a model that thinks."""
    command = _command("llama.cpp", gguf, alias=name, parallel=parallel, window=window, quiet=int(quiet))
    return ServedModel("llama.cpp", name, f"llama.cpp:{weights}:q8_0", str(gguf_tokenizer(gguf)), command)


def _openvino_model(gguf: Path, name: str, weights: str, parallel: int, window: int) -> ServedModel:
    command = _command("openvino", gguf, parallel=parallel, window=window)
    return ServedModel("openvino", name, f"openvino:{weights}:q8_0", str(gguf_tokenizer(gguf)), command)


def _command(engine: Engine, model: Path, **options: str | int) -> Callable[[int], list[str]]:
    def command(port: int) -> list[str]:
        said = {"model": model, "port": port, "parent": os.getpid(), **options}
        arguments = [word for name, value in said.items() for word in (f"--{name}", str(value))]
        return module_command("okralong.pipelines.models.engine_process", engine, *arguments)

    return command


# A server must not outlive the process that started it. The child watches its standard input, a pipe that closes even
# when the parent is killed, and its parent's process id, in case a fork inherited the pipe. Linux's parent-death signal
# does not fit: it fires when the *thread* that started the child ends.

POLL_S: Final = 1.0
"""Seconds between checks of the parent's process id. # project default"""


def die_with_parent(parent: int) -> None:
    """End this process as soon as process ``parent`` ends. Call it in the child, before slow work."""
    threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    pipe = sys.stdin.fileno()
    while os.getppid() == parent:
        readable, _, _ = select.select([pipe], [], [], POLL_S)
        if readable and not os.read(pipe, 1):
            break
    os._exit(0)
