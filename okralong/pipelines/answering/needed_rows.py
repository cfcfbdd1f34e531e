"""Choose the rows of a document's tables that a question needs, whether or not a chunk with them was retrieved.

A question for a margin needs two rows of one statement, which share one head in the prompt. A row fits if its label
consists of words of the question, or names a line item that the question needs. Each further row must add words of the
question that no chosen row has. Not in the paper.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.answering.support import stems
from okralong.pipelines.core.tables import Table, TableRow
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Passage
from okralong.pipelines.statements.compact import compact_parts
from okralong.pipelines.statements.line_items import (
    LineItem,
    items_needed,
    items_of_label,
    with_substitutes,
)

Chosen = tuple[Table, TableRow]

MOST_ROWS: Final = 8
"""The most rows of one document. # project default"""
_COVERED: Final = 0.15
"""The share that a word of the question keeps once a chosen row has it. # project default"""
_LEAST: Final = 0.3
"""A row is chosen if it scores at least this share of the first one. # project default"""
_HALF: Final = 0.5
"""The least share of a label's words, weighted by rarity, that the question must have. # project default"""
_SAME_TABLE: Final = 1.2
"""The factor of rows of a table that is shown already: they need no further head. # project default"""
_TOGETHER: Final = 0.5
"""The weight of each line item of the question that a table has. # project default"""
_BESIDE: Final = 0.3
"""The weight of words in a row's sections, and in its table's title and heads. # project default"""
_STATEMENT: Final = 1.3
_OTHER_YEAR: Final = 0.5
"""The factors of statements' rows, and of tables without a year that the question names. # project default"""
_APART: Final = re.compile(
    r"\b(?:percent(?:age)?s?|parent|condensed|pro\s?forma|quarter(?:ly)?|unaudited|segments?)\b|%", re.IGNORECASE
)
"""Words of titles of tables that do not have the report's own figures: such tables have the factor of another year."""
_ITEM: Final = 0.05
_MOST_ITEMS: Final = 10
_STATEMENT_ITEMS: Final = 3
"""The weight of each line item that a table has, up to so many; with so few it is no statement. # project default"""
_COLUMNS: Final = 4
_WIDE: Final = 0.7
"""The factor of tables with more columns: of segments, of equity's parts. # project default"""
_OTHER_STATEMENT: Final = 0.6
"""The factor of a line item in a table of another statement: cash in that of cash flows. # project default"""
_CHANGE: Final = 0.6
"""The factor of rows of a cash flow statement that give the change of a balance. # project default"""
_CHANGES: Final = re.compile(r"\bchanges? in\b", re.IGNORECASE)
_EMPTY: Final = (
    "end ended year years fiscal period annual quarter change changes compared group amount report data available "
    "inc corp corporation company co ltd limited plc"
)
"""Words of questions and labels that tell no rows apart."""
_LOOSE: Final = stems("basic diluted common ordinary net consolidated attributable")
"""Words that a label may have though the question does not."""
_STATEMENTS: Final = re.compile(
    r"\b(?:balance\s+sheets?|financial\s+(?:position|condition)|statements?\s+of|income\s+statements?|cash\s+flows?)\b",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


@dataclass(frozen=True)
class _Candidate:
    """A row that may be needed.

    Attributes:
        table: Its table.
        row: The row.
        words: The stems of its label.
        around: The stems of its sections, and of its table's title and heads.
        items: The line items that its label names.
        statement: The statement that most line items of its table belong to.
        factor: How much its table is preferred.
    """

    table: Table
    row: TableRow
    words: frozenset[str]
    around: frozenset[str]
    items: tuple[LineItem, ...]
    statement: str
    factor: float


def rows_needed(question: str, tables: Iterable[Table], name: str = "", most: int = MOST_ROWS) -> list[Chosen]:
    """Return the rows that a question needs, best first.

    Args:
        question: The question.
        tables: The tables of a document.
        name: Words of the document's name, which do not tell its rows apart.
        most: The most rows to return.
    """
    rows = _candidates(question, tables)
    ignored = stems(f"{name} {_EMPTY}")
    chosen = [*_item_rows(question, rows), *_quoted_rows(question, [each for each in rows if each.words - ignored])]
    chosen = list({id(each.row): each for each in chosen}.values())[:most]
    sure = list(chosen)
    held = Counter(word for each in rows for word in each.words)
    rarity = {word: math.log(1 + len(rows) / count) for word, count in held.items()}
    # "How did product revenue and the cost of product revenue change?" needs two rows with the word.
    asked = Counter(each for word in question.split() for each in stems(word) if each in rarity and each not in ignored)
    first = max((_score(each, rarity, asked, []) for each in rows), default=0.0)
    taken = {id(each.row) for each in chosen}
    left = [each for each in rows if each.words & asked.keys() and id(each.row) not in taken]
    for each in chosen:
        asked.subtract(each.words & asked.keys())
    while left and len(chosen) < most:
        score, _, best = max((_score(each, rarity, asked, chosen), -at, each) for at, each in enumerate(left))
        if score < _LEAST * first or not score:
            break
        chosen.append(best)
        left.remove(best)
        asked.subtract(best.words & asked.keys())
    return [(each.table, each.row) for each in [*chosen, *_beside(sure, chosen, rows)]]


def _beside(sure: Sequence[_Candidate], chosen: Sequence[_Candidate], rows: Sequence[_Candidate]) -> list[_Candidate]:
    """Return further rows with line items from the statements of the ``sure`` rows, the nearest first."""
    taken = {id(each.row) for each in chosen}
    found: list[tuple[int, int, _Candidate]] = []
    for at, each in enumerate(rows):
        near = [abs(each.row.start - other.row.start) for other in sure if other.table is each.table]
        if near and each.items and each.statement in _PRIMARY and id(each.row) not in taken:
            found.append((min(near), at, each))
    return [each for _, _, each in sorted(found, key=lambda each: each[:2])]


_PRIMARY: Final = ("balance sheet", "income", "cash flow")


def _candidates(question: str, tables: Iterable[Table]) -> list[_Candidate]:
    years = set(_YEAR.findall(question))
    found: list[_Candidate] = []
    for table in tables:
        heads = " ".join([table.title, *map(table.head, range(len(table.heads)))])
        factor = _factor(table, question)
        there = set(_YEAR.findall(heads))
        if years and there:
            factor *= _OTHER_YEAR ** (len(years - there) / len(years))
        around = stems(heads)
        items = [tuple(items_of_label(row.label, row.sections)) for row in table.rows]
        of_statements = Counter(item.statement for item in {each for named in items for each in named})
        statement, count = max(of_statements.items(), key=lambda each: each[1], default=("", 0))
        statement = statement if count >= _STATEMENT_ITEMS else ""
        factor *= 1 + _ITEM * min(count, _MOST_ITEMS)
        for row, named in zip(table.rows, items, strict=True):
            words, above = stems(row.label), " ".join(row.sections)
            if row.cells and words:
                by = factor * (_CHANGE if _CHANGES.search(above) else 1.0)
                found.append(_Candidate(table, row, words, around | stems(above), named, statement, by))
    return found


def _factor(table: Table, question: str) -> float:
    factor = _STATEMENT if _STATEMENTS.search(table.title) else 1.0
    if _APART.search(table.title) and not _APART.search(question):
        factor *= _OTHER_YEAR
    return factor if len(table.heads) <= _COLUMNS else factor * _WIDE


def _item_rows(question: str, rows: Sequence[_Candidate]) -> list[_Candidate]:
    """Return a row for each line item that the question needs, from the tables with most of them."""
    needed = items_needed(question)
    by_item: dict[LineItem, list[_Candidate]] = {}
    for each in rows:
        for item in each.items:
            by_item.setdefault(item, []).append(each)
    sought: list[tuple[LineItem, list[_Candidate]]] = []
    for one in needed:
        known = [(item, by_item[item]) for item in with_substitutes(one) if item in by_item]
        own = [(item, found) for item, found in known if any(each.statement == item.statement for each in found)]
        sought += [*own, *((item, found) for item, found in known if any(each.statement for each in found))][:1]
    held = Counter(key for _, found in sought for key in {id(each.table) for each in found})
    chosen: dict[int, _Candidate] = {}
    for item, found in sought:

        def fit(each: _Candidate, statement: str = item.statement) -> float:
            own = 1.0 if each.statement == statement else _OTHER_STATEMENT
            return each.factor * own * (1 + _TOGETHER * held[id(each.table)]) / len(each.items)

        best = max(found, key=fit)
        chosen.setdefault(id(best.row), best)
    return list(chosen.values())


def _quoted_rows(question: str, rows: Sequence[_Candidate]) -> list[_Candidate]:
    """Return a row for each label of two words or more that the question quotes, unless a longer one holds it."""
    said = f" {_plain(question)} "
    found: dict[str, _Candidate] = {}
    for each in rows:
        label = _plain(each.row.label)
        if " " in label and f" {label} " in said and (label not in found or each.factor > found[label].factor):
            found[label] = each
    for label in sorted(found, key=len):
        said_alone = said
        for other in found:
            if other != label and label in other:
                said_alone = said_alone.replace(f" {other} ", " | ")
        if f" {label} " not in said_alone:
            del found[label]
    return list(found.values())


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[\w&-]+", re.sub(r"\([^()]*\)", " ", text).casefold()))


def _score(each: _Candidate, rarity: Mapping[str, float], asked: Counter[str], chosen: Sequence[_Candidate]) -> float:
    """Return how well a row fits what is ``asked``: the number of times that each word still needs a row."""

    def weight(words: Iterable[str]) -> float:
        return sum(rarity[word] * (1.0 if asked[word] > 0 else _COVERED) for word in words if word in asked)

    held = weight(each.words)
    if not held:
        return 0.0
    known = sum(rarity[word] for word in each.words if word in asked)
    whole = known + sum(rarity[word] for word in each.words - _LOOSE if word not in asked)
    if known < _HALF * whole:
        return 0.0
    score = (held + _BESIDE * weight(each.around - each.words)) * (known / whole) ** 2 * each.factor
    return score * (_SAME_TABLE if any(other.table is each.table for other in chosen) else 1.0)


def rows_passages(document: Document, rows: Sequence[Chosen], tokens: int) -> list[Passage]:
    """Return passages with the given rows, best first: one per table, in the compact form, with ``tokens`` at most."""
    kept: list[Chosen] = []
    for each in rows:
        if sum(passage.n_tokens for passage in _by_table(document, [*kept, each])) > tokens:
            break
        kept.append(each)
    return _by_table(document, kept)


def _by_table(document: Document, rows: Sequence[Chosen]) -> list[Passage]:
    tables = {id(table): table for table, _ in rows}
    found = []
    for key, table in tables.items():
        own = sorted((row for other, row in rows if id(other) == key), key=lambda row: row.start)
        start, end = own[0].start, max(row.end for row in own)
        parts = tuple(compact_parts(table, own))
        size = count_tokens("".join(part.text for part in parts))
        text = document.text[start:end]
        found.append(Passage(document.doc_id, start, end, text, size, 1.0, origin="rows", shown=parts))
    return found
