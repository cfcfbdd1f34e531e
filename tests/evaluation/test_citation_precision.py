"""Citation precision, by hand."""

from __future__ import annotations

from okralong.lab.datasets.pooling import Span
from okralong.lab.sweeps.metrics import citation_precision

TEXT = {"a": "Sales rose.  Costs fell.", "b": "Sales rose."}


def test_a_citation_is_right_when_it_touches_evidence() -> None:
    gold = [Span("a", 0, 11)]
    assert citation_precision([Span("a", 6, 20)], gold, TEXT) == 1.0
    assert citation_precision([Span("a", 6, 20), Span("a", 13, 24), Span("b", 0, 11)], gold, TEXT) == 1 / 3


def test_white_space_in_common_is_nothing_in_common() -> None:
    assert citation_precision([Span("a", 11, 24)], [Span("a", 0, 13)], TEXT) == 0.0


def test_it_is_not_defined_without_citations_or_evidence() -> None:
    assert citation_precision([], [Span("a", 0, 11)], TEXT) is None
    assert citation_precision([Span("a", 0, 11)], [], TEXT) is None
