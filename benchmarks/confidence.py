"""Measure whether confidence orders right answers before wrong ones: risk against coverage, and calibration.

    python -m benchmarks.answers --rows ROWS --side test --out spans_test.jsonl      # and --by reader, --by bare
    python -m benchmarks.confidence spans_test.jsonl --out confidence_test.md
    python -m benchmarks.confidence RUN... --questions questions.jsonl      # the confidence that runs recorded

Answers are ordered by confidence. *Coverage* is the share taken from the top, *risk* their mean of 1 - F1 (or 1 - exact
match). The area under this curve (AURC) is divided by that of random order, which is the risk of all answers: 1 or more
means that confidence is useless. Ties count in any order. *Brier* is the mean square of confidence minus F1, *ECE*
their mean gap over ten bins of equal width. Intervals are 95 %, bootstrap over documents. *own word* is a run's
confidence, *passage alone* the probability that the passage contains an answer, whatever this answer is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.answers import Marked, read_answers
from okralong.lab.evidence.report_files import estimate_words
from okralong.lab.training.learners.calibration import BINS
from okralong.pipelines.answering.confidence import support
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.metrics import Typed, answer_marks
from okralong.pipelines.reporting.statistics import (
    Estimate,
    Floats,
    clustered_mean,
    estimate,
    joined_by_documents,
    resample,
)
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.run.questions import read_questions

SHOWN: Final = (0.25, 0.5, 0.75, 1.0)
"""Coverages in the table."""
FEWEST: Final = 20
"""Sets with fewer answers are not listed separately."""


@dataclass(frozen=True)
class Judged:
    """Scored answers of a run.

    ``confidence``, ``wrong`` (1 - F1) and ``missed`` (1 - exact match), each of shape (answers,), and the ``clusters``
    of documents that are resampled together.
    """

    name: str
    confidence: Floats
    wrong: Floats
    missed: Floats
    clusters: Sequence[str]


def risks(confidence: Floats, wrong: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return coverage and risk after each answer in order of confidence, each of shape (answers,).

    ``weights`` counts each answer that often. Answers of equal confidence have their mean risk.
    """
    order = np.argsort(-confidence, kind="stable")
    count = np.ones(len(order)) if weights is None else weights[order]
    _, group = np.unique(-confidence[order], return_inverse=True)
    told = np.bincount(group, count * wrong[order]) / np.maximum(np.bincount(group, count), 1e-12)
    taken = np.maximum(np.cumsum(count), 1e-12)
    return taken / taken[-1], np.cumsum(count * told[group]) / taken


