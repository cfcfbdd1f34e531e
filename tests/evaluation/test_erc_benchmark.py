"""Marks of the Enterprise RAG Challenge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.erc import Asked, mark, questions_of, report_of, said_in


@pytest.mark.parametrize(
    ("kind", "golds", "said", "expected"),
    [
        ("number", ["206100000.0"], "206,000,000", 1.0),
        ("number", ["206100000.0"], "203000000", 0.0),
        ("number", ["0.27"], "27%", 0.0),
        ("number", ["N/A"], "N/A", 1.0),
        ("number", ["12.0"], "N/A", 0.0),
        ("number", ["N/A"], "12", 0.0),
        ("boolean", ["False"], "False", 1.0),
        ("boolean", ["True"], "False", 0.0),
        ("name", ["Alder Inc.", "Birch"], "birch", 1.0),
        ("names", ["Ann Lee, Bo Ray"], "Bo Ray; Ann Lee", 1.0),
        ("names", ["Ann Lee"], "Ann Lee; Bo Ray", 0.5),
    ],
)
def test_marks(kind: str, golds: list[str], said: str, expected: float) -> None:
    assert mark(Asked("q", "?", kind, tuple(golds)), said) == expected


def _row(**values: Any) -> dict[str, Any]:
    row = {"status": "answered", "answer": "", "value": None, "confidence": 0.9, "doc_id": "", "page": None}
    return {**row, "more_citations": "", **values}


def test_answers_in_the_form_of_the_challenge() -> None:
    assert said_in(_row(status="unanswerable", answer="unanswerable"), "number") == "N/A"
    assert said_in(_row(answer="True", value="yes"), "boolean") == "True"
    assert said_in(_row(answer="$5 million", value="5000000"), "number") == "5000000"


def test_the_report_counts_pages_and_wrong_answers_among_confident_ones() -> None:
    asked = [
        Asked("a", "?", "number", ("5",), frozenset({("1f", 3)})),
        Asked("b", "?", "number", ("6",), frozenset({("1f", 8)})),
    ]
    rows = {"a": _row(value="5", doc_id="1f.pdf", page=4), "b": _row(value="7", doc_id="1f.pdf", page=4)}
    assert report_of(asked, rows).splitlines()[-1] == "| all | 1.0 of 2 | 0 of 0 | 1 of 2 | 1 of 2 |"


def test_only_questions_of_the_side_are_asked(tmp_path: Path) -> None:
    reports = {"1f": {"company": "Alder"}, "9a": {"company": "Birch"}}
    (tmp_path / "companies.json").write_text(json.dumps(reports))
    rows = [
        {"query_id": name, "question": f"Of {name}?", "kind": "name", "companies": [name], "answers": [], "pages": []}
        for name in ("Alder", "Birch")
    ]
    (tmp_path / "round2_questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    first = [{"question": "What of Cedar?", "schema": "number", "answer": ["N/A"]}]
    (tmp_path / "round1_answers.json").write_text(json.dumps(first))
    assert [each.query_id for each in questions_of(tmp_path, "dev", ["Cedar"])] == ["Alder", "r1-00"]
    assert [each.query_id for each in questions_of(tmp_path, "held")] == ["Birch"]
