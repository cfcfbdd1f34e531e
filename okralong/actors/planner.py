"""The planner: answers questions with the run's strategy, calls through its gateway and writes answers rows."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from threading import Lock
from typing import Any, Final, Protocol

from ray.exceptions import RayActorError

from okralong.actors.question_journal import QuestionJournal, Watch
from okralong.pipelines.answering.answer_types import AnswerType, value_read
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.confidence_model import ConfidenceModel
from okralong.pipelines.answering.cost_model import ANSWERS, Spender, plan_reserve
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.models import Generator, GeneratorCall, Models
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import reply_schema, reply_tokens
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.tools import ESCALATED, LACKING, Branch
from okralong.pipelines.archive.artifacts import Artifact, ArtifactPlace, Expense
from okralong.pipelines.core.log import query_id as logged_query
from okralong.pipelines.core.storage_errors import not_written
from okralong.pipelines.core.telemetry import QuestionTrace, Telemetry, TelemetrySetup
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import (
    EXIT_BROKEN,
    GO_ON,
    Answer,
    BrokenError,
    CallFailed,
    EndpointError,
    OverBudget,
    Plan,
    Question,
    QuestionError,
    Reply,
    ReplyError,
)
from okralong.pipelines.llm.bill import ARTIFACT
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import GeneratorConfig, LlmConfig
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ports import GatewayPort, SchedulerPort, Steps
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.reply import SharedReplies
from okralong.pipelines.methods.registry import StrategySpec, load_strategy
from okralong.pipelines.run.rows import KEPT, TAKEN, answer_row

logger = logging.getLogger(__name__)

ADDRESS: Final = "http://okralong.invalid/v1"
"""The base URL of a server that is reached through a transport instead of the network; it resolves to nothing."""
BROKEN: Final = (RayActorError, OSError)
"""A part of the run is gone for good, or its folder cannot be written: no question can go on."""

BranchResult = tuple[Any, dict[str, float], Steps]
"""A branch's result, its seconds by stage, and its steps that are not durable yet."""


