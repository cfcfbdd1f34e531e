"""Training rows of the invented town: what was retrieved, what it holds, and how rows are kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from okralong.lab.evidence.bench import Bench
from okralong.lab.training.rows.analyzer_rows import questions_only, rows_of
from okralong.lab.training.rows.sources import SampleRows, sample_of, sample_set
from okralong.lab.training.rows.tables import ANALYZER_ROWS, LEARNED, TrainingRow
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.samples.questions import RESERVED_SEEDS


@pytest.fixture(scope="module")
def rows(town: Bench) -> list[TrainingRow]:
    policy = load_config(FullPolicy, "policy/paper.yaml", {"primary.granularity": 64, "primary.count": 2})
    return asyncio.run(rows_of(town, policy))


def test_labels_follow_from_what_retrieval_finds(town: Bench, rows: list[TrainingRow]) -> None:
    assert [row.type for row in rows] == [question.item.gold.question.type for question in town.pooled.questions]
    for row, question in zip(rows, town.pooled.questions, strict=True):
        assert row.documents == question.item.documents
        needed = [town.texts[span.doc_id][span.start_char : span.end_char] for span in question.evidence]
        held = all(any(piece in passage for passage in row.passages) for piece in needed)
        assert row.evidence == held
        assert len(row.passages) == 2
        assert list(row.exact_scores) == sorted(row.exact_scores, reverse=True)
        assert row.semantic_scores[0] <= 1.0
    assert {row.evidence for row in rows} == {True, False}


def test_a_question_that_marks_nothing_has_no_such_labels(town: Bench) -> None:
    bare = replace(town.pooled.questions[0], evidence=())
    item = replace(bare.item, evidence=(), gold=replace(bare.item.gold, parts=()))
    silent = replace(town, pooled=replace(town.pooled, questions=(replace(bare, item=item),)))
    policy = load_config(FullPolicy, "policy/paper.yaml", {"primary.granularity": 64})
    (row,) = asyncio.run(rows_of(silent, policy))
    assert (row.pattern, row.evidence) == (None, None)
    (alone,) = questions_only("town all", [item])
    assert (alone.passages, alone.pattern, alone.evidence) == ((), None, None)


def test_validation_has_its_share_of_the_sample_with_its_look_ups() -> None:
    sample = SampleRows(reports=8, questions=40, look_ups=20, words=1_500, validation=0.25)
    numbers = {}
    for side in LEARNED:
        _, pooled = sample_of(sample, side)
        asked = [question.item.gold.question.question for question in pooled.questions]
        numbers[side] = len(pooled.documents), len(asked), sum(q.startswith("At which works of") for q in asked)
    assert numbers["train"][:2] == (8, 34 + 20)
    assert numbers["validation"][0] == 2
    assert 10 <= numbers["validation"][1] <= 15
    assert numbers["train"][2] > 0


def test_what_was_written_is_read_again(tmp_path: Path, rows: list[TrainingRow]) -> None:
    folder = Folder.of(tmp_path)
    some = [replace(row, exact_scores=(1.5,), semantic_scores=(0.25,)) for row in rows]
    some.append(replace(some[0], query_id="bare", passages=(), pattern=None, evidence=None))
    ANALYZER_ROWS.write(folder, "train", some)
    assert ANALYZER_ROWS.read(folder, "train") == some
    with pytest.raises(InputError, match=r"side=test holds no training rows\. Make them with"):
        ANALYZER_ROWS.read(folder, "test")


def test_the_card_counts_every_class(rows: list[TrainingRow]) -> None:
    page = ANALYZER_ROWS.card({"train": rows, "test": []})
    assert "## train: 6 rows on 9 documents" in page
    assert "## test: 0 rows on 0 documents" in page
    held = sum(row.evidence is True for row in rows)
    (line,) = [line for line in page.split("\n") if line.startswith("| town all | 6 | 0 | 0 | 0 | 3 | 3 |")]
    assert line.endswith(f"| 0 | {held} | {6 - held} | 0 |")


@pytest.mark.parametrize("seed", [RESERVED_SEEDS.start, RESERVED_SEEDS.stop - 1])
def test_reports_of_published_figures_are_never_learned_from(seed: int) -> None:
    sample = SampleRows(reports=2, questions=4, words=1_500)
    with pytest.raises(InputError, match=f"{seed} is reserved for the published figures"):
        sample_set(sample, seed)
    assert len(sample_set(sample, RESERVED_SEEDS.stop).items) == 4


def test_a_config_cannot_reach_reserved_seeds_from_below() -> None:
    sample = SampleRows(reports=2, questions=4, words=1_500, seed=RESERVED_SEEDS.start - 1)
    with pytest.raises(InputError, match=f"{RESERVED_SEEDS.start} is reserved"):
        sample_of(sample, LEARNED[1])
