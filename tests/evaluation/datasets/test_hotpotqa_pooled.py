"""The pooled HotpotQA: a corpus of texts, and gold paragraphs as evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.wiki import read_hotpotqa_pooled
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file, shown

CORPUS = [
    {"title": "Holt", "text": "Holt is a hill."},
    {"title": "Alder", "text": "Old Tom built it."},
    {"title": "Old Tom", "text": " He was born in Fell. "},
]


def row(**changes: object) -> dict[str, Any]:
    return {
        "_id": "c1",
        "question": "Where was the builder of Alder born?",
        "answer": "Fell",
        "type": "bridge",
        "level": "hard",
        "gold_titles": ["Alder", "Old Tom"],
    } | changes


def folder(path: Path, *rows: dict[str, Any], corpus: list[dict[str, str]] = CORPUS) -> Path:
    jsonl_file(path / "pooled_corpus.jsonl", corpus)
    json_file(path / "pooled_questions.json", rows)
    return path


def test_the_corpus_becomes_texts_and_the_gold_paragraphs_evidence(tmp_path: Path) -> None:
    data = read_hotpotqa_pooled(folder(tmp_path, row()), "dev")
    (item,) = data.items
    assert (data.name, data.part) == ("hotpotqa_pooled", "dev")
    assert [text.document for text in data.texts.values()] == ["Holt", "Alder", "Old Tom"]
    assert shown(data, item) == ["Old Tom built it.", "He was born in Fell."]
    assert [data.texts[each].document for each in item.text_ids] == ["Alder", "Old Tom"]
    assert item.documents == item.gold_queries == ("Alder", "Old Tom")
    assert (item.gold.question.type, item.gold.source_type, item.gold.parts) == ("multi-bridge", "bridge", (("Fell",),))


def test_the_questions_file_may_be_named_itself(tmp_path: Path) -> None:
    path = folder(tmp_path, row())
    assert read_hotpotqa_pooled(path / "pooled_questions.json", "dev") == read_hotpotqa_pooled(path, "dev")


def test_a_gold_title_that_the_corpus_lacks_takes_all_evidence(tmp_path: Path) -> None:
    data = read_hotpotqa_pooled(
        folder(tmp_path, row(gold_titles=["Alder", "Nowhere"]), row(_id="c2", gold_titles=["Gone"])), "dev"
    )
    some, none = data.items
    assert (some.evidence, some.documents, len(some.text_ids)) == ((), ("Alder", "Nowhere"), 1)
    assert (none.evidence, none.text_ids, none.gold.parts) == ((), (), ())


@pytest.mark.parametrize(("field", "value"), [("gold_titles", []), ("gold_titles", [3]), ("type", "x"), ("_id", "c1")])
def test_a_slip_in_the_questions_is_named(tmp_path: Path, field: str, value: object) -> None:
    path = folder(tmp_path, row(), row(**({"_id": "c2"} | {field: value})))
    with pytest.raises(InputError, match=rf"pooled_questions\.json, row 2.*'{field}'"):
        read_hotpotqa_pooled(path, "dev")


def test_two_paragraphs_of_one_title_are_refused(tmp_path: Path) -> None:
    path = folder(tmp_path, row(), corpus=[*CORPUS, {"title": "Holt", "text": "Another."}])
    with pytest.raises(InputError, match=r"pooled_corpus\.jsonl, row 4.*'title'"):
        read_hotpotqa_pooled(path, "dev")


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pooled_corpus\.jsonl does not exist"):
        read_hotpotqa_pooled(json_file(tmp_path / "pooled_questions.json", [row()]), "dev")
