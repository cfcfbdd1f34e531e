"""The two forms in which Qasper is published: its authors' files, and the hub's.

The hub's are rows with columns inside: ``qas`` is {"question": [...], "question_id": [...], "answers": [{"answer":
[...]}]} and ``full_text`` {"section_name": [...], "paragraphs": [[...]]}. The authors' (``qasper-train-v0.3.json``) are
one object, from arXiv id to paper, with lists of objects there. Both come out as the hub's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from okralong.pipelines.evaluation.datasets.fields import Row, read_json, row_of, rows_in


def papers(path: Path) -> Iterator[Row]:
    """Every paper as a row in the hub's form. Raises InputError naming file, row and field."""
    content = read_json(path) if path.suffix == ".json" else None
    if not isinstance(content, dict):
        yield from rows_in(path)
        return
    for identity, value in content.items():
        yield _as_on_the_hub(row_of(path, f"paper {identity}", value), identity)


def _as_on_the_hub(paper: Row, identity: str) -> Row:
    columns: dict[str, Any] = {
        "full_text": _columns(paper, "full_text", ("section_name", "paragraphs")),
        "qas": _columns(paper, "qas", ("question", "question_id", "answers")),
    }
    columns["qas"]["answers"] = [
        {"answer": [each.get("answer", dict) for each in asked.rows("answers", "answer")]}
        for asked in paper.rows("qas")
    ]
    return Row(paper.file, paper.place, {**paper.values, **columns, "id": identity})


def _columns(paper: Row, field: str, names: tuple[str, ...]) -> dict[str, list[Any]]:
    rows = list(paper.rows(field))
    return {name: [row.get(name, object) for row in rows] for name in names}
