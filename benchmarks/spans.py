"""Measure what the cross-encoder reads and refuses: its spans on rows with a known place, by threshold and by set.

    okralong train-data DATA --for cross_encoder --out ROWS
    python -m benchmarks.spans --rows ROWS --side test --out benchmarks/results/spans_test.md

Each question has one or two passages with evidence and up to five that the retrievers rank high. A question with a
known place is answerable; one whose passages all lack the answer is unanswerable. The answer is the most probable span
of all passages, as in ``readers.span.read_span``. F1 counts a refused answerable question as 0.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from okralong.lab.datasets.split import Side
from okralong.lab.evidence.figures import clustered_mean
from okralong.lab.evidence.report_files import estimate_words
from okralong.lab.training.rows.tables import RANKING, RankingRow
from okralong.pipelines.answering.readers.spans import probability
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Reading
from okralong.pipelines.reporting.metrics import answer_marks
from okralong.pipelines.reporting.statistics import joined_by_documents
from okralong.pipelines.reporting.tables import markdown_table

THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
SMALL = 1200
"""Characters; longer passages are large chunks, from which nothing reads answers."""


@dataclass(frozen=True)
class Read:
    """One question: the probability that a passage contains the answer, and the span's scores; None if unanswerable."""

    row: RankingRow
    sure: float
    f1: float | None
    em: float | None


def questions_of(rows: Path, side: Side, limit: int | None) -> tuple[list[RankingRow], list[RankingRow]]:
    """Return answerable questions with a known place, and unanswerable ones."""
    found = [row for row in RANKING.read(Folder.of(rows), side) if len(row.passages[0]) < SMALL]
    random.Random(7).shuffle(found)
    placed = [row for row in found if 1 in row.answerable and any(start >= 0 for start in row.starts)]
    return placed[:limit], [row for row in found if not any(row.answerable)][:limit]


def read(row: RankingRow, readings: Sequence[Reading]) -> Read:
    """Score the most probable span of the row's passages against the words at the known places."""
    best = max(range(len(readings)), key=lambda n: probability(readings[n]))
    span = row.passages[best][readings[best].start : readings[best].end].strip()
    places = [
        text[start:end] for text, start, end in zip(row.passages, row.starts, row.ends, strict=True) if start >= 0
    ]
    marks = answer_marks("", "answered", span, places) if places else None
    sure = max(each.answerable or 0.0 for each in readings)
    return Read(row, sure, marks and marks.f1, marks and marks.em)


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--side", choices=("validation", "test"), default="test")
    parser.add_argument("--limit", type=int, default=600, help="questions of each kind at most")
    parser.add_argument("--reranker", default=RerankerConfig().model, help="a folder that `okralong train` wrote")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    placed, empty = questions_of(given.rows, given.side, given.limit)
    model = load_reranker(RerankerConfig(model=given.reranker))
    asked = [(row.question, list(row.passages)) for row in (*placed, *empty)]
    found = [read(row, each) for row, each in zip((*placed, *empty), model.read_each(asked), strict=True)]
    answerable, unanswerable = found[: len(placed)], found[len(placed) :]
    by_threshold = [
        [
            f"{at:.2f}",
            share(answerable, [float(each.sure < at) for each in answerable]),
            share(unanswerable, [float(each.sure < at) for each in unanswerable]),
            share(answerable, [(each.f1 or 0.0) * (each.sure >= at) for each in answerable]),
            share(answerable, [(each.em or 0.0) * (each.sure >= at) for each in answerable]),
        ]
        for at in THRESHOLDS
    ]
    by_set = []
    for source in sorted({each.row.source for each in answerable}):
        own = [each for each in answerable if each.row.source == source]
        marks = [share(own, [each.f1 or 0.0 for each in own]), share(own, [each.em or 0.0 for each in own])]
        by_set.append([source, str(len(own)), *marks])
    head = ["threshold", "answerable refused", "unanswerable refused", "F1", "exact match"]
    page = "\n\n".join(
        [
            f"# Spans that the cross-encoder reads, {given.side} side",
            f"`python -m benchmarks.spans --rows ROWS --side {given.side} --limit {given.limit}`",
            f"{len(answerable):,} answerable questions and {len(unanswerable):,} unanswerable ones. Intervals: 95 %, "
            "bootstrap over documents.",
            markdown_table(head, by_threshold),
            "Without a threshold, by set:",
            markdown_table(["set", "questions", "F1", "exact match"], by_set),
        ]
    )
    print(page)
    if given.out is not None:
        given.out.write_text(page + "\n", encoding="utf-8")


def share(asked: Sequence[Read], values: Sequence[float]) -> str:
    """Return the mean with its interval, resampling questions that share a document together."""
    clusters = joined_by_documents([each.row.documents for each in asked])
    return estimate_words(clustered_mean(values, clusters))


if __name__ == "__main__":
    main()
