"""Everything that can be checked before a token is spent: config, archive, strategy, questions and their scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.questions import BadQuestion, read_questions
from okralong.pipelines.answering.run_config import RunConfig, fingerprint
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import ArchiveError, ConfigError, Question, QuestionError
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.reply import sharing_runs
from okralong.pipelines.methods.registry import (
    granularities_needed,
    load_strategy,
    needs_compressor,
    needs_scorer,
    reads_vectors,
)
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.sara.artifact import check_encoder, check_generator, check_table


@dataclass(frozen=True)
class Scoped:
    """A question with its scope resolved to document ids; empty means the whole archive."""

    question: Question
    doc_ids: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A run that may begin. ``unscoped`` are questions whose scope names no document, each with the reason;
    ``replies_from`` are the absolute places of the runs that share their replies.
    """

    archive: Archive
    manifest: Mapping[str, Any]
    config: RunConfig
    policy: Policy
    prices: PriceTable
    questions: list[Scoped]
    unscoped: list[tuple[Question, str]]
    bad: list[BadQuestion]
    fingerprint: str
    replies_from: tuple[str, ...] = ()


def prepare(archive: str, questions: str, config: RunConfig) -> Prepared:
    """Check all and read the questions. Raises ConfigError, ArchiveError or InputError; spends nothing."""
    policy = load_config(Policy, config.policy)
    prices = PriceTable.load(config.prices)
    load_strategy(config.strategy)
    if policy.needs_scorer and config.scorer is None:
        raise ConfigError(
            f"The policy {policy.name!r} selects evidence by {policy.selection.method}, which needs a local language "
            "model that measures likelihoods, and the answer config names none. Set scorer: {model: embedded} (or a "
            "model folder), or set the policy's selection.method to none or novelty. Nothing was spent."
        )
    if needs_scorer(config.strategy, policy) and config.scorer is None:
        raise ConfigError(
            f"The strategy {config.strategy!r} needs a local language model that measures likelihoods, and the answer "
            "config names none. Set scorer: {model: embedded} (or a model folder). Nothing was spent."
        )
    if reads_vectors(config.strategy):
        check_generator(config.sara.folder(), config.llm)
    if config.llm.base_url != EMBEDDED:
        for endpoint in config.llm.all_endpoints:
            prices.price(endpoint.model, endpoint.price)
        token_counter(config.llm.tokenizer)
    opened = Archive.open(archive)
    needed = granularities_needed(config.strategy, policy)
    missing = sorted(set(needed) - set(opened.manifest["granularities"]))
    if missing:
        raise ArchiveError(
            f"{archive} was indexed without chunks of {missing} tokens, which the strategy {config.strategy!r} with "
            f"policy {policy.name!r} needs. Add them to granularities in configs/index.yaml and index again."
        )
    if needs_compressor(config.strategy, policy) or reads_vectors(config.strategy):
        check_encoder(config.sara.folder(), opened.manifest, archive)
    if reads_vectors(config.strategy):
        for granularity in needed:
            check_table(config.sara.folder(), opened.manifest, archive, granularity)
    replies_from = sharing_runs(config.replies_from)
    asked, bad = read_questions(questions)
    scoped: list[Scoped] = []
    unscoped: list[tuple[Question, str]] = []
    for question in asked:
        try:
            scoped.append(Scoped(question, opened.resolve(question.doc_ids)))
        except QuestionError as error:
            unscoped.append((question, f"{questions}, {question.query_id}: {error}"))
    manifest = opened.manifest
    return Prepared(
        archive=opened,
        manifest=manifest,
        config=config,
        policy=policy,
        prices=prices,
        questions=scoped,
        unscoped=unscoped,
        bad=bad,
        fingerprint=fingerprint(config, policy, manifest),
        replies_from=replies_from,
    )
