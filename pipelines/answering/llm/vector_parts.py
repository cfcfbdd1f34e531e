"""Messages with vectors in them, as they go over the wire: a list of parts, texts and vectors in turn.

OpenAI's protocol allows a list of parts where a text may stand. To its ``{"type": "text", "text": ...}`` comes
``{"type": "vectors", "data": ..., "rows": n}``, whose data are n rows of little-endian float32 in base64. Only our own
server reads them (``pipelines/sara/protocol.py``). A message without vectors is a text, as everywhere.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any, Final

from okralong.pipelines.core.types import VECTORS_PLACE, Message, TokenVectors

TEXT: Final = "text"
VECTORS: Final = "vectors"
"""The types of parts."""

Content = str | list[dict[str, Any]]


def content_sent(message: Message) -> Content:
    """What is sent as the message's content."""
    return _content(message, lambda each: {"data": base64.b64encode(each.data).decode("ascii")})


def content_named(message: Message) -> Content:
    """The same for the journal and the hash of a request: vectors by the sha256 of their data.

    The data themselves are the archive's, tens of kilobytes a question, and none of them could be read.
    """
    return _content(message, lambda each: {"sha256": hashlib.sha256(each.data).hexdigest()})


def content_shown(content: object) -> str:
    """A content of either form as a person may read it."""
    if not isinstance(content, list):
        return str(content)
    return "".join(
        str(part.get("text", "")) if part.get("type") == TEXT else f"[{part.get('rows')} vector(s)]" for part in content
    )


def _content(message: Message, said: Callable[[TokenVectors], dict[str, Any]]) -> Content:
    if not message.vectors:
        return message.content
    texts = message.content.split(VECTORS_PLACE)
    if len(texts) != len(message.vectors) + 1:
        raise ValueError(f"The message has {len(texts) - 1} places for {len(message.vectors)} pieces of vectors.")
    parts: list[dict[str, Any]] = [{"type": TEXT, "text": texts[0]}]
    for each, text in zip(message.vectors, texts[1:], strict=True):
        parts += [{"type": VECTORS, "rows": each.rows, **said(each)}, {"type": TEXT, "text": text}]
    return [part for part in parts if part["type"] == VECTORS or part["text"]]
