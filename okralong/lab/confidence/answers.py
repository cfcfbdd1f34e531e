"""Read the answers of runs, each with whether it is right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.lab.sweeps.comparison import gold_of
from okralong.lab.sweeps.gold_questions import GoldQuestion, read_gold_questions
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.metrics import Typed, answer_marks, normalise, token_f1
from okralong.pipelines.run.rows import BEGUN

LEAST_F1: Final = 0.5  # project default
"""An answer in words is right if it shares at least this F1 of words with a gold answer."""
JUDGED: Final = ("answered", "unanswerable")


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer of a run.

    Attributes:
        source: The data set, or the run's folder if its questions name none.
        query_id: The question.
        status: "answered" or "unanswerable".
        way: How it was found; "" if the run does not say.
        replied_by: What gave it.
        signals: What the run knew about it.
        confidence: The confidence that the run recorded.
        right: Whether it is right.
        cluster: The documents that are drawn together.
    """

    source: str
    query_id: str
    status: str
    way: str
    replied_by: str
    signals: Mapping[str, float]
    confidence: float | None
    right: bool
    cluster: str

    @property
    def kind(self) -> str:
        """The kind of answer that figures are given for: the way, and whether it is a refusal."""
        return f"refused: {self.way}" if self.status == "unanswerable" else self.way


def is_right(row: Mapping[str, Any], gold: GoldQuestion) -> bool:
    """Return whether an answers row is right.

    A typed answer must have the value, an answer to a question whose gold answer is a number must be that number, and
    another one must share ``LEAST_F1`` of its words, or of those that the question lacks: a gold answer may be a whole
    sentence, and the answer its figure. A refusal is right if the gold answer is "unanswerable".
    """
    question, answers = gold.gold.question.question, gold.gold.question.answers
    marks = answer_marks(gold.gold.dataset, row["status"], row["answer"] or "", answers, Typed.of(row))
    if row["status"] == "unanswerable":
        return marks.em == 1.0
    if marks.numeric is not None:
        return marks.numeric == 1.0 or marks.em == 1.0
    return max(marks.f1 or 0.0, *(_new_f1(question, row["answer"], each) for each in answers)) >= LEAST_F1


def _new_f1(question: str, said: str, gold: str) -> float:
    """Return the F1 of the words that the question lacks; 0 if the gold answer has none."""
    known = set(normalise(question).split())
    one, other = (" ".join(word for word in normalise(text).split() if word not in known) for text in (said, gold))
    return token_f1(one, other) if other else 0.0


def judged_answers(runs: Sequence[str], questions: Sequence[str] = ()) -> list[Judged]:
    """Return the answers of runs to questions with gold answers.

    Args:
        runs: Run folders, or folders of sweeps, whose cells are then read.
        questions: Questions files with gold answers: one for all runs, or one for each; cells of a sweep need none.

    Raises:
        InputError: There are no such answers, or the files do not match the runs.
    """
    if len(questions) not in (0, 1, len(runs)):
        raise InputError(
            f"{len(questions)} questions files were given for {len(runs)} runs. Give one, or one for each."
        )
    found: list[Judged] = []
    for number, run in enumerate(runs):
        own = questions[number] if len(questions) > 1 else questions[0] if questions else ""
        for place in _cells(run):
            found += _of_run(place, own)
    if not found:
        raise InputError("The runs have no answers to questions with gold answers. Give the file with --questions.")
    return found


def _cells(run: str) -> list[str]:
    """Return the run, or the cells of a sweep."""
    cells = Path(run) / "cells"
    if not cells.is_dir():
        return [run]
    return [str(each) for each in sorted(cells.iterdir()) if (each / BEGUN).is_file()]


def _of_run(run: str, questions: str) -> list[Judged]:
    golds = {each.gold.question.query_id: each for each in read_gold_questions(questions or gold_of(run))}
    rows = read_run_table(Folder.of(run), "answers").to_pylist()
    return [
        Judged(
            golds[row["query_id"]].gold.dataset or Path(run).name,
            row["query_id"],
            row["status"],
            row["way"] or "",
            row["replied_by"] or "",
            dict(row["signals"] or ()),
            row["confidence"],
            is_right(row, golds[row["query_id"]]),
            golds[row["query_id"]].cluster,
        )
        for row in rows
        if row["status"] in JUDGED and row["query_id"] in golds and golds[row["query_id"]].gold.question.answers
    ]


def digest_of(answers: Sequence[Judged]) -> str:
    """Return the SHA-256 of the answers that a model is fitted on: their signals and whether they are right."""
    rows = sorted(
        [each.source, each.query_id, each.status, each.way, each.right, sorted(each.signals.items())]
        for each in answers
    )
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
