"""Fields of Word files: what they show instead of their code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from okralong.pipelines.indexing.documents import Losses
from okralong.pipelines.indexing.formats import symbols
from okralong.pipelines.indexing.formats.ooxml import W, is_on, number_of

_VAL: Final = f"{W}val"
_MOST_CODE_CHARS: Final = 300
PAGE_MARK: Final = "\ue0c7"
"""Stands for a page number in a header or footer until the words around it are dropped."""
_VALUE_FIELDS: Final = """
= author citation comments createdate database date dde ddeauto docproperty docvariable editime filename filesize fillin
formula includepicture includetext info keywords lastsavedby link mergefield numchars numwords printdate quote ref
revnum savedate seq styleref subject time title useraddress userinitials username
"""
_WITH_VALUE: Final = frozenset(_VALUE_FIELDS.split())
"""Fields that show a value, which some programs leave for Word to fill in."""
_PAGES: Final = frozenset({"page", "numpages", "sectionpages"})
_REMEDY: Final = "update the fields in Word and save the file"


@dataclass(slots=True)
class _Field:
    """A field: its code, whether its result has begun, whether it shows anything, and its form field's answer."""

    code: str = ""
    in_result: bool = False
    shows: bool = False
    answer: str = ""

    def name(self) -> str:
        """Return the kind of field in lower case."""
        words = self.code.split(None, 1)
        return "=" if self.code.lstrip().startswith("=") else words[0].lower() if words else ""


class Fields:
    """The fields that are open at a place of a story."""

    def __init__(self, story: Any, losses: Losses, on_each_page: bool) -> None:
        self._losses, self._on_each_page = losses, on_each_page
        self._open: list[_Field] = []
        self._codes = 0
        self._unclosed = _unclosed_fields(story)

    @property
    def in_code(self) -> bool:
        """Whether this place is within the code of a field."""
        return self._codes > 0

    def show(self, text: str = "") -> str:
        """Note that a field shows something, and return ``text``, or a mark in place of a header's page number."""
        if not self._open:
            return text
        self._open[-1].shows = True
        return PAGE_MARK if self._on_each_page and self._open[-1].name() in _PAGES else text

    def mark(self, element: Any) -> str:
        """Read a w:fldChar, and return what a field that ends here shows without a saved result."""
        kind = element.get(f"{W}fldCharType")
        if kind == "begin" and element not in self._unclosed:
            self._open.append(_Field(answer=_answer(element)))
            self._codes += 1
        elif kind == "separate" and self._open and not self._open[-1].in_result:
            self._open[-1].in_result = True
            self._codes -= 1
        elif kind == "end":
            return self.end()
        return ""

    def code(self, text: str) -> None:
        """Read a piece of a field's code."""
        if self._open and not self._open[-1].in_result:
            self._open[-1].code = (self._open[-1].code + text[:_MOST_CODE_CHARS])[:_MOST_CODE_CHARS]

    def begin_simple(self, code: str) -> None:
        """Begin a field that is one element with all of its code."""
        self._open.append(_Field(code[:_MOST_CODE_CHARS], in_result=True))

    def end(self) -> str:
        """End the last field, and return what it shows without a saved result."""
        if not self._open:
            return ""
        ended = self._open.pop()
        self._codes -= not ended.in_result
        if self._codes:
            return ""
        if ended.shows:
            if self._open:
                self._open[-1].shows = True
            return ""
        name = ended.name()
        if name in _PAGES and self._on_each_page:
            return PAGE_MARK
        if name == "eq":
            self._losses.add("equation that is a field", "equations that are fields")
        elif name in ("autonum", "autonumlgl", "autonumout", "listnum"):
            self._losses.add("automatic number", "automatic numbers")
        elif name in _WITH_VALUE:
            self._losses.add("field without a saved value", "fields without a saved value", remedy=_REMEDY)
        return ended.answer or _from_code(name, ended.code)


def _answer(mark: Any) -> str:
    """Return what an old form field shows without a result: a check box, or an entry of a list."""
    box, choices = mark.find(f"{W}ffData/{W}checkBox"), mark.find(f"{W}ffData/{W}ddList")
    if box is not None:
        checked = box.find(f"{W}checked")
        return "☒" if is_on(box.find(f"{W}default") if checked is None else checked) else "☐"
    if choices is not None:
        entries = [each.get(_VAL) or "" for each in choices.iterchildren(f"{W}listEntry")]
        number = number_of(choices.find(f"{W}result"), _VAL)
        return entries[number] if 0 <= number < len(entries) else ""
    return ""


_SYMBOL: Final = re.compile(r'symbol\s+(\d+|0x[0-9a-f]+)(?:.*\\f\s+"?([^"\\]*))?', re.IGNORECASE | re.DOTALL)


def _from_code(name: str, code: str) -> str:
    """Return what a field shows that has its words in its code."""
    if name == "symbol" and (match := _SYMBOL.match(code.strip())):
        return symbols.character(int(match[1], 0 if match[1].startswith("0x") else 10), (match[2] or "").strip())
    if name in ("macrobutton", "gotobutton"):
        return " ".join(code.split(None, 2)[2:])
    return ""


def _unclosed_fields(root: Any) -> set[Any]:
    """Return the marks that begin a field which never ends; all text after them would be its code."""
    begun: list[Any] = []
    for mark in root.iter(f"{W}fldChar"):
        run = mark.getparent()
        if run.getparent() is not None and run.getparent().tag in (f"{W}del", f"{W}moveFrom"):
            continue
        if mark.get(f"{W}fldCharType") == "begin":
            begun.append(mark)
        elif mark.get(f"{W}fldCharType") == "end" and begun:
            begun.pop()
    return set(begun)
