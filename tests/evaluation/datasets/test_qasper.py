"""Qasper: whole papers with annotated paragraphs, and annotated questions alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.lab.datasets.papers import read_qasper, read_qasper_annotations
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.filings import evidence_of, write


def answer(**changes: Any) -> dict[str, Any]:
    none = {"unanswerable": False, "extractive_spans": [], "yes_no": None, "free_form_answer": "", "evidence": []}
    return {**none, "highlighted_evidence": [], **changes}


def paper(*annotated: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = range(1, len(annotated) + 1)
    return {
        "id": "1701.00001",
        "title": "On Alders",
        "abstract": "We plant alders.",
        "full_text": {
            "section_name": ["Intro", None, "Results ::: Loam"],
            "paragraphs": [["Alders like water.", ""], ["Birches do not."], ["Loam is best. Sand is worst."]],
        },
        "qas": {
            "question": [f"Question {n}?" for n in numbers],
            "question_id": [f"id{n}" for n in numbers],
            "answers": [{"answer": answers} for answers in annotated],
        },
    }


def test_papers_are_texts_and_evidence_is_the_first_answerable_annotators(tmp_path: Path) -> None:
    rows = paper(
        [
            answer(unanswerable=True),
            answer(extractive_spans=["Loam", "Sand"], evidence=["Loam is best. Sand is worst.", "FLOAT SELECTED: T1"]),
            answer(free_form_answer="The soil", evidence=["Birches do not."]),
        ],
        [answer(yes_no=False, evidence=["Results ::: Loam", "Nowhere to be found."])],
        [answer(unanswerable=True), answer(unanswerable=True)],
        [answer(free_form_answer="They like water", evidence=["Alders like water.", "Birches do not."])],
    )
    data_set = read_qasper(write(tmp_path / "train.json", [rows]), "train")
    (text,) = data_set.texts.values()
    assert text.document == "1701.00001"
    assert text.text == (
        "On Alders\n\nWe plant alders.\n\nIntro\n\nAlders like water.\n\nBirches do not.\n\nResults ::: Loam\n\n"
        "Loam is best. Sand is worst."
    )
    assert [item.gold.source_type for item in data_set.items] == ["extractive", "yes_no", "unanswerable", "free_form"]
    assert [item.gold.question.answers for item in data_set.items] == [
        ("Loam, Sand", "The soil"),
        ("No",),
        ("unanswerable",),
        ("They like water",),
    ]
    assert [evidence_of(data_set, item) for item in data_set.items] == [
        ["Loam is best. Sand is worst."],
        ["Results ::: Loam"],
        [],
        ["Alders like water.", "Birches do not."],
    ]
    assert [item.gold.parts for item in data_set.items] == [(("Loam",), ("Sand",)), (), (), ()]
    assert data_set.items[0].gold.question.query_id == "qasper-id1"


def test_the_authors_own_form_and_the_hubs_parquet_read_the_same(tmp_path: Path) -> None:
    row = paper(
        [answer(extractive_spans=["Loam"], evidence=["Loam is best. Sand is worst."])],
        [answer(yes_no=True, evidence=["Birches do not."]), answer(unanswerable=True)],
    )
    body, asked = row["full_text"], row["qas"]
    published = {
        "title": row["title"],
        "abstract": row["abstract"],
        "full_text": [
            {"section_name": name, "paragraphs": paragraphs}
            for name, paragraphs in zip(body["section_name"], body["paragraphs"], strict=True)
        ],
        "qas": [
            {"question": text, "question_id": identity, "answers": [{"answer": each} for each in answers["answer"]]}
            for text, identity, answers in zip(asked["question"], asked["question_id"], asked["answers"], strict=True)
        ],
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "train.parquet")
    wanted = read_qasper(write(tmp_path / "train.json", [row]), "train")
    assert read_qasper(write(tmp_path / "v0.3.json", {row["id"]: published}), "train") == wanted
    assert read_qasper(tmp_path / "train.parquet", "train") == wanted
    del published["qas"][1]["question"]
    with pytest.raises(InputError, match=r"v0.3.json, paper 1701.00001, qas 2: the field 'question' is missing"):
        read_qasper(write(tmp_path / "v0.3.json", {row["id"]: published}), "train")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"torn.parquet cannot be read as Parquet"):
        read_qasper(tmp_path / "torn.parquet", "train")


def test_a_malformed_paper_is_named_by_row_and_field(tmp_path: Path) -> None:
    def refused(content: dict[str, Any], where: str) -> None:
        with pytest.raises(InputError, match=f"train.json, row 1, {where}"):
            read_qasper(write(tmp_path / "train.json", [content]), "train")

    refused(paper([]), "question 1: the field 'answers' holds no answer")
    refused(paper([answer(yes_no="maybe")]), "question 1, answers, answer 1: the field 'yes_no' is str")
    refused(paper([answer()]), "question 1, answers, answer 1: the field 'free_form_answer' is an empty")
    refused(paper([answer(yes_no=True, evidence=[7])]), "question 1, .*the field 'evidence' holds int")
    content = paper([answer(yes_no=True)])
    content["qas"]["question_id"] = []
    refused(content, "qas: the field 'question_id' has 0 entries for 1 question")
    content = paper([answer(yes_no=True)])
    content["full_text"]["section_name"] = ["Intro"]
    refused(content, "full_text: the field 'paragraphs' has 3 sections, and section_name 1")


def annotated(**changes: Any) -> dict[str, Any]:
    row = {
        "paper_id": "1701.00001",
        "question_id": "a1",
        "question": "Which soil?",
        "answer_type": "extractive",
        "answer_text": "Loam",
        "evidence": ["Loam is best.", "FLOAT SELECTED: Table 2"],
    }
    return {**row, **changes}


def test_annotations_have_their_paragraphs_as_texts(tmp_path: Path) -> None:
    rows = [
        annotated(),
        annotated(question_id="a2", answer_type="unanswerable", answer_text="", evidence=[]),
        annotated(question_id="a3", answer_type="free_form", answer_text="It is loam", paper_id="1701.00002"),
    ]
    data_set = read_qasper_annotations(write(tmp_path / "annotations.json", rows), "all")
    assert [evidence_of(data_set, item) for item in data_set.items] == [["Loam is best."], [], ["Loam is best."]]
    assert [text.document for text in data_set.texts.values()] == ["1701.00001"]
    assert [item.documents for item in data_set.items][2] == ("1701.00002",)
    assert [item.gold.question.answers for item in data_set.items] == [("Loam",), ("unanswerable",), ("It is loam",)]
    assert [item.gold.parts for item in data_set.items] == [(("Loam",),), (), ()]
    with pytest.raises(InputError, match=r"row 1: the field 'answer_type' holds a question label .*'essay'"):
        read_qasper_annotations(write(tmp_path / "annotations.json", [annotated(answer_type="essay")]), "all")
