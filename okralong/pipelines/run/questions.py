"""Reading questions: from a file of any usual kind, standard input, a list, a data frame or an Arrow table.

Good rows become ``Question`` values, bad rows become ``BadQuestion`` and stop nothing. Columns, which jsonl calls keys:
``question`` (required), ``query_id`` (made from the row's number when missing), ``doc_ids`` (a list, or one string with
``;`` between ids or globs) and ``where`` (a filter over the documents' metadata), which together are the scope (without
any the whole archive), ``for_each`` in the place of ``doc_ids`` (a question of each of these documents by itself; of
every document with ``doc_ids: each``), ``answer_type`` and ``choices`` (of which kind the answer must be; without them
text), and the gold columns ``answers``, ``evidence`` and ``type``, which evaluation reads. Any other column must be
named by ``carry``: a misspelt ``doc_ids`` would ask the whole archive, and be billed.
"""

from __future__ import annotations

import csv
import difflib
import itertools
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.answering.answer_types import names_schema_file, read_answer_type
from okralong.pipelines.core.filesystems import located, open_file
from okralong.pipelines.core.table_files import csv_rows, decoded_table, read_workbook
from okralong.pipelines.core.types import DocumentError, InputError, Question, QuestionError
from okralong.pipelines.run.matrix import EACH, EVERY, column_rows


class ArrowTable(Protocol):
    """A pyarrow Table, or a data frame of pandas, polars and others that can give one."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's own interface between libraries."""


Questions: TypeAlias = str | Path | Iterable[str | Mapping[str, Any] | Question] | ArrowTable
"""What questions may be given as: a path or URI, "-" for standard input, texts or rows, a data frame, a table."""

STDIN: Final = "-"
COLUMNS: Final = (
    *("query_id", "question", "doc_ids", "for_each", "where"),
    *("answer_type", "choices", "answers", "evidence", "type"),
)
OTHER_NAMES: Final = {
    "id": "query_id",
    "qid": "query_id",
    "question_id": "query_id",
    "text": "question",
    "query": "question",
    "prompt": "question",
    "doc": "doc_ids",
    "docs": "doc_ids",
    "doc_id": "doc_ids",
    "document": "doc_ids",
    "documents": "doc_ids",
    "file": "doc_ids",
    "files": "doc_ids",
    "scope": "doc_ids",
    "filter": "where",
    "format": "answer_type",
    "value_type": "answer_type",
    "options": "choices",
    "each": "for_each",
    "foreach": "for_each",
    "for_each_document": "for_each",
    "gold": "answers",
    "answer": "answers",
    "expected": "answers",
}
"""What people call columns whose names here are not alike in letters."""
DELIMITERS: Final = (",", ";", "\t", "|")
SHEET: Final = "questions"


@dataclass(frozen=True, slots=True)
class BadQuestion:
    """A row that cannot be asked: its id (or row number) and one paragraph that says why and what to do."""

    query_id: str
    message: str


def source_name(source: Questions) -> str:
    """What messages call the questions: the file, or what they are."""
    if isinstance(source, (str, Path)):
        return "standard input" if source == STDIN else str(source)
    return "the questions given"


def read_questions(
    source: Questions, carry: Sequence[str] = (), *, strict: bool = True
) -> tuple[list[Question], list[BadQuestion]]:
    """All questions of a source in its order, and the rows that are none. ``carry`` names columns to take along.

    Raises InputError when the source is missing, of an unknown kind, unreadable, holds no question at all, has not a
    column that ``carry`` names, or, where it is ``strict``, has one that is neither known nor carried.
    """
    name = source_name(source)
    folder = _folder_of(source)
    rows = [_Row(*row) for row in _rows(source, name)]
    if not rows:
        raise InputError(f"{name} holds no rows. Put one question in each row, with a column named question.")
    _check_columns(name, _columns(rows), carry, strict)
    questions: dict[str, Question] = {}
    bad: list[BadQuestion] = []
    for number, row in enumerate(rows, start=1):
        try:
            question = _question(row, number, carry, folder)
            if question.query_id in questions:
                raise QuestionError(
                    f"{row.place}: the query_id {question.query_id!r} is used twice; the first one is asked. "
                    "Give each question an id of its own."
                )
            questions[question.query_id] = question
        except QuestionError as error:
            query_id = _text(row.named().get("query_id")) or None
            clash = query_id is None or query_id in questions
            bad.append(BadQuestion(f"row-{number}" if clash else str(query_id), str(error)))
    if not questions:
        raise InputError(f"No row of {name} can be asked. The first problem: {bad[0].message}")
    return list(questions.values()), bad


