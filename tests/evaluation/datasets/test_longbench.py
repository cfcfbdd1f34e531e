"""LongBench: a prompt taken apart into its passages and its question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.types import InputError
from okralong.pipelines.lab.datasets.other import AFTER, BEFORE, BETWEEN, read_longbench
from tests.evaluation.datasets.public_files import json_file

PASSAGES = "Passage 1:\nAlder\nA mill in Fell.\n\nQuestion: of taste.\nPassage 2:\nHolt\nA hill.\n"


def entry(asked: str, *gold: object, passages: str = PASSAGES) -> dict[str, Any]:
    return {"origin_prompt": f"{BEFORE}{passages}{BETWEEN}{asked}{AFTER}", "prediction": "", "gold": list(gold)}


def test_the_prompt_is_cut_into_passages_and_question(tmp_path: Path) -> None:
    file = json_file(tmp_path / "hotpotqa.json", {"0": entry("Where is Alder? ", "Fell"), "7": entry("A hill?", "yes")})
    data = read_longbench(file, "hotpotqa")
    (text,) = data.texts.values()
    assert (data.name, data.part, text.text) == ("longbench", "hotpotqa", PASSAGES)
    assert text.document == f"longbench-{text.text_id}"
    assert [(i.gold.question.query_id, i.gold.question.question, i.gold.parts) for i in data.items] == [
        ("longbench-hotpotqa-0", "Where is Alder?", (("Fell",),)),
        ("longbench-hotpotqa-7", "A hill?", ()),
    ]
    assert all(item.text_ids == (text.text_id,) and item.documents == (text.document,) for item in data.items)
    assert all((item.evidence, item.gold_queries) == ((), ()) for item in data.items)


def test_gold_answers_are_wordings_once_each(tmp_path: Path) -> None:
    file = json_file(tmp_path / "qasper.json", {"0": entry("Where?", "Fell", "Fell ", "In the town of Fell")})
    (item,) = read_longbench(file, "test").items
    assert item.gold.question.answers == ("Fell", "In the town of Fell")
    assert item.gold.parts == (("Fell", "In the town of Fell"),)


@pytest.mark.parametrize(
    ("name", "type_"), [("hotpotqa", "multi-bridge"), ("2wikimqa", "multi-bridge"), ("qasper", "extractive")]
)
def test_the_label_is_the_name_of_the_file(tmp_path: Path, name: str, type_: str) -> None:
    (item,) = read_longbench(json_file(tmp_path / f"{name}.json", {"0": entry("Where?", "Fell")}), "test").items
    assert (item.gold.source_type, item.gold.question.type) == (name, type_)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"origin_prompt": "Where is Alder?", "gold": ["Fell"]}, "origin_prompt"),
        ({"origin_prompt": f"{BEFORE}{PASSAGES}{AFTER}", "gold": ["Fell"]}, "origin_prompt"),
        (entry(" ", "Fell"), "origin_prompt"),
        (entry("Where?", "Fell", passages=" "), "origin_prompt"),
        (entry("Where?"), "gold"),
        (entry("Where?", " "), "gold"),
        (entry("Where?", 3), "gold"),
    ],
)
def test_a_slip_is_named_by_file_row_and_field(tmp_path: Path, bad: dict[str, Any], field: str) -> None:
    file = json_file(tmp_path / "qasper.json", {"0": entry("Where?", "Fell"), "1": bad})
    with pytest.raises(InputError, match=rf"qasper\.json, row '1'.*'{field}'"):
        read_longbench(file, "qasper")


def test_a_file_of_another_set_or_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'longbench'.*'narrativeqa'"):
        read_longbench(json_file(tmp_path / "narrativeqa.json", {"0": entry("Where?", "Fell")}), "test")
    with pytest.raises(InputError, match=r"qasper\.json holds list"):
        read_longbench(json_file(tmp_path / "qasper.json", []), "test")
