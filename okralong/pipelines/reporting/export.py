"""Export of a run's answers to Excel, CSV, JSON lines, Parquet and DuckDB.

``flat_answers`` has a row per question, ``flat_citations`` a row per citation; ``core/schemas.py`` describes the
columns. ``export_run`` writes both, preceded by the matrix (``reporting/matrix.py``) if there is one.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, cast, get_args

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE, Cell
from openpyxl.comments import Comment
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import Location
from okralong.pipelines.core.schemas import FLAT_ANSWERS, FLAT_CITATIONS, ORIGINS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.cited import Cited, archive_of, cited
from okralong.pipelines.reporting.matrix import DOCUMENT_COLUMNS, Matrix, confidence_of, unit_of, value_of
from okralong.pipelines.reporting.matrix import Cell as MatrixCell
from okralong.pipelines.reporting.rows import bounded, is_formula, said
from okralong.pipelines.reporting.tables import csv_file
from okralong.pipelines.run.rows import BEGUN, ORIGINS_FOLDER, VALUE_COLUMNS, in_question_order

Format = Literal["xlsx", "csv", "jsonl", "parquet", "duckdb"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
SUFFIXES: Final = {".ndjson": "jsonl", ".db": "duckdb"}
"""Further file endings by format."""


def flat_answers(run: Folder) -> pa.Table:
    """Return the answers of a run in question order, with the columns of ``FLAT_ANSWERS`` and carried columns.

    Without the run's archive, quotes and files are null.

    Raises:
        InputError: The folder is not a run.
    """
    return Exported.of(run).answers


def flat_citations(run: Folder) -> pa.Table:
    """Return the citations of a run with the columns of ``FLAT_CITATIONS``. Raises as ``flat_answers``."""
    return Exported.of(run).citations


@dataclass(frozen=True)
class Exported:
    """The tables of a run. ``missing`` says why quotes are unavailable, or is ""."""

    answers: pa.Table
    citations: pa.Table
    missing: str
    matrix: Matrix | None = None

    @classmethod
    def of(cls, run: Folder) -> Exported:
        """Read a run, finished or not. Raises InputError if the folder is not a run."""
        if not run.exists(BEGUN):
            raise InputError(
                f"{run.path} is not a run folder (it has no {BEGUN}). Give a folder written by okralong answer --run."
            )
        begun = json.loads(run.read_bytes(BEGUN))
        rows = in_question_order(run, read_run_table(run, "answers").to_pylist())
        return cls.made(begun, rows, origins_of(run))

    @classmethod
    def made(
        cls, begun: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], origins: Mapping[str, Mapping[str, Any]]
    ) -> Exported:
        """Build the tables from a run's ``run.json``, its rows of ``answers`` and the result of ``origins_of``."""
        found, missing = citations_of(begun, rows)
        answers = [_answer(row, found[row["query_id"]], begun, origins.get(row["query_id"])) for row in rows]
        citations = [
            {"query_id": row["query_id"], "number": number, "start_char": each.start_char, "end_char": each.end_char}
            | _cited(each)
            for row in rows
            for number, each in enumerate(found[row["query_id"]], start=1)
        ]
        flat = with_carried(pa.Table.from_pylist(answers, schema=FLAT_ANSWERS), [row["carried"] for row in rows])
        cited_words = pa.Table.from_pylist(citations, schema=FLAT_CITATIONS)
        return cls(flat, cited_words, missing, Matrix.of(flat.to_pylist(), begun.get("columns") or ()))


def flat_row(row: Mapping[str, Any], begun: Mapping[str, Any], archive: Archive | None) -> dict[str, Any]:
    """Convert a row of ``answers`` to a row of the flat table. ``begun`` is the run's ``run.json``."""
    citations = [cited(archive, span) for span in row["citations"] or ()]
    flat = _answer(row, citations, begun, None)
    return flat | {f"carried_{name}" if name in flat else name: value for name, value in row["carried"] or ()}


def citations_of(begun: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[Cited]], str]:
    """Return the citations of each answer by query_id, and why quotes are unavailable, or "".

    Each document is read once. ``begun`` is the run's ``run.json``.
    """
    archive, missing = archive_of(begun)
    spans = [(row["query_id"], at, span) for row in rows for at, span in enumerate(row["citations"] or ())]
    found = {
        (query_id, at): cited(archive, span)
        for query_id, at, span in sorted(spans, key=lambda each: (each[2]["doc_id"], each[0], each[1]))
    }
    lists = {row["query_id"]: [found[row["query_id"], at] for at in range(len(row["citations"] or ()))] for row in rows}
    return lists, missing


