"""The line items of financial statements and the metrics computed from them: their names, and where a text has them.

The table ships as ``configs/line_items.yaml``. Names are compared word by word, so one entry covers many wordings:
"Net (loss) income", "net earnings" and "Net profit" are the same words. A name inside a longer one is not that item:
"cost of sales" is not sales. Not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import product
from typing import Final, Literal

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.statements.periods import Span

FILE: Final = "line_items.yaml"

Statement = Literal["balance sheet", "income", "cash flow", "equity", "shares", "other", "metric"]
Kind = Literal["money", "per share", "shares", "percent", "ratio", "days", "count"]


@dataclass(frozen=True, slots=True)
class LineItem:
    """A line item or metric; equal if the ids are.

    Attributes:
        id: Our name for it: "operating_cash_flow".
        names: Its names in statements and questions, the usual one first.
        statement: The statement that has it; "metric" if it is computed.
        period: "instant" for a balance, "duration" for a flow.
        kind: What its amounts are.
        elements: The elements of the US-GAAP and IFRS taxonomies that it stands for.
        formulas: How a metric is computed from other items by id, the most usual way first; empty for line items.
        instead: Ids of the items that a report without this one states in its place, the nearest first.
        sign: What its sign means, where that is not plain.
    """

    id: str
    names: tuple[str, ...] = field(compare=False)
    statement: Statement = field(compare=False)
    period: Literal["instant", "duration"] = field(compare=False)
    kind: Kind = field(compare=False)
    elements: tuple[str, ...] = field(default=(), compare=False)
    formulas: tuple[str, ...] = field(default=(), compare=False)
    instead: tuple[str, ...] = field(default=(), compare=False)
    sign: str = field(default="", compare=False)

    @property
    def operands(self) -> tuple[str, ...]:
        """The ids of the line items that a metric is computed from, each once."""
        return tuple(dict.fromkeys(each for formula in self.formulas for each in _ID.findall(formula)))


Item = LineItem

_ID: Final = re.compile(r"[a-z][a-z_]+")


class Entry(Settings):
    """An entry of ``line_items.yaml``; see ``LineItem``. "{a|b} c" in ``names`` stands for "a c" and "b c"."""

    id: str = Field(pattern=r"^[a-z][a-z_]+$")
    names: list[str] = Field(min_length=1)
    elements: list[str] = Field(default_factory=list)
    formulas: list[str] = Field(default_factory=list)
    instead: list[str] = Field(default_factory=list)
    period: Literal["instant", "duration"] | None = None
    kind: Kind | None = None
    sign: str = ""


class Group(Settings):
    """The items of a statement. ``period`` and ``kind`` hold for those entries that do not give their own."""

    statement: Statement
    period: Literal["instant", "duration"]
    kind: Kind
    items: list[Entry]


class LineItems(Settings):
    """The content of ``line_items.yaml``."""

    groups: list[Group]

    @model_validator(mode="after")
    def _ids_are_known(self) -> LineItems:
        entries = [entry for group in self.groups for entry in group.items]
        ids = [entry.id for entry in entries]
        named = [each for entry in entries for each in (*entry.instead, *_ID.findall(" ".join(entry.formulas)))]
        twice, unknown = {each for each in ids if ids.count(each) > 1}, set(named) - set(ids)
        if twice or unknown:
            raise ValueError(f"ids used twice: {sorted(twice)}; ids that no entry has: {sorted(unknown)}")
        return self


@cache
def line_items() -> dict[str, LineItem]:
    """Return all line items and metrics by id."""
    return {
        entry.id: LineItem(
            entry.id,
            tuple(name for written in entry.names for name in _expanded(written)),
            group.statement,
            entry.period or group.period,
            entry.kind or group.kind,
            tuple(entry.elements),
            tuple(entry.formulas),
            tuple(entry.instead),
            entry.sign,
        )
        for group in load_config(LineItems, FILE).groups
        for entry in group.items
    }


def _expanded(written: str) -> Iterator[str]:
    """Iterate over the names that "{a|b} c" stands for: "a c" and "b c"."""
    parts = [part.split("|") for part in re.split(r"[{}]", written)]
    return (" ".join("".join(chosen).split()) for chosen in product(*parts))


def with_substitutes(item: LineItem) -> tuple[LineItem, ...]:
    """Return an item and those that a report without it states in its place, the nearest first."""
    return item, *(line_items()[each] for each in item.instead)


def items_needed(question: str) -> list[LineItem]:
    """Return the line items that a question names, in order; for a metric, those that it is computed from."""
    found = [item for _, item in named_in(question, ASKED)]
    needed = (line_items()[each] for item in found for each in (item.operands or [item.id]))
    return list(dict.fromkeys(needed))


def item_asked(question: str) -> LineItem | None:
    """Return the only line item or metric that a question names, or None if it names none or several."""
    found = {item for _, item in named_in(question, ASKED)}
    return found.pop() if len(found) == 1 else None


def items_of_label(label: str, sections: Sequence[str] = ()) -> list[LineItem]:
    """Return the line items that a row's label names as a whole; several if it names them together.

    Words that make no other item are ignored: "Total", notes, "net of ...", "for the year", "attributable to" the
    parent. A label that says too little by itself is read with the section above it ("Earnings per share", "Basic").

    Args:
        label: The row's label.
        sections: The headings that the row is below, outermost first.
    """
    found = _labelled(label)
    if sections and not found:
        found = _labelled(f"{label} {sections[-1]}") or _labelled(f"{sections[-1]} {label}")
    if any(_OF_CHANGES.search(section) for section in sections):
        found = tuple(item for item in found if item.period == "duration")
    return list(found)


_OF_CHANGES: Final = re.compile(r"\b(?:changes? in|adjustments)\b", re.IGNORECASE)
"""Sections of a cash flow statement below which "Accounts receivable" is a change, not a balance."""
_LONGEST_LABEL: Final = 400  # project default
_RELATIVE: Final = re.compile(r"%|\b(?:changes?|growth|percent\w*)\b", re.IGNORECASE)
"""Words in a label which say that the row holds changes or shares, not the item's amounts."""
_NOTE: Final = re.compile(r"\(?\bnotes? \d[\d, .]*(?:and \d+)?\)?|[*\u2020\u2021\xa7]", re.IGNORECASE)
_NET_OF: Final = re.compile(r"[\s,(\u2013\u2014-](?:net of|less|after deducting|including|excluding)\b.*", re.I | re.S)
_FOR_PERIOD: Final = re.compile(r"\sfor the (?:financial |fiscal )?(?:year|period|quarter|half-year)\b.*", re.I | re.S)
_WHOSE: Final = re.compile(r"\b(?:attributable|applicable|available|allocable) to\b", re.IGNORECASE)
_OTHERS: Final = re.compile(r"\bnon-?controlling|\bminorit|\bprefer|\bdiscontinu|\bparticipat", re.IGNORECASE)
"""Words for those who have a share in a profit besides the owners of the parent."""
_BRACKETS: Final = re.compile(r"\([^()]*\)")
_LEAD: Final = frozenset(["total", "net", "overall", "reported"])


