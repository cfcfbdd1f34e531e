"""Values to JSON and back, exactly: what the journal keeps must come back as it was.

Dataclasses become objects with their fields' names and are read back by their type hints, so a new field needs no
code here. Floats keep all their digits.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def encode(value: Any) -> str:
    """JSON of a dataclass or of a plain value; ASCII only, so that a broken surrogate survives as well."""
    return json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=True)


def decode(kind: type[T], text: str) -> T:
    """The value of type ``kind`` that ``encode`` wrote. Raises ValueError naming the type when it is another's."""
    try:
        return typing.cast(T, _typed(kind, json.loads(text)))
    except (TypeError, KeyError) as error:
        raise ValueError(f"This is not the JSON of a {getattr(kind, '__name__', kind)}: {text[:200]}") from error


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@lru_cache(maxsize=256)
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _typed(kind: Any, data: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if data is None else _typed(next(one for one in arguments if one is not types.NoneType), data)
    if origin is tuple and arguments[-1] is Ellipsis:
        return tuple(_typed(arguments[0], item) for item in data)
    if origin is tuple:
        return tuple(_typed(one, item) for one, item in zip(arguments, data, strict=True))
    if origin in (list, Sequence):
        return [_typed(arguments[0], item) for item in data]
    if origin in (dict, Mapping):
        return {key: _typed(arguments[1], item) for key, item in data.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        known = _hints(kind)
        return kind(**{name: _typed(known[name], item) for name, item in data.items()})
    return float(data) if kind is float else data
