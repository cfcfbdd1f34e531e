"""What counts as shown."""

from __future__ import annotations

import pytest

from okralong.lab.datasets.base import Item
from okralong.lab.datasets.gold import Gold, Parts
from okralong.lab.datasets.pooling import CellSpan, PooledQuestion, Span
from okralong.lab.evidence.measure import measure, ranges
from okralong.pipelines.core.types import Passage, Question

DOCUMENTS = {"a": "Year 2009 2010\nSales   12   15\nCosts 7 8\nSales rose by 3.", "b": "Nothing is here.\n\n"}


def _span(wanted: str, doc_id: str = "a") -> Span:
    start = DOCUMENTS[doc_id].index(wanted)
    return Span(doc_id, start, start + len(wanted))


def _shown(*wanted: str) -> list[Passage]:
    spans = [_span(each) for each in wanted]
    return [Passage(s.doc_id, s.start_char, s.end_char, t, 10, 1.0) for s, t in zip(spans, wanted, strict=True)]


def _asked(evidence: tuple[Span, ...], cells: tuple[CellSpan, ...] = (), parts: Parts = ()) -> PooledQuestion:
    item = Item(Gold(Question("q", "How much?"), "made up", parts=parts), ("a",))
    return PooledQuestion(item, ("a",), evidence, cells)


def test_white_space_does_not_count() -> None:
    question = _asked((_span("Sales   12   15\n"),))
    half = measure(question, _shown("2010\nSales   "), DOCUMENTS)
    assert half.evidence_recall == pytest.approx(5 / 9)
    assert (half.all_evidence, half.context_tokens) == (False, 10)
    whole = measure(question, _shown("Sales   12 ", "15"), DOCUMENTS)
    assert (whole.evidence_recall, whole.all_evidence, whole.context_tokens) == (1.0, True, 20)


def test_overlaps_count_once_and_each_piece_alone() -> None:
    question = _asked((_span("Sales   12"), _span("12   15"), _span("Costs 7 8")))
    shown = measure(question, _shown("Sales   12   1", "12   15", "Costs"), DOCUMENTS)
    assert shown.evidence_recall == pytest.approx((9 + 5) / (9 + 7))
    assert (shown.pieces, shown.pieces_shown, shown.all_evidence) == (3, 2, False)


def test_another_document_shows_nothing() -> None:
    question = _asked((_span("Sales   12"),))
    other = [Passage("b", 0, len(DOCUMENTS["b"]), DOCUMENTS["b"], 4, 1.0)]
    assert measure(question, other, DOCUMENTS).evidence_recall == 0.0
    assert measure(question, [], DOCUMENTS).evidence_recall == 0.0


def test_a_cell_needs_its_row_and_its_header() -> None:
    header = _span("Year 2009 2010")
    cells = (CellSpan(_span("Sales   12   15"), header), CellSpan(_span("Costs 7 8"), header))
    question = _asked((), cells)
    assert measure(question, _shown("Sales   12   15\nCosts 7 8"), DOCUMENTS).cell_recall == 0.0
    assert measure(question, _shown("Year 2009 2010\nSales   12   15"), DOCUMENTS).cell_recall == 0.5
    assert measure(question, _shown("Year 2009 2010", "Sales   12   15\nCosts 7 8"), DOCUMENTS).cell_recall == 1.0


def test_what_is_not_marked_is_not_scored() -> None:
    bare = measure(_asked((_span("\n\n", "b"),)), _shown("Costs"), DOCUMENTS)
    assert (bare.evidence_recall, bare.pieces, bare.all_evidence, bare.answer_recall, bare.cell_recall) == (
        (None, 0, None, None, None)
    )
    parts = (("12", "twelve"), ("99",))
    assert measure(_asked((), parts=parts), _shown("Sales   12   15"), DOCUMENTS).answer_recall == 0.5


def test_ranges_are_joined() -> None:
    spans = [("a", 5, 9), ("b", 0, 1), ("a", 0, 3), ("a", 3, 4), ("a", 6, 7)]
    assert ranges(spans) == {"a": [(0, 4), (5, 9)], "b": [(0, 1)]}