def question_row(question: Question) -> dict[str, Any]:
    """A row of a questions file from which the same question is read: ``where``, ``for_each``, ``answer_type`` and
    carried columns if it has any.
    """
    row: dict[str, Any] = asdict(question)
    carried = row.pop("carried")
    del row["asked_id"]
    for name in ("where", "for_each", "answer_type"):
        if not row[name]:
            del row[name]
    row |= carried
    return row


@dataclass(frozen=True, slots=True)
class _Row:
    """``place`` is what a person finds it by; ``values`` a row's cells by column, or whatever stands there instead."""

    place: str
    values: Any

    def named(self) -> Mapping[Any, Any]:
        """The cells, by the names that are ours where only case and blanks differ."""
        if not isinstance(self.values, Mapping):
            return {}
        return {_column(key): value for key, value in self.values.items()}


def _column(key: Any) -> Any:
    """A column's name: ours where only case and blanks differ, else as it stands without blanks around it."""
    if not isinstance(key, str):
        return key
    plain = key.strip()
    return plain.lower() if plain.lower() in COLUMNS else plain


def _columns(rows: Sequence[_Row]) -> list[str]:
    return list(dict.fromkeys(str(key) for row in rows for key in row.named() if key is not None))


def _check_columns(name: str, found: Sequence[str], carry: Sequence[str], strict: bool) -> None:
    """Raises InputError where a row's cells would be left out without a word."""
    others = [column for column in found if column not in COLUMNS and column not in carry]
    if found and "question" not in found:
        near = next((column for column in others if _nearest(column, COLUMNS) == "question"), None)
        hint = f"Is it {near}? Name that column question" if near else "Put one question in each row, under that name"
        raise InputError(f"{name} has no column named question; its columns are {', '.join(found)}. {hint}.")
    missing = [column for column in carry if column not in found] if found else []  # none: Question values alone
    told = [f"column {each} is to be carried and is not there{_did_you_mean(each, found)}" for each in missing]
    if strict:
        told += [f"column {each} is not known{_did_you_mean(each, COLUMNS)}" for each in others]
    if not told:
        return
    more = ""
    if strict and others:
        more = (
            f" The known ones are {', '.join(COLUMNS)}. Any other may be taken along into the answers: "
            f"carry: [{', '.join(others)}] in the answer config, or --carry {others[0]}."
        )
    raise InputError(f"{name}: {'; '.join(told)}.{more} Nothing was spent.")


def _did_you_mean(column: str, known: Collection[str]) -> str:
    near = _nearest(column, known)
    return f" (did you mean {near}?)" if near else ""


def _nearest(column: str, known: Collection[str]) -> str | None:
    plain = column.lower().replace(" ", "_").replace("-", "_")
    if (other := OTHER_NAMES.get(plain)) in known:
        return other
    by_case = {each.lower(): each for each in known}
    near = difflib.get_close_matches(plain, by_case, n=1, cutoff=0.7)
    return by_case[near[0]] if near else None


