"""Parse mails: headers, body, and attachments through the parsers of their formats."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Callable, Iterator, Sequence
from email.message import Message
from typing import Any, Final

from okralong.pipelines.core.encodings import decoded
from okralong.pipelines.core.types import NOT_READ, DocumentError, Section
from okralong.pipelines.indexing.documents import (
    BadRow,
    Blocks,
    HeldSource,
    Losses,
    Parser,
    ParserOutput,
    RawDocument,
    Source,
)
from okralong.pipelines.indexing.formats.html import page_of_html
from okralong.pipelines.indexing.formats.mail_parts import (
    Attachment,
    calendar_text,
    header,
    message_of,
    parts_of,
    text_of,
    uuencoded,
    without_pgp,
)

_HEADERS: Final = ("From", "To", "Cc", "Date", "Subject")
_MOST_DEPTH: Final = 5
"""Nesting depth of mails; deeper ones are named but not read. # project default"""
_MOST_ATTACHMENTS: Final = 200
_NAMED: Final = 5
"""Attachments that were not read and are named in the warning. # project default"""
_PICTURE_BYTES: Final = 10_000
"""Pictures in the body of fewer bytes are taken for logos and counters. # project default"""
_FORMS: Final = ("text/html", "text/calendar")
_CLOSED: Final = re.compile(
    r"application/(?:x-)?pkcs7-mime|application/pgp-encrypted|.*\.(?:p7m|pgp|gpg|asc)"
    r"|application/(?:vnd\.)?ms-tnef|win(?:mail)?\.dat"
)
"""Kinds and names of attachments that are encrypted, or containers of Outlook."""


def read_mail(source: Source, find: Callable[[str], Parser | None]) -> Iterator[ParserOutput]:
    """Yield the document of an .eml file; ``find`` returns the parser of an attachment by its name.

    Attachments of unsupported kinds are named and counted; those that cannot be read become BadRows too.

    Raises:
        DocumentError: The file is not a mail.
    """
    message = message_of(source.read_bytes())
    if not any(header(message, name) for name in _HEADERS):
        raise DocumentError(
            f"{source.uri} has none of the headers of a mail ({', '.join(_HEADERS)}). Save it again as .eml, or give "
            "it the suffix of its true format."
        )
    mail = _Mail(source, find)
    mail.write(message, "", 0)
    metadata = {
        name: value
        for name, value in {
            "date": _day(header(message, "Date")),
            "from": header(message, "From"),
            "attachments": str(mail.attachments) if mail.attachments else "",
            "attachments_not_read": str(len(mail.unread)) if mail.unread else "",
        }.items()
        if value
    }
    yield from mail.bad
    yield mail.blocks.document(source, header(message, "Subject"), metadata | mail.losses().metadata())


