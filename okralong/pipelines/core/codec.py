"""JSON of journal bodies: dataclasses to text and back without loss, through pydantic's ``TypeAdapter``.

``json`` writes and parses the text itself, because pydantic's own writer and parser refuse the lone surrogates that
replies may contain and write floats in another form (``1e-7`` for ``1e-07``), which would change recorded bodies.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter

T = TypeVar("T")

_ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)


def encode(value: Any) -> str:
    """Return the JSON of a dataclass or plain value, in ASCII."""
    return json.dumps(_ANY.dump_python(value), separators=(",", ":"))


def decode(kind: type[T], text: str) -> T:
    """Return the value of type ``kind`` that ``encode`` wrote.

    Raises:
        ValueError: The text is the JSON of another type.
    """
    (value,) = _adapter(cast(Any, kind)).validate_python((json.loads(text),))
    return cast(T, value)


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[tuple[Any]]:
    alone: Any = tuple[kind]
    return TypeAdapter(alone, config=ConfigDict(extra="forbid"))  # pydantic refuses a config for a bare dataclass