@lru_cache(maxsize=4096)
def _labelled(label: str) -> tuple[LineItem, ...]:
    if len(label) > _LONGEST_LABEL:
        return ()
    found = _exact(label)
    if found or _RELATIVE.search(label):
        return found
    plain = _BRACKETS.sub(" ", _PLAIN_BRACKETS.sub(" ", _NOTE.sub(" ", label)))
    short = _NET_OF.sub("", plain)
    whose = _WHOSE.search(short)
    owners = f"{short[: whose.end()]} parent" if whose and not _OTHERS.search(short, whose.end()) else ""
    return _exact(plain) or _exact(short) or _exact(owners) or _exact(_FOR_PERIOD.sub("", short))


def _exact(label: str) -> tuple[LineItem, ...]:
    words = [word.key for word in _words(label)]
    while words and words[-1].isdigit():
        words.pop()
    whole = _by_name().get(tuple(words))
    while whole is None and len(words) > 1 and (words[0] in _LEAD or words[-1] in _LEAD):
        words = words[1:] if words[0] in _LEAD else words[:-1]
        whole = _by_name().get(tuple(words))
    return whole or ()


_PLAIN: Final = re.compile(
    r"(?:^|(?<=[\s\"(])|(?P<glued>(?<=[a-z\d.)\u2022])(?=[A-Z])))"
    r"(?i:total|consolidated|net|overall|reported|gaap|worldwide|company|group|company-wide)\s+$"
)
"""A word before a line item that does not change its meaning. In text that has lost its line breaks, it may directly
follow another word ("ActivitiesNet cash")."""
_BY_ITSELF: Final = (
    r"(?:^|[\n;:,\u2022|\u201c\"(]\s*|(?<!\.[A-Z])\.\s*|\d\s+|['\u2019]s?\s+"
    r"|\b(?:our|the|its|their|this|was|were|is|are|much|recogni[sz]ed|reported|had|generated|achieved|delivered|posted"
    r"|recorded|while|that|annual|quarterly|quarter|year)\s+"
    r"|\b(?:had|incurred|reported|posted|generated)\s+an?\s+|\bof\s+(?:our\s+|its\s+)?(?:total|consolidated)\s+(?:net\s+)?"
    r"|(?:\d|illion|thousand)\s+of\s+)"
)
_FREE: Final = re.compile(f"{_BY_ITSELF}$", re.IGNORECASE)
"""Text after which a line item's name is complete, with no further word before it that changes its meaning."""
ASKED: Final = re.compile(
    rf"(?:{_BY_ITSELF}|\b(?:of|by|from|to|than|and|or|in|on|did|does|do|between|exceed|exceeded|whose|average|unadjusted)\s+)$",
    re.IGNORECASE,
)
"""The same in a question, where prepositions and verbs may also precede the name."""


