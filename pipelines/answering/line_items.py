"""Line items of financial statements: what a metric is worked out from, and by which names one item goes.

The table ships as ``configs/line_items.yaml``. A question that names a metric is looked up once more for each line item
that the metric is worked out from: "operating margin" stands in no statement, operating income and net sales do. A
question that asks for a line item is read by code where a row or a sentence has it by any of its names
(``statement_reading.py``). Ours, not in the paper.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from pydantic import Field

from okralong.pipelines.core.config import Settings, load_config

FILE: Final = "line_items.yaml"


class Metric(Settings):
    """One metric: what it is called, and the line items that it is worked out from, as queries."""

    names: list[str] = Field(min_length=1)
    items: list[str] = Field(min_length=1)


class Metrics(Settings):
    """The table. A longer name is looked for first: "EBITDA margin" is not "EBITDA". ``same`` are the names of one line
    item each, in the words of statements and of the sentences that tell of them.
    """

    metrics: list[Metric]
    same: list[list[str]] = Field(default_factory=list)


def line_item_queries(question: str) -> list[str]:
    """``question`` with the line items in the metric's place, one query an item; none where it names no metric.

    The first metric that the question names counts; a longer name goes before a shorter one.
    """
    pattern, items = _table()
    found = pattern.search(question)
    if found is None:
        return []
    before, after = question[: found.start()], question[found.end() :]
    return [f"{before}{item}{after}" for item in items[_plain(found["name"])]]


@cache
def line_items() -> tuple[re.Pattern[str], ...]:
    """One pattern for each line item, which any of its names fits, the longest first. Brackets may stand behind a word
    ("net income (loss)", "provided by (used in) operating activities").
    """
    return tuple(_names_of(each) for each in load_config(Metrics, FILE).same)


def _names_of(names: list[str]) -> re.Pattern[str]:
    written = []
    for name in sorted(names, key=len, reverse=True):
        words = [
            rf"{re.escape(word)}(?:\s?\((?:loss(?:es)?|used\s(?:in|for)|expense|benefit)\))?" for word in name.split()
        ]
        written.append(r"[\s-]+".join(words))
    return re.compile(rf"(?:{'|'.join(written)})(?![\w&])", re.IGNORECASE)


@cache
def _table() -> tuple[re.Pattern[str], dict[str, list[str]]]:
    items = {_plain(name): each.items for each in load_config(Metrics, FILE).metrics for name in each.names}
    names = sorted(items, key=lambda name: (-len(name), name))
    words = "|".join(r"[\s-]+".join(map(re.escape, name.split())) for name in names)
    return re.compile(rf"(?<![\w&])(?P<name>{words})s?(?![\w&])", re.IGNORECASE), items


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", " ", name.lower()).strip()
