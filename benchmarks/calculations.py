"""Measure how many arithmetic questions code answers from a document's rows, and how many of these answers are right.

    python -m benchmarks.calculations --data DATA --out benchmarks/results/calculations.md

Each arithmetic question of FinQA, TAT-QA and the reports is answered from its own page or report. A result is right if
its number equals the gold answer's when rounded like it, or within 1 %, ignoring sign and percent or share: the sets
write "fell by 14 %" and "-0.14" for the same. The rules were written on the errors in FinQA and TAT-QA, so these are
not blind figures; the reports were not inspected.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from okralong.lab.datasets.base import DataSet, Item
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.registry import read_dataset
from okralong.pipelines.answering.readers.calculation import read_calculation
from okralong.pipelines.core.types import Answer, Document
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.statements.arithmetic import calculation_of
from tests.fakes.tools import ScriptedTools

SETS = (("finqa", "train"), ("finqa", "dev"), ("tatqa", "dev"), ("reports", "all"))
NEAR = 0.011
"""Relative tolerance, because gold results are rounded."""
ROUNDED = 0.06
"""Absolute tolerance, in addition."""
_NUMBER = re.compile(r"-?[\d,]*\.?\d+")


def answered(item: Item, texts: DataSet) -> Answer | None:
    """Return code's answer to a question about its document."""
    document = _document(item, texts)
    return (
        None
        if document is None
        else asyncio.run(read_calculation(ScriptedTools([document], reads_answers=True), item.gold.question.question))
    )


def _document(item: Item, texts: DataSet) -> Document | None:
    own = [text for text in texts.texts.values() if text.document in item.documents or text.text_id in item.documents]
    if len(own) != 1:
        return None
    return make_document(RawDocument("document", own[0].text, "document"))


def right(said: str, golds: Sequence[str]) -> bool:
    """Return whether the number in the answer is a gold answer's."""
    number = _number(said)
    wanted = [gold * factor for each in golds if (gold := _number(each)) is not None for factor in (1.0, 100.0)]
    return number is not None and any(abs(number - each) <= max(ROUNDED, NEAR * each) for each in wanted)


def _number(text: str) -> float | None:
    match = _NUMBER.search(text.replace("$", ""))
    return abs(float(match[0].replace(",", ""))) if match else None


def main() -> None:
    """Print and write the table and the wrong answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sources = {(source.name, source.part): source for source in load_catalog("datasets.yaml").sources}
    rows, wrong = [], []
    for name in SETS:
        texts = read_dataset(sources[name], given.data)
        asked = [item for item in texts.items if item.gold.question.type == "arithmetic"]
        understood = [item for item in asked if calculation_of(item.gold.question.question) is not None]
        found = [(item, answer) for item in understood if (answer := answered(item, texts)) is not None]
        missed = [(i.gold.question, a) for i, a in found if not right(a.answer, i.gold.question.answers)]
        share = f"{(len(found) - len(missed)) / len(found):.3f}" if found else "-"
        rows.append([" ".join(name), len(asked), len(understood), len(found), len(found) - len(missed), share])
        wrong += [f"- {each.question} said {a.answer}, gold {each.answers[0]}" for each, a in missed]
    head = ["set", "arithmetic questions", "understood", "answered", "right", "share right"]
    command = "`python -m benchmarks.calculations --data DATA --out benchmarks/results/calculations.md`"
    lines = [[*map(str, row)] for row in rows]
    text = "\n\n".join(
        ["# Calculations worked out by code", command, markdown_table(head, lines), "Wrong:", "\n".join(wrong)]
    )
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
