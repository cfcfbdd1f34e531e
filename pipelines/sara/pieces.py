"""What a prompt of SARA is made of, without torch: texts, vectors that stand where tokens would, messages of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from okralong.pipelines.core.types import VECTORS_PLACE, Message


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Vectors of a generator's token-embedding space: a tensor of shape (rows, hidden); on the way to a server, which
    alone has that generator, ``TokenVectors``.
    """

    rows: Any


Piece = Text | Vectors


@dataclass(frozen=True, slots=True)
class MixedMessage:
    """A chat message whose content is pieces. ``role`` is "system", "user" or "assistant"."""

    role: str
    content: tuple[Piece, ...]


def to_messages(mixed: Sequence[MixedMessage]) -> list[Message]:
    """The same as messages to be sent; the vectors in them are ``TokenVectors``."""
    return [
        Message(
            each.role,
            "".join(VECTORS_PLACE if isinstance(p, Vectors) else plain(p.text) for p in each.content),
            tuple(p.rows for p in each.content if isinstance(p, Vectors)),
        )
        for each in mixed
    ]


def plain(text: str) -> str:
    """``text`` without the sign that holds a vector's place."""
    return text.replace(VECTORS_PLACE, " ")
