"""The evidence bench: what of the gold evidence stands in the passages that a method shows, and at how many tokens.

The strategies are those of a run, over the same ``QuestionTools``; only the ports differ. Retrieval is in this process
and remembered, a ``Writer`` stands in for the generator, nothing is paid, and a question's steps are kept in memory.
No answer is judged: what is measured are character ranges. White space counts nowhere: a chunk that ends before a line
break has shown the sentence whole. Evidence counts where the set marks it; the same words elsewhere in the document do
not.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from okralong.lab.datasets.encoder import CachedEncoder
from okralong.lab.datasets.gold import PATTERN_CHUNKS, answer_recall, evidence_label, gold_analysis, pattern_label
from okralong.lab.datasets.pooling import Pooled, PooledQuestion, Span
from okralong.lab.evidence.config import PlainMethod
from okralong.lab.evidence.writers import WRITTEN, GoldWriter, Writer
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, Analyzer
from okralong.pipelines.answering.citations import REPAIR
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.models import FunctionModels, GeneratorCall, Vectors
from okralong.pipelines.answering.offline import MemoryLog, OfflineGenerator
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import DEMONSTRATIONS, answer_prompt
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.answering.retrieve import fuse_ranks, primary_retrieval, sort_hits
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import LocalShard, search
from okralong.pipelines.archive.shard import Vector
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    Analysis,
    Candidates,
    Hit,
    Message,
    NobodyAsked,
    Passage,
    Pattern,
    Plan,
    Question,
    Reading,
    Reply,
    Usage,
)
from okralong.pipelines.methods.okralong import orchestrate
from okralong.pipelines.models.weights import SHIPPED
from okralong.pipelines.sara.artifact import ArrayCompressor

if TYPE_CHECKING:
    from okralong.pipelines.models.cross_encoder import CrossEncoder

RANK_CONSTANT: Final = 60.0
"""Of the plain hybrid: Cormack et al. 2009, section 2."""

DEPTH: Final = 100
"""Chunks looked up for each retriever; who asks for fewer gets the first of them. Ours."""

COMPLETION_LIMIT: Final = 512
"""Tokens kept free for a reply; ours."""

LOOK_UP: Final = "retrieval"
"""The kind of a step of ``QuestionTools`` in which something was looked up."""

Analyze = Callable[[AnalysisInput], Awaitable[Analysis]]
"""Analyses a question with its primary chunks and their retrievers' scores."""

Likelihood = Callable[[str, Sequence[str]], list[list[float]]]
"""See ``LikelihoodModel.score``."""

# --------
# A set that is ready to be asked, and the rows that its questions get under a method.


@dataclass(frozen=True)
class Bench:
    """A set: documents indexed, questions with gold spans. ``name`` is "set part", ``texts`` are by doc_id.

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
    ``query_prefix`` stands before queries where they are embedded; ``reader`` is needed by policies that ``rerank``.
    """

    policy: Policy
    analyzer: Analyzer | None
    writer: Writer
    likelihood: Likelihood | None = None
    query_prefix: str = ""
    compressor: ArrayCompressor | None = None
    reader: RememberedReader | None = None


async def run_plain(bench: Bench, name: str, method: PlainMethod, reader: RememberedReader | None = None) -> list[Row]:
    """Every question at every count of a plain method; ``reader`` is needed where it has ``rerank``."""
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
    """Both lists as one retriever would rank them."""
    if retriever == "exact":
        return found.exact
    if retriever == "semantic":
        return found.semantic
    return fuse_ranks(found, 1.0, 1.0, RANK_CONSTANT)


async def run_policy(bench: Bench, name: str, run: PolicyRun, point: float) -> list[Row]:
    """Every question under a policy. A plan that was followed before, under the same policy, is not followed again."""
    rows, policy = [], run.policy.model_dump_json()
    for question in bench.pooled.questions:
        tools = BenchTools(
            bench.retrievals,
            run.policy,
            question.doc_ids,
            question.item.gold_queries,
            await _analyze(bench, run, question),
            run.writer,
            run.likelihood,
            run.query_prefix,
            run.compressor,
            run.reader,
        )
        if not isinstance(run.writer, GoldWriter):  # a model may write otherwise the next time
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
    if run.analyzer is not None:
        return analyzed_by(run.analyzer)
    lookup = Lookup(bench.retrievals, run.policy, question.doc_ids, run.query_prefix, run.reader)
    chunks, _ = await primary_retrieval(lookup, "primary/retrieve", question.item.gold.question.question)
    found = await gold_labels(bench.retrievals, bench.texts, question, run.policy.primary.granularity, chunks)
    pattern, evidence = found or ("same", False)
    return given(gold_analysis(question.item.gold.question.type, pattern, evidence))


