"""Read sets over Wikipedia paragraphs: HotpotQA, 2WikiMultihopQA, MuSiQue, HotpotQA over one corpus, and SQuAD.

A paragraph becomes a text: its title, a line break and its words. An item's documents are the titles of the paragraphs
that the set marks as needed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from okralong.lab.datasets.answers import grounded, one_part
from okralong.lab.datasets.base import Builder, DataSet, Evidence, Hop, Item, Text, whole
from okralong.lab.datasets.files import Row, read_json, row_of, rows_in
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.places import Range, sentence_at, trimmed
from okralong.pipelines.core.wording import counted

HOTPOTQA: Final = "hotpotqa"
HOTPOTQA_POOLED: Final = "hotpotqa_pooled"
TWOWIKI: Final = "2wikimultihopqa"
MUSIQUE: Final = "musique"
SQUAD: Final = "squad"
UNANSWERABLE: Final = "unanswerable"

QUESTIONS: Final = "pooled_questions.json"
CORPUS: Final = "pooled_corpus.jsonl"

ANSWERABLE: Final = "answerable"
"""The label of SQuAD's questions with an answer, and the suffix of a part without the others."""

_STEP: Final = re.compile(r"#(\d+)")
_RELATION: Final = re.compile(r"\s*>>\s*")

logger = logging.getLogger(__name__)

# --------
# The format that HotpotQA and 2WikiMultihopQA share: a list of questions with ten paragraphs cut into sentences.
#
# A row has ``_id``, ``question``, ``answer``, ``type``, ``context`` ([title, [sentence, ...]] for each paragraph) and
# ``supporting_facts`` ([title, number of the sentence from 0]). On a hub, the id is ``id``, and the two lists are
# columns: {"title": [...], "sentences": [...]} and {"title": [...], "sent_id": [...]}.
#
# The evidence has a piece per supporting fact: the range of its sentence. A fact is left out if its sentence is blank
# or its number is too large (6 facts in 500 questions of 2WikiMultihopQA's train file). An item that lacks a whole
# paragraph has no evidence, because it could never be complete. Both are counted in the log. If two paragraphs have the
# same title, the first that has the sentence is used.

Fact = tuple[str, int]
"""A supporting fact: the title of a paragraph and the number of a sentence."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text with a title, and the range of each of its sentences."""

    title: str
    text: Text
    sentences: tuple[Range, ...]


def read_hotpotqa(path: Path, part: str) -> DataSet:
    """Read HotpotQA in the distractor setting: questions over two of ten paragraphs (Yang et al. 2018).

    The sentences of the file begin with a blank. The set has no sub-questions, so the gold queries are the gold titles
    in the order of the supporting facts; in a bridge question, the first paragraph mentions the second title. Raises
    InputError naming file, row and field.
    """
    return _read(path, HOTPOTQA, part, "", _titles)


def read_twowiki(path: Path, part: str) -> DataSet:
    """Read 2WikiMultihopQA: questions from Wikidata's relations, over two to four of ten paragraphs (Ho et al. 2020).

    The sentences of the file are stripped. ``evidences`` has the [subject, relation, object] triples that lead to the
    answer. The gold queries are made from these, in order: "subject relation" ("Ann Alder mother"). Files with
    ``qa_pairs`` also have each query as a sentence ("Who is the mother of Ann Alder?"), with an answer whose words are
    in the triple. Raises InputError naming file, row and field.
    """
    return _read(path, TWOWIKI, part, " ", _relations, _sub_questions, _hops)


def _none(row: Row) -> tuple[()]:
    return ()


