"""HotpotQA over one corpus for all questions: a questions file beside ``pooled_corpus.jsonl``.

The corpus has a paragraph a line (``title``, ``text``), the questions file is a JSON list of ``_id``, ``question``,
``answer``, ``type`` and ``gold_titles``. Each paragraph of the corpus becomes a text, title line first. The corpus is
every item's haystack; ``text_ids`` names the gold paragraphs only, since an item's own distractors are not told apart.

Evidence is the gold paragraphs without their title lines: the file does not say which sentences. An item with a gold
title that the corpus lacks gets no evidence, since what is needed can never be shown whole; such items are counted in
the log. Gold queries are the gold titles, as for HotpotQA itself, whose labels it has.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets import hotpotqa
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, one_part
from okralong.pipelines.evaluation.datasets.fields import Row, json_rows, jsonl_rows, texts_of
from okralong.pipelines.evaluation.datasets.naming import QueryIds, row_type
from okralong.pipelines.evaluation.datasets.titled import keep_titled, whole_paragraph
from okralong.pipelines.evaluation.datasets.values import DataSet, Item, Text
from okralong.pipelines.evaluation.gold import Gold

NAME: Final = "hotpotqa_pooled"
QUESTIONS: Final = "pooled_questions.json"
CORPUS: Final = "pooled_corpus.jsonl"

logger = logging.getLogger(__name__)


def read(path: Path, part: str) -> DataSet:
    """The questions file, or the folder that holds it. Raises InputError naming file, row and field."""
    questions = path / QUESTIONS if path.is_dir() else path
    texts: dict[str, Text] = {}
    corpus = _corpus(questions.with_name(CORPUS), texts)
    ids = QueryIds(NAME)
    items = tuple(_item(row, ids, corpus) for row in json_rows(questions))
    lost = sum(not item.evidence for item in items)
    logger.info("%s: %d questions have a gold title that the corpus lacks.", questions, lost)
    return DataSet(NAME, part, texts, items)


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
    type_ = row_type(row, "type", hotpotqa.NAME, label)
    question = Question(ids.take(row, "_id"), row.text("question"), answers=answers, type=type_)
    parts = grounded(one_part(answers), [text.text for text in gold.values()]) if gold else ()
    return Item(
        Gold(question, NAME, label, parts),
        documents=titles,
        text_ids=tuple(text.text_id for text in gold.values()),
        evidence=tuple(whole_paragraph(text, title) for title, text in gold.items()) if complete else (),
        gold_queries=titles,
    )
