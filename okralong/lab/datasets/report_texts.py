"""Read benchmarks over reports of companies that come as text: T2-RAGBench, DocFinQA and LEDGER."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import grounded, one_part
from okralong.lab.datasets.base import Builder, DataSet, Item, Text, page_of, text_id, whole
from okralong.lab.datasets.files import Row, rows_in
from okralong.lab.datasets.places import Pieces
from okralong.pipelines.core.types import InputError, Section

T2_RAGBENCH: Final = "t2_ragbench"
DOCFINQA: Final = "docfinqa"
LEDGER: Final = "ledger"


def _answer(row: Row, field: str) -> str:
    """Return an answer that is a text or a number. A whole number has no decimals."""
    value = row.get(field, object)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        row.bad(field, f"is {value!r} and not a number or a text")
    return str(value).strip()


# --------
# T2-RAGBench: questions of FinQA, ConvFinQA and TAT-DQA, reworded so that each names its report (Strich et al. 2025).


def read_t2_ragbench(path: Path, part: str) -> DataSet:
    """Read a ``metadata.jsonl``, such as ``data/FinQA/test/metadata.jsonl``.

    A row has ``id``, ``context_id``, ``question``, ``program_answer`` and ``context``, and in two of its three subsets
    ``company_symbol`` and ``report_year``. Each context is a text, and every item's context is all texts of the file,
    since a system has to find the right one, which is the evidence. ``document`` is ticker and year ("ADI_2009"), as in
    FinQA, or else the ``context_id``. The label is the subset. Rows without a question are left out, with a note: the
    published file has five. Raises InputError naming file, row and field.
    """
    made, rows = Builder(T2_RAGBENCH, part), list(rows_in(path))
    contexts: dict[str, Text] = {}
    for row in rows:
        identity = row.text("context_id")
        if identity not in contexts:
            contexts[identity] = made.text(_filing(row) or identity, row.text("context").strip())
    everything = tuple(dict.fromkeys(text.text_id for text in contexts.values()))
    asked = [row for row in rows if row.get("question", str).strip()]
    label = part.partition("_")[0]
    for row in asked:
        text, answer = contexts[row.text("context_id")], _answer(row, "program_answer")
        parts = grounded(one_part([answer]), [text.text])
        gold = made.gold(row, "id", [answer], row.type_of("id", T2_RAGBENCH, label), label, parts)
        made.items.append(Item(gold, (text.document,), everything, (whole(text),)))
    if left_out := len(rows) - len(asked):
        made.notes.append(f"{path}: {left_out:,} of {len(rows):,} rows are left out, because they have no question.")
    return made.built()


def _filing(row: Row) -> str:
    symbol, year = (row.values.get(name) for name in ("company_symbol", "report_year"))
    return f"{symbol}_{str(year).removesuffix('.0')}" if symbol and year else ""


# --------
# DocFinQA: FinQA's questions, asked of the whole filing (Reddy et al. 2024).


def read_docfinqa(path: Path, part: str) -> DataSet:
    """Read ``train.json``, ``dev.json`` or ``test.json``: a list of ``Context``, ``Question``, ``Program``, ``Answer``.

    Each distinct context, a whole filing, is a text; the file does not name the filings. The programs are Python code,
    which is not read. The id is the row's number. Raises InputError naming file, row and field.
    """
    made = Builder(DOCFINQA, part)
    for number, row in enumerate(rows_in(path), start=1):
        context, answer = row.text("Context").strip(), _answer(row, "Answer")
        text = made.text(f"{DOCFINQA}-{text_id(context)}", context)
        asked = Row(row.file, row.place, {"id": f"{part}-{number}", "question": row.text("Question").strip()})
        parts = grounded(one_part([answer]), [text.text])
        gold = made.gold(asked, "id", [answer], row.type_of("Program", DOCFINQA, "program"), "program", parts)
        made.items.append(Item(gold, (text.document,), (text.text_id,)))
    return made.built()


# --------
# LEDGER: single figures in annual reports of which images were read to Markdown (Moslonka et al. 2026).

_PAGE_SPLIT: Final = "<--- Page Split --->"
_TEXTS: Final = ("mmd_text", "report_full_text")
"""The column of the report's text, in two revisions of the set."""
_ANSWERS: Final = 2
"""The relevance of a page that states the figure."""


def read_ledger(path: Path, part: str) -> DataSet:
    """Read the Parquet files of ``ledger-long-context-KPI-QA``; ``path`` is one, or a folder with several.

    A row has ``query_id``, ``query_text``, ``kpi``, ``value``, ``qrels`` (``doc_id``, such as "NYSE_SHW_2017/page_0003"
    with pages from 0, and ``relevance``) and the report's text, in which each page ends with a marker. A report is a
    text with pages, and is the item's context. The pages of relevance 2 are a pool of gold pages. Raises InputError
    naming file, row and field.
    """
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path} holds no Parquet file. Put those of the configuration eval there.")
    made = Builder(LEDGER, part)
    reports: dict[str, Text] = {}
    for file in files:
        made.items += [_ledger_item(row, made, reports) for row in rows_in(file)]
    return made.built()


def _ledger_item(row: Row, made: Builder, reports: dict[str, Text]) -> Item:
    pages = {each.text("doc_id"): each.get("relevance", int) for each in row.rows("qrels")}
    fallback = f"{row.text('ticker')}_{row.get('year', int)}"
    name = next(iter(pages), fallback).partition("/")[0]
    if name not in reports:
        column = next((column for column in _TEXTS if column in row.values), _TEXTS[0])
        reports[name] = _paged(made, name, row.text(column))
    text, answer = reports[name], _answer(row, "value")
    asked = Row(row.file, row.place, {"id": row.text("query_id"), "question": row.text("query_text").strip()})
    gold = made.gold(asked, "id", [answer], row.type_of("kpi", LEDGER, "kpi"), "kpi")
    found = [page_of(text, _number(row, page) + 1) for page, relevance in pages.items() if relevance == _ANSWERS]
    pool = tuple(page for page in found if page is not None)
    return Item(gold, (name,), (text.text_id,), pools=(pool,) if pool else ())


def _number(row: Row, page: str) -> int:
    number = page.rpartition("/page_")[2]
    if not number.isdecimal():
        row.bad("qrels", f"holds {page!r} and not a report and a page")
    return int(number)


def _paged(made: Builder, name: str, written: str) -> Text:
    pieces, sections = Pieces(), []
    for number, page in enumerate(written.split(_PAGE_SPLIT), start=1):
        if page.strip():
            sections.append(Section("page", str(number), pieces.add(page)[0]))
    return made.text(name, pieces.text, tuple(sections))
