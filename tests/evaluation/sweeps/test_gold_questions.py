"""The questions of a set as a file: what is written is read again, and plain questions files will do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.lab.datasets.pooling import Span, pool
from okralong.lab.datasets.wiki import read_hotpotqa
from okralong.lab.sweeps.gold_questions import read_gold_questions, write_gold_questions
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from tests.evaluation.evidence.town import rows
from tests.evaluation.sweeps.invented_run import write_questions


def test_a_pooled_set_comes_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "town.json").write_text(json.dumps(rows()), encoding="utf-8")
    data = read_hotpotqa(tmp_path / "town.json", "all")
    pooled = pool(data.items, data.texts, 900, 7, name="town")
    write_gold_questions(Folder.of(tmp_path), "questions.jsonl", pooled.questions)
    found = read_gold_questions(tmp_path / "questions.jsonl")
    assert [each.evidence for each in found] == [each.evidence for each in pooled.questions]
    for each, before in zip(found, pooled.questions, strict=True):
        assert each.gold.question.doc_ids == before.doc_ids
        assert each.gold.question.answers == before.item.gold.question.answers
        assert (each.gold.dataset, each.gold.parts) == (before.item.gold.dataset, before.item.gold.parts)
    assert len({each.cluster for each in found}) == 4, "three mills with their builders, and a ring of hills"


def test_clusters_are_chains_of_shared_documents(tmp_path: Path) -> None:
    sales, chair, costs, late = read_gold_questions(write_questions(tmp_path))
    assert sales.cluster == chair.cluster != costs.cluster
    assert late.cluster not in (sales.cluster, costs.cluster), "its document is the one that it names itself"
    assert sales.evidence == (Span("alder", 0, 27),)
    assert late.gold.parts == (), "yes or no is nothing to look for"


def test_a_plain_file_has_its_answers_for_parts(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("query_id,question,answers,evidence\na,Who?,Ida Moss,The chair is Ida Moss.\n")
    (only,) = read_gold_questions(tmp_path / "q.csv")
    assert only.gold.parts == (("Ida Moss",),)
    assert only.evidence == (), "words are no place"


def test_gold_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"query_id": "a", "question": "Who?", "parts": [1]}\n')
    with pytest.raises(InputError, match="'a' has no gold that can be read"):
        read_gold_questions(tmp_path / "q.jsonl")
    for column in ('"parts": "Ida"', '"parts": ["Ida"]', '"documents": "alder"'):  # not the letters, one by one
        (tmp_path / "q.jsonl").write_text(f'{{"query_id": "a", "question": "Who?", {column}}}\n')
        with pytest.raises(InputError, match="is not a list"):
            read_gold_questions(tmp_path / "q.jsonl")
    (tmp_path / "q.jsonl").write_text('{"query_id": "a", "question": "Who?"}\n{"query_id": "b", "question": ""}\n')
    with pytest.raises(InputError, match="row 2"):
        read_gold_questions(tmp_path / "q.jsonl")
