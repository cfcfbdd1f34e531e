"""What a question costs: the calls that a plan or a method makes, with how many tokens, at most and as expected.

A ``Forecast`` holds the prompts of one question. Three things use it: a run reserves the most that a plan can take
before anything is spent (``plan_reserve``); ``okralong estimate`` counts the prompts in a dry run and draws the replies
(``pipelines/run``); the outline of a sweep, which has no index yet, makes forecasts from the sizes that a policy names
(``use_of_question``). What is assumed of replies stands in one file, ``configs/estimate.yaml``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, Self, get_args

import numpy as np
from pydantic import Field, model_validator

from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import Analysis, Plan, QuestionType, Usage
from okralong.pipelines.llm.prices import Price

PROMPT_OVERHEAD: Final = 600
"""Tokens of instructions, frames and question around the passages of one prompt, at most. Ours."""

CACHED_FROM, CACHED_BY = 1024, 128
"""Prompt tokens from which on, and steps in which, endpoints cache a prefix (OpenAI's guide to prompt caching)."""


def cacheable(tokens: int) -> int:
    """Tokens of a prefix that are cached."""
    return 0 if tokens < CACHED_FROM else CACHED_FROM + (tokens - CACHED_FROM) // CACHED_BY * CACHED_BY


ROLES: Final = ("generate", "split", "step", "full_text", "analyze")
"""The roles of a generator that have priors. Baselines' own have none."""

LookUps = Literal["none", "split", "step"]
"""What decides how many look-ups there will be: the plan alone, the sub-questions, or the steps."""

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, in tokens. ``prefix`` is the hash of what stands before its question, and the tokens of that; None
    where it is too short to be cached.
    """

    role: str
    tokens: int
    prefix: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The prompts of one question under one strategy.

    ``certain`` are sent whatever the replies say. Where ``looks`` is not "none", ``answer[n]`` are the tokens of the
    answer prompt when n + 1 look-ups have each found chunks that no other found, and ``reason[n]`` those of the prompt
    of a reasoning step over as many. ``full_text`` are the tokens of the prompt that follows the reply "unanswerable",
    0 where none does. ``again`` is what is sent besides where the answer is not trusted; None: nothing ever is.
    ``typed``: an answer that does not fit the question's type is asked for once more.
    """

    certain: tuple[Prompt, ...] = ()
    looks: LookUps = "none"
    answer: tuple[int, ...] = ()
    reason: tuple[int, ...] = ()
    full_text: int = 0
    again: Forecast | None = None
    typed: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """Calls and tokens, as expected: they need not be whole."""

    calls: float = 0.0
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0

    def __add__(self, other: Use) -> Use:
        return Use(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def __mul__(self, factor: float) -> Use:
        return Use(factor * self.calls, factor * self.prompt_tokens, factor * self.completion_tokens)


# At most: what a question must be admitted with, so that it is never left half paid.


@dataclass(frozen=True, slots=True)
class Spender:
    """A generator as far as it decides what a plan can take: its price, window, and longest reply of each role."""

    price: Price
    window: int
    completion_limit: Callable[[str], int]


def plan_reserve(
    plan: Plan, table_tokens: int, generator: Spender, stronger: Spender | None = None, *, typed: bool = False
) -> float:
    """``plan_bound`` in US dollars, and where the plan escalates that of the second answer too: by the ``stronger``
    generator, or from the full text by the same one.
    """
    usd = _most(generator, plan_bound(plan, table_tokens, generator.window, generator.completion_limit, typed))
    if plan.escalate_to == "stronger" and stronger is not None:
        usd += _most(stronger, plan_bound(plan, table_tokens, stronger.window, stronger.completion_limit, typed))
    if plan.escalate_to == "precise" and not plan.escalate:  # which has the full text in its bound
        whole = Usage(generator.window, 0, generator.completion_limit("full_text"))
        usd += _most(generator, whole) * (2 if typed else 1)
    return usd


def _most(generator: Spender, usage: Usage) -> float:
    return generator.price.most(usage.prompt_tokens, usage.completion_tokens)


def plan_bound(
    plan: Plan, table_tokens: int, window: int, completion_limit: Callable[[str], int], typed: bool = False
) -> Usage:
    """The most prompt and completion tokens of a plan. No context is longer than the ``window``.

    With ``typed`` each answer is asked for once more, with the reply that did not fit its type. A further call that
    repairs a malformed reply of another role is not part of it: it is rare, and reserves its own cost. In precise
    mode a full window is, since the full text may be read. Where a plan says its bound itself (``most``), that holds.
    """
    if plan.most is not None:
        shown = plan.most.prompt_tokens + completion_limit("generate") + PROMPT_OVERHEAD
        return plan.most + (Usage(min(shown, window), 0, completion_limit("generate")) if typed else Usage())
    widest = max(plan.granularity + 2 * plan.extension_tokens, table_tokens if plan.recover_tables else 0)
    forecast = forecast_of_plan(plan, window, PROMPT_OVERHEAD, lambda count, _: count * widest)
    calls = [*forecast.certain, *(Prompt("step", tokens) for tokens in forecast.reason)]
    if forecast.answer:
        calls.append(Prompt("generate", forecast.answer[-1]))
    if plan.escalate:
        calls.append(Prompt("full_text", window))
    if typed:
        calls += [_repaired(call, completion_limit(call.role), window) for call in calls if call.role in ANSWERS]
    return sum((Usage(call.tokens, 0, completion_limit(call.role)) for call in calls), Usage())


ANSWERS: Final = ("generate", "full_text")
"""The roles whose reply is the answer, which a question's type may refuse."""


def _repaired(call: Prompt, longest: int, window: int) -> Prompt:
    """The prompt that shows a reply of ``longest`` tokens at most, and what is wrong with it."""
    return Prompt(call.role, min(call.tokens + longest + PROMPT_OVERHEAD, window))


def most_of(tools: Tools, calls: Iterable[tuple[str, int]]) -> Usage:
    """The most that some calls can use, each a role and the tokens that it shows beside instructions and question."""
    return sum(
        (Usage(min(shown + PROMPT_OVERHEAD, tools.window), 0, tools.completion_limit(role)) for role, shown in calls),
        Usage(),
    )


def forecast_of_plan(
    plan: Plan, whole: int, overhead: int, shown: Callable[[int, int | None], float] | None = None
) -> Forecast:
    """The prompts of a plan of the method by the sizes that it names.

    ``whole`` tokens are the most that can be shown, ``overhead`` stand around them in each prompt. ``shown`` gives the
    tokens of the context of so many chunks under a bound; by default that of chunks of the plan's own size.
    """

    def own_size(count: int, bound: int | None) -> float:
        return _bounded(count * plan.granularity, bound) + 2 * count * plan.extension_tokens

    def growth(count: int, bound: int | None, look_ups: int) -> tuple[int, ...]:
        one = (shown or own_size)(count, bound)
        return tuple(round(min(number * one, whole)) + overhead for number in range(1, look_ups + 1))

    if plan.workflow == "split":
        answer = growth(plan.sub_question_count, plan.sub_question_tokens, plan.max_sub_questions)
        return Forecast((Prompt("split", overhead),), "split", answer)
    if plan.workflow == "step":
        # After the last step there is one look-up more, which only the answer sees.
        answer = growth(plan.count, plan.max_tokens, plan.max_steps + 1)
        return Forecast((), "step", answer, answer[:-1])
    return Forecast((Prompt("generate", growth(plan.count, plan.max_tokens, 1)[0]),))


# As expected: what is assumed of replies that nobody has seen.


class ReplyPrior(Settings):
    """Completion tokens of a role's reply: the ``mean`` over all questions, or that ``by_type`` of question."""

    mean: Positive
    by_type: dict[str, Positive] = Field(default_factory=dict)


class SharePrior(Settings):
    """A share (``mean``), and how many questions it is ``worth``: a beta distribution of that mean and sum."""

    mean: Annotated[float, Field(gt=0, lt=1)]
    worth: Positive


class UsePrior(Settings):
    """What a method takes of a generator: ``calls``, and tokens of prompts and replies (``prompt_tokens``,
    ``completion_tokens``).
    """

    calls: Positive
    prompt_tokens: Positive
    completion_tokens: Positive

    @property
    def use(self) -> Use:
        """As values."""
        return Use(self.calls, self.prompt_tokens, self.completion_tokens)


class VectorPrompt(Settings):
    """Tokens of SARA's prompt: rules and question (``overhead``), the frame of a ``passage``, the line of a ``vector``;
    and of its ``reply``.
    """

    overhead: Positive
    passage: Positive
    vector: Positive
    reply: Positive


class SizePriors(Settings):
    """What is assumed where no index can be looked at.

    ``overhead`` are the tokens around the passages of a prompt, ``absent`` the share of questions whose evidence is not
    in the primary chunks, ``range`` the factors of a range of dollars. ``methods`` have what a question takes under a
    method whose policy does not say it, ``other`` under any other; ``trees`` what a method takes once for each token of
    the documents.
    """

    overhead: Annotated[int, Field(gt=0)]
    absent: Share
    range: list[Positive] = Field(min_length=2, max_length=2)
    sara: VectorPrompt
    methods: dict[str, UsePrior]
    other: UsePrior
    trees: dict[str, UsePrior] = Field(default_factory=dict)


class Priors(Settings):
    """``replies`` has an entry for each role.

    ``spread`` is the coefficient of variation of one reply; ``wordiness`` the standard deviation of the logarithm of a
    factor on all replies of a generator, ``role_wordiness`` that of a role's own factor beside it; ``counting`` the
    same of the tokens that the endpoint counts in a prompt. ``sub_questions`` gives weights to numbers of
    sub-questions, worth ``sub_questions_worth`` questions; ``answers`` is the share of reasoning steps that answer,
    ``gives_up`` of the others the share that look up nothing new; ``new_in_split`` and ``new_in_step`` the share of a
    further look-up's chunks that no earlier one found. ``unanswerable`` is the share of such answers before the full
    text is read, ``escalated`` that of answers that are not trusted where the policy escalates, ``repaired`` that of
    typed answers that are asked for once more.
    ``pilot_against`` is how many of a pilot's questions of one workflow weigh as much as all of this. ``thought`` has
    the mean tokens of thought before a reply by ``reasoning_effort``; a generator that thinks has ``thought_spread``
    and ``thought_wordiness`` for its ``spread`` and ``wordiness``. ``sizes`` is for the outline of a sweep alone.
    """

    replies: dict[str, ReplyPrior]
    spread: Positive
    wordiness: Positive
    role_wordiness: Positive
    counting: Positive
    sub_questions: dict[int, Positive]
    sub_questions_worth: Positive
    answers: SharePrior
    gives_up: SharePrior
    new_in_split: SharePrior
    new_in_step: SharePrior
    unanswerable: SharePrior
    escalated: SharePrior
    repaired: Share
    pilot_against: Positive
    thought: dict[str, Positive]
    thought_spread: Positive
    thought_wordiness: Positive
    sizes: SizePriors

    @model_validator(mode="after")
    def _every_role(self) -> Self:
        if missing := set(ROLES) - set(self.replies):
            raise ValueError(f"replies has no entry for {', '.join(sorted(missing))}")
        if not self.sub_questions or min(self.sub_questions) < 1:
            raise ValueError("sub_questions gives weights to numbers from 1 on")
        return self

    def thinking(self, effort: str | None, room: int) -> Priors:
        """The same for a generator that may think in so many tokens before each reply, with this effort (None: its own,
        which is taken for medium); itself for one that does not think.
        """
        thought = min(self.thought.get(effort or "medium", 0.0), room)
        if not thought:
            return self
        replies = {
            role: ReplyPrior(
                mean=each.mean + thought, by_type={kind: mean + thought for kind, mean in each.by_type.items()}
            )
            for role, each in self.replies.items()
        }
        spreads = {"spread": self.thought_spread, "wordiness": self.thought_wordiness}
        return self.model_copy(update={"replies": replies, **spreads})

    def reply(self, role: str, kind: str) -> float:
        """The mean tokens of a reply of ``role`` to a question of type ``kind``; "generate" for a role of one's own."""
        known = self.replies.get(role, self.replies["generate"])
        return known.by_type.get(kind, known.mean)


def expected_use(forecast: Forecast, kind: str, priors: Priors) -> Use:
    """What a question of type ``kind`` takes with that forecast if all is as the priors have it on average."""

    def call(role: str, tokens: float) -> Use:
        return Use(1.0, tokens, priors.reply(role, kind))

    chances = _chances(forecast, priors)
    used = sum((call(prompt.role, prompt.tokens) for prompt in forecast.certain), Use())
    used = sum((call(role, tokens) * chance for role, tokens, chance in chances), used)
    return used + call("full_text", forecast.full_text) * (priors.unanswerable.mean if forecast.full_text else 0.0)


def _chances(forecast: Forecast, priors: Priors) -> Iterator[tuple[str, float, float]]:
    """Role, tokens and probability of each call that replies decide on."""
    if forecast.looks == "split":
        weights = sum(priors.sub_questions.values())
        for number, weight in priors.sub_questions.items():
            asked = min(number, len(forecast.answer))
            yield "generate", _grown(forecast.answer, asked, priors.new_in_split), weight / weights
    if forecast.looks == "step":
        going, new = 1.0, priors.new_in_step
        for number in range(1, len(forecast.reason) + 1):
            yield "step", _grown(forecast.reason, number, new), going
            going *= 1 - priors.answers.mean
            yield "generate", _grown(forecast.answer, number, new), going * priors.gives_up.mean
            going *= 1 - priors.gives_up.mean
        yield "generate", _grown(forecast.answer, len(forecast.answer), new), going


def _grown(growth: Sequence[int], look_ups: int, new: SharePrior) -> float:
    """Tokens after so many look-ups, of whose chunks the share ``new`` was not found before."""
    return float(np.interp(1 + (look_ups - 1) * new.mean, range(1, len(growth) + 1), growth))


# A method by the sizes that its policy names, where there is no index to look at.


def use_of_question(strategy: str, policy: Policy, kind: str, whole: int, priors: Priors) -> tuple[Use, bool]:
    """What a question of type ``kind``, whose documents can show ``whole`` tokens at most, takes; and whether the
    method is described at all: of any other nothing but a wide guess is known.
    """
    sizes = priors.sizes
    if strategy == "sara":
        return _vectors_use(policy, whole, sizes.sara), True
    if strategy in ("okralong", "okralong_precise"):
        # As if the analyzer typed the question rightly; a question without a type is extractive.
        known: QuestionType = next((each for each in get_args(QuestionType) if each == kind), "extractive")
        full_text = whole + sizes.overhead if strategy == "okralong_precise" else 0
        used = Use()
        for evidence, share in ((False, sizes.absent), (True, 1 - sizes.absent)):
            analysis = Analysis(known, "same", evidence, {known: 1.0}, {"same": 1.0}, float(evidence), "expected")
            forecast = forecast_of_plan(organize(analysis, policy, precise=False), whole, sizes.overhead)
            used += expected_use(replace(forecast, full_text=full_text), kind, priors) * share
        return used, True
    section = dict(policy)  # a method's section is defined in the method's file, which this layer cannot import
    std, budget, route = section["std_rag"], section["budget_rag"], section["self_route"]
    shown = {
        "std_rag": std.count * std.granularity,
        "budget_rag": min(budget.candidates * budget.granularity, budget.max_tokens),
        "long_context": whole,
        "self_route": route.count * route.granularity,
    }
    if strategy in shown:
        prompt = Prompt("generate", min(whole, shown[strategy]) + sizes.overhead)
        full_text = whole + sizes.overhead if strategy == "self_route" else 0
        return expected_use(Forecast((prompt,), full_text=full_text), kind, priors), True
    return sizes.methods.get(strategy, sizes.other).use, strategy in sizes.methods


def use_again(strategy: str, policy: Policy, kind: str, whole: int, priors: Priors) -> Use:
    """What a question takes besides where its answer is not trusted, whoever is asked; nothing for other methods."""
    if policy.escalate is None or strategy not in ("okralong", "okralong_precise"):
        return Use()
    if policy.escalate.to == "precise":
        return Use(1.0, whole + priors.sizes.overhead, priors.reply("full_text", kind))
    return use_of_question(strategy, policy, kind, whole, priors)[0]


def _vectors_use(policy: Policy, whole: int, assumed: VectorPrompt) -> Use:
    """Some chunks as text, the others as vectors, each on a line of its own."""
    sara = dict(policy)["sara"]
    candidates = min(sara.candidates, math.ceil(whole / sara.granularity))
    text = min(sara.text, candidates)
    vectors = (candidates - text) * assumed.vector if sara.compression else 0.0
    shown = _bounded(min(whole, text * sara.granularity) + vectors, sara.max_tokens)
    return Use(1.0, shown + assumed.overhead + text * assumed.passage, assumed.reply)


def _bounded(tokens: float, bound: int | None) -> float:
    return tokens if bound is None else min(tokens, bound)