def origins_of(run: Folder) -> dict[str, dict[str, Any]]:
    """Return the night and archive version of each answer of a nightly's ``current``, by query_id."""
    return {row["query_id"]: row for row in run.at(ORIGINS_FOLDER).read_tables(ORIGINS).to_pylist()}


def with_carried(table: pa.Table, carried: Sequence[Iterable[tuple[str, str]] | None]) -> pa.Table:
    """Append the carried columns, sorted by name."""
    rows = [dict(each or ()) for each in carried]
    for name in sorted({name for row in rows for name in row}):
        column = pa.field(f"carried_{name}" if name in table.column_names else name, pa.string())
        table = table.append_column(column, pa.array([row.get(name) for row in rows], pa.string()))
    return table


def _answer(
    row: Mapping[str, Any], citations: Sequence[Cited], begun: Mapping[str, Any], origin: Mapping[str, Any] | None
) -> dict[str, Any]:
    place = Location.of(str(begun.get("archive") or ""))
    known = origin or {"night": None, "archive_version": place.version}
    seconds = dict(row["seconds"] or ())
    finished_at: datetime | None = row["finished_at"]
    return {
        "query_id": row["query_id"],
        "question": row["question"],
        "answer": row["answer"] or "",
        "status": row["status"],
        "answer_type": row["answer_type"] or "",
        **{name: row[name] for name in VALUE_COLUMNS},
        "confidence": row["confidence"],
        "escalated": row["escalated"],
        "first_confidence": row["first_confidence"],
        **(_cited(citations[0]) if citations else {}),
        "citations": len(citations),
        "more_citations": "\n".join(map(described, citations[1:])),
        "error": row["error"] or "",
        "type": said(row["analysis"], "type"),
        "workflow": said(row["plan"], "workflow"),
        "strategy": row["strategy"],
        "model": _asked(row, begun, known.get("model")),
        "replied_by": row["replied_by"],
        "calls": row["calls"],
        "prompt_tokens": row["prompt_tokens"],
        "cached_tokens": row["cached_tokens"],
        "completion_tokens": row["completion_tokens"],
        "cost_usd": row["cost_usd"],
        "seconds": seconds.get("total"),
        "scope": "; ".join(row["doc_ids"] or ()),
        "asked_id": row["asked_id"],
        "archive": place.place,
        "archive_version": known["archive_version"],
        "night": known["night"],
        "finished_at": None if finished_at is None else finished_at.replace(tzinfo=None),
    }


def _asked(row: Mapping[str, Any], begun: Mapping[str, Any], of_its_night: str | None) -> str:
    """Return the generator's name in the config of the run, or of the answer's night."""
    stronger = None if row["escalated"] == "precise" else row["escalated"]
    return str(stronger or of_its_night or ((begun.get("config") or {}).get("llm") or {}).get("model") or "")


def _cited(each: Cited) -> dict[str, Any]:
    known = bool(each.sha256)
    return {
        "section": each.section or None,
        "page": each.page,
        "quote": each.quote if known else None,
        "link": each.link or None,
        "source_uri": each.source_uri or None,
        "doc_id": each.doc_id,
        "title": each.title or None,
        "document_sha256": each.sha256 or None,
        "ocr": each.ocr if known else None,
    }


def described(each: Cited) -> str:
    """Format a citation on one line: document, page and quote."""
    words = " ".join(each.quote.split())
    return f"{each.doc_id}{f', {each.section}' if each.section else ''}{f': {words}' if words else ''}"


# --------
# Files. Text of documents and models never becomes a formula.


def format_of(to: str, given: str | None = None) -> Format:
    """Return the ``given`` format, or the one of the file's ending. Raises InputError if it is unknown."""
    suffix = PurePosixPath(to).suffix.lower()
    found = given or SUFFIXES.get(suffix, suffix.removeprefix("."))
    if found not in FORMATS:
        raise InputError(
            f"The format of {to} is unknown: {found!r} is none of {', '.join(FORMATS)}. Give the file one of these "
            "endings, or add --format."
        )
    return cast(Format, found)


