"""The request fields that an endpoint accepts, learned from its refusals."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from okralong.pipelines.llm.errors import LIMITS, ApiError

LEFT_OUT: Final = ("temperature", "top_p", "seed", "prompt_cache_key", "stop")
"""Fields that are left out if an endpoint refuses them, since replies are about as good without."""


@dataclass(frozen=True, slots=True)
class WireFields:
    """The names of fields in a provider's requests; the defaults are OpenAI's.

    Attributes:
        optional: Fields that are left out if an endpoint refuses them.
        format: The field with the form of a reply. It is left out as a whole, and ``RequestFields.left_out`` names it.
        limits: Both names of the field that limits a reply, if servers differ in it; else ().
        stream_options: Whether a stream states its usage only on request.
    """

    optional: tuple[str, ...] = LEFT_OUT
    format: str = "response_format"
    limits: tuple[str, str] | tuple[()] = LIMITS
    stream_options: bool = True


class RequestFields:
    """The request fields that an endpoint accepts, learned from its refusals.

    If an endpoint refuses one of our own (strict) schemas, later requests have no schema; if it refuses a user's
    schema, only that schema is left out. Replies are requested as streams, since a stream that exceeds its limit can be
    aborted, until the endpoint refuses to stream.
    """

    def __init__(
        self,
        limit_field: str = "max_tokens",
        *,
        stream: bool = False,
        schema_optional: bool = True,
        wire: WireFields | None = None,
    ) -> None:
        """If ``schema_optional`` is False, the JSON schema of a reply is never left out."""
        self.limit_field = limit_field
        self._wire = wire or WireFields()
        self._schema_optional = schema_optional
        self._stream = stream
        self._stream_options = self._wire.stream_options
        self._refused: set[str] = set()
        self._no_schema = False
        self._no_json = False
        self._schemas: set[str] = set()
        self._noted: set[str] = set()

    def left_out(self, json_schema: str | None) -> frozenset[str]:
        """Return the fields to leave out of a request with this schema."""
        no_format = self._no_json if json_schema is None else self._no_schema or json_schema in self._schemas
        return frozenset(self._refused | {self._wire.format} if no_format else self._refused)

    @property
    def streaming(self) -> dict[str, Any]:
        """The fields that request a stream with usage at its end; empty if replies are not streamed."""
        if not self._stream:
            return {}
        return {"stream": True} | ({"stream_options": {"include_usage": True}} if self._stream_options else {})

    def is_news(self, refused: str) -> bool:
        """Return whether this is the first refusal of a field; calls already in flight may bring further ones."""
        new = refused not in self._noted
        self._noted.add(refused)
        return new

    def refuse(self, api_error: ApiError, sent: Collection[str], json_schema: str | None) -> str:
        """Note a refusal; return the field that later requests leave out or rename, or "" if there is none.

        ``sent`` are the request's fields. If ``json_schema`` is None, the format only asks for JSON.
        """
        if api_error.body is None:
            return ""
        if api_error.wants_stream:
            return ""
        named = api_error.refused(sent)
        if renamed := self._renamed_limit(api_error, sent):
            return renamed
        if "stream_options" in named and self._stream_options:
            self._stream_options = False
            return "stream_options"
        for name in self._wire.optional:
            if name in named:
                self._refused.add(name)
                return name
        if "stream" in sent and api_error.about_streams:
            self._stream = False
            return "stream"
        if self._wire.format in sent and api_error.refuses_format:
            if json_schema is None:
                self._no_json = True
                return self._wire.format
            if self._schema_optional:
                self._schemas.add(json_schema)
                self._no_schema = self._no_schema or bool(json.loads(json_schema)["strict"])
                return self._wire.format
        return ""

    def _renamed_limit(self, api_error: ApiError, sent: Collection[str]) -> str:
        """Rename the field that limits a reply if the endpoint refuses its name; return the old name, or ""."""
        if not self._wire.limits:
            return ""
        for name, other in (LIMITS, LIMITS[::-1]):
            both = api_error.body is not None and all(each in api_error.body.words for each in LIMITS)
            refused = name in api_error.refused([name]) and api_error.refuses_whatever_value
            if name in sent and (refused or both) and f"not {other}" not in self._noted:
                self._noted.add(f"not {name}")
                self.limit_field = other
                return name
        return ""
