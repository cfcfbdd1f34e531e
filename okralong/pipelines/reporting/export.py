"""Export of a run's answers to Excel, CSV, JSON lines, Parquet and DuckDB.

``flat_answers`` has a row per question, ``flat_citations`` a row per citation; ``core/schemas.py`` describes the
columns. ``export_run`` writes both, preceded by the matrix (``reporting/matrix.py``) if there is one.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, cast, get_args

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import Location
from okralong.pipelines.core.schemas import FLAT_ANSWERS, FLAT_CITATIONS, FLAT_SEARCHED, ORIGINS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import MODELS_NAMED
from okralong.pipelines.reporting.cited import Cited, archive_of, cited
from okralong.pipelines.reporting.matrix import Matrix
from okralong.pipelines.reporting.rows import replied_by, said
from okralong.pipelines.reporting.searched import searched, searched_table
from okralong.pipelines.reporting.tables import csv_file
from okralong.pipelines.reporting.workbook import Marks, excel, marks_of
from okralong.pipelines.run.corrections import NO_CORRECTION, Correction, corrections_of, corrections_table
from okralong.pipelines.run.rows import BEGUN, ORIGINS_FOLDER, VALUE_COLUMNS, in_question_order
from okralong.pipelines.statements.amounts import UNKNOWN

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
    """The tables of a run.

    ``missing`` says why quotes are unavailable, or is ""; ``summary`` has facts by name; ``begun`` is the run's
    ``run.json``.
    """

    answers: pa.Table
    citations: pa.Table
    missing: str
    matrix: Matrix | None = None
    summary: Sequence[tuple[str, str]] = ()
    begun: Mapping[str, Any] = field(default_factory=dict)
    searched: pa.Table = field(default_factory=FLAT_SEARCHED.empty_table)

    @classmethod
    def of(cls, run: Folder) -> Exported:
        """Read a run, finished or not. Raises InputError if the folder is not a run."""
        if not run.exists(BEGUN):
            raise InputError(
                f"{run.path} is not a run folder (it has no {BEGUN}). Give a folder written by okralong answer --run."
            )
        begun = run.read_json(BEGUN)
        rows = in_question_order(run, read_run_table(run, "answers").to_pylist())
        made = cls.made(begun, rows, origins_of(run), corrections_of(run))
        return replace(made, summary=_summary(run, begun, rows, made.missing), begun=begun)

    def with_searched(self, run: Folder) -> Exported:
        """Return the tables with what was searched for the questions without an answer."""
        rows = in_question_order(run, read_run_table(run, "answers").to_pylist())
        found = searched(run, rows, archive_of(self.begun)[0])
        return replace(
            self, searched=searched_table(found[each["query_id"]] for each in rows if each["query_id"] in found)
        )

    @classmethod
    def made(
        cls,
        begun: Mapping[str, Any],
        rows: Sequence[Mapping[str, Any]],
        origins: Mapping[str, Mapping[str, Any]],
        corrections: Mapping[str, Correction] | None = None,
    ) -> Exported:
        """Build the tables from a run's ``run.json`` and rows of ``answers``, its ``origins_of`` and corrections."""
        found, missing = citations_of(begun, rows)
        known = corrections or {}
        answers = [
            _answer(row, found[query_id], begun, origins.get(query_id), known.get(query_id))
            for row in rows
            for query_id in (row["query_id"],)
        ]
        citations = [
            {"query_id": row["query_id"], "number": number, "start_char": each.start_char, "end_char": each.end_char}
            | _cited(each)
            for row in rows
            for number, each in enumerate(found[row["query_id"]], start=1)
        ]
        flat = with_carried(pa.Table.from_pylist(answers, schema=FLAT_ANSWERS), [row["carried"] for row in rows])
        cited_words = pa.Table.from_pylist(citations, schema=FLAT_CITATIONS)
        matrix = Matrix.of(flat.to_pylist(), begun.get("columns") or ())
        rules = begun.get("checks") or ()
        if matrix is not None and rules:
            archive, _ = archive_of(begun)
            matrix = matrix.checked(rules, archive)
        return cls(flat, cited_words, missing, matrix)


