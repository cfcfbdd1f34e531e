"""Make the training rows for reader adapters: prompts as in runs, with this project's retrieval, and perfect replies.

The contexts are those of the plans for gold labels. On the train side, all questions that a context answers share it,
so that training reads it once.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from okralong.lab.datasets.answers import one_part
from okralong.lab.datasets.gold import Gold, answer_recall, findable, gold_analysis
from okralong.lab.datasets.pooling import PooledQuestion
from okralong.lab.datasets.split import Side
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.measure import Shown, measure
from okralong.lab.evidence.sets import Say, measurable
from okralong.lab.evidence.tools import BenchTools, gold_labels, prompt_size
from okralong.lab.evidence.writers import GoldWriter, as_question
from okralong.lab.training.rows.reader_replies import (
    answer_reply,
    formula,
    held_back_reply,
    quotes,
    split_reply,
    spoken_answer,
    step_reply,
)
from okralong.lab.training.rows.sources import Limit, RowsSettings, SampleRows, indexed, sample_of
from okralong.lab.training.rows.tables import LEARNED, ReadingRow
from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.context import process_context
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import UNANSWERABLE, answer_prompt, split_prompt, step_prompt
from okralong.pipelines.answering.retrieve import assembled_retrieval, pool
from okralong.pipelines.answering.workflows.split import retrieve_for_parts
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Analysis, Hit, Message, Passage, Plan, Question
from okralong.pipelines.methods.registry import FullPolicy

Tokens = Annotated[int, Field(ge=100, le=100_000)]
Share = Annotated[float, Field(ge=0, le=1)]


class ReadingConfig(RowsSettings):
    """The content of ``configs/training/reading.yaml``: sets and options for the reader's rows.

    ``policy`` determines the contexts. The limit of each question's context is drawn from ``context_tokens``; it
    determines the cost of training. A prompt of more than ``most_prompt_tokens`` is left out (both are o200k tokens).
    On the train side, up to ``company`` further questions that a context answers share it. ``held_back`` is the share
    of answerable questions that also have a row without their evidence. These rows, and those of questions whose
    evidence was not found, are at most the share ``unanswerable`` of a side's answer rows. ``expressions`` is the share
    of contexts whose prompts ask for the expression of a calculation instead of the result. An answer of more than
    ``most_answer_words`` is truncated after a sentence; if that is impossible, its question is left out. On the train
    side, ``per_type`` is the most answer rows of a type, ``per_role`` the most rows of splits and of steps, and
    ``per_source`` (None: no limit) the most rows of one of the ``sets``; contexts are kept whole. A set's ``limit`` is
    for each side. With ``rationales`` the answer rows are InstructRAG's: a generator explains each answer, and the
    explanation is learned.
    """

    policy: str = "policy/default.yaml"
    sets: list[SetChoice] = Field(min_length=1)
    sample: SampleRows | None = None
    context_tokens: list[Tokens] = Field(min_length=1)
    most_prompt_tokens: Tokens
    company: Annotated[int, Field(ge=0, le=64)] = 0
    held_back: Share
    unanswerable: Share
    expressions: Share
    most_answer_words: Annotated[int, Field(ge=5)]
    per_type: Limit
    per_role: Annotated[int, Field(ge=0)]
    per_source: Limit | None = None
    rationales: bool = False


def build_reading(config: ReadingConfig, data: Path, work: Path, say: Say) -> dict[Side, list[ReadingRow]]:
    """Make the rows of every side except "tune", in a random order. Archives and vectors are kept below ``work``.

    Raises ConfigError or InputError naming what cannot be read.
    """
    policy = load_config(FullPolicy, config.policy)
    built: dict[Side, list[ReadingRow]] = {}
    for side, store in config.stores(data, work, say):
        sets = [(each, store.pooled(each)) for each in config.sets if measurable(store.read(each.name, each.part))]
        if config.sample and side in LEARNED:
            sets.append(sample_of(config.sample, side))
        found: list[ReadingRow] = []
        for choice, pooled in sets:
            bench = indexed(store, choice, pooled, policy.granularities())
            found += asyncio.run(Collector(bench, policy, config, learned=side == "train").rows())
        built[side] = chosen(found, config, side == "train")
    return built


def chosen(rows: Sequence[ReadingRow], config: ReadingConfig, capped: bool) -> list[ReadingRow]:
    """Return the rows in a random order, so that the first n are a fair sample.

    If ``capped``, they are limited by source, type and role.

    At most the config's share ``unanswerable`` of the answer rows is unanswerable.
    """
    shuffled = sorted(rows, key=lambda row: (row.query_id, row.role, row.user))
    config.shuffle(shuffled)
    if capped and config.per_source is not None:
        shuffled = _per_source(shuffled, config.per_source, {f"{each.name} {each.part}" for each in config.sets})
    held = [row for row in shuffled if row.role == "generate" and not row.answerable]
    rest = [row for row in shuffled if row.role != "generate" or row.answerable]
    if capped:
        counts: dict[str, int] = defaultdict(int)
        kept = []
        for row in rest:
            group, most = (row.type, config.per_type) if row.role == "generate" else (row.role, config.per_role)
            counts[group] += 1
            if counts[group] <= most:
                kept.append(row)
        rest = kept
    answered = sum(row.role == "generate" for row in rest)
    share = config.unanswerable
    most = len(held) if share == 1 else int(answered * share / (1 - share))
    mixed = [*rest, *held[:most]]
    random.Random(config.seed + 1).shuffle(mixed)
    return mixed


def _per_source(rows: Sequence[ReadingRow], most: int, capped: Container[str]) -> list[ReadingRow]:
    """Keep at most ``most`` rows of each ``capped`` source; the last context is kept whole.

    The questions of a context are kept together, since it is read once for all of them.
    """
    contexts: dict[tuple[str, tuple[Passage, ...]], list[ReadingRow]] = defaultdict(list)
    for row in rows:
        contexts[row.source, row.passages].append(row)
    taken: dict[str, int] = defaultdict(int)
    kept: set[int] = set()
    for (source, _), asked in contexts.items():
        if source not in capped or taken[source] < most:
            taken[source] += len(asked)
            kept.update(map(id, asked))
    return [row for row in rows if id(row) in kept]


ENOUGH: Final = 0.25
"""An abstractive question, whose evidence is long passages of speech or prose, can be answered from this share of the
evidence. # project default"""


