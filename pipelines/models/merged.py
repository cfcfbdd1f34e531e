"""A base model with a reader merged into it, made once for each pair and kept in the cache folder.

Merged weights cost nothing at run time and need nothing of the engine; an adapter beside the weights would do both.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from okralong.pipelines.models.cache import build_once
from okralong.pipelines.models.child import run_module
from okralong.pipelines.models.embedded import EMBEDDED, STEM, converted_model, embedded_gguf
from okralong.pipelines.models.lora import check_fits, read_lora
from okralong.pipelines.models.reader import DIGITS
from okralong.pipelines.models.shipped import adapter_digest


def merged_gguf(adapter: Path) -> Path:
    """The packaged generator with ``adapter`` merged in, in Q8_0 for llama.cpp; some seconds the first time.

    Raises ConfigError as ``embedded_gguf`` does, and when the adapter cannot be read or does not fit.
    """

    def build(file: Path) -> None:
        from okralong.pipelines.models.merging import shapes_in_gguf

        base = embedded_gguf()
        check_fits(adapter, read_lora(adapter), shapes_in_gguf(base), "the embedded model")
        _merge("q8_0", base, adapter, file)

    return build_once(f"{STEM}-reader-{_digest(adapter)}.Q8_0.gguf", build)


def merged_model(adapter: Path, base: str) -> Path:
    """``base`` ("embedded" or a transformers folder) with ``adapter`` merged in float32 by PEFT, as a folder in
    bfloat16 with tokenizer and chat template; half a minute the first time.

    Raises ConfigError as ``embedded_gguf`` does, and when the adapter cannot be read or does not fit.
    """
    source = converted_model() if base == EMBEDDED else Path(base).expanduser().resolve()

    def build(folder: Path) -> None:
        check_fits(adapter, read_lora(adapter), _shapes(source), base)
        _merge("transformers", source, adapter, folder)

    stem = STEM if base == EMBEDDED else f"{source.name}-{_mark(source)}"
    return build_once(f"{stem}-reader-{_digest(adapter)}-bf16", build)


def _digest(adapter: Path) -> str:
    return (adapter_digest(adapter) or "")[:DIGITS]


def _merge(form: str, base: Path, adapter: Path, target: Path) -> None:
    # In a process of its own, as the rewrites of embedded.py: it takes gigabytes for a moment.
    run_module("okralong.pipelines.models.merging", form, str(base), str(adapter), str(target))


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
