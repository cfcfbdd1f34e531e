"""Hosts execute runs, in the command's own process (``LocalHost``) or on Ray (``RayHost``).

A host opens a run: it starts the generator, models, gateway and planners that the run needs, and stops them at the end.
Both hosts make the same rows durable before and after each call, so a run may begin on one and continue on the other.

A small run ends before Ray, Serve's controller and a process for each model, gateway, planner and shard would have
started. ``LocalHost`` keeps planner, gateway and shards as objects on the command's event loop and loads the models in
this process.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import httpx2

from okralong.actors.cluster import answering_cluster, cluster_address, connected, placement_notes
from okralong.actors.forecaster import AnyForecaster, Forecaster, ForecasterSetup, run_forecasters
from okralong.actors.gateway import LOCK_WAIT_S
from okralong.actors.generator import StartedGenerator, checked_anew, generator, reading_vectors, weights_here
from okralong.actors.local_models import LoadedModels, LocalModels
from okralong.actors.planner import GeneratorClients, Planner, PlannerSetup
from okralong.actors.ray_planners import BatchSetup, RayPlanner, run_actors
from okralong.actors.retrieval import RetrievalNames
from okralong.pipelines.answering.confidence_model import load_confidence
from okralong.pipelines.core.config import AnswerPlacement
from okralong.pipelines.core.log import ROOT, JsonLines
from okralong.pipelines.core.loops import run_coroutine
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.storage_errors import not_written
from okralong.pipelines.core.telemetry import Telemetry
from okralong.pipelines.core.types import OkraError
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.llm.call_telemetry import CallTelemetry
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import reserve_bytes
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.ports import LedgerPort, SchedulerPort
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.llm.shared_budget import SharedBudget
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.prepare import Prepared

T = TypeVar("T")

SMALL_CHUNKS: Final = 200_000
"""Most chunks, of all sizes, that a run in one process searches. # project default: a question about all of them takes
some 15 ms for each 100,000 of one size (docs/scaling.md), which blocks the process."""
LOG: Final = "run.log"
"""File in a run's folder for the warnings of a local run, as lines of JSON."""


class DoesNotFit(OkraError):
    """Raised if a warm host cannot carry a run; the message is a clause with the reason."""


class Progress(Protocol):
    """Receives a host's progress while it opens a run."""

    def phase(self, name: str, about: str = "") -> None:
        """Begin the next phase."""
        ...

    def note(self, text: str) -> None:
        """Show a warning."""
        ...


@dataclass(frozen=True)
class RunStart:
    """One start of a run.

    Attributes:
        prepared: The run.
        run: Its folder, absolute or a URI.
        questions: Number of questions left to answer.
        reopened: query_ids of the questions to answer again.
        replies_from: Runs that share their replies.
        batches: Settings of the batch scheduler, if the run needs one.
        telemetry: Sends the spans of this process, if any are sent.
        budget: A budget with further limits than that of the config, for a host in this process.
    """

    prepared: Prepared
    run: str
    questions: int
    reopened: frozenset[str] = frozenset()
    replies_from: tuple[str, ...] = ()
    batches: BatchSetup | None = None
    telemetry: Telemetry | None = None
    budget: SharedBudget | None = None


@dataclass(frozen=True)
class OpenRun:
    """An open run.

    Attributes:
        planners: The planners, which share the questions.
        ledger: The run's ledger.
        facts: The generator's entry in the manifest.
        execute: Runs a coroutine that uses planners, ledger or scheduler, and returns its result. Call it once.
        scheduler: The batch scheduler, if the run has one.
        more: Starts a further planner; None if the run may have no more.
        gateway: The gateway, if it is an object of this process.
    """

    planners: list[Planner | RayPlanner]
    ledger: LedgerPort
    facts: dict[str, Any]
    execute: Callable[[Coroutine[Any, Any, Any]], Any]
    scheduler: SchedulerPort | None = None
    more: Callable[[], RayPlanner] | None = None
    gateway: Gateway | None = None


