"""The line items of financial statements and the metrics computed from them: their names, and where a text has them.

The table ships as ``configs/line_items.yaml``. Names are compared word by word, so one entry covers many wordings:
"Net (loss) income", "net earnings" and "Net profit" are the same words. A name inside a longer one is not that item:
"cost of sales" is not sales. Not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
        labels: Names that count only where they are the whole label of a row.
        instead: Ids of the items that a report without this one states in its place, the nearest first.
        change: Id of the flow that a row with this name is below "Changes in operating assets and liabilities".
        sign: What its sign means, where that is not plain.
    """

    id: str
    names: tuple[str, ...] = field(compare=False)
    statement: Statement = field(compare=False)
    period: Literal["instant", "duration"] = field(compare=False)
    kind: Kind = field(compare=False)
    elements: tuple[str, ...] = field(default=(), compare=False)
    formulas: tuple[str, ...] = field(default=(), compare=False)
    labels: tuple[str, ...] = field(default=(), compare=False)
    instead: tuple[str, ...] = field(default=(), compare=False)
    change: str = field(default="", compare=False)
    sign: str = field(default="", compare=False)

    @property
    def operands(self) -> tuple[str, ...]:
        """The ids of the line items that a metric is computed from, each once."""
        return tuple(dict.fromkeys(each for formula in self.formulas for each in _ID.findall(formula)))


_ID: Final = re.compile(r"[a-z][a-z\d_]+(?!\()\b")
""""change(revenue)" is a function of revenue, no item."""


class Entry(Settings):
    """An entry of ``line_items.yaml``; see ``LineItem``. "{a|b} c" in ``names`` is short for "a c" and "b c"."""

    id: str = Field(pattern=r"^[a-z][a-z\d_]+$")
    names: list[str] = Field(min_length=1)
    labels: list[str] = Field(default_factory=list)
    elements: list[str] = Field(default_factory=list)
    formulas: list[str] = Field(default_factory=list)
    instead: list[str] = Field(default_factory=list)
    change: str = ""
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
        named = [
            each
            for entry in entries
            for each in (*entry.instead, *_ID.findall(" ".join([entry.change, *entry.formulas])))
        ]
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
            tuple(name for written in entry.labels for name in _expanded(written)),
            tuple(entry.instead),
            entry.change,
            entry.sign,
        )
        for group in load_config(LineItems, FILE).groups
        for entry in group.items
    }


def _expanded(written: str) -> Iterator[str]:
    """Yield the names for which "{a|b} c" is short: "a c" and "b c"."""
    parts = [part.split("|") for part in re.split(r"[{}]", written)]
    return (" ".join("".join(chosen).split()) for chosen in product(*parts))


def with_substitutes(item: LineItem) -> tuple[LineItem, ...]:
    """Return an item and those that a report without it states in its place, the nearest first."""
    return item, *(line_items()[each] for each in item.instead)


def items_needed(question: str) -> list[LineItem]:
    """Return the line items that a question names, in order; for a metric, those that it is computed from."""
    found = [item for _, item in _asked(question)]
    needed = (line_items()[each] for item in found for each in (item.operands or [item.id]))
    return list(dict.fromkeys(needed))


def _asked(question: str) -> Iterator[tuple[Span, LineItem]]:
    """Iterate over what a question names. The name of a metric is one whatever precedes it."""
    for span, items in _names_in(question):
        free = _is_free(question, span[0], ASKED) and _PART.match(question, span[1]) is None
        for item in items:
            if free or item.formulas:
                yield span, item


_PART: Final = re.compile(
    r"[\s-](?:offices?|teams?|forces?|staff|tax(?:es)?|managers?|representatives?|channels?|prices?|pricing|recognition"
    r"|streams?|polic(?:y|ies)|strateg(?:y|ies)|contracts?|agreements?|process(?:es)?|person\w*|people)\b",
    re.IGNORECASE,
)
"""Words after a name which say that it is only a part of another: "sales office"."""


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
        ids = [item.change if item.period == "instant" else item.id for item in found]
        found = tuple(line_items()[each] for each in dict.fromkeys(ids) if each)
    return list(found)