def mentions(item: LineItem, text: str, free: re.Pattern[str] = _FREE) -> Iterator[Span]:
    """Iterate over mentions of an item whose meaning no preceding word changes; ``free`` matches harmless words."""
    return (span for span, each in named_in(text, free) if each is item or each == item)


def named_in(text: str, free: re.Pattern[str] = _FREE) -> Iterator[tuple[Span, LineItem]]:
    """Iterate over all line items that a text names, in order, where no preceding word changes the meaning."""
    for span, items in _names_in(text):
        if _is_free(text, span[0], free):
            for item in items:
                yield span, item


def _is_free(text: str, start: int, free: re.Pattern[str]) -> bool:
    before = text[max(0, start - 80) : start]
    if before and before[-1].isalnum():  # in text without line breaks: "activitiesNet cash"
        return text[start].isupper() and not before[-1].isupper()
    while free.search(before) is None:
        plain = _PLAIN.search(before)
        if plain is None:
            return False
        before = "" if plain["glued"] is not None else before[: plain.start()]
    return True


@lru_cache(maxsize=16)
def _names_in(text: str) -> tuple[tuple[Span, tuple[LineItem, ...]], ...]:
    """Return the names in a text; of those that overlap, the one with the most words, else the first.

    Cached for the last few texts, since all items are searched for in the same document.
    """
    words, tree = _words(text), _tree()
    found: list[tuple[int, int, tuple[LineItem, ...]]] = []  # first word, last word, items
    for first, word in enumerate(words):
        node: _Node | None = tree.after.get(word.key)
        last = first
        longest: tuple[int, int, tuple[LineItem, ...]] | None = None
        while node is not None:
            if node.items:
                longest = first, last, node.items
            last += 1
            node = node.after.get(words[last].key) if last < len(words) and not words[last].apart else None
        if longest is None:
            continue
        if found and longest[0] <= found[-1][1]:
            if longest[1] - longest[0] <= found[-1][1] - found[-1][0]:
                continue
            found.pop()
        found.append(longest)
    return tuple(((words[first].start, words[last].end), items) for first, last, items in found)


