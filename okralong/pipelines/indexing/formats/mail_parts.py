"""Take a mail apart: its bodies in each form, its attachments, and what its headers say."""

from __future__ import annotations

import binascii
import codecs
import email
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email import policy
from email.message import Message
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

from okralong.pipelines.core.encodings import codec_of, decoded

_MOST_NAME_CHARS: Final = 200
_MOST_DEPTH: Final = 50
"""Nesting depth of parts; deeper ones count as attachments. # project default"""
_BODIES: Final = frozenset({"text/plain", "text/html", "text/enriched", "text/rfc822-headers"})
_ALTERNATIVES: Final = frozenset({"text/plain", "text/html", "text/calendar"})
_REPORTS: Final = frozenset({"message/delivery-status", "message/disposition-notification", "message/feedback-report"})
_STYLES: Final = re.compile(r"text/css|text/javascript|application/(?:x-)?javascript|font/|application/font")
_SIGNATURES: Final = re.compile(r"application/(?:x-)?(?:pkcs7|pgp)-signature")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of a mail. ``is_decoration`` means that the body shows it; ``message`` is an attached mail."""

    name: str
    kind: str
    data: Callable[[], bytes]
    is_decoration: bool = False
    message: Message | None = None

    def usual_suffix(self) -> str:
        """Return the suffix of files of this kind or content, "" if there is none that is read."""
        if self.kind in _SUFFIXES:
            return _SUFFIXES[self.kind]
        data = self.data()
        marks = _ZIP_MARKS if data.startswith(b"PK") else {}
        return next(
            (suffix for mark, suffix in _BEGINNINGS.items() if data.startswith(mark)),
            next((suffix for mark, suffix in marks.items() if mark in data), ""),
        )


_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_SUFFIXES: Final = {
    "application/pdf": ".pdf",
    f"{_OFFICE}.wordprocessingml.document": ".docx",
    f"{_OFFICE}.spreadsheetml.sheet": ".xlsx",
    f"{_OFFICE}.presentationml.presentation": ".pptx",
    "text/plain": ".txt",
    "text/html": ".html",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "text/markdown": ".md",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/tiff": ".tif",
}
_BEGINNINGS: Final = {b"%PDF-": ".pdf", b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg"}
_ZIP_MARKS: Final = {b"word/document.xml": ".docx", b"xl/workbook.xml": ".xlsx", b"ppt/presentation.xml": ".pptx"}


@dataclass(slots=True)
class Parts:
    """The parts of a mail: bodies in order, each with its forms; attachments; and the number of encrypted parts."""

    bodies: list[list[Any]] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    encrypted: int = 0


def message_of(data: bytes) -> Message:
    """Parse a message; a byte order mark and blank lines before its headers are skipped."""
    return email.message_from_bytes(data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n"), policy=policy.compat32)


def parts_of(message: Message) -> Parts:
    """Take a message apart, without the mails attached to it."""
    parts = Parts()
    _collect(message, parts, 0)
    return parts


def _collect(part: Any, parts: Parts, depth: int) -> None:
    kind = part.get_content_type()
    children = part.get_payload() if part.is_multipart() else []
    if kind in _REPORTS and children:
        parts.bodies.append([_report(children)])
    elif not kind.startswith("multipart/") or not children:
        _collect_leaf(part, kind, parts)
    elif depth == _MOST_DEPTH:
        parts.attachments.append(_attachment(part, kind, len(parts.attachments) + 1))
    elif kind == "multipart/alternative":
        _collect_forms(children, parts, depth + 1)
    elif kind == "multipart/encrypted":
        parts.encrypted += 1
    else:
        root = _root(part, children) if kind == "multipart/related" else None
        for child in children:
            inner = child.get_content_type()
            if root is None or child is root or child.is_multipart():
                _collect(child, parts, depth + 1)
            elif not _STYLES.match(inner):
                parts.attachments.append(_attachment(child, inner, len(parts.attachments) + 1, in_body=True))


def _root(part: Any, children: Sequence[Any]) -> Any:
    """Return the part that shows the others."""
    start = str(part.get_param("start") or "")
    return next((child for child in children if start and str(child["Content-ID"] or "") == start), children[0])


def _collect_leaf(part: Any, kind: str, parts: Parts) -> None:
    attached = part.get_content_disposition() == "attachment"
    if (
        (kind in _BODIES and not attached and not _file_name(part))
        or kind.startswith("multipart/")
        or (kind == "text/calendar" and not attached)
    ):
        parts.bodies.append([part])
    elif not _SIGNATURES.fullmatch(kind):
        parts.attachments.append(_attachment(part, kind, len(parts.attachments) + 1))


def _collect_forms(children: Sequence[Any], parts: Parts, depth: int) -> None:
    """Join the forms of a body, of each kind the last; attachments of every form are kept."""
    forms: dict[str, Any] = {}
    rest: list[list[Any]] = []
    for child in children:
        kind = child.get_content_type()
        if kind.startswith("text/") and kind not in _BODIES | _ALTERNATIVES and not _file_name(child):
            continue  # a form for watches or scripts
        inner = Parts()
        _collect(child, inner, depth)
        parts.encrypted += inner.encrypted
        parts.attachments += inner.attachments
        for part in inner.bodies[0] if inner.bodies else ():
            forms[part.get_content_type()] = part
        rest += inner.bodies[1:]  # text between the attachments of a form
    if forms:
        parts.bodies.append([part for kind, part in forms.items() if kind in _ALTERNATIVES or len(forms) == 1])
    parts.bodies += rest


def _attachment(part: Any, kind: str, number: int, in_body: bool = False) -> Attachment:
    name = _file_name(part)
    message = None
    if kind == "message/rfc822":
        inner = part.get_payload()
        message = inner[0] if isinstance(inner, list) and inner else None
        if message is not None and not message.keys():  # encoded, although the standard forbids it
            message["Content-Transfer-Encoding"] = str(part["Content-Transfer-Encoding"] or "base64")
            message = message_of(content_of(message))
        name = name or (header(message, "Subject") if message is not None else "") or f"mail {number}"
    shown = part.get_content_disposition() == "inline" or part["Content-ID"] or in_body
    decoration = kind.startswith("image/") and bool(shown)
    name = PurePosixPath(name.replace("\\", "/")).name
    name = " ".join(name.split())[-_MOST_NAME_CHARS:] or f"attachment {number}"
    return Attachment(name, kind, lambda: content_of(part), decoration, message)


def _report(fields: Sequence[Any]) -> Message:
    """Return a delivery report as a text part."""
    said = Message()
    lines = (f"{name}: {header(each, name)}" for each in fields for name in dict.fromkeys(each.keys()))
    said.set_payload("\n".join(lines), "utf-8")
    return said


def content_of(part: Any) -> bytes:
    """Return the bytes of a part, decoded from their transfer encoding as far as possible."""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


_META: Final = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES: Final = 4096
_TAG: Final = re.compile(r"<param>[^<]{0,200}</param>|</?[A-Za-z-]{1,60}>|<(<)")
"""Tags of text/enriched, in which two brackets are one."""


def text_of(part: Any) -> tuple[str, bool]:
    """Return the text of a part, and whether some of it may be wrong; its declared encoding need not be right."""
    data = content_of(part)
    try:
        declared = str(part.get_content_charset() or "")
    except (LookupError, ValueError, TypeError, AttributeError):
        declared = ""
    if part.get_content_type() == "text/html" and codec_of(declared) in ("", "ascii"):
        meta = _META.search(data[:_HEAD_BYTES])
        declared = meta[1].decode() if meta else declared
    text, doubtful = decoded(data, declared)
    if part.get_content_type() == "text/enriched":
        text = _TAG.sub(r"\1", text)
    return text.replace("\r\n", "\n").replace("\x00", " "), doubtful


# Headers. Python decodes each word of a header by its declared encoding, which may be wrong, and words may be cut.

_ENCODED: Final = re.compile(r"=\?([^?\s]{1,60})\?([BbQq])\?([^?\s]*)\?=(\s+(?==\?))?")


def header(message: Any, name: str) -> str:
    """Return a header's text on one line, "" if it is missing or unreadable."""
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(_words(raw).split())


