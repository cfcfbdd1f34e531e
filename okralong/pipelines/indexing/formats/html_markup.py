"""Decode the markup of web pages, and turn XHTML into HTML."""

from __future__ import annotations

import codecs
import re
from typing import Final

from okralong.pipelines.indexing.documents import Losses, decode_file, newlines

# XHTML, which may close any element in its own tag.

_HEAD_CHARS: Final = 20_000
_IS_XHTML: Final = re.compile(
    r"^\s*<\?xml\s|\bxmlns(?::\w+)?\s*=\s*[\"'](?:http://www\.w3\.org/1999/xhtml|[^\"']*inlineXBRL)"
)
_CLOSED: Final = re.compile(r"""<([A-Za-z][\w:.-]*+)((?>(?:[^<>"'/]|"[^"<]*+"|'[^'<]*+'|/(?!>))*))/>""")
_EMPTY_WORDS: Final = "area base br col embed hr img input link meta param source track wbr"
_EMPTY_TAGS: Final = frozenset(_EMPTY_WORDS.split())


def as_html(markup: str) -> str:
    """Return XHTML as HTML: with end tags of its empty elements, and the text of its CDATA sections."""
    if not _IS_XHTML.search(markup, 0, _HEAD_CHARS):
        return markup

    def opened(match: re.Match[str]) -> str:
        return match[0] if match[1].lower() in _EMPTY_TAGS else f"<{match[1]}{match[2]}></{match[1]}>"

    first, *parts = _CLOSED.sub(opened, markup).split("<![CDATA[")
    pieces = [first]
    for part in parts:
        inside, end, rest = part.partition("]]>")
        pieces += [inside.replace("&", "&amp;").replace("<", "&lt;"), rest] if end else ["<![CDATA[", part]
    return "".join(pieces)


# The encoding.

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED: Final = re.compile(
    rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})|<meta[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_DECLARED_WITHIN: Final = 4_096
_ENCODINGS: Final = {
    **{f"windows-125{number}": f"cp125{number}" for number in range(9)},
    **{f"iso-8859-{number}": f"iso-8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii"), "cp1252"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "cp1254"),
    **dict.fromkeys(("iso-8859-11", "windows-874", "tis-620"), "cp874"),
    **dict.fromkeys(("ibm866", "cp866"), "cp866"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("big5", "big5-hkscs"), "big5hkscs"),
    **dict.fromkeys(("gb2312", "gbk", "gb18030", "x-gbk"), "gb18030"),
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "macintosh": "mac-roman",
    "euc-jp": "euc-jp",
    "iso-2022-jp": "iso-2022-jp",
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "windows-949"), "cp949"),
}
"""Encodings that a page may declare, by their names in lower case, and what browsers take them for."""


def decode_html(data: bytes, uri: str, losses: Losses) -> str:
    """Decode a page by its byte order mark, as UTF-8, by its declaration, or as cp1252. Raises DocumentError.

    UTF-8 wins over another declared encoding, because other text is hardly ever valid UTF-8. A page without a
    declaration that may have another encoding is counted.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return newlines(data[len(bom) :].decode(name, "replace").replace("\x00", " "))
    head = data[:_DECLARED_WITHIN]
    for name, wide in (("utf-16-le", b"<\x00"), ("utf-16-be", b"\x00<")):
        if head.lstrip(b" \t\r\n\x00").startswith(wide.strip(b"\x00")) and head[:200].count(wide) > 1:
            return newlines(data.decode(name, "replace").replace("\x00", " "))
    match = _DECLARED.search(head)
    declared = _ENCODINGS.get((match[1] or match[2]).decode().lower()) if match else None
    if declared == "iso-2022-jp" or (declared is not None and not _is_utf8(data)):
        return newlines(data.replace(b"\x00", b" ").decode(declared, "replace"))
    text, doubts = decode_file(data, uri)
    losses.include(doubts)
    return text


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
