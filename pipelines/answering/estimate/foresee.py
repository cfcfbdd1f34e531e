"""One question, looked at without asking anyone: retrieval, analysis and plan are real, the generator is silent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np

from okralong.pipelines.answering.estimate.forecast import Forecast, Looks, Outlook
from okralong.pipelines.answering.estimate.ladder import ladder
from okralong.pipelines.answering.estimate.silent import SilentGenerator
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.core.types import Answer, Plan, Question, QuestionError, ReplyError
from okralong.pipelines.methods.registry import load_strategy

METHOD: Final = "okralong"
PRECISE: Final = "okralong_precise"
LONG_CONTEXT: Final = "long_context"

UNKNOWN: Final = "unknown"
"""The type of a question for which nothing was found, so that nothing could be analysed."""

Embed = Callable[[list[str]], Awaitable[np.ndarray[Any, np.dtype[np.float32]]]]


def side_by_side(strategy: str) -> tuple[str, ...]:
    """The strategies of an estimate for a run of ``strategy``: that one, the method, and the two plain baselines."""
    method = () if strategy == PRECISE else (METHOD,)
    return tuple(dict.fromkeys([strategy, *method, "std_rag", LONG_CONTEXT]))


async def foresee(question: Question, doc_ids: tuple[str, ...], ports: Ports, strategies: Sequence[str]) -> Outlook:
    """The outlook of a question over its resolved scope. The generator behind ``ports`` is not asked.

    Where the generator analyses, its prompt is counted and the keyword rules speak in its place. A strategy of another
    package is followed as far as it goes with a generator that knows no answer. Without the method among
    ``strategies``, plain or precise, nothing is analysed.
    """
    ports = replace(ports, embed=_once(ports.embed))
    forecasts: dict[str, Forecast] = {}
    problems: dict[str, str] = {}
    kind, workflow = UNKNOWN, "linear"
    for name in dict.fromkeys(METHOD if name == PRECISE else name for name in strategies):
        try:
            forecasts[name], answer = await _look(name, question, doc_ids, ports)
        except (QuestionError, ReplyError) as error:
            problems[name] = str(error)
            continue
        if name == METHOD and answer.plan is not None:
            kind, workflow = answer.analysis.type if answer.analysis else UNKNOWN, answer.plan.workflow
    if METHOD in forecasts:
        # After "unanswerable" precise mode reads what the long context reads, passage by passage.
        whole = forecasts.get(LONG_CONTEXT, Forecast()).certain
        forecasts[PRECISE] = replace(forecasts[METHOD], full_text=sum(prompt.tokens for prompt in whole))
    elif METHOD in problems:
        problems[PRECISE] = problems[METHOD]
    return Outlook(
        question.query_id,
        kind,
        workflow,
        {name: forecasts[name] for name in strategies if name in forecasts},
        {name: problems[name] for name in strategies if name in problems},
    )


async def _look(name: str, question: Question, doc_ids: tuple[str, ...], ports: Ports) -> tuple[Forecast, Answer]:
    """What a strategy sends to a generator that says nothing, and what it makes of that."""
    silent = SilentGenerator(ports.count)
    quiet = replace(ports, complete=silent.complete, admit=silent.admit)

    def tools_at(path: str) -> QuestionTools:
        async def fan_out(branch: Branch, below: str) -> tuple[Any, Mapping[str, float]]:
            return await branch.operator(tools_at(below), **branch.arguments), {}

        return QuestionTools(quiet, question, doc_ids, _NoLog(), fan_out, path)

    answer = await load_strategy(name)(question, tools_at(""))
    asked = {prompt.role for prompt in silent.prompts}
    workflow = answer.plan.workflow if answer.plan is not None and name == METHOD else "linear"
    if workflow not in asked:  # nothing was found, or there is no room to split: what was sent is all there is
        return Forecast(tuple(silent.prompts)), answer
    answers, reasons = await _climb(question, doc_ids, quiet, cast(Plan, answer.plan))
    kept = ("analyze", "split")
    certain = tuple(prompt for prompt in silent.prompts if prompt.role in kept)
    return Forecast(certain, cast(Looks, workflow), answers, reasons), answer


async def _climb(
    question: Question, doc_ids: tuple[str, ...], ports: Ports, plan: Plan
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``ladder`` with a policy that chooses nothing: a choice among a few candidates has no more to give."""
    selection = ports.policy.selection.model_copy(update={"method": "none"})
    plain = replace(ports, policy=ports.policy.model_copy(update={"selection": selection}))
    tools = QuestionTools(plain, question, doc_ids, _NoLog(), _no_branches)
    return await ladder(tools, question.question, plan, ports.demonstrate)


def _once(embed: Embed) -> Embed:
    """``embed`` with a memory, for one question: its strategies look up the same words."""
    known: dict[str, Any] = {}

    async def remembered(texts: list[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, await embed(new), strict=True))
        return np.stack([known[text] for text in texts])

    return remembered


class _NoLog:
    """A journal that keeps nothing: each question is looked at once."""

    def recorded(self, path: str, kind: str) -> str | None:
        """Nothing was."""
        return None

    async def record(self, path: str, kind: str, body: str) -> None:
        """Nothing is."""


async def _no_branches(branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
    raise ValueError(f"A ladder has no branches, but one was asked for at {path}.")
