"""2WikiMultihopQA: stripped sentences joined by blanks, and the triples as gold queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.base import Hop
from okralong.lab.datasets.wiki import read_twowiki
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, shown


def row(**changes: object) -> dict[str, Any]:
    return {
        "_id": "b1",
        "question": "Who is the grandmother of Ann Alder?",
        "answer": "Eve Birch",
        "type": "inference",
        "supporting_facts": [["Ann Alder", 1], ["Max Alder", 1]],
        "evidences": [["Ann Alder", "father", "Max Alder"], ["Max Alder", "mother", "Eve Birch"]],
        "context": [
            ["Max Alder", ["Max Alder was a miller.", "His mother was Eve Birch( 1801-1850)."]],
            ["Ann Alder", ["Ann Alder was a poet.", "She was a daughter of Max."]],
        ],
    } | changes


def test_sentences_stand_apart_and_evidence_is_those_that_support(tmp_path: Path) -> None:
    data = read_twowiki(json_file(tmp_path / "dev.json", [row()]), "dev")
    (item,) = data.items
    assert shown(data, item) == ["She was a daughter of Max.", "His mother was Eve Birch( 1801-1850)."]
    assert data.texts[item.text_ids[1]].text == "Ann Alder\nAnn Alder was a poet. She was a daughter of Max."
    assert (data.name, item.gold.question.query_id, item.gold.parts) == (
        "2wikimultihopqa",
        "2wikimultihopqa-b1",
        (("Eve Birch",),),
    )


def test_gold_queries_are_subject_and_relation_once_each(tmp_path: Path) -> None:
    triples = [["Ann Alder", "father", "Max Alder"], ["Ann Alder", "father", "Max"], ["Max Alder", "mother", "Eve"]]
    (item,) = read_twowiki(json_file(tmp_path / "dev.json", [row(evidences=triples)]), "dev").items
    assert item.gold_queries == ("Ann Alder father", "Max Alder mother")


def test_hops_are_whole_sentences_where_the_set_has_them_and_the_answer_is_the_triples(tmp_path: Path) -> None:
    (plain,) = read_twowiki(json_file(tmp_path / "dev.json", [row()]), "dev").items
    assert plain.hops == (Hop("Ann Alder father", "Max Alder"), Hop("Max Alder mother", "Eve Birch"))
    pairs = [
        {"question": "Who is Ann Alder's father?", "answer": "Ann Alder's father is Max Alder."},
        {"question": "Who is the mother of Max Alder?", "answer": "Nobody knows."},
    ]
    (asked,) = read_twowiki(json_file(tmp_path / "train.json", [row(qa_pairs=pairs)]), "train").items
    assert asked.hops == (Hop("Who is Ann Alder's father?", "Max Alder"), plain.hops[1])
    (fewer,) = read_twowiki(json_file(tmp_path / "train.json", [row(qa_pairs=pairs[:1])]), "train").items
    assert fewer.hops == plain.hops


@pytest.mark.parametrize(
    ("label", "type_"),
    [
        ("comparison", "multi-source"),
        ("bridge_comparison", "multi-source"),
        ("compositional", "multi-bridge"),
        ("inference", "multi-bridge"),
    ],
)
def test_types(tmp_path: Path, label: str, type_: str) -> None:
    (item,) = read_twowiki(json_file(tmp_path / "dev.json", [row(type=label)]), "dev").items
    assert (item.gold.question.type, item.gold.source_type) == (type_, label)


@pytest.mark.parametrize("triples", [[["Ann", "father"]], [["Ann", "father", 3]], ["Ann father Max"]])
def test_a_bad_triple_is_named(tmp_path: Path, triples: object) -> None:
    file = json_file(tmp_path / "dev.json", [row(), row(_id="b2", evidences=triples)])
    with pytest.raises(InputError, match=r"dev\.json, row 2.*'evidences'"):
        read_twowiki(file, "dev")
