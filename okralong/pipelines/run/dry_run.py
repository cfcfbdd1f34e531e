"""The prompts that a question will send, found by running its strategy with a client that asks nobody.

Retrieval, analysis and plan are real. The client replies as little as it can, which lets a strategy take its shortest
way: no sub-questions, no further step, no answer. So the prompts that it counts are those that come whatever a real
generator replies, or the first ones of their kind; how prompts grow with further look-ups is counted apart
(``prompt_growth``).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.answering.answer_types import TEXT, AnswerType
from okralong.pipelines.answering.context import BuildPrompt, fit_passages, process_context
from okralong.pipelines.answering.cost_model import Forecast, LookUps, Prompt, cacheable
from okralong.pipelines.answering.prompts import UNANSWERABLE, answer_prompt, step_prompt, with_demonstration
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.answering.tools import ESCALATED, Tools
from okralong.pipelines.core.codec import decode
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import (
    QUESTION_MARK,
    Answer,
    Hit,
    Message,
    NobodyAsked,
    Passage,
    Plan,
    Question,
    QuestionError,
    Reply,
    ReplyError,
    Usage,
)
from okralong.pipelines.llm.config import ANALYZE
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import USED
from okralong.pipelines.methods.registry import load_strategy

METHOD: Final = "okralong"
PRECISE: Final = "okralong_precise"
LONG_CONTEXT: Final = "long_context"

UNKNOWN: Final = "unknown"
"""The type of a question for which nothing was found, so that nothing could be analysed."""

TOKENS_PER_MESSAGE: Final = 4
TOKENS_PER_PROMPT: Final = 3
"""What OpenAI's chat format adds: 3 tokens and the role around each message, and 3 that open the reply (OpenAI
cookbook, "How to count tokens with tiktoken"). What another endpoint adds is learned from a pilot."""

_STRUCTURED: Final = (ANALYZE, "split", "step", "documents")
"""Roles whose replies are read for more than an answer. All others are told that there is no answer."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """One question under each strategy. ``type`` and ``workflow`` are those that the method gives it, "unknown" and
    "linear" where there was nothing to analyse. ``problems`` says by strategy why it cannot be asked.
    """

    query_id: str
    type: str
    workflow: str
    forecasts: Mapping[str, Forecast]
    problems: Mapping[str, str]


def side_by_side(strategy: str) -> tuple[str, ...]:
    """The strategies of an estimate for a run of ``strategy``: that one, the method, and the two plain baselines."""
    method = () if strategy == PRECISE else (METHOD,)
    return tuple(dict.fromkeys([strategy, *method, "std_rag", LONG_CONTEXT]))


async def dry_run(question: Question, doc_ids: tuple[str, ...], ports: Ports, strategies: Sequence[str]) -> Outlook:
    """The outlook of a question over its resolved scope. The generator behind ``ports`` is not asked.

    Where the generator analyses, its prompt is counted and the keyword rules speak in its place. A strategy of another
    package is followed as far as it goes with a generator that knows no answer. Without the method among
    ``strategies``, plain or precise, nothing is analysed.
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
        # After "unanswerable" precise mode reads what the long context reads, passage by passage.
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
    """What is sent besides where the answer of the method (``name``) is not trusted; ``whole`` are the tokens of the
    full text's prompt.
    """
    again = ports.policy.escalate
    if again is None:
        return None
    if again.to == "precise":
        return Forecast((Prompt("full_text", whole),), typed=bool(question.answer_type))
    if ports.stronger is None:
        return None
    try:
        found, _ = await _forecast(METHOD, question, doc_ids, ports.stronger)
        read = (await _forecast(LONG_CONTEXT, question, doc_ids, ports.stronger))[0] if name == PRECISE else None
    except (QuestionError, ReplyError):  # it leaves no room in its window: the first answer stays
        return None
    # Its labels are those of the first answer.
    certain = tuple(prompt for prompt in found.certain if prompt.role != ANALYZE)
    return replace(found, certain=certain, full_text=_tokens(read))


def _tokens(forecast: Forecast | None) -> int:
    return sum(prompt.tokens for prompt in forecast.certain) if forecast else 0


