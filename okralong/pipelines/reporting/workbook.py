"""Excel workbooks: a sheet per table, and a sheet that explains them.

Cells hold numbers, dates and links, and text never becomes a formula. Each sheet shows the columns that people read;
the others follow in a collapsed group, where programs find them.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import pyarrow as pa
from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, Cell
from openpyxl.comments import Comment
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

from okralong.pipelines.reporting.matrix import DOCUMENT_COLUMNS, Matrix, confidence_of, unit_of, value_of, words_of
from okralong.pipelines.reporting.matrix import Cell as MatrixCell
from okralong.pipelines.reporting.rows import bounded, is_formula
from okralong.pipelines.run.corrections import answer_of, correction_line

README: Final = "Read me"
"""The last sheet: programs read the first one unless told otherwise."""
SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "answers": (
        "query_id",
        "question",
        "answer",
        "value",
        "period",
        "corrected",
        "note",
        "correction",
        "corrected_by",
        "status",
        "confidence",
        "doc_id",
        "section",
        "quote",
        "*",
        "error",
        "replied_by",
        "cost_usd",
    ),
    "citations": ("query_id", "number", "doc_id", "title", "section", "quote"),
    "searched": (
        *("query_id", "question", "queries", "terms", "synonyms", "sections", "found"),
        *("number", "doc_id", "section", "bm25", "cosine", "answerable", "read", "text"),
    ),
}
"""The visible columns by sheet, in order; ``*`` stands for carried columns. Other sheets show all columns."""
ALWAYS_SHOWN: Final = ("query_id", "question", "answer", "corrected", "note", "status", "confidence")
"""Columns that stay visible even if all of their cells are empty."""

MOST_CHARACTERS: Final = 32_767
"""Per cell (Excel specifications and limits)."""
MOST_LINKS: Final = 65_530
"""Per sheet (Excel specifications and limits)."""
LONGEST_LINK: Final = 2_079
"""Maximum length of a link that Excel opens."""
WIDEST: Final = {
    "question": 44,
    "answer": 44,
    "corrected": 44,
    "quote": 60,
    "text": 60,
    "more_citations": 44,
    "error": 44,
}
"""Maximum widths of text columns in characters; they wrap. # project default"""
LEAST_WIDTH, MOST_WIDTH = 9, 32  # project default
FILLED_IN: Final = {"corrected": 18, "note": 24}
"""Columns that the reader fills in, with their least widths. # project default"""
LOOKED_AT: Final = 2_000  # project default
"""Rows that decide the width of a column."""
MOST_LINES: Final = 8  # project default
"""Lines of a row's height; longer cells are read in the formula bar or after enlarging the row."""
LINE_POINTS: Final = 15.0
NOTE_CHARS: Final = 1_200
MATRIX_WIDTH: Final = 30  # project default

NUMBERS: Final = {
    "confidence": "0.00",
    "first_confidence": "0.00",
    "bm25": "0.00",
    "cosine": "0.00",
    "answerable": "0.0000",
    "similarity": "0.00",
    "cost_usd": '"$"#,##0.0000',
    "seconds": "#,##0.0",
    "page": "0",
    "archive_version": "0",
}
"""Number formats by column; other integers have thousands separators."""
_LINKED: Final = ("http://", "https://", "file://")
_HALF: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")
_HEAD_FILL: Final = PatternFill("solid", fgColor="FFE8EEF4")
_TOP: Final = Alignment(vertical="top")
_WRAPPED: Final = Alignment(vertical="top", wrap_text=True)
_LINK: Final = Font(color="FF0563C1", underline="single")
_BOLD: Final = Font(bold=True)
_GREY: Final = PatternFill("solid", fgColor="FFD9D9D9")
_FILLS: Final = {
    **dict.fromkeys(("unanswerable", "invalid_output", "failed", "over_budget"), _GREY),
    "likely": PatternFill("solid", fgColor="FFFFF2CC"),
    "unsure": PatternFill("solid", fgColor="FFF8CBAD"),
    "check": PatternFill("solid", fgColor="FFD9B3FF"),
    "corrected": PatternFill("solid", fgColor="FFBDE3C3"),
    "reopened": PatternFill("solid", fgColor="FFFFB266"),
}
_TO_FILL_IN: Final = PatternFill("solid", fgColor="FFD5EFD9")
HOW_TO_CORRECT: Final = (
    "To correct an answer, write the right one here (of an amount with unit and scale, such as 1.2 billion USD; "
    "unanswerable if the documents do not say it), a reason beside it, save the file, and run: "
    "okralong corrections FOLDER FILE. The rows may be sorted. An emptied cell withdraws its correction."
)


