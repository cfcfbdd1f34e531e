"""What of the gold evidence stands in the passages shown, and at how many tokens. No generator and no judge: ranges.

White space counts nowhere: a chunk that ends before a line break has shown the sentence whole. Evidence counts where
the set marks it; the same words elsewhere in the document do not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from okralong.pipelines.answering.analysis import AnalysisInput, Analyzer
from okralong.pipelines.answering.citations import REPAIR
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.policy import Policy, organize
from okralong.pipelines.answering.prompts import answer_prompt, with_demonstration
from okralong.pipelines.answering.retrieve import fuse_ranks, primary_retrieval
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search, stored_vectors
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    NO_SCORES,
    Analysis,
    Candidates,
    ConfigError,
    Document,
    Hit,
    Message,
    NobodyAsked,
    Passage,
    Pattern,
    Plan,
    QuestionError,
    Reply,
    RetrieverScores,
    TokenVectors,
    Usage,
)
from okralong.pipelines.lab.datasets.pooling import Pooled, PooledQuestion, Span
from okralong.pipelines.lab.encoder import CachedEncoder
from okralong.pipelines.lab.evidence.config import PlainMethod
from okralong.pipelines.lab.evidence.writers import WRITTEN, GoldWriter, Writer
from okralong.pipelines.lab.gold import PATTERN_CHUNKS, answer_recall, evidence_label, gold_analysis, pattern_label
from okralong.pipelines.methods.okralong import orchestrate
from okralong.pipelines.sara.artifact import ArrayCompressor

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
    gold = ranges((s.doc_id, s.start_char, s.end_char) for s in question.evidence)
    needed = covered = 0
    for doc_id, stretches in gold.items():
        for start, end in stretches:
            stretch = Span(doc_id, start, end)
            needed += _solid(documents[doc_id][start:end])
            covered += _covered(stretch, shown, documents)
    pieces = [span for span in question.evidence if _solid(documents[span.doc_id][span.start_char : span.end_char])]
    whole = sum(_is_shown(span, shown, documents) for span in pieces)
    cells = [_is_shown(c.row, shown, documents) and _is_shown(c.header, shown, documents) for c in question.cells]
    return Shown(
        evidence_recall=covered / needed if needed else None,
        pieces=len(pieces),
        pieces_shown=whole,
        all_evidence=whole == len(pieces) if pieces else None,
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


def _is_shown(span: Span, shown: Ranges, documents: Mapping[str, str]) -> bool:
    return _covered(span, shown, documents) == _solid(documents[span.doc_id][span.start_char : span.end_char])


def _covered(span: Span, shown: Ranges, documents: Mapping[str, str]) -> int:
    """Characters of a span that were shown, white space left out."""
    text = documents[span.doc_id]
    return sum(
        _solid(text[max(start, span.start_char) : min(end, span.end_char)])
        for start, end in shown.get(span.doc_id, ())
        if start < span.end_char and end > span.start_char
    )


def _solid(text: str) -> int:
    return len("".join(text.split()))


# --------
# An analyzer with a memory: a sweep asks it the same of a question at every point of every curve.


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


# --------
# Retrieval for a whole sweep: many policies ask the same queries, and each is looked up once.

DEPTH: Final = 100
"""Chunks looked up for each retriever; a caller that asks for fewer gets the first of them. Ours."""


@dataclass
class Retrievals:
    """Both retrievers over one archive, with a memory."""

    archive: Archive
    encoder: CachedEncoder
    _found: dict[tuple[str, str, tuple[str, ...], int], Candidates] = field(default_factory=dict)

    async def find(
        self, query: str, doc_ids: tuple[str, ...], granularity: int, k: int, prefix: str = ""
    ) -> Candidates:
        """The top ``k`` chunks of ``doc_ids`` for each retriever, as an answer run would find them.

        ``prefix`` stands before the query where it is embedded.
        """
        key = (prefix, query, doc_ids, granularity)
        deep = max(k, DEPTH)
        if key not in self._found or k > DEPTH:
            vector = self.encoder.encode([prefix + query])[0]
            self._found[key] = await search(self.archive.clients(granularity), query, vector, doc_ids, deep)
        found = self._found[key]
        return Candidates(found.exact[:k], found.semantic[:k])

    def prepare(self, queries: list[str]) -> None:
        """Embed many queries in one go, so that they come from memory afterwards."""
        if queries:
            self.encoder.encode(queries)


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


def _share(texts: Mapping[str, str], question: PooledQuestion, hits: Sequence[Hit]) -> float | None:
    """The share of the gold evidence, or else of the answer's parts, that chunks hold; None where neither is known."""
    shown = measure(question, [passage_of(hit) for hit in hits], texts)
    return shown.answer_recall if shown.evidence_recall is None else shown.evidence_recall


# --------
# The tools of one question in the bench: real retrieval, real operators, a writer instead of the generator.

COMPLETION_LIMIT = 512
"""Tokens kept free for a reply; ours."""

Analyze = Callable[[str, Sequence[Hit], RetrieverScores], Awaitable[Analysis]]
"""Analyses a question with its primary chunks and their retrievers' scores."""

Likelihood = Callable[[str, Sequence[str]], list[list[float]]]
"""See ``LikelihoodModel.score``."""