@dataclass(slots=True)
class _Node:
    """A word in the tree of all names: the items whose name ends here, and the words that may follow."""

    items: tuple[LineItem, ...] = ()
    after: dict[str, _Node] = field(default_factory=dict)


@cache
def _tree() -> _Node:
    root = _Node()
    for words, items in _by_name().items():
        node = root
        for word in words:
            node = node.after.setdefault(word, _Node())
        node.items = items
    return root


@cache
def _by_name() -> dict[tuple[str, ...], tuple[LineItem, ...]]:
    """Return the items of each name, by its words in normal form."""
    names: dict[tuple[str, ...], tuple[LineItem, ...]] = {}
    for item in line_items().values():
        for words in dict.fromkeys(tuple(word.key for word in _words(name)) for name in item.names):
            names[words] = (*names.get(words, ()), item)
    return names


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a text in normal form; ``apart`` if more than blanks, commas and hyphens is before it."""

    key: str
    start: int
    end: int
    apart: bool


_PLAIN_BRACKETS: Final = re.compile(
    r"\(\s?(?:(?:and\s|or\s)?(?:loss(?:es)?|income|profit|earnings|gains?|benefit|credit|expenses?|deficit|deficiency"
    r"|decrease|increase|used|(?:used|provided|generated)\s(?:in|for|by|from)|outflows?|inflows?|note))\s?\)",
    re.IGNORECASE,
)
"""Brackets within a name that only say what the other sign means: "income (loss)", "provided by (used in)"."""
_WORD: Final = re.compile(r"[A-Z]?[^\W\dA-Z_]+|[A-Z]+(?![a-z])|[A-Z]|\d+|&")
_APART: Final = re.compile(r"[^\s,'\u2019/\u2010-\u2014-]|[\t\f]|\n\s*\n")
_FARTHEST: Final = 30
"""The most characters between two words of a name, which "(provided by)" must fit in. project default"""
_DROPPED: Final = frozenset(["the", "our", "its", "consolidated"])
_ONE: Final = {
    "profit": "income",
    "loss": "income",
    "earning": "income",
    "cost": "expense",
    "charge": "expense",
    "stockholder": "shareholder",
    "taxation": "tax",
    "&": "and",
}
"""Words that are compared as the same word, after plural and British endings have been removed."""


def _words(text: str) -> list[_Word]:
    plain = _PLAIN_BRACKETS.sub(lambda match: "-" * len(match[0]), text)
    words: list[_Word] = []
    end, apart = 0, False
    for match in _WORD.finditer(plain):
        start = match.start()
        apart = apart or start - end > _FARTHEST or (plain[end:start] != " " and bool(_APART.search(plain, end, start)))
        end = match.end()
        for key in _normal(match[0]):
            words.append(_Word(key, start, end, apart))
            apart = False
    return words


@lru_cache(maxsize=8192)
def _normal(word: str) -> tuple[str, ...]:
    """Return a word in normal form: none if it adds nothing, two for "noncurrent"."""
    low = word.casefold()
    if low in _DROPPED or low == "s":
        return ()
    if low.startswith("non") and low[3:] in ("current", "controlling", "interest", "operating"):
        return "non", low[3:]
    low = re.sub(r"is(?=(?:ations?|ed?|es|ing)$)", "iz", low)
    one = f"{low[:-3]}y" if low.endswith("ies") and len(low) > 4 else re.sub(r"(?<=ss|.x|ch)es$|(?<![su])s$", "", low)
    return (_ONE.get(one, one),)
