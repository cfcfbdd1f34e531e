"""The matrix of a run: one row per document, one column per question.

Cells are rows of the flat answers (``reporting/export.py``), with value, status, confidence and source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from okralong.pipelines.llm.records import models_named
from okralong.pipelines.reporting.facts import FactsReader, TaggedCell
from okralong.pipelines.run.corrections import correction_line
from okralong.pipelines.statements.amounts import UNKNOWN, UNSCALED
from okralong.pipelines.statements.checks import Failure, RuleError, failures_of, parse_rule
from okralong.pipelines.statements.checks import Value as CheckedValue

if TYPE_CHECKING:
    from okralong.pipelines.archive.archive import Archive

Cell = Mapping[str, Any]
"""A row of the flat answers."""
Value = int | float | str | date | None

SURE, LIKELY = 0.8, 0.5  # project default
"""Minimum confidences of cells shown as sure and as likely."""
DOCUMENT_COLUMNS: Final = ("doc_id", "title")
REPLIED_BY: Final = "replied_by"
"""The last column of the wide table: the models that filled the row's cells."""


@dataclass(frozen=True)
class Matrix:
    """The cells of a run by document and question.

    Attributes:
        columns: The query_ids of the questions in their given order.
        questions: The questions' texts by query_id.
        documents: The doc_ids of the rows, sorted.
        titles: Known titles by doc_id.
        cells: By doc_id and column; cells not asked yet are missing.
        rules: The checks that apply to its columns.
        failures: Checks that failed.
        tagged: What the comparison with tagged facts found, cell by cell.
        notes: Why facts could not be read.
    """

    columns: Sequence[str]
    questions: Mapping[str, str]
    documents: Sequence[str]
    titles: Mapping[str, str]
    cells: Mapping[tuple[str, str], Cell]
    rules: Sequence[str] = ()
    failures: Sequence[Failure] = ()
    tagged: Sequence[TaggedCell] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of(
        cls, answers: Iterable[Cell], order: Sequence[str] = (), titles: Mapping[str, str] | None = None
    ) -> Self | None:
        """Build the matrix of a run's flat answers, or return None if none of them is a cell.

        ``order`` are the columns in order; ``titles`` are by doc_id, by default those of the cited sources.
        """
        rows = [row for row in answers if row["asked_id"]]
        if not rows:
            return None
        found = dict.fromkeys(row["asked_id"] for row in rows)
        cited = {row["scope"]: row["title"] for row in rows if row.get("title") and row.get("doc_id") == row["scope"]}
        return cls(
            [*(each for each in order if each in found), *sorted(set(found) - set(order))],
            {row["asked_id"]: row["question"] for row in rows},
            sorted({row["scope"] for row in rows}),
            cited if titles is None else titles,
            {(row["scope"], row["asked_id"]): row for row in rows},
        )

    def checked(self, rules: Iterable[str], archive: Archive | None = None) -> Self:
        """Return the matrix with the failures of ``rules``. Rules over columns that the matrix lacks are left out.

        Without the archive, rules that need metadata or tagged facts find nothing.
        """
        parsed = []
        for rule in rules:
            with suppress(RuleError):
                parsed.append(parse_rule(rule, self.columns))
        rows: dict[str, dict[str, CheckedValue]] = {}
        for (doc_id, column), cell in self.cells.items():
            if (value := checked_value(cell)) is not None:
                rows.setdefault(doc_id, {})[column] = value
        groups = partial(_groups, None if archive is None else archive.metadata())
        failures = failures_of(parsed, rows, groups)
        facts = FactsReader(archive, groups)
        tagged = [] if archive is None else list(facts.compared(parsed, rows))
        failures += [each.failure for each in tagged if each.result == "differs"]
        texts = [rule.text for rule in parsed]
        return replace(self, rules=texts, failures=failures, tagged=tagged, notes=list(facts.notes.values()))

    def failed(self) -> dict[tuple[str, str], list[str]]:
        """Return for each cell in a failed check what the checks found."""
        found: dict[tuple[str, str], list[str]] = {}
        for failure in self.failures:
            for cell in failure.cells:
                found.setdefault(cell, []).append(f"{failure.rule}: {failure.says}")
        return found

    def new_failures(self, before: Matrix | None) -> list[Failure]:
        """Return the failures that were none in the matrix of the night ``before``."""
        known = set() if before is None else {(each.rule, each.cells) for each in before.failures}
        return [each for each in self.failures if (each.rule, each.cells) not in known]

    def checks_table(self) -> pa.Table:
        """Return a row for each failed check: ``doc_id``, ``columns``, ``rule`` and ``found``."""
        rows = [
            {
                "doc_id": "; ".join(dict.fromkeys(doc_id for doc_id, _ in each.cells)),
                "columns": "; ".join(dict.fromkeys(column for _, column in each.cells)),
                "rule": each.rule,
                "found": each.says,
            }
            for each in self.failures
        ]
        return pa.Table.from_pylist(rows, schema=FAILED_CHECKS)

    def tagged_table(self) -> pa.Table:
        """Return a row for each cell that was compared with tagged facts, with the columns of ``TAGGED_FACTS``."""
        rows = [
            {
                "doc_id": each.doc_id,
                "column": each.column,
                "result": each.result,
                "value": each.value.shown,
                "fact": each.fact.shown if each.fact else None,
                "concept": each.fact.concept if each.fact else None,
                "source": each.fact.source if each.fact else None,
            }
            for each in self.tagged
        ]
        return pa.Table.from_pylist(rows, schema=TAGGED_FACTS)

    def headings(self) -> dict[str, str]:
        """Return a name for each column that is unique ignoring case."""
        taken = {each.casefold() for each in (*DOCUMENT_COLUMNS, REPLIED_BY)}
        found: dict[str, str] = {}
        for column in self.columns:
            name, number = column, 1
            while name.casefold() in taken:
                number += 1
                name = f"{column}_{number}"
            taken.add(name.casefold())
            found[column] = name
        return found

    def table(self) -> pa.Table:
        """Return the wide table: ``doc_id``, ``title``, a column per question, and ``replied_by`` if it is known.

        A column is float64 or date32 if all its values are, else strings. A column of numbers is followed by
        ``NAME_unit`` (currency or unit) and ``NAME_period`` if any cell has them. Cells without an answer are null, as
        are amounts whose scale is unknown in a column of numbers; ``NAME_unit`` has these as text.
        """
        titles = pa.array([self.titles.get(each) for each in self.documents], pa.string())
        table = pa.table({"doc_id": pa.array(self.documents, pa.string()), "title": titles})
        for column, name in self.headings().items():
            cells = [self.cells.get((doc_id, column)) for doc_id in self.documents]
            values = [None if cell is None or _is_unscaled(cell) else value_of(cell) for cell in cells]
            array = _typed(values, [None if cell is None else words_of(cell) for cell in cells])
            about = {"about": self.questions[column]}
            table = table.append_column(pa.field(name, array.type, metadata=about), array)
            if pa.types.is_floating(array.type):
                for of, said in (("unit", _beside), ("period", _period_of)):
                    told = _each(cells, said)
                    beside = f"{name}_{of}"
                    if any(told) and beside.casefold() not in map(str.casefold, table.column_names):
                        table = table.append_column(beside, pa.array(told, pa.string()))
        by = [self._replied_by(doc_id) or None for doc_id in self.documents]
        return table.append_column(REPLIED_BY, pa.array(by, pa.string())) if any(by) else table

    def _replied_by(self, doc_id: str) -> str:
        cells = (self.cells.get((doc_id, column)) for column in self.columns)
        return models_named(name for cell in cells if cell for name in (cell.get(REPLIED_BY) or "").split("; "))

    def for_page(self, rows: Mapping[str, int]) -> dict[str, Any]:
        """Return the JSON for the report's script. ``rows`` maps query_ids to the page's row numbers."""
        grid = [[self.cells.get((doc_id, column)) for column in self.columns] for doc_id in self.documents]
        numbers = [[value_of(cell) if cell is not None else None for cell in line] for line in grid]
        failed = self.failed()
        return {
            "sure": SURE,
            "likely": LIKELY,
            "columns": [[column, self.questions[column]] for column in self.columns],
            "documents": [[doc_id, self.titles.get(doc_id, "")] for doc_id in self.documents],
            "rows": [[-1 if cell is None else rows.get(cell["query_id"], -1) for cell in line] for line in grid],
            "words": [["" if cell is None else words_of(cell) for cell in line] for line in grid],
            "failed": [
                [at, number, found]
                for at, doc_id in enumerate(self.documents)
                for number, column in enumerate(self.columns)
                if (found := failed.get((doc_id, column)))
            ],
            "corrected": [
                [at, number, cell["correction"], correction_line(cell)]
                for at, line in enumerate(grid)
                for number, cell in enumerate(line)
                if cell is not None and cell.get("correction")
            ],
            "numbers": [[each if isinstance(each, int | float) else None for each in line] for line in numbers],
        }


