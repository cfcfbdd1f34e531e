"""Styles and automatic numbers of Word files: which paragraphs are headings, and that one is clause "3.2"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from okralong.pipelines.indexing.formats.ooxml import W, is_on, number_of

_VAL: Final = f"{W}val"
_HEADING: Final = re.compile(r"(heading ?\d|title|überschrift ?\d|titel)", re.IGNORECASE)
"""Word's built-in styles: Word keeps their English names in the file in every language, other programs may not."""
_BODY_LEVEL: Final = 9
_LEVELS: Final = 9


@dataclass(frozen=True, slots=True)
class Style:
    """What a style gives its text; None means nothing."""

    heading: bool | None = None
    number: str | None = None
    level: int | None = None
    hidden: bool | None = None
    raised: bool | None = None

    def over(self, base: Style) -> Style:
        """Return this style with what it leaves open taken from ``base``."""
        return Style(
            base.heading if self.heading is None else self.heading,
            base.number if self.number is None else self.number,
            base.level if self.level is None else self.level,
            base.hidden if self.hidden is None else self.hidden,
            base.raised if self.raised is None else self.raised,
        )


def paragraph_style(properties: Any, own: Style) -> Style:
    """Return what the properties of a paragraph or paragraph style say themselves, over ``own``."""
    if properties is None:
        return own
    outline = properties.find(f"{W}outlineLvl")
    number, level = None, None
    if (numbered := properties.find(f"{W}numPr")) is not None:
        found, at = numbered.find(f"{W}numId"), numbered.find(f"{W}ilvl")
        number = None if found is None else found.get(_VAL)
        level = None if at is None else number_of(at, _VAL)
    heading = None if outline is None else number_of(outline, _VAL, _BODY_LEVEL) < _BODY_LEVEL
    return Style(heading, number, level).over(own)


class Styles:
    """The styles of a document by id, each with what it inherits."""

    def __init__(self, root: Any) -> None:
        self._own: dict[str, Style] = {}
        self._bases: dict[str, str] = {}
        self._default = ""
        self._resolved: dict[str, Style] = {}
        for each in () if root is None else root.iterchildren(f"{W}style"):
            key = each.get(f"{W}styleId") or ""
            name, based = each.find(f"{W}name"), each.find(f"{W}basedOn")
            named = name is not None and _HEADING.fullmatch(name.get(_VAL) or "") is not None
            hidden = each.find(f"{W}rPr/{W}vanish")
            align = each.find(f"{W}rPr/{W}vertAlign")
            own = Style(
                True if named else None,
                hidden=None if hidden is None else is_on(hidden),
                raised=None if align is None else align.get(_VAL) == "superscript",
            )
            self._own[key] = paragraph_style(each.find(f"{W}pPr"), own)
            if based is not None:
                self._bases[key] = based.get(_VAL) or ""
            if each.get(f"{W}type") == "paragraph" and is_on(each, f"{W}default") and each.get(f"{W}default"):
                self._default = key

    def of(self, key: str | None) -> Style:
        """Return a style by its id, that of plain paragraphs for None."""
        key = self._default if key is None else key
        chain: list[str] = []
        seen: set[str] = set()
        at = key
        while at in self._own and at not in self._resolved and at not in seen:
            seen.add(at)
            chain.append(at)
            at = self._bases.get(at, "")
        for each in reversed(chain):
            base = self._resolved.get(self._bases.get(each, ""), Style())
            self._resolved[each] = self._own[each].over(base)
        if key not in self._resolved:  # a file without styles
            self._resolved[key] = Style(bool(_HEADING.fullmatch(key)) or None)
        return self._resolved[key]


@dataclass(slots=True)
class _Level:
    start: int = 0
    format: str = "decimal"
    text: str = ""
    restart: int | None = None
    legal: bool = False


@dataclass(slots=True)
class _List:
    """The levels of an abstract list, the level of each style, the style that defines it instead, and its counters."""

    levels: dict[int, _Level]
    of_style: dict[str, int]
    link: str
    counters: list[int | None] = field(default_factory=lambda: [None] * _LEVELS)


_MOST_LABEL_CHARS: Final = 100