def _question(row: _Row, number: int, carry: Sequence[str], folder: str) -> Question:
    place, values = row.place, row.values
    if isinstance(values, Question):
        return values
    if isinstance(values, json.JSONDecodeError):
        raise QuestionError(f"{place} is not JSON: {values.msg} at column {values.colno}. Correct that line.")
    if not isinstance(values, Mapping):
        raise QuestionError(
            f"{place} holds a {type(values).__name__}, not an object with a question. Correct that line."
        )
    cells = row.named()
    try:
        json.dumps({str(key): value for key, value in cells.items()}, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise QuestionError(
            f"{place} holds half of a character (a lone surrogate). Correct the text of that row."
        ) from None
    if None in cells:
        raise QuestionError(f"{place} has more cells than the header has columns. Quote cells that hold commas.")
    text = cells.get("question")
    if not isinstance(text, str) or not text.strip():
        found = "an empty question" if "question" in cells else "no column named question"
        raise QuestionError(f"{place} has {found}. Write the question's text there, or delete the row.")
    doc_ids, for_each = _scope(place, cells)
    return Question(
        query_id=_text(cells.get("query_id")) or f"q{number:06d}",
        question=text.strip(),
        doc_ids=doc_ids,
        for_each=for_each,
        where=_text(cells.get("where")).strip(),
        answer_type=_answer_type(cells, place, folder),
        answers=_strings(cells.get("answers"), None),
        evidence=_strings(cells.get("evidence"), None),
        type=_text(cells.get("type")),
        carried={column: _text(cells.get(column)) for column in carry},
    )


def _scope(place: str, cells: Mapping[Any, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``(doc_ids, for_each)`` of a row. Raises QuestionError where it has both."""
    doc_ids, for_each = _strings(cells.get("doc_ids"), ";"), _strings(cells.get("for_each"), ";")
    named = tuple(each for each in doc_ids if each != EACH)
    every = named != doc_ids
    if named and (for_each or every):
        said = f"doc_ids: {EACH}" if every else f"for_each: {'; '.join(for_each)}"
        raise QuestionError(
            f"{place} says {said}, which asks documents one by one, and names {'; '.join(named)} in doc_ids, which "
            "asks these together. For an answer of each of them name them in for_each alone; for one answer over all "
            f"of them take {EACH if every else 'for_each'} out."
        )
    return named, EVERY if every or for_each == (EACH,) else for_each


def _answer_type(cells: Mapping[Any, Any], place: str, folder: str) -> str:
    """The written form of the type that a row asks for. Raises QuestionError that names the row."""

    def load(name: str) -> str:
        try:
            return _content(f"{folder}/{name}" if folder and _is_beside(name) else name).decode()
        except (InputError, UnicodeDecodeError):
            beside = f" beside {folder}" if folder else ""
            raise QuestionError(
                f"There is no readable file {name}{beside}, which answer_type names as its JSON schema. Check the "
                "name; it is looked for in the folder of the questions file."
            ) from None

    try:
        return str(read_answer_type(_plain(cells.get("answer_type")), _strings(cells.get("choices"), ";"), load))
    except QuestionError as error:
        raise QuestionError(f"{place}: {error}") from None


def _is_beside(name: str) -> bool:
    """Whether a file is looked for in the folder of the questions file."""
    return "://" not in name and not Path(name).is_absolute()


def schema_files(source: str) -> dict[str, bytes]:
    """The files with JSON schemas that rows of a questions file name and that lie beside it, by name; without those
    that cannot be read, for which reading the questions has the message. Raises as ``read_questions`` does.
    """
    found: dict[str, bytes] = {}
    folder = _folder_of(source)
    for place, values in _rows(source, source):
        named = _plain(_Row(place, values).named().get("answer_type"))
        name = named.strip() if isinstance(named, str) else ""
        if names_schema_file(name) and _is_beside(name) and ".." not in PurePosixPath(name).parts:
            with suppress(InputError):
                found[name] = _content(f"{folder}/{name}" if folder else name)
    return found


def _folder_of(source: Questions) -> str:
    """Where the files lie that rows name: beside the questions file; "" is where the command runs."""
    if not isinstance(source, (str, Path)) or source == STDIN:
        return ""
    return str(source).rpartition("/")[0]


def _strings(value: Any, separator: str | None) -> tuple[str, ...]:
    value = _plain(value)
    if value is None:
        return ()
    if isinstance(value, str):
        parts = value.split(separator) if separator else [value]
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(value, (list, tuple)):
        return tuple(_text(item) for item in value)
    return (_text(value),)


def _text(value: Any) -> str:
    """A cell in words; nothing is "". Whole numbers have no ".0", which pandas and Excel give them."""
    value = _plain(value)
    if value is None:
        return ""
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, datetime) and value.time() == datetime.min.time() and value.tzinfo is None:
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def _plain(value: Any) -> Any:
    """A value of Python's own types; the ways in which data frames say that there is none are None."""
    if (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if not isinstance(value, (str, bytes)) and hasattr(value, "tolist"):  # NumPy's arrays and scalars
        return _plain(value.tolist())
    return value


# The kinds of sources. Each yields (place, values) of its rows, blank ones left out.

Rows: TypeAlias = Iterator[tuple[str, Any]]


def _rows(source: Questions, name: str) -> Rows:
    if isinstance(source, (str, Path)):
        if source == STDIN:
            content = sys.stdin.buffer.read()
            yield from _READERS[_kind_of(content)](name, content)
            return
        kind = PurePosixPath(str(source)).suffix.lower()
        content = _content(source)
        if kind not in _READERS:
            raise InputError(
                f"{name} is no jsonl, csv, tsv, xlsx, parquet or yaml file (by its suffix {kind!r}). Convert it, or "
                "rename it."
            )
        yield from _READERS[kind](name, content)
        return
    for number, values in enumerate(_given(source), start=1):
        yield f"{name}, row {number}", {"question": values} if isinstance(values, str) else values


def _given(source: Any) -> Iterable[Any]:
    if hasattr(source, "iterrows"):  # pandas: Arrow refuses columns of mixed types, which spreadsheets have
        return list(source.to_dict("records"))
    if hasattr(source, "__arrow_c_stream__"):
        return list(pa.table(source).to_pylist())
    if isinstance(source, (Mapping, bytes)) or not isinstance(source, Iterable):
        raise InputError(
            f"Questions cannot be read from a {type(source).__name__}. Give a path, a list of texts or of rows, a data "
            "frame or an Arrow table."
        )
    return source


def _content(source: str | Path) -> bytes:
    filesystem, inside = located(source)
    if not filesystem.get_file_info(inside).is_file:
        text = str(source)
        hint = " To ask a question itself from Python, give a list of questions." if " " in text.strip() else ""
        raise InputError(f"The questions file {text} does not exist. Check the path given to --questions.{hint}")
    with open_file(filesystem, inside) as opened:
        return bytes(opened.read())


def _kind_of(content: bytes) -> str:
    """The kind of file by how its bytes begin."""
    if content.startswith(b"PAR1"):
        return ".parquet"
    if content.startswith(b"PK\x03\x04"):
        return ".xlsx"
    return ".jsonl" if content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else ".csv"


def _jsonl(name: str, content: bytes) -> Rows:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    number = 0
    for line in text.split("\n"):
        if line.strip():
            number += 1
            values: Any
            try:
                values = json.loads(line)
            except json.JSONDecodeError as error:
                values = error
            except (ValueError, RecursionError) as error:  # a number of a million digits, lists within lists
                values = json.JSONDecodeError(str(error), "", 0)
            yield f"{name}, row {number}", values


def _csv(name: str, content: bytes) -> Rows:
    try:
        text = decoded_table(content, name)
    except DocumentError as error:
        raise InputError(str(error)) from error
    first = text.partition("\n")[0].strip()
    told = first.lower().startswith("sep=") and len(first) == 5  # how Excel is told the delimiter
    delimiter = first[-1] if told else max(DELIMITERS, key=lambda each: _likely(text, each))
    lines = enumerate(csv_rows(text, delimiter), start=1)
    try:
        yield from _table(name, itertools.islice(lines, 1 if told else 0, None))
    except csv.Error as error:
        raise InputError(f"{name} is not readable CSV: {error}. Save it again.") from error


def _likely(text: str, delimiter: str) -> tuple[bool, int]:
    """How well a delimiter fits the header: whether it sets a column named question apart, and how many there are."""
    try:
        header = next((row for row in csv_rows(text, delimiter) if row), [])
    except csv.Error:
        header = []
    return any(_column(cell) == "question" for cell in header), len(header)


def _xlsx(name: str, content: bytes) -> Rows:
    try:
        sheets = read_workbook(content, name).sheets
        sheet = next((each for each in sheets if each.name.strip().lower() == SHEET), sheets[0] if sheets else None)
        rows = list(sheet.values()) if sheet else []
    except DocumentError as error:
        raise InputError(str(error)) from error
    except Exception as error:  # whatever XML that is no sheet makes the library raise
        raise InputError(f"{name} is not a readable Excel workbook: {error}. Save it again.") from error
    yield from _table(name, enumerate(rows, start=1))


def _table(name: str, lines: Iterable[tuple[int, Sequence[Any]]]) -> Rows:
    """The rows below a header. Cells beyond it stand under None; a line without any is left out."""
    header: list[str] | None = None
    number = 0
    for line, cells in lines:
        last = max((at for at, cell in enumerate(cells, start=1) if _text(cell).strip()), default=0)
        if not last:
            continue
        if header is None:
            header = _header(name, cells[:last])
            continue
        number += 1
        values: dict[str | None, Any] = dict.fromkeys(header)
        values.update(zip(header, cells, strict=False))
        if last > len(header):
            values[None] = list(cells[len(header) :])
        yield f"{name}, row {number} (line {line})", values


def _header(name: str, cells: Sequence[Any]) -> list[str]:
    header = [_text(cell).strip() for cell in cells]
    if "" in header:
        raise InputError(
            f"{name}: column {header.index('') + 1} has no name in the header. Name it, or delete the column (pandas "
            "writes one unless told index=False)."
        )
    seen: set[str] = set()
    for column in map(_column, header):
        if column in seen:
            raise InputError(f"{name} has two columns named {column}. Give each a name of its own.")
        seen.add(column)
    return header


def _parquet(name: str, content: bytes) -> Rows:
    try:
        rows = pq.read_table(pa.BufferReader(content)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{name} is not a readable Parquet file: {error}. Write it again.") from error
    for number, values in enumerate(rows, start=1):
        yield f"{name}, row {number}", values


def _yaml(name: str, content: bytes) -> Rows:
    """The columns of a matrix."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    yield from column_rows(name, text)


_READERS: Final[Mapping[str, Callable[[str, bytes], Rows]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".tsv": _csv,
    ".xlsx": _xlsx,
    ".parquet": _parquet,
    ".yaml": _yaml,
    ".yml": _yaml,
}
