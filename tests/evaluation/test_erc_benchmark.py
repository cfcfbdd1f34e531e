"""The benchmark over the Enterprise RAG Challenge: its sides, and its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.erc import questions_of, report_of
from okralong.lab.datasets.erc import Asked


def _row(**values: Any) -> dict[str, Any]:
    row = {"status": "answered", "answer": "", "value": None, "confidence": 0.9, "doc_id": "", "page": None}
    return {**row, "more_citations": "", **values}


def test_the_report_counts_pages_and_wrong_answers_among_confident_ones() -> None:
    asked = [
        Asked("a", "?", "number", ("5",), pools=((("1f", 3),),)),
        Asked("b", "?", "number", ("6",), pools=((("1f", 8),),)),
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
    first = [{"question": "What of Cedar?", "schema": "number", "answer": ["N/A", 7]}]
    (tmp_path / "round1_answers.json").write_text(json.dumps(first))
    first_round = Asked("r1-00", "What of Cedar?", "number", ("unanswerable", "7"))
    assert questions_of(tmp_path, "dev", ["Cedar"]) == [Asked("Alder", "Of Alder?", "name", (), ("1f",)), first_round]
    assert [each.query_id for each in questions_of(tmp_path, "held")] == ["Birch"]