def _read(
    path: Path,
    name: str,
    part: str,
    between: str,
    gold_queries: Callable[[Row], tuple[str, ...]],
    sub_questions: Callable[[Row], tuple[str, ...]] = _none,
    hops: Callable[[Row], tuple[Hop, ...]] = _none,
) -> DataSet:
    """Read the questions in file order. ``between`` is the text to put between two sentences."""
    made, lost = Builder(name, part), 0
    for row in rows_in(path):
        paragraphs, facts = _paragraphs(row, made, between), supporting_facts(row)
        evidence = _evidence(paragraphs, facts)
        lost += len(facts) - len(evidence)
        made.items.append(
            Item(
                _gold(row, made, name, "_id" if "_id" in row.values else "id", [each.text for each in paragraphs]),
                documents=tuple(dict.fromkeys(title for title, _ in facts)),
                text_ids=tuple(dict.fromkeys(paragraph.text.text_id for paragraph in paragraphs)),
                evidence=evidence,
                gold_queries=gold_queries(row),
                sub_questions=sub_questions(row),
                hops=hops(row),
            )
        )
    logger.info("%s: %d supporting facts are not in the context.", path, lost)
    return made.built()


def _gold(row: Row, made: Builder, labels: str, id_field: str, texts: Sequence[Text]) -> Gold:
    label, answer = row.text("type"), row.text("answer")
    parts = grounded(one_part([answer]), [text.text for text in texts])
    return made.gold(row, id_field, [answer], row.type_of("type", labels, label), label, parts)


def supporting_facts(row: Row) -> list[Fact]:
    """Return the distinct facts. Raises InputError for a malformed one."""
    facts = []
    for fact in _pairs(row, "supporting_facts", "sent_id"):
        match fact:
            case [str(title), int(number)] if number >= 0:
                facts.append((title, number))
            case _:
                row.bad("supporting_facts", f"holds {fact!r} and not a title with the number of a sentence")
    return list(dict.fromkeys(facts))


def _pairs(row: Row, field: str, second: str) -> list[Any]:
    """Return the pairs of a list, or of two columns (``title`` and ``second``)."""
    if not isinstance(row.values.get(field), dict):
        return row.get(field, list)
    columns = row.inner(field)
    titles, others = columns.get("title", list), columns.get(second, list)
    if len(titles) != len(others):
        columns.bad(second, f"has {counted(len(others), 'entry')} for {counted(len(titles), 'title')}")
    return [list(pair) for pair in zip(titles, others, strict=True)]


def _paragraphs(row: Row, made: Builder, between: str) -> list[Paragraph]:
    paragraphs = []
    for entry in _pairs(row, "context", "sentences"):
        match entry:
            case [str(title), list(sentences)]:
                paragraphs.append(_paragraph(made, title, row.all_texts("context", sentences), between))
            case _:
                row.bad("context", "has an entry that is not a title with a list of sentences")
    return paragraphs


def _paragraph(made: Builder, title: str, sentences: Sequence[str], between: str) -> Paragraph:
    text, ranges = title + "\n", []
    for number, sentence in enumerate(sentences):
        text += between if number else ""
        ranges.append((len(text), len(text) + len(sentence)))
        text += sentence
    return Paragraph(title, made.text(title, text), tuple(ranges))


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


def _titles(row: Row) -> tuple[str, ...]:
    return tuple(dict.fromkeys(title for title, _ in supporting_facts(row)))


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


def _hops(row: Row) -> tuple[Hop, ...]:
    """Return the triples as look-ups. They are sentences if each has a question-answer pair that names its object."""
    triples, pairs = _triples(row), _qa_pairs(row)
    if len(pairs) != len(triples):
        return tuple(triples)
    return tuple(
        Hop(pair.text("question"), triple.answer) if triple.answer in pair.text("answer") else triple
        for pair, triple in zip(pairs, triples, strict=True)
    )


def _sub_questions(row: Row) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pair.text("question") for pair in _qa_pairs(row)))


def _qa_pairs(row: Row) -> list[Row]:
    return list(row.rows("qa_pairs", "pair")) if "qa_pairs" in row.values else []


# --------
# HotpotQA over one corpus for all questions together.


