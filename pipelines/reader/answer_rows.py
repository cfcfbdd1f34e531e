"""Answer rows: an executor's answer prompt over given passages, and the reply that the set's annotation asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.answering.prompts import UNANSWERABLE, answer_prompt
from okralong.pipelines.core.types import Message, Passage
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion
from okralong.pipelines.evaluation.evidence.measure import Shown, measure
from okralong.pipelines.evaluation.recall import answer_recall
from okralong.pipelines.reader.formulas import formula
from okralong.pipelines.reader.quotes import quotes
from okralong.pipelines.reader.replies import answer_reply, held_back_reply
from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.reader.wording import spoken_answer

ENOUGH: Final = 0.25
"""Of an abstractive question's evidence, long stretches of talk or prose, that must be shown to answer it. Ours."""


@dataclass(frozen=True)
class RowMaker:
    """Makes rows of a set named ``source``; ``texts`` has its documents by doc_id."""

    source: str
    texts: Mapping[str, str]
    most_answer_words: int

    def answer(
        self, question: PooledQuestion, passages: Sequence[Passage], can: bool, expressed: bool
    ) -> ReadingRow | None:
        """The row of a question whose passages hold the answer, or (``can`` false) do not; None: it cannot be said.

        ``expressed`` asks for a calculation's expression.
        """
        item = question.item
        asked = item.gold.question
        expression = formula(item.calculation, asked.answers) if expressed and can else None
        # Where the set does not say how, or says it wrongly, the result is learned, and the prompt asks for that.
        calculator = expressed and not (can and asked.type == "arithmetic" and expression is None)
        messages = answer_prompt(asked.question, passages, calculator=calculator)
        if not can:
            return self.row(question, "generate", messages, held_back_reply(), passages, False, calculator)
        said = spoken_answer(asked.answers, self.most_answer_words)
        if said is None:
            return None
        reply = answer_reply(expression or said, quotes(passages, question.evidence, said))
        return self.row(question, "generate", messages, reply, passages, True, calculator)

    def can_be_answered(self, question: PooledQuestion, passages: Sequence[Passage]) -> bool | None:
        """Whether the passages hold what the answer needs; None where that cannot be told."""
        shown = self.shown(question, passages)
        if question.item.gold.question.type == "abstractive" and shown.evidence_recall is not None:
            return True if shown.evidence_recall >= ENOUGH else False if shown.evidence_recall == 0 else None
        if shown.all_evidence or (shown.all_evidence is None and shown.answer_recall == 1):
            return True
        told = answer_recall(question.item.gold.parts, [passage.text for passage in passages])
        return None if told or shown.all_evidence is None else False

    def without_evidence(self, question: PooledQuestion, passages: Sequence[Passage]) -> list[Passage]:
        """The passages that neither show evidence nor name the answer."""
        parts = question.item.gold.parts
        return [
            passage
            for passage in passages
            if not quotes([passage], question.evidence) and not answer_recall(parts, [passage.text])
        ]

    def shown(self, question: PooledQuestion, passages: Sequence[Passage]) -> Shown:
        """What of the evidence stands in the passages."""
        return measure(question, passages, self.texts)

    def row(
        self,
        question: PooledQuestion,
        role: str,
        messages: Sequence[Message],
        reply: str,
        passages: Sequence[Passage],
        answerable: bool,
        calculator: bool = False,
    ) -> ReadingRow:
        """A row of any role."""
        asked = question.item.gold.question
        system, user = messages
        return ReadingRow(
            query_id=asked.query_id,
            source=self.source,
            documents=question.item.documents or question.doc_ids,
            role=role,
            type=asked.type,
            question=asked.question,
            system=system.content,
            user=user.content,
            reply=reply,
            answers=asked.answers if answerable else (UNANSWERABLE,),
            answerable=answerable,
            calculator=calculator,
            passages=tuple(passages),
            evidence=question.evidence,
        )