def excel(
    tables: Mapping[str, pa.Table],
    matrix: Matrix | None = None,
    summary: Sequence[tuple[str, Any]] = (),
    marks: Marks | None = None,
) -> bytes:
    """Convert to an Excel workbook with a sheet per table.

    Args:
        tables: The tables by sheet name. Fields may describe themselves in the metadata ``about``.
        matrix: The source of the sheet ``matrix``, with sources as notes.
        summary: Facts for the sheet ``Read me``, by name. Without any there is no such sheet.
        marks: What ``okralong corrections`` compares the file with, in a hidden sheet.
    """
    book = Workbook()
    book.remove(book.worksheets[0])
    hidden = {}
    for name, table in tables.items():
        sheet = book.create_sheet(name)
        if name == "matrix" and matrix is not None:
            _matrix_sheet(sheet, matrix)
        else:
            hidden[name] = _sheet(sheet, _Layout.of(name, table))
    if summary:
        _readme_sheet(book.create_sheet(README), tables, hidden, summary)
    if marks is not None:
        _marks_sheet(book.create_sheet(MARKS), marks)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


# --------
# Sheets of tables.


@dataclass(frozen=True)
class _Layout:
    """A table with its columns in the order of the sheet, of which the first ``shown`` are visible."""

    table: pa.Table
    columns: Sequence[str]
    shown: int

    @classmethod
    def of(cls, name: str, table: pa.Table) -> _Layout:
        held = table.column_names
        wanted = SHOWN.get(name, ())
        if not wanted:
            return cls(table, held, len(held))
        described = {field.name for field in table.schema if (field.metadata or {}).get(b"about")}
        carried = [each for each in held if each not in described]
        order = [each for one in wanted for each in (carried if one == "*" else [one]) if each in held]
        visible = [each for each in order if each in ALWAYS_SHOWN or _has_values(table[each])]
        return cls(table, [*visible, *(each for each in held if each not in visible)], len(visible))

    @property
    def hidden(self) -> Sequence[str]:
        return self.columns[self.shown :]


def _has_values(column: pa.ChunkedArray) -> bool:
    return any(value not in (None, "") for value in column.to_pylist())


def _sheet(sheet: Worksheet, layout: _Layout) -> Sequence[str]:
    """Fill the sheet of a table and return its hidden columns."""
    columns, links = layout.columns, 0
    widths = {name: _width(name, layout.table[name]) for name in columns}
    for at, name in enumerate(columns, start=1):
        _head(sheet, at, name)
        dimension = sheet.column_dimensions[get_column_letter(at)]
        dimension.width = widths[name]
        if at > layout.shown:
            dimension.outlineLevel, dimension.hidden = 1, True
    if layout.hidden:
        sheet.sheet_properties.outlinePr.summaryRight = False  # the button is left of the group, at a visible column
        sheet.column_dimensions[get_column_letter(layout.shown)].collapsed = True
        sheet.column_dimensions.max_outline = 1  # openpyxl computes it after it has written it
    linked = {"link", "doc_id", "section"} if "link" in columns else set()
    for number, row in enumerate(layout.table.to_pylist(), start=2):
        lines, link = 1, row.get("link") or ""
        for at, name in enumerate(columns, start=1):
            if (value := row[name]) is None or value == "":
                continue
            cell = sheet.cell(number, at)
            assert isinstance(cell, Cell)
            value, cell_format = _shown(name, value, row)
            _fill(cell, value, wrapped=isinstance(value, str))
            if cell_format:
                cell.number_format = cell_format
            if (colour := _colour(name, row)) is not None:
                cell.fill = colour
            target = value if name.endswith("link") else link if name in linked else ""
            if target.startswith(_LINKED) and len(target) < LONGEST_LINK and links < MOST_LINKS:
                links += 1
                cell.hyperlink, cell.font = target, _LINK
                cell.alignment = _WRAPPED
            if isinstance(value, str) and at <= layout.shown:
                lines = max(lines, _lines(value, widths[name]))
        # Set for every row, because programs would fit it to the hidden columns too.
        sheet.row_dimensions[number].height = LINE_POINTS * min(lines, MOST_LINES)
    if "corrected" in columns and "query_id" in columns:
        for name in set(FILLED_IN).intersection(columns):
            head = sheet.cell(1, columns.index(name) + 1)
            head.fill, head.comment = _TO_FILL_IN, _note(HOW_TO_CORRECT)
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(max(len(columns), 1))}{max(sheet.max_row, 1)}"
    return layout.hidden