TAGGED_FACTS: Final = pa.schema(
    [(name, pa.string()) for name in ("doc_id", "column", "result", "value", "fact", "concept", "source")]
)
FAILED_CHECKS: Final = pa.schema([(name, pa.string()) for name in ("doc_id", "columns", "rule", "found")])


def checked_value(cell: Cell) -> CheckedValue | None:
    """Return a cell's amount for checks; None without one, or if its scale is unknown."""
    if cell["status"] != "answered" or cell.get("number") is None or _is_unscaled(cell):
        return None
    try:
        number = Decimal(cell["value"] or "")
    except InvalidOperation:
        number = Decimal(str(cell["number"]))
    place = ", ".join(filter(None, (cell.get("doc_id"), cell.get("section")))) or str(cell.get("scope") or "")
    told = {name: str(cell.get(name) or "") for name in ("unit", "scale", "currency", "period")}
    return CheckedValue(number, **told, place=place, shown=words_of(cell))


def _groups(metadata: pa.Table | None, column: str) -> dict[str, str]:
    """Return the values of a metadata column by doc_id."""
    if metadata is None or column not in metadata.column_names:
        return {}
    pairs = zip(metadata["doc_id"].to_pylist(), metadata[column].to_pylist(), strict=True)
    return {doc_id: str(value) for doc_id, value in pairs if value is not None}


