"""Count tokens: o200k_base for the sizes of the method, the generator's own vocabulary for its window.

``bpe-openai`` ships o200k_base and counts like tiktoken, which would download it at run time.
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
"""A character has at most four tokens, so a piece stays below the tokenizer's limit."""
_LOOK_BACK: Final = 5_000
_REMEMBERED_CHARS: Final = 32_768
"""Longest text whose count is cached; the cache then takes a few megabytes at most. # project default"""


@lru_cache(maxsize=1)
def _o200k() -> bpe_openai.Encoding:
    # Imported here: it takes 0.5 s and 60 MB, and neither the command line nor a parser process counts tokens.
    import bpe_openai

    return bpe_openai.get_encoding("o200k_base")


def count_tokens(text: str) -> int:
    """Return the number of o200k_base tokens in a text; special tokens count as ordinary text.

    The tokenizer refuses texts of a million characters or 200,000 tokens, so a long text is split and counted in
    pieces, at places where o200k_base never joins the two sides. The count is exact unless 5,000 characters in a row
    have no such place: each split may then add one or two tokens.
    """
    # The package's batch call passes each text to a thread pool, which takes 3 to 8 times as long.
    return sum(len(_o200k().encode_ordinary(part)) for part in _stretches(text))


def count_again(text: str) -> int:
    """Return ``count_tokens``, cached: prompts are counted to fit the window and again to reserve their cost."""
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else count_tokens(text)


@lru_cache(maxsize=256)
def _remembered(text: str) -> int:
    return count_tokens(text)


def token_counter(name: str) -> CountTokens:
    """Return the counter ``o200k_base``, or that of a folder or file with a ``tokenizer.json``.

    Raises:
        ConfigError: The name is neither.
    """
    if name == O200K:
        return count_again
    tokenizer = Tokenizer.from_file(str(_tokenizer_file(name)))
    tokenizer.no_truncation()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def tokenizer_digest(name: str) -> str:
    """Return ``o200k_base``, or the sha256 of another tokenizer's file. Raises as ``token_counter``."""
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
    """Return the last offset up to ``latest`` that always separates two tokens, or ``latest`` if none is near."""
    for at in range(latest, latest - _LOOK_BACK, -1):
        before, after = text[at - 1], text[at]
        if before == "\n" and not after.isspace() and after != "/":
            return at
        if after == " " and not before.isspace() and text[at + 1 : at + 2].isalpha():
            return at
    return latest