def read_hotpotqa_pooled(path: Path, part: str) -> DataSet:
    """Read a questions file beside ``pooled_corpus.jsonl``; ``path`` may also be the folder with both.

    The corpus has a paragraph per line (``title``, ``text``); the questions file is a JSON list of ``_id``,
    ``question``, ``answer``, ``type`` and ``gold_titles``. Every item's scope is the corpus; ``text_ids`` has only the
    gold paragraphs, since the file does not name an item's distractors. The evidence is the gold paragraphs without
    their title lines, since the file does not name sentences. An item with a gold title that the corpus lacks has no
    evidence and is counted in the log. Gold queries and labels are as in HotpotQA. Raises InputError naming file, row
    and field.
    """
    questions = path / QUESTIONS if path.is_dir() else path
    made = Builder(HOTPOTQA_POOLED, part)
    corpus: dict[str, Text] = {}
    for row in rows_in(questions.with_name(CORPUS)):
        title = row.text("title")
        if title in corpus:
            row.bad("title", f"is {title!r}, as in an earlier row: a gold title would name two paragraphs")
        corpus[title] = made.titled(title, row.text("text"))
    made.items += [_pooled_item(row, made, corpus) for row in rows_in(questions)]
    lost = sum(not item.evidence for item in made.items)
    logger.info("%s: %d questions have a gold title that the corpus lacks.", questions, lost)
    return made.built()


def _pooled_item(row: Row, made: Builder, corpus: dict[str, Text]) -> Item:
    titles = tuple(dict.fromkeys(row.texts("gold_titles")))
    if not titles:
        row.bad("gold_titles", "names no title")
    gold = {title: corpus[title] for title in titles if title in corpus}
    complete, found = len(gold) == len(titles), _gold(row, made, HOTPOTQA, "_id", list(gold.values()))
    return Item(
        found if gold else replace(found, parts=()),
        documents=titles,
        text_ids=tuple(text.text_id for text in gold.values()),
        evidence=tuple(whole(text, title) for title, text in gold.items()) if complete else (),
        gold_queries=titles,
    )


# --------
# MuSiQue.


def read_musique(path: Path, part: str) -> DataSet:
    """Read MuSiQue: questions composed of two to four single-hop questions, over 20 paragraphs (Trivedi et al. 2022).

    A row has ``id`` ("3hop1__" and the numbers of its single-hop questions), ``question``, ``answer``,
    ``answer_aliases``, ``answerable``, ``paragraphs`` (title, paragraph_text, is_supporting) and
    ``question_decomposition`` (question, answer). Rows come as a JSON list or, as the authors publish them, one per
    line. The label is the first part of the id. The evidence is each supporting paragraph without its title line. The
    gold queries are the single-hop questions, in which "#1" is replaced by the answer of the first step, and so on;
    ">>" is removed from those written as "subject >> relation".

    In the full version a question occurs twice with the same id, once without a paragraph that it needs (``answerable``
    is false). The latter has the gold answer "unanswerable", which generators are instructed to reply, a marked id, and
    no evidence. Raises InputError naming file, row and field.
    """
    made = Builder(MUSIQUE, part)
    made.items += [_musique_item(row, made) for row in rows_in(path)]
    return made.built()


def _musique_item(row: Row, made: Builder) -> Item:
    label, answerable = row.text("id").split("__")[0], row.get("answerable", bool)
    context: list[Text] = []
    documents: list[str] = []
    evidence: list[Evidence] = []
    for paragraph in row.rows("paragraphs", "paragraph"):
        title = paragraph.text("title")
        context.append(made.titled(title, paragraph.text("paragraph_text")))
        if paragraph.get("is_supporting", bool):
            documents.append(title)
            evidence.append(whole(context[-1], title))
    answers = list(dict.fromkeys([row.text("answer"), *row.texts("answer_aliases")]))
    if not answerable:
        answers, evidence = [UNANSWERABLE], []
    parts = grounded(one_part(answers), [text.text for text in context])
    prefix = "" if answerable else f"{MUSIQUE}-{UNANSWERABLE}"
    hops = _decomposition(row)
    queries = tuple(dict.fromkeys(hop.query for hop in hops))
    return Item(
        made.gold(row, "id", answers, row.type_of("id", MUSIQUE, label), label, parts, prefix),
        documents=tuple(dict.fromkeys(documents)),
        text_ids=tuple(dict.fromkeys(text.text_id for text in context)),
        evidence=tuple(dict.fromkeys(evidence)),
        gold_queries=queries,
        sub_questions=queries if all(query.endswith("?") for query in queries) else (),
        hops=hops,
    )


