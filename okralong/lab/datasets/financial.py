"""Read questions on companies' reports: Financial-QA-10k (excerpts) and Loong's finance part (whole filings)."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import grounded, length_label, one_part
from okralong.lab.datasets.base import Builder, DataSet, Evidence, Item, Text
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.files import Row, rows_in, table_rows
from okralong.lab.datasets.places import Pieces, Range
from okralong.pipelines.core.types import InputError

FINANCIAL_QA: Final = "financial_qa_10k"
LOONG: Final = "loong_finance"

COLUMNS: Final = ("question", "answer", "context", "ticker", "filing")

DOCUMENTS: Final = "documents"
"""The folder, beside the questions, with Loong's filings as text files."""

_IN_THOUSANDS: Final = re.compile(r"\s+in (?:thousand|million)s?$")

logger = logging.getLogger(__name__)

# --------
# Financial-QA-10k: questions and answers, written by a language model, on excerpts of annual reports.


@dataclass
class _Filing:
    """The excerpts of a filing, collected while its rows are read, and the range of each excerpt."""

    pieces: Pieces = field(default_factory=Pieces)
    places: dict[str, Range] = field(default_factory=dict)

    def add(self, excerpt: str) -> None:
        if excerpt and excerpt not in self.places:
            self.places[excerpt] = self.pieces.add(excerpt)


def read_financial_qa(path: Path, part: str) -> DataSet:
    """Read ``Financial-QA-10k.csv``: question, answer, context (an excerpt), ticker and filing ("2023_10K").

    There is one text per filing: its distinct excerpts in file order, separated by blank lines. ``document`` is ticker
    and year ("NVDA_2023"), as in UDA. The evidence is the question's excerpt. The file has no ids, and some questions
    occur twice, so the id is the row's number in a spreadsheet. The type is guessed from the length of the answer. Rows
    without a question, an answer or a context are skipped and counted in the log. Raises InputError naming file, row
    and field.
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


# --------
# Loong, English finance: questions that need several of the filings that come with them (Wang et al. 2024).


def read_loong_finance(path: Path, part: str) -> DataSet:
    """Read a ``questions.jsonl`` beside the folder ``documents``; ``path`` may also be the folder with both.

    A row has ``query_id``, ``kind`` (the label), ``question``, ``documents`` (``doc_id`` each, the text file's name
    without its suffix) and ``answer``. There is one text per filing, and an item's context is the filings that it
    names. An answer that is a list or an object is written as JSON. The set marks no evidence. Only a short answer that
    is one figure or name has a part; in it, a final "in thousands" is optional, since tables state it above the
    figures. Raises InputError naming file, row and field.
    """
    questions = path / "questions.jsonl" if path.is_dir() else path
    made = Builder(LOONG, part)
    filings: dict[str, Text] = {}
    made.items += [_loong_item(row, made, filings) for row in rows_in(questions)]
    return made.built()


def _loong_item(row: Row, made: Builder, filings: dict[str, Text]) -> Item:
    label, answer = row.text("kind"), row.get("answer", object)
    names = tuple(dict.fromkeys(document.text("doc_id") for document in row.rows("documents", "document")))
    if not names:
        row.bad("documents", "names no document")
    for name in names:
        if name not in filings:
            filings[name] = made.text(name, _filing_text(row, name))
    scalar = isinstance(answer, str | int | float) and label != "clustering"
    written = str(answer).strip() if isinstance(answer, str | int | float) else json.dumps(answer, ensure_ascii=False)
    if not written or answer is None:
        row.bad("answer", "holds no answer")
    wordings = dict.fromkeys([written, _IN_THOUSANDS.sub("", written)])
    texts = [filings[name] for name in names]
    parts = grounded(one_part(wordings), [text.text for text in texts]) if scalar else ()
    gold = made.gold(row, "query_id", [written], row.type_of("kind", LOONG, label), label, parts)
    return Item(gold, names, tuple(dict.fromkeys(text.text_id for text in texts)))


def _filing_text(row: Row, name: str) -> str:
    file = row.file.parent / DOCUMENTS / f"{name}.txt"
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        row.bad("documents", f"names {name!r}, and {file} cannot be read ({error})")
    if not text:
        row.bad("documents", f"names {name!r}, and {file} is empty")
    return text
