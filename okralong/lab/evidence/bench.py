"""Measure how much of the gold evidence is in the passages that a method shows, and at how many tokens.

The strategies are those of a run, with the same ``QuestionTools`` but other ports: retrieval is local and cached, a
``Writer`` replaces the generator so that nothing is paid, and a question's steps are kept in memory. The bench compares
ranges of characters, and judges no answers. White space is ignored, so a chunk that ends before a line break shows the
whole sentence. Only marked evidence counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from okralong.lab.datasets.gold import gold_analysis
from okralong.lab.datasets.pooling import Pooled, PooledQuestion
from okralong.lab.evidence.config import GOLD, LabelField, PlainMethod
from okralong.lab.evidence.measure import Shown, measure
from okralong.lab.evidence.retrievals import RememberedReader, Retrievals
from okralong.lab.evidence.tools import (
    Analyze,
    BenchTools,
    Lookup,
    analyzed_by,
    given,
    gold_labels,
    prompt_size,
    relabelled,
)
from okralong.lab.evidence.writers import GoldWriter, Writer
from okralong.pipelines.answering.analyzers.analysis import Analyzer
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.answering.retrieve import primary_retrieval, sort_hits
from okralong.pipelines.core.types import Analysis, Candidates, Chunk, Hit, Passage, Plan
from okralong.pipelines.methods.okralong import orchestrate

_RANK_CONSTANT: Final = 60.0
"""The constant of reciprocal rank fusion (Cormack et al. 2009, section 2)."""


@dataclass(frozen=True)
class Bench:
    """A set with indexed documents, and questions with gold spans. ``name`` is "set part", ``texts`` are by doc_id.

    ``followed`` caches rows by all that determines them, so analyzers that agree on a question share its row.
    """

    name: str
    pooled: Pooled
    retrievals: Retrievals
    texts: Mapping[str, str]
    followed: dict[Hashable, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """The result for a question, a method and a point of its curve (a count for plain methods, a scale for policies).

    ``queries`` is the number of distinct queries, including the question; ``calls`` is that of the writer's calls;
    ``prompt_tokens`` is the number of tokens in all prompts, including the answer prompt.
    """

    dataset: str
    method: str
    point: float
    query_id: str
    documents: tuple[str, ...]
    type: str
    workflow: str
    queries: int
    calls: int
    prompt_tokens: int
    shown: Shown

    @property
    def recall(self) -> float | None:
        """The evidence recall, or the answer recall if the set marks no evidence."""
        return self.shown.answer_recall if self.shown.evidence_recall is None else self.shown.evidence_recall


@dataclass(frozen=True)
class PolicyRun:
    """The method ``okralong`` under a policy, with its analyzer and writer, at a point of its curve.

    If ``analyzer`` is None, the gold labels are used; then all questions of the set must have a type. Policies
    that ``rerank`` need ``reader``. ``query_prefix`` is prepended to queries when they are embedded. ``labels``
    replace those of the analyzer (see ``PolicyMethod``).
    """

    policy: Policy
    analyzer: Analyzer | None
    writer: Writer
    query_prefix: str = ""
    reader: RememberedReader | None = None
    labels: Mapping[LabelField, str] = field(default_factory=dict)


async def run_plain(bench: Bench, name: str, method: PlainMethod, reader: RememberedReader | None = None) -> list[Row]:
    """Run every question at every count of a plain method. A method with ``rerank`` needs ``reader``."""
    rows = []
    for question in bench.pooled.questions:
        asked, deepest = question.item.gold.question.question, max(*method.counts, method.rerank)
        found = await bench.retrievals.find(
            asked, question.doc_ids, method.granularity, deepest, prefix=method.query_prefix
        )
        hits = list(ranked(found, method.retriever))
        if reader is not None and method.rerank:
            pool = hits[: method.rerank]
            readings = reader.read(asked, [hit.chunk.text for hit in pool])
            pool = sort_hits([Hit(hit.chunk, each.relevance) for hit, each in zip(pool, readings, strict=True)])
            hits = pool + hits[method.rerank :]
        for count in method.counts:
            passages = [passage_of(hit) for hit in hits[:count]]
            spent = 1, 0, prompt_size(answer_prompt(asked, passages))
            rows.append(_row(bench, name, float(count), question, passages, "linear", spent))
    return rows


def ranked(found: Candidates, retriever: str) -> Sequence[Hit]:
    """Return the ranking of ``retriever``; for "hybrid", both lists merged."""
    if retriever == "exact":
        return found.exact
    if retriever == "semantic":
        return found.semantic
    return fuse_ranks(found)


def fuse_ranks(found: Candidates) -> list[Hit]:
    """Return the union of both lists by reciprocal ranks, the sum of 1 / (60 + rank) in each."""
    scores: dict[Chunk, float] = {}
    for side in (found.exact, found.semantic):
        for rank, hit in enumerate(side, start=1):
            scores[hit.chunk] = scores.get(hit.chunk, 0.0) + 1.0 / (_RANK_CONSTANT + rank)
    return sort_hits([Hit(chunk, score) for chunk, score in scores.items()])


async def run_policy(bench: Bench, name: str, run: PolicyRun, point: float) -> list[Row]:
    """Run every question under a policy. The same plan under the same policy is followed only once."""
    rows, policy = [], run.policy.model_dump_json()
    for question in bench.pooled.questions:
        tools = BenchTools(
            bench.retrievals,
            run.policy,
            question.doc_ids,
            question.item.gold_queries,
            await _analyze(bench, run, question),
            run.writer,
            run.query_prefix,
            run.reader,
        )
        if not isinstance(run.writer, GoldWriter):  # a model may write other queries the next time
            rows.append(await _followed(bench, name, tools, question, point))
            continue
        asked = question.item.gold.question
        plan = await _plan(tools, asked.question)
        key = (asked.query_id, policy, run.query_prefix, run.reader and run.reader.name, replace(plan, reasons=()))
        if key not in bench.followed:
            bench.followed[key] = await _followed(bench, name, tools, question, point)
        rows.append(replace(bench.followed[key], method=name, point=point))
    return rows


async def _analyze(bench: Bench, run: PolicyRun, question: PooledQuestion) -> Analyze:
    if run.analyzer is None:
        return given(await _gold(bench, run, question))
    if not run.labels:
        return analyzed_by(run.analyzer)
    gold = await _gold(bench, run, question) if GOLD in run.labels.values() else None
    return relabelled(run.analyzer, run.labels, gold)


async def _gold(bench: Bench, run: PolicyRun, question: PooledQuestion) -> Analysis:
    lookup = Lookup(bench.retrievals, run.policy, question.doc_ids, run.query_prefix, run.reader)
    chunks, _ = await primary_retrieval(lookup, "primary/retrieve", question.item.gold.question.question)
    found = await gold_labels(bench.retrievals, bench.texts, question, run.policy.primary.granularity, chunks)
    pattern, evidence = found or ("same", False)
    return gold_analysis(question.item.gold.question.type, pattern, evidence)


async def _plan(tools: BenchTools, asked: str) -> Plan:
    """Return the method's plan. The steps up to it are recorded and not repeated."""
    primary, scores = await primary_retrieval(tools, "primary/retrieve", asked)
    said = await tools.analyze("analyze", asked, primary, scores) if primary else None
    return organize(said, tools.policy, precise=False)


async def _followed(bench: Bench, name: str, tools: BenchTools, question: PooledQuestion, point: float) -> Row:
    answer = await orchestrate(question.item.gold.question.question, tools.again(), precise=False)
    workflow = answer.plan.workflow if answer.plan else "linear"
    # A query that is repeated, with another chunk size or for the analyzer, counts once.
    spent = len(set(tools.queries)), tools.calls, tools.prompt_tokens
    return _row(bench, name, point, question, answer.context, workflow, spent)


def _row(
    bench: Bench,
    method: str,
    point: float,
    question: PooledQuestion,
    passages: Sequence[Passage],
    workflow: str,
    spent: tuple[int, int, int],
) -> Row:
    asked = question.item.gold.question
    documents, shown = question.item.documents or question.doc_ids, measure(question, passages, bench.texts)
    return Row(bench.name, method, point, asked.query_id, documents, asked.type, workflow, *spent, shown)
