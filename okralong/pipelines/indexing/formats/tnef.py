"""Unpack ``winmail.dat``: the container (TNEF) in which Outlook sends bodies and attachments to other programs.

The library ``tnefparse`` copies the rest of the file for each attribute, nests without bound and raises on common
files; its last release is of 2021. This reader takes linear time and reads all its sample files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from striprtf.striprtf import rtf_to_text

from okralong.pipelines.core.encodings import decoded

_SIGNATURE: Final = 0x223E9F78
_BODY, _MESSAGE, _CODE_PAGE = 0x800C, 0x9003, 0x9007
_BEGIN, _TITLE, _DATA, _ATTACHMENT = 0x9002, 0x8010, 0x800F, 0x9005
"""Attributes of a message and of its attachments."""
_P_BODY, _P_HTML, _P_RTF, _P_CODE_PAGE = 0x1000, 0x1013, 0x1009, 0x3FDE
_P_NAME, _P_LONG_NAME, _P_DATA, _P_SHORT_NAME, _P_TYPE, _P_ID = 0x3001, 0x3707, 0x3701, 0x3704, 0x370E, 0x3712
"""Properties of a message and of an attachment (MAPI)."""
_FIXED: Final = {2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 0xA: 4, 0xB: 4, 0x14: 8, 0x40: 8, 0x48: 16}
_VARIABLE: Final = (0xD, 0x1E, 0x1F, 0x102)
_SEVERAL: Final = 0x1000
_UNICODE: Final = 0x1F
_OBJECT: Final = 0xD
_GUID: Final = 16
_MOST_NAME_CHARS: Final = 200


@dataclass(slots=True)
class Attached:
    """An attachment. ``is_message`` means that ``data`` is a TNEF container, ``in_body`` that the body shows it."""

    name: str = ""
    kind: str = ""
    data: bytes = b""
    is_message: bool = False
    in_body: bool = False

    def bytes(self) -> bytes:
        """Return the content."""
        return self.data


@dataclass(slots=True)
class Tnef:
    """A message: its body in each form ("" if missing), and its attachments."""

    text: str = ""
    html: str = ""
    rtf: bytes = b""
    attachments: list[Attached] = field(default_factory=list)


def unpack(data: bytes) -> Tnef:
    """Unpack a container. Raises ValueError if the bytes are not one, or end within an attribute."""
    if len(data) < 6 or struct.unpack_from("<I", data)[0] != _SIGNATURE:
        raise ValueError("it is not a TNEF container")
    found, code_page, at = Tnef(), "", 6
    while at + 9 <= len(data):
        _, name, _, size = struct.unpack_from("<BHHI", data, at)
        start, at = at + 9, at + 9 + size + 2
        if start + size > len(data):
            raise ValueError("it ends within an attribute")
        if name == _BEGIN:
            found.attachments.append(Attached())
        elif name == _CODE_PAGE and size >= 4:
            code_page = _code_page(data[start : start + 4])
        elif name == _BODY:
            found.text = found.text or _string(data[start : start + size], code_page)
        elif name == _MESSAGE:
            _read_message(found, data, start, start + size, code_page)
        elif name in (_TITLE, _DATA, _ATTACHMENT) and found.attachments:
            _read_attachment(found.attachments[-1], name, data[start : start + size], code_page)
    for each in found.attachments:
        each.name = " ".join(each.name.split())[-_MOST_NAME_CHARS:]
    return found


def _read_message(found: Tnef, data: bytes, start: int, end: int, code_page: str) -> None:
    html = b""
    for name, kind, value in _properties(data, start, end):
        if name == _P_BODY:
            found.text = _string(value, code_page, kind) or found.text
        elif name == _P_HTML:
            found.html, html = _string(value, code_page, kind), value if kind != _UNICODE else b""
        elif name == _P_RTF:
            found.rtf = value
        elif name == _P_CODE_PAGE and len(value) == 4:
            code_page = _code_page(value)
    if html:  # its code page may follow
        found.html = _string(html, code_page)


def _read_attachment(attached: Attached, name: int, value: bytes, code_page: str) -> None:
    if name == _TITLE:
        attached.name = attached.name or _string(value, code_page)
    elif name == _DATA:
        attached.data = value
    else:
        named = {}
        for key, kind, said in _properties(value, 0, len(value)):
            if key == _P_DATA:
                is_object = kind == _OBJECT  # begins with the id of its interface
                attached.data = said[_GUID:] if is_object else said
                attached.is_message = is_object and attached.data[:4] == struct.pack("<I", _SIGNATURE)
            elif key == _P_ID:
                attached.in_body = True
            elif key in (_P_NAME, _P_LONG_NAME, _P_SHORT_NAME, _P_TYPE):
                named[key] = _string(said, code_page, kind)
        attached.name = named.get(_P_LONG_NAME) or attached.name or named.get(_P_SHORT_NAME) or named.get(_P_NAME, "")
        attached.kind = named.get(_P_TYPE, "").lower()
        attached.in_body = attached.in_body and attached.kind.startswith("image/")


def _properties(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield name, type and first value of each property. Raises ValueError if they end too early."""
    try:
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
        for _ in range(count):
            kind, name = struct.unpack_from("<HH", data, at)
            at += 4
            if name >= 0x8000:  # named by a text or a number
                (by,) = struct.unpack_from("<I", data, at + _GUID)
                (size,) = struct.unpack_from("<I", data, at + _GUID + 4)
                at += _GUID + 8 + (_padded(size) if by == 1 else 0)
            values, kind = kind & _SEVERAL or kind in _VARIABLE, kind & ~_SEVERAL
            number = 1
            if values:
                (number,) = struct.unpack_from("<I", data, at)
                at += 4
            for place in range(number):
                if kind in _VARIABLE:
                    (size,) = struct.unpack_from("<I", data, at)
                    at += 4
                elif kind in _FIXED:
                    size = _FIXED[kind]
                else:
                    raise ValueError(f"property type {kind:#x} is unknown")
                if at + size > end:
                    raise ValueError("it ends within a property")
                if not place:
                    yield name, kind, data[at : at + size]
                at += _padded(size)
    except struct.error as error:
        raise ValueError("it ends within a property") from error