async def _plan(tools: BenchTools, asked: str) -> Plan:
    """The plan that the method will make. The steps on the way to it are kept, and not taken again."""
    primary, scores = await primary_retrieval(tools, "primary/retrieve", asked)
    said = await tools.analyze("analyze", asked, primary, scores) if primary else None
    return organize(said, tools.policy, precise=False)


async def _followed(bench: Bench, name: str, tools: BenchTools, question: PooledQuestion, point: float) -> Row:
    answer = await orchestrate(question.item.gold.question.question, tools.again(), precise=False)
    workflow = answer.plan.workflow if answer.plan else "linear"
    # A query that is looked up again, at another chunk size or for the analyzer, counts once.
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


# --------
# The tools of a run for one question, over ports of the bench's own.


class BenchTools(QuestionTools):
    """One question over one archive. ``doc_ids`` is its resolved scope, ``gold_queries`` are what its set would ask.

    ``likelihood`` and ``compressor`` are None where the policy does not need them. ``calls`` counts the prompts that
    the writer had to write queries for, ``prompt_tokens`` the o200k tokens of all prompts, the answer's too, without
    worked examples.
    """

    def __init__(
        self,
        retrievals: Retrievals,
        policy: Policy,
        doc_ids: tuple[str, ...],
        gold_queries: tuple[str, ...],
        analyze: Analyze,
        writer: Writer,
        likelihood: Likelihood | None = None,
        query_prefix: str = "",
        compressor: ArrayCompressor | None = None,
        reader: RememberedReader | None = None,
    ) -> None:
        async def embed(texts: list[str]) -> Vectors:
            return retrievals.encoder.encode([query_prefix + text for text in texts])

        async def score(prefix: str, texts: list[str]) -> list[list[float]]:
            return likelihood(prefix, texts) if likelihood else []

        async def compress(vectors: Vectors) -> Vectors:
            return compressor.pooled(vectors) if compressor else vectors

        found = reader or reader_of(policy)
        # The bench measures what is shown: no answer is judged, and none is asked for again.
        policy = policy.model_copy(update={"escalate": None})

        offline = OfflineGenerator(self._reply)
        ports = Ports(
            models=FunctionModels(
                retrievals.archive,
                shards=retrievals.shards,
                embed=embed,
                analyze=analyze,
                score=score if likelihood else None,
                compress=compress if compressor else None,
                read=None if found is None else found.port,
            ),
            generator=offline,
            policy=policy,
            window=writer.window,
            count=writer.count,
            completion_limit=lambda role: COMPLETION_LIMIT,
            demonstrate=writer.demonstrate,
        )
        self.calls = 0
        self.prompt_tokens = 0
        self._writer = writer
        self._gold_queries = gold_queries
        self._steps = MemoryLog()
        super().__init__(ports, Question("", ""), doc_ids, self._steps, self._branch)

    @property
    def queries(self) -> list[str]:
        """What was looked up, in order."""
        return [json.loads(body)["wanted"]["query"] for (_, kind), body in self._steps.kept.items() if kind == LOOK_UP]

    def again(self, path: str = "") -> QuestionTools:
        """Further tools of the question, or of its branch at ``path``: steps that were taken are not taken again."""
        return QuestionTools(self.ports, self.question, self.doc_ids, self.log, self.fan_out, path)

    async def _branch(self, branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
        question, doc_ids = branch.posed(self.question, self.doc_ids)
        tools = QuestionTools(self.ports, question, doc_ids, self.log, self.fan_out, path)
        return await branch.operator(tools, **branch.arguments), {}

    async def _reply(self, call: GeneratorCall) -> Reply:
        """Return the writer's reply; only first replies are measured. Raises NobodyAsked for a second one."""
        if call.path.endswith(f"/{REPAIR}"):
            raise NobodyAsked("The bench asks for nothing twice.")
        self.calls += call.role in WRITTEN
        example = DEMONSTRATIONS.get(call.role, ()) if self._writer.demonstrate else ()
        self.prompt_tokens += prompt_size(call.messages) - prompt_size(example)
        text = await self._writer.write(self._gold_queries, call.path, call.role, call.messages)
        return Reply(text, self._writer.name, Usage(), "stop", 0.0)


def given(analysis: Analysis) -> Analyze:
    """An analysis that is known already."""

    async def analyze(asked: AnalysisInput) -> Analysis:
        return analysis

    return analyze


def analyzed_by(analyzer: Analyzer) -> Analyze:
    """An analyzer, asked one question after the other."""

    async def analyze(asked: AnalysisInput) -> Analysis:
        return analyzer.analyze([asked])[0]

    return analyze


def prompt_size(messages: Iterable[Message]) -> int:
    """The o200k tokens of a prompt, without what a chat template puts around its messages."""
    return sum(count_tokens(message.content) + message.vector_rows for message in messages)


# --------
# What a sweep asks again and again is looked up and analysed once.


@dataclass
class Retrievals:
    """Both retrievers over one archive in this process, with a memory: many policies ask the same queries."""

    archive: Archive
    encoder: CachedEncoder
    _shards: dict[int, list[LocalShard]] = field(default_factory=dict)

    def shards(self, granularity: int) -> Sequence[LocalShard]:
        """All shards of a granularity. Raises ArchiveError when the archive does not have it."""
        if granularity not in self._shards:
            self._shards[granularity] = [RememberedShard(each.shard) for each in self.archive.clients(granularity)]
        return self._shards[granularity]

    async def find(
        self, query: str, doc_ids: tuple[str, ...], granularity: int, k: int, prefix: str = ""
    ) -> Candidates:
        """The top ``k`` chunks of ``doc_ids`` for each retriever. ``prefix`` stands before the query where it is
        embedded.
        """
        return await search(self.shards(granularity), query, self.encoder.encode([prefix + query])[0], doc_ids, k)

    def prepare(self, queries: list[str]) -> None:
        """Embed many queries in one go, so that they come from memory afterwards."""
        if queries:
            self.encoder.encode(queries)


@dataclass(frozen=True)
class RememberedShard(LocalShard):
    """A shard that is asked once for the candidates of a query in a scope."""

    found: dict[Hashable, Candidates] = field(default_factory=dict)

    async def candidates(
        self, terms: Sequence[str], vector: Vector, doc_ids: Sequence[str] | None, k: int
    ) -> Candidates:
        """See ``Shard.candidates``."""
        looked_for = None if vector is None else np.asarray(vector).tobytes()
        key = (tuple(terms), looked_for, doc_ids if doc_ids is None else tuple(doc_ids))
        if key not in self.found or k > DEPTH:
            self.found[key] = self.shard.candidates(terms, vector, doc_ids, max(k, DEPTH))
        return Candidates(self.found[key].exact[:k], self.found[key].semantic[:k])


@dataclass
class Remembered:
    """The same analyzer, asked once for each input."""

    analyzer: Analyzer
    _said: dict[AnalysisInput, Analysis] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """See ``Analyzer``."""
        return self.analyzer.name

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """See ``Analyzer``."""
        new = [asked for asked in dict.fromkeys(batch) if asked not in self._said]
        self._said.update(zip(new, self.analyzer.analyze(new), strict=True))
        return [self._said[asked] for asked in batch]


@dataclass
class RememberedReader:
    """A cross-encoder that reads each pair of query and passage once. ``load`` makes it when it is first needed."""

    name: str
    load: Callable[[], CrossEncoder]
    _model: CrossEncoder | None = None
    _read: dict[tuple[str, str], Reading] = field(default_factory=dict)

    def read(self, query: str, passages: Sequence[str]) -> list[Reading]:
        """The readings of passages for a query, in their order."""
        new = [passage for passage in dict.fromkeys(passages) if (query, passage) not in self._read]
        if new:
            if self._model is None:
                self._model = self.load()
            self._read.update(
                zip([(query, each) for each in new], self._model.read([query] * len(new), new), strict=True)
            )
        return [self._read[query, passage] for passage in passages]

    async def port(self, query: str, passages: list[str]) -> list[Reading]:
        """The same as a port of ``QuestionTools``."""
        return self.read(query, passages)


@cache
def _shipped() -> RememberedReader:
    return RememberedReader(SHIPPED, partial(load_reranker, RerankerConfig()))


def reader_of(policy: Policy) -> RememberedReader | None:
    """The shipped cross-encoder where the policy ranks by one; None where it does not."""
    return _shipped() if policy.rerank.candidates else None


# --------
# Pattern and evidence of a question as our own retrievers make them: the labels that no set annotates.


async def gold_labels(
    retrievals: Retrievals, texts: Mapping[str, str], question: PooledQuestion, granularity: int, chunks: Sequence[Hit]
) -> tuple[Pattern, bool] | None:
    """Which retriever's chunks of ``granularity`` tokens hold more of the evidence, and whether ``chunks`` hold it all.

    None where the set says nothing to look for: neither evidence nor parts of the answer. ``texts`` are the documents
    by their ids.
    """
    asked = question.item.gold.question.question
    found = await retrievals.find(asked, question.doc_ids, granularity, PATTERN_CHUNKS)
    shares = [_share(texts, question, hits) for hits in (found.exact, found.semantic, chunks)]
    if any(share is None for share in shares):
        return None
    exact, semantic, at_hand = (share or 0.0 for share in shares)
    return pattern_label(exact, semantic), evidence_label(at_hand)


@dataclass(frozen=True)
class Lookup:
    """A ``Retriever`` for one question: what primary retrieval needs."""

    retrievals: Retrievals
    policy: Policy
    doc_ids: tuple[str, ...]
    prefix: str = ""
    reader: RememberedReader | None = None

    async def retrieve(
        self, step: str, query: str, *, granularity: int, k: int, doc_ids: Sequence[str] = ()
    ) -> Candidates:
        """See ``Tools``."""
        return await self.retrievals.find(query, tuple(doc_ids) or self.doc_ids, granularity, k, self.prefix)

    @property
    def scope_size(self) -> int:
        """See ``Tools``."""
        return len(self.doc_ids) or self.retrievals.archive.n_documents

    def named(self, query: str) -> dict[str, float]:
        """See ``Tools``."""
        return {} if self.scope_size < 2 else self.retrievals.archive.names.named(query, self.doc_ids)

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """See ``Tools``."""
        found = self.reader or reader_of(self.policy)
        return found.read(query, passages) if found else []


def _share(texts: Mapping[str, str], question: PooledQuestion, hits: Sequence[Hit]) -> float | None:
    """The share of the gold evidence, or else of the answer's parts, that chunks hold; None where neither is known."""
    shown = measure(question, [passage_of(hit) for hit in hits], texts)
    return shown.answer_recall if shown.evidence_recall is None else shown.evidence_recall


Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""Sorted, disjoint character ranges by doc_id."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of what a question needs was shown. A share is 0 to 1, and None where the set marks nothing to show.

    ``evidence_recall`` is the share of gold characters; ``pieces_shown`` of ``pieces`` stand there wholly, and
    ``all_evidence`` says whether all do; ``answer_recall`` is that of the answer's parts; ``cell_recall`` the share of
    gold cells shown together with their row and column headers; ``context_tokens`` are o200k tokens.
    """

    evidence_recall: float | None
    pieces: int
    pieces_shown: int
    all_evidence: bool | None
    answer_recall: float | None
    cell_recall: float | None
    context_tokens: int


def measure(question: PooledQuestion, passages: Sequence[Passage], documents: Mapping[str, str]) -> Shown:
    """Measure the passages shown for a question. ``documents`` has the text of each of its documents by doc_id."""
    shown = ranges((p.doc_id, p.start_char, p.end_char) for p in passages)

    def needed(span: Span) -> int:
        return _solid(documents[span.doc_id][span.start_char : span.end_char])

    def covered(span: Span) -> int:
        """Characters of a span that were shown, white space left out."""
        text = documents[span.doc_id]
        return sum(
            _solid(text[max(start, span.start_char) : min(end, span.end_char)])
            for start, end in shown.get(span.doc_id, ())
            if start < span.end_char and end > span.start_char
        )

    def whole(span: Span) -> bool:
        return covered(span) == needed(span)

    gold = ranges((s.doc_id, s.start_char, s.end_char) for s in question.evidence)
    joined = [Span(doc_id, start, end) for doc_id, stretches in gold.items() for start, end in stretches]
    total = sum(map(needed, joined))
    pieces = [span for span in question.evidence if needed(span)]
    pieces_shown = sum(map(whole, pieces))
    cells = [whole(cell.row) and whole(cell.header) for cell in question.cells]
    return Shown(
        evidence_recall=sum(map(covered, joined)) / total if total else None,
        pieces=len(pieces),
        pieces_shown=pieces_shown,
        all_evidence=pieces_shown == len(pieces) if pieces else None,
        answer_recall=answer_recall(question.item.gold.parts, [passage.text for passage in passages]),
        cell_recall=sum(cells) / len(cells) if cells else None,
        context_tokens=sum(passage.n_tokens for passage in passages),
    )


def ranges(spans: Iterable[tuple[str, int, int]]) -> Ranges:
    """Join spans (doc_id, start, end) that overlap or touch."""
    joined: dict[str, list[tuple[int, int]]] = {}
    for doc_id, start, end in sorted(spans):
        stretches = joined.setdefault(doc_id, [])
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((start, end))
    return joined


def _solid(text: str) -> int:
    """Characters without white space."""
    return len("".join(text.split()))
