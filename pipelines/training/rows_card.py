"""The data card of the training rows: how many there are, by set, class and field, and where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from okralong.pipelines.answering.analysis import PATTERNS, TYPES
from okralong.pipelines.evaluation.split.keys import Side
from okralong.pipelines.training.rows import TrainingRow

_HEAD = """# Training rows of the analyzer

Made by `okralong train-data`; do not edit. The rows hold the sets' own texts, under the sets' own licences; those of
`sample` are made up.

*type* follows from the set's own annotation (`question_types.yaml`){labeller}. *pattern* says whether the first five
chunks of BM25 or those of the dense retriever hold more of the gold evidence, *evidence* whether the primary chunks
hold all of it: both by our own retrieval over documents pooled to the length that the config says. "unknown" has no
part in the loss. The train side is balanced by type.
"""


def rows_card(rows: Mapping[Side, Sequence[TrainingRow]], labeller: str | None = None) -> str:
    """The card as Markdown. ``labeller`` names the model that labelled what the sets leave open, if one did."""
    said = "" if labeller is None else f"; what sets left open on train and validation was labelled by {labeller}"
    parts = [_HEAD.strip().replace("{labeller}", said)]
    for side, found in rows.items():
        documents = len({document for row in found for document in row.documents})
        parts.append(f"## {side}: {len(found):,} rows on {documents:,} documents")
        parts.append(_table(found))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[TrainingRow]) -> str:
    head = ["source", "rows", *TYPES, *PATTERNS, "pattern unknown", "holds evidence", "does not", "evidence unknown"]
    sources = [*dict.fromkeys(row.source for row in rows)]
    lines = [_line(source, [row for row in rows if row.source == source]) for source in sources]
    lines.append(_line("all", rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def _line(name: str, rows: Sequence[TrainingRow]) -> list[str]:
    types = Counter(row.type for row in rows)
    patterns = Counter(row.pattern for row in rows)
    evidence = Counter(row.evidence for row in rows)
    counts = [len(rows), *(types[t] for t in TYPES), *(patterns[p] for p in (*PATTERNS, None))]
    return [name, *(f"{count:,}" for count in (*counts, evidence[True], evidence[False], evidence[None]))]
