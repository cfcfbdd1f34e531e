"""Questions from jsonl, csv or parquet: good rows become ``Question`` values, bad rows become failures.

Columns: ``question`` (required), ``query_id`` (made from the row number when missing), ``doc_ids`` (a list, or one
string with ``;`` between ids or globs; empty = the whole archive), and the gold columns ``answers``, ``evidence`` and
``type``, which evaluation reads.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.storage import located
from okralong.pipelines.core.types import InputError, Question, QuestionError

KNOWN_COLUMNS = ("query_id", "question", "doc_ids", "answers", "evidence", "type")


@dataclass(frozen=True, slots=True)
class BadQuestion:
    """A row that cannot be asked: its id (or row number) and one paragraph that says why and what to do."""

    query_id: str
    message: str


def read_questions(path: str | Path) -> tuple[list[Question], list[BadQuestion]]:
    """All questions of a file in its order, and the rows that are none.

    Raises InputError when the file is missing, of an unknown kind, unreadable, or holds no question at all.
    """
    file = str(path)
    filesystem, inside = located(path)
    if not filesystem.get_file_info(inside).is_file:
        raise InputError(f"The questions file {file} does not exist. Check the path given to --questions.")
    with filesystem.open_input_file(inside) as opened:
        content = bytes(opened.read())
    questions: dict[str, Question] = {}
    bad: list[BadQuestion] = []
    for number, row in enumerate(_rows(file, content), start=1):
        try:
            question = _question(row, number, file)
            if question.query_id in questions:
                raise QuestionError(
                    f"{file}, row {number}: the query_id {question.query_id!r} is used twice; the first one is asked. "
                    "Give each question an id of its own."
                )
            questions[question.query_id] = question
        except QuestionError as error:
            query_id = row.get("query_id") if isinstance(row, dict) else None
            clash = query_id is None or str(query_id) in questions
            bad.append(BadQuestion(f"row-{number}" if clash else str(query_id), str(error)))
    if not questions and not bad:
        raise InputError(f"{file} holds no rows. Put one question in each row, with a column named question.")
    if not questions:
        raise InputError(f"No row of {file} can be asked. The first problem: {bad[0].message}")
    return list(questions.values()), bad


def _rows(file: str, content: bytes) -> Iterator[Any]:
    kind = PurePosixPath(file).suffix.lower()
    if kind in (".jsonl", ".ndjson"):
        yield from _jsonl(file, content)
    elif kind == ".csv":
        try:
            yield from csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{file} is not a readable CSV file in UTF-8: {error}. Save it as UTF-8 CSV.") from error
    elif kind == ".parquet":
        try:
            yield from pq.read_table(pa.BufferReader(content)).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{file} is not a readable Parquet file: {error}. Write it again.") from error
    else:
        raise InputError(f"{file} is no jsonl, csv or parquet file (by its suffix {kind!r}). Convert it, or rename it.")


def _jsonl(file: str, content: bytes) -> Iterator[Any]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    for line in text.split("\n"):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                yield error
            except (ValueError, RecursionError) as error:  # a number of a million digits, lists within lists
                yield json.JSONDecodeError(str(error), "", 0)


def _question(row: Any, number: int, file: str) -> Question:
    where = f"{file}, row {number}"
    if isinstance(row, json.JSONDecodeError):
        raise QuestionError(f"{where} is not JSON: {row.msg} at column {row.colno}. Mend that line.")
    if not isinstance(row, dict):
        raise QuestionError(f"{where} holds a {type(row).__name__}, not an object with a question. Mend that line.")
    try:
        json.dumps(row, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise QuestionError(
            f"{where} holds half of a character (a lone surrogate). Mend the text of that row."
        ) from None
    unknown = [key for key in row if key is None]
    if unknown:
        raise QuestionError(f"{where} has more cells than the header has columns. Quote cells that hold commas.")
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        found = "an empty question" if "question" in row else "no column named question"
        raise QuestionError(f"{where} has {found}. Write the question's text there, or delete the row.")
    query_id = row.get("query_id")
    return Question(
        query_id=str(query_id) if query_id not in (None, "") else f"q{number:06d}",
        question=text.strip(),
        doc_ids=_strings(row.get("doc_ids"), ";"),
        answers=_strings(row.get("answers"), None),
        evidence=_strings(row.get("evidence"), None),
        type=str(row.get("type") or ""),
    )


def _strings(value: Any, separator: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        parts = value.split(separator) if separator else [value]
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    return (str(value),)
