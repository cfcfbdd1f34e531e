"""The data card of the reading rows: how many there are, by set, role and type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.evaluation.split.keys import Side
from okralong.pipelines.reader.rows import ReadingRow

_HEAD: Final = """# Reading rows

Made by `okralong train-data --for reader`; do not edit. The rows are not in the repository: they hold the sets' own
texts, under the sets' own licences; those of `sample` are made up. Contexts are our own retrieval's, prompts the
executor's, replies follow from the sets' annotation. *held back*: the passages do not hold the answer, and the reply
says so. *expressions*: the prompt asks for a calculation's expression, which the executor evaluates."""


def reading_card(rows: Mapping[Side, Sequence[ReadingRow]]) -> str:
    """The card as Markdown."""
    parts = [_HEAD]
    for side, found in rows.items():
        documents = len({document for row in found for document in row.documents})
        parts.append(f"## {side}: {len(found):,} rows on {documents:,} documents")
        sources = [*dict.fromkeys(sorted(row.source for row in found))]
        lines = [_line(source, [row for row in found if row.source == source]) for source in sources]
        head = ["source", "rows", *TYPES, "held back", "expressions", "split", "step"]
        table = [head, ["---"] * len(head), *lines, _line("all", found)]
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in table))
    return "\n\n".join(parts) + "\n"


def _line(name: str, rows: Sequence[ReadingRow]) -> list[str]:
    answers = [row for row in rows if row.role == "generate"]
    types = Counter(row.type for row in answers if row.answerable)
    roles = Counter(row.role for row in rows)
    held = sum(not row.answerable for row in answers)
    expressions = sum(row.calculator and row.answerable for row in answers)
    counts = [len(rows), *(types[kind] for kind in TYPES), held, expressions, roles["split"], roles["step"]]
    return [name, *(f"{count:,}" for count in counts)]
