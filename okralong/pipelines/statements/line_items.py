"""The line items of financial statements: the names of each, and the metrics that are computed from them.

The table ships as ``configs/line_items.yaml``. Statements do not list "operating margin", but they list operating
income and net sales, so a question that names the metric is shown those rows. A question about a line item is answered
from a row or sentence with any of its names (``answering/readers/statement.py``). Not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from pydantic import Field

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.statements.periods import Span

FILE: Final = "line_items.yaml"

Item = re.Pattern[str]
"""The names of one line item."""


class Metric(Settings):
    """A metric: its names, and the line items that it is computed from."""

    names: list[str] = Field(min_length=1)
    items: list[str] = Field(min_length=1)


class Metrics(Settings):
    """The content of ``line_items.yaml``. Longer names match first: "EBITDA margin" is not "EBITDA".

    Each list in ``same`` holds the names that statements and sentences use for one line item.
    """

    metrics: list[Metric]
    same: list[list[str]] = Field(default_factory=list)


def items_needed(question: str) -> list[Item]:
    """Return the line items of the metric that a question names, or else the line items it names directly."""
    pattern, queries = _table()
    metric = pattern.search(question)
    if metric is None:
        return _longest([(span, item) for item in line_items() for span in mentions(item, question, _ASKED)])
    found: list[Item] = []
    for query in queries[_plain(metric["name"])]:
        found += _longest([(match.span(), item) for item in line_items() for match in item.finditer(query)])
    return list(dict.fromkeys(found))


def _longest(found: list[tuple[Span, Item]]) -> list[Item]:
    """Return the items in order, dropping names inside a longer one ("sales" in "cost of sales")."""
    outer = [
        (span, item)
        for span, item in found
        if not any(other != span and other[0] <= span[0] and span[1] <= other[1] for other, _ in found)
    ]
    return list(dict.fromkeys(item for _, item in sorted(outer, key=lambda each: each[0])))


@cache
def line_items() -> tuple[re.Pattern[str], ...]:
    """Return a pattern per line item. It matches any of the item's names, trying the longest first.

    A word may be followed by brackets ("net income (loss)", "provided by (used in) operating activities").
    """
    return tuple(_names_of(each) for each in load_config(Metrics, FILE).same)


def _names_of(names: list[str]) -> re.Pattern[str]:
    written = []
    for name in sorted(names, key=len, reverse=True):
        words = [rf"{_spelt(word)}(?:\s?\({_IN_BRACKETS}\))?" for word in name.split()]
        written.append(r"[\s-]+".join(words))
    return re.compile(rf"(?:{'|'.join(written)})(?![\w&])", re.IGNORECASE)


_IN_BRACKETS: Final = r"(?:loss(?:es)?|used\s(?:in|for)|expense|benefit|deficit|deficiency|decrease|increase)"


def _spelt(word: str) -> str:
    """Escape a word of a name; its apostrophe matches a straight or curly one, or none."""
    return re.escape(word).replace("'", "['\u2019]?")


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


_ASKED: Final = re.compile(
    rf"(?:{_BY_ITSELF}|\b(?:of|by|from|to|than|and|or|in|on|did|does|do|between|exceed|exceeded|whose)\s+)$",
    re.IGNORECASE,
)
"""The same in a question, where prepositions and verbs may also precede the name."""


def mentions(item: Item, text: str, free: re.Pattern[str] = _FREE) -> Iterator[Span]:
    """Iterate over mentions of an item whose meaning no preceding word changes; ``free`` matches harmless words."""
    for match in item.finditer(text):
        start, end = match.span()
        if start and text[start - 1].isalnum():
            if text[start].isupper() and not text[start - 1].isupper():
                yield start, end
            continue
        before = text[max(0, start - 80) : start]
        while free.search(before) is None:
            plain = _PLAIN.search(before)
            if plain is None:
                break
            before = "" if plain["glued"] is not None else before[: plain.start()]
        else:
            yield start, end


@cache
def _table() -> tuple[re.Pattern[str], dict[str, list[str]]]:
    items = {_plain(name): each.items for each in load_config(Metrics, FILE).metrics for name in each.names}
    names = sorted(items, key=lambda name: (-len(name), name))
    words = "|".join(r"[\s-]+".join(map(re.escape, name.split())) for name in names)
    return re.compile(rf"(?<![\w&])(?P<name>{words})s?(?![\w&])", re.IGNORECASE), items


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", " ", name.lower()).strip()
