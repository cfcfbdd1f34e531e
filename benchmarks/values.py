"""Measure how many amounts in table cells of TAT-QA and FinQA are normalized right.

    python -m benchmarks.values --data DATA --side test --out benchmarks/results/values_test.md

A TAT-QA cell is the answer of a span question that is in the table; its value is the answer's number times the
annotated scale. A FinQA cell is an operand of a program that is in exactly one cell; only its digits and sign are
compared, because the set has no scale. Excluded are negative cells whose program uses them without the sign, and cells
whose scale no word of the page names (the annotators saw the filing). The whole page is the context, with the cell
cited. The rules were written on half of the documents, by a hash of their names (tune); the other half is reported
(test). It is not a blind figure: the first look had 0.950 (283 of 298), after which five rules and the pairing of signs
were fixed, and FinQA's negative cells without sign were excluded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from okralong.lab.datasets.pipe_tables import PipeTable, find_cell, write_table
from okralong.lab.datasets.places import Pieces
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.statements.amounts import SCALES, amounts
from okralong.pipelines.statements.values import Context, read_value

CELLS = {"TAT-QA": 160, "FinQA": 140}
"""Cells to draw."""
_NAMES = {
    "thousand": re.compile(r"thousand|\b000s?\b|[$€£]k\b", re.IGNORECASE),
    "million": re.compile(r"million|[$€£]\s?mm?\b|\bmn\b", re.IGNORECASE),
    "billion": re.compile(r"billion|[$€£]\s?bn?\b", re.IGNORECASE),
}
_LONG = {"": "", "thousand": "thousand", "million": "million", "billion": "billion", "percent": ""}


@dataclass(frozen=True)
class Cell:
    """``gold`` is the amount in full (FinQA: in the table's own scale, with ``scaled`` False)."""

    set: str
    document: str
    question: str
    kind: str
    said: str
    gold: Decimal
    context: Context
    scaled: bool = True


def tatqa(path: Path) -> Iterator[Cell]:
    """Yield the numeric spans that are in a table."""
    for each in json.loads(path.read_text()):
        pieces = Pieces()
        table = write_table(pieces, each["table"]["table"])
        for paragraph in sorted(each["paragraphs"], key=lambda one: int(one["order"])):
            pieces.add(paragraph["text"])
        for asked in each["questions"]:
            spans = asked["answer"] if isinstance(asked["answer"], list) else [asked["answer"]]
            if "span" not in asked["answer_type"] or not asked["answer_from"].startswith("table"):
                continue
            for said in map(str, spans):
                found = amounts(said)
                whole = found and not said[: found[0].start].strip() and not said[found[0].end :].strip()
                place = find_cell(table, said, asked["question"], spans) if whole and not found[0].year else None
                if place is None or len(found) != 1:
                    continue
                kind = "percent" if asked["scale"] == "percent" or found[0].unit else "number"
                kind = "money" if found[0].currency else kind
                gold = found[0].digits * SCALES[_LONG[asked["scale"]]] * (found[0].factor if not asked["scale"] else 1)
                context = _cited(pieces.text, table, place, asked["question"])
                if asked["scale"] in _NAMES and not _NAMES[asked["scale"]].search(pieces.text):
                    continue
                yield Cell("TAT-QA", each["table"]["uid"], asked["question"], kind, said, gold, context)


def finqa(path: Path) -> Iterator[Cell]:
    """Yield the operands that are in a table, each cell once."""
    for each in json.loads(path.read_text()):
        pieces = Pieces()
        for sentence in each["pre_text"]:
            pieces.add(sentence, "\n")
        table = write_table(pieces, each["table"])
        for sentence in each["post_text"]:
            pieces.add(sentence, "\n")
        operands = [str(step[arg]) for step in each["qa"]["steps"] for arg in ("arg1", "arg2") if arg in step]
        for said in dict.fromkeys(operands):
            if not re.fullmatch(r"-?[\d,]*\d(\.\d+)?%?", said) or amounts(said)[0].year:
                continue
            place = find_cell(table, said, each["qa"]["question"], operands)
            if place is None or place[0] not in each["qa"]["ann_table_rows"]:
                continue
            cell = table.cells[place[0]][place[1]]
            if not said.startswith("-") and f"-{said}" in cell.replace(",", ""):
                continue
            kind = "percent" if "%" in cell else "money" if "$" in cell else "number"
            gold = Decimal(said.rstrip("%").replace(",", ""))
            context = _cited(pieces.text, table, place, each["qa"]["question"])
            yield Cell("FinQA", each["filename"], each["qa"]["question"], kind, cell, gold, context, scaled=False)


def _cited(text: str, table: PipeTable, place: tuple[int, int], question: str) -> Context:
    """Return the page with the cell's characters cited."""
    row, column = place
    start, end = table.rows[row]
    at = start
    for _ in range(column + 1):
        at = text.index("|", at, end) + 1
    return Context(text, at, text.index("|", at, end), question, verbatim=True)


def test_side(document: str) -> bool:
    """Return whether a document is in the reported half."""
    return hashlib.sha256(document.encode()).digest()[0] % 2 == 1


def main() -> None:
    """Print and write the table and the misses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--side", choices=("tune", "test"), default="test")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    cells = [*tatqa(asked.data / "tatqa/tatqa_dataset_dev.json")]
    for name in ("dev_200.json", "train_100.json"):
        cells += finqa(asked.data / "finqa" / name)
    unique = {(each.set, each.document, each.context.start): each for each in cells}
    mine = [each for each in unique.values() if test_side(each.document) == (asked.side == "test")]
    rows, misses, right, total = [], [], 0, 0
    for name in ("TAT-QA", "FinQA"):
        held = [each for each in mine if each.set == name]
        drawn = random.Random(26).sample(held, min(CELLS[name], len(held)))
        wrong = [(each, why) for each in drawn if (why := miss(each))]
        misses += wrong
        right, total = right + len(drawn) - len(wrong), total + len(drawn)
        rows.append(
            [name, *map(str, (len(held), len(drawn), len(drawn) - len(wrong))), f"{1 - len(wrong) / len(drawn):.3f}"]
        )
    rows.append(["both", *map(str, (len(mine), total, right)), f"{right / total:.3f}"])
    out = markdown_table(["set", "cells known", "drawn", "right", "share"], rows)
    listed = [[each.set, each.question, each.said.strip(), str(each.gold), why] for each, why in misses]
    out += "\n\nThe misses:\n\n" + markdown_table(["set", "question", "cell", "gold", "made of it"], listed)
    print(out)
    if asked.out is not None:
        command = (
            f"python -m benchmarks.values --data DATA --side {asked.side} --out benchmarks/results/{asked.out.name}"
        )
        asked.out.write_text(f"# Values of table cells, {asked.side} side\n\n    {command}\n\n{out}\n")


def miss(cell: Cell) -> str:
    """Return the wrong result for a cell, or "" if it is right."""
    try:
        found = read_value(cell.kind, cell.said, cell.context)
    except ValueError as error:
        return str(error)
    number = Decimal(found.value) / (1 if cell.scaled else SCALES[found.scale])
    return "" if number == cell.gold else f"{found.value} (scale {found.scale or 'none'})"


if __name__ == "__main__":
    main()