@dataclass
class Collector:
    """Collects the rows of one set's questions.

    If ``learned``, all questions that a context answers share it, including the look-ups of multi-hop questions.
    Otherwise there are only the set's own questions, each with its own context.
    """

    bench: Bench
    policy: Policy
    config: ReadingConfig
    learned: bool = False

    def __post_init__(self) -> None:
        self._contexts = SharedContexts(self.questions if self.learned else ())

    @cached_property
    def questions(self) -> list[PooledQuestion]:
        """The set's questions, followed by their look-ups if ``learned``."""
        own = list(self.bench.pooled.questions)
        hops = [hop for question in own for hop in hop_questions(question, self.bench.texts)]
        return own + (hops if self.learned else [])

    async def rows(self) -> list[ReadingRow]:
        """Return the rows of every question, in order."""
        self.bench.retrievals.prepare([question.item.gold.question.question for question in self.questions])
        found: list[ReadingRow] = []
        for question in self.questions:
            if not self.learned or self._contexts.waiting(question):
                self._contexts.take(question)
                found += await self._of(question)
        return [row for row in found if prompt_size(row.messages) <= self.config.most_prompt_tokens]

    async def _of(self, question: PooledQuestion) -> list[ReadingRow]:
        """Return a question's rows for the drawn context size or, if ``learned``, for a larger one with the answer."""
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
            asked = Ask(question.item.gold.question.question, tools, plan)
            hits = pool([found for _, found in await retrieve_for_parts(asked)])
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
            rest = self._without_evidence(question, passages)
            row = self._answer(question, rest, False, expressed) if rest else None
            found += [row] if row else []
        # A context that does not answer its own question may be replaced by a larger one, so it gets no further
        # questions.
        return found + (self._company(question, passages, expressed) if can and found else [])

    def _company(self, question: PooledQuestion, passages: Sequence[Passage], expressed: bool) -> list[ReadingRow]:
        """Return the rows of further questions that the same passages answer."""
        found: list[ReadingRow] = []
        for other in self._contexts.others(question):
            if len(found) == self.config.company:
                break
            if self._can_be_answered(other, passages):
                row = self._answer(other, passages, True, expressed)
                # If one question of a context asks for the expression and another for the result, their prompts share
                # less.
                if row and row.calculator is expressed:
                    found.append(row)
                    self._contexts.take(other)
        return found

    async def _steps(
        self, question: PooledQuestion, tools: BenchTools, plan: Plan
    ) -> tuple[list[list[Hit]], list[ReadingRow]]:
        """Return the passages of each look-up, and a row for each step until all evidence is shown."""
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
        """Return the next look-up: the first whose piece of evidence is not shown, if each has one, else the next."""
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

    def _answer(
        self, question: PooledQuestion, passages: Sequence[Passage], can: bool, expressed: bool
    ) -> ReadingRow | None:
        """Return the row of a question, or None if it cannot have one. ``can`` says if the passages contain the answer.

        If ``expressed``, the prompt asks for the expression of a calculation.
        """
        item = question.item
        asked = item.gold.question
        expression = formula(item.calculation, asked.answers) if expressed and can else None
        # If the set has no calculation, or a wrong one, the prompt asks for the result, and the result is learned.
        calculator = expressed and not (can and asked.type == "arithmetic" and expression is None)
        messages = answer_prompt(asked.question, passages, calculator=calculator)
        if not can:
            return self._row(question, "generate", messages, held_back_reply(), passages, False, calculator)
        said = spoken_answer(asked.answers, self.config.most_answer_words)
        if said is None:
            return None
        reply = answer_reply(expression or said, quotes(passages, question.evidence, said))
        return self._row(question, "generate", messages, reply, passages, True, calculator)

    def _can_be_answered(self, question: PooledQuestion, passages: Sequence[Passage]) -> bool | None:
        """Return whether the passages contain everything that the answer needs, or None if this is unknown."""
        shown = self._shown(question, passages)
        if question.item.gold.question.type == "abstractive" and shown.evidence_recall is not None:
            return True if shown.evidence_recall >= ENOUGH else False if shown.evidence_recall == 0 else None
        if shown.all_evidence or (shown.all_evidence is None and shown.answer_recall == 1):
            return True
        told = answer_recall(question.item.gold.parts, [passage.text for passage in passages])
        return None if told or shown.all_evidence is None else False

    def _without_evidence(self, question: PooledQuestion, passages: Sequence[Passage]) -> list[Passage]:
        """Return the passages that contain neither evidence nor the answer."""
        parts = question.item.gold.parts
        return [
            passage
            for passage in passages
            if not quotes([passage], question.evidence) and not answer_recall(parts, [passage.text])
        ]

    def _shown(self, question: PooledQuestion, passages: Sequence[Passage]) -> Shown:
        return measure(question, passages, self.bench.texts)

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

    async def _plan(self, question: PooledQuestion, tokens: int) -> Plan:
        """Return the organizer's plan for the gold labels, limited to a context of ``tokens`` tokens."""
        labels = await gold_labels(
            self.bench.retrievals, self.bench.texts, question, self.policy.primary.granularity, ()
        )
        pattern = labels[0] if labels else "same"
        analysis = gold_analysis(question.item.gold.question.type, pattern, evidence=False)
        plan = organize(analysis, self.policy, precise=False)
        # A step or a sub-question gets a half, since there are several retrievals.
        share = tokens if plan.workflow in ("linear", "extend") else tokens // 2
        return replace(plan, max_tokens=share, sub_question_tokens=share)

    def _tools(self, question: PooledQuestion) -> BenchTools:
        return BenchTools(
            self.bench.retrievals, self.policy, question.doc_ids, tuple(_queries(question)), _unasked, GoldWriter()
        )


