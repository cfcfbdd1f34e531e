"""The config of an answer run: strategy, policy, analyzer, generator, limits (configs/answer.yaml)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from okralong.pipelines.answering import confidence_model
from okralong.pipelines.answering.analyzers.analysis import ScorerConfig, TokenClassifierConfig
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.rerank import RerankerConfig
from okralong.pipelines.archive.files import SearchConfig
from okralong.pipelines.core.config import AnswerPlacement, Settings
from okralong.pipelines.core.spans import TelemetryConfig
from okralong.pipelines.llm.config import GeneratorConfig, LlmConfig
from okralong.pipelines.methods.registry import StrategySpec
from okralong.pipelines.sara.artifact import weights_digest
from okralong.pipelines.sara.config import SaraConfig


class QueryEmbedderConfig(Settings):
    """The archive's encoder applied to questions: ``replicas`` with ``gpus_per_replica`` GPUs each."""

    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0


class ServeConfig(Settings):
    """Limits of ``okralong serve`` and ``okralong mcp``; other commands ignore them.

    - ``daily_usd``: budget of each UTC day without tokens (null: only ``budget_usd``); with tokens, each has its own.
    - ``requests_per_minute``: requests accepted in a minute without tokens.
    - ``most_question_chars``: the longest question.
    - ``most_body_bytes``: the largest request.
    - ``timeout_s``: longest wait for an answer; the calls in flight then still end and are kept.
    - ``allowed_hosts``: names in the ``Host`` header under which the service may be reached, without port. A service on
      a loopback address is always reached as ``localhost``, ``127.0.0.1`` and ``[::1]``; elsewhere an empty list
      allows every name.
    - ``allowed_origins``: pages of other origins ("https://intranet.example") that browsers may let ask the service.
    - ``audit_questions``: what the audit log keeps of a question: its SHA-256 hash, its text, or none of it.
    - ``links``: whether citations say where the documents are stored.
    - ``version_poll_s``: interval of the checks for a newer version of the archive.
    - ``grace_s``: time that a service which stops has for the calls in flight.
    """

    daily_usd: Annotated[float, Field(gt=0)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] = 60
    most_question_chars: Annotated[int, Field(ge=1, le=100_000)] = 4_000
    most_body_bytes: Annotated[int, Field(ge=1_024)] = 262_144
    timeout_s: Annotated[float, Field(gt=0)] = 300.0
    allowed_hosts: list[str] = Field(default_factory=list)
    allowed_origins: list[str] = Field(default_factory=list)
    audit_questions: Literal["hash", "text", "none"] = "hash"
    links: bool = True
    version_poll_s: Annotated[float, Field(gt=0)] = 60.0
    grace_s: Annotated[float, Field(ge=0)] = 20.0


class RunConfig(Settings):
    """The config of an answer run.

    - ``strategy``: the name of a method, a file ("mine.py") or "module:function".
    - ``policy``, ``prices``: paths, or names of shipped configs.
    - ``analyzer``, ``llm``, ``query_embedder``: the models for questions.
    - ``concurrency``: questions in flight over all planners; in batch mode ``llm.batch.concurrency`` counts instead.
    - ``planners``: the number of processes that work on questions. null starts one, and adds more while all are busy
      and cores are free.
    - ``own_process``: up to this many questions over a small archive are answered or estimated in the command's own
      process, without Ray (0: never).
    - ``reranker``: the cross-encoder, for policies that rank with one.
    - ``confidence``: the model that estimates how probably each answer is right: "shipped", "none", or a file that
      `okralong calibrate` wrote.
    - ``scorer``: the local language model, for policies that measure likelihoods (null: none).
    - ``token_classifier``: the model that selects the tokens LLMLingua-2 keeps.
    - ``sara``: the models of the strategy "sara".
    - ``search``: how many processes hold the index.
    - ``budget_usd``: a hard cap (null: none); of a service, that of each UTC day.
    - ``tags``: added to every ledger row.
    - ``replies_from``: other run folders whose replies are reused for equal requests.
    - ``carry``: columns of the questions to copy into the answers.
    - ``placement``: the nodes of a cluster on which the parts run.
    - ``telemetry``: where traces and metrics go.
    - ``serve``: limits of a service.
    """

    SHIPPED: ClassVar[str | None] = "answer.yaml"

    strategy: str
    policy: str
    prices: str
    analyzer: AnalyzerConfig
    llm: LlmConfig
    query_embedder: QueryEmbedderConfig = QueryEmbedderConfig()
    reranker: RerankerConfig = RerankerConfig()
    confidence: str = Field(default=confidence_model.SHIPPED, min_length=1)
    scorer: ScorerConfig | None = None
    token_classifier: TokenClassifierConfig = TokenClassifierConfig()
    sara: SaraConfig = SaraConfig()
    search: SearchConfig = SearchConfig()
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 64
    planners: Annotated[int, Field(ge=1, le=256)] | None = None
    own_process: Annotated[int, Field(ge=0, le=4096)] = 32
    tags: dict[str, str] = Field(default_factory=dict)
    replies_from: list[str] = Field(default_factory=list)
    carry: list[str] = Field(default_factory=list)
    placement: AnswerPlacement = AnswerPlacement()
    telemetry: TelemetryConfig = TelemetryConfig()
    serve: ServeConfig = ServeConfig()

    @property
    def in_flight(self) -> int:
        """The most questions in flight over all planners, in the run's mode (real time or batch)."""
        return self.llm.batch.concurrency if self.llm.mode == "batch" else self.concurrency


