"""Answer with a sentence of the passages where the run's own models do not know the question's language.

The embedded generator and the shipped cross-encoder were trained on English. On German questions the generator wrote
words of the passages at random, while retrieval had found the evidence, so the sentence or table row that shares most
terms with the question is quoted instead. Not in the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from okralong.pipelines.answering.answer_types import AMOUNTS, TEXT, AnswerType, with_value
from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.languages import language_name
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.readers.reader import Reader
from okralong.pipelines.answering.readers.spans import cited
from okralong.pipelines.answering.retrieve import pool
from okralong.pipelines.answering.support import units
from okralong.pipelines.archive.terms import analyze_query
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Passage
from okralong.pipelines.statements.cited import BY_RULES
from okralong.pipelines.statements.table_words import is_year


class Quoted(Reader):
    """Quotes the sentence that shares most terms with the question; see ``quoted``."""

    way = "sentence"
    stage = "after"

    def fits(self, ask: Ask) -> bool:
        """Return whether the run's own models answer, and know English alone, unlike the question."""
        return ask.tools.quotes

    async def read(self, ask: Ask, finds: Finds) -> Answer:
        """Return the answer."""
        shown = tuple(passage_of(hit) for hit in pool([hits for _, hits in finds]))
        chars = sum(len(each.text) for each in shown)
        return await off_loop(chars, partial(quoted, ask.question, shown, ask.tools.language, ask.wanted))


def quoted(question: str, shown: Sequence[Passage], language: str, wanted: AnswerType = TEXT) -> Answer:
    """Return the sentence or row of the passages that shares most terms with the question, with rare ones weighted.

    Words of a document's name do not count: every report has the name of its company. A typed answer is the value of
    that sentence. The answer is "unanswerable", with the reason, if no term is shared or if the sentence does not have
    one such value.
    """

    def terms(text: str) -> set[str]:
        return set(analyze_query(text, [language], language))

    asked = terms(question)
    every = [(passage, span, terms(passage.text[slice(*span)])) for passage in shown for span, _ in units(passage.text)]
    held = Counter(term for _, _, there in every for term in there & asked)
    names = {passage.doc_id: terms(passage.doc_id.replace("-", " ").replace("_", " ")) for passage in shown}

    def weight(at: int) -> float:
        passage, _, there = every[at]
        return sum(1 / held[term] for term in (there & asked) - names[passage.doc_id])

    best = max(range(len(every)), key=weight, default=None)
    asked_in = language_name(language)
    why = f"The question is in {asked_in}, and the models of this run know English. Name one that knows it under llm."
    refused = Answer("unanswerable", UNANSWERABLE, context=tuple(shown), error=why, replied_by=(BY_RULES,))
    if best is None or not weight(best):
        return refused
    passage, span, _ = every[best]
    source = cited(passage, *span)
    said = " ".join(source.quote.split())
    found = Answer("answered", said, (source,), context=tuple(shown), replied_by=(BY_RULES,))
    if wanted == TEXT:
        return found
    typed = with_value(question, wanted, found)
    value = typed.value.value if typed.value is not None else ""
    if wanted.kind in AMOUNTS and is_year(value) and value in said:  # "RAPPORT ANNUEL 2023" states no amount
        return refused
    return typed if typed.status == "answered" else refused