def _queries(question: PooledQuestion) -> list[str]:
    """Return the look-ups as questions: the set's own sentences, or questions made from its gold queries."""
    item = question.item
    return [as_question(query) for query in (item.sub_questions or item.gold_queries)]


async def _unasked(*_: object) -> Analysis:
    raise AssertionError("the collector plans by gold labels")


def hop_questions(question: PooledQuestion, texts: Mapping[str, str]) -> list[PooledQuestion]:
    """Return the look-ups on the way to an answer as extractive questions.

    The evidence is the first gold piece that contains the look-up's answer; a look-up without one is left out.
    ``texts`` has the documents by doc_id.
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


class SharedContexts:
    """An index of questions by their texts, so that several can share a context. Each is taken once."""

    def __init__(self, questions: Iterable[PooledQuestion]) -> None:
        self._waiting = {question.item.gold.question.query_id: question for question in questions}
        self._by_text: dict[str, list[str]] = {}
        for query_id, question in self._waiting.items():
            for text_id in question.item.text_ids:
                self._by_text.setdefault(text_id, []).append(query_id)

    def waiting(self, question: PooledQuestion) -> bool:
        """Return whether the question has not yet been taken."""
        return question.item.gold.question.query_id in self._waiting

    def take(self, question: PooledQuestion) -> None:
        """Mark a question as taken."""
        self._waiting.pop(question.item.gold.question.query_id, None)

    def others(self, question: PooledQuestion) -> Sequence[PooledQuestion]:
        """Return the waiting questions that share a text with ``question``, in order."""
        shared = (query_id for text_id in question.item.text_ids for query_id in self._by_text.get(text_id, ()))
        return [self._waiting[query_id] for query_id in dict.fromkeys(shared) if query_id in self._waiting]