class _Mail:
    """Collects the text of a mail and the mails attached to it."""

    def __init__(self, source: Source, find: Callable[[str], Parser | None]) -> None:
        self._source, self._find = source, find
        self._losses = Losses()
        self.blocks = Blocks()
        self.bad: list[BadRow] = []
        self.unread: list[str] = []
        self.attachments = 0

    def losses(self) -> Losses:
        """Return what the document does not give, with the names of the attachments that were not read."""
        all_of_it = Losses()
        names = ", ".join(self.unread[:_NAMED]) + (", …" if len(self.unread) > _NAMED else "")
        all_of_it.add("attachment", "attachments", len(self.unread), names)
        all_of_it.include(self._losses)
        return all_of_it

    def write(self, message: Message, called: str, depth: int) -> None:
        """Add headers, body and attachments; ``called`` is the path of an attached mail."""
        parts = parts_of(message)
        body, held, has_page = self._body(parts.bodies)
        self._losses.add("encrypted part", "encrypted parts", parts.encrypted)
        held = [*parts.attachments, *held]
        names = [each.name for each in held if not each.is_decoration]
        head = [f"{name}: {value}" for name in _HEADERS if (value := header(message, name))]
        self.blocks.add("\n".join(head + ([f"Attachments: {', '.join(names)}"] if names else [])))
        for text in body:
            self.blocks.add(text)
        for each in held:
            if each.is_decoration and not has_page:  # a page counts its pictures
                self._losses.add("picture", "pictures", int(len(each.data()) >= _PICTURE_BYTES))
            self._attachment(each, f"{called}{each.name}", depth)

    def _body(self, bodies: Sequence[Sequence[Any]]) -> tuple[list[str], list[Attachment], bool]:
        """Return the texts of the body, files that stand within them, and whether one of the texts is a page.

        Each of ``bodies`` comes in one or several forms.
        """
        has_page = False
        texts: list[str] = []
        held: list[Attachment] = []
        for forms in bodies:
            said = {part.get_content_type(): text_of(part) for part in forms}
            events = [calendar_text(text) for kind, (text, _) in said.items() if kind == "text/calendar"]
            markup, doubtful_markup = said.get("text/html", ("", False))
            plain, doubtful = next((each for kind, each in said.items() if kind not in _FORMS), ("", False))
            rich, lost = self._page(markup)
            if rich.strip() and _says_more(rich, plain):
                self._losses.include(lost)
                has_page = True
                texts += [rich, *events]
                doubtful = doubtful_markup
            else:
                plain, files = uuencoded(plain)
                plain, encrypted = without_pgp(plain)
                held += files
                self._losses.add("encrypted part", "encrypted parts", encrypted)
                texts += [plain, *events]
            self._losses.add("text in an unknown encoding", "texts in an unknown encoding", int(doubtful))
        return [text for text in texts if text.strip()], held, has_page

    def _page(self, markup: str) -> tuple[str, Losses]:
        try:
            page = page_of_html(markup, self._source.uri)
        except DocumentError:  # an empty one
            return "", Losses()
        except MemoryError:
            raise
        except Exception:  # a parser may fail in any way on a damaged page; the rest of the mail is read
            self._losses.add("page that cannot be read", "pages that cannot be read")
            return "", Losses()
        return page.text, page.losses

    def _attachment(self, held: Attachment, name: str, depth: int) -> None:
        if held.is_decoration:
            return
        self.attachments += 1
        closed = _CLOSED.fullmatch(held.kind) or _CLOSED.fullmatch(held.name.lower())
        is_mail = held.kind == "message/rfc822" or name.lower().endswith(".eml")
        elsewhere = held.kind.startswith("message/") and not is_mail  # a part or a link of another message
        if self.attachments > _MOST_ATTACHMENTS or closed or elsewhere:
            self.unread.append(name)
        elif is_mail:
            inner = held.message or message_of(held.data())
            if depth == _MOST_DEPTH or not any(header(inner, each) for each in _HEADERS):
                self.unread.append(name)
            else:
                self.blocks.begin("attachment", name)
                self.write(inner, f"{name}, ", depth + 1)
        elif held.kind == "text/calendar" or name.lower().endswith(".ics"):
            self._take(RawDocument(name, calendar_text(decoded(held.data())[0]), ""), name)
        elif (read := self._find(held.name)) is not None:
            self._read(read, held.data(), name, "")
        elif (suffix := held.usual_suffix()) and (read := self._find(f"a{suffix}")) is not None:
            self._read(read, held.data(), name, suffix)
        else:
            self.unread.append(name)

    def _read(self, read: Parser, data: bytes, name: str, suffix: str) -> None:
        place = f"{self._source.uri}, attachment {name}{suffix}"
        found = HeldSource(place, self._source.doc_id, len(data), data=data)
        try:
            for reading in read(found):
                self._take(reading, name)
        except DocumentError as error:
            self._fail(name, str(error))
        except MemoryError:
            raise
        except Exception as error:  # a parser may fail in any way on a damaged file
            self._fail(name, f"{place} made its parser fail ({type(error).__name__}: {error}).")

    def _fail(self, name: str, message: str) -> None:
        if self.unread[-1:] != [name]:  # a file may have several bad rows
            self.unread.append(name)
        self.bad.append(BadRow(f"{self._source.doc_id}, {name}", message))

    def _take(self, reading: ParserOutput, name: str) -> None:
        if isinstance(reading, BadRow):
            self._fail(name, reading.message)
            return
        if not reading.text.strip():
            self.unread.append(name)
        self._losses.add_within(name, reading.metadata.get(NOT_READ, ""))
        self.blocks.begin("attachment", name, _begins_with_ocr(reading))
        start = self.blocks.add(reading.text)
        inner = (each for each in reading.sections if each.kind != "heading")
        shift = start - (len(reading.text) - len(reading.text.lstrip("\n")))
        self.blocks.add_sections(
            Section("attachment", f"{name}, {each}", max(start, shift + each.start_char), each.ocr) for each in inner
        )


_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"\d[\d.,]*")
_TIMES_MORE: Final = 2.0
"""The HTML form of a body is taken if it has this many times the words of the plain one. # project default"""


def _says_more(rich: str, plain: str) -> bool:
    """Return whether the HTML form has numbers that the plain one lacks, or far more words: "view this in HTML"."""
    numbers = {match[0].rstrip(".,") for match in _NUMBER.finditer(rich)}
    if numbers - {match[0].rstrip(".,") for match in _NUMBER.finditer(plain)}:
        return True
    return len(_WORD.findall(rich)) > _TIMES_MORE * len(_WORD.findall(plain))


def _begins_with_ocr(document: RawDocument) -> bool:
    return bool(document.sections) and document.sections[0].ocr


def _day(said: str) -> str:
    try:
        return email.utils.parsedate_to_datetime(said).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""
