"""FinQA: questions on one page of a filing, each with a program of calculations (Chen et al. 2021)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, operand_parts
from okralong.pipelines.evaluation.datasets.fields import Row, row_of, rows_in
from okralong.pipelines.evaluation.datasets.finqa_page import clean_answer, locate, read_page
from okralong.pipelines.evaluation.datasets.naming import QueryIds
from okralong.pipelines.evaluation.datasets.pieces import keep_text
from okralong.pipelines.evaluation.datasets.types import question_type
from okralong.pipelines.evaluation.datasets.values import DataSet, Item, Text
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.evaluation.operands import program_expression, program_operands

NAME: Final = "finqa"
LABEL: Final = "program"


def read(path: Path, part: str) -> DataSet:
    """A ``train.json``, ``dev.json`` or ``test.json``. One text a page; its document is the filing ("V_2008").

    Answers are the written one, which is rounded, and the executed one. Raises InputError naming file, row and field.
    """
    texts: dict[str, Text] = {}
    ids = QueryIds(NAME)
    items = tuple(_item(row, texts, ids) for row in rows_in(path))
    return DataSet(NAME, part, texts, items)


def _item(row: Row, texts: dict[str, Text], ids: QueryIds) -> Item:
    page = read_page(row)
    text = keep_text(texts, _document(row), page.text)
    asked = row_of(row.file, f"{row.place}, qa", row.get("qa", dict))
    program = asked.text("program")
    executed = asked.get("exe_ans", object)
    if isinstance(executed, bool) or not isinstance(executed, (str, int, float)):
        asked.bad("exe_ans", f"is {type(executed).__name__}, neither a number nor a text")
    answers = dict.fromkeys(each for each in (clean_answer(asked.get("answer", str)), str(executed)) if each)
    evidence, cells = locate(asked, "gold_inds", page, text, program)
    parts = grounded(operand_parts(program_operands(program)), [page.text])
    question = Question(
        ids.take(row, "id"), asked.text("question"), answers=tuple(answers), type=question_type(NAME, LABEL)
    )
    gold = Gold(question, NAME, LABEL, parts)
    return Item(
        gold,
        (text.document,),
        (text.text_id,),
        tuple(evidence),
        tuple(cells),
        calculation=program_expression(program),
    )


def _document(row: Row) -> str:
    """The filing of a page: "V/2008/page_17.pdf" is one of V_2008."""
    names = row.text("filename").split("/")
    if len(names) != 3:
        row.bad("filename", f"is {row.values['filename']!r}, not of the form TICKER/YEAR/page_N.pdf")
    return f"{names[0]}_{names[1]}"
