"""What a sweep may cost, before anything is indexed: from the sizes of policies and documents, and assumed replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from okralong.pipelines.answering.cost_model import Priors, Use, use_again, use_of_question
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.lab.datasets.pooling import Pooled
from okralong.pipelines.lab.sweeps.config import CellPlan
from okralong.pipelines.llm.prices import MILLION, Price, PriceTable
from okralong.pipelines.models.weights import EMBEDDED

FREE: Final = Price(input=0.0, cached_input=0.0, output=0.0)


@dataclass(frozen=True, slots=True)
class CostEstimate:
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

    def __add__(self, other: CostEstimate) -> CostEstimate:
        return CostEstimate(
            self.questions + other.questions,
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.usd + other.usd,
            self.low_usd + other.low_usd,
            self.high_usd + other.high_usd,
            self.described and other.described,
        )


def total(cells: Sequence[CostEstimate]) -> CostEstimate:
    """The sum of cells."""
    return sum(cells, start=CostEstimate())


@dataclass
class Outline:
    """Estimates cells over sets that were read. ``_sizes`` keeps the tokens of documents that were counted."""

    priors: Priors = field(default_factory=lambda: load_config(Priors, "estimate.yaml"))
    _sizes: dict[int, dict[str, int]] = field(default_factory=dict)

    def of(self, plan: CellPlan, pooled: Pooled) -> CostEstimate:
        """The cost of a cell. Raises ConfigError for a model without a price, as its run would."""
        llm, strategy = plan.config.llm, plan.config.strategy
        local = llm.base_url == EMBEDDED and llm.price is None
        price = FREE if local else _prices(plan.config.prices).price(llm.model, llm.price)
        free = llm.window - llm.completion_limit("generate")
        sizes = self._documents(pooled)
        kinds = Counter(
            (question.item.gold.question.type, min(sum(sizes[doc_id] for doc_id in question.doc_ids), free))
            for question in pooled.questions
        )
        used, again, described = Use(), Use(), True
        for (kind, tokens), count in kinds.items():
            use, known = use_of_question(strategy, plan.policy, kind, tokens, self.priors)
            used, described = used + use * count, described and known
            again += use_again(strategy, plan.policy, kind, tokens, self.priors) * count
        if (tree := self.priors.sizes.trees.get(strategy)) is not None:
            asked = {doc_id for question in pooled.questions for doc_id in question.doc_ids}
            used += tree.use * sum(sizes[doc_id] for doc_id in asked)
        # Of answers that are not trusted none are asked for again at least, and all at most.
        second = price
        if plan.policy.escalate is not None and plan.policy.escalate.to == "stronger" and llm.stronger is not None:
            second = _prices(plan.config.prices).price(llm.stronger.model, llm.stronger.price)
        share = self.priors.escalated.mean
        first_usd, again_usd = _usd(used, price), _usd(again, second)
        low, high = self.priors.sizes.range
        used += again * share
        return CostEstimate(
            questions=len(pooled.questions),
            calls=used.calls,
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            usd=first_usd + share * again_usd,
            low_usd=low * first_usd,
            high_usd=high * (first_usd + again_usd),
            described=described,
        )

    def _documents(self, pooled: Pooled) -> Mapping[str, int]:
        if id(pooled) not in self._sizes:
            self._sizes[id(pooled)] = {each.doc_id: count_tokens(each.text) for each in pooled.documents}
        return self._sizes[id(pooled)]


def _usd(use: Use, price: Price) -> float:
    return (use.prompt_tokens * price.input + use.completion_tokens * price.output) / MILLION


@lru_cache(maxsize=4)
def _prices(source: str) -> PriceTable:
    return PriceTable.load(source)