class Numbering:
    """Counts the automatic numbers of a document."""

    def __init__(self, root: Any, styles: Styles) -> None:
        self._styles = styles
        self._lists: dict[str, _List] = {}
        self._nums: dict[str, tuple[str, dict[int, int], dict[int, _Level]]] = {}
        self._begun: set[str] = set()
        self.unknown = 0
        """Numbers in formats that are not known."""
        for each in () if root is None else root.iterchildren(f"{W}abstractNum"):
            found = list(each.iterchildren(f"{W}lvl"))
            link = each.find(f"{W}numStyleLink")
            self._lists[each.get(f"{W}abstractNumId") or ""] = _List(
                {number_of(level, f"{W}ilvl"): _level(level) for level in found},
                {
                    style.get(_VAL) or "": number_of(level, f"{W}ilvl")
                    for level in found
                    if (style := level.find(f"{W}pStyle")) is not None
                },
                "" if link is None else link.get(_VAL) or "",
            )
        for each in () if root is None else root.iterchildren(f"{W}num"):
            abstract = each.find(f"{W}abstractNumId")
            starts: dict[int, int] = {}
            levels: dict[int, _Level] = {}
            for override in each.iterchildren(f"{W}lvlOverride"):
                at = number_of(override, f"{W}ilvl")
                start, level = override.find(f"{W}startOverride"), override.find(f"{W}lvl")
                if start is not None:
                    starts[at] = number_of(start, _VAL, 1)
                if level is not None:
                    levels[at] = _level(level)
            name = "" if abstract is None else abstract.get(_VAL) or ""
            self._nums[each.get(f"{W}numId") or ""] = (name, starts, levels)

    def label(self, style: Style, style_id: str | None, properties: Any) -> str:
        """Count a paragraph, and return its number such as "3.2" or "(a)"; "" if it has none.

        Args:
            style: What its style and itself say together.
            style_id: The id of its style.
            properties: Its own properties, a w:pPr or None.
        """
        if style.number not in self._nums:
            return ""
        abstract, starts, own = self._nums[style.number]
        listed = self._linked(abstract)
        if listed is None:
            return ""
        itself = paragraph_style(properties, Style())
        place = style.level or 0
        if itself.number is not None:
            place = itself.level or 0
        elif itself.level is None:
            place = listed.of_style.get(style_id or "", place)
        place = min(max(place, 0), _LEVELS - 1)
        levels = {**listed.levels, **own} if own else listed.levels
        if place not in levels:
            return ""
        if style.number not in self._begun:
            self._begun.add(style.number)
            for at in starts:
                if at < _LEVELS:
                    listed.counters[at] = None
        self._count(listed, levels, starts, place)
        return self._written(listed.counters, levels, place)

    def _linked(self, abstract: str) -> _List | None:
        listed = self._lists.get(abstract)
        if listed is not None and listed.link and not listed.levels:
            number = self._styles.of(listed.link).number
            listed = self._lists.get(self._nums[number][0]) if number in self._nums else None
        return listed

    @staticmethod
    def _count(listed: _List, levels: Mapping[int, _Level], starts: Mapping[int, int], place: int) -> None:
        counters = listed.counters
        for at in range(place + 1):
            level = levels.get(at, _Level())
            before = counters[at]
            if before is None:
                counters[at] = starts.get(at, level.start)
            elif at == place:
                counters[at] = before + 1
        for at in range(place + 1, _LEVELS):
            restart = levels[at].restart if at in levels else None
            if restart is None or place < restart:
                counters[at] = None

    def _written(self, counters: list[int | None], levels: Mapping[int, _Level], place: int) -> str:
        level = levels[place]
        if level.format == "bullet":
            return "•"
        unknown = False

        def number(match: re.Match[str]) -> str:
            nonlocal unknown
            at = int(match[1]) - 1
            kind = "decimal" if level.legal else levels[at].format if at in levels else "decimal"
            said = written(counters[at] or 0, kind)
            unknown = unknown or said is None
            return said or ""

        label = re.sub("%([1-9])", number, level.text)
        if unknown:
            self.unknown += 1
            return ""
        return label.strip()


def _level(element: Any) -> _Level:
    formats = list(element.iter(f"{W}numFmt"))
    text, restart = element.find(f"{W}lvlText"), element.find(f"{W}lvlRestart")
    return _Level(
        number_of(element.find(f"{W}start"), _VAL),
        formats[0].get(_VAL) or "decimal" if formats else "decimal",
        "" if text is None else (text.get(_VAL) or "")[:_MOST_LABEL_CHARS],
        None if restart is None else number_of(restart, _VAL),
        is_on(element.find(f"{W}isLgl")),
    )


_ROMAN: Final = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def _roman(number: int) -> str:
    def digits(rest: int) -> Iterator[str]:
        for value, word in _ROMAN:
            yield word * (rest // value)
            rest %= value

    return "".join(digits(number)) if 0 < number < 5000 else str(number)


def _letters(number: int) -> str:
    """Return a to z, then aa, bb, as Word counts."""
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1) if 0 < number < 800 else str(number)


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_BELOW_TWENTY: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen
"""
_ONES: Final = _BELOW_TWENTY.split()
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS: Final = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth"} | {
    "nine": "ninth",
    "twelve": "twelfth",
}


def _words(number: int, ordinal: bool) -> str:
    """Return a number below 100 in English words, as "Twenty-first"."""
    if not 0 <= number < 100:
        return _ordinal(number) if ordinal else str(number)
    tens, ones = divmod(number, 10)
    parts = [_ONES[number]] if number < 20 else [_TENS[tens - 2], *([_ONES[ones]] if ones else [])]
    if ordinal:
        last = parts[-1]
        parts[-1] = _ORDINALS.get(last, f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")
    return "-".join(parts).capitalize()


_FORMATS: Final[Mapping[str, Callable[[int], str]]] = {
    "decimal": str,
    "decimalZero": lambda number: f"{number:02}",
    "lowerLetter": _letters,
    "upperLetter": lambda number: _letters(number).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda number: _roman(number).upper(),
    "ordinal": _ordinal,
    "cardinalText": lambda number: _words(number, ordinal=False),
    "ordinalText": lambda number: _words(number, ordinal=True),
    "numberInDash": lambda number: f"- {number} -",
    "none": lambda number: "",
}


def written(number: int, kind: str) -> str | None:
    """Write a number in a format of Word, or return None if the format is not known."""
    write = _FORMATS.get(kind)
    return None if write is None else write(number)
