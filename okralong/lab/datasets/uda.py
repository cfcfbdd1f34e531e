"""Read UDA's files (Hui et al. 2024): questions on filings and papers, in bench files with evidence or in plain tables.

Both have three kinds, which differ in their fields: TAT-DQA, FinQA, and papers.
"""

from __future__ import annotations

import ast
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import (
    grounded,
    length_label,
    one_part,
    operand_parts,
    scaled_wordings,
    span_parts,
    spans_of,
)
from okralong.lab.datasets.base import Builder, DataSet, Item
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.files import Row, read_json, row_of, table_rows
from okralong.lab.datasets.finqa import FINQA, PROGRAM, clean_answer, finqa_answers, program_item, read_page
from okralong.lab.datasets.gold import derivation_operands, words
from okralong.lab.datasets.tatqa import TATQA
from okralong.pipelines.core.types import InputError

PAPERS: Final = "uda_paper_qa"

logger = logging.getLogger(__name__)

# --------
# Bench files: a JSON object with the questions of each document and their evidence.


def read_uda_bench(path: Path, part: str) -> DataSet:
    """Read a ``bench_*_qa.json``: TAT-DQA (with facts and a derivation, no text), FinQA (with the page), or papers.

    A paper's evidence is that of the first annotator: each paragraph is a text, and all of it is evidence. Figures and
    tables ("FLOAT SELECTED") have no text, so they are left out and counted in the log. Raises InputError naming file,
    row ("document V_2008, question 3") and field.
    """
    rows = list(_bench_rows(path))
    kind = next((field for field in _BENCH if rows and field in rows[0][1].values), None)
    if kind is None:
        raise InputError(f"{path} holds no question of a UDA bench file. Fetch the file again.")
    name, read = _BENCH[kind]
    made, left_out = Builder(name, part), Counter[str]()
    made.items += [read(row, document, made, left_out) for document, row in rows]
    logger.info("%s: %d pieces of evidence are figures or tables without text, left out.", path, left_out.total())
    return made.built()


def _bench_rows(path: Path) -> Iterator[tuple[str, Row]]:
    content = row_of(path, "the file's content", read_json(path))
    for document in content.values:
        where = Row(path, f"document {document}", {"questions": content.get(document, list)})
        for row in where.rows("questions", "question"):
            yield document, row


def _tat(row: Row, document: str, made: Builder, _: Counter[str]) -> Item:
    answered = row.inner("answers")
    label = answered.text("answer_type")
    kind = answered.type_of("answer_type", TATQA, label)
    spans = spans_of(answered, "answer", answered.get("answer", object))
    operands = tuple(dict.fromkeys(fact for fact in row.texts("facts") if words(fact)))
    derivation = row.get("derivation", str)
    if kind == "arithmetic":
        parts = operand_parts(operands if operands and derivation else derivation_operands(derivation))
    else:
        parts = span_parts(spans)
    answers = scaled_wordings(spans, answered.get("scale", str))
    return Item(made.gold(row, "q_uid", answers, kind, label, parts), (document,))


def _fin(row: Row, document: str, made: Builder, _: Counter[str]) -> Item:
    page, program = read_page(row.inner("context")), row.text("program")
    answers = finqa_answers(row.inner("answers"), "str_answer", "exe_answer")
    item = program_item(made, row, "q_uid", document, page, (row, "evidence"), answers, program)
    return replace(item, documents=(document,))


def _paper(row: Row, document: str, made: Builder, left_out: Counter[str]) -> Item:
    answered, annotated = list(row.rows("answers", "answer")), list(row.rows("evidence", "evidence"))
    if not answered or len(answered) != len(annotated):
        row.bad("answers", f"has {len(answered)} entries, and evidence {len(annotated)}; each annotator has both")
    label = answered[0].text("type")
    kind = answered[0].type_of("type", PAPERS, label)
    answers = tuple(dict.fromkeys(each.text("answer").strip() for each in answered))
    evidence, floats = made.paragraphs(document, annotated[0].texts("raw_evidence"))
    left_out["floats"] += floats
    context = tuple(each.text_id for each in evidence)
    parts = grounded(one_part(answers), [made.texts[each].text for each in context])
    return Item(made.gold(row, "q_uid", answers, kind, label, parts), (document,), context, evidence)


_BENCH: Final[dict[str, tuple[str, Callable[[Row, str, Builder, Counter[str]], Item]]]] = {
    "derivation": ("uda_bench_tat_qa", _tat),
    "program": ("uda_bench_fin_qa", _fin),
    "evidence": ("uda_bench_paper_qa", _paper),
}
"""The name and reader of each kind, by a field that only this kind has; tried in this order."""

# --------
# Question files: columns separated by ``|``, no context. The documents are whole filings and papers.


def read_uda_csv(path: Path, part: str) -> DataSet:
    """Read a csv file of UDA, without texts. ``documents`` has the filing ("ADI_2009") or the paper's arXiv id.

    The type of a paper's question is guessed from the length of the answer, as in ``reports``. Rows are numbered as in
    a spreadsheet: the header is row 1. The files have no operands, so calculations have no parts. Raises InputError
    naming file, row and field.
    """
    name, rows = _open(path)
    made = Builder(name, part)
    made.items += [_TABLES[name][1](row, made) for row in rows]
    return made.built()


def _open(path: Path) -> tuple[str, Sequence[Row]]:
    columns, rows = table_rows(path, "|")
    name = next((name for name, (wanted, _) in _TABLES.items() if wanted == columns), None)
    if name is None:
        raise InputError(
            f"{path}, row 1: the columns {', '.join(columns) or '(none)'} do not match any question file of UDA, which "
            f"have {' or '.join('|'.join(wanted) for wanted, _ in _TABLES.values())}. Fetch the file again."
        )
    return name, rows


def _tat_row(row: Row, made: Builder) -> Item:
    label = row.text("answer_type")
    kind = row.type_of("answer_type", TATQA, label)
    try:
        answer = ast.literal_eval(row.text("answer"))
    except (ValueError, SyntaxError) as error:
        row.bad("answer", f"is not a list of answers ({error})")
    spans = spans_of(row, "answer", answer)
    answers = scaled_wordings(spans, row.get("answer_scale", str).strip())
    parts = () if kind == "arithmetic" else span_parts(spans)
    return Item(made.gold(row, "q_uid", answers, kind, label, parts), (row.text("doc_name"),))


def _fin_row(row: Row, made: Builder) -> Item:
    answers = (clean_answer(row.get("answer_1", str)), row.text("answer_2").strip())
    kind = question_type(FINQA, PROGRAM)
    return Item(made.gold(row, "q_uid", filter(None, answers), kind, PROGRAM), (row.text("doc_name"),))


def _paper_row(row: Row, made: Builder) -> Item:
    row.text("answer_1")
    answers = tuple(dict.fromkeys(a for n in (1, 2, 3) if (a := row.get(f"answer_{n}", str).strip())))
    label = length_label(answers)
    gold = made.gold(row, "q_uid", answers, question_type(PAPERS, label), label, one_part(answers))
    return Item(gold, (row.text("doc_name"),))


_TABLES: Final[dict[str, tuple[tuple[str, ...], Callable[[Row, Builder], Item]]]] = {
    "uda_tat_qa": (("doc_name", "q_uid", "question", "answer", "answer_scale", "answer_type"), _tat_row),
    "uda_fin_qa": (("doc_name", "q_uid", "question", "answer_1", "answer_2"), _fin_row),
    PAPERS: (("doc_name", "q_uid", "question", "answer_1", "answer_2", "answer_3"), _paper_row),
}
"""The columns and the reader of each kind, by name."""
