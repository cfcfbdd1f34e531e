"""Which engine serves which model, and the command line that starts it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.child import module_command
from okralong.pipelines.models.embedded import (
    EMBEDDED,
    SMOLLM_SHA256,
    SMOLLM_WINDOW,
    converted_model,
    gguf_tokenizer,
    repacked_gguf,
)
from okralong.pipelines.models.merged import merged_gguf, merged_model
from okralong.pipelines.models.precision import device as best_device
from okralong.pipelines.models.precision import dtype_for, has_amx
from okralong.pipelines.models.reader import Reader

Engine = Literal["llama.cpp", "transformers"]
EngineChoice = Literal["auto", "llama.cpp", "transformers"]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model, the engine for it, and how to start it.

    ``name`` is what requests must give as ``model``. ``identity`` names weights and engine alike on every start (the
    port changes, this does not): use it where a key must stay the same from run to run. ``tokenizer`` is a folder with
    a ``tokenizer.json``. ``command(port)`` is the child's command line.
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
    precision: str = "auto",
    reader: Reader | None = None,
) -> ServedModel:
    """The served model for "embedded", a ``.gguf`` file or a transformers folder, with ``reader`` merged into it.

    "auto" takes llama.cpp for a GGUF file, transformers for a folder, and for the embedded model transformers where the
    machine has a GPU or AMX, else llama.cpp. Raises ConfigError when model and engine do not fit, or model and reader.
    """
    mark = f"+{reader.digest}" if reader else ""
    if model == EMBEDDED:
        if window > SMOLLM_WINDOW:
            raise ConfigError(
                f"The embedded model's window is {SMOLLM_WINDOW} tokens and the config asks for {window}. Lower it, or "
                "serve a model of your own."
            )
        if engine == "llama.cpp" or (engine == "auto" and best_device() == "cpu" and not has_amx()):
            name = f"SmolLM2-135M-Instruct{f'-{reader.name}' if reader else ''}-Q8_0"
            gguf = merged_gguf(reader.folder) if reader else repacked_gguf()
            return _llama_cpp(gguf, name, SMOLLM_SHA256[:12] + mark, parallel, window)
        folder = merged_model(reader.folder, EMBEDDED) if reader else converted_model()
        return _transformers(folder, SMOLLM_SHA256[:12] + mark, precision)
    path = Path(model).expanduser().resolve()
    if path.is_file() and path.suffix == ".gguf" and engine != "transformers":
        if reader is not None:
            raise ConfigError(
                f"The reader {reader.folder} cannot be merged into {model}: the weights of a foreign GGUF file are "
                "already rounded, and their order is that file's own. Set llm.reader: none, or give the model as a "
                "transformers folder."
            )
        return _llama_cpp(path, path.stem, str(path), parallel, window)
    if (path / "config.json").is_file() and engine != "llama.cpp":
        folder = merged_model(reader.folder, str(path)) if reader else path
        return _transformers(folder, str(path) + mark, precision)
    raise ConfigError(
        f"The engine {engine!r} cannot serve the model {model!r}. Give 'embedded', a .gguf file (llama.cpp) or a "
        "folder with config.json and safetensors (transformers), or name your own endpoint with base_url and model."
    )


def _llama_cpp(gguf: Path, name: str, weights: str, parallel: int, window: int) -> ServedModel:
    def command(port: int) -> list[str]:
        sizes = [
            "--port",
            str(port),
            "--parallel",
            str(parallel),
            "--window",
            str(window),
            "--parent",
            str(os.getpid()),
        ]
        return module_command("okralong.pipelines.serving.llama_cpp", "--model", str(gguf), "--alias", name, *sizes)

    return ServedModel("llama.cpp", name, f"llama.cpp:{weights}:q8_0", str(gguf_tokenizer(gguf)), command)


def _transformers(folder: Path, weights: str, precision: str) -> ServedModel:
    device = best_device()
    dtype = str(dtype_for(device, precision)).removeprefix("torch.")

    def command(port: int) -> list[str]:
        place = ["--port", str(port), "--device", device, "--dtype", dtype, "--parent", str(os.getpid())]
        return module_command("okralong.pipelines.serving.transformers_engine", "--model", str(folder), *place)

    return ServedModel("transformers", str(folder), f"transformers:{weights}:{dtype}", str(folder), command)
