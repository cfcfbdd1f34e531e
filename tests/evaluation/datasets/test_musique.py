"""MuSiQue: supporting paragraphs as evidence, single-hop questions filled in, and what cannot be answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.wiki import read_musique
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file, shown


def paragraph(title: str, text: str, *, supports: bool) -> dict[str, Any]:
    return {"idx": 0, "title": title, "paragraph_text": text, "is_supporting": supports}


def row(**changes: object) -> dict[str, Any]:
    return {
        "id": "3hop2__1_2_3",
        "question": "What joins the town of Alder Mill to the capital of Fell?",
        "answer": "River Wend",
        "answer_aliases": ["the Wend", "River Wend"],
        "answerable": True,
        "paragraphs": [
            paragraph("Alder Mill", "Alder Mill stands in Holt. ", supports=True),
            paragraph("Cats", "Cats sleep.", supports=False),
            paragraph("Fell", "Its capital is Birch.", supports=True),
            paragraph("River Wend", "The Wend joins Holt to Birch.", supports=True),
        ],
        "question_decomposition": [
            {"id": 1, "question": "Alder Mill >> town", "answer": "Holt", "paragraph_support_idx": 0},
            {"id": 2, "question": "Is #1 a town, and what is Fell's capital?", "answer": "Birch"},
            {"id": 3, "question": "What joins #1 to #2 , the #9 road?", "answer": "River Wend"},
        ],
    } | changes


def test_evidence_is_the_supporting_paragraphs_without_their_titles(tmp_path: Path) -> None:
    data = read_musique(json_file(tmp_path / "train.json", [row()]), "train")
    (item,) = data.items
    assert shown(data, item) == ["Alder Mill stands in Holt.", "Its capital is Birch.", "The Wend joins Holt to Birch."]
    assert item.documents == ("Alder Mill", "Fell", "River Wend")
    assert data.texts[item.text_ids[1]].text == "Cats\nCats sleep."
    assert (data.name, data.part, item.gold.question.query_id) == ("musique", "train", "musique-3hop2__1_2_3")
    assert (item.gold.question.type, item.gold.source_type) == ("multi-bridge", "3hop2")


def test_aliases_are_wordings_of_one_part(tmp_path: Path) -> None:
    (item,) = read_musique(json_file(tmp_path / "train.json", [row()]), "train").items
    assert item.gold.question.answers == ("River Wend", "the Wend")
    assert item.gold.parts == (("River Wend", "the Wend"),)


def test_gold_queries_are_filled_in_by_earlier_answers_only(tmp_path: Path) -> None:
    (item,) = read_musique(json_file(tmp_path / "train.json", [row()]), "train").items
    assert item.gold_queries == (
        "Alder Mill town",
        "Is Holt a town, and what is Fell's capital?",
        "What joins Holt to Birch , the #9 road?",
    )


def test_hops_have_their_own_answers(tmp_path: Path) -> None:
    (item,) = read_musique(json_file(tmp_path / "train.json", [row()]), "train").items
    assert [hop.query for hop in item.hops] == list(item.gold_queries)
    assert [hop.answer for hop in item.hops] == ["Holt", "Birch", "River Wend"]


def test_the_unanswerable_twin_has_its_own_id_and_no_evidence(tmp_path: Path) -> None:
    answerable, twin = read_musique(jsonl_file(tmp_path / "full.jsonl", [row(), row(answerable=False)]), "full").items
    assert answerable.gold.question.query_id == "musique-3hop2__1_2_3"
    assert twin.gold.question.query_id == "musique-unanswerable-3hop2__1_2_3"
    assert (twin.gold.question.answers, twin.gold.parts, twin.evidence) == (("unanswerable",), (), ())
    assert twin.gold_queries == answerable.gold_queries


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"id": "9hop__1"}, "row 2.*'id'"),
        ({"id": "3hop2__1_2_3"}, "row 2.*'id'"),
        ({"answerable": "yes"}, "row 2.*'answerable'"),
        ({"answer_aliases": [None]}, "row 2.*'answer_aliases'"),
        ({"paragraphs": [{"title": "Fell"}]}, "row 2, paragraph 1.*'paragraph_text'"),
        ({"question_decomposition": [{"question": "Who?", "answer": 3}]}, "row 2, step 1.*'answer'"),
    ],
)
def test_a_slip_is_named_by_file_row_and_field(tmp_path: Path, changes: dict[str, object], place: str) -> None:
    file = json_file(tmp_path / "train.json", [row(), row(**({"id": "2hop__4_5"} | changes))])
    with pytest.raises(InputError, match=rf"train\.json, {place}"):
        read_musique(file, "train")
