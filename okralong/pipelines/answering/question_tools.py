"""``QuestionTools`` implements ``Tools`` for one question, and makes each step durable in the journal.

Analysis, plan and retrieved chunk ids are in the journal before a call that depends on them is paid for, and a resumed
question reads them from there. They must not be computed again: in a batch of another shape, a model may round
differently and return another label, which would change the plan. The journal stores retrieved chunks without their
text, which the archive has.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, Protocol

import numpy as np

from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import analyze_by_generator
from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.confidence_model import ConfidenceModel
from okralong.pipelines.answering.context import MESSAGE_OVERHEAD, prompt_fits
from okralong.pipelines.answering.languages import language_asked
from okralong.pipelines.answering.models import Generator, GeneratorCall, Models
from okralong.pipelines.answering.policy import Policy, in_other_language
from okralong.pipelines.answering.prompts import demonstrations, with_demonstration
from okralong.pipelines.answering.tools import ESCALATED, Branch
from okralong.pipelines.archive.search import search, stored_compressed, stored_vectors
from okralong.pipelines.core.codec import decode, encode
from okralong.pipelines.core.languages import ENGLISH, UNKNOWN
from okralong.pipelines.core.telemetry import QuestionTrace
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import (
    NO_SCORES,
    Analysis,
    Candidates,
    Chunk,
    ConfigError,
    Document,
    Hit,
    Message,
    Plan,
    Question,
    QuestionError,
    Reading,
    Reply,
    RetrieverScores,
    TokenVectors,
    WordKept,
)
from okralong.pipelines.llm.config import ANALYZE
from okralong.pipelines.models.weights import EMBEDDED


class StepLog(Protocol):
    """The journal of one question."""

    def recorded(self, path: str, kind: str) -> str | None:
        """Return the JSON body recorded under a step path, or None."""
        ...

    async def record(self, path: str, kind: str, body: str) -> None:
        """Record a body, to be durable before the question's next request is sent and before its answer."""
        ...

    async def admit(self, plan: Plan) -> None:
        """Reserve a plan's dollars now or with the next call. Raises OverBudget."""
        ...


@dataclass(frozen=True)
class Ports:
    """The parts of a run that the tools of all its questions share.

    Attributes:
        models: The archive and the run's local models.
        generator: The run's generator.
        policy: The constants of the run.
        window: See ``Tools``, also for ``count``, ``completion_limit``, ``calculator`` and ``short_contract``.
        demonstrate: Whether prompts have a worked example.
        name: The generator's name in the config.
        artifact: Returns a document's artifact; None outside a run.
        reads_answers: Whether the cross-encoder may answer questions, if it is able to.
        stronger: The ports with the run's stronger generator, if it has one.
        confidence: Estimates how probably answers are right; None if nothing does.
        answer_tokens: Returns the most tokens of an answer of a type, None if only the role limits it.
    """

    models: Models
    generator: Generator
    policy: Policy
    window: int
    count: CountTokens
    completion_limit: Callable[[str], int]
    demonstrate: bool = False
    calculator: bool = False
    short_contract: bool = False
    name: str = ""
    artifact: Callable[[str, str, Branch, int, tuple[str, ...]], Awaitable[Any]] | None = None
    reads_answers: bool = True
    stronger: Ports | None = None
    confidence: ConfidenceModel | None = None
    answer_tokens: Callable[[str], int | None] = lambda _: None

    def with_stronger(self, generator: Generator, asked: Mapping[str, Any]) -> Ports:
        """Return the same ports with a stronger generator; the cross-encoder then answers no questions.

        ``asked`` has the values of the fields that describe the generator.
        """
        return replace(self, stronger=replace(self, generator=generator, reads_answers=False, **asked))


_TIMED: Final = ContextVar("timed", default=False)
"""True while a stage is being timed, so that stages within it are not timed separately."""

FanOut = Callable[[Branch, str], Awaitable[tuple[Any, Mapping[str, float]]]]
"""A function that runs a branch whose steps are below a path, and returns its result and its seconds by stage."""


