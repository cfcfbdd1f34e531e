"""Check everything before a token is spent: config, archive, strategy, questions and their scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from okralong.pipelines.answering.confidence_model import NONE, load_confidence
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import VersionDiff, diff_versions, read_version
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.languages import question_language
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import NOT_READ, ArchiveError, ConfigError, InputError, Question, QuestionError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.config import PROVIDERS, LlmConfig
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.reply import sharing_runs
from okralong.pipelines.methods.registry import FullPolicy, StrategySpec, describe, names_without_vectors
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig, asked_again, fingerprint
from okralong.pipelines.run.matrix import MatrixRows, cells
from okralong.pipelines.run.metadata_filter import MetadataFilter
from okralong.pipelines.run.question_sources import Questions, Say, read_checks, source_name
from okralong.pipelines.run.questions import BadQuestion, read_questions
from okralong.pipelines.sara.config import check_encoder, check_generator, check_table


@dataclass(frozen=True)
class Scoped:
    """A question with its scope resolved to ``doc_ids``; an empty tuple means the whole archive."""

    question: Question
    doc_ids: tuple[str, ...]


class Scopes:
    """Resolves the scopes of questions in one version of an archive. A context manager: it ends its process."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    @cached_property
    def _filter(self) -> MetadataFilter:
        table = self._archive.metadata()
        if NOT_READ not in table.column_names:  # no document was read in part, and a filter may say so
            table = table.append_column(NOT_READ, pa.nulls(len(table), pa.string()))
        return MetadataFilter(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if "_filter" in self.__dict__:
            self._filter.close()

    def resolve(self, question: Question) -> tuple[str, ...]:
        """Return the sorted doc_ids that match ``doc_ids`` (or ``for_each``) and ``where``; () means the whole archive.

        Raises QuestionError, suggesting the nearest names, if they match no document or cannot be read.
        """
        scope = question.for_each or question.doc_ids
        named = self._archive.resolve(scope)
        if not question.where:
            return named
        matching = self._filter.doc_ids(question.where)
        found = tuple(sorted(matching.intersection(named) if scope else matching))
        if not found:
            raise QuestionError(
                f"The filter {question.where!r} matches {counted(len(matching), 'document')}, none of which is "
                f"among the {len(named):,} that {'for_each' if question.for_each else 'doc_ids'} names. Change "
                "one of the two."
            )
        return found


@dataclass(frozen=True)
class Prepared:
    """A checked run that can start.

    ``unscoped`` has the questions whose scope matches no document, each with the reason. ``replies_from`` has the
    absolute paths of the runs whose replies are reused. ``order`` has the query_ids in the order of the questions, also
    of those that this start leaves out. ``checks`` are the rules of a columns file, None for other questions. ``notes``
    say how the questions were read.
    """

    archive: Archive
    manifest: Mapping[str, Any]
    config: RunConfig
    policy: Policy
    strategy: StrategySpec
    prices: PriceTable
    questions: list[Scoped]
    unscoped: list[tuple[Question, str]]
    bad: list[BadQuestion]
    fingerprint: str
    replies_from: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    checks: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def llm(self) -> LlmConfig:
        """The generator config, without the stronger one if the strategy never calls it."""
        stronger = asked_again(self.config.llm, self.policy, self.strategy)
        return self.config.llm.model_copy(update={"stronger": stronger})

    @property
    def confidence(self) -> dict[str, Any] | None:
        """The identity of the models that estimate the confidence of answers, or None."""
        model, reranker = load_confidence(self.config.confidence), self.config.reranker
        if model is None:
            return None
        read = reranker.reads_spans
        by = {"cross_encoder": reranker.identity()["model"] if read else "", "precision": reranker.precision}
        return {"model": model.digest, "answers": model.answers, **by}

    @property
    def columns(self) -> list[str]:
        """The query_ids of the columns of a matrix, in order."""
        return list(dict.fromkeys(each.question.asked_id for each in self.questions if each.question.asked_id))

    @property
    def unusable(self) -> list[str]:
        """A message for each question or row that cannot be asked."""
        return [row.message for row in self.bad] + [why for _, why in self.unscoped]


def prepare(archive: str, questions: Questions, config: RunConfig, matrix: MatrixRows | None = None) -> Prepared:
    """Read the questions and check everything, without spending anything.

    With ``matrix``, each question becomes a column. Raises ConfigError, ArchiveError or InputError.
    """
    policy = load_config(FullPolicy, config.policy)
    prices = PriceTable.load(config.prices)
    strategy = describe(config.strategy, policy)
    if strategy.needs.scorer and config.scorer is None:
        raise ConfigError(
            f"The strategy {config.strategy!r} needs a local language model that measures likelihoods, and the answer "
            "config names none. Set scorer: {model: embedded} (or a model folder). Nothing was spent."
        )
    if strategy.needs.sara_generator:
        check_generator(config.sara.folder(), config.llm)
    load_confidence(config.confidence)
    check_cross_encoder(config, policy, strategy)
    to_stronger = policy.escalate is not None and policy.escalate.to == "stronger"
    if strategy.needs.escalates and to_stronger and config.llm.stronger is None:
        raise ConfigError(
            f"The policy {policy.name!r} escalates to a stronger generator (escalate.to), but the answer config "
            "names none. Set llm.stronger to its base_url and model, or set the policy's escalate.to "
            "to precise, or escalate to null. Nothing was spent."
        )
    no_logprobs = [one.provider for one in config.llm.all_endpoints if not PROVIDERS[one.provider].logprobs]
    if strategy.needs.logprobs and no_logprobs:
        raise ConfigError(
            f"The strategy {config.strategy!r} needs the log-probabilities of the reply's tokens, and llm.provider "
            f"{no_logprobs[0]} returns none. Choose another strategy or another provider. Nothing was spent."
        )
    stronger = asked_again(config.llm, policy, strategy)
    for generator in (config.llm, stronger):
        if generator is not None and generator.base_url != EMBEDDED:
            for endpoint in generator.all_endpoints:
                prices.price(endpoint.model, endpoint.price)
            token_counter(generator.tokenizer)
    opened = Archive.open(archive)
    missing = sorted(set(strategy.needs.granularities) - set(opened.manifest["granularities"]))
    if missing:
        raise ArchiveError(
            f"{archive} was indexed without chunks of {missing} tokens, which the strategy {config.strategy!r} with "
            f"policy {policy.name!r} needs. Add them to granularities in the index config and index again."
        )
    if strategy.needs.vectors and not opened.has_vectors:
        others = names_without_vectors(policy)
        without = (
            f"a strategy that needs none with this policy: {', '.join(others)}"
            if others
            else "a policy without fusion.only semantic"
        )
        raise ConfigError(
            f"{archive} was indexed without vectors (embedding.of: none in the index config), and the strategy "
            f"{config.strategy!r} with policy {policy.name!r} needs them. Run okralong index on it again with --embed "
            f"smallest (the strategy sara needs --embed each), or choose {without}. Nothing was spent."
        )
    if strategy.needs.compressor or strategy.needs.sara_generator:
        check_encoder(config.sara.folder(), opened.manifest, archive)
    if strategy.needs.sara_generator:
        for granularity in strategy.needs.granularities:
            check_table(config.sara.folder(), opened.manifest, archive, granularity)
    replies_from = sharing_runs(config.replies_from)
    notes: list[str] = []
    scoped, unscoped, bad, order = _admitted(opened, questions, config, matrix, notes.append)
    manifest = opened.manifest
    return Prepared(
        archive=opened,
        manifest=manifest,
        config=config,
        policy=policy,
        strategy=strategy,
        prices=prices,
        questions=scoped,
        unscoped=unscoped,
        bad=bad,
        fingerprint=fingerprint(config, policy, strategy, manifest),
        replies_from=replies_from,
        order=order,
        checks=read_checks(questions),
        notes=tuple(notes),
    )


def check_cross_encoder(config: RunConfig, policy: Policy, strategy: StrategySpec) -> None:
    """Raise ConfigError if the run needs a cross-encoder that locates answers, and the config's one only ranks.

    Only ``reranker.answers: always`` and escalation need it. Otherwise, with a model that only ranks, confidence is
    estimated without it, and ``answers: auto`` lets the generator answer.
    """
    reranker = config.reranker
    if reranker.answers == "always" and not reranker.reads_spans:
        raise ConfigError(
            f"reranker.answers is always, and {reranker.model} can only rank: it does not locate answers. "
            "Set reranker.answers to auto or never, so that the generator answers, or reranker.model to shipped or a "
            "folder that `okralong train` wrote. Nothing was spent."
        )
    if strategy.needs.escalates and (config.confidence == NONE or not reranker.reads_spans):
        why = "confidence is none" if config.confidence == NONE else f"{reranker.model} only ranks"
        raise ConfigError(
            f"The policy {policy.name!r} escalates answers whose confidence is below escalate.under, but the "
            f"answers of this run have no confidence: {why}. Set reranker.model to shipped or a folder "
            "that `okralong train` wrote, with confidence: shipped, or set the policy's escalate to null. "
            "Nothing was spent."
        )


def _admitted(
    archive: Archive, questions: Questions, config: RunConfig, matrix: MatrixRows | None, say: Say
) -> tuple[list[Scoped], list[tuple[Question, str]], list[BadQuestion], tuple[str, ...]]:
    """Return questions with their documents (single ones, then cells), those without any document, bad rows, and order.

    Raises InputError for a matrix without a cell.
    """
    name = source_name(questions)
    asked, bad = read_questions(questions, config.carry, say=say)
    scoped: list[Scoped] = []
    columns: list[tuple[Question, tuple[str, ...]]] = []
    unscoped: list[tuple[Question, str]] = []
    with Scopes(archive) as scopes:
        for question in asked:
            try:
                if matrix is not None:
                    question = matrix.column(question)
                doc_ids = scopes.resolve(question)
            except QuestionError as error:
                unscoped.append((question, f"{name}, {question.query_id}: {error}"))
                continue
            if question.for_each:
                columns.append((question, doc_ids))
            else:
                scoped.append(Scoped(_in_language(question, archive, doc_ids), doc_ids))
    if matrix is not None and not columns:
        raise InputError(f"The matrix has no cells, so nothing was asked. The first reason: {unscoped[0][1]}")
    single = {each.question.query_id for each in scoped} | {question.query_id for question, _ in unscoped}
    seen: dict[str, str] = dict.fromkeys(single, "")
    twice: dict[str, str] = {}
    for cell in cells(columns):
        if cell.query_id in seen:
            twice.setdefault(cell.asked_id, cell.query_id)
            continue
        seen[cell.query_id] = cell.asked_id
        scoped.append(Scoped(_in_language(cell, archive, cell.doc_ids), cell.doc_ids))
    bad += [
        BadQuestion(
            asked_id,
            f"{name}, {asked_id}: the id {query_id!r} of one of its cells is that of another question or cell, which "
            "is asked; a cell holds one value. Give one of the two questions another query_id.",
        )
        for asked_id, query_id in twice.items()
    ]
    order = dict.fromkeys([each.query_id for each in asked if each.query_id in single] + [*seen])
    return scoped, unscoped, bad, tuple(order)


def _in_language(question: Question, archive: Archive, doc_ids: tuple[str, ...]) -> Question:
    language = question.language or question_language(question.question, archive.languages_of(doc_ids))
    return replace(question, language=language)


# Find the questions that must be asked again after the archive has changed.


def rests_on_change(scope: tuple[str, ...], doc_ids: tuple[str, ...], diff: VersionDiff) -> bool:
    """Return whether an archive's changes may affect an answer.

    ``scope`` has the ids and globs in the question, ``doc_ids`` the documents that they match now. A question over the
    whole archive depends on every document. Others depend on the documents in their scope, including those that their
    globs match now for the first time, and removed ones that they matched.
    """
    if not scope:
        return not diff.none
    if not set(doc_ids).isdisjoint((*diff.added, *diff.changed)):
        return True
    return any(gone == entry or fnmatchcase(gone, entry) for gone in diff.removed for entry in scope)


def since_version(prepared: Prepared, version: int) -> tuple[Prepared, VersionDiff]:
    """Return the run restricted to questions affected by changes since ``version``.

    Raises ArchiveError if that version no longer exists, or if the archive has no versions.
    """
    archive = prepared.archive
    if not archive.version:
        raise ArchiveError(
            f"{archive.folder.path} has no versions yet, so its changes are unknown. Run okralong index "
            "on it once, or leave out --changed-since."
        )
    old = read_version(archive.folder, version)
    diff = diff_versions(archive.folder, old, archive.manifest)

    def rests(before: Scopes, question: Question, doc_ids: tuple[str, ...]) -> bool:
        if not question.where:
            return rests_on_change(question.doc_ids, doc_ids, diff)
        try:
            named = before.resolve(question)
        except QuestionError:
            named = ()
        # ``changed`` includes documents of which only the metadata changed.
        return named != doc_ids or not set(doc_ids).isdisjoint((*diff.added, *diff.changed))

    with Scopes(Archive(f"{archive.folder.path}@{version}", archive.folder, old)) as before:
        asked = [one for one in prepared.questions if rests(before, one.question, one.doc_ids)]
        unscoped = [one for one in prepared.unscoped if rests(before, one[0], ())]
    return replace(prepared, questions=asked, unscoped=unscoped), diff