async def _forecast(name: str, question: Question, doc_ids: tuple[str, ...], ports: Ports) -> tuple[Forecast, Answer]:
    """What a strategy sends to a generator that replies nothing of use, and what it makes of that."""
    client = DryRunClient(ports.count)
    policy = ports.policy.model_copy(update={"escalate": None})  # what follows a first answer is looked at apart
    ports = replace(ports, complete=client.complete, admit=client.admit, policy=policy)
    tools = QuestionTools.in_process(ports, question, doc_ids, _NoLog())
    answer = await load_strategy(name)(question, tools)
    asked = {prompt.role for prompt in client.prompts}
    workflow = answer.plan.workflow if answer.plan is not None and name == METHOD else "linear"
    typed = bool(question.answer_type)
    if workflow not in asked:  # nothing was found, or there is no room to split: what was sent is all there is
        return replace(_as_sent(client.prompts), typed=typed), answer
    # With a policy that chooses nothing: a choice among a few candidates has no more to give.
    selection = ports.policy.selection.model_copy(update={"method": "none"})
    ports = replace(ports, policy=ports.policy.model_copy(update={"selection": selection}))
    tools = QuestionTools.in_process(ports, question, doc_ids, _NoLog())
    answers, reasons = await prompt_growth(tools, question.question, cast(Plan, answer.plan), ports.demonstrate)
    certain = tuple(prompt for prompt in client.prompts if prompt.role in ("analyze", "split"))
    return Forecast(certain, cast(LookUps, workflow), answers, reasons, typed=typed), answer


def _as_sent(prompts: Sequence[Prompt]) -> Forecast:
    """The prompts as they came. A full text that was read after others was read because the reply was "unanswerable",
    which a generator that is asked may not say.
    """
    first = [prompt for prompt in prompts if prompt.role != "full_text"]
    if not first:
        return Forecast(tuple(prompts))
    return Forecast(tuple(first), full_text=sum(prompt.tokens for prompt in prompts if prompt.role == "full_text"))


