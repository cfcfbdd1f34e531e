"""LongBench: a prompt taken apart into its passages and its question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.other import AFTER, BEFORE, BETWEEN, read_longbench, read_longbench_rows
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file

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
    with pytest.raises(InputError, match=r"'longbench'.*'gov_report'"):
        read_longbench(json_file(tmp_path / "gov_report.json", {"0": entry("Where?", "Fell")}), "test")
    with pytest.raises(InputError, match=r"qasper\.json holds list"):
        read_longbench(json_file(tmp_path / "qasper.json", []), "test")


def raw(**changes: Any) -> dict[str, Any]:
    return {
        "context": PASSAGES,
        "input": "Where is Alder? ",
        "answers": ["Fell", "in Fell", "Fell"],
        "all_classes": None,
        "length": 9,
        **changes,
    }


def test_raw_rows_and_prompts_know_the_same_document(tmp_path: Path) -> None:
    prompts = read_longbench(json_file(tmp_path / "hotpotqa.json", {"0": entry("Where?", "Fell")}), "prompts")
    file = jsonl_file(tmp_path / "multifieldqa_en_e.jsonl", [raw(_id="a1"), raw(_id="b2", input="A hill?")])
    data = read_longbench_rows(file, "multifieldqa_en")
    assert data.texts == prompts.texts
    first, second = data.items
    question = first.gold.question
    assert (question.query_id, question.question) == ("longbench-multifieldqa_en-a1", "Where is Alder?")
    assert (question.answers, question.type) == (("Fell", "in Fell"), "extractive")
    assert first.gold.parts == (("Fell", "in Fell"),)
    assert first.gold.source_type == second.gold.source_type == "multifieldqa_en"


@pytest.mark.parametrize(
    ("label", "type_"),
    [
        ("qasper", "extractive"),
        ("hotpotqa", "multi-bridge"),
        ("2wikimqa", "multi-bridge"),
        ("musique", "multi-bridge"),
        ("narrativeqa", "abstractive"),
        ("qmsum", "abstractive"),
    ],
)
def test_the_row_s_own_set_is_its_label(tmp_path: Path, label: str, type_: str) -> None:
    (item,) = read_longbench_rows(jsonl_file(tmp_path / "x.jsonl", [raw(dataset=label)]), "test").items
    assert (item.gold.source_type, item.gold.question.type) == (label, type_)
    assert item.gold.question.query_id == f"longbench-{label}-1"


def test_triviaqa_s_rows_are_their_own_passage(tmp_path: Path) -> None:
    shot = "Passage:\nAlder is a mill.\nIt stands in Fell.\nQuestion:\nWhere does Alder stand?\nAnswer:\n"
    examples = "Passage:\nOther.\nQuestion:\nWho?\nAnswer:\nNobody"
    data = read_longbench_rows(jsonl_file(tmp_path / "triviaqa.jsonl", [raw(input=shot, context=examples)]), "t")
    (item,), (text,) = data.items, data.texts.values()
    assert text.text == "Alder is a mill.\nIt stands in Fell."
    assert item.gold.question.question == "Where does Alder stand?"
    with pytest.raises(InputError, match=r"triviaqa\.jsonl, row 1.*'input'"):
        read_longbench_rows(jsonl_file(tmp_path / "triviaqa.jsonl", [raw()]), "t")


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (raw(context=" "), "context"),
        (raw(input=""), "input"),
        (raw(answers=[]), "answers"),
        (raw(answers=[3]), "answers"),
        (raw(dataset="gov_report"), "dataset"),
    ],
)
def test_a_slip_in_a_raw_row_is_named(tmp_path: Path, bad: dict[str, Any], field: str) -> None:
    file = jsonl_file(tmp_path / "qasper.jsonl", [raw(), bad])
    with pytest.raises(InputError, match=rf"qasper\.jsonl, row 2.*'{field}'"):
        read_longbench_rows(file, "test")
