"""Sets over PDF files: UDA, TAT-DQA, FinanceBench and MuDABench, as their authors publish them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.document_files import (
    STORED,
    read_financebench,
    read_mudabench,
    read_tatdqa,
    read_uda_documents,
)
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file
from tests.indexing.tiny_pdf import tiny_pdf

pytestmark = pytest.mark.slow  # files are read in a process

RENT = "The rent of Alder was 12 thousand in 2019."
ROWS = [
    "doc_name|q_uid|question|answer|answer_scale|answer_type",
    "alder_2019|u1|Rent?|['12']|thousand|span",
    "alder_2019|u2|Rent of Birch?|['99']||span",
    "birch_2019|u3|Rent?|['13']|thousand|span",
]


def uda(folder: Path, rows: list[str] = ROWS) -> Path:
    (folder / "qa").mkdir()
    (folder / "qa" / "tat_qa.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    documents = folder / "src_doc_files" / "tat_docs"
    (documents / "unpacked").mkdir(parents=True)
    (documents / "unpacked" / "alder_2019.pdf").write_bytes(tiny_pdf([RENT, "Second page."]))
    (documents / "unpacked" / "._alder_2019.pdf").write_bytes(b"left by an archiver")
    return documents


def test_uda_is_asked_of_its_pdf_files(tmp_path: Path) -> None:
    data = read_uda_documents(uda(tmp_path), "documents")
    (text,) = data.texts.values()
    assert (data.name, text.document) == ("uda_tat_qa", "alder_2019")
    assert text.text.startswith(RENT)
    assert "Second page." in text.text
    assert text.text[text.sections[1].start_char :].strip() == "Second page."
    first, second = data.items
    assert first.text_ids == second.text_ids == (text.text_id,)
    assert first.gold.question.answers == ("12", "12 thousand")
    assert (first.gold.parts, second.gold.parts) == ((("12",),), ())  # the second was worded by nobody in the report
    assert "1 of 3 questions are left out" in data.notes[0]


def test_a_text_is_read_from_its_file_once(tmp_path: Path) -> None:
    documents = uda(tmp_path)
    before = read_uda_documents(documents, "documents")
    (stored,) = (documents / "unpacked" / STORED).iterdir()
    json_file(stored, {"text": "The rent was 12.", "sections": []})
    (text,) = read_uda_documents(documents, "documents").texts.values()
    assert text.text == "The rent was 12."
    (documents / "unpacked" / "alder_2019.pdf").write_bytes(tiny_pdf([RENT, "Second page.", "Third."]))
    (text,) = read_uda_documents(documents, "documents").texts.values()
    assert "Third." in text.text
    assert not set(before.texts) & {text.text_id}


def test_documents_that_are_not_there_are_said(tmp_path: Path) -> None:
    documents = uda(tmp_path)
    (documents / "unpacked" / "alder_2019.pdf").write_bytes(b"%PDF-1.4 and nothing else")
    with pytest.raises(InputError, match=r"tat_docs is a document of the 3 questions. Unpack the documents there"):
        read_uda_documents(documents, "documents")
    with pytest.raises(InputError, match="not one of UDA's folders of documents"):
        read_uda_documents(Path(shutil.move(documents, documents.with_name("docs"))), "documents")


def question(uid: str, answer: Any, kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "uid": uid,
        "order": 1,
        "question": f"What of {uid}?",
        "answer": answer,
        "derivation": "",
        "answer_type": kind,
        "scale": "",
        "req_comparison": False,
        "facts": [],
        "block_mapping": [{"0d6a": [0, 4]}],
        **changes,
    }


def test_tatdqa_is_asked_of_the_pages_of_its_filings(tmp_path: Path) -> None:
    (tmp_path / "tat_docs" / "test").mkdir(parents=True)
    (tmp_path / "tat_docs" / "test" / "a1.pdf").write_bytes(tiny_pdf([f"{RENT} It was 10 before."]))
    asked = [
        question("q1", ["12"], "span", scale="thousand"),
        question("q2", 20, "arithmetic", derivation="(12 - 10) / 10", facts=["12", "10"], scale="percent"),
        question("q3", 2, "count", derivation="2019##2018"),
    ]
    entries = [
        {"doc": {"uid": "a1", "page": 1, "source": "alder_2019.pdf"}, "questions": asked},
        {"doc": {"uid": "b1", "page": 7, "source": "birch_2019.pdf"}, "questions": [question("q4", ["1"], "span")]},
    ]
    data = read_tatdqa(json_file(tmp_path / "tatdqa_dataset_test_gold.json", entries), "test")
    span, sum_, count = data.items
    assert [item.documents for item in data.items] == [("alder_2019",)] * 3
    assert (span.gold.question.query_id, span.gold.question.type) == ("tatdqa-q1", "extractive")
    assert span.gold.question.answers == ("12", "12 thousand")
    assert (sum_.gold.question.answers, sum_.gold.parts) == (("20%",), (("12",), ("10",)))
    assert (sum_.calculation, count.calculation) == ("(12 - 10) / 10", "")
    assert count.gold.parts == ()  # 2018 is not on the page
    assert "1 of 4 questions are left out" in data.notes[0]
    asked[0].pop("facts")
    with pytest.raises(InputError, match="row 1, question 1: the field 'facts' is missing"):
        read_tatdqa(json_file(tmp_path / "tatdqa_dataset_test_gold.json", entries), "test")


def test_financebench_is_asked_of_its_filings(tmp_path: Path) -> None:
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "pdfs" / "ALDER_2019_10K.pdf").write_bytes(tiny_pdf([RENT]))
    row = {
        "financebench_id": "financebench_id_00001",
        "company": "Alder",
        "doc_name": "ALDER_2019_10K",
        "question_type": "metrics-generated",
        "question_reasoning": None,
        "question": "What was the FY2019 rent?",
        "answer": "12 thousand",
        "evidence": [{"evidence_text": RENT, "doc_name": "ALDER_2019_10K", "evidence_page_num": 0}],
    }
    other = {**row, "financebench_id": "financebench_id_00002", "doc_name": "BIRCH_2019_10K"}
    file = jsonl_file(tmp_path / "data" / "financebench_open_source.jsonl", [row, other])
    data = read_financebench(file, "open")
    (item,) = data.items
    assert (item.documents, item.gold.question.type) == (("ALDER_2019_10K",), "arithmetic")
    assert (item.gold.question.answers, item.gold.parts) == (("12 thousand",), (("12 thousand",),))
    assert "1 of 2 questions are left out" in data.notes[0]
    with pytest.raises(InputError, match="row 1: the field 'question_type' holds a question label"):
        read_financebench(jsonl_file(file, [{**row, "question_type": "new"}]), "open")


def test_mudabench_is_asked_of_the_documents_of_its_metadata(tmp_path: Path) -> None:
    (tmp_path / "pdf").mkdir()
    for name in ("a1", "b1"):
        (tmp_path / "pdf" / f"{name}.pdf").write_bytes(tiny_pdf([f"The rent of {name} was 12."]))
    of = {"symbol": "002142", "year": 2021, "value_rent": 12, "schema": {"value_rent": "rent"}, "doctype": "A"}
    row = {
        "question": "Which rent was highest?",
        "metadata": [{**of, "id": "a1"}, {**of, "id": "b1"}],
        "source_answer": ["The rent was 12."],
        "final_answer": "That of a1.",
    }
    rows = [row, {**row, "metadata": [{**of, "id": "a1"}, {**of, "id": "c1"}]}]
    data = read_mudabench(json_file(tmp_path / "simple.json", rows), "simple")
    (item,) = data.items
    assert (item.documents, item.gold.question.answers) == (("a1", "b1"), ("That of a1.",))
    assert (item.gold.question.query_id, item.gold.question.type) == ("mudabench-simple-1", "multi-source")
    assert "1 of 2 questions are left out" in data.notes[0]
