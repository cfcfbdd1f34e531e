"""What an answer run is told: strategy, policy, analyzer, generator, limits. The shipped one is configs/answer.yaml."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from okralong.pipelines.answering.analyzers.analysis import ScorerConfig, TokenClassifierConfig
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.rerank import RerankerConfig
from okralong.pipelines.archive.files import SearchConfig
from okralong.pipelines.core.config import AnswerPlacement, Settings
from okralong.pipelines.llm.config import GeneratorConfig, LlmConfig
from okralong.pipelines.methods.registry import StrategySpec
from okralong.pipelines.sara.artifact import SaraConfig, weights_digest


class QueryEmbedderConfig(Settings):
    """The encoder of questions, which is the archive's: each of ``replicas`` takes ``gpus_per_replica`` GPUs."""

    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0


class RunConfig(Settings):
    """An answer run.

    ``strategy`` is the name of a method, a file (mine.py) or module:function; ``policy`` and ``prices`` are paths or
    names of shipped configs; ``concurrency`` is questions in flight over all ``planners``, the processes that work on
    them (null: one, and further ones as long as they are busy and cores are free; in batch mode
    ``llm.batch.concurrency`` is); at most ``own_process`` questions over a small archive are carried, or looked at by
    an estimate, in the command's own process, without Ray (0: never); ``reranker`` is the cross-encoder of policies
    that rank by one, ``scorer`` the model of those that measure likelihoods (null: none); ``token_classifier`` says
    what LLMLingua-2 keeps; ``sara`` are the models of the strategy of that name; ``search`` says how many processes
    hold the index; ``budget_usd`` is a hard cap (null: none); ``tags`` go to every ledger row; ``replies_from`` are
    other run folders, whose replies to equal requests are taken instead of paid for; ``carry`` names columns of the
    questions that go along into the answers; ``placement`` says on which nodes of a cluster the parts run.
    """

    SHIPPED: ClassVar[str | None] = "answer.yaml"

    strategy: str
    policy: str
    prices: str
    analyzer: AnalyzerConfig
    llm: LlmConfig
    query_embedder: QueryEmbedderConfig = QueryEmbedderConfig()
    reranker: RerankerConfig = RerankerConfig()
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

    @property
    def in_flight(self) -> int:
        """Questions in flight over all planners, in the mode of the run."""
        return self.llm.batch.concurrency if self.llm.mode == "batch" else self.concurrency


def fingerprint(config: RunConfig, policy: Policy, strategy: StrategySpec, archive: Mapping[str, Any]) -> str:
    """Hash of everything that decides an answer: a run folder continues only under the fingerprint it began with.

    The budget, the concurrency and the limits may change between two runs of the same command; they are left out.
    Raises ConfigError when the reader or the compressor that the config names cannot be used.
    """
    stronger = asked_again(config.llm, policy, strategy)
    sara = strategy.needs.sara_generator or strategy.needs.compressor
    parts = {
        "strategy": strategy.identity,
        "policy": policy.model_dump(mode="json"),
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
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def asked_again(llm: LlmConfig, policy: Policy, strategy: StrategySpec) -> GeneratorConfig | None:
    """The stronger generator, where the strategy may ask it under the policy."""
    wanted = strategy.needs.escalates and policy.escalate is not None and policy.escalate.to == "stronger"
    return llm.stronger if wanted else None


def _generator(config: GeneratorConfig, reads_vectors: bool) -> dict[str, Any]:
    """What of a generator's config decides a reply."""
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
        "price",
    }
    # An equal request gets as good a reply in a batch as by itself, so a run may go on in the other mode.
    llm = config.model_dump(exclude=may_change | {"endpoints", "mode", "batch", "stronger", "reader", "contract"})
    # SARA's generator has an adapter of its own.
    reader = None if reads_vectors else config.found_reader()
    return llm | {
        "endpoints": [one.model_dump(exclude=may_change) for one in config.endpoints],
        # By its content: "shipped" is another reader in another release, and a folder may be trained anew.
        "reader": reader.digest if reader else None,
        "contract": "short" if not reads_vectors and config.short_contract else "full",
    }