def _words(raw: str) -> str:
    text = decoded(raw.encode("utf-8", "surrogateescape"))[0]
    said: list[str] = []
    pending: list[bytes] = []
    charset, at = "", 0
    for match in _ENCODED.finditer(text):
        if pending and (match[1] != charset or match.start() > at):
            said.append(decoded(b"".join(pending), charset)[0])
            pending = []
        said.append(text[at : match.start()])
        charset = match[1]
        pending.append(_word(match[2], match[3]))
        at = match.end()
    said += [decoded(b"".join(pending), charset)[0], text[at:]]
    return "".join(said).replace("\x00", " ")


def _word(kind: str, said: str) -> bytes:
    try:
        if kind in "Qq":
            return binascii.a2b_qp(said.encode("utf-8"), header=True)
        return binascii.a2b_base64(said.encode("utf-8") + b"=" * (-len(said) % 4))
    except (binascii.Error, ValueError):
        return said.encode("utf-8")


def _file_name(part: Any) -> str:
    """Return the declared file name of a part, or ""."""
    legacy = Message(policy.compat32)
    for key, value in part.raw_items():
        if key.lower() in ("content-disposition", "content-type") and key not in legacy:
            legacy[key] = decoded(str(value).encode("utf-8", "surrogateescape"))[0]
    try:
        name = _words(str(legacy.get_filename() or ""))
        return _CONTROLS.sub(lambda match: match[0].encode("latin-1").decode("cp1252", "replace"), name)
    except (ValueError, TypeError, LookupError, AttributeError):
        return ""


