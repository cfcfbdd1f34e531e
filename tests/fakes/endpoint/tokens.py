"""Prompts as the token sequences that a provider counts, caches and cuts, each text tokenized once.

A message is three marks, its role and its content, and three more marks open the reply, as OpenAI's cookbook counts
chat prompts. Contents are o200k_base, counted as ``okralong.pipelines.core.tokens.count_tokens`` counts them.
"""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, TypeAlias

import bpe_openai

from okralong.pipelines.core.tokens import STRETCH_CHARS

Ids: TypeAlias = "array[int]"

_MARKS = array("I", [2**32 - 1] * 3)
_ROLES = ("system", "developer", "user", "assistant", "tool")
_PARTS = re.compile(r"(?<=\S)(?= [^\W\d_])")
"""Where o200k_base never joins what stands on both sides."""
_REMEMBERED = 8_000_000
"""Tokens that are kept, at four bytes each."""


@cache
def _encoding() -> Any:
    return bpe_openai.get_encoding("o200k_base")


def token_ids(text: str) -> Ids:
    """The o200k_base tokens of a text of any length."""
    ids = array("I")
    for stretch in _stretches(text):
        ids.extend(_encoding().encode_ordinary(stretch))
    return ids


def token_bytes(ids: Sequence[int]) -> bytes:
    """The bytes that these tokens stand for; they may end inside a character."""
    return bytes(_encoding().decode_bytes(list(ids)))


class PromptTokens:
    """Token sequences of prompts. Messages that come again (system prompts, retries) are not tokenized again."""

    def __init__(self) -> None:
        _encoding()  # now, so that the first request does not wait for it
        self._known: OrderedDict[bytes, Ids] = OrderedDict()
        self._size = 0

    def of(self, messages: Sequence[tuple[str, str]]) -> Ids:
        """The whole prompt of ``(role, content)`` messages."""
        ids = array("I")
        for role, content in messages:
            ids.extend(_MARKS)
            ids.append(_MARKS[0] - 1 - _ROLES.index(role))
            ids.extend(self._content(content))
        ids.extend(_MARKS)
        return ids

    def _content(self, content: str) -> Ids:
        key = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        ids = self._known.get(key)
        if ids is not None:
            self._known.move_to_end(key)
            return ids
        ids = token_ids(content)
        self._known[key] = ids
        self._size += len(ids)
        while self._size > _REMEMBERED and len(self._known) > 1:
            self._size -= len(self._known.popitem(last=False)[1])
        return ids


def _stretches(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > STRETCH_CHARS:
        latest = start + STRETCH_CHARS
        ends = [place.start() for place in _PARTS.finditer(text, latest - 2000, latest)]
        end = ends[-1] if ends else latest
        yield text[start:end]
        start = end
    yield text[start:]
