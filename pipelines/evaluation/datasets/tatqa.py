"""TAT-QA: questions on a table of a filing and the paragraphs around it (Zhu et al. 2021).

One context becomes one text: the table first, since the paragraphs mostly speak of it, then the paragraphs in their
order. Which filing it was cut from the set does not say; ``document`` is the table's own id.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, operand_parts, scaled_wordings, span_parts
from okralong.pipelines.evaluation.datasets.fields import Row, row_of, rows_in, texts_of
from okralong.pipelines.evaluation.datasets.naming import QueryIds, row_type
from okralong.pipelines.evaluation.datasets.pieces import Pieces, keep_text
from okralong.pipelines.evaluation.datasets.pipe_table import write_table
from okralong.pipelines.evaluation.datasets.tatqa_evidence import SOURCES, Asked, Context, counted_items, locate
from okralong.pipelines.evaluation.datasets.values import DataSet, Evidence, GoldCell, Item, Text
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.evaluation.operands import derivation_operands
from okralong.pipelines.evaluation.recall import Parts

NAME: Final = "tatqa"
logger = logging.getLogger(__name__)


def read(path: Path, part: str) -> DataSet:
    """A ``tatqa_dataset_*.json``. Parts are the spans, a calculation's operands or the things that were counted.

    Raises InputError naming file, row and field. How many questions have evidence is logged.
    """
    texts: dict[str, Text] = {}
    items: list[Item] = []
    ids = QueryIds(NAME)
    for row in rows_in(path):
        context, document = _context(row)
        text = keep_text(texts, document, context.text)
        items.extend(_item(each, context, text, ids) for each in row.rows("questions", "question"))
    lost = sum(not item.evidence for item in items)
    logger.info("%s: %d of %d questions have no evidence that could be found again.", path, lost, len(items))
    return DataSet(NAME, part, texts, tuple(items))


def _context(row: Row) -> tuple[Context, str]:
    table = row_of(row.file, f"{row.place}, table", row.get("table", dict))
    cells = [texts_of(table, "table", line) for line in _lists(table, "table")]
    if not cells:
        table.bad("table", "has no rows")
    pieces = Pieces()
    written = write_table(pieces, cells)
    paragraphs = {}
    for each in sorted(row.rows("paragraphs", "paragraph"), key=lambda paragraph: paragraph.get("order", int)):
        paragraphs[str(each.get("order", int))] = pieces.add(each.get("text", str))
    return Context(pieces.text, written, paragraphs), f"{NAME}-{table.text('uid')}"


def _lists(row: Row, field: str) -> list[list[object]]:
    for value in row.get(field, list):
        if not isinstance(value, list):
            row.bad(field, f"holds {type(value).__name__} where a row of cells is expected")
    return list(row.get(field, list))


def _item(row: Row, context: Context, text: Text, ids: QueryIds) -> Item:
    label, question = row.text("answer_type"), row.text("question")
    answer = row.get("answer", object)
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if answer is None or not spans:
        row.bad("answer", "holds no answer")
    derivation, source = row.get("derivation", str), row.text("answer_from")
    if source not in SOURCES:
        row.bad("answer_from", f"is {source!r}, none of {', '.join(SOURCES)}")
    related = texts_of(row, "rel_paragraphs", row.get("rel_paragraphs", list))
    unknown = [name for name in related if name not in context.paragraphs]
    if unknown:
        row.bad("rel_paragraphs", f"names the paragraph {unknown[0]!r}, which the context does not have")
    kind = row_type(row, "answer_type", NAME, label)
    wanted = Asked(question, label, source, spans, derivation, tuple(related))
    evidence, cells = locate(context, wanted)
    gold = Gold(
        Question(ids.take(row, "uid"), question, answers=scaled_wordings(spans, row.get("scale", str)), type=kind),
        NAME,
        label,
        grounded(_parts(wanted), [text.text]),
    )
    return Item(
        gold,
        (text.document,),
        (text.text_id,),
        tuple(Evidence(text.text_id, *each) for each in evidence),
        tuple(GoldCell(text.text_id, each, context.table.header) for each in cells),
        calculation=derivation.strip() if label == "arithmetic" else "",
    )


def _parts(asked: Asked) -> Parts:
    if asked.label == "count":
        return span_parts(counted_items(asked.derivation))
    if asked.label == "arithmetic":
        return operand_parts(derivation_operands(asked.derivation))
    return span_parts(asked.spans)
