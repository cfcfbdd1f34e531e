"""Does the confidence of answers tell right ones from wrong ones? Risk against coverage, of runs with gold answers.

    python -m benchmarks.confidence RUN... --questions questions.jsonl --out benchmarks/results/confidence.md

The answers of a run that have a confidence are taken surest first. *Coverage* is the share of them that is taken,
*risk* the mean of 1 - F1 (or of 1 - exact match) over these. The area under that curve (AURC) is set against that of
random order, which is the risk of all: 1 and more means that the confidence tells nothing. Answers of equal confidence
count as taken in any order. Intervals: 95 %, bootstrap over documents.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.lab.pictures import RiskLine, draw_risk
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.metrics import Typed, answer_marks
from okralong.pipelines.reporting.statistics import Estimate, Floats, estimate, joined_by_documents, resample
from okralong.pipelines.reporting.tables import estimate_words, markdown_table
from okralong.pipelines.run.questions import read_questions

SHOWN: Final = (0.25, 0.5, 0.75, 1.0)
"""Coverages in the table."""


@dataclass(frozen=True)
class Judged:
    """The judged answers of a run: ``confidence``, and ``wrong`` (1 - F1) and ``missed`` (1 - exact match), each of
    shape (answers,), with the ``clusters`` of documents that are drawn together.
    """

    name: str
    confidence: Floats
    wrong: Floats
    missed: Floats
    clusters: Sequence[str]


def risks(confidence: Floats, wrong: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Coverage and risk after each answer, surest first, each of shape (answers,); ``weights`` counts each so often.

    Of answers of equal confidence each stands for the mean of all of them.
    """
    order = np.argsort(-confidence, kind="stable")
    count = np.ones(len(order)) if weights is None else weights[order]
    _, group = np.unique(-confidence[order], return_inverse=True)
    told = np.bincount(group, count * wrong[order]) / np.maximum(np.bincount(group, count), 1e-12)
    taken = np.maximum(np.cumsum(count), 1e-12)
    return taken / taken[-1], np.cumsum(count * told[group]) / taken


def area(confidence: Floats, wrong: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """The area under the curve, the mean risk over all coverages, and that of random order."""
    coverage, risk = risks(confidence, wrong, weights)
    return float(np.sum(risk * np.diff(coverage, prepend=0.0))), float(risk[-1])


def areas(judged: Judged, wrong: Floats) -> tuple[Estimate, Estimate, Estimate]:
    """The area, that of random order, and the one by the other, with their intervals."""
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
    """The answers of a run that have a confidence and gold answers. Raises SystemExit where there are none."""
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


def main() -> None:
    """Print the table, and write it and the picture beside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--questions", required=True, help="the questions of the runs, with gold answers")
    parser.add_argument("--out", type=Path, help="a Markdown file; the picture lies beside it")
    given = parser.parse_args()
    asked, _ = read_questions(given.questions, strict=False)
    rows, lines = [], []
    for each in (judged(run, asked) for run in given.runs):
        coverage, risk = risks(each.confidence, each.wrong)
        lines.append(RiskLine(each.name, coverage.tolist(), risk.tolist()))
        for measure, wrong in (("1 - F1", each.wrong), ("not exact", each.missed)):
            coverage, risk = risks(each.confidence, wrong)
            at = [f"{risk[np.searchsorted(coverage, share - 1e-9)]:.2f}" for share in SHOWN]
            words = [estimate_words(figure) for figure in areas(each, wrong)]
            rows.append([each.name, f"{len(wrong):,}", measure, *words, *at])
    head = ["run", "answers", "risk", "AURC", "random order", "ratio", *(f"risk at {share:.0%}" for share in SHOWN)]
    shown = " ".join(Path(run).name for run in given.runs)
    page = "\n\n".join(
        [
            "# Risk against coverage of answers, by their confidence",
            f"`python -m benchmarks.confidence {shown} --questions {Path(given.questions).name}`",
            "Answers surest first; risk is the mean over those taken. Ratio: area under the curve by that of random "
            "order, 1 where the confidence tells nothing. Intervals: 95 %, bootstrap over documents.",
            markdown_table(head, rows),
        ]
    )
    print(page)
    if given.out is not None:
        given.out.write_text(f"{page}\n\n![Risk against coverage]({given.out.stem}.svg)\n", encoding="utf-8")
        draw_risk(given.out.with_suffix(".svg"), lines)


if __name__ == "__main__":
    main()
