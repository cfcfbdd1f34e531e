"""Read Financial-QA-10k (excerpts of filings), and Loong (whole filings, papers and judgments)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import grounded, length_label, one_part
from okralong.lab.datasets.base import Builder, DataSet, Evidence, Item, Text
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.files import Row, read_json, row_of, rows_in, table_rows
from okralong.lab.datasets.places import Pieces, Range
from okralong.pipelines.core.types import InputError

FINANCIAL_QA: Final = "financial_qa_10k"
LOONG: Final = "loong_finance"
LOONG_PUBLISHED: Final = "loong"

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
    names = tuple(dict.fromkeys(document.text("doc_id") for document in row.rows("documents", "document")))
    if not names:
        row.bad("documents", "names no document")
    for name in names:
        if name not in filings:
            filings[name] = made.text(name, _read_document(row, "documents", _document_file(row, name)))
    asked = Row(row.file, row.place, {"id": row.text("query_id"), "question": row.text("question")})
    return _answered(row, made, asked, [filings[name] for name in names], row.text("kind"))


def _answered(row: Row, made: Builder, asked: Row, texts: Sequence[Text], label: str) -> Item:
    """Return the item of a row with a Loong ``answer``, which may be a list or an object."""
    answer = row.get("answer", object)
    scalar = isinstance(answer, str | int | float) and label != "clustering"
    written = str(answer).strip() if isinstance(answer, str | int | float) else json.dumps(answer, ensure_ascii=False)
    if not written or answer is None:
        row.bad("answer", "holds no answer")
    wordings = dict.fromkeys([written, _IN_THOUSANDS.sub("", written)])
    parts = grounded(one_part(wordings), [text.text for text in texts]) if scalar else ()
    gold = made.gold(asked, "id", [written], row.type_of("kind", LOONG, label), label, parts)
    documents = tuple(dict.fromkeys(text.document for text in texts))
    return Item(gold, documents, tuple(dict.fromkeys(text.text_id for text in texts)))


def _document_file(row: Row, name: str) -> Path:
    return row.file.parent / DOCUMENTS / f"{name}.txt"


def _read_document(row: Row, field: str, file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        row.bad(field, f"names {file.stem!r}, and {file} cannot be read ({error})")
    if not text:
        row.bad(field, f"names {file.stem!r}, and {file} is empty")
    return text


# --------
# Loong as its authors publish it: filings, papers and judgments, in English and Chinese.

_KINDS: Final = {1: "spotlight", 2: "comparison", 3: "clustering", 4: "chain"}
"""The kinds of questions by ``level``."""
_WITHOUT_RESULTS: Final = "我将给你若干份判决结果"
"""The words of an instruction that asks which judgment ("I will give you some results") has which result."""


def read_loong(path: Path, part: str) -> DataSet:
    """Read the lines of ``loong.jsonl`` that are of a domain and language; ``part`` is such as "financial_en".

    A line has ``id``, ``type`` (financial, paper or legal), ``language``, ``level`` (the label), ``question``,
    ``instruction``, ``prompt_template``, ``doc`` (names) and ``answer``. The question is the template without the
    documents. In the folder ``doc`` beside the file, ``paper`` has the files named, and ``legal/legal.json`` an object
    by name with ``content`` and ``result``. Of ``financial`` the authors' code takes some file with the name in its own
    (with "2024-" before it, except at level 4); here it is the shortest such name. Answers are as in ``loong_finance``.
    Raises InputError naming file, row and field.
    """
    made, folder = Builder(LOONG_PUBLISHED, part), path.parent / "doc"
    texts: dict[tuple[str, str], Text] = {}
    for row in rows_in(path):
        if f"{row.text('type')}_{row.text('language')}" != part:
            continue
        label = _KINDS.get(row.get("level", int), str(row.values["level"]))
        asked = Row(row.file, row.place, {"id": row.text("id"), "question": _question(row)})
        own = []
        for name in row.texts("doc"):
            document, content = _loong_document(row, folder, name)
            own.append(texts.setdefault((document, content), made.text(document, content)))
        if not own:
            row.bad("doc", "names no document")
        made.items.append(_answered(row, made, asked, own, label))
    return made.built()


def _question(row: Row) -> str:
    template = row.text("prompt_template").replace("{docs}", "")
    filled = template.replace("{question}", row.get("question", str)).replace(
        "{instruction}", row.get("instruction", str)
    )
    return filled.strip()


def _loong_document(row: Row, folder: Path, name: str) -> tuple[str, str]:
    """Return the name and the text of a document."""
    domain = row.text("type")
    if domain == "legal":
        judgments = _judgments(folder / "legal" / "legal.json")
        if name not in judgments.values:
            row.bad("doc", f"names {name!r}, which {judgments.file} does not have")
        judgment = judgments.inner(name)
        without = row.get("level", int) == 4 and _WITHOUT_RESULTS in row.get("instruction", str)
        return name, judgment.text("content") + ("" if without else judgment.get("result", str))
    file = folder / domain / name
    if domain == "financial":
        wanted = name if row.get("level", int) == 4 else f"2024-{name}"
        fitting = [each for each in _names(folder / domain) if wanted in each]
        if not fitting:
            row.bad("doc", f"names {name!r}, and {folder / domain} has no file with {wanted!r} in its name")
        file = folder / domain / min(fitting, key=lambda each: (len(each), each))
    return file.stem, _read_document(row, "doc", file)


@cache
def _judgments(file: Path) -> Row:
    return row_of(file, "the file's content", read_json(file))


@cache
def _names(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(each.name for each in folder.glob("*.txt")))