def export_run(run: Folder, to: str, given: str | None = None) -> tuple[list[str], Exported]:
    """Write a run's answers and citations to the file ``to`` (a path or URI); return the paths and the tables.

    Excel and DuckDB hold all tables in one file, DuckDB also ledger and failures. Other formats have a file per table
    (``answers.csv``, ``answers.citations.csv``). A matrix comes first as a wide table; its cells are also in the
    table of answers.

    Raises:
        InputError: The folder is not a run, or the format is unknown. No file is written then.
    """
    kind = format_of(to, given)
    exported = Exported.of(run)
    tables = {} if exported.matrix is None else {"matrix": exported.matrix.table()}
    tables |= {"answers": exported.answers, "citations": exported.citations}
    if kind == "duckdb":
        tables |= {name: without_zones(read_run_table(run, name)) for name in ("ledger", "failures")}
    return write_tables(tables, to, kind, exported.matrix), exported


def write_tables(tables: Mapping[str, pa.Table], to: str, kind: Format, matrix: Matrix | None = None) -> list[str]:
    """Write tables to ``to`` and return the paths. If a file holds one table, ``to`` is the first one's.

    In Excel the sheet ``matrix`` is made from ``matrix``, with sources as notes.
    """
    head, slash, name = to.rpartition("/")
    folder = Folder.of(head + slash if slash else ".")
    if kind in ("xlsx", "duckdb"):
        files = {name: excel(tables, matrix) if kind == "xlsx" else database(tables)}
    else:
        stem, dot, suffix = name.rpartition(".")
        beside = f"{stem or suffix}.{{}}{dot if stem else ''}{suffix if stem else ''}"
        each = {"csv": comma_separated, "jsonl": json_lines, "parquet": parquet}[kind]
        names = [name, *(beside.format(table) for table in list(tables)[1:])]
        files = {file: each(table) for file, table in zip(names, tables.values(), strict=True)}
    for file, content in files.items():
        folder.write_bytes(file, content)
    return [folder.at(file).path for file in files]


