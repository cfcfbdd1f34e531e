"""Estimate the cost of a sweep before anything is indexed.

The prompts of a cell are derived from the chunk sizes and counts in its policy and from the sizes of the documents. The
replies are simulated as in ``okralong estimate`` (``pipelines/run/simulation.py``). For methods whose policy has no
sizes, ``configs/outline.yaml`` has assumptions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Final, get_args

import numpy as np
from pydantic import Field

from okralong.lab.datasets.pooling import Pooled
from okralong.lab.sweeps.config import CellPlan, JudgeConfig
from okralong.lab.sweeps.judge import MOST_CONTEXT, ToJudge, ToMark, judge_prompt, marks_prompt
from okralong.pipelines.answering.cost_model import Forecast, Prompt, forecast_of_plan
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Analysis, Message, QuestionType
from okralong.pipelines.llm.prices import MILLION, Price, PriceTable
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.priors import Positive, Priors, Share
from okralong.pipelines.run.simulation import GeneratorParameters, Simulation

FREE: Final = Price(input=0.0, cached_input=0.0, output=0.0)
VERDICT: Final = 8
MARKS_REPLY: Final = 32
"""The o200k tokens of the judge's replies, a verdict and four marks, counted on examples."""
SAMPLES: Final = 20_000  # project default
"""Number of simulated questions of a cell, several per kind of question. Sums are then exact to about half a
percent."""

Asked = tuple[str, int]
"""A kind of question: its type, and the tokens of its documents, which are the most that can be shown."""


@dataclass(frozen=True, slots=True)
class Use:
    """Expected calls and tokens; they need not be whole."""

    calls: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0

    def __add__(self, other: Use) -> Use:
        return Use(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))

    def __mul__(self, factor: float) -> Use:
        return Use(*(factor * one for one in astuple(self)))


class UsePrior(Settings):
    """Calls of a generator, and the tokens of their prompts and replies."""

    calls: Positive
    prompt_tokens: Positive
    completion_tokens: Positive

    @property
    def use(self) -> Use:
        """The same as a ``Use``."""
        return Use(self.calls, self.prompt_tokens, self.completion_tokens)


class VectorPrompt(Settings):
    """The tokens of SARA's prompt and reply.

    ``overhead`` is for rules and question, ``passage`` for the frame of a passage, ``vector`` for the line of a vector.
    """

    overhead: Positive
    passage: Positive
    vector: Positive
    reply: Positive


