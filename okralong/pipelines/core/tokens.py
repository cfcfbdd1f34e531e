"""Counting tokens: o200k_base for sizes that the method names, the generator's own vocabulary for its window.

``bpe-openai`` carries o200k_base in the package and counts as tiktoken does; tiktoken would fetch it at run time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tokenizers import Tokenizer

from okralong.pipelines.core.types import ConfigError

if TYPE_CHECKING:
    import bpe_openai

CountTokens = Callable[[str], int]
O200K: Final = "o200k_base"

STRETCH_CHARS: Final = 50_000
"""A character has at most four tokens, so that a stretch stays below the tokenizer's limit."""
_LOOK_BACK: Final = 5_000
_REMEMBERED_CHARS: Final = 32_768
"""Longest text whose count is remembered, so that all that are remembered take a few megabytes; ours."""


@lru_cache(maxsize=1)
def _o200k() -> bpe_openai.Encoding:
    # Imported here: it takes half a second and 60 MB, and the command line and the reader's process count nothing.
    import bpe_openai

    return bpe_openai.get_encoding("o200k_base")


def count_tokens(text: str) -> int:
    """Number of o200k_base tokens in a text of any length; special-token look-alikes count as ordinary text.

    The tokenizer refuses a text of a million characters or of 200,000 tokens, so a longer one is counted in stretches,
    cut where o200k_base never joins what stands on both sides. Exact, but for a text that has 5,000 characters without
    such a place: there each cut may add a token or two.
    """
    # The package's batch call hands each text to a pool of threads, which takes 3 to 8 times as long as one by one.
    return sum(len(_o200k().encode_ordinary(part)) for part in _stretches(text))


def count_again(text: str) -> int:
    """The same, of a text that may have been counted a moment ago: a prompt is, to fit it and again to reserve it."""
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else count_tokens(text)


@lru_cache(maxsize=256)
def _remembered(text: str) -> int:
    return count_tokens(text)


def token_counter(name: str) -> CountTokens:
    """A counter by name: ``o200k_base``, or a folder or file that holds a ``tokenizer.json``.

    Raises ConfigError when the name is neither.
    """
    if name == O200K:
        return count_again
    tokenizer = Tokenizer.from_file(str(_tokenizer_file(name)))
    tokenizer.no_truncation()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def tokenizer_digest(name: str) -> str:
    """``o200k_base``, or of another tokenizer the sha256 of its file, wherever it lies. Raises as ``token_counter``."""
    return name if name == O200K else hashlib.sha256(_tokenizer_file(name).read_bytes()).hexdigest()


def _tokenizer_file(name: str) -> Path:
    path = Path(name)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(
            f"llm.tokenizer is {name!r}, which is neither o200k_base nor a folder with a tokenizer.json. "
            "Name o200k_base for OpenAI models, or the folder of the local model that answers."
        )
    return file


def _stretches(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > STRETCH_CHARS:
        end = _cut(text, start + STRETCH_CHARS)
        yield text[start:end]
        start = end
    yield text[start:]


def _cut(text: str, latest: int) -> int:
    """The last offset up to ``latest`` that always parts two tokens, or ``latest`` when none is near."""
    for at in range(latest, latest - _LOOK_BACK, -1):
        before, after = text[at - 1], text[at]
        if before == "\n" and not after.isspace() and after != "/":
            return at
        if after == " " and not before.isspace() and text[at + 1 : at + 2].isalpha():
            return at
    return latest
