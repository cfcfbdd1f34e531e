"""What the analyzer learns from: a question with its primary chunks, what retrieval saw, and its labels.

A label that nobody knows is None, and has no part in the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa

from okralong.pipelines.core.schemas import TRAINING_ROWS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError, Pattern, QuestionType, RetrieverScores
from okralong.pipelines.evaluation.split.keys import Side

_FILE: Final = "rows.parquet"
_LISTS: Final = ("documents", "passages", "exact_scores", "semantic_scores", "semantic_ranks")


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One question. ``source`` is "set part"; ``documents`` are those that it asks about, by which figures cluster.

    ``passages`` are the texts of its primary chunks, best first, empty where its set gives no document;
    ``exact_scores``, ``semantic_scores`` and ``semantic_ranks`` are what ``RetrieverScores`` says.
    ``pattern`` and ``evidence`` (do the passages hold all that is needed) are None where the set marks neither evidence
    nor an answer to look for; ``type`` is None until somebody labels a question that came without one.
    """

    query_id: str
    source: str
    documents: tuple[str, ...]
    question: str
    passages: tuple[str, ...]
    exact_scores: tuple[float, ...]
    semantic_scores: tuple[float, ...]
    semantic_ranks: tuple[int, ...]
    type: QuestionType | None
    pattern: Pattern | None
    evidence: bool | None

    @property
    def scores(self) -> RetrieverScores:
        """What the analyzer is told of the retrievers."""
        return RetrieverScores(self.exact_scores, self.semantic_scores, self.semantic_ranks)

    @property
    def set_name(self) -> str:
        """The set's name without its part."""
        return self.source.split(" ", 1)[0]


def write_rows(folder: Folder, side: Side, rows: Sequence[TrainingRow]) -> None:
    """Write the rows of one side of the split; those that stood there are replaced."""
    _table(folder, side).write_table(_FILE, pa.Table.from_pylist([asdict(row) for row in rows], schema=TRAINING_ROWS))


def read_rows(folder: Folder, side: Side, may_be_empty: bool = False) -> list[TrainingRow]:
    """The rows of one side, in the order written.

    Raises InputError when there are none, unless it ``may_be_empty``, ArchiveError when another version of okralong
    wrote them.
    """
    found = _table(folder, side).read_tables(TRAINING_ROWS).to_pylist()
    if not found and not may_be_empty:
        raise InputError(
            f"{_table(folder, side).path} holds no training rows. Make them with `okralong train-data DATA --out DIR`; "
            "questions that share a document stand on one side, so few documents may leave a side empty."
        )
    return [TrainingRow(**{**row, **{name: tuple(row[name]) for name in _LISTS}}) for row in found]


def without_sets(rows: Sequence[TrainingRow], sets: Sequence[str], must_be_there: bool = True) -> list[TrainingRow]:
    """The rows that come from none of the ``sets``, whatever their part. Raises InputError for a set without rows."""
    names = sorted({row.set_name for row in rows})
    for name in sets:
        if must_be_there and name not in names:
            raise InputError(
                f"No row comes from a set {name!r}, so it cannot be left out. There are {', '.join(names)}."
            )
    return [row for row in rows if row.set_name not in sets]


def _table(folder: Folder, side: Side) -> Folder:
    return folder.at(f"side={side}")