_OF_CHANGES: Final = re.compile(r"\b(?:changes? in|adjustments)\b", re.IGNORECASE)
"""Sections of a cash flow statement below which "Accounts receivable" is a change, not a balance."""
_LONGEST_LABEL: Final = 400  # project default
_RELATIVE: Final = re.compile(r"%|\b(?:changes?|growth|percent\w*)\b", re.IGNORECASE)
"""Words in a label which say that the row holds changes or shares, not the item's amounts."""
_NOTE: Final = re.compile(r"\(?\bnotes? \d[\d, .]*(?:and \d+)?\)?|[*\u2020\u2021\xa7]", re.IGNORECASE)
_NET_OF: Final = re.compile(
    r"[\s,;:(\u2013\u2014-](?:net of(?! cash)\b|less\b|after deducting\b|at cost\b|(?:no )?par value\b|\$\s?\.?\d).*",
    re.I | re.S,
)
"""Deductions, par values and amounts behind the name of an item."""
_FOR_PERIOD: Final = re.compile(r"\sfor the (?:financial |fiscal )?(?:year|period|quarter|half-year)\b.*", re.I | re.S)
_WHOSE: Final = re.compile(r"\b(?:attributable|applicable|available|allocable) to\b", re.IGNORECASE)
_OTHERS: Final = re.compile(r"\bnon-?controlling|\bminorit|\bprefer|\bdiscontinu|\bparticipat|\bper\b", re.IGNORECASE)
"""Words for those who have a share in a profit besides the owners of the parent, or for an amount per share."""
_COMMON: Final = re.compile(r"\b(?:common|ordinary)\b", re.IGNORECASE)
_TOTAL_OF: Final = re.compile(r"\s*total\s(?!.*liabilit).*?(?=\b(?:stock|share)holders)", re.IGNORECASE | re.DOTALL)
"""A company's name within a label: "Total Alder Inc. stockholders' equity"."""
_BRACKETS: Final = re.compile(r"\([^()]*\)")
_LEAD: Final = frozenset(["total", "net", "overall", "reported", "add", "less"])


@lru_cache(maxsize=4096)
def _labelled(label: str) -> tuple[LineItem, ...]:
    if len(label) > _LONGEST_LABEL:
        return ()
    found = _exact(label)
    if found or _RELATIVE.search(label):
        return found
    plain = _BRACKETS.sub(" ", _KEPT_BRACKETS.sub(r" \1 ", _NOTE.sub(" ", label)))
    short = _NET_OF.sub("", plain)
    whose = _WHOSE.search(short)
    if whose is None or _OTHERS.search(short, whose.end()):
        owners = ""
    else:
        owners = f"{short[: whose.end()]} {'common shareholders' if _COMMON.search(short, whose.end()) else 'parent'}"
    own = _TOTAL_OF.sub("", short)
    return _exact(plain) or _exact(short) or _exact(owners) or _exact(_FOR_PERIOD.sub("", short)) or _exact(own)


def _exact(label: str) -> tuple[LineItem, ...]:
    """Return the items with this name, or else those without the words at either end that add nothing."""
    words, names = [word.key for word in _words(label)], _by_label()
    while words and words[-1].isdigit():
        words.pop()
    whole = names.get(tuple(words))
    while whole is None and len(words) > 1 and (words[0] in _LEAD or words[-1] in _LEAD):
        words = words[1:] if words[0] in _LEAD else words[:-1]
        whole = names.get(tuple(words))
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
    rf"(?:{_BY_ITSELF}|\b(?:of|by|from|to|than|and|or|in|on|did|does|do|between|exceed|exceeded|whose|average|unadjusted|end|higher|lower|larger|smaller|greater|highest|lowest|largest|smallest|more|less|most|positive|negative|many|have|has|spend|spent|pay|paid|with|an?)\s+)$",
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
    return _index((item, item.names) for item in line_items().values())


@cache
def _by_label() -> dict[tuple[str, ...], tuple[LineItem, ...]]:
    """Return the items of each name and of each label."""
    index = dict(_by_name())
    for words, items in _index((item, item.labels) for item in line_items().values()).items():
        index[words] = tuple(dict.fromkeys((*index.get(words, ()), *items)))
    return index