class Host(ABC):
    """Opens runs and estimates."""

    @abstractmethod
    def open(self, start: RunStart, progress: Progress) -> AbstractContextManager[OpenRun]:
        """Return a context manager that starts everything when it is entered, and yields the open run.

        Raises:
            DoesNotFit: A warm host cannot carry the run. The call itself raises it, before anything has changed.
            OkraError: A part cannot start, or the run cannot be written at its end.
        """

    def started(self) -> AbstractContextManager[None]:
        """Stay connected to Ray, if the host uses it, for several estimates and runs in the block."""
        return nullcontext()

    @abstractmethod
    def forecasters(
        self, prepared: Prepared, strategies: tuple[str, ...], llm: LlmConfig
    ) -> AbstractContextManager[Sequence[AnyForecaster]]:
        """Start the forecasters of an estimate, and stop them with the block."""


def host_for(prepared: Prepared, questions: int, address: str | None = None, *, batches: bool = False) -> Host:
    """Return the host of a run: this process for a small run, otherwise Ray.

    Args:
        prepared: The run.
        questions: Number of questions left.
        address: A Ray cluster that the user has named.
        batches: Whether the run has batches to fetch.
    """
    if cluster_address(address) is None and not batches and not why_ray(prepared, questions):
        return LocalHost()
    return RayHost(None if on_ray() else answering_cluster(address))  # an error comes before models are loaded


def why_ray(prepared: Prepared, questions: int) -> str:
    """Return the reason why a run needs Ray, as a clause, or "".

    One process carries few questions, in real time, over a small archive, with models that need no separate process,
    if the config does not set the number or the place of processes.
    """
    config = prepared.config
    if questions > config.own_process:
        asked = f"{counted(questions, 'question')} {agreeing(questions, 'is')}"
        return f"{asked} more than own_process, which is {config.own_process}"
    if why := why_one_process_is_not_enough(prepared):
        return why
    if cluster_address() or on_ray():
        return "there is a Ray cluster to use"
    return ""


def why_one_process_is_not_enough(prepared: Prepared) -> str:
    """Return the reason why a run needs several processes, whatever its number of questions, as a clause, or ""."""
    config, strategy = prepared.config, prepared.strategy
    if config.llm.mode != "realtime":
        return "it uses batch mode"
    if sum(prepared.manifest["chunks"].values()) > SMALL_CHUNKS:
        return f"the archive has more than {SMALL_CHUNKS:,} chunks"
    if strategy.needs.sara_generator or strategy.needs.compressor:
        return f"the strategy {config.strategy!r} needs models that run on Ray"
    parts: list[Any] = [config.query_embedder, config.analyzer, config.reranker, config.token_classifier]
    parts += [config.scorer] if config.scorer else []
    told = [(part.replicas, part.gpus_per_replica) for part in parts]
    told.append((config.search.replicas, config.search.gpus_per_shard))
    if config.planners is not None or config.placement != AnswerPlacement() or set(told) != {(1, 0)}:
        return "the config sets the number or place of processes"
    return ""


