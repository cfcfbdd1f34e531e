"""Questions that may be asked of the same context, so that it is read once for all of them while they are learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.answer_parts import one_part
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion
from okralong.pipelines.evaluation.evidence.writers import as_question
from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.evaluation.recall import answer_recall, findable


def hop_questions(question: PooledQuestion, texts: Mapping[str, str]) -> list[PooledQuestion]:
    """The look-ups on the way to an answer as extractive questions of their own.

    Evidence is the first gold piece that names a look-up's answer; a look-up without one is left out. ``texts`` has
    the documents by doc_id.
    """
    found = []
    for number, hop in enumerate(question.item.hops, start=1):
        answers = findable([hop.answer])
        pieces = [
            piece
            for piece in question.evidence
            if answer_recall((answers,), [texts[piece.doc_id][piece.start_char : piece.end_char]])
        ]
        if not answers or not pieces:
            continue
        gold = question.item.gold
        asked = Question(
            f"{gold.question.query_id}-hop{number}", as_question(hop.query), answers=answers, type="extractive"
        )
        item = replace(
            question.item,
            gold=Gold(asked, gold.dataset, gold.source_type, one_part(answers)),
            evidence=(),
            cells=(),
            gold_queries=(),
            sub_questions=(),
            hops=(),
        )
        found.append(replace(question, item=item, evidence=(pieces[0],), cells=()))
    return found


class Kin:
    """Questions by the texts that they ask about; each is given out once."""

    def __init__(self, questions: Iterable[PooledQuestion]) -> None:
        self._waiting = {question.item.gold.question.query_id: question for question in questions}
        self._by_text: dict[str, list[str]] = {}
        for query_id, question in self._waiting.items():
            for text_id in question.item.text_ids:
                self._by_text.setdefault(text_id, []).append(query_id)

    def waiting(self, question: PooledQuestion) -> bool:
        """Whether the question has not been given out."""
        return question.item.gold.question.query_id in self._waiting

    def give(self, question: PooledQuestion) -> None:
        """Mark a question as given out."""
        self._waiting.pop(question.item.gold.question.query_id, None)

    def of(self, question: PooledQuestion) -> Sequence[PooledQuestion]:
        """Those still waiting that share a text with ``question``, in their order."""
        shared = (query_id for text_id in question.item.text_ids for query_id in self._by_text.get(text_id, ()))
        return [self._waiting[query_id] for query_id in dict.fromkeys(shared) if query_id in self._waiting]
