"""Reading foreign files so that whoever has a bad one learns where: file, row and field stand in each error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.types import InputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of a file. ``place`` says where it stands ("row 12", "meeting 3, query 2")."""

    file: Path
    place: str
    values: Mapping[str, Any]

    def get(self, field: str, kind: type[T]) -> T:
        """The field's value. Raises InputError when it is missing or of another kind."""
        if field not in self.values:
            self.bad(field, f"is missing (there are: {', '.join(map(str, list(self.values)[:12])) or 'none'})")
        value = self.values[field]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind):
            self.bad(field, f"is {type(value).__name__}, not {kind.__name__}")
        return value

    def text(self, field: str) -> str:
        """A text that is more than blanks. Raises InputError otherwise."""
        value = self.get(field, str)
        if not value.strip():
            self.bad(field, "is an empty text")
        return value

    def rows(self, field: str, what: str = "") -> Iterator[Row]:
        """The entries of a list of objects, each as a row of its own. Raises InputError when one is no object."""
        for number, value in enumerate(self.get(field, list), start=1):
            yield row_of(self.file, f"{self.place}, {what or field} {number}", value)

    def bad(self, field: str, why: str) -> NoReturn:
        """Raises InputError naming the field and what is wrong with it."""
        raise InputError(
            f"{self.file}, {self.place}: the field {field!r} {why}. The file is not in the form in which its authors "
            "publish it: fetch it again, or mend or delete that entry."
        )


def row_of(file: Path, place: str, value: object) -> Row:
    """``value`` as a row. Raises InputError when it is no object."""
    if not isinstance(value, dict):
        raise InputError(
            f"{file}, {place} is {type(value).__name__} and not an object. The file is not in the form in which its "
            "authors publish it: fetch it again, or mend or delete that entry."
        )
    return Row(file, place, value)


def read_json(file: Path) -> Any:
    """The content of a JSON file. Raises InputError when it is missing or no JSON."""
    try:
        return json.loads(_read(file))
    except ValueError as error:
        raise InputError(f"{file} is no JSON: {error}. Fetch the file again.") from error


def rows_in(file: Path) -> Iterator[Row]:
    """The rows of a file by its suffix: .parquet, .jsonl, or else a JSON list. Raises InputError."""
    if file.suffix == ".parquet":
        return parquet_rows(file)
    return jsonl_rows(file) if file.suffix == ".jsonl" else json_rows(file)


def parquet_rows(file: Path) -> Iterator[Row]:
    """The rows of a Parquet file, in which a hub keeps many sets. Raises InputError when it cannot be read."""
    try:
        table = pq.read_table(file)
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file} cannot be read as Parquet: {error}. Fetch the file again.") from error
    for number, value in enumerate(table.to_pylist(), start=1):
        yield row_of(file, f"row {number}", value)


def json_rows(file: Path) -> Iterator[Row]:
    """The objects of a JSON list. Raises InputError as above, or when the file holds no list."""
    content = read_json(file)
    if not isinstance(content, list):
        raise InputError(f"{file} holds {type(content).__name__}, not a list of questions. Fetch the file again.")
    for number, value in enumerate(content, start=1):
        yield row_of(file, f"row {number}", value)


def jsonl_rows(file: Path) -> Iterator[Row]:
    """The objects of a file with one JSON object a line; blank lines are passed over. Raises InputError."""
    for number, line in enumerate(_read(file).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError(f"{file}, row {number} is no JSON: {error}. Mend or delete that line.") from error
        yield row_of(file, f"row {number}", value)


def texts_of(row: Row, field: str, values: Sequence[Any]) -> list[str]:
    """``values``, which must all be texts. Raises InputError naming the field otherwise."""
    for value in values:
        if not isinstance(value, str):
            row.bad(field, f"holds {type(value).__name__} where a text is expected")
    return list(values)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{file} does not exist. Give the folder or file that holds the data set.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}. Is it the right file, in UTF-8?") from error