def fingerprint(config: RunConfig, policy: Policy, strategy: StrategySpec, archive: Mapping[str, Any]) -> str:
    """Return a hash of everything that determines answers. A run is resumed only if its fingerprint is unchanged.

    Budget, concurrency and limits are not part of it. Raises ConfigError if the reader adapter or the compressor cannot
    be used.
    """
    stronger = asked_again(config.llm, policy, strategy)
    sara = strategy.needs.sara_generator or strategy.needs.compressor
    parts = {
        "strategy": strategy.identity,
        "policy": policy.identity(),
        "analyzer": config.analyzer.identity(),
        "llm": _generator(config.llm, strategy.needs.sara_generator),
        "stronger": _generator(stronger, False) if stronger is not None else None,
        "scorer": config.scorer.model if config.scorer is not None and strategy.needs.scorer else None,
        "reranker": config.reranker.identity() if strategy.needs.reranker else None,
        "token_classifier": config.token_classifier.identity() if strategy.needs.token_classifier else None,
        "compressor": weights_digest(config.sara.folder()) if sara else None,
        "precision": config.sara.precision if strategy.needs.sara_generator else None,
        "archive": archive.get("fingerprint"),
    }
    model = confidence_model.load_confidence(config.confidence) if strategy.needs.escalates else None
    if model is not None:  # it decides which answers are asked for again
        parts["confidence"] = model.digest
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def asked_again(llm: LlmConfig, policy: Policy, strategy: StrategySpec) -> GeneratorConfig | None:
    """Return the stronger generator if the strategy may call it under the policy."""
    wanted = strategy.needs.escalates and policy.escalate is not None and policy.escalate.to == "stronger"
    return llm.stronger if wanted else None


def _generator(config: GeneratorConfig, reads_vectors: bool) -> dict[str, Any]:
    """Return the parts of a generator's config that determine a reply."""
    may_change = {
        "requests_per_minute",
        "tokens_per_minute",
        "max_in_flight",
        "timeout_s",
        "max_attempts",
        "api_key_env",
        "prompt_cache_key",
        "service_tier",
        "flex",
        "stream",
        "trust_usage",
        "price",
    }
    # The mode is left out: batches do not change replies, so a run may be continued in the other mode.
    llm = config.model_dump(exclude=may_change | {"endpoints", "mode", "batch", "stronger", "reader", "contract"})
    # SARA's generator has an adapter of its own.
    reader = None if reads_vectors else config.found_reader()
    return llm | {
        "endpoints": [one.model_dump(exclude=may_change) for one in config.endpoints],
        # A hash of the content, because "shipped" differs between releases and a folder may be retrained.
        "reader": reader.digest if reader else None,
        "contract": "short" if not reads_vectors and config.short_contract else "full",
    }
