"""Read what a server says in an error response, in any of the forms that servers with OpenAI's protocol use.

OpenAI sends ``error.message`` and ``error.param``. FastAPI sends ``detail``: a text, or a list with ``loc`` and
``msg``; Mistral puts that list into ``message``. Gemini sends a list with ``fieldViolations``. Gateways quote the error
of the server behind them inside a text, as JSON or as Python's ``repr``. Proxies send web pages. None of it is trusted:
sizes and depths are bounded, and every scan takes linear time.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

READ_CHARS: Final = 20_000  # project default
"""The most characters of an error's body that are read."""
WORDS_CHARS: Final = 2_000  # project default
"""The most characters of the server's words that are kept and searched for the names of fields."""
SHOWN_CHARS: Final = 300  # project default
"""The most characters of a quotation in a message."""
MOST_NODES: Final = 400  # project default
DEEPEST: Final = 12  # project default

_TEXTS: Final = (
    "message",
    "msg",
    "detail",
    "details",
    "error",
    "errors",
    "errormessage",
    "error_message",
    "error_description",
    "error_msg",
    "errmsg",
    "status_msg",
    "base_resp",
    "description",
    "originalmessage",
    "title",
    "reason",
    "metadata",
    "raw",
    "innererror",
    "output",
    "fieldviolations",
    "response",
    "body",
)
"""Keys, in lower case, whose value is words or a nested error; those with the plainest words first."""
_FIELDS: Final = ("param", "field", "parameter", "property", "pointer", "loc", "additionalproperty")
"""Keys whose value is the name or the path of a field."""
_CODES: Final = ("code", "type", "status", "error_code", "errorcode", "error_type", "__type", "kind")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAGE: Final = re.compile(r"<!doctype html|<html[\s>]|<head[\s>]|<body[\s>]|<title[\s>]", re.IGNORECASE)
_PYDANTIC: Final = re.compile(r"\[type=\w{1,60}, input_value=[^\n]{0,300}\]|For further information visit \S{1,200}")
_SDK: Final = re.compile(r"(?:\b[\w.]{1,80}(?:Error|Exception): )?Error code: \d+(?: - )?")
_OBJECT: Final = re.compile(r"<[^<>]{1,200}>")
_CALL: Final = re.compile(r"\b\w{1,60}(?:Error|Exception|Response)\((?=['\"\w\[{])")


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The content of an error response.

    Attributes:
        words: The server's words on one line, at most ``WORDS_CHARS`` characters; "" if it sent none.
        codes: Error codes and types in lower case, outermost first.
        fields: The names of the fields that are marked as refused, or the parts of their paths.
        status: A status from 400 to 599 that the body states, or 0.
        page: Whether it is a web page, as proxies send.
    """

    words: str = ""
    codes: tuple[str, ...] = ()
    fields: frozenset[str] = field(default_factory=frozenset)
    status: int = 0
    page: bool = False

    @property
    def shown(self) -> str:
        """The server's words, shortened for a message."""
        return shortened(self.words) or "no message"


def shortened(text: str) -> str:
    """Return at most ``SHOWN_CHARS`` characters of ``text``, on one line and without its final period."""
    line = " ".join(text[: 4 * SHOWN_CHARS].split()).rstrip(". ")
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1].rstrip()}…"


def read_error(body: object) -> ErrorBody:
    """Read the body of an error, given as bytes, text or parsed JSON."""
    if isinstance(body, bytes):
        body = body[: 4 * READ_CHARS].decode("utf-8", "replace")
    if isinstance(body, str):
        text = body[:READ_CHARS].strip()
        body = _parsed(text)
        if body is None:
            if _PAGE.search(text[:2000]):
                return ErrorBody(words=page_words(text), page=True)
            body = text
    found = _Walk()
    found.walk(body, 0)
    words = found.words()
    if not words and isinstance(body, Mapping | list) and body:
        words = json.dumps(body, ensure_ascii=False, default=str)
    return ErrorBody(
        words[:WORDS_CHARS],
        tuple(dict.fromkeys(found.codes)),
        frozenset(found.fields),
        next(iter(found.statuses), 0),
    )


def is_error(body: Mapping[str, Any]) -> bool:
    """Return whether JSON that came with status 200 is an error."""
    if "error" in (body.get("object"), body.get("type")) or any(
        body.get(name) for name in ("error", "errors", "detail")
    ):
        return True
    return any(isinstance(body.get(name), str) for name in ("message", "msg", "error_msg")) or "base_resp" in body


def page_words(text: str) -> str:
    """Return the visible text of a web page."""
    reader = _Page()
    with suppress(AssertionError):  # the parser raises it for a malformed declaration
        reader.feed(text[:READ_CHARS])
    said = [" ".join(part.split()) for part in reader.parts]
    return ". ".join(_without_repeats(part for part in said if part))[:WORDS_CHARS]


