"""Read the files of data sets row by row. Every error names the file, row and field."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.lab.datasets.catalog import question_type
from okralong.pipelines.core.types import InputError, QuestionType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of a file; ``place`` locates it ("row 12", "meeting 3, query 2")."""

    file: Path
    place: str
    values: Mapping[str, Any]

    def get(self, field: str, kind: type[T]) -> T:
        """Return the field's value. Raises InputError if it is missing or of another type."""
        if field not in self.values:
            self.bad(field, f"is missing (there are: {', '.join(map(str, list(self.values)[:12])) or 'none'})")
        value = self.values[field]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind):
            self.bad(field, f"is {type(value).__name__}, not {kind.__name__}")
        return value

    def text(self, field: str) -> str:
        """Return a text that is not blank. Raises InputError otherwise."""
        value = self.get(field, str)
        if not value.strip():
            self.bad(field, "is an empty text")
        return value

    def texts(self, field: str) -> list[str]:
        """Return a list of texts. Raises InputError for any other entry."""
        return self.all_texts(field, self.get(field, list))

    def all_texts(self, field: str, values: Sequence[Any]) -> list[str]:
        """Return ``values`` of the field as texts. Raises InputError for any other value."""
        for value in values:
            if not isinstance(value, str):
                self.bad(field, f"holds {type(value).__name__} where a text is expected")
        return list(values)

    def inner(self, field: str) -> Row:
        """Return the object of a field as a row. Raises InputError if it is not an object."""
        return Row(self.file, f"{self.place}, {field}", self.get(field, dict))

    def type_of(self, field: str, dataset: str, label: str) -> QuestionType:
        """Return the question type of a label that ``field`` has or implies. Raises InputError for an unknown label."""
        try:
            return question_type(dataset, label)
        except InputError as error:
            self.bad(field, f"holds a question label without a type. {error}")

    def rows(self, field: str, what: str = "") -> Iterator[Row]:
        """Return the entries of a list of objects as rows. Raises InputError for an entry that is not an object."""
        for number, value in enumerate(self.get(field, list), start=1):
            yield row_of(self.file, f"{self.place}, {what or field} {number}", value)

    def bad(self, field: str, why: str) -> NoReturn:
        """Raise InputError naming the field and the problem."""
        raise InputError(
            f"{self.file}, {self.place}: the field {field!r} {why}. The file is not in its authors' published "
            "format: fetch it again, or correct or delete that entry."
        )


def row_of(file: Path, place: str, value: object) -> Row:
    """Return ``value`` as a row. Raises InputError if it is not an object."""
    if not isinstance(value, dict):
        raise InputError(
            f"{file}, {place} is {type(value).__name__} and not an object. The file is not in the form in which its "
            "authors publish it: fetch it again, or correct or delete that entry."
        )
    return Row(file, place, value)


def read_json(file: Path) -> Any:
    """Return the content of a JSON file. Raises InputError if it is missing or not JSON."""
    try:
        return json.loads(_read(file))
    except ValueError as error:
        raise InputError(f"{file} is not JSON: {error}. Fetch the file again.") from error


def rows_in(file: Path) -> Iterator[Row]:
    """Return the rows of a file. Its suffix is .parquet, .jsonl (blank lines are skipped), or else it is a JSON list.

    Raises InputError if the file cannot be read, or a row is not an object.
    """
    values = (
        _parquet(file) if file.suffix == ".parquet" else json_lines(file) if file.suffix == ".jsonl" else _list(file)
    )
    for number, value in values:
        yield row_of(file, f"row {number}", value)


def table_rows(file: Path, delimiter: str = ",") -> tuple[tuple[str, ...], list[Row]]:
    """Return the columns and the rows of a csv file. Rows are numbered as in a spreadsheet: the header is row 1.

    Raises InputError if the file cannot be read, or a row has more or fewer cells than the header.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines, delimiter=delimiter, strict=True)
            columns = tuple(reader.fieldnames or ())
            records = list(reader)
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the csv file of the data set.") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file} cannot be read as a csv file in UTF-8: {error}. Fetch the file again.") from error
    return columns, [_table_row(file, number, record) for number, record in enumerate(records, start=2)]


def _table_row(file: Path, number: int, record: dict[str | None, str | list[str] | None]) -> Row:
    row = Row(file, f"row {number}", {str(key): value for key, value in record.items() if key is not None})
    if None in record:
        row.bad(str(list(row.values)[-1]), f"is followed by more cells: {record[None]!r}")
    for column, value in row.values.items():
        if value is None:
            row.bad(column, "is missing: the row ends before it")
    return row


def _parquet(file: Path) -> Iterator[tuple[int, Any]]:
    try:
        return enumerate(pq.read_table(file).to_pylist(), start=1)
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}. Fetch the file again.") from error


def _list(file: Path) -> Iterator[tuple[int, Any]]:
    content = read_json(file)
    if not isinstance(content, list):
        raise InputError(f"{file} holds {type(content).__name__}, not a list of questions. Fetch the file again.")
    return enumerate(content, start=1)


def json_lines(file: Path) -> Iterator[tuple[int, Any]]:
    """Return the values of a JSON-lines file by line number from 1; blank lines are skipped.

    Raises InputError naming the line that is not JSON.
    """
    for number, line in enumerate(_read(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError(f"{file}, row {number} is not JSON: {error}. Correct or delete that line.") from error
        yield number, value


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Is it the right file, in UTF-8?") from error
