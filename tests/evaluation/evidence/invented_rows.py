"""Rows of methods that were never run, for what is done with figures afterwards."""

from __future__ import annotations

from okralong.lab.evidence.bench import Row
from okralong.lab.evidence.config import Sweep
from okralong.lab.evidence.measure import Shown
from okralong.pipelines.core.config import parse_config

SWEEP = """
title: Invented
side: test
sets: [{name: one, part: all}, {name: two, part: all}]
methods:
  base: {retriever: exact, granularity: 150, count: 4, counts: [2, 4]}
  mine: {policy: policy/paper.yaml, scales: [0.5, 1]}
against: [base]
pictured: [base, mine]
words: Nothing was run.
"""


def sweep(text: str = SWEEP) -> Sweep:
    return parse_config(Sweep, text, "the sweep")


def row(
    method: str,
    point: float,
    number: int,
    tokens: int,
    recall: float | None,
    answer: float | None = None,
    dataset: str = "one all",
) -> Row:
    """Question ``number`` is on a document of its own and on one that every second shares; it needs two pieces."""
    whole = None if recall is None else recall == 1.0
    shown = Shown(recall, 0 if recall is None else 2, int(2 * (recall or 0)), whole, answer, None, tokens)
    documents = (f"source {number}", f"page {number % 2}")
    return Row(dataset, method, point, f"q{number}", documents, "extractive", "linear", 1, 0, 500, shown)


def four_questions(dataset: str = "one all") -> list[Row]:
    """Base shows 400 tokens with recall 0.5 (one question whole); mine 160 with 0.5 and 320 with 0.75 (two whole)."""
    recalls = {
        ("base", 2.0, 200): (0.0, 0.5, 0.0, 0.5),
        ("base", 4.0, 400): (0.0, 0.5, 0.5, 1.0),
        ("mine", 0.5, 160): (0.0, 1.0, 0.0, 1.0),
        ("mine", 1.0, 320): (0.5, 1.0, 0.5, 1.0),
    }
    return [
        row(method, point, number, tokens, recall, dataset=dataset)
        for (method, point, tokens), found in recalls.items()
        for number, recall in enumerate(found)
    ]
