"""The file that keeps questions with their gold.

``gold.jsonl`` has the columns of a questions file and those that only scoring needs, which ``okralong answer`` takes
with --carry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from okralong.lab.datasets.gold import Gold
from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.run.questions import question_row


def write_questions(path: Path, golds: Iterable[Gold]) -> None:
    """A questions file for ``okralong answer``: jsonl with the columns of ``Question``."""
    _write(path, (question_row(gold.question) for gold in golds))


def write_gold(path: Path, golds: Iterable[Gold]) -> None:
    """A questions file with the columns dataset, source_type and parts."""
    _write(
        path,
        (
            {**question_row(g.question), "dataset": g.dataset, "source_type": g.source_type, "parts": g.parts}
            for g in golds
        ),
    )


def read_gold(path: Path) -> list[Gold]:
    """What ``write_gold`` wrote. Raises InputError naming the line that cannot be read."""
    if not path.is_file():
        raise InputError(f"The gold file {path} does not exist. Make it with python -m benchmarks.reports.prepare.")
    golds = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            row = json.loads(line)
            question = Question(
                row["query_id"],
                row["question"],
                doc_ids=tuple(row["doc_ids"]),
                answers=tuple(row["answers"]),
                evidence=tuple(row.get("evidence", ())),
                type=row["type"],
            )
            parts = tuple(tuple(part) for part in row["parts"])
            golds.append(Gold(question, row["dataset"], row["source_type"], parts))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}, line {number} is no gold question: {type(error).__name__}: {error}. "
                "Make the file again with python -m benchmarks.reports.prepare."
            ) from error
    return golds


def _write(path: Path, rows: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
