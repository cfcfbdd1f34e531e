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

import re
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.answer_parts import grounded, one_part
from okralong.pipelines.evaluation.datasets.fields import Row, rows_in, texts_of
from okralong.pipelines.evaluation.datasets.naming import QueryIds, row_type
from okralong.pipelines.evaluation.datasets.titled import keep_titled, whole_paragraph
from okralong.pipelines.evaluation.datasets.values import DataSet, Evidence, Hop, Item, Text
from okralong.pipelines.evaluation.gold import Gold

NAME: Final = "musique"
UNANSWERABLE: Final = "unanswerable"

_STEP: Final = re.compile(r"#(\d+)")
_RELATION: Final = re.compile(r"\s*>>\s*")


def read(path: Path, part: str) -> DataSet:
    """A file such as ``musique_ans_v1.0_dev.jsonl``. Raises InputError naming file, row and field."""
    texts: dict[str, Text] = {}
    ids = {True: QueryIds(NAME), False: QueryIds(f"{NAME}-{UNANSWERABLE}")}
    items = tuple(_item(row, texts, ids[row.get("answerable", bool)]) for row in rows_in(path))
    return DataSet(NAME, part, texts, items)


def _item(row: Row, texts: dict[str, Text], ids: QueryIds) -> Item:
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
        ids.take(row, "id"), row.text("question"), answers=answers, type=row_type(row, "id", NAME, label)
    )
    hops = _hops(row)
    queries = tuple(dict.fromkeys(hop.query for hop in hops))
    return Item(
        Gold(question, NAME, label, grounded(one_part(answers), [text.text for text in context])),
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
