"""Find the prompts that a question will send, by running its strategy with an offline generator.

Retrieval, analysis and plan are real. The offline generator replies as little as possible, so a strategy takes its
shortest path: no sub-questions, no further step, no answer. Therefore the counted prompts are sent whatever a real
generator replies, or are the first of several similar ones. ``prompt_growth`` measures how prompts grow with further
look-ups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from okralong.pipelines.answering.answer_types import TEXT, AnswerType
from okralong.pipelines.answering.context import BuildPrompt, fit_passages, process_context
from okralong.pipelines.answering.cost_model import Forecast, LookUps, Prompt
from okralong.pipelines.answering.generate import answer_prompt_of
from okralong.pipelines.answering.offline import MemoryLog, OfflineGenerator
from okralong.pipelines.answering.prompts import step_prompt, with_demonstration
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import (
    QUESTION_MARK,
    Answer,
    Hit,
    Message,
    Passage,
    Plan,
    Question,
    QuestionError,
    ReplyError,
)
from okralong.pipelines.llm.config import ANALYZE
from okralong.pipelines.llm.request import TOKENS_PER_PROMPT, cacheable, prompt_tokens
from okralong.pipelines.methods.registry import load_strategy

METHOD: Final = "okralong"
PRECISE: Final = "okralong_precise"
LONG_CONTEXT: Final = "long_context"

UNKNOWN: Final = "unknown"
"""The type of a question that was not analyzed, because nothing was retrieved."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The forecast of one question under each strategy.

    ``type`` and ``workflow`` are those that okralong's own method assigns; "unknown" and "linear" if nothing was
    retrieved. ``problems`` maps each strategy that cannot answer the question to the reason.
    """

    query_id: str
    type: str
    workflow: str
    forecasts: Mapping[str, Forecast]
    problems: Mapping[str, str]


def side_by_side(strategy: str) -> tuple[str, ...]:
    """Return the strategies to compare in an estimate: ``strategy``, okralong's own, and two plain baselines."""
    method = () if strategy == PRECISE else (METHOD,)
    return tuple(dict.fromkeys([strategy, *method, "std_rag", LONG_CONTEXT]))


async def dry_run(question: Question, doc_ids: tuple[str, ...], ports: Ports, strategies: Sequence[str]) -> Outlook:
    """Return the outlook of a question over its resolved scope, without calling the generator of ``ports``.

    If the generator is the analyzer, its prompt is counted, and the labels come from the keyword rules. A third-party
    strategy is followed as far as it gets with a generator that never answers. The question is analyzed only if
    ``okralong`` or ``okralong_precise`` is among ``strategies``.
    """
    forecasts: dict[str, Forecast] = {}
    problems: dict[str, str] = {}
    kind, workflow = UNKNOWN, "linear"
    for name in dict.fromkeys(METHOD if name == PRECISE else name for name in strategies):
        try:
            forecasts[name], answer = await _forecast(name, question, doc_ids, ports)
        except (QuestionError, ReplyError) as error:
            problems[name] = str(error)
            continue
        if name == METHOD and answer.plan is not None:
            kind, workflow = answer.analysis.type if answer.analysis else UNKNOWN, answer.plan.workflow
    if METHOD in forecasts:
        # If the first answer is "unanswerable", precise mode reads the text that long context reads, passage by
        # passage.
        whole = _tokens(forecasts.get(LONG_CONTEXT))
        forecasts[PRECISE] = replace(forecasts[METHOD], full_text=whole)
        for name in (METHOD, PRECISE):
            again = await _again(name, question, doc_ids, ports, whole)
            forecasts[name] = replace(forecasts[name], again=again)
    elif METHOD in problems:
        problems[PRECISE] = problems[METHOD]
    return Outlook(
        question.query_id,
        kind,
        workflow,
        {name: forecasts[name] for name in strategies if name in forecasts},
        {name: problems[name] for name in strategies if name in problems},
    )


async def _again(name: str, question: Question, doc_ids: tuple[str, ...], ports: Ports, whole: int) -> Forecast | None:
    """Return the prompts of an escalation: those sent if the answer is below the confidence threshold.

    ``name`` is the plain or precise method; ``whole`` is the size of the full-text prompt in tokens.
    """
    again = ports.policy.escalate
    if again is None:
        return None
    if again.to == "precise":
        longest = ports.answer_tokens(question.answer_type)
        return Forecast((Prompt("full_text", whole),), typed=bool(question.answer_type), longest=longest)
    if ports.stronger is None:
        return None
    try:
        found, _ = await _forecast(METHOD, question, doc_ids, ports.stronger)
        read = (await _forecast(LONG_CONTEXT, question, doc_ids, ports.stronger))[0] if name == PRECISE else None
    except (QuestionError, ReplyError):  # the prompt exceeds its window: no escalation
        return None
    # The escalation reuses the labels of the first answer.
    certain = tuple(prompt for prompt in found.certain if prompt.role != ANALYZE)
    return replace(found, certain=certain, full_text=_tokens(read))