_CONTROLS: Final = re.compile("[\x80-\x9f]")


# Texts.

_BEGIN: Final = re.compile(r"^begin [0-7]{3,4} (\S[^\n]{0,200})\n", re.MULTILINE)


def uuencoded(text: str) -> tuple[str, list[Attachment]]:
    """Return a plain text without the uuencoded files in it, and the files."""
    said, files, at, begin = [], list[Attachment](), 0, 0
    while (match := _BEGIN.search(text, begin)) is not None:
        data, end = _file(text, match.end())
        begin = match.end()
        if end:
            said.append(text[at : match.start()])
            files.append(Attachment(match[1].strip(), "application/octet-stream", partial(bytes, data)))
            at = begin = end
    return "".join([*said, text[at:]]), files


def _file(text: str, at: int) -> tuple[bytes, int]:
    """Return a uuencoded file that begins at ``at``, and where it ends; 0 if it is none."""
    lines: list[bytes] = []
    while (end := text.find("\n", at)) >= 0 or at < len(text):
        end = end if end >= 0 else len(text)
        line = text[at:end].rstrip("\r")
        if line == "end":
            return b"".join(lines), end
        try:
            lines.append(binascii.a2b_uu(line))
        except (binascii.Error, ValueError):
            break
        at = end + 1
    return b"", 0


_PGP: Final = re.compile(
    r"^-----(BEGIN|END) PGP (MESSAGE|SIGNATURE|PUBLIC KEY BLOCK)-----[ \t\r]*$"
    r"|^-----BEGIN PGP SIGNED MESSAGE-----[ \t\r]*\n(?:Hash: [^\n]*\n)*",
    re.MULTILINE,
)


def without_pgp(text: str) -> tuple[str, int]:
    """Return a plain text without encrypted blocks, keys and signatures, and the number of encrypted blocks."""
    said, at, encrypted, begun = [], 0, 0, ""
    for match in _PGP.finditer(text):
        if match[1] != "END" and not begun:
            said.append(text[at : match.start()])
            begun = match[2] or ""
            at = match.start() if begun else match.end()
        elif match[1] == "END" and match[2] == begun:
            encrypted += begun == "MESSAGE"
            at, begun = match.end(), ""
    return "".join([*said, text[at:]]), encrypted


_SHOWN: Final = {
    "SUMMARY": "Event",
    "DTSTART": "Begins",
    "DTEND": "Ends",
    "DUE": "Due",
    "DURATION": "Duration",
    "RRULE": "Repeats",
    "LOCATION": "Place",
    "STATUS": "Status",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "DESCRIPTION": "Description",
}
_LINE: Final = re.compile(r"([A-Z-]{1,40})((?>(?:;[A-Za-z-]+=(?:\"[^\"\n]*\"|[^\":;\n]*))*)):(.*)", re.DOTALL)
_MOMENT: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")


def calendar_text(text: str) -> str:
    """Return the events and tasks of a calendar part (iCalendar) as lines of text."""
    lines: list[str] = []
    within: list[str] = []
    for line in re.sub(r"\r?\n[ \t]", "", text).splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            continue
        name, about, value = match[1], match[2], match[3]
        if name == "BEGIN":
            within.append(value.strip())
            lines += [""] if value.strip() in ("VEVENT", "VTODO") else []
        elif name == "END":
            del within[-1:]
        elif within[-1:] in (["VEVENT"], ["VTODO"], ["VJOURNAL"]) and name in _SHOWN and value.strip():
            lines.append(f"{_SHOWN[name]}: {_value(name, about, value)}")
    return "\n".join(lines).strip()


def _value(name: str, about: str, value: str) -> str:
    if (moment := _MOMENT.fullmatch(value.strip())) is not None:
        year, month, day, hour, minute, utc = moment.groups()
        zone = re.search(r";TZID=\"?([^\":;]+)", about)
        time = f" {hour}:{minute}{' UTC' if utc else f' {zone[1]}' if zone else ''}" if hour else ""
        return f"{year}-{month}-{day}{time}"
    if name in ("ORGANIZER", "ATTENDEE"):
        who = re.search(r";CN=(?:\"([^\"]*)\"|([^;:]*))", about)
        address = re.sub("^mailto:", "", value.strip(), flags=re.IGNORECASE)
        return f"{who[1] or who[2]} <{address}>" if who else address
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] in "nN" else match[1], value).strip()
