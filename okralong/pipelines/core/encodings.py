"""Decode text whose encoding is declared wrongly or not at all."""

from __future__ import annotations

import codecs
import re
from typing import Final

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LARGER: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
}
"""Declared encodings that are read as a larger one with the same characters, as browsers and mail programs do."""
_PAGES: Final = {
    "iso8859-2": "cp1250",
    "iso8859-5": "cp1251",
    "iso8859-6": "cp1256",
    "iso8859-7": "cp1253",
    "iso8859-8": "cp1255",
    "iso8859-13": "cp1257",
    "iso8859-15": "cp1252",
}
"""Declared encodings whose control characters 0x80-0x9F mean that the text is in the code page of the same script."""
_CONTROLS: Final = re.compile(rb"[\x80-\x9f]")
_TEXT_CODECS: Final = re.compile(r"(?:cp|mac|koi8|iso|euc|big5|gb|shift|utf|johab|hz|tis|kz|ptcp|hp|ascii)[\w-]*")
"""Names of Python's codecs that decode text in linear time."""
_FOREIGN: Final = 0.3
"""Share of bytes above 0x7F among the letters from which undeclared text is hardly Western. # project default"""
_FEW: Final = 8
"""Bytes above 0x7F below which a text is taken for Western. # project default"""
_SIGN_IN_WORD: Final = re.compile(
    rb"(?<=[a-z])[\x80-\x91\x93-\x95\x98\x99\x9b\xa1-\xac\xae\xaf\xb1-\xb4\xb6\xb8-\xbf\xd7\xf7](?=[a-z])"
)
"""What is a sign or a capital in cp1252 and stands within a word: a letter of cp1250 or Mac Roman."""
_SIGNS: Final = 3
"""Signs within words from which text is hardly cp1252. # project default"""
UNDECODED: Final = "\N{REPLACEMENT CHARACTER}"


def decoded(data: bytes, declared: str = "") -> tuple[str, bool]:
    """Return the text of ``data``, and whether some of it may be wrong.

    UTF-8 wins over the declared encoding, because other text is hardly ever valid UTF-8. Text that is not in the
    declared encoding either is taken for cp1252, or for UTF-8 with a few characters of cp1252.
    """
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _with(data[len(bom) :], name)
    name = codec_of(declared)
    if name.startswith(("iso2022", "hz", "utf-7", "utf-16", "utf-32")):
        return _with(data, name)
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        pass
    if name in _PAGES and _CONTROLS.search(data):
        name = _PAGES[name]
    if name and name not in ("utf-8", "ascii"):
        return _with(data, _LARGER.get(name, name))
    return _guessed(data)


def codec_of(declared: str) -> str:
    """Return the name of Python's codec for a declared encoding, "" if there is none."""
    try:
        name = codecs.lookup(declared.strip().strip("\"'").lower().removeprefix("x-")).name
    except (LookupError, ValueError):
        return ""
    return name if _TEXT_CODECS.fullmatch(name) else ""


def _with(data: bytes, name: str) -> tuple[str, bool]:
    text = data.decode(name, "replace")
    if name == "utf-7":  # the only one that yields halves of surrogate pairs
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text, UNDECODED in text


def _guessed(data: bytes) -> tuple[str, bool]:
    valid = data.decode("utf-8", "ignore")
    high = sum(each >= 0x80 for each in data[:_LOOKED_AT])
    characters = sum(each >= "\x80" for each in valid[:_LOOKED_AT])
    if characters > len(data) - len(valid.encode()):
        text = data.decode("utf-8", _HANDLER)
        return text, UNDECODED in text
    letters = high + sum(data[:_LOOKED_AT].count(letter) for letter in _LETTERS)
    text = data.decode("cp1252", "replace")
    signs = sum(1 for _ in _SIGN_IN_WORD.finditer(data[:_LOOKED_AT]))
    return text, UNDECODED in text or signs >= _SIGNS or (high >= _FEW and high > _FOREIGN * letters)


_LOOKED_AT: Final = 1 << 20
_LETTERS: Final = tuple(bytes([code]) for code in (*range(65, 91), *range(97, 123)))
_HANDLER: Final = "okralong.cp1252"


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    """Decode invalid bytes of UTF-8 as cp1252."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_HANDLER, _as_cp1252)
