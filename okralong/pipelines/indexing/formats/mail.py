"""Parse mails: headers, body, and attachments through the parsers of their formats."""

from __future__ import annotations

import email
import email.utils
from collections.abc import Callable, Iterator
from email import policy
from email.message import EmailMessage
from pathlib import PurePosixPath
from typing import Any, Final

from okralong.pipelines.core.types import DocumentError, Section
from okralong.pipelines.indexing.documents import BadRow, Blocks, HeldSource, Parser, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats.html import page_of_html

_HEADERS: Final = ("From", "To", "Cc", "Date", "Subject")
_MOST_DEPTH: Final = 5
"""Nesting depth of mails; deeper ones are named but not read. # project default"""
_MOST_ATTACHMENTS: Final = 200
_MOST_NAME_CHARS: Final = 200


def read_mail(source: Source, find: Callable[[str], Parser | None]) -> Iterator[ParserOutput]:
    """Yield the document of an .eml file; ``find`` returns the parser of an attachment by its name.

    Attachments of unsupported kinds and pictures in the body are only named; attachments that cannot be read become
    BadRows.

    Raises:
        DocumentError: The file is not a mail.
    """
    message = email.message_from_bytes(source.read_bytes(), policy=policy.default)
    if not any(_header(message, name) for name in _HEADERS):
        raise DocumentError(
            f"{source.uri} has none of the headers of a mail ({', '.join(_HEADERS)}). Save it again as .eml, or give "
            "it the suffix of its true format."
        )
    mail = _Mail(source, find)
    mail.write(message, "", 0)
    metadata = {
        name: value
        for name, value in {
            "date": _day(_header(message, "Date")),
            "from": _header(message, "From"),
            "attachments": str(mail.attachments) if mail.attachments else "",
            "attachments_not_read": str(mail.unread) if mail.unread else "",
        }.items()
        if value
    }
    yield from mail.bad
    yield mail.blocks.document(source, _header(message, "Subject"), metadata)


class _Mail:
    """Collects the text of a mail and the mails attached to it."""

    def __init__(self, source: Source, find: Callable[[str], Parser | None]) -> None:
        self._source, self._find = source, find
        self.blocks = Blocks()
        self.bad: list[BadRow] = []
        self.attachments = self.unread = 0

    def write(self, message: EmailMessage, called: str, depth: int) -> None:
        """Add headers, body and attachments; ``called`` is the path of an attached mail."""
        parts = list(message.iter_attachments()) if message.is_multipart() else []
        names = [_name(part, number) for number, part in enumerate(parts, start=1)]
        head = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
        self.blocks.add("\n".join(head + ([f"Attachments: {', '.join(names)}"] if names else [])))
        self.blocks.add(self._body(message))
        for name, part in zip(names, parts, strict=True):
            self.attachments += 1
            if self.attachments > _MOST_ATTACHMENTS:
                self.unread += 1
                continue
            self._attachment(part, f"{called}{name}", depth)

    def _body(self, message: EmailMessage) -> str:
        body = message.get_body(("plain", "html"))
        if body is None:
            return ""
        text = _text_of(body)
        if body.get_content_type() != "text/html" or not text.strip():
            return text
        return page_of_html(text, self._source.uri).text

    def _attachment(self, part: Any, name: str, depth: int) -> None:
        kind = part.get_content_type()
        if kind == "message/rfc822" or name.lower().endswith(".eml"):
            inner = part.get_content()
            if isinstance(inner, bytes):
                inner = email.message_from_bytes(inner, policy=policy.default)
            if depth == _MOST_DEPTH or not isinstance(inner, EmailMessage):
                self.unread += 1
                return
            self.blocks.begin("attachment", name)
            self.write(inner, f"{name}, ", depth + 1)
            return
        read = self._find(name)
        in_body = part.get_content_maintype() == "image" and (part["Content-ID"] or _is_inline(part))
        if read is None or in_body:
            self.unread += 1
            return
        data = part.get_payload(decode=True)
        place = f"{self._source.uri}, attachment {name}"
        held = HeldSource(place, self._source.doc_id, len(data or b""), data=data or b"")
        try:
            for reading in read(held):
                self._take(reading, name)
        except DocumentError as error:
            self.unread += 1
            self.bad.append(BadRow(f"{self._source.doc_id}, {name}", str(error)))

    def _take(self, reading: ParserOutput, name: str) -> None:
        if isinstance(reading, BadRow):
            self.bad.append(BadRow(f"{self._source.doc_id}, {name}", reading.message))
            return
        self.blocks.begin("attachment", name, _begins_with_ocr(reading))
        start = self.blocks.add(reading.text)
        inner = (each for each in reading.sections if each.kind != "heading")
        shift = start - (len(reading.text) - len(reading.text.lstrip("\n")))
        self.blocks.add_sections(
            Section("attachment", f"{name}, {each}", max(start, shift + each.start_char), each.ocr) for each in inner
        )


def _begins_with_ocr(document: RawDocument) -> bool:
    return bool(document.sections) and document.sections[0].ocr


def _header(message: EmailMessage, name: str) -> str:
    """Return a header's text on one line, "" if it is missing or unreadable."""
    try:
        return " ".join(str(message[name] or "").split())
    except (ValueError, TypeError, IndexError, AttributeError):  # the standard parser fails on some odd headers
        return ""


def _name(part: Any, number: int) -> str:
    try:
        name = str(part.get_filename() or "")
    except (ValueError, TypeError, AttributeError):
        name = ""
    if not name and part.get_content_type() == "message/rfc822":
        inner = part.get_content()
        name = (_header(inner, "Subject") if isinstance(inner, EmailMessage) else "") or f"mail {number}"
    name = PurePosixPath(name.replace("\\", "/")).name
    return " ".join(name.split())[-_MOST_NAME_CHARS:] or f"attachment {number}"


def _is_inline(part: Any) -> bool:
    return bool(part.get_content_disposition() == "inline")


def _text_of(part: Any) -> str:
    """Return the text of a part, even if its declared encoding is wrong."""
    try:
        return str(part.get_content())
    except (LookupError, ValueError):
        return bytes(part.get_payload(decode=True) or b"").decode("utf-8", "replace")


def _day(said: str) -> str:
    try:
        return email.utils.parsedate_to_datetime(said).date().isoformat()
    except (ValueError, TypeError, IndexError):
        return ""
