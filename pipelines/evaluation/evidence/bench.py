"""Running methods over a set: what each would show for each question, measured against the gold evidence."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from okralong.pipelines.answering.analysis import AnalysisInput, Analyzer
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.policy import Policy, organize
from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.answering.retrieve import fuse_ranks, primary_retrieval
from okralong.pipelines.core.types import Analysis, Candidates, Hit, Passage, Plan, RetrieverScores
from okralong.pipelines.evaluation.datasets.pooling import Pooled, PooledQuestion
from okralong.pipelines.evaluation.evidence.config import PlainMethod
from okralong.pipelines.evaluation.evidence.gold_labels import gold_labels
from okralong.pipelines.evaluation.evidence.measure import Shown, measure
from okralong.pipelines.evaluation.evidence.retrievals import Retrievals
from okralong.pipelines.evaluation.evidence.tools import Analyze, BenchTools, Likelihood, prompt_size
from okralong.pipelines.evaluation.evidence.writers import GoldWriter, Writer
from okralong.pipelines.evaluation.labels import gold_analysis
from okralong.pipelines.methods.okralong import orchestrate
from okralong.pipelines.sara.artifact import ArrayCompressor

RANK_CONSTANT = 60.0
"""Of the plain hybrid: Cormack et al. 2009, section 2."""


@dataclass(frozen=True)
class Bench:
    """A set that is ready to be asked: documents indexed, questions with gold spans. ``name`` is "set part".

    ``followed`` are rows by what decided them: analyzers that agree on a question, as corrupted ones mostly do, share
    its row.
    """

    name: str
    pooled: Pooled
    retrievals: Retrievals
    texts: Mapping[str, str]
    followed: dict[Hashable, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One question under one method at one point of its curve (a count for plain methods, a scale for policies).

    ``queries`` are the different texts looked up, the question among them; ``calls`` those of the writer;
    ``prompt_tokens`` are those of all prompts together, the answer's among them.
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
        """Evidence recall; where the set marks no evidence, answer recall."""
        return self.shown.answer_recall if self.shown.evidence_recall is None else self.shown.evidence_recall


@dataclass(frozen=True)
class PolicyRun:
    """The method under a policy, with its analyzer and writer, at one point of its curve.

    ``analyzer`` None means the gold labels, for sets whose questions all have a type. ``likelihood`` is needed by
    policies with ``selection.method: csi``, ``compressor`` by those with ``selection.space: compressor``;
    ``query_prefix`` stands before queries where they are embedded.
    """

    policy: Policy
    analyzer: Analyzer | None
    writer: Writer
    likelihood: Likelihood | None = None
    query_prefix: str = ""
    compressor: ArrayCompressor | None = None


async def run_plain(bench: Bench, name: str, method: PlainMethod) -> list[Row]:
    """Every question at every count of a plain method."""
    rows = []
    for question in bench.pooled.questions:
        asked = question.item.gold.question.question
        found = await bench.retrievals.find(
            asked, question.doc_ids, method.granularity, max(method.counts), method.query_prefix
        )
        hits = ranked(found, method.retriever)
        for count in method.counts:
            passages = [passage_of(hit) for hit in hits[:count]]
            size = prompt_size(answer_prompt(asked, passages))
            rows.append(_row(bench, name, float(count), question, passages, "linear", (1, 0, size)))
    return rows


async def run_policy(bench: Bench, name: str, run: PolicyRun, point: float) -> list[Row]:
    """Every question under a policy. A plan that was followed before, under the same policy, is not followed again."""
    rows, policy = [], run.policy.model_dump_json()
    for question in bench.pooled.questions:
        tools = BenchTools(
            bench.retrievals,
            run.policy,
            question.doc_ids,
            question.item.gold_queries,
            _analyze(bench, run, question),
            run.writer,
            run.likelihood,
            run.query_prefix,
            run.compressor,
        )
        if not isinstance(run.writer, GoldWriter):  # a model may write otherwise the next time
            rows.append(await _followed(bench, name, tools, question, point))
            continue
        asked = question.item.gold.question
        plan, tools.analyzer = await _foreseen(tools, asked.question)
        key = (asked.query_id, policy, run.query_prefix, replace(plan, reasons=()))
        if key not in bench.followed:
            bench.followed[key] = await _followed(bench, name, tools, question, point)
        rows.append(replace(bench.followed[key], method=name, point=point))
    return rows


async def _foreseen(tools: BenchTools, asked: str) -> tuple[Plan, Analyze]:
    """The plan that the method will make, and what repeats its analysis."""
    primary, scores = await primary_retrieval(tools, "primary/retrieve", asked)
    said = await tools.analyze("analyze", asked, primary, scores) if primary else None
    return organize(said, tools.policy, precise=False), partial(_said, said)


async def _followed(bench: Bench, name: str, tools: BenchTools, question: PooledQuestion, point: float) -> Row:
    answer = await orchestrate(question.item.gold.question.question, tools, precise=False)
    workflow = answer.plan.workflow if answer.plan else "linear"
    # A query that is looked up again, at another chunk size or for the analyzer, counts once.
    spent = len(set(tools.queries)), tools.calls, tools.prompt_tokens
    return _row(bench, name, point, question, answer.context, workflow, spent)


def ranked(found: Candidates, retriever: str) -> Sequence[Hit]:
    """Both lists as one retriever would rank them."""
    if retriever == "exact":
        return found.exact
    if retriever == "semantic":
        return found.semantic
    return fuse_ranks(found, 1.0, 1.0, RANK_CONSTANT)


def _analyze(bench: Bench, run: PolicyRun, question: PooledQuestion) -> Analyze:
    analyzer = run.analyzer
    if analyzer is None:
        return partial(_by_gold, bench, question, run.policy.primary.granularity)
    return partial(_by_analyzer, analyzer)


async def _said(analysis: Analysis | None, text: str, chunks: Sequence[Hit], scores: RetrieverScores) -> Analysis:
    if analysis is None:
        raise ValueError("Nothing was found for the analyzer to read, and now something is.")
    return analysis


async def _by_analyzer(analyzer: Analyzer, text: str, chunks: Sequence[Hit], scores: RetrieverScores) -> Analysis:
    return analyzer.analyze([AnalysisInput(text, tuple(hit.chunk.text for hit in chunks), scores)])[0]


async def _by_gold(
    bench: Bench, question: PooledQuestion, granularity: int, text: str, chunks: Sequence[Hit], _: RetrieverScores
) -> Analysis:
    found = await gold_labels(bench.retrievals, bench.texts, question, granularity, chunks)
    pattern, evidence = found or ("same", False)
    return gold_analysis(question.item.gold.question.type, pattern, evidence)


def _row(
    bench: Bench,
    method: str,
    point: float,
    question: PooledQuestion,
    passages: Sequence[Passage],
    workflow: str,
    spent: tuple[int, int, int],
) -> Row:
    return Row(
        dataset=bench.name,
        method=method,
        point=point,
        query_id=question.item.gold.question.query_id,
        documents=question.item.documents or question.doc_ids,
        type=question.item.gold.question.type,
        workflow=workflow,
        queries=spent[0],
        calls=spent[1],
        prompt_tokens=spent[2],
        shown=measure(question, passages, bench.texts),
    )
