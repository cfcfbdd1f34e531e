"""Where a TAT-QA answer comes from: rows and cells of its table, sentences of its paragraphs.

The set says *table*, *text* or both, and names paragraphs; the rows are found again by the figures of the derivation or
by the answer's spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.evaluation.datasets.cell_search import Place, cell_below, find_cell, find_head
from okralong.pipelines.evaluation.datasets.pieces import Range, distinct, sentence_with
from okralong.pipelines.evaluation.datasets.pipe_table import PipeTable
from okralong.pipelines.evaluation.operands import derivation_operands

SOURCES: Final = ("table", "text", "table-text")
"""What ``answer_from`` may be."""

_ADVICE: Final = re.compile(r"[^\W\d_]{4}")


@dataclass(frozen=True, slots=True)
class Context:
    """A text with its table and the ranges of its paragraphs, by their order as the set writes it."""

    text: str
    table: PipeTable
    paragraphs: Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the set says of one question."""

    question: str
    label: str
    source: str
    spans: tuple[str, ...]
    derivation: str
    paragraphs: tuple[str, ...]


def locate(context: Context, asked: Asked) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """The evidence ranges, each row or sentence once, and the row of each gold cell; both empty when nothing is found.

    - From the text: in each related paragraph the sentences that hold the wanted figures or spans literally, or the
      whole paragraph when it holds none.
    - From the table, or from both: the rows that hold what is wanted. What no row holds is looked for in the column
      heads (the head row is then evidence, though no cell), and after that, for *both*, in the related paragraphs.
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
        # A year in a derivation ("44.1 (2019) > 12.7 (2018)") stands beside its figures and is none of them.
        head = None if figures else find_head(context.table, each)
        if head is not None:
            evidence.append(context.table.rows[head[0]])
        elif asked.source == "table-text":
            evidence.extend(_sentences(context, asked.paragraphs, [each], asked.question))
    cells = tuple(context.table.rows[row] for row, _ in dict.fromkeys(places))
    return distinct([*evidence, *cells]), cells


def counted_items(derivation: str) -> tuple[str, ...]:
    """What a count counted: the set writes it with ``##`` between."""
    return tuple(item.strip() for item in derivation.split("##") if item.strip())


def _figures(asked: Asked) -> tuple[str, ...]:
    """The figures of the derivation, where there are some."""
    return () if asked.label == "count" or _is_advice(asked) else derivation_operands(asked.derivation)


def _is_advice(asked: Asked) -> bool:
    """Whether the derivation of a copied answer is a sentence on what to do ("look at the fifth row"), not figures."""
    return asked.label not in ("arithmetic", "count") and _ADVICE.search(asked.derivation) is not None


def _below_head(table: PipeTable, wanted: str, asked: Asked) -> Place | None:
    """Years that were counted, or chosen by a condition, are column heads; what was compared stands below them."""
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
