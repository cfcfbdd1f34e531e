"""Turn the rows of a source (``question_sources.py``) into questions.

Good rows become ``Question`` values; bad rows become ``BadQuestion`` and do not stop the others. The columns (in jsonl,
keys) are:

- ``question``: required.
- ``query_id``: if missing, it is derived from the row's number.
- ``doc_ids``: a list, or one string with ``;`` between ids or globs.
- ``where``: a filter over the documents' metadata. Without ``doc_ids`` and ``where`` the scope is the whole archive.
- ``for_each``: like ``doc_ids``, but the question is asked about each document separately. ``doc_ids: each`` does so
  for every document of the archive.
- ``answer_type``, ``choices``: the kind of answer wanted; text by default.
- ``language``: the language of the question, such as "de"; detected by default.
- ``answers``, ``evidence``, ``type``: gold labels, used for evaluation.

Any other column must be listed in ``carry``; otherwise a misspelled ``doc_ids`` would be ignored, and the question be
asked about the whole archive, which costs money.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from okralong.pipelines.answering.answer_types import names_schema_file, read_answer_type
from okralong.pipelines.core.languages import language_code
from okralong.pipelines.core.types import InputError, Question, QuestionError
from okralong.pipelines.run.matrix import EACH, EVERY
from okralong.pipelines.run.question_sources import (
    COLUMNS,
    STDIN,
    Questions,
    Say,
    cell_text,
    column_name,
    plain_value,
    read_content,
    read_rows,
    say_nothing,
    source_name,
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
"""Column names that people use for known columns, but whose spelling is too different to be recognized."""


@dataclass(frozen=True, slots=True)
class BadQuestion:
    """A row that cannot be asked: its id or row number, and a message that says what is wrong and how to fix it."""

    query_id: str
    message: str


def read_questions(
    source: Questions, carry: Sequence[str] = (), *, strict: bool = True, say: Say = say_nothing
) -> tuple[list[Question], list[BadQuestion]]:
    """Return the questions of a source in order, and its bad rows.

    Args:
        source: A file, standard input, a list, a data frame or a table.
        carry: Columns to copy into the answers.
        strict: Refuse columns that are neither known nor carried.
        say: Gets what a person should know of how the source was read.

    Raises:
        InputError: The source is missing, unreadable, of an unknown kind or without questions, or its columns violate
            ``carry`` or ``strict``.
    """
    name = source_name(source)
    folder = _folder_of(source)
    rows = [_Row(*row) for row in read_rows(source, name, say)]
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
            query_id = cell_text(row.named().get("query_id")) or None
            clash = query_id is None or query_id in questions
            bad.append(BadQuestion(f"row-{number}" if clash else str(query_id), str(error)))
    if not questions:
        raise InputError(f"No row of {name} can be asked. The first problem: {bad[0].message}")
    return list(questions.values()), bad


def question_row(question: Question) -> dict[str, Any]:
    """Return the question as a row of a questions file, without empty optional columns."""
    row: dict[str, Any] = asdict(question)
    carried = row.pop("carried")
    del row["asked_id"]
    for name in ("where", "for_each", "answer_type", "language"):
        if not row[name]:
            del row[name]
    row |= carried
    return row


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: its ``place`` for messages, and its cells by column (or whatever the source has instead of cells)."""

    place: str
    values: Any

    def named(self) -> Mapping[Any, Any]:
        """Return the cells by column; known columns have their exact names."""
        if not isinstance(self.values, Mapping):
            return {}
        return {column_name(key): value for key, value in self.values.items()}


def _columns(rows: Sequence[_Row]) -> list[str]:
    return list(dict.fromkeys(str(key) for row in rows for key in row.named() if key is not None))


