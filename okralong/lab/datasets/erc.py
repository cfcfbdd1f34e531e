"""Read the Enterprise RAG Challenge: typed questions over annual reports as PDF files, with their gold pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import grounded, one_part
from okralong.lab.datasets.base import Builder, DataSet, Item, Text, page_of
from okralong.lab.datasets.document_files import texts_of, with_note
from okralong.lab.datasets.files import Row, read_json, row_of, rows_in
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.core.types import InputError

ERC: Final = "enterprise_rag_challenge"

ANSWER_TYPES: Final = {"number": "number", "boolean": "boolean", "name": "", "names": ""}
"""The answer type of each kind of question. Names are asked for as text."""

_GOLD: Final = {"n/a": UNANSWERABLE, "true": "yes", "false": "no"}

_CANONIC: Final = "canonic.json"
_QUESTIONS: Final = "round2_questions.jsonl"


@dataclass(frozen=True)
class Asked:
    """A question of the challenge.

    ``reports`` are the PDF files, without suffix, of the companies that it names. ``pools`` have pages as pairs of a
    report and a number from 0.
    """

    query_id: str
    question: str
    kind: str
    answers: tuple[str, ...]
    reports: tuple[str, ...] = ()
    pools: tuple[tuple[tuple[str, int], ...], ...] = ()


def read_asked(folder: Path) -> list[Asked]:
    """Read the questions of round 2, in one of two layouts.

    The folder ``round2`` of trustbit/enterprise-rag-challenge has ``canonic.json``, which maps a question to ``kind``
    (number, boolean, name or names), ``answers`` (any of them is right) and ``reference_pools`` ("SHA1:PAGE"), and
    ``subset.json`` with ``sha1`` and ``company_name`` of each report. The other layout has ``round2_questions.jsonl``
    (``query_id``, ``question``, ``kind``, ``companies``, ``answers``, ``pages``) and ``companies.json``. Raises
    InputError naming file, row and field.
    """
    return list(_published(folder) if (folder / _CANONIC).is_file() else _own(folder))


def gold_answer(written: str) -> str:
    """Return a gold answer in the form of answers here: "unanswerable" for "N/A", "yes" for "True"."""
    return _GOLD.get(written.strip().casefold(), written.strip())


def _published(folder: Path) -> Iterator[Asked]:
    file = folder / _CANONIC
    reports = {row.text("company_name").strip(): row.text("sha1") for row in rows_in(folder / "subset.json")}
    for number, (question, value) in enumerate(row_of(file, "the file's content", read_json(file)).values.items()):
        row = row_of(file, f"question {number + 1}", value)
        pools = [row.all_texts("reference_pools", pool) for pool in row.get("reference_pools", list)]
        yield Asked(
            f"e{number:03}",
            question,
            row.text("kind"),
            tuple(map(gold_answer, row.texts("answers"))),
            tuple(reports[name] for name in _named(question, reports)),
            tuple(tuple(_page(row, page) for page in pool) for pool in pools),
        )


def _page(row: Row, written: str) -> tuple[str, int]:
    report, _, page = written.partition(":")
    if not page.isdecimal():
        row.bad("reference_pools", f"holds {written!r} and not the name of a report and a page")
    return report, int(page)


def _named(question: str, names: Mapping[str, str]) -> list[str]:
    """Return the companies that a question names. A name within a longer one that is named does not count."""
    found = []
    for name in sorted(names, key=len, reverse=True):
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        if pattern.search(question):
            found.append(name)
            question = pattern.sub(" ", question)
    return found


def _own(folder: Path) -> Iterator[Asked]:
    file = folder / "companies.json"
    known = row_of(file, "the file's content", read_json(file))
    reports = {known.inner(name).text("company"): name for name in known.values}
    for row in rows_in(folder / _QUESTIONS):
        pools = [[row_of(row.file, f"{row.place}, pages", page) for page in pool] for pool in row.get("pages", list)]
        yield Asked(
            row.text("query_id"),
            row.text("question"),
            row.text("kind"),
            tuple(map(gold_answer, row.texts("answers"))),
            tuple(reports[name] for name in row.texts("companies") if name in reports),
            tuple(tuple((page.text("pdf"), page.get("page", int)) for page in pool) for pool in pools),
        )


def read_erc(path: Path, part: str) -> DataSet:
    """Read round 2, with its reports as PDF files ``SHA1.pdf`` in the same folder or below.

    A question's context is the reports of the companies that it names. Pages that are images are not read. "N/A" is
    "unanswerable". Questions with a report that is missing or unreadable are left out, with a note. Raises InputError
    naming file, row and field, or if there is no report at all.
    """
    asked = read_asked(path)
    if not asked:
        raise InputError(f"{path} holds no question of the challenge. Fetch its folder round2 again.")
    texts = texts_of(path, {name for each in asked for name in each.reports}, ocr="off")
    made = Builder(ERC, part)
    for each in asked:
        if each.reports and all(name in texts for name in each.reports):
            made.items.append(_item(path, made, each, {n: made.text(n, *texts[n]) for n in each.reports}))
    return with_note(made, path, len(asked))


def _item(path: Path, made: Builder, asked: Asked, reports: Mapping[str, Text]) -> Item:
    row = Row(path, f"question {asked.query_id}", {"id": asked.query_id, "question": asked.question})
    parts = grounded(one_part(asked.answers), [text.text for text in reports.values()])
    gold = made.gold(row, "id", asked.answers, row.type_of("kind", ERC, asked.kind), asked.kind, parts)
    question = replace(gold.question, answer_type=ANSWER_TYPES[asked.kind])
    pages = [[page_of(reports[name], page + 1) for name, page in pool if name in reports] for pool in asked.pools]
    pools = (tuple(page for page in pool if page is not None) for pool in pages)
    return Item(
        replace(gold, question=question),
        tuple(reports),
        tuple(text.text_id for text in reports.values()),
        pools=tuple(pool for pool in pools if pool),
    )