@dataclass(frozen=True)
class PlannerSetup:
    """The plain values that every planner of a run is given.

    Attributes:
        strategy: The run's strategy.
        policy: Its constants.
        llm: The generator as it was started, with open settings filled in.
        prices: Prices of the models.
        address: URL of an embedded generator.
        tags: Tags of the run's calls.
        replies_from: Absolute places of other runs that share their replies.
        run: The run folder.
        weights: Identity of the weights of an embedded generator or SARA's.
        confidence: The model that estimates how probably answers are right, or None.
        telemetry: Where spans go, if anywhere.
    """

    strategy: StrategySpec
    policy: Policy
    llm: LlmConfig
    prices: PriceTable
    address: str | None
    tags: Mapping[str, str]
    replies_from: tuple[str, ...]
    run: str = ""
    weights: str = ""
    confidence: ConfidenceModel | None = None
    telemetry: TelemetrySetup | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the run cannot go on (key revoked, endpoint gone, quota used up), and the exit code to end with."""

    message: str
    exit_code: int


class Peers(Protocol):
    """The planners of a run, which share the work on branches and on documents' artifacts."""

    async def branch(self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str) -> BranchResult:
        """Run one branch of a question."""
        ...

    async def artifact(self, key: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        """Return a document's artifact, made once in the run."""
        ...


class Planner:
    """Answers many questions concurrently with one strategy, and writes their answers rows.

    Its methods may be called from several event loops of one process. A branch of a branch runs in place, so that a
    question never waits for a slot that another branch of the same question holds.
    """

    def __init__(
        self,
        setup: PlannerSetup,
        gateway: GatewayPort,
        models: Models,
        clients: GeneratorClients,
        *,
        peers: Peers | None = None,
        revived: bool = False,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Prepare the planner.

        Args:
            setup: The run's values.
            gateway: The run's gateway.
            models: The archive's shards and the run's local models.
            clients: The run's generators.
            peers: The planners that take branches and artifacts; by default only this one.
            revived: True if Ray restarted this planner, so that it may get questions that it had begun.
            telemetry: Sends its spans, if any are sent.
        """
        self._setup, self._gateway, self._clients = setup, gateway, clients
        self._strategy = load_strategy(setup.strategy.place)
        self._revived, self._telemetry = revived, telemetry
        self._peers: Peers = self if peers is None else peers
        self._making: dict[str, asyncio.Task[Any]] = {}
        self._models = models
        self._asked = asked_as(setup.llm)
        self._asked_stronger = None if setup.llm.stronger is None else asked_as(setup.llm.stronger)

    async def ready(self) -> None:
        """Return once the archive is open; the constructor opens it."""

    async def spent(self) -> float:
        """Return the processor seconds of this process so far."""
        return time.process_time()

    async def halt(self, why: str) -> int:
        """Send nothing more; questions end with a Stop at their next call. Return the number of calls in flight."""
        return await self._clients.halt(why)

    async def drain(self, grace_s: float) -> int:
        """After ``halt``, wait up to ``grace_s`` for the calls in flight. Return the number recorded as unknown."""
        return await self._clients.drain(grace_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    async def send_spans(self) -> None:
        """Send the spans that are left, for at most a few seconds."""
        if self._telemetry is not None:
            await asyncio.to_thread(self._telemetry.close)

    async def answer(
        self, question: Question, doc_ids: tuple[str, ...], new: bool = False, watch: Watch | None = None
    ) -> Stop | Mapping[str, Any] | None:
        """Answer one question and write its answers row.

        Args:
            question: The question.
            doc_ids: Its resolved scope, empty for the whole archive.
            new: Whether the run's folder had no record of it when the run started.
            watch: Called with each of its steps; not with those of its branches.

        Returns:
            The row; None if it was written before; a Stop if the run cannot go on.
        """
        try:
            known: list[JournalRow] | None = []
            if self._revived or not new:
                # A planner that died with this question may have left reserves and calls open, or have finished it.
                known = await self._gateway.begin(question.query_id)
            if known is not None:
                return await self._carry(question, doc_ids, known, watch)
        except (EndpointError, BrokenError) as error:
            return await self._stopped(question, str(error), error.exit_code)
        except RayActorError as error:
            said = str(error).strip()[:500].rstrip(".")
            return await self._stopped(question, f"{type(error).__name__}: {said}. {GO_ON}", EXIT_BROKEN)
        except OSError as error:
            return await self._stopped(
                question, str(not_written(f"The run folder {self._setup.run}", error)), EXIT_BROKEN
            )
        return None

    async def _carry(
        self, question: Question, doc_ids: tuple[str, ...], known: Sequence[JournalRow], watch: Watch | None
    ) -> Mapping[str, Any] | None:
        started = time.perf_counter()
        logged_query.set(question.query_id)
        journal, trace = self._journal(question, known, watch), self._trace(question.query_id)
        tools = self._tools(question, doc_ids, "", journal, trace)
        try:
            answer = await self._strategy(question, tools)
            answer = await self._checked(tools, question, answer)
            answer = await value_read(question.question, AnswerType.of(question.answer_type), answer)
        except (EndpointError, BrokenError, *BROKEN) as error:
            if trace is not None:
                trace.ended({"okralong.status": "stopped"}, dict, type(error).__name__)
            raise
        except OverBudget as error:
            answer = Answer("over_budget", "", error=str(error))
        except (QuestionError, ReplyError, CallFailed) as error:
            answer = await self._failed(question, error, str(error))
        except Exception as error:  # one question never stops the run: its error goes into failures
            logger.exception("question %s failed", question.query_id)
            answer = await self._failed(question, error, f"{type(error).__name__}: {error}")
        seconds = {**tools.seconds, "total": time.perf_counter() - started}
        row = answer_row(question, doc_ids, answer, self._setup.strategy.name, seconds)
        written = await self._gateway.finish(row, journal.take().rows)
        if trace is not None and written is not None:
            trace.ended(_attributes(written), lambda: _texts(row), _ill(row))
        logger.info("%s in %.1f s", answer.status, seconds["total"])
        return written

    async def _checked(self, tools: QuestionTools, question: Question, answer: Answer) -> Answer:
        """Return the answer with its confidence. If judging fails, the answer stays as it is: it was paid for."""
        try:
            return await with_confidence(tools, question.question, answer)
        except (EndpointError, BrokenError, *BROKEN):
            raise
        except Exception:
            logger.exception("the answer of question %s could not be judged", question.query_id)
            return answer

    async def branch(self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str) -> BranchResult:
        """Run one branch of a question, whose steps are under ``path``."""
        posed, scope = branch.posed(question, doc_ids)
        journal = self._journal(posed, await self._gateway.known(question.query_id))
        tools = self._tools(posed, scope, path, journal, self._trace(question.query_id))
        result = await branch.operator(tools, **branch.arguments)
        return result, tools.seconds, journal.take()

    async def artifact(self, key: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        """Return a document's artifact, and make it if there is none.

        Callers always use the same planner for the same key, so that further callers wait while it is being made.
        """
        if key not in self._making:
            self._making[key] = asyncio.ensure_future(self._make(key, doc_id, branch, version, roles))
            self._making[key].add_done_callback(lambda _: self._making.pop(key))
        return await asyncio.shield(self._making[key])

    async def _make(self, key: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        question = Question(key, "")
        journal = self._journal(question, await self._gateway.begin(key) or [])  # a planner that died left calls open
        trace = self._trace(key)
        tools = self._tools(question, (doc_id,), "", journal, trace)
        try:
            return await self._made(key, doc_id, branch, version, roles, journal, tools)
        finally:
            if trace is not None:
                trace.ended({"okralong.status": "artifact"}, dict)

    async def _made(
        self,
        key: str,
        doc_id: str,
        branch: Branch,
        version: int,
        roles: tuple[str, ...],
        journal: QuestionJournal,
        tools: QuestionTools,
    ) -> Any:
        arguments = dict(branch.arguments)
        place = None
        if version:
            by = self._setup.llm.reply_settings(roles, self._setup.weights)
            method = key.removeprefix(ARTIFACT).split("/", 1)[0]
            place = ArtifactPlace.of(self._models.archive, doc_id, method, version, arguments, by)
            taken = await tools.remember(TAKEN, {"doc_id": doc_id, "key": place.key}, partial(_taken, place))
            if taken is not None:
                await journal.flush()
                return taken["made"]
        made = await tools.remember(branch.path, arguments, partial(branch.operator, tools, **arguments))
        await journal.flush()
        if place is not None:
            # The archive stores only durable artifacts; a run that dies in between stores it on resuming.
            lacks = any(row.path == LACKING for row in await self._gateway.known(key))
            artifact = Artifact(made, Expense.of(*await self._gateway.spent(key)))
            asked = {"doc_id": doc_id, "key": place.key}
            await tools.remember(KEPT, asked, partial(_keep, place, None if lacks else artifact))
            await journal.flush()
        return made

    async def _artifact_of(self, name: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        return await self._peers.artifact(f"{ARTIFACT}{name}/{doc_id}", doc_id, branch, version, roles)

    def _journal(self, question: Question, known: Sequence[JournalRow], watch: Watch | None = None) -> QuestionJournal:
        reserve = partial(self._reserve, answer_type=question.answer_type)
        return QuestionJournal(self._gateway, question.query_id, known, reserve, watch)

    def _trace(self, query_id: str) -> QuestionTrace | None:
        return None if self._telemetry is None else self._telemetry.question(query_id)

    def _tools(
        self,
        question: Question,
        doc_ids: tuple[str, ...],
        prefix: str,
        journal: QuestionJournal,
        trace: QuestionTrace | None,
    ) -> QuestionTools:
        async def fan_out(branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
            await journal.flush()  # the branch's calls rest on these steps
            peers = self if prefix else self._peers
            result, seconds, left = await peers.branch(question, doc_ids, branch, path)
            journal.add(left.rows)
            return result, seconds

        ports = Ports(
            self._models,
            QuestionGenerator(self._clients, journal),
            self._setup.policy,
            artifact=self._artifact_of,
            confidence=self._setup.confidence,
            **self._asked,
        )
        if self._asked_stronger is not None:
            ports = ports.with_stronger(QuestionGenerator(self._clients, journal, True), self._asked_stronger)
            if prefix.startswith(f"{ESCALATED}/") and ports.stronger is not None:
                ports = ports.stronger
        return QuestionTools(ports, question, doc_ids, journal, fan_out, prefix, trace=trace)

    async def _stopped(self, question: Question, message: str, exit_code: int) -> Stop:
        with suppress(*BROKEN):  # the gateway itself may have broken
            await self._gateway.release(question.query_id)  # otherwise questions waiting for budget wait forever
        return Stop(message, exit_code)

    async def _failed(self, question: Question, error: Exception, message: str) -> Answer:
        raw = error.raw if isinstance(error, ReplyError) else ""
        told = f"{message}\nThe raw reply:\n{raw}" if raw else message
        await self._gateway.fail(question.query_id, "answer", type(error).__name__, told)
        return Answer("failed", "", error=told)

    def _reserve(self, plan: Plan, answer_type: str) -> float:
        """Return the most that a question of a type with this plan may cost, in US dollars."""
        # At the full price in batch mode too: a question that falls back to real time must not be left half paid.
        first, second = self._clients.first, self._clients.stronger
        stronger = None if second is None else _spender(second, answer_type)
        return plan_reserve(plan, _spender(first, answer_type), stronger, typed=bool(answer_type))


def _attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a question's span."""
    plan = json.loads(row["plan"]) if row["plan"] else {}
    return {
        "okralong.status": row["status"],
        "okralong.strategy": row["strategy"],
        "okralong.workflow": plan.get("workflow"),
        "okralong.way": row["way"],
        "okralong.confidence": row["confidence"],
        "okralong.escalated": row["escalated"],
        "okralong.calls": row["calls"],
        "okralong.cost_usd": row["cost_usd"],
        # Not by OpenTelemetry's names: viewers add these up, and the calls below have them.
        "okralong.prompt_tokens": row["prompt_tokens"],
        "okralong.completion_tokens": row["completion_tokens"],
    }


def _texts(row: Mapping[str, Any]) -> dict[str, Any]:
    return {f"okralong.{name}": row[name] for name in ("question", "answer", "error") if row[name]}


def _ill(row: Mapping[str, Any]) -> str:
    """Return the status of a question as the error of its span, or "" if it is none."""
    return str(row["status"]) if row["status"] in ("failed", "over_budget", "invalid_output") else ""


class QuestionGenerator(Generator):
    """The run's generator, or the stronger one, as one question calls it."""

    def __init__(self, clients: GeneratorClients, journal: QuestionJournal, stronger: bool = False) -> None:
        self._clients, self._journal, self._stronger = clients, journal, stronger

    async def complete(self, call: GeneratorCall) -> Reply:
        """See ``Generator``."""
        await self._clients.started()
        # The question's journal is here already: the client need not ask the ledger for its replies.
        return await self._clients.here(self._stronger).complete(
            call.query_id,
            call.path,
            call.role,
            call.messages,
            logprobs=call.logprobs,
            answer_type=call.answer_type,
            longer=call.longer,
            recorded=self._journal.reply,
            pending=self._journal.take,
        )


class GeneratorClients:
    """The LLM clients of a planner: for each event loop one of the run's generator and one of the stronger one.

    A connection belongs to one event loop; on Ray a planner has a loop for each of its concurrency groups.
    """

    def __init__(
        self,
        setup: PlannerSetup,
        gateway: GatewayPort,
        transport: Callable[[], Any] = lambda: None,
        scheduler: SchedulerPort | None = None,
        starting: Future[str] | None = None,
    ) -> None:
        """Make the first clients.

        Args:
            setup: The run's values.
            gateway: The run's gateway.
            transport: Returns the transport to the generator if it is not the network, or None.
            scheduler: Where calls wait for batches; None to make all calls in real time.
            starting: The future address of an embedded generator that is still starting.
        """
        self._setup, self._gateway, self._transport, self._scheduler = setup, gateway, transport, scheduler
        self._starting = starting
        self._shared_replies = SharedReplies.load(setup.replies_from)
        self.first = self._new(setup.llm)
        self.stronger = None if setup.llm.stronger is None else self._new(setup.llm.stronger)
        self._by_loop: dict[tuple[asyncio.AbstractEventLoop, bool], LlmClient] = {}
        self._choosing = Lock()
        self._halted = ""

    async def started(self) -> None:
        """Wait until the generator answers. Raises the error that kept it from starting."""
        if self._starting is not None:
            await asyncio.shield(asyncio.wrap_future(self._starting))

    def here(self, stronger: bool = False) -> LlmClient:
        """Return the running loop's client of the run's generator or of the stronger one."""
        key = asyncio.get_running_loop(), stronger
        llm = self._setup.llm.stronger if stronger else self._setup.llm
        first = self.stronger if stronger else self.first
        if llm is None or first is None:
            raise ValueError("the run has no stronger generator")
        with self._choosing:  # loops run in threads of their own
            if key not in self._by_loop:
                taken = any(other is first for other in self._by_loop.values())
                self._by_loop[key] = self._new(llm) if taken else first
                if self._halted:
                    self._by_loop[key].halt(self._halted)
            return self._by_loop[key]

    async def halt(self, why: str) -> int:
        """Send nothing more; return the number of calls in flight."""
        with self._choosing:
            self._halted = why

        async def halt(client: LlmClient) -> int:
            return client.halt(why)

        return sum(await self._each(halt))

    async def drain(self, grace_s: float) -> int:
        """Wait up to ``grace_s`` for the calls in flight. Return the number recorded as unknown."""
        return sum(await self._each(lambda client: client.drain(grace_s)))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._each(LlmClient.aclose)

    async def _each(self, work: Callable[[LlmClient], Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run ``work`` for each client in the loop that it belongs to."""
        with self._choosing:
            clients = list(self._by_loop.items())
        here = asyncio.get_running_loop()
        running = [
            loop.create_task(work(client))
            if loop is here
            else asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(client), loop))
            for (loop, _), client in clients
        ]
        return list(await asyncio.gather(*running))

    def _new(self, llm: GeneratorConfig) -> LlmClient:
        """Return a client; calls to the stronger generator are in real time and go to its address."""
        setup, own = self._setup, llm is self._setup.llm
        transport = self._transport() if own else None
        return LlmClient(
            llm,
            self._gateway,
            setup.prices,
            first_limiter=0 if own else len(setup.llm.all_endpoints),
            address=ADDRESS if transport is not None else setup.address if own else None,
            tags=setup.tags,
            shared=self._shared_replies,
            scheduler=self._scheduler if own else None,
            transport=transport,
            grammar=partial(grammar, short=llm.short_contract),
            reply_schema=partial(reply_schema, short=llm.short_contract),
            reply_tokens=partial(reply_tokens, short=llm.short_contract),
        )


def asked_as(llm: GeneratorConfig) -> dict[str, Any]:
    """Return the fields of ``Ports`` that describe a generator. Loads its tokenizer."""
    return {
        "window": llm.window,
        "count": token_counter(llm.tokenizer),
        "completion_limit": llm.completion_limit,
        "demonstrate": bool(llm.demonstrations),
        "calculator": bool(llm.calculator),
        "short_contract": llm.short_contract,
        "name": llm.model,
        "answer_tokens": partial(_answer_tokens, llm.short_contract, bool(llm.room_for_thought)),
    }


def _answer_tokens(short: bool, thinks: bool, answer_type: str) -> int | None:
    return None if thinks or not answer_type else reply_tokens(answer_type, short)


async def _taken(place: ArtifactPlace) -> dict[str, Any] | None:
    """Return the archive's artifact with its cost, in the journal's form."""
    found = await asyncio.to_thread(place.read)
    return None if found is None else {"made": found.made, "expense": asdict(found.expense)}


async def _keep(place: ArtifactPlace, artifact: Artifact | None) -> str:
    """Store an artifact in the archive; return "" or why it is not kept. None: some of its replies were unusable."""
    return "some replies were unusable" if artifact is None else await asyncio.to_thread(place.write, artifact)


def _spender(client: LlmClient, answer_type: str) -> Spender:
    llm = client.config
    at_most = reply_tokens(answer_type, llm.short_contract) if answer_type else None

    def limit(role: str) -> int:
        return llm.completion_limit(role, at_most if role in ANSWERS else None)

    return Spender(client.price, llm.window, limit)