def _check_columns(name: str, found: Sequence[str], carry: Sequence[str], strict: bool) -> None:
    """Raise InputError if a column would be silently ignored or a carried one is missing."""
    others = [column for column in found if column not in COLUMNS and column not in carry]
    if found and "question" not in found:
        near = next((column for column in others if _nearest(column, COLUMNS) == "question"), None)
        hint = f"Is it {near}? Name that column question" if near else "Put one question in each row, in that column"
        raise InputError(f"{name} has no column named question; its columns are {', '.join(found)}. {hint}.")
    missing = [column for column in carry if column not in found] if found else []  # no columns: Questions only
    told = [f"column {each} is listed in carry but missing{_did_you_mean(each, found)}" for each in missing]
    if strict:
        told += [f"column {each} is not known{_did_you_mean(each, COLUMNS)}" for each in others]
    if not told:
        return
    more = ""
    if strict and others:
        more = (
            f" The known ones are {', '.join(COLUMNS)}. To copy others into the answers: "
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
            f"{place} contains a lone surrogate (half a character). Correct the text of that row."
        ) from None
    if None in cells:
        raise QuestionError(f"{place} has more cells than the header has columns. Quote cells that hold commas.")
    text = cells.get("question")
    if not isinstance(text, str) or not text.strip():
        found = "an empty question" if "question" in cells else "no column named question"
        raise QuestionError(f"{place} has {found}. Write the question's text there, or delete the row.")
    doc_ids, for_each = _scope(place, cells)
    return Question(
        query_id=cell_text(cells.get("query_id")) or f"q{number:06d}",
        question=text.strip(),
        doc_ids=doc_ids,
        for_each=for_each,
        where=cell_text(cells.get("where")).strip(),
        answer_type=_answer_type(cells, place, folder),
        answers=_strings(cells.get("answers"), None),
        evidence=_strings(cells.get("evidence"), None),
        type=cell_text(cells.get("type")),
        language=_language(place, cell_text(cells.get("language")), is_carried="language" in carry),
        carried={column: cell_text(cells.get(column)) for column in carry},
    )


def _language(place: str, value: str, *, is_carried: bool) -> str:
    """Return the language code of a row, "" to detect it. Raises QuestionError unless the column is only carried."""
    code = language_code(value)
    if value.strip() and not code and not is_carried:
        raise QuestionError(
            f"{place} has the language {value!r}, which is no code of ISO 639. Write a code such as de, fr or zh, or "
            "leave the cell empty to have the language detected."
        )
    return code


def _scope(place: str, cells: Mapping[Any, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ``(doc_ids, for_each)`` of a row. Raises QuestionError if it has both."""
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
    """Return the row's answer type as text. Raises QuestionError, naming the row."""

    def load(name: str) -> str:
        try:
            return read_content(f"{folder}/{name}" if folder and _is_beside(name) else name).decode()
        except (InputError, UnicodeDecodeError):
            beside = f" beside {folder}" if folder else ""
            raise QuestionError(
                f"There is no readable file {name}{beside}, which answer_type names as its JSON schema. Check "
                "the name; it is looked up in the folder of the questions file."
            ) from None

    try:
        return str(read_answer_type(plain_value(cells.get("answer_type")), _strings(cells.get("choices"), ";"), load))
    except QuestionError as error:
        raise QuestionError(f"{place}: {error}") from None


def _is_beside(name: str) -> bool:
    """Return whether a file name is looked up in the folder of the questions file."""
    return "://" not in name and not Path(name).is_absolute()


def schema_files(source: str) -> dict[str, bytes]:
    """Return the contents, by name, of the JSON schema files that a questions file names and that lie beside it.

    Unreadable schema files are skipped, because ``read_questions`` reports them. Raises InputError as it does.
    """
    found: dict[str, bytes] = {}
    folder = _folder_of(source)
    for place, values in read_rows(source, source):
        named = plain_value(_Row(place, values).named().get("answer_type"))
        name = named.strip() if isinstance(named, str) else ""
        if names_schema_file(name) and _is_beside(name) and ".." not in PurePosixPath(name).parts:
            with suppress(InputError):
                found[name] = read_content(f"{folder}/{name}" if folder else name)
    return found


def _folder_of(source: Questions) -> str:
    """Return the folder of the questions file, where files named in rows are looked up; "" for the working folder."""
    if not isinstance(source, (str, Path)) or source == STDIN:
        return ""
    return str(source).rpartition("/")[0]


def _strings(value: Any, separator: str | None) -> tuple[str, ...]:
    value = plain_value(value)
    if value is None:
        return ()
    if isinstance(value, str):
        parts = value.split(separator) if separator else [value]
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(value, (list, tuple)):
        return tuple(cell_text(item) for item in value)
    return (cell_text(value),)