def on_ray() -> bool:
    """Return whether this process is connected to Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


class LocalHost(Host):
    """Carries runs in this process: loads what a run needs and unloads it at the end."""

    def open(self, start: RunStart, progress: Progress) -> AbstractContextManager[OpenRun]:
        """See ``Host``."""
        return _opened_here(start, progress)

    @contextmanager
    def forecasters(
        self, prepared: Prepared, strategies: tuple[str, ...], llm: LlmConfig
    ) -> Iterator[Sequence[AnyForecaster]]:
        """See ``Host``."""
        models = LoadedModels()
        try:
            models.bring(prepared, asking=False)
            setup = ForecasterSetup(strategies, prepared.policy, llm)
            forecaster = Forecaster(setup, LocalModels(prepared, models, asking=False))
            models.wait()
            yield [forecaster]
        finally:
            models.close()


@dataclass(frozen=True)
class WarmHost(LocalHost):
    """Carries runs in this process with models, and perhaps a generator, that stay loaded between runs.

    Attributes:
        models: The models.
        llm: The config of the generator.
        served: That generator, if it is served; None if runs ask an endpoint themselves.
    """

    models: LoadedModels
    llm: LlmConfig
    served: StartedGenerator | None

    def open(self, start: RunStart, progress: Progress) -> AbstractContextManager[OpenRun]:
        """See ``Host``."""
        why = "it has batches to fetch" if start.batches else why_ray(start.prepared, start.questions)
        if why:
            raise DoesNotFit(why)
        return self.open_here(start, progress)

    def open_here(self, start: RunStart, progress: Progress) -> AbstractContextManager[OpenRun]:
        """Open a run in this process although it is connected to Ray, as a replica of a service is."""
        return _opened_here(start, progress, self.models, self.generator(start.prepared))

    def generator(self, prepared: Prepared) -> StartedGenerator | None:
        """Return the warm generator if it is the one that the run's config names; None if the run asks an endpoint.

        An embedded generator is compared by its weights too: a reader may have been trained since the host was started,
        and a relative path names another file in another working directory.

        Raises:
            DoesNotFit: The run needs another model or embedded generator than those that are warm.
        """
        if part := self.models.misfit(prepared):
            raise DoesNotFit(f"its {part} differs from the run's")
        same = self.served is not None and prepared.llm == self.llm
        if prepared.llm.base_url != EMBEDDED:
            return self.served if same else None
        if self.served is None or not same or weights_here(prepared.llm) != self.served.weights:
            raise DoesNotFit("its generator differs from the run's")
        return checked_anew(self.served)


@contextmanager
def _opened_here(
    start: RunStart, progress: Progress, models: LoadedModels | None = None, served: StartedGenerator | None = None
) -> Iterator[OpenRun]:
    """Open a run in this process; ``models`` and ``served`` are the warm ones, if there are any."""
    prepared = start.prepared
    with ExitStack() as held:
        _announce_generator(prepared, progress)
        if models is None:
            models = LoadedModels()
            held.callback(models.close)
            models.bring(prepared)  # they load while the generator starts
        served = served or held.enter_context(_generator(start))
        progress.phase("models", "are loaded, in this process")
        held.enter_context(warnings_to(start.run))
        run = _RunHere(start, served, LocalModels(prepared, models), progress)
        held.callback(run.close)
        models.wait()
        for note in served.notes:
            progress.note(note)
        yield OpenRun([run.planner], run.ledger, served.facts, run.execute, gateway=run.gateway)


class _RunHere:
    """Planner, gateway and ledger of a run as objects of one event loop, that of ``execute``."""

    def __init__(self, start: RunStart, served: StartedGenerator, local: LocalModels, progress: Progress) -> None:
        llm, late, telemetry = served.llm, served.ready, start.telemetry
        self._run, self._progress = start.run, progress
        endpoints = llm.all_endpoints + (llm.stronger.all_endpoints if llm.stronger else ())
        self.ledger = RunLedger(
            Folder.of(start.run),
            start.prepared.config.budget_usd,
            lock_wait_s=LOCK_WAIT_S,
            reopened=start.reopened,
            reserve_bytes=reserve_bytes(sum(one.max_in_flight for one in endpoints), llm.longest_reply),
            watches=[] if telemetry is None else [CallTelemetry(telemetry)],
            budget=start.budget,
            trust_usage=llm.trust_usage,
        )
        self._closed = False
        try:
            setup = _planner_setup(start, served, served.address if late is None else None)
            self.gateway = gateway = Gateway(self.ledger, [LocalLimiter(each.limits) for each in endpoints])
            transport = partial(LateServer, late) if late is not None else lambda: None
            clients = GeneratorClients(setup, gateway, transport, starting=late)
            self.planner = Planner(setup, gateway, local, clients, telemetry=telemetry)
        except BaseException:
            self.close()
            raise

    def execute(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work``, then close the run on the same event loop. Raises BrokenError if it cannot be written."""
        return run_coroutine(self._whole(work))

    def close(self) -> None:
        """Close a run that was not executed."""
        if not self._closed:
            with suppress(OSError):  # another error has ended the run
                run_coroutine(self.ledger.close())

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            result = await work
            self._progress.phase("end", "the run is written")
        except BaseException:
            with suppress(OSError):  # the first error is raised instead
                await self._end()
            raise
        try:
            await self._end()
        except OSError as error:
            raise not_written(f"The run folder {self._run}", error) from error
        return result

    async def _end(self) -> None:
        self._closed = True
        try:
            await self.planner.aclose()
        finally:
            try:
                await self.ledger.close()
            finally:
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)


