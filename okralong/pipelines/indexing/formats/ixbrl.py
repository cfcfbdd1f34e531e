"""Read the facts that inline XBRL tags in a page: concept, context, unit and exact value, with their place in the text.

Facts that a viewer does not show (``ix:hidden``) are left out, except those that a filing links to the text that shows
them (``-sec-ix-hidden``). See the specification of Inline XBRL 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from okralong.pipelines.core.types import Fact
from okralong.pipelines.indexing.documents import Losses
from okralong.pipelines.indexing.formats.flow import Place

MOST_FACTS: Final = 50_000
"""Facts of one document; an annual report of a large bank has about 20,000. # project default"""
_MOST_CHARS: Final = 4_000_000
"""Of the words of all facts of a document together. # project default"""
_MOST_NAME_CHARS: Final = 300
_MOST_DIMENSIONS: Final = 20

_NAMESPACE: Final = re.compile(r"xmlns:([A-Za-z_][\w-]{0,39})\s*=\s*[\"']http://www\.xbrl\.org/20\d\d/inlineXBRL")
_HIDDEN: Final = frozenset({"header", "hidden", "resources", "references", "relationship"})
_TAGGED: Final = frozenset({"nonfraction", "nonnumeric", "fraction"})
_LINKED: Final = re.compile(r"-sec-ix-hidden\s*:\s*([\w.-]{1,300})")

