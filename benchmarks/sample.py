"""Measure the answers of the default set-up over generated reports of reserved seeds.

    python -m benchmarks.sample WORK --out benchmarks/results/sample.md

``okralong sample`` generates such reports, and the demo shows one sample of them; models were trained on others.
Training, tuning and tests never use ``RESERVED_SEEDS``, so these samples are new to every part. Each has the demo's
size: six reports of 15,000 words, with questions of five types and some that the reports do not answer. All of them are
in one archive; every question is limited to its reports. Without options the first ``SAMPLES`` seeds are used.

A row with a gold answer counts as exact or by F1 as ``okralong report`` scores it (numbers by value); a refusal scores
0. "Cites" counts the answers that cite a place of the gold evidence. Of the questions that the reports do not answer,
"refused" is right. The 95 % intervals draw whole samples.

The command continues where it stopped. WORK is a folder for the samples, the archive and the run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import okralong
from okralong.lab.evidence.figures import clustered_mean
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.metrics import answer_marks
from okralong.pipelines.reporting.sources import Span, gold_spans
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.samples.questions import RESERVED_SEEDS, UNANSWERABLE, Sample, generate

SAMPLES, REPORTS, QUESTIONS, WORDS = 5, 6, 24, 15_000
"""The number of seeds, and of each sample's reports, questions and words per report, as in the demo."""


@dataclass(frozen=True)
class Scored:
    """One answer: its scores if the question has a gold answer, and whether it was refused, or cites the evidence."""

    seed: int
    type: str
    refused: bool
    exact: float | None = None
    f1: float | None = None
    cites: bool = False


def named(sample: Sample, seed: int) -> tuple[dict[str, str], list[Question]]:
    """Return a sample's texts by doc_id and its questions, with the seed before every name."""
    texts = {f"{seed}-{document.doc_id}": document.text for document in sample.documents}
    questions = [
        replace(
            question,
            query_id=f"{seed}-{question.query_id}",
            doc_ids=tuple(f"{seed}-{doc_id}" for doc_id in question.doc_ids),
            evidence=tuple(f"{seed}-{place}" for place in question.evidence),
        )
        for question in sample.questions
    ]
    return texts, questions


def scored(question: Question, answer: dict[str, Any]) -> Scored:
    """Score a row of the table ``answers``."""
    seed, absent = int(question.query_id.split("-")[0]), question.query_id.endswith(UNANSWERABLE)
    kind = "no answer" if absent else question.type
    refused = answer["status"] == "unanswerable"
    if absent:
        return Scored(seed, kind, refused)
    marks = answer_marks("sample", answer["status"], answer["answer"] or "", question.answers)
    cited = [(each["doc_id"], each["start_char"], each["end_char"]) for each in answer["citations"] or ()]
    return Scored(seed, kind, refused, marks.em, marks.f1, _touch(cited, gold_spans(question)))


def _touch(cited: Iterable[Span], gold: Sequence[Span]) -> bool:
    return any(one[0] == each[0] and one[1] < each[2] and each[1] < one[2] for one in cited for each in gold)


def report(rows: Sequence[Scored]) -> str:
    """Return the table: a line for each type, and one for all questions with a gold answer."""
    of_type = {kind: [row for row in rows if row.type == kind] for kind in sorted({row.type for row in rows})}
    absent = of_type.pop("no answer", [])
    lines = [_line(kind, own) for kind, own in of_type.items()]
    lines.append(_line("**all with an answer**", [row for row in rows if row.exact is not None]))
    lines += [_line("without an answer", absent)] if absent else []
    return markdown_table(["questions", "number", "exact", "F1", "cites the evidence", "refused"], lines)


def _line(kind: str, rows: Sequence[Scored]) -> list[str]:
    columns = ([row.exact for row in rows], [row.f1 for row in rows], [row.cites for row in rows])
    scores = [""] * 3 if any(row.exact is None for row in rows) else [_share(values, rows) for values in columns]
    return [kind, str(len(rows)), *scores, _share([row.refused for row in rows], rows)]


def _share(values: Sequence[float | bool | None], rows: Sequence[Scored]) -> str:
    found = clustered_mean([float(value or 0) for value in values], [row.seed for row in rows])
    value = "" if found.value is None else f"{found.value:.2f}"
    return value if found.interval is None else f"{value} [{found.low:.2f}, {found.high:.2f}]"


def main() -> None:
    """Generate, index, answer, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--samples", type=int, default=SAMPLES, help="how many of the reserved seeds to use")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    seeds = RESERVED_SEEDS[: given.samples]
    folder, asked = given.work / "reports", []
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        texts, questions = named(generate(REPORTS, QUESTIONS, seed, WORDS), seed)
        asked += questions
        for doc_id, text in texts.items():
            if not (path := folder / f"{doc_id}.txt").exists():
                path.write_text(text, encoding="utf-8", newline="\n")
    okralong.index(given.work / "archive", sources=[folder])
    run = okralong.answer(
        given.work / "archive",
        [{"query_id": each.query_id, "question": each.question, "doc_ids": list(each.doc_ids)} for each in asked],
        given.work / "run",
    )
    answers = {row["query_id"]: row for row in read_run_table(Folder.of(run.run), "answers").to_pylist()}
    rows = [scored(each, answers[each.query_id]) for each in asked]
    text = "\n\n".join(
        [
            "# Answers over generated reports of reserved seeds",
            "    python -m benchmarks.sample WORK --out FILE",
            f"Seeds {seeds[0]} to {seeds[-1]}, each with {REPORTS} reports of {WORDS:,} words and {QUESTIONS} "
            "questions; the default set-up without a key.",
            report(rows),
            "",
        ]
    )
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