async def prompt_growth(
    tools: Tools, question: str, plan: Plan, demonstrate: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``(answer, reason)`` of a ``Forecast`` for a plan that splits or goes step by step; no reasoning in a split.

    The queries of later look-ups are not known, because no model has written them. So the question itself is looked
    up, deeper than a plan would: what n look-ups find if each finds new chunks is taken to be as long as the first n
    times ``count`` chunks for the question. How much of it later look-ups find anew is left to the priors, where it was
    measured with the public sets' own sub-questions (``python -m benchmarks.estimate.priors``).

    ``tools`` must not choose chunks one by one. Raises QuestionError when the question leaves no room for a passage.
    """

    def sized(passages: Sequence[Passage], hits: Sequence[Hit], build: BuildPrompt, role: str) -> int:
        messages = build(fit_passages(passages, hits, build, role, tools))
        typed = wanted if role == "generate" else TEXT
        return prompt_tokens(
            with_demonstration(messages, role, tools.short_contract, typed) if demonstrate else messages, tools.count
        )

    split = plan.workflow == "split"
    # After the last step there is one look-up more, which only the answer sees.
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
    build_answer = partial(
        answer_prompt, question, calculator=tools.calculator, short=tools.short_contract, wanted=wanted
    )
    answers, reasons = [], []
    for number in range(1, look_ups + 1):
        shown = hits[: number * count]
        passages = await process_context(shown, plan, tools)
        answers.append(sized(passages, shown, build_answer, "generate"))
        if not split and number <= plan.max_steps:
            reasons.append(sized(passages, shown, partial(step_prompt, question), "step"))
    return tuple(answers), tuple(reasons)


def prompt_tokens(messages: Sequence[Message], count: CountTokens) -> int:
    """The tokens that an endpoint will charge for a prompt."""
    each = (count(message.content) + message.vector_rows + TOKENS_PER_MESSAGE for message in messages)
    return sum(each) + TOKENS_PER_PROMPT


def _prompt(role: str, messages: Sequence[Message], count: CountTokens) -> Prompt:
    tokens = prompt_tokens(messages, count)
    before, mark, asked = messages[-1].content.rpartition(QUESTION_MARK)
    shared = tokens - count(f"{mark}{asked}") - TOKENS_PER_PROMPT
    if not mark or not cacheable(shared):
        return Prompt(role, tokens)
    text = "\n".join([*(message.content for message in messages[:-1]), before])
    return Prompt(role, tokens, (hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), shared))


@dataclass
class DryRunClient:
    """A generator that is never asked: ports of ``QuestionTools`` for one question. ``prompts`` are those that came, in
    order, in tokens as an endpoint counts them.
    """

    count: CountTokens
    prompts: list[Prompt] = field(default_factory=list)

    async def complete(
        self,
        query_id: str,
        path: str,
        role: str,
        messages: Sequence[Message],
        *,
        logprobs: bool = False,
        answer_type: str = "",
        longer: bool = False,
    ) -> Reply:
        """Count the prompt and reply "unanswerable". Raises NobodyAsked where more than an answer is wanted: the
        keyword rules then speak, and nothing further is looked up.
        """
        self.prompts.append(_prompt(role, messages, self.count))
        if role in _STRUCTURED:
            raise NobodyAsked("Nobody was asked: this is an estimate.")
        return Reply(f"Answer: {UNANSWERABLE}", "none", Usage(), "stop", 0.0)

    async def admit(self, query_id: str, plan: Plan) -> None:
        """Every plan may go ahead: nothing is paid."""


class _NoLog:
    """A journal that keeps nothing: each question is looked at once."""

    def recorded(self, path: str, kind: str) -> str | None:
        """Nothing was."""
        return None

    async def record(self, path: str, kind: str, body: str) -> None:
        """Nothing is."""


# What a run's folder tells of its generator: the calls of each question that has an answers row.

_KINDS: Final = ("prompt", "cached", "completion")
_COLUMNS: Final = ["call_id", "query_id", "path", "role", "status", "cost_usd", *(f"{kind}_tokens" for kind in _KINDS)]


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """A call that brought a reply. ``counted`` are our tokens of its prompt, 0 where it was taken from another run.
    ``again``: it was made because the first answer was not trusted.
    """

    role: str
    usage: Usage
    counted: int = 0
    again: bool = False


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question that has been asked, and what it was billed in US dollars."""

    query_id: str
    calls: tuple[ObservedCall, ...]
    billed_usd: float

    def usage(self, *, full_text: bool) -> Usage:
        """The sum over its calls for the first answer that read the full text, or over the others of these."""
        first = [each for each in self.calls if not each.again]
        return sum((each.usage for each in first if (each.role == "full_text") is full_text), Usage())

    def usage_again(self) -> Usage:
        """The sum over the calls that were made because the first answer was not trusted."""
        return sum((each.usage for each in self.calls if each.again), Usage())


def asked_in(run: Folder, count: CountTokens) -> dict[str, AskedQuestion]:
    """By query_id, the questions of a run that were asked to their end, whatever that was.

    One that the budget kept from its end is left out: it will go on. A run that does not exist has none.
    """
    answers = read_run_table(run, "answers", ["query_id", "status"]).to_pylist()
    ended = {row["query_id"] for row in answers if row["status"] != "over_budget"}
    counted = _counted(run, count)
    calls: dict[str, list[ObservedCall]] = defaultdict(list)
    billed: dict[str, float] = defaultdict(float)
    ledger = read_run_table(run, "ledger", _COLUMNS)
    for row in ledger.filter(pc.is_in(ledger["status"], pa.array(USED))).to_pylist():
        usage = Usage(*(row[f"{kind}_tokens"] for kind in _KINDS))
        again = row["path"].startswith(f"{ESCALATED}/")
        calls[row["query_id"]].append(ObservedCall(row["role"], usage, counted.get(row["call_id"], 0), again))
        billed[row["query_id"]] += row["cost_usd"]
    return {query_id: AskedQuestion(query_id, tuple(calls[query_id]), billed[query_id]) for query_id in sorted(ended)}


def _counted(run: Folder, count: CountTokens) -> Mapping[str, int]:
    """By call_id, the tokens of each prompt that went out, by our count."""
    journal = read_run_table(run, "journal", ["kind", "body"])
    sizes: dict[str, int] = {}
    for row in journal.filter(pc.equal(journal["kind"], "request")).to_pylist():
        body = json.loads(row["body"])
        messages = [decode(Message, json.dumps(each)) for each in body["request"].get("messages", ())]
        if messages:
            sizes[body["call"]["call_id"]] = prompt_tokens(messages, count)
    return sizes