def _shown(name: str, value: Any, row: Mapping[str, Any]) -> tuple[Any, str]:
    """Return a cell's value for Excel and its number format, "" for text."""
    if name == "value" and "number" in row and "answer_type" in row:  # the answer as a number or date, not its text
        if row["number"] is not None:
            value = value_of(row) if row["status"] == "answered" else value
            return value, "General" if isinstance(value, str) else _number_format(value, unit_of(row))
        if row["answer_type"] == "date":
            with suppress(ValueError):
                return date.fromisoformat(value), "yyyy-mm-dd"
        return value, ""
    if isinstance(value, date):  # and datetime
        return value, "yyyy-mm-dd hh:mm:ss" if hasattr(value, "hour") else "yyyy-mm-dd"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value, ""
    if name in NUMBERS:
        return (round(value, 6) if isinstance(value, float) else value), NUMBERS[name]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value, "#,##0" if isinstance(value, int) else "#,##0.00########"


def _colour(name: str, row: Mapping[str, Any]) -> PatternFill | None:
    """Return the color of an answer's status, confidence or correction."""
    if name in ("answer", "value", "corrected", "correction") and (state := row.get("correction")):
        return _FILLS["corrected" if state == "corrected" else "reopened"]
    if name == "status":
        return _FILLS.get(row[name])
    if name == "confidence" and "status" in row:
        return _FILLS.get(confidence_of(row))
    return None


def _width(name: str, column: pa.ChunkedArray) -> float:
    """Return the width that shows the longest line of a column, within limits."""
    values = column.slice(0, LOOKED_AT).to_pylist()
    lines = (line for value in values if value is not None for line in _figure(name, value).split("\n"))
    longest = max(map(len, lines), default=0)
    most = WIDEST.get(name, MOST_WIDTH)
    least = FILLED_IN.get(name, LEAST_WIDTH)
    return max(least, len(name) + 4, min(most, longest + 2))  # the header has a filter button


