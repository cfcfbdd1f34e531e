"""UDA's bench files (Hui et al. 2024): a JSON object with the questions of each document, and evidence.

Three shapes, told by their fields: TAT-DQA (facts and a derivation, no text), FinQA (the page), and papers (the
evidence paragraphs of each annotator, not the paper).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.evaluation.datasets.answer_parts import (
    grounded,
    one_part,
    operand_parts,
    scaled_wordings,
    span_parts,
)
from okralong.pipelines.evaluation.datasets.fields import Row, read_json, row_of, texts_of
from okralong.pipelines.evaluation.datasets.finqa_page import clean_answer, locate, read_page
from okralong.pipelines.evaluation.datasets.naming import QueryIds, row_type
from okralong.pipelines.evaluation.datasets.paragraphs import keep_paragraphs
from okralong.pipelines.evaluation.datasets.pieces import keep_text
from okralong.pipelines.evaluation.datasets.types import question_type
from okralong.pipelines.evaluation.datasets.values import DataSet, Item, Text
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.evaluation.operands import derivation_operands, program_expression, program_operands
from okralong.pipelines.evaluation.recall import words

_NAMES: Final = {"derivation": "uda_bench_tat_qa", "program": "uda_bench_fin_qa", "evidence": "uda_bench_paper_qa"}
"""By the field that only this shape has, tried in this order."""

logger = logging.getLogger(__name__)


def read(path: Path, part: str) -> DataSet:
    """A ``bench_*_qa.json``. Raises InputError naming file, row ("document V_2008, question 3") and field.

    Of a paper's question the evidence of the first annotator is taken: each paragraph is a text of its own and wholly
    evidence. Figures and tables ("FLOAT SELECTED") have no text and are left out; how many is logged.
    """
    texts: dict[str, Text] = {}
    left_out: Counter[str] = Counter()
    rows = list(_rows(path))
    name = next((name for field, name in _NAMES.items() if rows and field in rows[0][1].values), None)
    if name is None:
        raise InputError(f"{path} holds no question of a UDA bench file. Fetch the file again.")
    ids = QueryIds(name)
    items = []
    for document, row in rows:
        if name == "uda_bench_tat_qa":
            items.append(_tat(row, document, ids))
        elif name == "uda_bench_fin_qa":
            items.append(_fin(row, document, ids, texts))
        else:
            items.append(_paper(row, document, ids, texts, left_out))
    logger.info("%s: %d pieces of evidence are figures or tables without text, left out.", path, left_out.total())
    return DataSet(name, part, texts, tuple(items))


def _rows(path: Path) -> Iterator[tuple[str, Row]]:
    content = row_of(path, "the file's content", read_json(path))
    for document in content.values:
        where = Row(path, f"document {document}", {"questions": content.get(document, list)})
        for row in where.rows("questions", "question"):
            yield document, row


def _tat(row: Row, document: str, ids: QueryIds) -> Item:
    answered = row_of(row.file, f"{row.place}, answers", row.get("answers", dict))
    label = answered.text("answer_type")
    kind = row_type(answered, "answer_type", "tatqa", label)
    answer = answered.get("answer", object)
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if answer is None or not spans:
        answered.bad("answer", "holds no answer")
    facts = texts_of(row, "facts", row.get("facts", list))
    operands = tuple(dict.fromkeys(fact for fact in facts if words(fact)))
    derivation = row.get("derivation", str)
    if kind == "arithmetic":
        parts = operand_parts(operands if operands and derivation else derivation_operands(derivation))
    else:
        parts = span_parts(spans)
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=scaled_wordings(spans, answered.get("scale", str)),
        type=kind,
    )
    return Item(Gold(question, "uda_bench_tat_qa", label, parts), (document,))


def _fin(row: Row, document: str, ids: QueryIds, texts: dict[str, Text]) -> Item:
    page = read_page(row_of(row.file, f"{row.place}, context", row.get("context", dict)))
    text = keep_text(texts, document, page.text)
    program = row.text("program")
    answered = row_of(row.file, f"{row.place}, answers", row.get("answers", dict))
    executed = answered.get("exe_answer", object)
    if isinstance(executed, bool) or not isinstance(executed, (str, int, float)):
        answered.bad("exe_answer", f"is {type(executed).__name__}, neither a number nor a text")
    answers = dict.fromkeys(each for each in (clean_answer(answered.get("str_answer", str)), str(executed)) if each)
    evidence, cells = locate(row, "evidence", page, text, program)
    question = Question(
        ids.take(row, "q_uid"),
        row.text("question"),
        answers=tuple(answers),
        type=question_type("finqa", "program"),
    )
    parts = grounded(operand_parts(program_operands(program)), [page.text])
    gold = Gold(question, "uda_bench_fin_qa", "program", parts)
    calculation = program_expression(program)
    return Item(gold, (document,), (text.text_id,), tuple(evidence), tuple(cells), calculation=calculation)


def _paper(row: Row, document: str, ids: QueryIds, texts: dict[str, Text], left_out: Counter[str]) -> Item:
    answered = list(row.rows("answers", "answer"))
    annotated = list(row.rows("evidence", "evidence"))
    if not answered or len(answered) != len(annotated):
        row.bad("answers", f"has {len(answered)} entries, and evidence {len(annotated)}; each annotator has both")
    label = answered[0].text("type")
    kind = row_type(answered[0], "type", "uda_paper_qa", label)
    answers = tuple(dict.fromkeys(each.text("answer").strip() for each in answered))
    paragraphs = texts_of(annotated[0], "raw_evidence", annotated[0].get("raw_evidence", list))
    evidence, floats = keep_paragraphs(texts, document, paragraphs)
    left_out["floats"] += floats
    parts = grounded(one_part(answers), [texts[each.text_id].text for each in evidence])
    question = Question(ids.take(row, "q_uid"), row.text("question"), answers=answers, type=kind)
    context = tuple(each.text_id for each in evidence)
    return Item(Gold(question, "uda_bench_paper_qa", label, parts), (document,), context, evidence)
