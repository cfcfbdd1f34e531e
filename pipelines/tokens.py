"""Counting tokens: o200k_base for sizes that the method names, the generator's own vocabulary for its window.

``bpe-openai`` carries o200k_base in the package and counts as tiktoken does; tiktoken would fetch it at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import bpe_openai
from tokenizers import Tokenizer

from okralong.pipelines.errors import ConfigError

CountTokens = Callable[[str], int]


@lru_cache(maxsize=1)
def _o200k() -> bpe_openai.Encoding:
    return bpe_openai.get_encoding("o200k_base")


def count_tokens(text: str) -> int:
    """Number of o200k_base tokens in ``text``; special-token look-alikes count as ordinary text."""
    return len(_o200k().encode_ordinary(text))


def count_tokens_batch(texts: list[str]) -> list[int]:
    """``count_tokens`` of each text, in one call into the tokenizer."""
    return [len(ids) for ids in _o200k().encode_ordinary_batch(texts)]


def token_counter(name: str) -> CountTokens:
    """A counter by name: ``o200k_base``, or a folder or file that holds a ``tokenizer.json``.

    Raises ConfigError when the name is neither.
    """
    if name == "o200k_base":
        return count_tokens
    path = Path(name)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(
            f"llm.tokenizer is {name!r}, which is neither o200k_base nor a folder with a tokenizer.json. "
            "Name o200k_base for OpenAI models, or the folder of the local model that answers."
        )
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
