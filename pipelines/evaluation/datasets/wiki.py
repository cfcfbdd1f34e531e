"""The format that HotpotQA and 2WikiMultihopQA share: a list of questions with ten paragraphs cut into sentences.

A row has ``_id``, ``question``, ``answer``, ``type``, ``context`` ([title, [sentence, ...]] for each paragraph) and
``supporting_facts`` ([title, number of the sentence from 0]). On a hub it has ``id``, and the two lists are columns:
{"title": [...], "sentences": [...]} and {"title": [...], "sent_id": [...]}. A paragraph becomes a text of its title, a
line break and its sentences. Asked about are the titles of the supporting facts.

Evidence is one piece for each supporting fact: the range of that sentence. The authors name some sentences that the
paragraph does not have (the number after the last: 6 facts in 500 questions of 2WikiMultihopQA's train file); such a
fact is left out, and so is a blank sentence. Where the whole paragraph is missing, a needed piece can never be shown
and the item gets no evidence at all. Both are counted in the log. Where two paragraphs have the title, the first that
has the sentence counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, one_part
from okralong.pipelines.evaluation.datasets.fields import Row, row_of, rows_in, texts_of
from okralong.pipelines.evaluation.datasets.naming import QueryIds, row_type
from okralong.pipelines.evaluation.datasets.pieces import Range, keep_text, trimmed
from okralong.pipelines.evaluation.datasets.values import DataSet, Evidence, Hop, Item, Text
from okralong.pipelines.evaluation.gold import Gold

Fact = tuple[str, int]
"""A supporting fact: title and number of the sentence."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A titled text and the range of each of its sentences."""

    title: str
    text: Text
    sentences: tuple[Range, ...]


def _none(row: Row) -> tuple[()]:
    return ()


def read_wiki(
    path: Path,
    name: str,
    part: str,
    between: str,
    gold_queries: Callable[[Row], tuple[str, ...]],
    sub_questions: Callable[[Row], tuple[str, ...]] = _none,
    hops: Callable[[Row], tuple[Hop, ...]] = _none,
) -> DataSet:
    """The questions of ``path`` in the file's order. ``between`` is what joins two sentences.

    Raises InputError naming file, row and field where the file is not in the format.
    """
    texts: dict[str, Text] = {}
    items: list[Item] = []
    ids = QueryIds(name)
    lost = 0
    for row in rows_in(path):
        paragraphs = _paragraphs(row, texts, between)
        facts = supporting_facts(row)
        evidence = _evidence(paragraphs, facts)
        lost += len(facts) - len(evidence)
        items.append(
            Item(
                _gold(row, name, ids, paragraphs),
                documents=tuple(dict.fromkeys(title for title, _ in facts)),
                text_ids=tuple(dict.fromkeys(paragraph.text.text_id for paragraph in paragraphs)),
                evidence=evidence,
                gold_queries=gold_queries(row),
                sub_questions=sub_questions(row),
                hops=hops(row),
            )
        )
    logger.info("%s: %d supporting facts name what the context does not have.", path, lost)
    return DataSet(name, part, texts, tuple(items))


def supporting_facts(row: Row) -> list[Fact]:
    """The facts, once each. Raises InputError when one is something else."""
    facts = []
    for fact in _pairs(row, "supporting_facts", "sent_id"):
        match fact:
            case [str(title), int(number)] if number >= 0:
                facts.append((title, number))
            case _:
                row.bad("supporting_facts", f"holds {fact!r} and not a title with the number of a sentence")
    return list(dict.fromkeys(facts))


def _pairs(row: Row, field: str, second: str) -> list[Any]:
    """The entries of a list, or of two columns, ``title`` and ``second``."""
    if not isinstance(row.values.get(field), dict):
        return row.get(field, list)
    columns = row_of(row.file, f"{row.place}, {field}", row.values[field])
    titles, others = columns.get("title", list), columns.get(second, list)
    if len(titles) != len(others):
        columns.bad(second, f"has {len(others)} entries for {len(titles)} titles")
    return [list(pair) for pair in zip(titles, others, strict=True)]


def _gold(row: Row, name: str, ids: QueryIds, paragraphs: Sequence[Paragraph]) -> Gold:
    label, answers = row.text("type"), (row.text("answer"),)
    type_ = row_type(row, "type", name, label)
    id_field = "_id" if "_id" in row.values else "id"
    question = Question(ids.take(row, id_field), row.text("question"), answers=answers, type=type_)
    return Gold(question, name, label, grounded(one_part(answers), [each.text.text for each in paragraphs]))


def _paragraphs(row: Row, texts: dict[str, Text], between: str) -> list[Paragraph]:
    paragraphs = []
    for entry in _pairs(row, "context", "sentences"):
        match entry:
            case [str(title), list(sentences)]:
                paragraphs.append(_paragraph(texts, title, texts_of(row, "context", sentences), between))
            case _:
                row.bad("context", "has an entry that is not a title with a list of sentences")
    return paragraphs


def _paragraph(texts: dict[str, Text], title: str, sentences: Sequence[str], between: str) -> Paragraph:
    text, ranges = title + "\n", []
    for number, sentence in enumerate(sentences):
        text += between if number else ""
        ranges.append((len(text), len(text) + len(sentence)))
        text += sentence
    return Paragraph(title, keep_text(texts, title, text), tuple(ranges))


def _evidence(paragraphs: Sequence[Paragraph], facts: Sequence[Fact]) -> tuple[Evidence, ...]:
    pieces: list[Evidence] = []
    for title, number in facts:
        titled = [paragraph for paragraph in paragraphs if paragraph.title == title]
        if not titled:
            return ()
        holding = [paragraph for paragraph in titled if number < len(paragraph.sentences)]
        if holding:
            start, end = trimmed(holding[0].text.text, holding[0].sentences[number])
            pieces += [Evidence(holding[0].text.text_id, start, end)] if start < end else []
    return tuple(pieces)