def flat_row(
    row: Mapping[str, Any], begun: Mapping[str, Any], archive: Archive | None, correction: Correction | None = None
) -> dict[str, Any]:
    """Convert a row of ``answers`` to a row of the flat table. ``begun`` is the run's ``run.json``."""
    citations = [cited(archive, span) for span in row["citations"] or ()]
    flat = _answer(row, citations, begun, None, correction)
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
    row: Mapping[str, Any],
    citations: Sequence[Cited],
    begun: Mapping[str, Any],
    origin: Mapping[str, Any] | None,
    correction: Correction | None,
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
        "number": None if row["scale"] == UNKNOWN else row["number"],
        "confidence": _shortest(row["confidence"]),
        "escalated": row["escalated"],
        "first_confidence": _shortest(row["first_confidence"]),
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
        "language": row["language"],
        "archive": place.place,
        "archive_version": known["archive_version"],
        "night": known["night"],
        "finished_at": None if finished_at is None else finished_at.replace(tzinfo=None),
        **(correction.columns() if correction else NO_CORRECTION),
    }


def _shortest(stored: float | None) -> float | None:
    """Return a stored 32-bit number with as few digits as identify it: 0.85 rather than 0.8500000238."""
    return None if stored is None else float(str(np.float32(stored)))


def _summary(
    run: Folder, begun: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], missing: str
) -> list[tuple[str, str]]:
    """Return what a reader wants to know about the run first."""
    manifest, place = run.read_manifest(), Location.of(str(begun.get("archive") or ""))
    ended = Counter(str(row["status"]) for row in rows)
    statuses = ", ".join(f"{count:,} {status}" for status, count in ended.most_common())
    cited = sum(bool(row["cited"]) for row in rows if row["status"] == "answered")
    times = [row["finished_at"] for row in rows if row["finished_at"] is not None]
    tokens = sum((row["prompt_tokens"] or 0) + (row["completion_tokens"] or 0) for row in rows)
    notes = [
        *([] if manifest or begun.get("night") else ["the run was incomplete when it was exported"]),
        *([missing] if missing else []),
    ]
    if bad := int((manifest or {}).get("bad_rows") or 0):
        notes.append(f"{counted(bad, 'row')} of the questions file could not be asked; okralong failures lists why")
    facts = {
        "run": run.path,
        "archive": f"{place.place}{f', version {place.version}' if place.version else ''}",
        "questions": f"{len(rows):,}{f': {statuses}' if statuses else ''}",
        "with a source": f"{cited:,} of {counted(ended['answered'], 'answer')}" if ended["answered"] else "",
        "answered by": ", ".join(f"{name} ({count:,})" for name, count in replied_by(rows)[:MODELS_NAMED]),
        "cost": f"${sum(row['cost_usd'] or 0.0 for row in rows):,.4f}, {counted(tokens, 'token')}",
        "last answer": f"{max(times):%Y-%m-%d %H:%M} UTC" if times else "",
        "notes": "; ".join(notes),
    }
    return [(name, fact) for name, fact in facts.items() if fact]


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
    table of answers. Tables of their own have failed checks, comparisons with tagged facts, what was searched for
    questions without an answer, and the history of corrections.

    Raises:
        InputError: The folder is not a run, or the format is unknown. No file is written then.
    """
    kind = format_of(to, given)
    exported = Exported.of(run).with_searched(run)
    tables = {} if exported.matrix is None else {"matrix": exported.matrix.table()}
    if exported.matrix is not None and exported.matrix.rules:
        tables["checks"] = exported.matrix.checks_table()
        if exported.matrix.tagged:
            tables["tagged_facts"] = exported.matrix.tagged_table()
    tables |= {"answers": exported.answers, "citations": exported.citations}
    if exported.searched.num_rows:
        tables["searched"] = exported.searched
    if (corrections := corrections_table(run)).num_rows:
        tables["corrections"] = corrections
    if kind == "duckdb":
        tables |= {name: without_zones(read_run_table(run, name)) for name in ("ledger", "failures")}
    marks = marks_of(run.path, exported.begun, exported.answers.to_pylist()) if kind == "xlsx" else None
    return write_tables(tables, to, kind, exported.matrix, exported.summary, marks), exported


def write_tables(
    tables: Mapping[str, pa.Table],
    to: str,
    kind: Format,
    matrix: Matrix | None = None,
    summary: Sequence[tuple[str, str]] = (),
    marks: Marks | None = None,
) -> list[str]:
    """Write tables to ``to`` and return the paths. If a file holds one table, ``to`` is the first one's.

    In Excel the sheet ``matrix`` is made from ``matrix``, with sources as notes, ``summary`` begins a last sheet that
    explains the others, and ``marks`` is a hidden one.
    """
    head, slash, name = to.rpartition("/")
    folder = Folder.of(head + slash if slash else ".")
    if kind in ("xlsx", "duckdb"):
        files = {name: excel(tables, matrix, summary, marks) if kind == "xlsx" else database(tables)}
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
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.tz:
            naive = pa.timestamp(column.type.unit)
            table = table.set_column(at, column.with_type(naive), table[column.name].cast(naive))
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
