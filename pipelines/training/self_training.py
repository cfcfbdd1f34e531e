"""Self-training: questions without labels get the type of which a trained analyzer is sure (the paper's section 5
names less annotation as open).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from okralong.pipelines.answering.analysis import AnalysisInput, Analyzer
from okralong.pipelines.answering.analyzer import AnalyzerConfig
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.split.keys import question_hash
from okralong.pipelines.run.prepare import read_questions
from okralong.pipelines.training.balance import balanced
from okralong.pipelines.training.rows import TrainingRow

SOURCE = "self-training"

UNLABELLED = "unlabelled.jsonl"
"""The questions that `okralong train-data` sets aside, beside the rows."""


class SelfTraining(Settings):
    """``teacher`` is a trained analyzer; its type counts where its probability is at least ``above``.

    ``questions`` is a file as `okralong answer` takes it; null: the one that `okralong train-data` wrote beside the
    rows. At most ``per_type`` questions of each type are taken.
    """

    teacher: AnalyzerConfig
    questions: str | None = None
    above: Annotated[float, Field(gt=0, lt=1)] = 0.95
    per_type: Annotated[int, Field(ge=1)] = 300
    seed: int = 7


def unlabelled_questions(config: SelfTraining, rows: Path) -> list[Question]:
    """The questions that ``config`` names. Raises InputError when the file is missing or holds none."""
    questions, _ = read_questions(config.questions or rows / UNLABELLED)
    return questions


def self_labelled(
    config: SelfTraining, teacher: Analyzer, questions: Sequence[Question], known: Sequence[TrainingRow]
) -> list[TrainingRow]:
    """Rows with a type alone, for questions of which the teacher is sure and that no ``known`` row of any side asks."""
    seen = {question_hash(row.question) for row in known}
    new = [each for each in questions if question_hash(each.question) not in seen]
    said = teacher.analyze([AnalysisInput(each.question, ()) for each in new])
    sure = [
        TrainingRow(each.query_id, SOURCE, (each.query_id,), each.question, (), (), (), (), analysis.type, None, None)
        for each, analysis in zip(new, said, strict=True)
        if analysis.type_probabilities[analysis.type] >= config.above
    ]
    return balanced(sure, config.per_type, config.seed)