@dataclass(frozen=True)
class RayHost(Host):
    """Carries runs with Ray actors and Ray Serve.

    Attributes:
        address: The cluster; None for a private one, or the one that this process is connected to already.
        retrieval: Shards and models that several runs share, if any.
        served: A generator that several runs share, if any.
    """

    address: str | None = None
    retrieval: RetrievalNames | None = None
    served: StartedGenerator | None = None

    @contextmanager
    def open(self, start: RunStart, progress: Progress) -> Iterator[OpenRun]:
        """See ``Host``."""
        prepared = start.prepared
        with ExitStack() as held:
            _announce_generator(prepared, progress)
            served = self.served or held.enter_context(_generator(start))
            progress.phase("Ray", "starts" if self.address is None else f"at {self.address}")
            held.enter_context(connected(self.address))
            for note in placement_notes(prepared.config.placement):  # before the actors are waited for
                progress.note(note)
            progress.phase("models", "and index shards are loaded")
            setup = _planner_setup(start, served, served.ready.result() if served.ready else served.address)
            actors = held.enter_context(
                run_actors(prepared, setup, reopened=start.reopened, batches=start.batches, retrieval=self.retrieval)
            )
            for note in served.notes:
                progress.note(note)
            yield OpenRun([*actors.planners], actors.ledger, served.facts, run_coroutine, actors.scheduler, actors.more)
            progress.phase("end", "the run is written, models and Ray are stopped")

    @contextmanager
    def forecasters(
        self, prepared: Prepared, strategies: tuple[str, ...], llm: LlmConfig
    ) -> Iterator[Sequence[AnyForecaster]]:
        """See ``Host``."""
        setup = ForecasterSetup(strategies, prepared.policy, llm)
        with connected(self.address), run_forecasters(prepared, setup) as found:
            yield found

    def started(self) -> AbstractContextManager[None]:
        """Stay connected to Ray."""
        return connected(self.address)


def _announce_generator(prepared: Prepared, progress: Progress) -> None:
    here = prepared.config.llm.base_url == EMBEDDED
    progress.phase("generator", "starts" if here else "is being checked")


def _generator(start: RunStart) -> AbstractContextManager[StartedGenerator]:
    """Return the run's own generator; an embedded one may still be starting when the block begins."""
    folder, prepared = Folder.of(start.run), start.prepared
    logs = Path(folder.path) if folder.is_local else None
    return generator(prepared.llm, logs, reading_vectors(prepared), ahead=True)


def _planner_setup(start: RunStart, served: StartedGenerator, address: str | None) -> PlannerSetup:
    prepared = start.prepared
    return PlannerSetup(
        strategy=prepared.strategy,
        policy=prepared.policy,
        llm=served.llm,
        prices=prepared.prices,
        address=address,
        tags=prepared.config.tags,
        replies_from=start.replies_from,
        run=start.run,
        weights=served.weights,
        confidence=load_confidence(prepared.config.confidence),
        telemetry=None if start.telemetry is None else start.telemetry.setup,
    )


class LateServer(httpx2.AsyncBaseTransport):
    """HTTP to a server that may still be starting; ``address`` is its base URL once it answers."""

    def __init__(self, address: Future[str]) -> None:
        self._address = address
        self._http = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Wait for the server, then return its reply."""
        address: str = await asyncio.shield(asyncio.wrap_future(self._address))
        found = httpx2.URL(address)
        request.url = request.url.copy_with(scheme=found.scheme, host=found.host, port=found.port)
        request.headers["Host"] = found.netloc.decode()
        return await self._http.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


_RUN: Final[ContextVar[str | None]] = ContextVar("run", default=None)
"""The run that the current code works for; None in threads that load models, which runs share."""


@contextmanager
def warnings_to(run: str) -> Iterator[None]:
    """Write warnings of the run to ``LOG`` in its folder instead of the terminal, while the block runs."""
    folder, logger = Folder.of(run), logging.getLogger(ROOT)
    handler: logging.Handler = logging.NullHandler()
    if folder.is_local:
        handler = logging.FileHandler(Path(folder.path) / LOG, encoding="utf-8", delay=True)
        handler.setFormatter(JsonLines(run))
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda _: _RUN.get() in (None, run))  # other runs may be active at the same time
    begun = _RUN.set(run)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        _RUN.reset(begun)
        with suppress(OSError):
            handler.close()