def _figure(name: str, value: Any) -> str:
    if name in ("confidence", "first_confidence", "similarity"):
        return "0.00"
    if isinstance(value, float):
        return f"{value:,.4f}" if name == "cost_usd" else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _lines(text: str, width: float) -> int:
    """Return about how many lines a wrapped text takes."""
    return sum(1 + int(len(line) // max(width - 2, 1)) for line in text[:MOST_CHARACTERS].split("\n"))


def _head(sheet: Worksheet, at: int, name: str) -> Cell:
    head = sheet.cell(1, at)
    assert isinstance(head, Cell)
    _fill(head, name, wrapped=False)
    head.font, head.fill = _BOLD, _HEAD_FILL
    return head


# --------
# The sheet of a matrix.


def _matrix_sheet(sheet: Worksheet, matrix: Matrix) -> None:
    """Fill the sheet of a matrix: typed values with units, notes with sources, and links to their pages.

    Cells without an answer are gray, with the reason in the note; those with less confidence are colored, and so are
    those in a failed check, with the rule and what it found in the note, and corrected ones, with the correction.
    """
    for at, (name, width) in enumerate(_matrix_columns(matrix), start=1):
        head = _head(sheet, at, name)
        if at > len(DOCUMENT_COLUMNS):
            head.comment = _note(matrix.questions[matrix.columns[at - len(DOCUMENT_COLUMNS) - 1]])
        sheet.column_dimensions[get_column_letter(at)].width = width
    links, failed = 0, matrix.failed()
    agreeing = {
        (each.doc_id, each.column): each.fact for each in matrix.tagged if each.fact and each.result == "agrees"
    }
    for number, doc_id in enumerate(matrix.documents, start=2):
        for at, text in enumerate((doc_id, matrix.titles.get(doc_id, "")), start=1):
            place = sheet.cell(number, at)
            assert isinstance(place, Cell)
            _fill(place, text, wrapped=True)
        for at, column in enumerate(matrix.columns, start=len(DOCUMENT_COLUMNS) + 1):
            row = matrix.cells.get((doc_id, column))
            cell = sheet.cell(number, at)
            if row is None:
                continue
            assert isinstance(cell, Cell)
            value, link = value_of(row), row["link"] or ""
            if value is not None:
                _fill(cell, value, wrapped=isinstance(value, str))
                cell.number_format = _number_format(value, unit_of(row))
            found = failed.get((doc_id, column), [])
            kind = confidence_of(row) if row["status"] == "answered" else row["status"]
            told = [f"check failed: {each}" for each in found]
            kind = "check" if found else kind
            if state := row.get("correction"):
                kind = "corrected" if state == "corrected" else "reopened"
                told.insert(0, correction_line(row))
            if (colour := _FILLS.get(kind)) is not None:
                cell.fill = colour
            fact = agreeing.get((doc_id, column))
            agrees = [f"agrees with {fact.concept}, {fact.source}"] if fact else []
            cell.comment = _note("\n".join([*told, _source(row), *agrees]))
            if value is not None and link.startswith(_LINKED) and len(link) < LONGEST_LINK and links < MOST_LINKS:
                links += 1
                cell.hyperlink = link
                cell.font = _LINK
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = sheet.dimensions


def _matrix_columns(matrix: Matrix) -> Iterator[tuple[str, float]]:
    """Yield name and width of each column."""
    looked_at = matrix.documents[:LOOKED_AT]
    texts = [(DOCUMENT_COLUMNS[0], looked_at), (DOCUMENT_COLUMNS[1], [matrix.titles.get(one, "") for one in looked_at])]
    for column, name in matrix.headings().items():
        cells = (matrix.cells.get((doc_id, column)) for doc_id in looked_at)
        texts.append((name, [words_of(cell) for cell in cells if cell is not None]))
    for name, held in texts:
        longest = max(map(len, held), default=0)
        yield name, max(LEAST_WIDTH, min(len(name) + 4, MATRIX_WIDTH), min(longest + 2, MATRIX_WIDTH))


def _number_format(value: Any, unit: str) -> str:
    if isinstance(value, date):
        return "yyyy-mm-dd"
    if not isinstance(value, int | float):
        return "General"
    figure = "#,##0" if isinstance(value, int) else "#,##0.00########"
    if not unit and isinstance(value, int) and 1000 <= value < 3000:  # a year
        figure = "0"
    plain_unit = re.sub(r'["\\\x00-\x1f]', "", unit)
    return f'{figure}{"" if plain_unit == "%" else " "}"{plain_unit}"' if plain_unit else figure


def _source(row: MatrixCell) -> str:
    """Return the source of a cell's value, or the reason why it has none."""
    if row["status"] != "answered":
        return f"{row['status']}{': ' + row['error'] if row['error'] else ''}\n{row['query_id']}"
    known = (row["doc_id"], row["section"])
    place = ", ".join(filter(None, known)) or "no source cited"
    lines = [f"{place}{': ' + row['quote'] if row['quote'] else ''}"]
    lines += [f"period: {row['period']}"] if row.get("period") else []
    lines += [f"confidence {row['confidence']:.2f}"] if row["confidence"] is not None else []
    lines += [f"by {row['replied_by']}"] if row.get("replied_by") else []
    return "\n".join([*lines, row["query_id"]])


def _note(text: str) -> Comment:
    shown = bounded(_HALF.sub("\ufffd", ILLEGAL_CHARACTERS_RE.sub(" ", text)), NOTE_CHARS)
    height = 20 + 18 * sum(1 + len(line) // 56 for line in shown.split("\n"))
    return Comment(shown, "okralong", height=min(height, 400), width=400)


# --------
# The sheet that explains the others.

_ABOUT: Final = {
    "matrix": "a row per document, a column per question. Notes give source and confidence; yellow and red cells are "
    "less certain, grey ones have no answer, violet ones contradict others, green ones are corrected, orange ones are "
    "corrected and their page has changed since. Correct cells in the sheet answers, by query_id",
    "checks": "a row per failed check: the cells, the rule, and what was found",
    "tagged_facts": "a row per cell that was compared with facts tagged in XBRL: agrees, differs, or no fact of its "
    "period",
    "answers": "a row per question, in the order of the questions file",
    "citations": "a row per cited passage",
    "searched": "what was searched for each question without an answer, a row per nearest passage",
    "corrections": "a row for each time that an answer was corrected, or its correction withdrawn or reopened",
}


def _readme_sheet(
    sheet: Worksheet,
    tables: Mapping[str, pa.Table],
    hidden: Mapping[str, Sequence[str]],
    summary: Sequence[tuple[str, Any]],
) -> None:
    """Write the facts of the run, the sheets, and the meaning of every column."""
    lines: list[tuple[Any, ...]] = [("This run",), *summary, (), ("Sheets",)]
    lines += [(name, _ABOUT.get(name, "")) for name in tables]
    if any(hidden.values()):
        lines.append(
            ("", "Further columns are folded: the + above the column headers, or the 2 at the left, opens them.")
        )
    lines.append(("", "Yellow: confidence under 0.8. Red: under 0.5. Grey: no answer. Violet: in a failed check."))
    lines.append(("", "Green: corrected by a person. Orange: corrected, but reopened, because its page changed."))
    if "answers" in tables:
        lines.append(("", HOW_TO_CORRECT.replace("here", "in the column corrected of the sheet answers")))
    for name, folded in hidden.items():
        lines += [(), (f"Columns of {name}",)]
        for field in tables[name].schema:
            about = (field.metadata or {}).get(b"about", b"carried from the questions file").decode()
            lines.append((field.name, about, "folded" if field.name in folded else "shown"))
    for number, line in enumerate(lines, start=1):
        for at, value in enumerate(line, start=1):
            cell = sheet.cell(number, at)
            assert isinstance(cell, Cell)
            _fill(cell, value, wrapped=at == 2)
            cell.alignment = Alignment(vertical="top", wrap_text=at == 2, horizontal="left")
            if len(line) == 1:
                cell.font, cell.fill = _BOLD, _HEAD_FILL
    for letter, width in (("A", 26), ("B", 100), ("C", 10)):
        sheet.column_dimensions[letter].width = width
    sheet.sheet_view.showGridLines = False


# --------
# The hidden sheet, which tells ``okralong corrections`` what a person changed, and whether the run has changed since.

MARKS: Final = "okralong"
MARK_COLUMNS: Final = ("query_id", "answer", "answer_hash", "corrected", "note")


@dataclass(frozen=True)
class Marks:
    """What a run held when it was exported: facts by name, and rows of ``MARK_COLUMNS``."""

    facts: Mapping[str, str]
    rows: Sequence[Sequence[str]]


def marks_of(run: str, begun: Mapping[str, Any], answers: Iterable[Mapping[str, Any]]) -> Marks:
    """Return the marks of the flat answers of the folder ``run``. ``begun`` is its ``run.json``."""
    facts = {"run_id": run_id_of(begun), "night": str(begun.get("night") or ""), "run": run}
    rows = [
        (
            row["query_id"],
            bounded(answer_of(row), MARKED_CHARS),
            answer_hash(row),
            row["corrected"] or "",
            row["note"] or "",
        )
        for row in answers
    ]
    return Marks(facts, rows)


MARKED_CHARS: Final = 200
"""Maximum length of an answer in the marks, which show it in messages."""


def run_id_of(begun: Mapping[str, Any]) -> str:
    """Return what names a run, given its ``run.json``."""
    return str(begun.get("run_id") or begun.get("fingerprint") or "")


def answer_hash(row: Mapping[str, Any]) -> str:
    """Return a hash of an answer, its value and its question; ``row`` is of the flat answers or of ``answers``."""
    said = [row["question"] or "", row["answer_type"] or "", answer_of(row), row["value"] or ""]
    return hashlib.sha256("\0".join(said).encode("utf-8", "replace")).hexdigest()[:32]


def _marks_sheet(sheet: Worksheet, marks: Marks) -> None:
    lines = [*marks.facts.items(), MARK_COLUMNS, *marks.rows]
    for number, line in enumerate(lines, start=1):
        for at, value in enumerate(line, start=1):
            cell = sheet.cell(number, at)
            assert isinstance(cell, Cell)
            _fill(cell, value, wrapped=False)
    sheet.sheet_state = "veryHidden"


def _fill(cell: Cell, value: Any, wrapped: bool) -> None:
    cell.alignment = _WRAPPED if wrapped else _TOP
    if not isinstance(value, str):
        cell.value = value
        return
    text = _HALF.sub("\ufffd", ILLEGAL_CHARACTERS_RE.sub(" ", value))
    if len(text) > MOST_CHARACTERS:
        more = f" … [{len(text) - MOST_CHARACTERS + 40:,} more characters]"
        text = f"{text[: MOST_CHARACTERS - 40]}{more}"
    cell.value = text
    cell.data_type = "s"  # otherwise openpyxl makes a formula of a leading =
    if is_formula(text):
        cell.quotePrefix = True  # otherwise Excel does once the cell is edited
