"""Reading rows of a set: the executor's own prompts over our own retrieval, each with the reply that it should get."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from okralong.pipelines.answering.operators.context import process_context
from okralong.pipelines.answering.operators.pool import pool
from okralong.pipelines.answering.operators.retrieve import assembled_retrieval
from okralong.pipelines.answering.operators.split import split_retrieval
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts.answer import UNANSWERABLE, answer_prompt
from okralong.pipelines.answering.prompts.split import split_prompt
from okralong.pipelines.answering.prompts.step import step_prompt
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion
from okralong.pipelines.evaluation.evidence.bench import Bench
from okralong.pipelines.evaluation.evidence.gold_labels import gold_labels
from okralong.pipelines.evaluation.evidence.measure import Shown, measure
from okralong.pipelines.evaluation.evidence.tools import BenchTools, prompt_size
from okralong.pipelines.evaluation.evidence.writers import GoldWriter, as_question
from okralong.pipelines.evaluation.labels import gold_analysis
from okralong.pipelines.evaluation.recall import answer_recall
from okralong.pipelines.reader.config import ReadingConfig
from okralong.pipelines.reader.formulas import formula
from okralong.pipelines.reader.quotes import quotes
from okralong.pipelines.reader.replies import answer_reply, held_back_reply, split_reply, step_reply
from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.reader.wording import spoken_answer
from okralong.pipelines.values import Analysis, Hit, Message, Passage, Plan, RetrieverScores

ENOUGH = 0.25
"""Of an abstractive question's evidence, long stretches of talk or prose, that must be shown to answer it. Ours."""