@dataclass
class BenchTools:
    """``Tools`` for one question over one archive. ``doc_ids`` is its resolved scope.

    Nothing is journaled and nothing is paid. ``queries`` collects what was looked up, in order; ``calls`` counts the
    prompts that the writer had to write queries for, ``prompt_tokens`` the o200k tokens of all prompts, the answer's
    too. ``likelihood`` and ``compressor`` are None where no policy of the sweep needs them. ``path`` leads from the
    question to this branch.
    """

    retrievals: Retrievals
    policy: Policy
    doc_ids: tuple[str, ...]
    gold_queries: tuple[str, ...]
    analyzer: Analyze
    writer: Writer
    likelihood: Likelihood | None = None
    query_prefix: str = ""
    compressor: ArrayCompressor | None = None
    path: str = ""
    queries: list[str] = field(default_factory=list)
    calls: int = 0
    prompt_tokens: int = 0

    @property
    def window(self) -> int:
        """See ``Tools``: the writer's."""
        return self.writer.window

    def count(self, text: str) -> int:
        """See ``Tools``: the writer's own tokens."""
        return self.writer.count(text)

    def completion_limit(self, role: str) -> int:
        """See ``Tools``."""
        return COMPLETION_LIMIT

    @property
    def calculator(self) -> bool:
        """See ``Tools``: no answer is written, so none is a formula."""
        return False

    async def retrieve(self, step: str, query: str, *, granularity: int, k: int) -> Candidates:
        """See ``Tools``."""
        self.queries.append(query)
        return await self.retrievals.find(query, self.doc_ids, granularity, k, self.query_prefix)

    async def analyze(
        self, step: str, question: str, chunks: Sequence[Hit], scores: RetrieverScores = NO_SCORES
    ) -> Analysis:
        """See ``Tools``."""
        return await self.analyzer(question, chunks, scores)

    async def record_plan(self, step: str, plan: Plan) -> Plan:
        """See ``Tools``: every plan may go ahead."""
        return plan

    async def complete(self, step: str, messages: Sequence[Message], *, role: str, logprobs: bool = False) -> Reply:
        """See ``Tools``; the writer replies, once: first replies are measured. Raises NobodyAsked for a second one."""
        if step.endswith(f"/{REPAIR}"):
            raise NobodyAsked("The bench asks for nothing twice.")
        self.calls += role in WRITTEN
        self.prompt_tokens += prompt_size(messages)
        shown = with_demonstration(messages, role) if self.writer.demonstrate else messages
        text = await self.writer.write(self.gold_queries, f"{self.path}{step}", role, shown)
        return Reply(text, self.writer.name, Usage(), "stop", 0.0)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See ``Tools``."""
        vectors: list[list[float]] = self.retrievals.encoder.encode(list(texts)).tolist()
        return vectors

    async def record_choice(
        self, step: str, query: str, pool: Sequence[Hit], pick: Callable[[], Awaitable[list[Hit]]]
    ) -> list[Hit]:
        """See ``Tools``: nothing is kept, so it is always chosen anew."""
        return await pick()

    async def vectors(self, hits: Sequence[Hit]) -> list[list[float]]:
        """See ``Tools``."""
        held = await stored_vectors(self.retrievals.archive.clients, [hit.chunk for hit in hits])
        vectors: list[list[float]] = held.tolist()
        return vectors

    async def compress(self, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
        """See ``Tools``."""
        if self.compressor is None:
            raise ConfigError(
                f"The policy {self.policy.name!r} selects evidence in the compressor's space, and the bench was given "
                "none. Name one under compressor in the sweep file, or set selection.space to encoder."
            )
        made: list[list[float]] = self.compressor.pooled(np.asarray(vectors, dtype=np.float32)).tolist()
        return made

    async def compressed(self, hits: Sequence[Hit]) -> list[TokenVectors]:
        """See ``Tools``: the bench shows texts only. Raises ConfigError."""
        raise ConfigError("The bench has no strategy that shows vectors; run it with `okralong answer`.")

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        """See ``Tools``."""
        if self.likelihood is None:
            raise ConfigError(
                f"The policy {self.policy.name!r} selects evidence by csi, and the bench was given no model to measure "
                "it with. Name one under scorer in the sweep file, or set selection.method to none or novelty."
            )
        return self.likelihood(prefix, texts)

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """See ``Tools``: the bench measures whole chunks only. Raises ConfigError."""
        raise ConfigError("The bench has no strategy that compresses; run it with `okralong answer`.")

    async def remember(self, step: str, asked: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """See ``Tools``: nothing is kept."""
        return await make()

    async def artifact(self, name: str, doc_id: str, branch: Branch) -> Any:
        """See ``Tools``. Raises ConfigError: only a run keeps any."""
        raise ConfigError(f"The bench keeps no artifact such as {name!r}; run the strategy with `okralong answer`.")

    async def documents(self) -> list[tuple[str, int]]:
        """See ``Tools``."""
        return self.retrievals.archive.document_tokens(self.doc_ids)

    async def full_text(self, doc_id: str) -> Document:
        """See ``Tools``."""
        if doc_id not in self.doc_ids:
            raise QuestionError(f"The document {doc_id!r} is outside the question's scope.")
        return self.retrievals.archive.document(doc_id)

    async def gather(self, branches: Sequence[Branch]) -> list[Any]:
        """See ``Tools``; one branch after the other."""
        results = []
        for branch in branches:
            child = replace(self, path=f"{self.path}{branch.path}/", queries=[], calls=0, prompt_tokens=0)
            results.append(await branch.operator(child, **branch.arguments))
            self.queries += child.queries
            self.calls += child.calls
            self.prompt_tokens += child.prompt_tokens
        return results


def prompt_size(messages: Sequence[Message]) -> int:
    """The o200k tokens of a prompt, without what a chat template puts around its messages."""
    return sum(count_tokens(message.content) + message.vector_rows for message in messages)


# --------
# Running methods over a set: what each would show for each question, measured against the gold evidence.

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