_Attributes = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class _Context:
    entity: str = ""
    start: str = ""
    end: str = ""
    dimensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag of a fact, or of a part of its text (``continuation``). ``said`` is the text of a hidden fact."""

    kind: str
    attributes: _Attributes
    said: str | None = None


@dataclass(slots=True)
class Tags:
    """The tags of a page: the ``prefix`` of their elements, and what their contexts and units stand for."""

    prefix: str
    _contexts: dict[str, _Context] = field(default_factory=dict)
    _units: dict[str, str] = field(default_factory=dict)
    _linked: dict[str, _Tag] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: LexborHTMLParser, markup: str) -> Tags | None:
        """Return the tags of a page, None if it has no inline XBRL."""
        match = _NAMESPACE.search(markup)
        if match is None and "<ix:" not in markup:
            return None
        prefix = match[1].lower() if match else "ix"
        tags = cls(f"{prefix}:")
        for node in tree.css(rf"{prefix}\:resources > *, xbrli\:context, xbrli\:unit"):
            tags._read_resource(node)
        for node in tree.css(rf"{prefix}\:hidden"):
            for child in node.traverse():
                name = child.attributes.get("id") if (child.tag or "").startswith(tags.prefix) else None
                if name:
                    kind = str(child.tag).removeprefix(tags.prefix)
                    tags._linked[name] = _Tag(kind, child.attributes, child.text()[:_MOST_NAME_CHARS])
        return tags

    def _read_resource(self, node: LexborNode) -> None:
        name, kind = node.attributes.get("id"), _local(node)
        if name and kind == "context":
            self._contexts[name] = _context(node)
        elif name and kind == "unit":
            self._units[name] = _unit(node)

    def hides(self, tag: str) -> bool:
        """Return whether an element is never shown."""
        return tag.startswith(self.prefix) and tag[len(self.prefix) :] in _HIDDEN

    def excludes(self, tag: str) -> bool:
        """Return whether an element is shown, and does not belong to the text around it, such as a page number."""
        return tag.startswith(self.prefix) and tag[len(self.prefix) :] == "exclude"

    def tag(self, tag: str, attributes: _Attributes) -> _Tag | None:
        """Return what an element tags, None for an element that tags nothing."""
        if tag.startswith(self.prefix):
            kind = tag[len(self.prefix) :]
            return _Tag(kind, attributes) if kind in _TAGGED or kind == "continuation" else None
        if self._linked and (match := _LINKED.search(attributes.get("style") or "")):
            return self._linked.get(match[1])
        return None

    def facts(self, places: Iterable[Place], text: str, losses: Losses) -> tuple[Fact, ...]:
        """Return the facts at some places of the text, in order; those beyond a limit are counted."""
        mine = [place for place in places if isinstance(place.what, _Tag)]
        following: dict[str, Place] = {}
        for place in mine:
            if place.what.kind == "continuation" and (name := place.what.attributes.get("id")):
                following[name] = place
        found: list[Fact] = []
        left = _MOST_CHARS
        for place in mine:
            if place.what.kind not in _TAGGED:
                continue
            for fact in self._parts(place, text, following):
                left -= _chars(fact)
                if left < 0 or len(found) == MOST_FACTS:
                    losses.add("tagged fact", "tagged facts")
                else:
                    found.append(fact)
        return tuple(sorted(found, key=lambda fact: (fact.start_char, -fact.end_char)))

    def _parts(self, place: Place, text: str, following: dict[str, Place]) -> Iterator[Fact]:
        """Yield a fact, and once more for each place that continues its text."""
        tag: _Tag = place.what
        said = tag.attributes
        context = self._contexts.get(said.get("contextref") or "", _Context())
        is_nil = (said.get("xsi:nil") or "").strip() in ("true", "1")
        is_number = tag.kind == "nonfraction"
        shown = text[place.start : place.end] if tag.said is None else tag.said
        part = 0
        here: Place | None = place
        while here is not None:
            yield Fact(
                concept=_short(said.get("name")),
                start_char=here.start,
                end_char=here.end,
                value=_value(shown, said) if is_number and not is_nil else "",
                unit=self._units.get(said.get("unitref") or "", "") if is_number else "",
                scale=_whole(said.get("scale")),
                sign="-" if (said.get("sign") or "").strip() == "-" else "",
                decimals=_short(said.get("decimals")),
                context=_short(said.get("contextref")),
                entity=context.entity,
                period_start=context.start,
                period_end=context.end,
                dimensions=context.dimensions,
                part=part,
            )
            part += 1
            here = following.pop(here.what.attributes.get("continuedat") or "", None)


def _chars(fact: Fact) -> int:
    words = (fact.concept, fact.value, fact.unit, fact.decimals, fact.context, fact.entity)
    periods = len(fact.period_start) + len(fact.period_end)
    return sum(map(len, words)) + periods + sum(len(axis) + len(member) for axis, member in fact.dimensions)


def _local(node: LexborNode) -> str:
    return (node.tag or "").rpartition(":")[2]


def _short(said: str | None) -> str:
    return (said or "").strip()[:_MOST_NAME_CHARS]


def _context(top: LexborNode) -> _Context:
    entity = start = end = ""
    dimensions: dict[str, str] = {}
    for node in top.traverse():
        kind = _local(node)
        if kind == "identifier":
            entity = _short(node.text())
        elif kind == "startdate":
            start = _short(node.text())
        elif kind in ("enddate", "instant"):
            end = _short(node.text())
        elif kind in ("explicitmember", "typedmember") and len(dimensions) < _MOST_DIMENSIONS:
            dimensions[_short(node.attributes.get("dimension"))] = _short(node.text())
    return _Context(entity, start, end, tuple(dimensions.items()))


def _unit(top: LexborNode) -> str:
    """Return a unit such as "USD" or "USD/shares"."""
    above: list[str] = []
    below: list[str] = []
    part = above
    for node in top.traverse():
        kind = _local(node)
        if kind in ("unitnumerator", "unitdenominator"):
            part = above if kind == "unitnumerator" else below
        elif kind == "measure":
            part.append(_short(node.text()).rpartition(":")[2])
    said = "*".join(above)
    return (f"{said}/{'*'.join(below)}" if below else said)[:_MOST_NAME_CHARS]


# The value of a figure, from what the page shows of it.

_COMMA_DECIMAL: Final = re.compile(r"num-?(?:comma-?decimal|dot-?comma|space-?comma|unit-?decimal-comma)")
_ZERO: Final = re.compile(r"zerodash|fixed-?zero|no-?content|numdash")
_COUNTS: Final = "zero one two three four five six seven eight nine ten eleven twelve"
_WORDS: Final = {word: n for n, word in enumerate(_COUNTS.split())} | dict.fromkeys(("no", "none", "nil"), 0)
_MOST_DIGITS: Final = 40
_MOST_SCALE: Final = 30


def _value(shown: str, said: _Attributes) -> str:
    """Return the exact value of a figure as a decimal without an exponent, "" if it cannot be read."""
    kind = (said.get("format") or "").rpartition(":")[2].lower()
    word = shown.strip().lower()
    if _ZERO.match(kind):
        return "0"
    if word in _WORDS:
        digits = str(_WORDS[word])
    else:
        mark, other = (",", ".") if _COMMA_DECIMAL.match(kind) else (".", ",")
        digits = re.sub(r"[^\d.,]", "", shown).replace(other, "").replace(mark, ".").strip(".")
    try:
        number = Decimal(digits if len(digits) <= _MOST_DIGITS else "").scaleb(_whole(said.get("scale")))
    except InvalidOperation:
        return ""
    plain = f"{number:f}"
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    is_negative = (said.get("sign") or "").strip() == "-" or word.startswith(("-", "\u2212", "("))
    return f"-{plain}" if is_negative and number else plain


def _whole(said: str | None) -> int:
    try:
        number = int((said or "0")[:10])
    except ValueError:
        return 0
    return max(-_MOST_SCALE, min(number, _MOST_SCALE))
