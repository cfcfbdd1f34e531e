"""Reading rows of a set: the executor's own prompts over our own retrieval, each with the reply that it should get."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from okralong.pipelines.answering.context import process_context
from okralong.pipelines.answering.policy import Policy, organize
from okralong.pipelines.answering.prompts import split_prompt, step_prompt
from okralong.pipelines.answering.retrieve import assembled_retrieval, pool, split_retrieval
from okralong.pipelines.core.types import Analysis, Hit, Passage, Plan, RetrieverScores
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion
from okralong.pipelines.evaluation.evidence.bench import Bench
from okralong.pipelines.evaluation.evidence.gold_labels import gold_labels
from okralong.pipelines.evaluation.evidence.tools import BenchTools, prompt_size
from okralong.pipelines.evaluation.evidence.writers import GoldWriter, as_question
from okralong.pipelines.evaluation.labels import gold_analysis
from okralong.pipelines.reader.answer_rows import RowMaker
from okralong.pipelines.reader.config import ReadingConfig
from okralong.pipelines.reader.kin import Kin, hop_questions
from okralong.pipelines.reader.quotes import quotes
from okralong.pipelines.reader.replies import split_reply, step_reply
from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.reader.wording import spoken_answer


@dataclass
class Collector:
    """The rows of one set's questions.

    With ``learned`` a context is asked all that it answers, the look-ups of multi-hop questions among it; figures rest
    on the sets' own questions, each over its own retrieval.
    """

    bench: Bench
    policy: Policy
    config: ReadingConfig
    learned: bool = False

    def __post_init__(self) -> None:
        self._maker = RowMaker(self.bench.name, self.bench.texts, self.config.most_answer_words)
        self._kin = Kin(self.questions if self.learned else ())

    @cached_property
    def questions(self) -> list[PooledQuestion]:
        """Who is asked: the set's questions, then their look-ups where they are learned."""
        own = list(self.bench.pooled.questions)
        hops = [hop for question in own for hop in hop_questions(question, self.bench.texts)]
        return own + (hops if self.learned else [])

    async def rows(self) -> list[ReadingRow]:
        """The rows of every question, in the questions' order."""
        found: list[ReadingRow] = []
        for question in self.questions:
            if not self.learned or self._kin.waiting(question):
                self._kin.give(question)
                found += await self._of(question)
        return [row for row in found if prompt_size(row.messages) <= self.config.most_prompt_tokens]

    async def _of(self, question: PooledQuestion) -> list[ReadingRow]:
        """The rows at the context size drawn; what is to be learned may take a larger one that holds the answer."""
        drawn = random.Random(f"{self.config.seed}:{question.item.gold.question.query_id}")
        size = drawn.choice(self.config.context_tokens)
        larger = sorted(each for each in self.config.context_tokens if each > size) if self.learned else []
        rows: list[ReadingRow] = []
        for tokens in (size, *larger):
            rows = await self._within(question, tokens, drawn)
            if any(row.role == "generate" and row.answerable for row in rows):
                break
        return rows

    async def _within(self, question: PooledQuestion, tokens: int, drawn: random.Random) -> list[ReadingRow]:
        tools = self._tools(question)
        plan = await self._plan(question, tokens)
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
        can = self._maker.can_be_answered(question, passages)
        found = []
        if can is not None:
            row = self._maker.answer(question, passages, can, expressed)
            found += [row] if row else []
        if can and drawn.random() < self.config.held_back:
            rest = self._maker.without_evidence(question, passages)
            row = self._maker.answer(question, rest, False, expressed) if rest else None
            found += [row] if row else []
        # A context that does not answer its own question may be left for a larger one: its company would be lost.
        return found + (self._company(question, passages, expressed) if can and found else [])

    def _company(self, question: PooledQuestion, passages: Sequence[Passage], expressed: bool) -> list[ReadingRow]:
        """Further questions that the same passages answer."""
        found: list[ReadingRow] = []
        for other in self._kin.of(question):
            if len(found) == self.config.company:
                break
            if self._maker.can_be_answered(other, passages):
                row = self._maker.answer(other, passages, True, expressed)
                # A result where the context's other questions are answered by expressions would be a prompt apart.
                if row and row.calculator is expressed:
                    found.append(row)
                    self._kin.give(other)
        return found

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
            done = bool(self._maker.shown(question, passages).all_evidence)
            query = "" if done else self._next(question, passages, queries)
            if said is None or not passages or not (done or query):
                break
            held = quotes(passages, question.evidence, said)
            reply = step_reply(held, query, said if done else "")
            found.append(
                self._maker.row(question, "step", step_prompt(asked.question, passages), reply, passages, done)
            )
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
        return [self._maker.row(question, "split", messages, split_reply(queries), (), True)]

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


def _queries(question: PooledQuestion) -> list[str]:
    """What is to be looked up, as questions: the set's own sentences, or its gold queries put so."""
    item = question.item
    return [as_question(query) for query in (item.sub_questions or item.gold_queries)]


async def _unasked(text: str, chunks: Sequence[Hit], scores: RetrieverScores) -> Analysis:
    raise AssertionError("the collector plans by gold labels")
