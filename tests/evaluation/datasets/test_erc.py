"""The Enterprise RAG Challenge in both of its layouts, its marks, and a sweep's questions file with its pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.base import DataSet
from okralong.lab.datasets.erc import ERC, read_asked, read_erc
from okralong.lab.datasets.pooling import Span, whole
from okralong.lab.sweeps.challenge import page_mark, value_mark
from okralong.lab.sweeps.gold_questions import read_gold_questions, write_gold_questions
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file
from tests.indexing.tiny_pdf import tiny_pdf

RENT, SALES = "What was the rent of Alder Group plc?", "Which had lower sales, Alder or Birch Inc.?"
CANONIC = {
    RENT: {"kind": "number", "answers": ["12.0", "13.0"], "reference_pools": [["1f:0", "1f:2"], ["9a:7"]]},
    SALES: {"kind": "name", "answers": ["Birch Inc."], "reference_pools": [["1f:2"], ["9a:0"]]},
    "Did Cedar plc buy shares?": {"kind": "boolean", "answers": ["False"], "reference_pools": []},
}
SUBSET = [
    {"sha1": "9a", "cur": "USD", "company_name": "Birch Inc."},
    {"sha1": "1f", "cur": "USD", "company_name": "Alder Group plc"},
    {"sha1": "3c", "cur": "USD", "company_name": "Alder"},
    {"sha1": "5e", "cur": "USD", "company_name": "Cedar plc"},
]
PDFS = {"1f": ["The rent was 12.", "", "Sales rose."], "9a": ["Sales fell."], "3c": ["Of Alder."]}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    json_file(tmp_path / "canonic.json", CANONIC)
    json_file(tmp_path / "subset.json", SUBSET)
    (tmp_path / "pdfs").mkdir()
    for name, pages in PDFS.items():
        (tmp_path / "pdfs" / f"{name}.pdf").write_bytes(tiny_pdf(pages))
    return tmp_path


@pytest.mark.slow  # files are read in a process
def test_the_published_round_is_asked_of_the_reports_it_names(published: Path, tmp_path: Path) -> None:
    data = read_erc(published, "round2")
    rent, sales = data.items
    assert (rent.documents, sales.documents) == (("1f",), ("9a", "3c"))
    asked = rent.gold.question
    assert (asked.query_id, asked.answers, asked.answer_type) == (f"{ERC}-e000", ("12.0", "13.0"), "number")
    assert (sales.gold.question.answer_type, sales.gold.question.type) == ("", "multi-source")
    assert _words(data, rent) == [["The rent was 12.", "Sales rose."]]
    assert _words(data, sales) == [["Sales fell."]]  # the other report is not about a company that it names
    assert "1 of 3 questions are left out" in data.notes[0]

    write_gold_questions(Folder.of(tmp_path), "questions.jsonl", whole(data).questions)
    first, second = read_gold_questions(tmp_path / "questions.jsonl")
    assert (first.gold.source_type, second.gold.source_type) == ("number", "name")
    text = next(document.text for document in whole(data).documents if document.doc_id == "1f")
    assert [text[span.start_char : span.end_char] for span in first.pools[0]] == ["The rent was 12.", "Sales rose."]


def _words(data: DataSet, item: Any) -> list[list[str]]:
    return [[data.texts[p.text_id].text[p.start_char : p.end_char] for p in pool] for pool in item.pools]


def test_the_other_layout_is_read_into_the_same_questions(published: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    json_file(folder / "companies.json", {row["sha1"]: {"company": row["company_name"]} for row in SUBSET})
    names = [["Alder Group plc"], ["Birch Inc.", "Alder"], ["Cedar plc"]]
    rows = [
        {
            "query_id": f"e{number:03}",
            "question": question,
            "kind": row["kind"],
            "companies": names[number],
            "answers": row["answers"],
            "pages": [[{"pdf": page[:2], "page": int(page[3:])} for page in pool] for pool in row["reference_pools"]],
        }
        for number, (question, row) in enumerate(CANONIC.items())
    ]
    jsonl_file(folder / "round2_questions.jsonl", rows)
    assert read_asked(folder) == read_asked(published)
    assert read_asked(folder)[2].answers == ("no",)
    bad = {RENT: {**CANONIC[RENT], "reference_pools": [["1f"]]}}
    json_file(published / "canonic.json", bad)
    with pytest.raises(InputError, match="question 1: the field 'reference_pools' holds '1f'"):
        read_asked(published)


@pytest.mark.parametrize(
    ("kind", "golds", "said", "expected"),
    [
        ("number", ["206100000.0"], "206,000,000", 1.0),
        ("number", ["206100000.0"], "203000000", 0.0),
        ("number", ["0.27"], "27%", 0.0),
        ("number", ["5.2"], "-5.2", 0.0),
        ("number", ["-5.2"], "\u22125.2", 1.0),
        ("number", ["unanswerable"], None, 1.0),
        ("number", ["12.0"], None, 0.0),
        ("number", ["unanswerable", "12.0"], "12", 1.0),
        ("boolean", ["no"], "no", 1.0),
        ("boolean", ["yes"], "no", 0.0),
        ("boolean", ["no"], None, 0.0),
    ],
)
def test_marks_of_single_values(kind: str, golds: list[str], said: str | None, expected: float) -> None:
    status = "answered" if said else "unanswerable"
    assert value_mark(kind, {"status": status, "value": said, "answer": "words"}, golds) == expected


@pytest.mark.parametrize(
    ("kind", "golds", "said", "expected"),
    [
        ("name", ["Alder Inc.", "Birch"], "birch", 1.0),
        ("names", ["Ann Lee, Bo Ray"], "Bo Ray; Ann Lee", 1.0),
        ("names", ["Ann Lee"], "Ann Lee; Bo Ray", 0.5),
    ],
)
def test_marks_of_names(kind: str, golds: list[str], said: str, expected: float) -> None:
    assert value_mark(kind, {"status": "answered", "value": None, "answer": said}, golds) == expected


def test_a_failed_question_is_no_refusal() -> None:
    for status in ("failed", "invalid_output"):
        assert value_mark("number", {"status": status, "value": None, "answer": ""}, ["unanswerable"]) == 0.0


def test_one_page_of_each_pool_has_to_be_cited() -> None:
    pools = [[Span("1f", 0, 10), Span("1f", 30, 40)], [Span("9a", 0, 10)]]
    assert page_mark([Span("1f", 39, 50), Span("9a", 10, 12)], pools) == 0.5
    assert page_mark([Span("1f", 5, 6), Span("9a", 0, 2)], pools) == 1.0
    assert page_mark([], pools) == 0.0
    assert page_mark([Span("1f", 5, 6)], []) is None