def area(confidence: Floats, wrong: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """Return the area under the curve, which is the mean risk over all coverages, and that of random order."""
    coverage, risk = risks(confidence, wrong, weights)
    return float(np.sum(risk * np.diff(coverage, prepend=0.0))), float(risk[-1])


def areas(judged: Judged, wrong: Floats) -> tuple[Estimate, Estimate, Estimate]:
    """Return the area, that of random order, and their ratio, with intervals."""
    found = area(judged.confidence, wrong)
    drawn = resample(judged.clusters)
    figures = np.array([*found, _by(*found)])
    if drawn is None:
        one, two, three = (estimate(value, None, len(wrong)) for value in figures)
        return one, two, three
    again = np.array([area(judged.confidence, wrong, each[drawn.index]) for each in drawn.weights])
    columns = (again[:, 0], again[:, 1], np.array([_by(*each) for each in again]))
    one, two, three = (estimate(v, draws, len(wrong)) for v, draws in zip(figures, columns, strict=True))
    return one, two, three


def _by(own: float, random: float) -> float:
    return own / random if random > 0 else float("nan")


def judged(run: str, questions: Sequence[Question]) -> Judged:
    """Return a run's answers that have a confidence and gold answers. Raises SystemExit if there are none."""
    golds = {each.query_id: each.answers for each in questions if each.answers}
    rows = [
        row
        for row in read_run_table(Folder.of(run), "answers").to_pylist()
        if row["query_id"] in golds and row["confidence"] is not None
    ]
    if not rows:
        raise SystemExit(f"{run} has no answer with a confidence to a question with gold answers in the file.")
    marks = [
        answer_marks("", row["status"], row["answer"] or "", golds[row["query_id"]], Typed.of(row)) for row in rows
    ]
    return Judged(
        Path(run).name,
        np.array([row["confidence"] for row in rows], dtype=np.float64),
        np.array([1 - (each.f1 or 0.0) for each in marks]),
        np.array([1 - (each.em or 0.0) for each in marks]),
        joined_by_documents([tuple(row["doc_ids"]) or ("the whole archive",) for row in rows]),
    )


Way = Callable[[Marked], float]
"""A confidence of an answer."""


def own_word(row: Marked) -> float:
    """Return the confidence of a run (``confidence.with_confidence``)."""
    return support(row.question, row.answer, row.texts, row.readings)


def passage_alone(row: Marked) -> float:
    """Return the probability that the passage contains an answer, whatever this one is."""
    return support(row.question, row.answer, row.texts, row.readings, compared=False)


def judged_by(name: str, way: Way, rows: Sequence[Marked]) -> Judged:
    """Return the answers with one kind of confidence."""
    sure = [way(row) for row in rows]
    wrong, missed = (
        np.array([1 - mark for mark in marks]) for marks in zip(*((r.f1, r.em) for r in rows), strict=True)
    )
    return Judged(name, np.array(sure), wrong, missed, [row.cluster for row in rows])


def in_all_ways(name: str, rows: Sequence[Marked]) -> list[Judged]:
    """Score all answers, and those of each set of at least ``FEWEST``, by either confidence."""
    parts = {"": rows, **{f" {each}": [row for row in rows if row.source == each] for each in {r.source for r in rows}}}
    ways: dict[str, Way] = {"own word": own_word, "passage alone": passage_alone}
    return [
        judged_by(f"{name}{part}, {called}", way, own)
        for part, own in sorted(parts.items())
        if len(own) >= FEWEST
        for called, way in ways.items()
    ]


def calibration(found: Judged) -> tuple[Estimate, float]:
    """Return the Brier score with its interval, and the expected calibration error, of confidence against F1."""
    right = 1 - found.wrong
    brier = clustered_mean(((found.confidence - right) ** 2).tolist(), found.clusters)
    bins = np.minimum((found.confidence * BINS).astype(int), BINS - 1)
    gaps = [(bins == b).mean() * abs(right[bins == b].mean() - found.confidence[bins == b].mean()) for b in set(bins)]
    return brier, float(sum(gaps))


def curve_table(every: Sequence[Judged]) -> str:
    """Return the table of risk against coverage by both measures."""
    rows = []
    for each in every:
        for measure, wrong in (("1 - F1", each.wrong), ("not exact", each.missed)):
            coverage, risk = risks(each.confidence, wrong)
            at = [f"{risk[np.searchsorted(coverage, share - 1e-9)]:.2f}" for share in SHOWN]
            words = [estimate_words(figure) for figure in areas(each, wrong)]
            rows.append([each.name, f"{len(wrong):,}", measure, *words, *at])
    head = ["answers of", "answers", "risk", "AURC", "random order", "ratio"]
    return markdown_table([*head, *(f"risk at {share:.0%}" for share in SHOWN)], rows)


def calibration_table(every: Sequence[Judged]) -> str:
    """Return the table of mean confidence, mean F1, Brier score and calibration error."""
    rows = []
    for each in every:
        brier, error = calibration(each)
        means = [f"{each.confidence.mean():.2f}", f"{1 - each.wrong.mean():.2f}"]
        rows.append([each.name, f"{len(each.wrong):,}", *means, estimate_words(brier), f"{error:.3f}"])
    return markdown_table(["answers of", "answers", "mean confidence", "mean F1", "Brier", "ECE"], rows)


def answers_of(files: Sequence[Path]) -> dict[str, list[Marked]]:
    """Return answers that are not refusals from files of ``benchmarks.answers``, by file name."""
    return {file.stem: [row for row in read_answers(file) if row.answer.status == "answered"] for file in files}


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", help="run folders, or files of `benchmarks.answers`")
    parser.add_argument("--questions", help="the questions of run folders, with gold answers")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    given = parser.parse_args()
    rows = answers_of([Path(run) for run in given.runs if run.endswith(".jsonl")])
    every = [each for name, own in rows.items() for each in in_all_ways(name, own)]
    others = [run for run in given.runs if not run.endswith(".jsonl")]
    if others:
        if given.questions is None:
            parser.error("run folders need --questions")
        asked, _ = read_questions(given.questions, strict=False)
        every += [judged(run, asked) for run in others]
    _write(given.out, every, " ".join(Path(run).name for run in given.runs))


def _write(out: Path | None, every: Sequence[Judged], command: str) -> None:
    page = "\n\n".join(
        [
            "# Risk against coverage of answers, by their confidence",
            f"`python -m benchmarks.confidence {command}`",
            "Answers surest first; risk is the mean over those taken. Ratio: area under the curve by that of random "
            "order, 1 where the confidence tells nothing. Intervals: 95 %, bootstrap over documents.",
            curve_table(every),
            calibration_table(every),
        ]
    )
    print(page)
    if out is not None:
        out.write_text(f"{page}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
