"""What a sweep may cost, before anything is indexed: sizes of policies and documents, and beliefs about replies."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Final

from pydantic import Field

from okralong.pipelines.answering.policy import Policy, ScopePolicy
from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.lab.datasets.pooling import Pooled
from okralong.pipelines.lab.sweeps.config import CellPlan
from okralong.pipelines.llm.prices import MILLION, Price, PriceTable
from okralong.pipelines.models.weights import EMBEDDED

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]

FREE: Final = Price(input=0.0, cached_input=0.0, output=0.0)


class Usual(Settings):
    """What a method takes of a generator."""

    calls: Positive
    prompt_tokens: Positive
    completion_tokens: Positive


class Mixed(Settings):
    """Tokens of a prompt of text and vectors: rules and question, a passage's frame, a vector's line; of a reply."""

    overhead: Positive
    passage: Positive
    vector: Positive
    reply: Positive


class Beliefs(Settings):
    """See ``configs/sweep_outline.yaml``, which says where each figure comes from.

    ``methods`` have what a question takes, ``trees`` what a method takes once for each token of the cell's documents.
    """

    overhead: Positive
    reply: Positive
    split_reply: Positive
    sub_questions: Positive
    steps: Positive
    absent: Share
    unanswerable: Share
    sara: Mixed
    range: list[Positive] = Field(min_length=2, max_length=2)
    methods: dict[str, Usual]
    other: Usual
    trees: dict[str, Usual] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outlay:
    """Calls, tokens and dollars that are expected of a cell, with a range of dollars. ``described`` is False for a
    method of which nothing but a wide guess is known."""

    questions: int = 0
    calls: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    usd: float = 0.0
    low_usd: float = 0.0
    high_usd: float = 0.0
    described: bool = True

    def __add__(self, other: Outlay) -> Outlay:
        return Outlay(
            self.questions + other.questions,
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.usd + other.usd,
            self.low_usd + other.low_usd,
            self.high_usd + other.high_usd,
            self.described and other.described,
        )


@dataclass
class Outline:
    """Estimates cells over sets that were read. ``sizes`` keeps the tokens of documents that were counted."""

    beliefs: Beliefs = field(default_factory=lambda: load_config(Beliefs, "sweep_outline.yaml"))
    _sizes: dict[int, dict[str, int]] = field(default_factory=dict)

    def of(self, plan: CellPlan, pooled: Pooled) -> Outlay:
        """The outlay of a cell. Raises ConfigError for a model without a price, as its run would."""
        llm = plan.config.llm
        local = llm.base_url == EMBEDDED and llm.price is None
        price = FREE if local else _prices(plan.config.prices).price(llm.model, llm.price)
        room = llm.window - llm.completion_limit("generate")
        sizes = self._documents(pooled)
        calls = prompt = completion = 0.0
        described = True
        by_kind: dict[tuple[str, int], int] = defaultdict(int)
        for question in pooled.questions:
            by_kind[question.item.gold.question.type, sum(sizes[doc_id] for doc_id in question.doc_ids)] += 1
        for (kind, tokens), count in by_kind.items():
            usual, known = self._question(plan, kind, min(tokens, room))
            calls += count * usual.calls
            prompt += count * usual.prompt_tokens
            completion += count * usual.completion_tokens
            described = described and known
        if (tree := self.beliefs.trees.get(plan.config.strategy)) is not None:
            read = sum(sizes[doc_id] for doc_id in {each for question in pooled.questions for each in question.doc_ids})
            calls += read * tree.calls
            prompt += read * tree.prompt_tokens
            completion += read * tree.completion_tokens
        usd = (prompt * price.input + completion * price.output) / MILLION
        low, high = self.beliefs.range
        return Outlay(len(pooled.questions), calls, prompt, completion, usd, low * usd, high * usd, described)

    def _documents(self, pooled: Pooled) -> Mapping[str, int]:
        known = self._sizes.get(id(pooled))
        if known is None:
            known = self._sizes[id(pooled)] = {each.doc_id: count_tokens(each.text) for each in pooled.documents}
        return known

    def _question(self, plan: CellPlan, kind: str, whole: int) -> tuple[Usual, bool]:
        """A question of a type whose documents show ``whole`` tokens at most."""
        strategy, policy, believed = plan.config.strategy, plan.policy, self.beliefs
        if strategy == "std_rag":
            return self._asked(min(whole, policy.std_rag.count * policy.std_rag.granularity)), True
        if strategy == "long_context":
            return self._asked(whole), True
        if strategy == "budget_rag":
            own = policy.budget_rag
            return self._asked(min(whole, own.candidates * own.granularity, own.max_tokens)), True
        if strategy == "sara":
            return self._mixed(policy, whole), True
        if strategy in ("okralong", "okralong_precise"):
            planned = self._planned(policy, kind, whole)
            share = believed.unanswerable if strategy == "okralong_precise" else 0.0
            full = self._asked(whole)
            return Usual(
                calls=planned.calls + share,
                prompt_tokens=planned.prompt_tokens + share * full.prompt_tokens,
                completion_tokens=planned.completion_tokens + share * full.completion_tokens,
            ), True
        return believed.methods.get(strategy, believed.other), strategy in believed.methods

    def _planned(self, policy: Policy, kind: str, whole: int) -> Usual:
        """What the organizer would do with a question that the analyzer types rightly; untyped ones are extractive."""
        believed = self.beliefs
        workflow = {str(name): flow for name, flow in policy.workflow.items()}.get(kind, "linear")
        scope = policy.contextual if kind in policy.contextual_types else policy.factoid
        chunk = _chunk(scope, believed.absent)
        shown = _bounded(scope.count * chunk, scope.tokens)
        if workflow == "extend":
            shown += 2 * scope.count * policy.context.extension_tokens
        if workflow == "split":
            shown = believed.sub_questions * _bounded(policy.split.count * chunk, policy.split.tokens)
            one = self._asked(min(whole, shown))
            return Usual(
                calls=2.0,
                prompt_tokens=one.prompt_tokens + believed.overhead,
                completion_tokens=one.completion_tokens + believed.split_reply,
            )
        if workflow == "step":
            one = self._asked(min(whole, (policy.step.count or scope.count) * chunk))
            steps = believed.steps
            return Usual(
                calls=steps, prompt_tokens=steps * one.prompt_tokens, completion_tokens=steps * one.completion_tokens
            )
        return self._asked(min(whole, shown))

    def _mixed(self, policy: Policy, whole: int) -> Usual:
        """Some chunks as text, the others as vectors, each on a line of its own."""
        sara, believed = policy.sara, self.beliefs.sara
        candidates = min(sara.candidates, math.ceil(whole / sara.granularity))
        text = min(sara.text, candidates)
        vectors = (candidates - text) * believed.vector if sara.compression else 0.0
        shown = _bounded(min(whole, text * sara.granularity) + vectors, sara.max_tokens)
        return Usual(
            calls=1.0,
            prompt_tokens=shown + believed.overhead + text * believed.passage,
            completion_tokens=believed.reply,
        )

    def _asked(self, shown: float) -> Usual:
        believed = self.beliefs
        return Usual(calls=1.0, prompt_tokens=shown + believed.overhead, completion_tokens=believed.reply)


def total(outlays: Sequence[Outlay]) -> Outlay:
    """The sum of cells."""
    return sum(outlays, start=Outlay())


def _chunk(scope: ScopePolicy, absent: float) -> float:
    return absent * scope.granularity_absent + (1 - absent) * scope.granularity_present


def _bounded(tokens: float, bound: int | None) -> float:
    return tokens if bound is None else min(tokens, float(bound))


@lru_cache(maxsize=4)
def _prices(source: str) -> PriceTable:
    return PriceTable.load(source)
