"""UDA's question files (Hui et al. 2024): ``|``-separated, no context; the documents are whole filings and papers.

Which of the three kinds a file is, its columns say: TAT-DQA has answer_type, FinQA two answers, papers three. The kind
of answer is not given for papers; their type goes by length as in ``reports``, a guess.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.evaluation.datasets.answer_length import length_label
from okralong.pipelines.evaluation.datasets.answer_parts import one_part, scaled_wordings, span_parts
from okralong.pipelines.evaluation.datasets.fields import Row
from okralong.pipelines.evaluation.datasets.finqa_page import clean_answer
from okralong.pipelines.evaluation.datasets.naming import QueryIds, row_type
from okralong.pipelines.evaluation.datasets.types import question_type
from okralong.pipelines.evaluation.datasets.values import DataSet, Item
from okralong.pipelines.evaluation.gold import Gold

_COLUMNS: Final = {
    "uda_tat_qa": ("doc_name", "q_uid", "question", "answer", "answer_scale", "answer_type"),
    "uda_fin_qa": ("doc_name", "q_uid", "question", "answer_1", "answer_2"),
    "uda_paper_qa": ("doc_name", "q_uid", "question", "answer_1", "answer_2", "answer_3"),
}


def read(path: Path, part: str) -> DataSet:
    """A csv of UDA. No texts; ``documents`` has the filing ("ADI_2009") or the paper's arXiv id.

    Rows count as a spreadsheet counts them, the head being row 1. Operands are not in the files, so calculations have
    no parts. Raises InputError naming file, row and field.
    """
    name, rows = _open(path)
    ids = QueryIds(name)
    return DataSet(name, part, {}, tuple(_SHAPES[name](row, ids) for row in rows))


def _open(path: Path) -> tuple[str, Iterator[Row]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines, delimiter="|", strict=True)
            columns = tuple(reader.fieldnames or ())
            records = list(reader)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist. Give the csv file of the data set.") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a csv file in UTF-8: {error}. Fetch the file again.") from error
    name = next((name for name, wanted in _COLUMNS.items() if wanted == columns), None)
    if name is None:
        raise InputError(
            f"{path}, row 1: the columns {', '.join(columns) or '(none)'} are those of no question file of UDA, which "
            f"have {' or '.join('|'.join(wanted) for wanted in _COLUMNS.values())}. Fetch the file again."
        )
    return name, (_row(path, number, record) for number, record in enumerate(records, start=2))


def _row(path: Path, number: int, record: dict[str | None, str | list[str] | None]) -> Row:
    row = Row(path, f"row {number}", {str(key): value for key, value in record.items() if key is not None})
    if None in record:
        row.bad(str(list(row.values)[-1]), f"is followed by more cells: {record[None]!r}")
    for column, value in row.values.items():
        if value is None:
            row.bad(column, "is missing: the row ends before it")
    return row


def _tat(row: Row, ids: QueryIds) -> Item:
    label = row.text("answer_type")
    kind = row_type(row, "answer_type", "tatqa", label)
    try:
        answer = ast.literal_eval(row.text("answer"))
    except (ValueError, SyntaxError) as error:
        row.bad("answer", f"is no list of answers ({error})")
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if not spans:
        row.bad("answer", "holds no answer")
    parts = () if kind == "arithmetic" else span_parts(spans)
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=scaled_wordings(spans, row.get("answer_scale", str).strip()),
        type=kind,
    )
    return Item(Gold(question, "uda_tat_qa", label, parts), (row.text("doc_name"),))


def _fin(row: Row, ids: QueryIds) -> Item:
    answers = (clean_answer(row.get("answer_1", str)), row.text("answer_2").strip())
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=tuple(dict.fromkeys(answer for answer in answers if answer)),
        type=question_type("finqa", "program"),
    )
    return Item(Gold(question, "uda_fin_qa", "program"), (row.text("doc_name"),))


def _paper(row: Row, ids: QueryIds) -> Item:
    row.text("answer_1")
    answers = tuple(dict.fromkeys(a for n in (1, 2, 3) if (a := row.get(f"answer_{n}", str).strip())))
    label = length_label(answers)
    question = Question(
        ids.take(row, "q_uid"), row.text("question"), answers=answers, type=question_type("uda_paper_qa", label)
    )
    return Item(Gold(question, "uda_paper_qa", label, one_part(answers)), (row.text("doc_name"),))


_SHAPES: Final[dict[str, Callable[[Row, QueryIds], Item]]] = {
    "uda_tat_qa": _tat,
    "uda_fin_qa": _fin,
    "uda_paper_qa": _paper,
}