@dataclass
class QuestionTools:
    """``Tools`` for one question or branch.

    Attributes:
        ports: The parts shared with the tools of other questions.
        question: The question.
        doc_ids: Its resolved scope; empty for the whole archive.
        log: Its journal.
        fan_out: Runs its branches.
        prefix: Path of the branch; "" for the question itself.
        seconds: Seconds spent so far, by stage.
        trace: Receives the spans of its steps, if it is traced.
        within: Path of the branch's span, if it differs from ``prefix``.
    """

    ports: Ports
    question: Question
    doc_ids: tuple[str, ...]
    log: StepLog
    fan_out: FanOut
    prefix: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    trace: QuestionTrace | None = None
    within: str | None = None
    _seen: set[str] = field(default_factory=set)
    _readings: dict[tuple[str, str], Reading] = field(default_factory=dict)

    @classmethod
    def in_process(
        cls, ports: Ports, question: Question, doc_ids: tuple[str, ...], log: StepLog, prefix: str = ""
    ) -> QuestionTools:
        """Return tools whose branches run in this process, on the same event loop."""

        async def fan_out(branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
            tools = cls.in_process(ports, *branch.posed(question, doc_ids), log, path)
            return await branch.operator(tools, **branch.arguments), {}

        return cls(ports, question, doc_ids, log, fan_out, prefix)

    @property
    def models(self) -> Models:
        """The archive and the run's local models."""
        return self.ports.models

    @cached_property
    def policy(self) -> Policy:
        """See ``Tools``.

        Models that know English alone retrieve and rank nothing for questions in other languages over documents in
        other languages.
        """
        archive = self.models.archive
        if self._is_english or archive.languages_of(self.doc_ids) <= {ENGLISH}:
            return self.ports.policy
        config = archive.manifest.get("config", {})
        encodes = config.get("embedding", {}).get("model") != EMBEDDED
        return in_other_language(self.ports.policy, encodes, not self.models.cross_encoder.reads_english)

    @property
    def window(self) -> int:
        """See ``Tools``. The tokens of a demonstration, if there is one, are already subtracted."""
        return self.ports.window - (self._example_tokens() if self.ports.demonstrate else 0)

    def count(self, text: str) -> int:
        """See ``Tools``."""
        return self.ports.count(text)

    def completion_limit(self, role: str) -> int:
        """See ``Tools``."""
        return self.ports.completion_limit(role)

    @property
    def calculator(self) -> bool:
        """See ``Tools``."""
        return self.ports.calculator

    @property
    def short_contract(self) -> bool:
        """See ``Tools``."""
        return self.ports.short_contract

    async def retrieve(
        self, step: str, query: str, *, granularity: int, k: int, doc_ids: Sequence[str] = ()
    ) -> Candidates:
        """See ``Tools``."""
        path = self._path(step)
        with self._timed("retrieve", path):
            wanted = {"query": query, "granularity": granularity, "k": k}
            if doc_ids:
                wanted["doc_ids"] = list(doc_ids)
            if (body := self._recorded(path, "retrieval", wanted)) is not None:
                return Candidates(*(self._hits(body[name]) for name in ("exact", "semantic")))
            vector = (await self.models.embed([query]))[0] if "embedder" in self.models.parts else None
            scope = tuple(doc_ids) or self.doc_ids
            languages = self.models.archive.languages_of(scope)
            found = await search(self.models.shards(granularity), query, vector, scope, k, languages)
            rows = {"exact": _rows(found.exact), "semantic": _rows(found.semantic)}
            await self.log.record(path, "retrieval", encode({"wanted": wanted, **rows}))
            return found

    @property
    def scope_size(self) -> int:
        """See ``Tools``."""
        return len(self.doc_ids) or self.models.archive.n_documents

    def named(self, query: str) -> dict[str, float]:
        """See ``Tools``."""
        return {} if self.scope_size < 2 else self.models.archive.names.named(query, self.doc_ids)

    @property
    def language(self) -> str:
        """See ``Tools``."""
        given = self.question.language
        return given if given not in ("", UNKNOWN) else language_asked(self.question.question)

    @property
    def quotes(self) -> bool:
        """See ``Tools``."""
        return self.models.generates_english and self.ports.reads_answers and not self._is_english

    @property
    def _is_english(self) -> bool:
        return self.language == ENGLISH

    async def analyze(
        self, step: str, question: str, chunks: Sequence[Hit], scores: RetrieverScores = NO_SCORES
    ) -> Analysis | None:
        """See ``Tools``."""
        if self.models.analyzes_english and not self._is_english:
            return None
        path = self._path(step)
        with self._timed("analyze", path):
            recorded = self.log.recorded(path, "analysis")
            if recorded is not None:
                return decode(Analysis, json.dumps(json.loads(recorded)["analysis"]))
            shown = tuple(hit.chunk.text for hit in chunks)
            policy = self.policy
            asked = AnalysisInput(
                question, shown, scores, self.question.query_id, policy.uses_pattern, policy.uses_evidence
            )
            if "analyzer" in self.models.parts:
                analysis = await self.models.analyze(asked)
            else:
                fits = partial(prompt_fits, role=ANALYZE, tools=self)
                analysis = await analyze_by_generator(self._ask, path, asked, fits)
            read = [hit.chunk.chunk_id for hit in chunks]
            await self.log.record(path, "analysis", encode({"chunk_ids": read, "analysis": analysis}))
            return analysis

    async def record_plan(self, step: str, plan: Plan) -> Plan:
        """See ``Tools``."""
        path = self._path(step)
        recorded = self.log.recorded(path, "plan")
        if recorded is None:
            await self.log.record(path, "plan", encode(plan))
        else:
            plan = decode(Plan, recorded)
        await self.log.admit(plan)
        return plan

    @property
    def answer_type(self) -> str:
        """See ``Tools``."""
        return self.question.answer_type

    async def complete(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        role: str,
        logprobs: bool = False,
        answer_type: str = "",
        longer: bool = False,
    ) -> Reply:
        """See ``Tools``."""
        path = self._path(step)
        if self.ports.demonstrate:
            messages = with_demonstration(messages, role, self.short_contract, AnswerType.of(answer_type))
        with self._timed(role, path):
            call = GeneratorCall(self.question.query_id, path, role, messages, logprobs, answer_type, longer)
            return await self.ports.generator.complete(call)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See ``Tools``."""
        if "embedder" not in self.models.parts:
            raise ConfigError(
                "The strategy works with dense vectors, and the archive was indexed without any (embedding.of: none). "
                "Run okralong index on it again with --embed smallest (the strategy sara needs --embed each), or "
                "choose another strategy."
            )
        vectors: list[list[float]] = (await self.models.embed(list(texts))).tolist()
        return vectors

    @property
    def generator(self) -> str:
        """See ``Tools``."""
        return self.ports.name

    @property
    def stronger(self) -> QuestionTools:
        """See ``Tools``."""
        if self.ports.stronger is None:
            raise ConfigError(
                f"The policy {self.policy.name!r} hands questions to a stronger generator (escalate.to), and this run "
                "has none. Name one under llm.stronger in the answer config, or set escalate to null."
            )
        prefix = self._path(ESCALATED)
        shared = self.seconds, self.trace, self.prefix if self.within is None else self.within
        asked = self.ports.stronger, self.question, self.doc_ids, self.log, self.fan_out
        return QuestionTools(*asked, prefix, *shared, _readings=self._readings)

    @property
    def reads(self) -> bool:
        """See ``Tools``."""
        return self.models.cross_encoder.reads_spans and self._is_read

    @property
    def _is_read(self) -> bool:
        """Whether the cross-encoder was trained on the question's language."""
        return self._is_english or not self.models.cross_encoder.reads_english

    @property
    def confidence(self) -> ConfidenceModel | None:
        """See ``Tools``."""
        return self.ports.confidence if self._is_read else None

    @property
    def reads_answers(self) -> bool:
        """See ``Tools``."""
        return self.ports.reads_answers and self.models.cross_encoder.reads_answers and self._is_read

    @property
    def cross_encoder(self) -> str:
        """See ``Tools``."""
        return self.models.cross_encoder.name

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """See ``Tools``."""
        path = self._path(step)
        with self._timed("rerank", path):
            wanted = {"query": query, "passages": [hashlib.sha256(text.encode()).hexdigest()[:16] for text in passages]}
            if (body := self._recorded(path, "readings", wanted)) is not None:
                return [_reading_of(row) for row in body["readings"]]
            if "reranker" not in self.models.parts:
                raise ConfigError(
                    f"The policy {self.policy.name!r} ranks by a cross-encoder (rerank.candidates), and this run has "
                    "none. Name one under reranker in the answer config, or set rerank.candidates to 0."
                )
            # A plan's chunks mostly include the primary ones, so readings are reused: no passage is read twice for a
            # query.
            known = self._readings
            new = [text for text in dict.fromkeys(passages) if (query, text) not in known]
            if new:
                read = await self.models.read(query, new)
                known.update(zip([(query, text) for text in new], read, strict=True))
            rows = [_short(astuple(known[query, text])) for text in passages]
            await self.log.record(path, "readings", encode({"wanted": wanted, "readings": rows}))
            return [_reading_of(row) for row in rows]

    async def record_choice(
        self, step: str, query: str, pool: Sequence[Hit], pick: Callable[[], Awaitable[list[Hit]]]
    ) -> list[Hit]:
        """See ``Tools``."""
        path = self._path(step)
        with self._timed("select", path):
            offered = {hit.chunk.chunk_id: hit for hit in pool}
            wanted = {"query": query, "pool": list(offered)}
            if (body := self._recorded(path, "selection", wanted)) is not None:
                return [offered[chunk_id] for chunk_id in body["chosen"]]
            chosen = await pick()
            ids = [hit.chunk.chunk_id for hit in chosen]
            await self.log.record(path, "selection", encode({"wanted": wanted, "chosen": ids}))
            return chosen

    async def vectors(self, hits: Sequence[Hit]) -> list[list[float]]:
        """See ``Tools``."""
        held: list[list[float]] = (await stored_vectors(self.models.shards, [hit.chunk for hit in hits])).tolist()
        return held

    async def compress(self, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
        """See ``Tools``."""
        if "compressor" not in self.models.parts:
            raise ConfigError(
                f"The strategy, or the policy {self.policy.name!r} by its selection, works in the space of SARA's "
                "compressor, and this run has none. Name one under sara.compressor in the answer config."
            )
        made: list[list[float]] = (await self.models.compress(np.asarray(vectors, dtype=np.float32))).tolist()
        return made

    async def compressed(self, hits: Sequence[Hit]) -> list[TokenVectors]:
        """See ``Tools``."""
        if not hits:
            return []
        held = await stored_compressed(self.models.shards, [hit.chunk for hit in hits])
        return [TokenVectors(each.astype("<f4").tobytes(), len(each)) for each in held]

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        """See ``Tools``."""
        if "scorer" not in self.models.parts:
            raise self._no_scorer()
        with self._timed("score"):
            return await self.models.score(prefix, list(texts))

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """See ``Tools``."""
        if "scorer" not in self.models.parts:
            raise self._no_scorer()
        return await self.models.token_ends(list(texts))

    async def keep(self, texts: Sequence[str]) -> list[list[WordKept]]:
        """See ``Tools``."""
        if "token_classifier" not in self.models.parts:
            raise ConfigError(
                "The strategy asks a token classifier which words to keep, and this run was started without one. A "
                "strategy asks for one by Needs(token_classifier=True)."
            )
        with self._timed("score"):
            return await self.models.keep(list(texts))

    async def remember(self, step: str, asked: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """See ``Tools``."""
        path = self._path(step)
        wanted = json.loads(encode(asked))
        body = self._recorded(path, "found", wanted)
        if body is None:
            body = {"wanted": wanted, "found": json.loads(encode(await make()))}
            await self.log.record(path, "found", encode(body))
        return body["found"]

    async def artifact(
        self, name: str, doc_id: str, branch: Branch, *, version: int = 0, roles: Sequence[str] = ()
    ) -> Any:
        """See ``Tools``."""
        if self.ports.artifact is None:
            raise ConfigError(
                f"The strategy needs the artifact {name!r} of each document, and only a run can keep one."
            )
        with self._timed(name):
            return await self.ports.artifact(name, doc_id, branch, version, tuple(roles))

    async def documents(self) -> list[tuple[str, int]]:
        """See ``Tools``."""
        return self.models.archive.document_tokens(self.doc_ids)

    async def full_text(self, doc_id: str) -> Document:
        """See ``Tools``. Raises QuestionError for a document outside the question's scope."""
        if self.doc_ids and doc_id not in self.doc_ids:
            raise QuestionError(f"The document {doc_id!r} is outside the scope of question {self.question.query_id!r}.")
        return self.models.archive.document(doc_id)

    async def gather(self, branches: Sequence[Branch]) -> list[Any]:
        """See ``Tools``."""
        done = await asyncio.gather(*(self._branched(branch, self._path(branch.path)) for branch in branches))
        for _, seconds in done:
            for stage, spent in seconds.items():
                self._spent(stage, spent)
        return [result for result, _ in done]

    async def _branched(self, branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
        if self.trace is None:
            return await self.fan_out(branch, path)
        with self._traced("branch", path), self.trace.branch():
            return await self.fan_out(branch, path)

    async def _ask(self, path: str, messages: Sequence[Message]) -> Reply:
        call = GeneratorCall(self.question.query_id, path, ANALYZE, messages)
        with nullcontext() if path in self._seen else self._traced(ANALYZE, path):
            return await self.ports.generator.complete(call)

    def _traced(self, stage: str, path: str) -> AbstractContextManager[None]:
        if self.trace is None:
            return nullcontext()
        return self.trace.step(stage, path, self.prefix if self.within is None else self.within)

    def _recorded(self, path: str, kind: str, wanted: Any) -> Any:
        """Return the body recorded at a path if it was recorded for the same ``wanted``, else None."""
        recorded = self.log.recorded(path, kind)
        body = json.loads(recorded) if recorded else None
        return body if body is not None and body["wanted"] == wanted else None

    def _hits(self, rows: Sequence[Sequence[Any]]) -> tuple[Hit, ...]:
        """Return the chunks that ``_rows`` encoded, with their texts from the archive."""
        hits = []
        for *kept, score in rows:
            fields = dict(zip(_KEPT, kept, strict=True))
            text = self.models.archive.document(fields["doc_id"]).text[fields["start_char"] : fields["end_char"]]
            hits.append(Hit(Chunk(**fields, text=text), score))
        return tuple(hits)

    def _no_scorer(self) -> ConfigError:
        return ConfigError(
            f"The strategy, or the policy {self.policy.name!r} by its selection.method, measures likelihoods, and this "
            "run has no model to measure them with. Name one under scorer in the answer config."
        )

    def _example_tokens(self) -> int:
        """Return the tokens of the longest worked example that a prompt may have."""
        examples = demonstrations(self.short_contract, AnswerType.of(self.answer_type)).values()
        return max(sum(self.ports.count(each.content) + MESSAGE_OVERHEAD for each in shown) for shown in examples)

    def _path(self, step: str) -> str:
        path = f"{self.prefix}/{step}" if self.prefix else step
        if path in self._seen:
            raise ValueError(f"The strategy used the step path {path!r} twice; each step needs a unique path.")
        self._seen.add(path)
        return path

    @contextmanager
    def _timed(self, stage: str, path: str = "") -> Iterator[None]:
        """Add the elapsed time to ``stage``, unless another stage is being timed (a choice includes its scoring).

        A step at a ``path`` is traced, too.
        """
        with self._traced(stage, path) if path else nullcontext(), self._clocked(stage):
            yield

    @contextmanager
    def _clocked(self, stage: str) -> Iterator[None]:
        if _TIMED.get():
            yield
            return
        within, started = _TIMED.set(True), time.perf_counter()
        try:
            yield
        finally:
            _TIMED.reset(within)
            self._spent(stage, time.perf_counter() - started)

    def _spent(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


def _short(value: Any) -> Any:
    """Round numbers for the journal, to five digits, which suffice to distinguish the scores of chunks."""
    if isinstance(value, tuple):
        return [_short(each) for each in value]
    return round(value, 5) if isinstance(value, float) else value


def _reading_of(row: Sequence[Any]) -> Reading:
    """Return the reading of a journal's row; rows of older runs have no other spans."""
    relevance, answerable, start, end, span, *others = row
    return Reading(relevance, answerable, start, end, span, tuple((a, b, share) for a, b, share in (others or [[]])[0]))


_KEPT: Final = ("chunk_id", "doc_id", "granularity", "ordinal", "start_char", "end_char", "n_tokens", "table_id")
"""The fields of a chunk in the journal: all but its text, which the archive has."""


def _rows(hits: Sequence[Hit]) -> list[list[Any]]:
    """Encode chunks for the journal, as rows of their fields and score."""
    return [[*(getattr(hit.chunk, name) for name in _KEPT), hit.score] for hit in hits]