def without_zones(table: pa.Table) -> pa.Table:
    """Drop the UTC zone from time columns, because some readers need further packages for zones."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz:
            naive = pa.timestamp(field.type.unit)
            table = table.set_column(at, field.with_type(naive), table[field.name].cast(naive))
    return table


def parquet(table: pa.Table) -> bytes:
    """Convert to a Parquet file."""
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def json_lines(table: pa.Table) -> bytes:
    """Convert to JSON lines in UTF-8."""
    lines = (json.dumps(_plain_values(row), ensure_ascii=False) for row in table.to_pylist())
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def comma_separated(table: pa.Table) -> bytes:
    """Convert to CSV in UTF-8 with the byte order mark that Excel needs."""
    rows = [_plain_values(row) for row in table.to_pylist()]
    return b"\xef\xbb\xbf" + csv_file({name: [row[name] for row in rows] for name in table.column_names})


def _plain_values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    return value.isoformat() if isinstance(value, date) else value


def database(tables: Mapping[str, pa.Table]) -> bytes:
    """Convert to a DuckDB file."""
    with tempfile.TemporaryDirectory(prefix="okralong-export-") as folder:
        file = Path(folder) / "export.duckdb"
        with duckdb.connect(str(file)) as connection:
            for name, table in tables.items():
                connection.register("given", table)
                connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
                connection.unregister("given")
        return file.read_bytes()


# --------
# Excel: one sheet per table, with a frozen header, filters and fitting column widths.

MOST_CHARACTERS: Final = 32_767
"""Per cell (Excel specifications and limits)."""
MOST_LINKS: Final = 65_530
"""Per sheet (Excel specifications and limits)."""
LONGEST_LINK: Final = 2_079
"""Maximum length of a link that Excel opens."""
WIDTHS: Final = {"question": 44, "answer": 44, "quote": 60, "link": 32, "more_citations": 44, "error": 32}
LEAST_WIDTH, MOST_WIDTH = 9, 32
_LINKED: Final = ("http://", "https://", "file://")
_HALF: Final = re.compile("[\ud800-\udfff\ufffe\uffff]")
_HEAD_FILL: Final = PatternFill("solid", fgColor="FFE8EEF4")
_TOP: Final = Alignment(vertical="top")
_WRAPPED: Final = Alignment(vertical="top", wrap_text=True)
_LINK: Final = Font(color="FF0563C1", underline="single")
_GREY: Final = PatternFill("solid", fgColor="FFD9D9D9")
_FILLS: Final = {
    **dict.fromkeys(("unanswerable", "invalid_output", "failed", "over_budget"), _GREY),
    "likely": PatternFill("solid", fgColor="FFFFF2CC"),
    "unsure": PatternFill("solid", fgColor="FFF8CBAD"),
}
MATRIX_WIDTH: Final = 22
NOTE_CHARS: Final = 1_200
_NUMBERS: Final = {"cost_usd": "0.000000", "seconds": "0.0", "similarity": "0.00", "finished_at": "yyyy-mm-dd hh:mm:ss"}


def excel(tables: Mapping[str, pa.Table], matrix: Matrix | None = None) -> bytes:
    """Convert to an Excel workbook with a sheet per table."""
    book = Workbook()
    book.remove(book.worksheets[0])
    for name, table in tables.items():
        sheet = book.create_sheet(name)
        if name == "matrix" and matrix is not None:
            _matrix_sheet(sheet, matrix)
        else:
            _sheet(sheet, table)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _sheet(sheet: Worksheet, table: pa.Table) -> None:
    columns = table.column_names
    for at, name in enumerate(columns, start=1):
        _head(sheet, at, name)
        values = table[name].slice(0, 200).to_pylist()
        fitting = max([len(name) + 4, *(len(str(value)) + 2 for value in values if value is not None)])
        width = WIDTHS.get(name, min(MOST_WIDTH, max(LEAST_WIDTH, fitting)))
        sheet.column_dimensions[get_column_letter(at)].width = width
    links = 0
    for number, row in enumerate(table.to_pylist(), start=2):
        for at, name in enumerate(columns, start=1):
            if (value := row[name]) is None or value == "":
                continue
            cell = sheet.cell(number, at)
            assert isinstance(cell, Cell)
            _fill(cell, value, name in WIDTHS)
            if name in _NUMBERS:
                cell.number_format = _NUMBERS[name]
            if name.endswith("link") and value.startswith(_LINKED) and len(value) < LONGEST_LINK and links < MOST_LINKS:
                links += 1
                cell.hyperlink = value
                cell.font = _LINK
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(max(len(columns), 1))}{max(sheet.max_row, 1)}"


def _head(sheet: Worksheet, at: int, name: str) -> Cell:
    head = sheet.cell(1, at)
    assert isinstance(head, Cell)
    _fill(head, name, wrapped=False)
    head.font, head.fill = Font(bold=True), _HEAD_FILL
    return head


def _matrix_sheet(sheet: Worksheet, matrix: Matrix) -> None:
    """Fill the sheet of a matrix: typed values with units, notes with sources, and links to their pages.

    Cells without an answer are grey, with the reason in the note; those with less confidence are coloured.
    """
    for at, name in enumerate((*DOCUMENT_COLUMNS, *matrix.headings().values()), start=1):
        head = _head(sheet, at, name)
        if at > len(DOCUMENT_COLUMNS):
            head.comment = _note(matrix.questions[matrix.columns[at - len(DOCUMENT_COLUMNS) - 1]])
        sheet.column_dimensions[get_column_letter(at)].width = MATRIX_WIDTH
    links = 0
    for number, doc_id in enumerate(matrix.documents, start=2):
        for at, text in enumerate((doc_id, matrix.titles.get(doc_id, "")), start=1):
            place = sheet.cell(number, at)
            assert isinstance(place, Cell)
            _fill(place, text, wrapped=False)
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
            if (colour := _FILLS.get(confidence_of(row) if row["status"] == "answered" else row["status"])) is not None:
                cell.fill = colour
            cell.comment = _note(_source(row))
            if value is not None and link.startswith(_LINKED) and len(link) < LONGEST_LINK and links < MOST_LINKS:
                links += 1
                cell.hyperlink = link
                cell.font = _LINK
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = sheet.dimensions


def _number_format(value: Any, unit: str) -> str:
    if isinstance(value, date):
        return "yyyy-mm-dd"
    if not isinstance(value, int | float):
        return "General"
    figure = "#,##0" if isinstance(value, int) else "#,##0.00########"
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
    return "\n".join([*lines, row["query_id"]])


def _note(text: str) -> Comment:
    shown = bounded(_HALF.sub("\ufffd", ILLEGAL_CHARACTERS_RE.sub(" ", text)), NOTE_CHARS)
    height = 20 + 18 * sum(1 + len(line) // 56 for line in shown.split("\n"))
    return Comment(shown, "okralong", height=min(height, 400), width=400)


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
