"""Answer questions with gold answers in the ways from which a confidence model is fitted and on which it is measured.

    python -m benchmarks.confidence_runs --data DATA --side tune --by default --out OUT/default    # also reader, bare
    python -m benchmarks.confidence_runs --data DATA --side test --by default --out OUT_OF_TEST/default

``default`` runs ``configs/sweeps/confidence.yaml`` with what readers answer: an endpoint in this process refuses every
completion, so a question that needs the generator fails and has no confidence. ``reader`` and ``bare`` run
``confidence_generated.yaml``: the embedded model with its shipped adapter and without. An endpoint in this process
serves it with transformers, in batches, instead of llama.cpp one by one; prompts and weights are the same.

OUT is a sweep's folder, which `okralong calibrate` and `python -m benchmarks.confidence` read. An interrupted command
continues.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console

from okralong.actors.generator import as_served
from okralong.lab.sweeps.config import Sweep
from okralong.lab.sweeps.engine import expand_sweep, run_sweep
from okralong.pipelines.core.config import load_config
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.models.merged_model import merged_model
from okralong.pipelines.models.weights import EMBEDDED, SMOLLM_WINDOW, available_cores, converted_model, settle
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.sara.generator import MixedGenerator, Text
from okralong.pipelines.sara.prompts import Asked, MixedMessage, RefusedError

By = Literal["default", "reader", "bare"]
BATCH: Final = 8  # project default
"""Most prompts that are answered together."""
GATHERING_S: Final = 0.3
"""How long a batch waits for more prompts."""
FREE: Final = {"input": 0.0, "cached_input": 0.0, "output": 0.0}


@dataclass(frozen=True)
class Said:
    """A completion, or why there is none."""

    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = "stop"
    error: str = ""


Complete = Callable[[Sequence[dict[str, str]], int], Said]
"""Returns the completion of messages, of at most so many tokens."""


def refuse(messages: Sequence[dict[str, str]], most: int) -> Said:
    """Return no completion."""
    return Said(error="No generator answers here.")


class Batches:
    """Completes messages of several threads in batches."""

    def __init__(self, model: MixedGenerator) -> None:
        """Start the thread that calls the model."""
        self._model = model
        self._waiting: queue.Queue[tuple[Asked, list[Said], threading.Event]] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, messages: Sequence[dict[str, str]], most: int) -> Said:
        """See ``Complete``."""
        said: list[Said] = []
        done = threading.Event()
        mixed = tuple(MixedMessage(each["role"], (Text(each["content"]),)) for each in messages)
        self._waiting.put((Asked(mixed, most), said, done))
        done.wait()
        return said[0]

    def _work(self) -> None:
        while True:
            batch = [self._waiting.get()]
            threading.Event().wait(GATHERING_S)
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            try:
                found = [_said(each) for each in self._model.answer([asked for asked, _, _ in batch])]
            except Exception as error:  # every thread of the batch must hear of it
                found = [Said(error=repr(error))] * len(batch)
            for (_, said, done), each in zip(batch, found, strict=True):
                said.append(each)
                done.set()


def _said(each: Any) -> Said:
    if isinstance(each, RefusedError):
        return Said(error=str(each))
    return Said(each.text, each.prompt_tokens, each.completion_tokens, each.finish_reason)


@contextmanager
def endpoint(model: str, complete: Complete, port: int) -> Iterator[str]:
    """Serve ``complete`` as an OpenAI-compatible endpoint on this machine, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [{"id": model, "object": "model"}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = complete(asked["messages"], asked.get("max_tokens") or asked["max_completion_tokens"])
            if said.error:
                refused = {"message": said.error, "type": "invalid_request_error", "code": "context_length_exceeded"}
                return self._send(400, {"error": refused})
            message = {"role": "assistant", "content": said.text}
            usage = {"prompt_tokens": said.prompt_tokens, "completion_tokens": said.completion_tokens}
            choice = {"index": 0, "message": message, "finish_reason": said.finish_reason}
            whole = {"total_tokens": sum(usage.values()), **usage}
            kind = {"id": "local", "object": "chat.completion", "created": 0, "model": model}
            return self._send(200, {**kind, "choices": [choice], "usage": whole})

        def _send(self, status: int, body: dict[str, Any]) -> None:
            written = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def loaded(by: By) -> tuple[MixedGenerator, str, dict[str, Any]]:
    """Load the embedded model, and return it with its name and the prompt settings of a run that serves it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    config = load_config(RunConfig, "answer.yaml").llm
    asked = LlmConfig.model_validate({**config.model_dump(), "reader": "none" if by == "bare" else config.reader})
    found = asked.found_reader()
    folder = converted_model() if found is None else merged_model(found.folder, EMBEDDED)
    target, dtype = settle("auto", "auto", available_cores())
    causal: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True)
    model = MixedGenerator(causal.to(device=target), AutoTokenizer.from_pretrained(folder), SMOLLM_WINDOW)
    served = as_served(asked)
    settings = {f"llm.{name}": getattr(served, name) for name in ("demonstrations", "calculator", "contract")}
    return model, served.model.partition("@")[0], settings


def run(by: By, side: str, data: Path, work: Path, out: Path, port: int) -> None:
    """Run the sweep of a side."""
    console = Console()
    complete: Complete = refuse
    name = "nobody"
    settings: dict[str, Any] = {"reranker.answers": "always"}
    if by != "default":
        model, name, settings = loaded(by)
        complete = Batches(model)
    os.environ.setdefault("OPENAI_API_KEY", "none")  # the client insists on one
    file = "sweeps/confidence.yaml" if by == "default" else "sweeps/confidence_generated.yaml"
    with endpoint(name, complete, port) as address:
        sweep = load_config(Sweep, file, {"side": side})
        more = {"llm.base_url": address, "llm.model": name, "llm.max_attempts": 1, "llm.price": FREE, **settings}
        sweep = sweep.model_copy(update={"overrides": {**sweep.overrides, **more}})
        run_sweep(expand_sweep(sweep, data, out, work, console), console=console)


def main() -> None:
    """Run a sweep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--side", choices=["tune", "validation", "test"], required=True)
    parser.add_argument("--by", choices=["default", "reader", "bare"], default="default")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--work", type=Path, default=Path(".evidence"), help="the folder that keeps archives and vectors"
    )
    parser.add_argument("--port", type=int, default=18470, help="of the endpoint; the same one to continue")
    given = parser.parse_args()
    run(given.by, given.side, given.data, given.work, given.out, given.port)


if __name__ == "__main__":
    main()