def rtf_text(packed: bytes) -> str:
    """Return the text of a body in compressed RTF. Raises ValueError if it is damaged."""
    rtf = _decompressed(packed)
    if not rtf.lstrip().startswith(b"{\\rtf"):
        raise ValueError("it is not RTF")
    return str(rtf_to_text(rtf.decode("latin-1"), errors="ignore"))  # type: ignore[no-untyped-call]


_BEGINNING: Final = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor "
    b"MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20"
    b"\\b\\i\\u\\tab\\tx"
)
"""Text that compressed RTF may refer to before it begins (MS-OXRTFCP)."""
_WINDOW: Final = 4096
_MOST_RTF_BYTES: Final = 10_000_000
"""Bytes of a body in RTF. # project default"""


def _decompressed(packed: bytes) -> bytes:
    if packed[8:12] == b"MELA":
        return packed[16:]
    if packed[8:12] != b"LZFu":
        raise ValueError("its compression is unknown")
    out = bytearray(_BEGINNING)
    at = 16
    while at < len(packed) and len(out) < _MOST_RTF_BYTES:
        flags = packed[at]
        at += 1
        for bit in range(8):
            if at >= len(packed):
                break
            if not flags >> bit & 1:
                out.append(packed[at])
                at += 1
                continue
            if at + 2 > len(packed):
                break
            place, size = packed[at] << 4 | packed[at + 1] >> 4, (packed[at + 1] & 15) + 2
            at += 2
            back = (len(out) - place) % _WINDOW
            if not back:
                return bytes(out[len(_BEGINNING) :])
            for _ in range(size):
                out.append(out[-back] if back <= len(out) else 32)
    return bytes(out[len(_BEGINNING) :])


def _code_page(value: bytes) -> str:
    number = int.from_bytes(value, "little")
    return _CODE_PAGES.get(number, f"cp{number}")


_CODE_PAGES: Final = {
    65001: "utf-8",
    20127: "ascii",
    20866: "koi8-r",
    50220: "iso-2022-jp",
    51932: "euc-jp",
    **{28590 + number: f"iso-8859-{number}" for number in range(1, 16)},
}


def _padded(size: int) -> int:
    return -(-size // 4) * 4


def _string(value: bytes, code_page: str, kind: int = 0) -> str:
    text = value.decode("utf-16-le", "replace") if kind == _UNICODE else decoded(value, code_page)[0]
    return text.rstrip("\x00").replace("\x00", " ")
