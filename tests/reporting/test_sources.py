"""Cited and gold spans in their surroundings: what is marked, what is left out, what is said where text is missing."""

from __future__ import annotations

import pytest

from okralong.pipelines.reporting.sources import (
    AROUND,
    CITED,
    GOLD,
    HEAD,
    TAIL,
    evidence_recall,
    evidence_span,
    sources,
)

TEXT = "\n".join(f"line {n:04d} of the report" for n in range(2_000))


def test_evidence_of_a_questions_file_is_a_span_or_nothing() -> None:
    assert evidence_span("reports/alder:12:30") == ("reports/alder", 12, 30)
    assert evidence_span("a:b:3:4") == ("a:b", 3, 4)
    for other in ("the sales rose", "alder:30:12", "alder:x:3", "alder:-1:3", ""):
        assert evidence_span(other) is None


def test_a_citation_stands_in_whole_lines_of_its_surroundings() -> None:
    start = TEXT.index("line 0500")
    [found] = sources([("d", start, start + 9)], [], [("d", 0, len(TEXT))], lambda _: TEXT)
    assert [kind for _, kind in found.pieces] == [0, CITED, 0]
    assert found.pieces[1] == ("line 0500", CITED)
    shown = "".join(text for text, _ in found.pieces)
    assert shown in TEXT
    assert shown.startswith("line ")
    assert found.seen
    assert len(shown) < 2 * AROUND + 200


def test_gold_within_a_citation_is_both() -> None:
    [found] = sources([("d", 100, 140)], [("d", 110, 120)], [], lambda _: TEXT)
    marks = [(len(text), kind) for text, kind in found.pieces if kind]
    assert marks == [(10, CITED), (10, CITED | GOLD), (20, CITED)]
    assert not found.seen


def test_a_huge_span_shows_its_beginning_and_its_end() -> None:
    line = "x" * 1_000_000
    [found] = sources([("d", 1_000, 900_000)], [], [], lambda _: line)
    left_out = [kind for _, kind in found.pieces if kind < 0]
    assert left_out == [-(899_000 - HEAD - TAIL)]
    assert sum(len(text) for text, _ in found.pieces) < HEAD + TAIL + 4 * AROUND


def test_near_spans_share_a_window_and_far_ones_do_not() -> None:
    cited = [("d", 5_000, 5_010), ("d", 5_100, 5_110), ("e", 0, 5), ("d", 20_000, 20_010)]
    found = sources(cited, [("f", 3, 9)], [], lambda _: TEXT)
    assert [(each.doc_id, sum(kind > 0 for _, kind in each.pieces)) for each in found] == [
        ("d", 2),
        ("d", 1),
        ("e", 1),
        ("f", 1),
    ]


def test_places_without_a_text_have_no_pieces() -> None:
    [found] = sources([("gone", 1_000, 1_010)], [], [], lambda _: None)
    assert (found.doc_id, found.start_char, found.pieces) == ("gone", 1_000 - AROUND, ())


def test_a_span_beyond_its_text_marks_nothing() -> None:
    [found] = sources([("short", 90, 120)], [], [], lambda _: "only this")
    assert found.pieces == (("only this", 0),)
    [found] = sources([("short", 9_000, 9_120)], [], [], lambda _: "only this")
    assert sum(kind for _, kind in found.pieces) == 0


@pytest.mark.parametrize(
    ("context", "recall"),
    [([], 0.0), ([("d", 0, 15)], 0.25), ([("d", 0, 15), ("d", 12, 20)], 0.5), ([("d", 0, 99), ("e", 0, 99)], 1.0)],
)
def test_evidence_recall_counts_each_gold_character_once(context: list[tuple[str, int, int]], recall: float) -> None:
    assert evidence_recall([("d", 10, 20), ("e", 5, 15)], context) == recall
    assert evidence_recall([], context) is None