@dataclass
class Collector:
    """The rows of one set's questions."""

    bench: Bench
    policy: Policy
    config: ReadingConfig

    async def rows(self) -> list[ReadingRow]:
        """The rows of every question, in the questions' order."""
        found = [row for question in self.bench.pooled.questions for row in await self._of(question)]
        return [row for row in found if prompt_size(row.messages) <= self.config.most_prompt_tokens]

    async def _of(self, question: PooledQuestion) -> list[ReadingRow]:
        drawn = random.Random(f"{self.config.seed}:{question.item.gold.question.query_id}")
        tools = self._tools(question)
        plan = await self._plan(question, drawn.choice(self.config.context_tokens))
        found: list[ReadingRow] = []
        if plan.workflow == "step":
            finds, steps = await self._steps(question, tools, plan)
            found += steps
            hits = pool(finds)
        elif plan.workflow == "split":
            found += self._split(question, plan)
            hits = await split_retrieval(tools, question.item.gold.question.question, plan)
        else:
            hits = await assembled_retrieval(tools, "retrieve", question.item.gold.question.question, plan)
        return found + await self._answers(question, hits, plan, tools, drawn)

    async def _answers(
        self, question: PooledQuestion, hits: Sequence[Hit], plan: Plan, tools: BenchTools, drawn: random.Random
    ) -> list[ReadingRow]:
        passages = await process_context(hits, plan, tools)
        expressed = drawn.random() < self.config.expressions
        if not passages:
            return []
        can = self._can_be_answered(question, passages)
        found = []
        if can is not None:
            row = self._answer(question, passages, can, expressed)
            found += [row] if row else []
        if can and drawn.random() < self.config.held_back:
            rest = [each for each in passages if not self._tells(question, each)]
            row = self._answer(question, rest, False, expressed) if rest else None
            found += [row] if row else []
        return found

    def _answer(
        self, question: PooledQuestion, passages: Sequence[Passage], can: bool, expressed: bool
    ) -> ReadingRow | None:
        item = question.item
        asked = item.gold.question
        expression = formula(item.calculation, asked.answers) if expressed and can else None
        # Where the set does not say how, or says it wrongly, the result is learned, and the prompt asks for that.
        calculator = expressed and not (can and asked.type == "arithmetic" and expression is None)
        messages = answer_prompt(asked.question, passages, calculator=calculator)
        if not can:
            return self._row(question, "generate", messages, held_back_reply(), passages, False, calculator)
        said = spoken_answer(asked.answers, self.config.most_answer_words)
        if said is None:
            return None
        reply = answer_reply(expression or said, quotes(passages, question.evidence, said))
        return self._row(question, "generate", messages, reply, passages, True, calculator)

    async def _steps(
        self, question: PooledQuestion, tools: BenchTools, plan: Plan
    ) -> tuple[list[list[Hit]], list[ReadingRow]]:
        """The finds of every look-up, and a row for each step until all evidence is in view."""
        asked = question.item.gold.question
        finds = [await assembled_retrieval(tools, "retrieve", asked.question, plan)]
        found: list[ReadingRow] = []
        queries = _queries(question)
        said = spoken_answer(asked.answers, self.config.most_answer_words)
        for number in range(1, plan.max_steps + 1):
            passages = await process_context(pool(finds), plan, tools)
            done = bool(self._shown(question, passages).all_evidence)
            query = "" if done else self._next(question, passages, queries)
            if said is None or not passages or not (done or query):
                break
            held = quotes(passages, question.evidence, said)
            reply = step_reply(held, query, said if done else "")
            found.append(self._row(question, "step", step_prompt(asked.question, passages), reply, passages, done))
            if done:
                break
            queries = [each for each in queries if each != query]
            finds.append(await assembled_retrieval(tools, f"step/{number}/retrieve", query, plan))
        return finds, found

    def _next(self, question: PooledQuestion, passages: Sequence[Passage], queries: Sequence[str]) -> str:
        """The look-up for the first piece that is not in view, where pieces and look-ups go together; else the next."""
        every = _queries(question)
        if len(every) == len(question.evidence):
            for query, piece in zip(every, question.evidence, strict=True):
                if query in queries and not quotes(passages, [piece]):
                    return query
        return queries[0] if queries else ""

    def _split(self, question: PooledQuestion, plan: Plan) -> list[ReadingRow]:
        queries = _queries(question)[: plan.max_sub_questions]
        if len(queries) < 2:
            return []
        messages = split_prompt(question.item.gold.question.question, plan.max_sub_questions)
        return [self._row(question, "split", messages, split_reply(queries), (), True)]

    def _can_be_answered(self, question: PooledQuestion, passages: Sequence[Passage]) -> bool | None:
        """Whether the passages hold what the answer needs; None where that cannot be told."""
        shown = self._shown(question, passages)
        if question.item.gold.question.type == "abstractive" and shown.evidence_recall is not None:
            return True if shown.evidence_recall >= ENOUGH else False if shown.evidence_recall == 0 else None
        if shown.all_evidence or (shown.all_evidence is None and shown.answer_recall == 1):
            return True
        told = answer_recall(question.item.gold.parts, [passage.text for passage in passages])
        return None if told or shown.all_evidence is None else False

    def _tells(self, question: PooledQuestion, passage: Passage) -> bool:
        """Whether a passage shows evidence, or names the answer."""
        return bool(quotes([passage], question.evidence)) or bool(
            answer_recall(question.item.gold.parts, [passage.text])
        )

    def _shown(self, question: PooledQuestion, passages: Sequence[Passage]) -> Shown:
        return measure(question, passages, self.bench.texts)

    async def _plan(self, question: PooledQuestion, tokens: int) -> Plan:
        """The organizer's plan by gold labels, with a context of at most so many tokens."""
        labels = await gold_labels(
            self.bench.retrievals, self.bench.texts, question, self.policy.primary.granularity, ()
        )
        pattern = labels[0] if labels else "same"
        analysis = gold_analysis(question.item.gold.question.type, pattern, evidence=False)
        plan = organize(analysis, self.policy, precise=False)
        # A look-up of a step or of a sub-question is one of several.
        share = tokens if plan.workflow in ("linear", "extend") else tokens // 2
        return replace(plan, max_tokens=share, sub_question_tokens=share)

    def _tools(self, question: PooledQuestion) -> BenchTools:
        return BenchTools(
            self.bench.retrievals, self.policy, question.doc_ids, tuple(_queries(question)), _unasked, GoldWriter()
        )

    def _row(
        self,
        question: PooledQuestion,
        role: str,
        messages: Sequence[Message],
        reply: str,
        passages: Sequence[Passage],
        answerable: bool,
        calculator: bool = False,
    ) -> ReadingRow:
        asked = question.item.gold.question
        system, user = messages
        return ReadingRow(
            query_id=asked.query_id,
            source=self.bench.name,
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


def _queries(question: PooledQuestion) -> list[str]:
    """What is to be looked up, as questions: the set's own sentences, or its gold queries put so."""
    item = question.item
    return [as_question(query) for query in (item.sub_questions or item.gold_queries)]


async def _unasked(text: str, chunks: Sequence[Hit], scores: RetrieverScores) -> Analysis:
    raise AssertionError("the collector plans by gold labels")
