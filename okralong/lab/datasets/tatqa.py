"""Read TAT-QA: questions on a table of a filing and the paragraphs around it (Zhu et al. 2021).

A context becomes a text: the table, then the paragraphs in order. The set does not name the filing, so ``document`` is
the table's id. The set says whether the answer is from the table, the text or both, and names paragraphs. The rows of
the table are found by the figures in the derivation or by the spans of the answer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import grounded, operand_parts, scaled_wordings, span_parts, spans_of
from okralong.lab.datasets.base import Builder, DataSet, Evidence, GoldCell, Item, Text
from okralong.lab.datasets.files import Row, rows_in
from okralong.lab.datasets.gold import Parts, derivation_operands
from okralong.lab.datasets.pipe_tables import (
    PipeTable,
    Place,
    cell_below,
    find_cell,
    find_head,
    table_cells,
    write_table,
)
from okralong.lab.datasets.places import Pieces, Range, distinct, sentence_with

TATQA: Final = "tatqa"

ANSWER_SOURCES: Final = ("table", "text", "table-text")
"""The values of TAT-QA's ``answer_from``."""
_ADVICE: Final = re.compile(r"[^\W\d_]{4}")

logger = logging.getLogger(__name__)


def read_tatqa(path: Path, part: str) -> DataSet:
    """Read a ``tatqa_dataset_*.json``. Parts are spans, the operands of a calculation, or the things that are counted.

    Logs how many questions have no evidence. Raises InputError naming file, row and field.
    """
    made = Builder(TATQA, part)
    for row in rows_in(path):
        context, document = _context(row)
        text = made.text(document, context.text)
        made.items += [_tatqa_item(each, context, text, made) for each in row.rows("questions", "question")]
    lost = sum(not item.evidence for item in made.items)
    logger.info("%s: %d of %d questions have evidence that was not found in the text.", path, lost, len(made.items))
    return made.built()


def _context(row: Row) -> tuple[Context, str]:
    table, pieces = row.inner("table"), Pieces()
    written = write_table(pieces, table_cells(table))
    paragraphs = {}
    for each in sorted(row.rows("paragraphs", "paragraph"), key=lambda paragraph: paragraph.get("order", int)):
        paragraphs[str(each.get("order", int))] = pieces.add(each.get("text", str))
    return Context(pieces.text, written, paragraphs), f"{TATQA}-{table.text('uid')}"


def _tatqa_item(row: Row, context: Context, text: Text, made: Builder) -> Item:
    label, question = row.text("answer_type"), row.text("question")
    spans = spans_of(row, "answer", row.get("answer", object))
    derivation, source = row.get("derivation", str), row.text("answer_from")
    if source not in ANSWER_SOURCES:
        row.bad("answer_from", f"is {source!r}, none of {', '.join(ANSWER_SOURCES)}")
    related = row.texts("rel_paragraphs")
    unknown = [name for name in related if name not in context.paragraphs]
    if unknown:
        row.bad("rel_paragraphs", f"names the paragraph {unknown[0]!r}, which the context does not have")
    kind = row.type_of("answer_type", TATQA, label)
    asked = Asked(question, label, source, spans, derivation, tuple(related))
    evidence, cells = locate_tatqa(context, asked)
    answers = scaled_wordings(spans, row.get("scale", str))
    return Item(
        made.gold(row, "uid", answers, kind, label, grounded(_parts(asked), [text.text])),
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


@dataclass(frozen=True, slots=True)
class Context:
    """A text with its table, and the ranges of its paragraphs by their numbers in the set."""

    text: str
    table: PipeTable
    paragraphs: Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Asked:
    """The fields of a question in the set."""

    question: str
    label: str
    source: str
    spans: tuple[str, ...]
    derivation: str
    paragraphs: tuple[str, ...]


def locate_tatqa(context: Context, asked: Asked) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """Return the distinct evidence ranges, and the row of each gold cell; both are empty if nothing is found.

    - From the text: in each related paragraph, the sentences that contain the wanted figures or spans literally, or the
      whole paragraph if none does.
    - From the table, or from both: the rows that contain the wanted figures or spans. Those that no row contains are
      searched for in the column heads (the head row is then evidence, but not a cell), and then, for "both", in the
      related paragraphs.
    """
    figures = _figures(asked)
    wanted = counted_items(asked.derivation) if asked.label == "count" else figures or asked.spans
    if asked.source == "text":
        found = [_in_paragraph(context, name, wanted, asked.question) for name in asked.paragraphs]
        return distinct(each for ranges in found for each in ranges), ()
    places: list[Place] = []
    evidence: list[Range] = []
    for each in wanted:
        place = find_cell(context.table, each, asked.question, wanted) or _below_head(context.table, each, asked)
        if place is not None:
            places.append(place)
            continue
        # A year in a derivation ("44.1 (2019) > 12.7 (2018)") is the label of a figure, not a figure.
        head = None if figures else find_head(context.table, each)
        if head is not None:
            evidence.append(context.table.rows[head[0]])
        elif asked.source == "table-text":
            evidence.extend(_sentences(context, asked.paragraphs, [each], asked.question))
    cells = tuple(context.table.rows[row] for row, _ in dict.fromkeys(places))
    return distinct([*evidence, *cells]), cells


def counted_items(derivation: str) -> tuple[str, ...]:
    """Return the things that are counted; the set separates them by ``##``."""
    return tuple(item.strip() for item in derivation.split("##") if item.strip())


def _figures(asked: Asked) -> tuple[str, ...]:
    return () if asked.label == "count" or _is_advice(asked) else derivation_operands(asked.derivation)


def _is_advice(asked: Asked) -> bool:
    """Return whether the derivation of a copied answer is an instruction ("look at the fifth row"), not figures."""
    return asked.label not in ("arithmetic", "count") and _ADVICE.search(asked.derivation) is not None


def _below_head(table: PipeTable, wanted: str, asked: Asked) -> Place | None:
    """Return the cell below a column head, such as a year, that was counted or chosen by a condition."""
    if asked.label != "count" and not _is_advice(asked):
        return None
    head = find_head(table, wanted)
    return None if head is None else cell_below(table, head[1], asked.question)


def _in_paragraph(context: Context, name: str, wanted: Iterable[str], question: str) -> list[Range]:
    return _sentences(context, [name], wanted, question) or [context.paragraphs[name]]


def _sentences(context: Context, names: Iterable[str], wanted: Iterable[str], question: str) -> list[Range]:
    wanted = list(wanted)
    found = (sentence_with(context.text, context.paragraphs[n], each, question) for n in names for each in wanted)
    return [each for each in found if each is not None]