def value_of(cell: Cell) -> Value:
    """Return a cell's value: a number in full (percent per hundred), a full date, or text; None without an answer.

    An amount whose scale is unknown is text.
    """
    if cell["status"] != "answered":
        return None
    if _is_unscaled(cell):
        return words_of(cell)
    number = cell.get("number")
    if number is not None:
        return int(number) if float(number).is_integer() and abs(number) < 2**53 else float(number)
    if cell.get("answer_type") == "date":
        with suppress(ValueError, TypeError):
            return date.fromisoformat(cell.get("value") or "")
    return words_of(cell)


def words_of(cell: Cell) -> str:
    """Return a cell's value as text with its unit; "" without an answer."""
    if cell["status"] != "answered":
        return ""
    number, value = cell.get("number"), cell.get("value")
    number = float(value) if value and _is_unscaled(cell) else number
    if number is not None:
        unit = unit_of(cell)
        figure = f"{number:,.0f}" if float(number).is_integer() else f"{number:,.10f}".rstrip("0")
        if not unit and re.fullmatch(r"[12],\d{3}", figure):  # a year
            figure = figure.replace(",", "")
        figure = figure if not unit else f"{figure}{'' if unit == '%' else ' '}{unit}"
        return f"{figure}, {UNSCALED}" if _is_unscaled(cell) else figure
    structured = not value or value.startswith(("[", "{"))
    return str(cell["answer"] if structured else value)


def unit_of(cell: Cell) -> str:
    """Return the currency or unit of a number, or "" if unknown."""
    return str(cell.get("currency") or cell.get("unit") or "")


def _is_unscaled(cell: Cell) -> bool:
    return cell.get("scale") == UNKNOWN


def _beside(cell: Cell) -> str:
    return words_of(cell) if _is_unscaled(cell) else unit_of(cell)


def confidence_of(cell: Cell) -> str:
    """Return a cell's confidence as sure, likely or unsure; "" if unknown or without an answer."""
    known = cell["confidence"]
    if known is None or cell["status"] != "answered":
        return ""
    return "sure" if known >= SURE else "likely" if known >= LIKELY else "unsure"


def _period_of(cell: Cell) -> str:
    return str(cell.get("period") or "")


def _each(cells: Iterable[Cell | None], said: Callable[[Cell], str]) -> list[str | None]:
    return [None if cell is None or cell["status"] != "answered" else said(cell) or None for cell in cells]


def _typed(values: Sequence[Value], words: Sequence[str | None]) -> pa.Array:
    known = [each for each in values if each is not None]
    if known and all(isinstance(each, int | float) for each in known):
        return pa.array([None if each is None else float(each) for each in values if not isinstance(each, str | date)])
    if known and all(isinstance(each, date) for each in known):
        return pa.array(values, pa.date32())
    return pa.array([each or None for each in words], pa.string())