class Sizes(Settings):
    """Assumptions for estimating a sweep without an index.

    ``overhead`` is the number of tokens of a prompt in addition to its passages, ``absent`` the share of questions
    whose evidence is not in the primary chunks. ``range`` has the factors that turn expected dollars into a range.
    ``methods`` has the use per question for methods whose policy has no sizes, ``other`` that for any other method, and
    ``trees`` the use once per token of the documents, for methods that write artifacts.
    """

    overhead: Annotated[int, Field(gt=0)]
    absent: Share
    range: list[Positive] = Field(min_length=2, max_length=2)
    sara: VectorPrompt
    methods: dict[str, UsePrior]
    other: UsePrior
    trees: dict[str, UsePrior] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Expected calls, tokens and dollars of a cell, with a range of dollars.

    ``described`` is False if the estimate of the method is only a rough guess.
    """

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
    """Return the sum of cells."""
    return sum(cells, start=CostEstimate())


@dataclass
class Outline:
    """Estimates the cost of cells over sets that have been read."""

    priors: Priors = field(default_factory=lambda: load_config(Priors, "estimate.yaml"))
    sizes: Sizes = field(default_factory=lambda: load_config(Sizes, "outline.yaml"))
    _counted: dict[int, dict[str, int]] = field(default_factory=dict)

    def of(self, plan: CellPlan, pooled: Pooled) -> CostEstimate:
        """Return the cost of a cell. Raises ConfigError for a model without a price, as its run would."""
        llm, strategy = plan.config.llm, plan.config.strategy
        local = llm.base_url == EMBEDDED and llm.price is None
        price = FREE if local else _prices(plan.config.prices).price(llm.model, llm.price)
        counts = Counter(self._asked(plan, pooled))
        priors = self.priors.thinking(llm.reasoning_effort, llm.room_for_thought)
        uses, uses_again = self._uses(plan, counts, priors), self._uses_again(plan, counts, priors)
        used = sum((uses[each] * count for each, count in counts.items()), Use())
        again = sum((use * counts[each] for each, use in uses_again.items()), Use())
        if (tree := self.sizes.trees.get(strategy)) is not None:
            documents = self._documents(pooled)
            used += tree.use * sum(documents[each] for each in {one for q in pooled.questions for one in q.doc_ids})
        second = price
        if plan.policy.escalate is not None and plan.policy.escalate.to == "stronger" and llm.stronger is not None:
            second = _prices(plan.config.prices).price(llm.stronger.model, llm.stronger.price)
        share = self.priors.escalated.mean
        first_usd, again_usd = _usd(used, price), _usd(again, second)
        low, high = self.sizes.range
        used += again * share
        return CostEstimate(
            questions=len(pooled.questions),
            calls=used.calls,
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            usd=first_usd + share * again_usd,
            # The range extends from escalating no answer to escalating all.
            low_usd=low * first_usd,
            high_usd=high * (first_usd + again_usd),
            described=strategy in (*BY_SIZES, "sara", *self.sizes.methods),
        )

    def judging(self, plan: CellPlan, pooled: Pooled, config: RunConfig, judge: JudgeConfig) -> CostEstimate:
        """Return the cost of judging all answers of the cell with each seed.

        An answer is assumed to have the expected length of the cell's replies; the context for marks, that of its
        prompt, up to ``MOST_CONTEXT``.
        """
        price = _prices(config.prices).price(config.llm.model, config.llm.price)
        asked = self._asked(plan, pooled)
        uses = self._uses(plan, set(asked), self.priors)
        used, count = Use(), 0
        for each, key in zip(pooled.questions, asked, strict=True):
            question, taken = each.item.gold.question, uses[key]
            if not question.answers:
                continue
            count += 1
            calls = max(1.0, taken.calls)
            answer = taken.completion_tokens / calls
            bare = judge_prompt(ToJudge("", question.question, question.answers, ""))
            used += Use(1, _tokens(bare) + answer, VERDICT)
            if judge.marks:
                context = min(MOST_CONTEXT, taken.prompt_tokens / calls)
                bare = marks_prompt(ToMark("", question.question, question.answers, "", ("-",)))
                used += Use(1, _tokens(bare) + answer + context, MARKS_REPLY)
        used *= judge.seeds
        usd, (low, high) = _usd(used, price), self.sizes.range
        return CostEstimate(count, used.calls, used.prompt_tokens, used.completion_tokens, usd, low * usd, high * usd)

    def _asked(self, plan: CellPlan, pooled: Pooled) -> list[Asked]:
        llm, sizes = plan.config.llm, self._documents(pooled)
        free = llm.window - llm.completion_limit("generate")
        return [
            (each.item.gold.question.type, min(sum(sizes[doc_id] for doc_id in each.doc_ids), free))
            for each in pooled.questions
        ]

    def _documents(self, pooled: Pooled) -> Mapping[str, int]:
        if id(pooled) not in self._counted:
            self._counted[id(pooled)] = {each.doc_id: count_tokens(each.text) for each in pooled.documents}
        return self._counted[id(pooled)]

    def _uses(self, plan: CellPlan, asked: Collection[Asked], priors: Priors) -> dict[Asked, Use]:
        """Return the expected use for a question of each kind."""
        strategy, policy = plan.config.strategy, plan.policy
        if strategy == "sara":
            return {each: _vectors_use(policy, each[1], self.sizes.sara) for each in asked}
        if strategy not in BY_SIZES:
            return dict.fromkeys(asked, self.sizes.methods.get(strategy, self.sizes.other).use)
        forecasts = {each: forecasts_by_sizes(strategy, policy, *each, self.sizes) for each in asked}
        if plan.config.analyzer.kind == "llm" and strategy in METHODS:
            primary = policy.primary.count * policy.primary.granularity
            prompts = {each: Prompt("analyze", min(each[1], primary) + self.sizes.overhead) for each in asked}
            forecasts = {
                each: [(share, replace(one, certain=(prompts[each], *one.certain))) for share, one in found]
                for each, found in forecasts.items()
            }
        return simulated_uses(forecasts, priors, plan.config.llm.completion_limit)

    def _uses_again(self, plan: CellPlan, asked: Collection[Asked], priors: Priors) -> dict[Asked, Use]:
        """Return the additional use for a question of each kind if its answer is escalated."""
        escalate = plan.policy.escalate
        if escalate is None or plan.config.strategy not in METHODS:
            return {}
        if escalate.to != "precise":
            return self._uses(plan, asked, priors)
        forecasts = {each: [(1.0, Forecast((Prompt("full_text", each[1] + self.sizes.overhead),)))] for each in asked}
        return simulated_uses(forecasts, priors, plan.config.llm.completion_limit)


METHODS: Final = ("okralong", "okralong_precise")
BY_SIZES: Final = (*METHODS, "std_rag", "budget_rag", "long_context", "self_route")
"""Strategies whose prompts can be derived from the sizes in the policy."""


def forecasts_by_sizes(
    strategy: str, policy: Policy, kind: str, whole: int, sizes: Sizes
) -> Sequence[tuple[float, Forecast]]:
    """Return the possible forecasts of a question of type ``kind``, each with its probability.

    ``whole`` is the number of tokens of its documents.
    """
    if strategy in METHODS:
        # The analyzer is assumed to be right. A question without a type counts as extractive.
        known: QuestionType = next((each for each in get_args(QuestionType) if each == kind), "extractive")
        full_text = whole + sizes.overhead if strategy == "okralong_precise" else 0
        found = []
        for evidence, share in ((False, sizes.absent), (True, 1 - sizes.absent)):
            analysis = Analysis(known, "same", evidence, {known: 1.0}, {"same": 1.0}, float(evidence), "expected")
            plan = organize(analysis, policy, precise=False)
            forecast = forecast_of_plan(plan, whole, sizes.overhead)
            found.append((share, replace(forecast, full_text=full_text)))
        return found
    section = dict(policy)  # includes the sections of methods, which the registry adds as fields
    std, budget, route = section["std_rag"], section["budget_rag"], section["self_route"]
    shown = {
        "std_rag": std.count * std.granularity,
        "budget_rag": min(budget.candidates * budget.granularity, budget.max_tokens),
        "long_context": whole,
        "self_route": route.count * route.granularity,
    }
    prompt = Prompt("generate", min(whole, shown[strategy]) + sizes.overhead)
    return [(1.0, Forecast((prompt,), full_text=whole + sizes.overhead if strategy == "self_route" else 0))]


def simulated_uses(
    forecasts: Mapping[Asked, Sequence[tuple[float, Forecast]]], priors: Priors, limit: Callable[[str], int]
) -> dict[Asked, Use]:
    """Return the mean use for a question of each kind, with an average generator."""
    flat = [(asked, share, forecast) for asked, each in forecasts.items() for share, forecast in each]
    runs = -(-SAMPLES // max(1, len(flat)))
    kinds = [asked[0] for asked, _, _ in flat]
    simulation = Simulation([forecast for *_, forecast in flat] * runs, kinds * runs, priors, limit)
    used = simulation.sample(GeneratorParameters.average(priors), np.random.default_rng(0))
    figures = np.stack([used.calls, used.prompt + used.full_text_prompt, used.completion + used.full_text_completion])
    means = figures.reshape(3, runs, len(flat)).mean(axis=1).T.tolist()
    uses = dict.fromkeys(forecasts, Use())
    for (asked, share, _), mean in zip(flat, means, strict=True):
        uses[asked] += Use(*mean) * share
    return uses


def _vectors_use(policy: Policy, whole: int, assumed: VectorPrompt) -> Use:
    """Return the use of SARA, which shows some chunks as text and the others as vectors."""
    sara = dict(policy)["sara"]
    candidates = min(sara.candidates, math.ceil(whole / sara.granularity))
    text = min(sara.text, candidates)
    vectors = (candidates - text) * assumed.vector if sara.compression else 0.0
    shown = min(whole, text * sara.granularity) + vectors
    if sara.max_tokens is not None:
        shown = min(shown, sara.max_tokens)
    return Use(1.0, shown + assumed.overhead + text * assumed.passage, assumed.reply)


def _tokens(messages: Sequence[Message]) -> int:
    return sum(count_tokens(each.content) for each in messages)


def _usd(use: Use, price: Price) -> float:
    return (use.prompt_tokens * price.input + use.completion_tokens * price.output) / MILLION


@lru_cache(maxsize=4)
def _prices(source: str) -> PriceTable:
    return PriceTable.load(source)
