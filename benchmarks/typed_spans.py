"""Measure how many numeric cells of TAT-QA are right as typed values that the cross-encoder reads from the page.

    python -m benchmarks.typed_spans --data DATA --side test --out benchmarks/results/typed_spans_test.md

The cells are those of ``benchmarks/values.py`` whose question has one answer; the page is chunked as in an archive. The
answer comes from the table row with the requested label, else from the most probable span with a value of the type.
"Right but for the scale": these pages state a table's scale below it, while the product searches above it. A run leaves
what is not found to the generator.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from benchmarks.values import Cell, tatqa, test_side
from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.readers.cell import read_cell
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Answer, Document, Hit, Reading
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.statements.amounts import SCALES

TOKENS = 150
"""The chunk size from which the default policy reads answers."""
ENDS = ("right", "right but for the scale", "another value", "invalid_output", "left to the generator", "unanswerable")


@dataclass
class Reader:
    """The part of ``Tools`` that reading needs, over one page."""

    policy: Policy
    model: Any
    page: Document | None = None
    scope_size: int = 1

    async def full_text(self, doc_id: str) -> Document:
        """Return the page."""
        assert self.page is not None
        return self.page

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """Return the cross-encoder's readings."""
        readings: list[Reading] = self.model.read([query] * len(passages), list(passages))
        return readings


async def outcome(reader: Reader, cell: Cell) -> str:
    """Return how a cell ends."""
    page = Document(cell.document, cell.context.text, sha256=cell.document)
    tools = cast(Tools, replace(reader, page=page))
    hits = [Hit(chunk, 1.0) for chunk in chunk_document(page, TOKENS)]
    return end_of(await read_cell(tools, cell.question, hits, AnswerType.of(cell.kind)), cell)


def end_of(answer: Answer | None, cell: Cell) -> str:
    """Return one of ``ENDS``."""
    if answer is None:
        return "left to the generator"
    if answer.value is None:
        return answer.status
    if answer.value.value == f"{cell.gold.normalize():f}":
        return "right"
    said = Decimal(answer.value.value)
    scaled = any(said * factor == cell.gold for factor in SCALES.values())
    return "right but for the scale" if scaled and said else "another value"


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--side", choices=("tune", "test"), default="test")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    cells = [*tatqa(given.data / "tatqa/tatqa_dataset_dev.json")]
    counts = Counter((each.document, each.question) for each in cells)
    alone = [each for each in cells if counts[each.document, each.question] == 1]
    mine = [each for each in alone if test_side(each.document) == (given.side == "test")][: given.limit]
    reader = Reader(load_config(FullPolicy, "policy/default.yaml"), load_reranker(RerankerConfig()))
    found = Counter(asyncio.run(outcome(reader, each)) for each in mine)
    lines = [
        f"# Typed values read off pages of TAT-QA, {given.side} side",
        f"`python -m benchmarks.typed_spans --side {given.side} --limit {given.limit}`: {len(mine)} questions.",
        markdown_table(ENDS, [[f"{found[end] / len(mine):.3f}" for end in ENDS]]),
    ]
    print("\n\n".join(lines))
    if given.out is not None:
        given.out.write_text("\n\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
