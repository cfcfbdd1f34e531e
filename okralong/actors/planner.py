"""The actors of one answer run: planners that carry questions, and what they need of a cluster.

``run_actors`` starts them together and stops them together. A planner answers with the run's strategy, pays through
the run's ledger, and writes an answers row for each question.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, Final
from zlib import crc32

import ray
from ray.exceptions import RayActorError, RayError

from okralong.actors.cluster import NAMESPACE, beside_this_process, is_private, named_actor, plain_errors
from okralong.actors.llm import (
    batch_scheduler_client,
    gateway_client,
    ledger_client,
    limiter_place,
    start_batch_scheduler,
    start_gateway,
)
from okralong.actors.retrieval import (
    ADDRESS,
    REVIVED,
    RetrievalClient,
    RetrievalNames,
    hold,
    started_retrieval,
    wait_for,
)
from okralong.pipelines.answering.answer_types import AnswerType, value_read
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.cost_model import Spender, plan_reserve
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import reply_schema
from okralong.pipelines.answering.question_tools import Complete, Ports, QuestionTools
from okralong.pipelines.answering.tools import ESCALATED, LACKING, Branch
from okralong.pipelines.archive.artifacts import Artifact, ArtifactPlace, Expense
from okralong.pipelines.core.log import log_as_json
from okralong.pipelines.core.log import query_id as logged_query
from okralong.pipelines.core.storage_errors import not_written
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
    ReplyError,
)
from okralong.pipelines.llm.batch import BatchScheduler
from okralong.pipelines.llm.bill import ARTIFACT
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import GeneratorConfig, LlmConfig
from okralong.pipelines.llm.gateway import Gateway, Steps
from okralong.pipelines.llm.journal import JournalRow, reserve_bytes
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.reply import SharedReplies
from okralong.pipelines.methods.registry import StrategySpec, load_strategy
from okralong.pipelines.run.prepare import Prepared
from okralong.pipelines.run.rows import KEPT, TAKEN, answer_row

logger = logging.getLogger(__name__)

BROKEN: Final = (RayActorError, OSError)
"""A part of the run is gone for good, or its folder cannot be written: no question can go on."""
BRANCHES_PER_QUESTION = 4
"""Places for branches in a planner, for each question that it carries (a split has at most four sub-questions)."""


@dataclass(frozen=True)
class RunActors:
    """The planners of a run, the ledger that knows how far it is, and the scheduler where requests wait for batches.

    ``more`` starts a further planner, which is used once its ``ready`` has returned; None where the config says how
    many there are, or others use the cluster too.
    """

    planners: list[Any]
    ledger: RunLedger
    scheduler: BatchScheduler | None = None
    more: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True)
class BatchSetup:
    """What a batch scheduler is started with: ``run_id`` marks the run's batches; from ``until`` on nothing is handed
    in any more (None: no deadline).
    """

    run_id: str
    until: datetime | None


@contextmanager
def run_actors(
    prepared: Prepared,
    run: str,
    llm: LlmConfig,
    address: str | None,
    reopened: frozenset[str] = frozenset(),
    replies_from: tuple[str, ...] = (),
    batches: BatchSetup | None = None,
    retrieval: RetrievalNames | None = None,
    weights: str = "",
) -> Iterator[RunActors]:
    """Start shards, models, gateway, planners and, for ``batches``, a batch scheduler; stop them when the block ends,
    however it ends. Shards and models that several runs share are given as ``retrieval``, and left running.

    ``run`` is absolute or a URI, since actors have working directories of their own; ``address`` is where an embedded
    generator listens, and ``weights`` names its weights; ``reopened`` are questions that are asked again,
    ``replies_from`` runs that share their replies. Raises OkraError when a part cannot start.
    """
    config = prepared.config
    tag = uuid.uuid4().hex[:8]
    planner_names = tuple(f"okralong-planner-{tag}-{number}" for number in range(config.planners or 1))
    gateway_name = f"okralong-gateway-{tag}"
    with ExitStack() as held:
        writer = {"name": gateway_name, "namespace": NAMESPACE, **config.placement.ledger.options()}
        endpoints = llm.all_endpoints + (llm.stronger.all_endpoints if llm.stronger else ())
        # Other runs may ask the same endpoint: on a cluster that is not ours alone, or beside this one, sharing models.
        beside_others = retrieval is not None or not is_private()
        places = [limiter_place(endpoint, beside_others) for endpoint in endpoints]
        reserve = reserve_bytes(sum(one.max_in_flight for one in endpoints), llm.longest_reply)
        gateway = hold(held, start_gateway(run, config.budget_usd, reopened, places, reserve, **writer))
        scheduler_name, scheduler = None, None
        if batches is not None:
            scheduler_name = f"okralong-batch-scheduler-{tag}"
            options = {**writer, "name": scheduler_name}
            scheduler = hold(
                held,
                start_batch_scheduler(
                    run,
                    batches.run_id,
                    llm,
                    gateway_name,
                    batches.until,
                    prepared.prices.price(llm.model, llm.price),
                    **options,
                ),
            )
        setup = PlannerSetup(
            strategy=prepared.strategy,
            policy=prepared.policy,
            llm=llm,
            prices=prepared.prices,
            address=address,
            tags=config.tags,
            replies_from=replies_from,
            planners=planner_names,
            makers=planner_names,
            retrieval=retrieval or held.enter_context(started_retrieval(prepared, run, tag)),
            gateway=gateway_name,
            scheduler=scheduler_name,
            run=run,
            weights=weights,
        )
        per_planner = -(-config.in_flight // (config.planners or 1))
        groups = {"questions": per_planner, "branches": per_planner * BRANCHES_PER_QUESTION, "control": 2}
        with_options: Any = ray.remote  # its overloads do not know concurrency_groups
        remote = with_options(concurrency_groups=groups)(Planner)
        place = config.placement.planners
        if address is not None:  # the generator that the driver serves listens on its machine alone
            place = beside_this_process(place)
        anew: dict[str, Any] = {"namespace": NAMESPACE, "num_cpus": 0, **REVIVED, **place.options()}
        planners = [hold(held, remote.options(name=name, **anew).remote(setup)) for name in planner_names]
        later = (f"okralong-planner-{tag}-{number}" for number in count(len(planners)))

        def more() -> Any:
            name = next(later)
            return hold(held, remote.options(name=name, **anew).remote(replace(setup, planners=(name,))))

        schedulers = [] if scheduler is None else [scheduler]
        wait_for([gateway.books.remote("totals"), *(actor.ready.remote() for actor in [*schedulers, *planners])])
        batches_client = None if scheduler is None else batch_scheduler_client(scheduler)
        grows = config.planners is None and is_private()
        yield RunActors(planners, ledger_client(gateway), batches_client, more if grows else None)
        _close(gateway, run)


def _close(gateway: Any, run: str) -> None:
    """Let the gateway write what is left. Raises BrokenError when it cannot."""
    try:
        ray.get(gateway.books.remote("close"))
    except (RayError, OSError) as error:
        raise not_written(f"The run folder {run}", getattr(error, "cause", None) or error) from error


@dataclass(frozen=True)
class PlannerSetup:
    """What every planner of a run is given: plain values and names, so that one that Ray starts again can find the
    others again. (Handles in here would lie in the driver's memory, and Ray would warn of it at each run.)

    ``address`` is where an embedded generator listens; ``replies_from`` are other runs, at absolute places.
    ``planners`` (among which branches are dealt out), ``makers`` (those that a run begins with, which make documents'
    artifacts) and ``gateway`` (whose limiters are of all endpoints, in order, then of those of the stronger generator)
    name actors of okralong's namespace, and so does ``scheduler`` (None: nothing waits for batches). ``run`` is the
    place of the run, for the log; ``weights`` names those of a generator that is served here.
    """

    strategy: StrategySpec
    policy: Policy
    llm: LlmConfig
    prices: PriceTable
    address: str | None
    tags: Mapping[str, str]
    replies_from: tuple[str, ...]
    planners: tuple[str, ...]
    makers: tuple[str, ...]
    retrieval: RetrievalNames
    gateway: str
    scheduler: str | None = None
    run: str = ""
    weights: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """The run cannot go on (key revoked, endpoint gone, quota used up): why, and the exit code to end with."""

    message: str
    exit_code: int


class Planner:
    """Carries many questions at once to their answers rows, and their branches beside them, with one strategy.

    Questions and branches run in separate concurrency groups, so that a question that waits for its branches never
    takes their places. A branch of a branch runs in place, for the same reason. Made remote by ``run_actors``.
    """

    def __init__(self, setup: PlannerSetup) -> None:
        log_as_json(setup.run)
        context: Any = ray.get_runtime_context()
        # Then Ray may give it questions again that its predecessor has begun.
        revived = bool(context.was_current_actor_reconstructed)
        found = RetrievalClient(setup.retrieval)
        self._open(setup, gateway_client(named_actor(setup.gateway)), found, found.transport, revived)

    def _open(
        self,
        setup: PlannerSetup,
        gateway: Gateway,
        found: RetrievalClient,
        transport: Callable[[], Any],
        revived: bool = False,
    ) -> None:
        """``transport`` makes what carries requests to the generator where no network does, else None."""
        self._setup = setup
        self._strategy = load_strategy(setup.strategy.place)
        self._gateway = gateway
        self._revived = revived
        self._peers: list[Any] = []
        self._making: dict[str, asyncio.Task[Any]] = {}
        self._turn = count()
        self._checks = found.checks
        self._transport = transport
        self._shared_replies = SharedReplies.load(setup.replies_from)
        self._client = self._new_client(setup.llm)
        self._stronger = None if setup.llm.stronger is None else self._new_client(setup.llm.stronger)
        self._clients: dict[tuple[asyncio.AbstractEventLoop, bool], LlmClient] = {}
        self._choosing = Lock()
        self._halted = ""
        ports = ports_of(found, setup.policy, setup.llm, self._client.complete, _no_admission)
        stronger = None if self._stronger is None else self._stronger.complete
        self._ports = with_stronger(replace(ports, artifact=self._artifact_of), setup.llm, stronger)

    @ray.method(concurrency_group="control")
    async def ready(self) -> bool:
        """True once the archive is open."""
        return True

    @ray.method(concurrency_group="control")
    async def spent(self) -> float:
        """Processor seconds of this process so far."""
        return time.process_time()

    @ray.method(concurrency_group="control")
    async def halt(self, why: str) -> int:
        """Send nothing more; questions end with a Stop as soon as they would. How many calls are in flight."""
        with self._choosing:
            self._halted = why
        return sum(await self._of_clients(_halt, why))

    @ray.method(concurrency_group="control")
    async def drain(self, grace_s: float) -> int:
        """After ``halt``: wait for the calls in flight, at most so long. How many were given up, as unknown."""
        return sum(await self._of_clients(LlmClient.drain, grace_s))

    @ray.method(concurrency_group="questions")
    async def answer(
        self, question: Question, doc_ids: tuple[str, ...], new: bool = False
    ) -> Stop | Mapping[str, Any] | None:
        """Carry one question to its answers row, and return it; None where it was written before. ``new``: the run knew
        nothing of it when it was started.

        Returns a Stop, and writes no row, when the run cannot go on.
        """
        try:
            known: list[JournalRow] | None = []
            if self._revived or not new:
                # A planner that died with this question may have left reserves and calls open, or have finished it.
                known = await self._gateway.begin(question.query_id)
            if known is not None:
                return await self._carry(question, doc_ids, known)
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
        self, question: Question, doc_ids: tuple[str, ...], known: Sequence[JournalRow]
    ) -> Mapping[str, Any] | None:
        """To the answers row. Raises what stops the run."""
        started = time.perf_counter()
        logged_query.set(question.query_id)
        steps = self._steps(question, known)
        tools = self._tools(question, doc_ids, "", steps)
        try:
            answer = await self._strategy(question, tools)
            answer = await self._checked(tools, question, answer)
            answer = await value_read(question.question, AnswerType.of(question.answer_type), answer)
        except (EndpointError, BrokenError, *BROKEN):
            raise
        except OverBudget as error:
            answer = Answer("over_budget", "", error=str(error))
        except (QuestionError, ReplyError, CallFailed) as error:
            answer = await self._failed(question, error, str(error))
        except Exception as error:  # a question never stops the run: whatever it is lands in failures
            logger.exception("question %s failed", question.query_id)
            answer = await self._failed(question, error, f"{type(error).__name__}: {error}")
        seconds = {**tools.seconds, "total": time.perf_counter() - started}
        row = answer_row(question, doc_ids, answer, self._setup.strategy.name, seconds)
        written = await self._gateway.finish(row, steps.take().rows)
        logger.info("%s in %.1f s", answer.status, seconds["total"])
        return written

    async def _checked(self, tools: QuestionTools, question: Question, answer: Answer) -> Answer:
        """The answer with its confidence. What cannot be judged stays as it is: it was paid for."""
        if not self._checks or answer.confidence is not None:
            return answer
        try:
            return await with_confidence(tools, question.question, answer)
        except (EndpointError, BrokenError, *BROKEN):
            raise
        except Exception:
            logger.exception("the answer of question %s could not be judged", question.query_id)
            return answer

    @ray.method(concurrency_group="branches")
    async def branch(
        self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str
    ) -> tuple[Any, dict[str, float], Steps]:
        """Run one branch of a question; its result, its seconds by stage, and its steps that are not durable yet."""
        return await self._run(question, doc_ids, branch, path)

    @ray.method(concurrency_group="branches")
    async def artifact(self, key: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        """What a document's artifact is, made if it was not. Always asked of the same planner: who comes while it is
        being made waits for it.
        """
        if key not in self._making:
            self._making[key] = asyncio.ensure_future(self._make(key, doc_id, branch, version, roles))
            self._making[key].add_done_callback(lambda _: self._making.pop(key))
        return await asyncio.shield(self._making[key])

    async def _make(self, key: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        question = Question(key, "")
        steps = self._steps(question, await self._gateway.begin(key) or [])  # a planner that died left calls open
        tools = self._tools(question, (doc_id,), "", steps)
        arguments = dict(branch.arguments)
        place = None
        if version:
            by = self._setup.llm.reply_settings(roles, self._setup.weights)
            method = key.removeprefix(ARTIFACT).split("/", 1)[0]
            place = ArtifactPlace.of(self._ports.archive, doc_id, method, version, arguments, by)
            taken = await tools.remember(TAKEN, {"doc_id": doc_id, "key": place.key}, partial(_taken, place))
            if taken is not None:
                await steps.flush()
                return taken["made"]
        made = await tools.remember(branch.path, arguments, partial(branch.operator, tools, **arguments))
        await steps.flush()
        if place is not None:
            # Only what is durable here is kept there; a run that dies in between keeps it when it goes on.
            lacks = any(row.path == LACKING for row in await self._gateway.known(key))
            artifact = Artifact(made, Expense.of(*await self._gateway.spent(key)))
            asked = {"doc_id": doc_id, "key": place.key}
            await tools.remember(KEPT, asked, partial(_keep, place, None if lacks else artifact))
            await steps.flush()
        return made

    async def _artifact_of(self, name: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        key = self._artifact_key(name, doc_id)
        makers = self._setup.makers
        owner = named_actor(makers[crc32(key.encode()) % len(makers)])
        return await plain_errors(owner.artifact.remote(key, doc_id, branch, version, roles))

    @staticmethod
    def _artifact_key(name: str, doc_id: str) -> str:
        return f"{ARTIFACT}{name}/{doc_id}"

    async def _run(
        self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str
    ) -> tuple[Any, dict[str, float], Steps]:
        posed, scope = branch.posed(question, doc_ids)
        steps = self._steps(posed, await self._gateway.known(question.query_id))
        tools = self._tools(posed, scope, path, steps)
        result = await branch.operator(tools, **branch.arguments)
        return result, tools.seconds, steps.take()

    async def _elsewhere(
        self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str
    ) -> tuple[Any, dict[str, float], Steps]:
        """``_run`` on the planner whose turn it is."""
        found: tuple[Any, dict[str, float], Steps] = await plain_errors(
            self._peer().branch.remote(question, doc_ids, branch, path)
        )
        return found

    def _steps(self, question: Question, known: Sequence[JournalRow]) -> _QuestionSteps:
        reserve = partial(self._reserve, typed=bool(question.answer_type))
        return _QuestionSteps(self._gateway, question.query_id, known, reserve)

    def _tools(self, question: Question, doc_ids: tuple[str, ...], prefix: str, steps: _QuestionSteps) -> QuestionTools:
        async def fan_out(branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
            await steps.flush()  # what the branch pays for rests on them
            if prefix:
                result, seconds, left = await self._run(question, doc_ids, branch, path)
            else:
                result, seconds, left = await self._elsewhere(question, doc_ids, branch, path)
            steps.add(left.rows)
            return result, seconds

        # What the question's journal holds is here already: a call need not ask the ledger for its reply again.
        complete = partial(self._client_here().complete, recorded=steps.reply, pending=steps.take)
        ports = replace(self._ports, complete=complete, admit=steps.admit)
        if ports.stronger is not None:
            complete = partial(self._client_here(stronger=True).complete, recorded=steps.reply, pending=steps.take)
            stronger = replace(ports.stronger, complete=complete, admit=steps.admit)
            ports = stronger if prefix.startswith(f"{ESCALATED}/") else replace(ports, stronger=stronger)
        return QuestionTools(ports, question, doc_ids, steps, fan_out, prefix)

    def _new_client(self, llm: GeneratorConfig) -> LlmClient:
        """A client of the run's generator, or of the stronger one, which is asked in real time and at its address."""
        setup, own = self._setup, llm is self._setup.llm
        transport = self._transport() if own else None
        waits = own and setup.scheduler is not None
        return LlmClient(
            llm,
            self._gateway,
            setup.prices,
            first_limiter=0 if own else len(setup.llm.all_endpoints),
            address=ADDRESS if transport is not None else setup.address if own else None,
            tags=setup.tags,
            shared=self._shared_replies,
            scheduler=batch_scheduler_client(named_actor(str(setup.scheduler))) if waits else None,
            transport=transport,
            grammar=partial(grammar, short=llm.short_contract),
            reply_schema=partial(reply_schema, short=llm.short_contract),
        )

    def _client_here(self, stronger: bool = False) -> LlmClient:
        """The client of the loop that asks, of the run's generator or of the stronger one: each concurrency group has
        one of each, and a connection belongs to one alone.
        """
        key = asyncio.get_running_loop(), stronger
        llm = self._setup.llm.stronger if stronger else self._setup.llm
        first = self._stronger if stronger else self._client
        if llm is None or first is None:
            raise ValueError("the run has no stronger generator")
        with self._choosing:  # loops run in threads of their own
            if key not in self._clients:
                taken = any(other is first for other in self._clients.values())
                self._clients[key] = self._new_client(llm) if taken else first
                if self._halted:
                    self._clients[key].halt(self._halted)
            return self._clients[key]

    async def _of_clients(self, work: Callable[[LlmClient, Any], Coroutine[Any, Any, int]], argument: Any) -> list[int]:
        """What ``work`` makes of each client in the loop that it belongs to."""
        with self._choosing:
            clients = list(self._clients.items())
        done = [asyncio.run_coroutine_threadsafe(work(client, argument), loop) for (loop, _), client in clients]
        return list(await asyncio.gather(*map(asyncio.wrap_future, done)))

    def _peer(self) -> Any:
        if not self._peers:
            self._peers = [named_actor(name) for name in self._setup.planners]  # not before: they start together
        return self._peers[next(self._turn) % len(self._peers)]

    async def _stopped(self, question: Question, message: str, exit_code: int) -> Stop:
        with suppress(*BROKEN):  # when the gateway itself is what broke
            await self._gateway.release(question.query_id)  # else questions that wait for room wait for ever
        return Stop(message, exit_code)

    async def _failed(self, question: Question, error: Exception, message: str) -> Answer:
        raw = error.raw if isinstance(error, ReplyError) else ""
        told = f"{message}\nThe raw reply:\n{raw}" if raw else message
        await self._gateway.fail(question.query_id, "answer", type(error).__name__, told)
        return Answer("failed", "", error=message)

    def _reserve(self, plan: Plan, typed: bool) -> float:
        """What a question of this plan needs at most, in US dollars; ``typed``: it is asked for a value."""
        # Also in batch mode at the full price: a question that falls back to real time must not be left half paid.
        stronger = None if self._stronger is None else _spender(self._stronger)
        tables = self._setup.policy.context.table_tokens
        return plan_reserve(plan, tables, _spender(self._client), stronger, typed=typed)


async def _taken(place: ArtifactPlace) -> dict[str, Any] | None:
    """What the archive keeps, with what it had cost, as the journal has it."""
    found = await asyncio.to_thread(place.read)
    return None if found is None else {"made": found.made, "expense": asdict(found.expense)}


async def _keep(place: ArtifactPlace, artifact: Artifact | None) -> str:
    """Have the archive keep it; "" or why it does not. None is one for which replies were lacking."""
    return "some replies were of no use" if artifact is None else await asyncio.to_thread(place.write, artifact)


async def _no_admission(query_id: str, plan: Plan) -> None:
    raise ValueError("each question is admitted by its own steps")


async def _halt(client: LlmClient, why: str) -> int:
    return client.halt(why)


def _spender(client: LlmClient) -> Spender:
    return Spender(client.price, client.config.window, client.config.completion_limit)


class _QuestionSteps:
    """The journal of one question: what was known when it was taken up, and the steps since.

    Nothing was paid for before the first call, so a step is not made durable by itself: it goes with the question's
    next message to the gateway, which is answered when all of it is durable. So does the reserve that the plan needs.
    """

    def __init__(
        self, gateway: Gateway, query_id: str, known: Sequence[JournalRow], reserve: Callable[[Plan], float]
    ) -> None:
        self._gateway, self._query_id, self._reserve = gateway, query_id, reserve
        self._known = {(row.path, row.kind): row.body for row in known}
        self._replies = {(row.path, row.sample): row for row in known if row.kind == "reply"}
        self._rows: list[JournalRow] = []
        self._admit_usd: float | None = None
        self._flushing = asyncio.Lock()

    def reply(self, path: str, sample: int) -> JournalRow | None:
        """The reply that is known of a step."""
        return self._replies.get((path, sample))

    def recorded(self, path: str, kind: str) -> str | None:
        """See ``StepLog``."""
        return self._known.get((path, kind))

    async def record(self, path: str, kind: str, body: str) -> None:
        """See ``StepLog``."""
        self._rows.append(JournalRow(self._query_id, path, kind, body))

    def add(self, rows: Sequence[JournalRow]) -> None:
        """Steps of a branch that is over."""
        self._rows.extend(rows)

    async def admit(self, query_id: str, plan: Plan) -> None:
        """Reserve for a plan, with the next message."""
        self._admit_usd = self._reserve(plan)

    def take(self) -> Steps:
        """What the next message is to take along."""
        steps = Steps(tuple(self._rows), self._admit_usd)
        self._rows.clear()
        self._admit_usd = None
        return steps

    async def flush(self) -> None:
        """Return when all steps so far are durable. Raises OverBudget."""
        async with self._flushing:  # branches of the same moment wait for the one that takes the steps along
            if steps := self.take():
                await self._gateway.record(self._query_id, steps)


def ports_of(
    retrieval: RetrievalClient,
    policy: Policy,
    llm: LlmConfig,
    complete: Complete,
    admit: Callable[[str, Plan], Awaitable[None]],
) -> Ports:
    """What the tools of all questions share. ``llm`` is settled, as the generator was started."""
    return Ports(
        archive=retrieval.archive,
        shards=retrieval.shards,
        embed=retrieval.port("embedder", retrieval.embed),
        analyze=retrieval.port("analyzer", retrieval.analyze),
        complete=complete,
        admit=admit,
        policy=policy,
        **_asked_as(llm),
        read=retrieval.port("reranker", retrieval.read),
        reads_spans=retrieval.reads_spans,
        reads_answers=retrieval.reads_answers,
        cross_encoder=retrieval.cross_encoder,
        score=retrieval.port("scorer", retrieval.score),
        token_ends=retrieval.port("scorer", retrieval.token_ends),
        keep=retrieval.port("token_classifier", retrieval.keep),
        compress=retrieval.port("compressor", retrieval.compress),
    )


def _asked_as(llm: GeneratorConfig) -> dict[str, Any]:
    """The ports that say how a generator is asked."""
    return {
        "window": llm.window,
        "count": token_counter(llm.tokenizer),
        "completion_limit": llm.completion_limit,
        "demonstrate": bool(llm.demonstrations),
        "calculator": bool(llm.calculator),
        "short_contract": llm.short_contract,
        "generator": llm.model,
    }


def with_stronger(ports: Ports, llm: LlmConfig, complete: Complete | None) -> Ports:
    """``ports`` with those of the stronger generator, where there is one: it answers all by itself."""
    if llm.stronger is None or complete is None:
        return ports
    return replace(ports, stronger=replace(ports, complete=complete, reads_answers=False, **_asked_as(llm.stronger)))