def _tokens(forecast: Forecast | None) -> int:
    return sum(prompt.tokens for prompt in forecast.certain) if forecast else 0


async def _forecast(name: str, question: Question, doc_ids: tuple[str, ...], ports: Ports) -> tuple[Forecast, Answer]:
    """Return the prompts that a strategy sends if replies are as short as possible, and its answer."""
    offline = OfflineGenerator()
    policy = ports.policy.model_copy(update={"escalate": None})  # ``_again`` counts escalations
    ports = replace(ports, generator=offline, policy=policy)
    tools = QuestionTools.in_process(ports, question, doc_ids, MemoryLog())
    answer = await load_strategy(name)(question, tools)
    prompts = [_prompt(call.role, call.messages, ports.count) for call in offline.calls]
    asked = {prompt.role for prompt in prompts}
    workflow = answer.plan.workflow if answer.plan is not None and name == METHOD else "linear"
    typed, longest = bool(question.answer_type), ports.answer_tokens(question.answer_type)
    if workflow not in asked:  # no further prompts: nothing was found, or there is no room to split
        return replace(_as_sent(prompts), typed=typed, longest=longest), answer
    tools = QuestionTools.in_process(ports, question, doc_ids, MemoryLog())
    answers, reasons = await prompt_growth(tools, question.question, cast(Plan, answer.plan), ports.demonstrate)
    certain = tuple(prompt for prompt in prompts if prompt.role in (ANALYZE, "split"))
    return Forecast(certain, cast(LookUps, workflow), answers, reasons, typed=typed, longest=longest), answer


def _as_sent(prompts: Sequence[Prompt]) -> Forecast:
    """Return the forecast of a strategy whose prompts do not depend on replies.

    A full-text prompt that follows others is not certain: it was sent because the offline reply is "unanswerable".
    """
    first = [prompt for prompt in prompts if prompt.role != "full_text"]
    if not first:
        return Forecast(tuple(prompts))
    return Forecast(tuple(first), full_text=sum(prompt.tokens for prompt in prompts if prompt.role == "full_text"))


async def prompt_growth(
    tools: Tools, question: str, plan: Plan, demonstrate: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return ``(answer, reason)`` of a ``Forecast`` for a plan with the workflow "split" or "step".

    The queries of later look-ups are unknown until a model writes them. Therefore n look-ups that find only new chunks
    are assumed to give a prompt as long as the first n times ``count`` chunks for the question itself. The share of new
    chunks is one of the priors; it was measured with the sub-questions of public data sets (``python -m
    benchmarks.estimate.priors``). A split has no reasoning prompts.

    ``tools`` must have no chunk selection. Raises QuestionError if no passage fits beside the question.
    """

    def sized(passages: Sequence[Passage], hits: Sequence[Hit], build: BuildPrompt, role: str) -> int:
        messages = build(fit_passages(passages, hits, build, role, tools))
        typed = wanted if role == "generate" else TEXT
        return prompt_tokens(
            with_demonstration(messages, role, tools.short_contract, typed) if demonstrate else messages, tools.count
        )

    split = plan.workflow == "split"
    # One more look-up follows the last step; only the answer prompt contains it.
    look_ups = plan.max_sub_questions if split else plan.max_steps + 1
    count = plan.sub_question_count if split else plan.count
    tokens = plan.sub_question_tokens if split else plan.max_tokens
    deep = replace(
        plan,
        count=look_ups * count,
        candidates=max(plan.candidates, look_ups * count),
        max_tokens=None if tokens is None else look_ups * tokens,
    )
    hits = await assembled_retrieval(tools, "retrieve", question, deep)
    wanted = AnswerType.of(tools.answer_type)
    build_answer = answer_prompt_of(tools, question)
    answers, reasons = [], []
    for number in range(1, look_ups + 1):
        shown = hits[: number * count]
        passages = await process_context(shown, plan, tools)
        answers.append(sized(passages, shown, build_answer, "generate"))
        if not split and number <= plan.max_steps:
            reasons.append(sized(passages, shown, partial(step_prompt, question, language=tools.language), "step"))
    return tuple(answers), tuple(reasons)


def _prompt(role: str, messages: Sequence[Message], count: CountTokens) -> Prompt:
    tokens = prompt_tokens(messages, count)
    before, mark, asked = messages[-1].content.rpartition(QUESTION_MARK)
    shared = tokens - count(f"{mark}{asked}") - TOKENS_PER_PROMPT
    if not mark or not cacheable(shared):
        return Prompt(role, tokens)
    text = "\n".join([*(message.content for message in messages[:-1]), before])
    return Prompt(role, tokens, (hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), shared))