class _Page(HTMLParser):
    """Collects the text of a page, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "svg", "noscript") and not self._hidden:
            self._hidden = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.parts.append(data)


def _parsed(text: str) -> Any:
    """Parse an object or list (JSON or a Python literal) or a JSON string; return None for any other text."""
    if not text or text[0] not in '[{"':
        return None
    try:
        return json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= 18 else 0


class _Walk:
    """Collects the words, codes and fields of an error, outermost first."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.fields: set[str] = set()
        self.statuses: list[int] = []
        self._texts: list[str] = []
        self._nodes = 0

    def words(self) -> str:
        return ". ".join(_without_repeats(self._texts))

    def walk(self, value: object, depth: int) -> None:
        self._nodes += 1
        if depth > DEEPEST or self._nodes > MOST_NODES:
            return
        if isinstance(value, str):
            self._say(value, depth)
        elif isinstance(value, list | tuple):
            for each in value[:MOST_NODES]:
                self.walk(each, depth + 1)
        elif isinstance(value, Mapping):
            self._error(value, depth)

    def _error(self, value: Mapping[Any, Any], depth: int) -> None:
        known = {str(key).lower(): each for key, each in list(value.items())[:MOST_NODES]}
        for name in _CODES:
            self._code(known.get(name))
        about = ""
        for name in _FIELDS:
            parts = list(_parts(known.get(name)))
            self.fields.update(parts)
            if parts and name != "param":
                about = about or parts[-1]
        for name in ("params", "source"):  # AJV: {"params": {"additionalProperty": "seed"}}; JSON:API: a pointer
            if isinstance(known.get(name), Mapping) and depth < DEEPEST:
                self._error(known[name], depth + 1)
        before = len(self._texts)
        for name in _TEXTS:
            if name in known:
                self.walk(known[name], depth + 1)
        if about and len(self._texts) > before and about not in self._texts[before]:
            self._texts[before] = f"{about}: {self._texts[before]}"
        if len(self._texts) == before and depth:
            self._by_field(known)

    def _by_field(self, known: Mapping[str, Any]) -> None:
        """Read ``{"seed": ["Unknown field."]}``, as some frameworks report fields."""
        for name, said in known.items():
            first = said[0] if isinstance(said, list) and said else said
            if name in _CODES or not _WORD.fullmatch(name) or not isinstance(first, str) or " " not in first:
                continue
            self.fields.add(name)
            self._texts.append(f"{name}: {plain_words(first)}")

    def _code(self, value: object) -> None:
        if isinstance(value, str) and value.isdecimal() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            self.statuses.append(value)
        elif isinstance(value, str) and 0 < len(value) <= 100 and value.lower() not in ("none", "null", "error"):
            self.codes.append(value.rpartition("#")[2].lower())

    def _say(self, text: str, depth: int) -> None:
        text = text[:READ_CHARS].strip()
        nested = _parsed(text)
        if nested is not None:
            self.walk(nested, depth + 1)
            return
        if _PAGE.search(text[:2000]):
            self._texts.append(page_words(text))
            return
        # A gateway quotes the error of the server behind it: "Error code: 400 - {'error': {'message': ...}}".
        for opening, closing in sorted((("{", "}"), ("[", "]")), key=lambda pair: text.find(pair[0])):
            start, end = text.find(opening), text.rfind(closing) + 1
            nested = _parsed(text[start:end]) if 0 <= start < end else None
            if isinstance(nested, Mapping) or (isinstance(nested, list) and nested and isinstance(nested[0], Mapping)):
                inner = _Walk()
                inner.walk(nested, depth + 1)
                self.codes += inner.codes
                self.fields |= inner.fields
                self.statuses += inner.statuses
                if said := inner.words():
                    text = f"{text[:start]}{said}{text[end:]}"
                break
        if said := plain_words(text):
            self._texts.append(said)


def _parts(value: object) -> Iterator[str]:
    """Yield the names of which the name or path of a field consists."""
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str):
            yield from (part for part in _WORD.findall(each[:200]) if part not in ("body", "None", "null"))


def plain_words(text: str) -> str:
    """Return a text on one line, without any objects that a library printed into it."""
    text = _OBJECT.sub(" ", _PYDANTIC.sub(" ", _SDK.sub(" ", html.unescape(text[: 2 * WORDS_CHARS]))))
    text = " ".join(_CALL.sub("", text).split())
    return text[:-1] if text.endswith(")") and text.count(")") > text.count("(") else text


def _without_repeats(texts: Iterator[str] | list[str]) -> list[str]:
    kept: list[str] = []
    for text in texts:
        text = text.rstrip(". ")
        if text and not any(text in other for other in kept):
            kept = [other for other in kept if other not in text]
            kept.append(text)
        if len(kept) > 20:
            break
    return kept
