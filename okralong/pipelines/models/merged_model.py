"""LoRA adapters: the trained reader, how it is to be asked, and models with an adapter merged into their weights.

Only plain LoRA is understood, ``scale * B @ A`` read from PEFT's two files; whatever else PEFT knows (DoRA, patterns of
ranks, biases, whole modules, other starting weights) is refused, so that a merge never leaves a part out.
"""

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
"""The name of the shipped reader, and of its folder below ``pipelines/models/adapters``."""

NO_READER: Final = "none"
"""What a config says for the model as it is."""

DIGITS: Final = 12
"""Hex digits of an adapter's digest that stand in names and identities; ours, as for the packaged models."""

FILES: Final = ("adapter_config.json", "adapter_model.safetensors")
"""What PEFT writes, and all that a merge reads."""

ASKED: Final = "reader.json"


class ReaderFile(Settings):
    """A reader's ``reader.json``: how it was asked in training, and so wants to be asked.

    ``demonstrations``: a worked example stood in each prompt. ``calculator``: sums were left to the calculator.
    ``rows``: how many it learned from; None where that is not known.
    """

    demonstrations: bool = False
    calculator: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """An adapter that is there. ``name`` is "reader" for the shipped one, else its folder's; ``digest`` its content's,
    the first 12 hex digits.
    """

    folder: Path
    name: str
    digest: str


def find_reader(said: str, base_url: str, model: str) -> Reader | None:
    """The reader that a config means by ``said`` ("shipped", "none" or a folder) for its model; None: no merge.

    The shipped one is for the embedded model and is left out with any other. Raises ConfigError when the folder holds
    no adapter, and for a folder with a remote endpoint, whose weights are out of reach.
    """
    if said == NO_READER:
        return None
    if said == SHIPPED:
        embedded = (base_url, model) == (EMBEDDED, EMBEDDED)
        return _read(shipped_adapter(READER), READER) if embedded else None
    if base_url != EMBEDDED:
        raise ConfigError(
            f"llm.reader is the folder {said}, and llm.base_url is {base_url}: nothing can be merged into a model that "
            "is served elsewhere. Set llm.reader: none, or serve the model here with llm.base_url: embedded and "
            "llm.model: embedded or a transformers folder."
        )
    folder = Path(said).expanduser().resolve()
    return _read(folder, folder.name)


def asked_as(folder: Path) -> ReaderFile:
    """What the reader's ``reader.json`` says; the defaults where it has none. Raises ConfigError for unknown keys."""
    file = folder / ASKED
    if not file.is_file():
        return ReaderFile()
    return parse_config(ReaderFile, file.read_text(encoding="utf-8", errors="replace"), str(file))


def _read(folder: Path, name: str) -> Reader:
    missing = [file for file in FILES if not (folder / file).is_file()]
    if missing:
        raise ConfigError(
            f"The reader {folder} holds no {' and no '.join(missing)}. Give llm.reader the folder that `okralong "
            "train` wrote, or none for the model as it is."
        )
    return Reader(folder, name, (adapter_digest(folder) or "")[:DIGITS])


# A base model with an adapter merged into it, made once for each pair and kept in the cache folder. Merged weights cost
# nothing at run time and need nothing of the engine.


def merged_gguf(adapter: Path) -> Path:
    """The packaged generator with ``adapter`` merged in, in Q8_0 for llama.cpp; some seconds the first time.

    Raises ConfigError as ``embedded_gguf`` does, and when the adapter cannot be read or does not fit.
    """

    def build(file: Path) -> None:
        from okralong.pipelines.models.rewrite import shapes_in_gguf

        base = embedded_gguf()
        check_fits(adapter, read_lora(adapter), shapes_in_gguf(base), "the embedded model")
        _merge("merge-q8_0", base, adapter, file)

    return build_once(f"{STEM}-reader-{_digest(adapter)}.Q8_0.gguf", build)


def merged_model(adapter: Path, base: str) -> Path:
    """``base`` ("embedded" or a transformers folder) with ``adapter`` merged in float32 by PEFT, as a folder in
    bfloat16 with tokenizer and chat template; half a minute the first time.

    Raises ConfigError as ``embedded_gguf`` does, and when the adapter cannot be read or does not fit.
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
    # In a process of its own, as the rewrites of ``weights``: it takes gigabytes for a moment.
    run_module("okralong.pipelines.models.rewrite", form, str(base), str(adapter), str(target))


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The matrices of a transformers folder by module, from the headers of its files alone."""
    from safetensors import safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (it is no dict, and cannot be iterated)
                shapes[name.removesuffix(".weight")] = tuple(tensors.get_slice(name).get_shape())
    return shapes


def _mark(folder: Path) -> str:
    """Stands for the weights in ``folder``: another file, or the same written again, has another mark."""
    files = [(file.name, file.stat()) for file in sorted(folder.glob("*.safetensors"))]
    seen = "|".join([str(folder), *(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files)])
    return hashlib.sha256(seen.encode()).hexdigest()[:DIGITS]