def _index(items: Iterable[tuple[LineItem, Sequence[str]]]) -> dict[tuple[str, ...], tuple[LineItem, ...]]:
    index: dict[tuple[str, ...], tuple[LineItem, ...]] = {}
    for item, names in items:
        for words in dict.fromkeys(tuple(word.key for word in _words(name)) for name in names):
            index[words] = (*index.get(words, ()), item)
    return index


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a text in normal form; ``apart`` if more than blanks, commas and hyphens is before it."""

    key: str
    start: int
    end: int
    apart: bool


_PLAIN_BRACKETS: Final = re.compile(
    r"\(\s?(?:(?:and\s|or\s)?(?:loss(?:es)?|profit|earnings|gains?|benefit|credit|deficit|deficiency"
    r"|decrease|increase|used|(?:used|provided|generated)\s(?:in|for|by|from)|outflows?|inflows?|note))\s?\)",
    re.IGNORECASE,
)
"""Brackets within a name that only say what the other sign means: "income (loss)", "provided by (used in)"."""
_KEPT_BRACKETS: Final = re.compile(r"\((income|expenses?)\)", re.IGNORECASE)
"""Brackets whose word belongs to the name: "other income (expense)" is a balance of both."""
_WORD: Final = re.compile(r"[A-Z]{2,}s?(?![^\W\dA-Z_])|[A-Z]?[^\W\dA-Z_]+|[A-Z]|\d+|&")
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
    "stock": "share",
    "stockholder": "shareholder",
    "ordinary": "common",
    "decrease": "increase",
    "change": "increase",
    "movement": "increase",
    "acquisition": "purchase",
    "addition": "purchase",
    "repayment": "payment",
    "associate": "affiliate",
    "&": "and",
}
"""Words that are compared as the same word, after plural and British endings have been removed."""
_TWO: Final = {
    "minority": ("non", "controlling"),
    **{f"non{word}": ("non", word) for word in ("controlling", "current", "interest", "operating", "redeemable")},
}
_EITHER: Final = frozenset(["income", "gain", "increase"])
"""Words whose opposite is read as the same word, so that "gains and losses" says it twice."""


def _words(text: str) -> list[_Word]:
    plain = _KEPT_BRACKETS.sub(r"-\1-", _PLAIN_BRACKETS.sub(lambda match: "-" * len(match[0]), text))
    words: list[_Word] = []
    end, apart = 0, False
    for match in _WORD.finditer(plain):
        start = match.start()
        apart = apart or start - end > _FARTHEST or (plain[end:start] != " " and bool(_APART.search(plain, end, start)))
        end = match.end()
        for key in _normal(match[0]):
            words.append(_Word(key, start, end, apart))
            if key in _EITHER and not apart:
                _merge(words)
            apart = False
    return words


def _merge(words: list[_Word]) -> None:
    """Make one word of the last ones if they are "profit/loss", "gains and losses" or "increase or decrease"."""
    for said in (2, 3):
        if len(words) < said:
            return
        first, last = words[-said], words[-1]
        linked = said == 2 or (words[-2].key in ("and", "or") and not words[-2].apart)
        same = first.key == last.key
        if linked and first.key in _EITHER and (same or "increase" not in (first.key, last.key)):
            words[-said:] = [_Word(first.key if same else "gain", first.start, last.end, first.apart)]
            return


@lru_cache(maxsize=8192)
def _normal(word: str) -> tuple[str, ...]:
    """Return a word in normal form: none if it adds nothing, two for "noncurrent"."""
    low = word.casefold()
    if low in _DROPPED or low == "s":
        return ()
    if low in _TWO:
        return _TWO[low]
    low = re.sub(r"is(?=(?:ations?|ed?|es|ing)$)", "iz", low)
    one = (
        f"{low[:-3]}y"
        if low.endswith("ies") and low != "equities" and len(low) > 4
        else re.sub(r"(?<=ss|.x|ch)es$|(?<![su])s$", "", low)
    )
    return (_ONE.get(one, one),)
