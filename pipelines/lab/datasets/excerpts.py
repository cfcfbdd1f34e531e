"""Questions on company reports that a language model wrote: Financial-QA-10k, over excerpts of annual reports."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import InputError
from okralong.pipelines.lab.datasets.base import (
    Builder,
    DataSet,
    Evidence,
    Item,
    Pieces,
    Range,
    Row,
    grounded,
    length_label,
    one_part,
    question_type,
    table_rows,
)

FINANCIAL_QA: Final = "financial_qa_10k"

COLUMNS: Final = ("question", "answer", "context", "ticker", "filing")

logger = logging.getLogger(__name__)


@dataclass
class _Filing:
    """The excerpts of a filing while its rows are read: their text, and the range of each by its words."""

    pieces: Pieces = field(default_factory=Pieces)
    places: dict[str, Range] = field(default_factory=dict)

    def add(self, excerpt: str) -> None:
        if excerpt and excerpt not in self.places:
            self.places[excerpt] = self.pieces.add(excerpt)


def read_financial_qa(path: Path, part: str) -> DataSet:
    """``Financial-QA-10k.csv``: question, answer, context (an excerpt), ticker and filing ("2023_10K").

    One text a filing: its distinct excerpts in the order of the file, blank lines between them; ``document`` is the
    ticker and the year ("NVDA_2023"), as UDA names filings. Evidence is the question's excerpt. The file has no ids: a
    question is called by its row, as a spreadsheet counts it, since some are asked twice. There are no kinds either:
    the type goes by the length of the answer, a guess. Rows without a question, an answer or a context are left out
    and counted in the log. Raises InputError naming file, row and field.
    """
    columns, rows = table_rows(path)
    if columns != COLUMNS:
        raise InputError(
            f"{path}, row 1: the columns {', '.join(columns) or '(none)'} are not those of Financial-QA-10k, which has "
            f"{', '.join(COLUMNS)}. Fetch the file again."
        )
    filings: dict[str, _Filing] = {}
    for row in rows:
        filings.setdefault(_document(row), _Filing()).add(row.get("context", str).strip())
    made = Builder(FINANCIAL_QA, part)
    whole = [row for row in rows if all(row.get(name, str).strip() for name in ("question", "answer", "context"))]
    made.items += [_item(row, filings[_document(row)], made) for row in whole]
    logger.info("%s: %d rows lack a question, an answer or a context, left out.", path, len(rows) - len(whole))
    return made.built()


def _document(row: Row) -> str:
    return f"{row.text('ticker').strip()}_{row.text('filing').strip().removesuffix('_10K')}"


def _item(row: Row, filing: _Filing, made: Builder) -> Item:
    text = made.text(_document(row), filing.pieces.text)
    excerpt, answer = row.text("context").strip(), row.text("answer").strip()
    label = length_label([answer])
    named = Row(row.file, row.place, {"row": row.place.removeprefix("row "), "question": row.text("question").strip()})
    parts = grounded(one_part([answer]), [excerpt])
    gold = made.gold(named, "row", [answer], question_type(FINANCIAL_QA, label), label, parts)
    return Item(gold, (text.document,), (text.text_id,), (Evidence(text.text_id, *filing.places[excerpt]),))