def _decomposition(row: Row) -> tuple[Hop, ...]:
    hops: list[Hop] = []

    def earlier(step: re.Match[str]) -> str:
        number = int(step[1])
        return hops[number - 1].answer if 0 < number <= len(hops) else step[0]

    for hop in row.rows("question_decomposition", "step"):
        query = _STEP.sub(earlier, _RELATION.sub(" ", hop.text("question")))
        hops.append(Hop(query, hop.text("answer")))
    return tuple(hops)


# --------
# SQuAD.


def read_squad(path: Path, part: str) -> DataSet:
    """Read SQuAD 2.0, or 1.1: questions on one paragraph of an article (Rajpurkar et al. 2018).

    The file is one object. ``data`` has articles (``title``, ``paragraphs``); a paragraph has ``context`` and ``qas``:
    ``id``, ``question``, ``answers`` (``text``, ``answer_start``) and, in 2.0, ``is_impossible``. Each "_" in a title
    becomes a blank, as in the other sets. The answers of all annotators are wordings; the evidence is the sentence that
    contains the first. The paragraph is the item's context.

    An impossible question has the gold answer "unanswerable", which generators are instructed to reply, and no
    evidence. A part that ends in "_answerable", such as dev_answerable, has no such question. Raises InputError naming
    file, article, question and field.
    """
    made = Builder(SQUAD, part)
    for article in row_of(path, "the file's content", read_json(path)).rows("data", "article"):
        title = article.text("title").replace("_", " ")
        for paragraph in article.rows("paragraphs", "paragraph"):
            context = paragraph.text("context")
            text = made.titled(title, context)
            made.items += [_squad_item(row, made, text, context) for row in paragraph.rows("qas", "question")]
    if part.endswith(f"_{ANSWERABLE}"):
        made.items = [item for item in made.items if item.gold.source_type == ANSWERABLE]
    return made.built()


def _squad_item(row: Row, made: Builder, text: Text, context: str) -> Item:
    impossible = "is_impossible" in row.values and row.get("is_impossible", bool)
    label = "impossible" if impossible else ANSWERABLE
    answers, evidence = ((UNANSWERABLE,), ()) if impossible else _squad_answers(row, text, context)
    parts = grounded(one_part(answers), [text.text])
    gold = made.gold(row, "id", answers, row.type_of("is_impossible", SQUAD, label), label, parts)
    return Item(gold, (text.document,), (text.text_id,), evidence)


def _squad_answers(row: Row, text: Text, context: str) -> tuple[tuple[str, ...], tuple[Evidence, ...]]:
    """Return the wordings of the answer, and the sentence that contains the first."""
    answers = [(answer.text("text"), answer.get("answer_start", int)) for answer in row.rows("answers", "answer")]
    if not answers:
        row.bad("answers", "holds no answer, and the question is not marked as impossible")
    for wording, start in answers:
        if start < 0 or context[start : start + len(wording)] != wording:
            row.bad("answers", f"puts {wording!r} at character {start} of the context, where it is not")
    wording, start = answers[0]
    before = len(text.text) - len(context)
    place = (before + start, before + start + len(wording))
    sentence = sentence_at(text.text, (before, len(text.text)), place)
    return tuple(dict.fromkeys(each.strip() for each, _ in answers)), (Evidence(text.text_id, *sentence),)
