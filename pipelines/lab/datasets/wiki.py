"""MuSiQue: questions composed of two to four single-hop questions, over 20 Wikipedia paragraphs (Trivedi et al. 2022).

A row has ``id`` ("3hop1__" and the numbers of its single-hop questions), ``question``, ``answer``, ``answer_aliases``,
``answerable``, ``paragraphs`` (title, paragraph_text, is_supporting) and ``question_decomposition`` (question, answer),
in a JSON list or, as the authors publish it, one row a line (``.jsonl``). The label is the id's first part.

Evidence is the text of each supporting paragraph, without its title line: the set marks nothing finer. Gold queries are
the single-hop questions, with "#1" replaced by the first step's answer, and so on; some are written as
"subject >> relation", where the marks are left out.

In the full version a question comes twice under one id, once with a needed paragraph taken away (``answerable`` false).
Its answer still stands there but cannot be known: the gold answer is "unanswerable", which is what a generator is told
to reply, and the id says so. There is no evidence, since what is left can be shown whole and is not enough.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.lab.datasets.base import (
    DataSet,
    Evidence,
    Hop,
    Item,
    QueryIds,
    Range,
    Row,
    Text,
    grounded,
    json_rows,
    jsonl_rows,
    keep_text,
    keep_titled,
    one_part,
    row_of,
    row_type,
    rows_in,
    texts_of,
    trimmed,
    whole_paragraph,
)
from okralong.pipelines.lab.gold import Gold

MUSIQUE: Final = "musique"
UNANSWERABLE: Final = "unanswerable"

_STEP: Final = re.compile(r"#(\d+)")
_RELATION: Final = re.compile(r"\s*>>\s*")


def read_musique(path: Path, part: str) -> DataSet:
    """A file such as ``musique_ans_v1.0_dev.jsonl``. Raises InputError naming file, row and field."""
    texts: dict[str, Text] = {}
    ids = {True: QueryIds(MUSIQUE), False: QueryIds(f"{MUSIQUE}-{UNANSWERABLE}")}
    items = tuple(_item_musique(row, texts, ids[row.get("answerable", bool)]) for row in rows_in(path))
    return DataSet(MUSIQUE, part, texts, items)


def _item_musique(row: Row, texts: dict[str, Text], ids: QueryIds) -> Item:
    label = row.text("id").split("__")[0]
    context: list[Text] = []
    documents: list[str] = []
    evidence: list[Evidence] = []
    for paragraph in row.rows("paragraphs", "paragraph"):
        title = paragraph.text("title")
        text = keep_titled(texts, title, paragraph.text("paragraph_text"))
        context.append(text)
        if paragraph.get("is_supporting", bool):
            documents.append(title)
            evidence.append(whole_paragraph(text, title))
    answers = tuple(
        dict.fromkeys([row.text("answer"), *texts_of(row, "answer_aliases", row.get("answer_aliases", list))])
    )
    if not row.get("answerable", bool):
        answers, evidence = (UNANSWERABLE,), []
    question = Question(
        ids.take(row, "id"), row.text("question"), answers=answers, type=row_type(row, "id", MUSIQUE, label)
    )
    hops = _hops(row)
    queries = tuple(dict.fromkeys(hop.query for hop in hops))
    return Item(
        Gold(question, MUSIQUE, label, grounded(one_part(answers), [text.text for text in context])),
        documents=tuple(dict.fromkeys(documents)),
        text_ids=tuple(dict.fromkeys(text.text_id for text in context)),
        evidence=tuple(dict.fromkeys(evidence)),
        gold_queries=queries,
        sub_questions=queries if all(query.endswith("?") for query in queries) else (),
        hops=hops,
    )


def _hops(row: Row) -> tuple[Hop, ...]:
    answers: list[str] = []
    hops: list[Hop] = []

    def earlier(step: re.Match[str]) -> str:
        number = int(step[1])
        return answers[number - 1] if 0 < number <= len(answers) else step[0]

    for hop in row.rows("question_decomposition", "step"):
        query = _STEP.sub(earlier, _RELATION.sub(" ", hop.text("question")))
        answers.append(hop.text("answer"))
        hops.append(Hop(query, answers[-1]))
    return tuple(hops)


# --------
# The format that HotpotQA and 2WikiMultihopQA share: a list of questions with ten paragraphs cut into sentences.
#
# A row has ``_id``, ``question``, ``answer``, ``type``, ``context`` ([title, [sentence, ...]] for each paragraph) and
# ``supporting_facts`` ([title, number of the sentence from 0]). On a hub it has ``id``, and the two lists are columns:
# {"title": [...], "sentences": [...]} and {"title": [...], "sent_id": [...]}. A paragraph becomes a text of its title,
# a line break and its sentences. Asked about are the titles of the supporting facts.
#
# Evidence is one piece for each supporting fact: the range of that sentence. The authors name some sentences that the
# paragraph does not have (the number after the last: 6 facts in 500 questions of 2WikiMultihopQA's train file); such a
# fact is left out, and so is a blank sentence. Where the whole paragraph is missing, a needed piece can never be shown
# and the item gets no evidence at all. Both are counted in the log. Where two paragraphs have the title, the first
# that has the sentence counts.

Fact = tuple[str, int]
"""A supporting fact: title and number of the sentence."""


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


# --------
# HotpotQA in the distractor setting: questions over two of ten Wikipedia paragraphs (Yang et al. 2018).
#
# The format and what evidence is stand in ``wiki``; a sentence begins with its own blank, so sentences are joined by
# nothing. The set has no sub-questions: what stands nearest is a look-up of each gold title, in the order of the
# supporting facts. For a bridge question the second title is what the first paragraph leads to.

HOTPOTQA: Final = "hotpotqa"


def read_hotpotqa(path: Path, part: str) -> DataSet:
    """A file such as ``hotpot_dev_distractor_v1.json``. Raises InputError naming file, row and field."""
    return read_wiki(path, HOTPOTQA, part, "", _titles)


def _titles(row: Row) -> tuple[str, ...]:
    return tuple(dict.fromkeys(title for title, _ in supporting_facts(row)))


# --------
# HotpotQA over one corpus for all questions: a questions file beside ``pooled_corpus.jsonl``.
#
# The corpus has a paragraph a line (``title``, ``text``), the questions file is a JSON list of ``_id``, ``question``,
# ``answer``, ``type`` and ``gold_titles``. Each paragraph of the corpus becomes a text, title line first. The corpus
# is every item's haystack; ``text_ids`` names the gold paragraphs only, since an item's own distractors are not told
# apart.
#
# Evidence is the gold paragraphs without their title lines: the file does not say which sentences. An item with a gold
# title that the corpus lacks gets no evidence, since what is needed can never be shown whole; such items are counted
# in the log. Gold queries are the gold titles, as for HotpotQA itself, whose labels it has.

HOTPOTQA_POOLED: Final = "hotpotqa_pooled"
QUESTIONS: Final = "pooled_questions.json"
CORPUS: Final = "pooled_corpus.jsonl"

logger = logging.getLogger(__name__)


def read_hotpotqa_pooled(path: Path, part: str) -> DataSet:
    """The questions file, or the folder that holds it. Raises InputError naming file, row and field."""
    questions = path / QUESTIONS if path.is_dir() else path
    texts: dict[str, Text] = {}
    corpus = _corpus(questions.with_name(CORPUS), texts)
    ids = QueryIds(HOTPOTQA_POOLED)
    items = tuple(_item(row, ids, corpus) for row in json_rows(questions))
    lost = sum(not item.evidence for item in items)
    logger.info("%s: %d questions have a gold title that the corpus lacks.", questions, lost)
    return DataSet(HOTPOTQA_POOLED, part, texts, items)


def _corpus(path: Path, texts: dict[str, Text]) -> dict[str, Text]:
    corpus: dict[str, Text] = {}
    for row in jsonl_rows(path):
        title = row.text("title")
        if title in corpus:
            row.bad("title", f"is {title!r}, as in an earlier row: a gold title would name two paragraphs")
        corpus[title] = keep_titled(texts, title, row.text("text"))
    return corpus


def _item(row: Row, ids: QueryIds, corpus: dict[str, Text]) -> Item:
    titles = tuple(dict.fromkeys(texts_of(row, "gold_titles", row.get("gold_titles", list))))
    if not titles:
        row.bad("gold_titles", "names no title")
    gold = {title: corpus[title] for title in titles if title in corpus}
    complete = len(gold) == len(titles)
    label, answers = row.text("type"), (row.text("answer"),)
    type_ = row_type(row, "type", HOTPOTQA, label)
    question = Question(ids.take(row, "_id"), row.text("question"), answers=answers, type=type_)
    parts = grounded(one_part(answers), [text.text for text in gold.values()]) if gold else ()
    return Item(
        Gold(question, HOTPOTQA_POOLED, label, parts),
        documents=titles,
        text_ids=tuple(text.text_id for text in gold.values()),
        evidence=tuple(whole_paragraph(text, title) for title, text in gold.items()) if complete else (),
        gold_queries=titles,
    )


# --------
# 2WikiMultihopQA: questions made from Wikidata's relations, over two to four of ten paragraphs (Ho et al. 2020).
#
# The format and what evidence is stand in ``wiki``; its sentences come stripped, so they are joined by a blank. Each
# row also has ``evidences``: the [subject, relation, object] triples that lead to the answer. A perfect writer would
# ask for the object of each, so the gold queries are "subject relation" in the triples' order ("Ann Alder mother").
# Files with ``qa_pairs`` also have each as a whole sentence ("Who is the mother of Ann Alder?"), and its answer as
# another, of which the triple has the words that count.

TWOWIKI: Final = "2wikimultihopqa"


def read_twowiki(path: Path, part: str) -> DataSet:
    """A file such as ``dev.json``. Raises InputError naming file, row and field."""
    return read_wiki(path, TWOWIKI, part, " ", _relations, _sub_questions, _hops_twowiki)


def _relations(row: Row) -> tuple[str, ...]:
    return tuple(dict.fromkeys(triple.query for triple in _triples(row)))


def _triples(row: Row) -> list[Hop]:
    triples = []
    for triple in row.get("evidences", list):
        match triple:
            case [str(subject), str(relation), str(told)]:
                triples.append(Hop(f"{subject} {relation}", told))
            case _:
                row.bad("evidences", f"holds {triple!r} and not a subject, a relation and an object")
    return triples


def _hops_twowiki(row: Row) -> tuple[Hop, ...]:
    """The triples; as whole sentences where the pairs are as many and each answer names its triple's object."""
    triples = _triples(row)
    pairs = list(row.rows("qa_pairs", "pair")) if "qa_pairs" in row.values else []
    if len(pairs) != len(triples):
        return tuple(triples)
    return tuple(
        Hop(pair.text("question"), triple.answer) if triple.answer in pair.text("answer") else triple
        for pair, triple in zip(pairs, triples, strict=True)
    )


def _sub_questions(row: Row) -> tuple[str, ...]:
    if "qa_pairs" not in row.values:
        return ()
    return tuple(dict.fromkeys(pair.text("question") for pair in row.rows("qa_pairs", "pair")))
