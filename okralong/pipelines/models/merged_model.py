"""The trained reader, its prompt form, and models with a LoRA adapter merged into their weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from okralong.pipelines.core.child_process import run_module
from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.lora import check_fits, read_lora
from okralong.pipelines.models.weights import (
    EMBEDDED,
    SHIPPED,
    STEM,
    adapter_digest,
    build_once,
    converted_model,
    embedded_gguf,
    shipped_adapter,
)

READER: Final = "reader"
"""The name of the shipped reader and of its folder below ``pipelines/models/adapters``."""

NO_READER: Final = "none"
"""The config value for the model without a reader."""

DIGITS: Final = 12
"""Hex digits of an adapter's digest in names and identities, as for the packaged models. # project default"""

FILES: Final = ("adapter_config.json", "adapter_model.safetensors")
"""PEFT's files of an adapter."""

ASKED: Final = "reader.json"


class ReaderFile(Settings):
    """A reader's ``reader.json``: the form of its training prompts, which its prompts should have too.

    ``demonstrations``: each prompt had a worked example. ``calculator``: sums were left to the calculator. ``rows``:
    number of training rows, None if unknown.
    """

    demonstrations: bool = False
    calculator: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """An existing adapter.

    ``name`` is "reader" for the shipped one, otherwise its folder's name; ``digest`` is the first 12 hex digits of the
    hash of its content.
    """

    folder: Path
    name: str
    digest: str


def find_reader(said: str, base_url: str, model: str) -> Reader | None:
    """Return the reader of a config value ("shipped", "none" or a folder) for its model, or None for no merge.

    The shipped reader belongs to the embedded model and is ignored with any other.

    Raises:
        ConfigError: The folder holds no adapter, or the endpoint is remote, so its weights cannot be merged.
    """
    if said == NO_READER:
        return None
    if said == SHIPPED:
        embedded = (base_url, model) == (EMBEDDED, EMBEDDED)
        return _read(shipped_adapter(READER), READER) if embedded else None
    if base_url != EMBEDDED:
        raise ConfigError(
            f"llm.reader is the folder {said}, and llm.base_url is {base_url}: an adapter cannot be merged into a "
            "model that is served elsewhere. Set llm.reader: none, or serve the model here with llm.base_url: embedded "
            "and llm.model: embedded or a transformers folder."
        )
    folder = Path(said).expanduser().resolve()
    return _read(folder, folder.name)


def asked_as(folder: Path) -> ReaderFile:
    """Read ``reader.json``, with defaults if it is missing. Raises ConfigError for unknown keys."""
    file = folder / ASKED
    if not file.is_file():
        return ReaderFile()
    return parse_config(ReaderFile, file.read_text(encoding="utf-8", errors="replace"), str(file))


def _read(folder: Path, name: str) -> Reader:
    missing = [file for file in FILES if not (folder / file).is_file()]
    if missing:
        raise ConfigError(
            f"The reader {folder} lacks {' and '.join(missing)}. Give llm.reader the folder that `okralong "
            "train` wrote, or none for the model as it is."
        )
    return Reader(folder, name, (adapter_digest(folder) or "")[:DIGITS])


# A base model with an adapter merged into it, made once per pair and kept in the cache folder. Merged weights are free
# at run time and need no support from the engine.


def merged_gguf(adapter: Path) -> Path:
    """Return the packaged generator with ``adapter`` merged in, as Q8_0 for llama.cpp; takes seconds the first time.

    Raises:
        ConfigError: As ``embedded_gguf``, or the adapter is unreadable or does not fit.
    """

    def build(file: Path) -> None:
        from okralong.pipelines.models.rewrite import shapes_in_gguf

        base = embedded_gguf()
        check_fits(adapter, read_lora(adapter), shapes_in_gguf(base), "the embedded model")
        _merge("merge-q8_0", base, adapter, file)

    return build_once(f"{STEM}-reader-{_digest(adapter)}.Q8_0.gguf", build)


def merged_model(adapter: Path, base: str) -> Path:
    """Return a bfloat16 folder of ``base`` with ``adapter`` merged in float32 by PEFT; takes 30 s the first time.

    ``base`` is "embedded" or a transformers folder; the result has its tokenizer and chat template.

    Raises:
        ConfigError: As ``embedded_gguf``, or the adapter is unreadable or does not fit.
    """
    source = converted_model() if base == EMBEDDED else Path(base).expanduser().resolve()

    def build(folder: Path) -> None:
        check_fits(adapter, read_lora(adapter), _shapes(source), base)
        _merge("merge-transformers", source, adapter, folder)

    stem = STEM if base == EMBEDDED else f"{source.name}-{_mark(source)}"
    return build_once(f"{stem}-reader-{_digest(adapter)}-bf16", build)


def _digest(adapter: Path) -> str:
    return (adapter_digest(adapter) or "")[:DIGITS]


def _merge(form: str, base: Path, adapter: Path, target: Path) -> None:
    # In a child process, like the rewrites of ``weights``, because it briefly takes gigabytes.
    run_module("okralong.pipelines.models.rewrite", form, str(base), str(adapter), str(target))


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a transformers folder's matrices by module, read from the file headers."""
    from safetensors import safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (it is no dict, and cannot be iterated)
                shapes[name.removesuffix(".weight")] = tuple(tensors.get_slice(name).get_shape())
    return shapes


def _mark(folder: Path) -> str:
    """Return a digest of the weight files' names, sizes and times."""
    files = [(file.name, file.stat()) for file in sorted(folder.glob("*.safetensors"))]
    seen = "|".join([str(folder), *(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files)])
    return hashlib.sha256(seen.encode()).hexdigest()[:DIGITS]
