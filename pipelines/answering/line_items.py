"""Line items of financial metrics: "operating margin" stands in no statement, operating income and net sales do.

The table ships as ``configs/line_items.yaml``. A question that names a metric is looked up once more for each line item
that the metric is worked out from. Ours, not in the paper.
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
    """The table. A longer name is looked for first: "EBITDA margin" is not "EBITDA"."""

    metrics: list[Metric]


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
def _table() -> tuple[re.Pattern[str], dict[str, list[str]]]:
    items = {_plain(name): each.items for each in load_config(Metrics, FILE).metrics for name in each.names}
    names = sorted(items, key=lambda name: (-len(name), name))
    words = "|".join(r"[\s-]+".join(map(re.escape, name.split())) for name in names)
    return re.compile(rf"(?<![\w&])(?P<name>{words})s?(?![\w&])", re.IGNORECASE), items


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", " ", name.lower()).strip()
