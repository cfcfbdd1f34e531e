"""A run of few questions over a small archive in the command's own process: without Ray, Serve, and processes beside.

Ray, a controller of Serve, and a process for each model, for the gateway, for a planner and for each shard take longer
to start than such a run lasts. Here the planner, the gateway and the shards are objects on an event loop in a thread of
the driver, and the models are loaded once, in this process. Durability is the same: what is durable when a call is made
is durable here too, and a run that was begun this way may go on over Ray, and the other way round.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

import httpx2

from okralong.actors.llm import ActorClient
from okralong.actors.planner import Planner, PlannerSetup, RunActors
from okralong.actors.retrieval import QueryVectors, RetrievalClient, RetrievalNames, needed_models
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, load_scorer, load_token_classifier
from okralong.pipelines.answering.analyzers.analyzer import load_analyzer
from okralong.pipelines.answering.question_tools import QuestionTools
from okralong.pipelines.answering.rerank import load_reranker
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.archive.search import LocalShard
from okralong.pipelines.core.config import AnswerPlacement
from okralong.pipelines.core.log import ROOT, JsonLines
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.storage_errors import not_written
from okralong.pipelines.core.types import Analysis, Question, Reading, WordKept
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway, Steps
from okralong.pipelines.llm.journal import reserve_bytes
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.run.prepare import Prepared

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

SMALL_CHUNKS: Final = 200_000
"""Chunks of all sizes at most. Ours: a question about all of them takes some 15 ms for each 100,000 of one size
(docs/scaling.md), in which nothing else of this process goes on."""
TOGETHER: Final = 32
"""Texts, questions or queries of one pass of a model; ours, as on Ray Serve."""
LOCK_WAIT_S: Final = 60.0
"""How long the writer of a killed run is waited for, in seconds; as for a gateway on Ray."""
LOG: Final = "run.log"
"""Warnings of the run, lines of JSON in its folder, where it is on a disk."""


def unfit(prepared: Prepared, questions: int) -> str:
    """Why so many questions of a run are not carried in this process, as half a sentence; "" where they may be: few, in
    real time, over a small archive, with models that need no process of their own, and nothing of the config says how
    many processes there are or where.
    """
    config, strategy = prepared.config, prepared.strategy
    if questions > config.own_process:
        return f"{questions} questions are more than own_process, which is {config.own_process}"
    if config.llm.mode != "realtime":
        return "it asks in batches"
    if sum(prepared.manifest["chunks"].values()) > SMALL_CHUNKS:
        return f"the archive has more than {SMALL_CHUNKS:,} chunks"
    if strategy.needs.sara_generator or strategy.needs.compressor:
        return f"the strategy {config.strategy!r} needs models that run on Ray"
    parts: list[Any] = [config.query_embedder, config.analyzer, config.reranker, config.token_classifier]
    parts += [config.scorer] if config.scorer else []
    told = [(part.replicas, part.gpus_per_replica) for part in parts]
    told.append((config.search.replicas, config.search.gpus_per_shard))
    if config.planners is not None or config.placement != AnswerPlacement() or set(told) != {(1, 0)}:
        return "the config says how many processes there are, or where"
    if "RAY_ADDRESS" in os.environ or _on_ray():
        return "there is a Ray cluster to use"
    return ""


def _on_ray() -> bool:
    """Whether this process is connected to Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


class OwnModel:
    """A model of this process, loaded or on its way. One call at a time, of whatever run and thread: a tokenizer keeps
    the settings of a call until the next."""

    def __init__(self, loading: Future[Any]) -> None:
        self._loading = loading
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Until it is loaded. Raises ConfigError when it cannot be."""
        self._loading.result()

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the model returns. Raises ConfigError when it cannot be loaded."""
        model = self._loading.result()
        with self._lock:
            return getattr(model, method)(*arguments)


class OwnModels:
    """The models that runs need, loaded one after the other in a thread of this process; equal ones once."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "okralong-models")
        self._loaded: list[tuple[str, object, OwnModel]] = []

    def bring(self, prepared: Prepared, asking: bool = True) -> None:
        """Begin to load what the run needs (an estimate, where nobody is ``asking``) and what is not here, in the order
        in which a question needs it."""
        config = prepared.config
        load: dict[str, Callable[[], Any]] = {
            "embedder": lambda: _query_encoder(prepared.manifest),
            "analyzer": lambda: load_analyzer(config.analyzer),
            "reranker": lambda: load_reranker(config.reranker),
            "token_classifier": lambda: load_token_classifier(config.token_classifier),
        }
        if config.scorer is not None:
            load["scorer"] = partial(load_scorer, config.scorer)
        for part, identity in needed_models(prepared, asking).items():
            if self._find(part, identity) is None:
                self._loaded.append((part, identity, OwnModel(self._thread.submit(load[part]))))

    def of(self, prepared: Prepared, asking: bool = True) -> dict[str, OwnModel]:
        """The models of a run, by part. Raises LookupError for one that ``bring`` was not told of."""
        found: dict[str, OwnModel] = {}
        for part, identity in needed_models(prepared, asking).items():
            model = self._find(part, identity)
            if model is None:
                raise LookupError(f"the run's {part} was not brought")
            found[part] = model
        return found

    def misfit(self, prepared: Prepared) -> str:
        """The part of which the run needs another model than those that are here; "" where there is none."""
        needed = needed_models(prepared).items()
        return next((part for part, identity in needed if self._find(part, identity) is None), "")

    def wait(self) -> None:
        """Until all of them are loaded. Raises ConfigError when one cannot be."""
        for _, _, model in list(self._loaded):
            model.wait()

    def close(self) -> None:
        """Load nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _find(self, part: str, identity: object) -> OwnModel | None:
        return next((model for name, what, model in self._loaded if (name, what) == (part, identity)), None)


def _query_encoder(manifest: Mapping[str, Any]) -> Any:
    # Imported here: torch takes seconds, and meanwhile the generator starts.
    from okralong.pipelines.indexing.query_encoder import load_query_encoder

    return load_query_encoder(manifest, TOGETHER)


class _Together(Generic[A, B]):
    """Calls of one event loop to a model: what comes while it works goes into its next pass together."""

    def __init__(self, work: Callable[[list[A]], Sequence[B]]) -> None:
        self._work = work
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, asked: A) -> B:
        """What ``work`` makes of ``asked``; what it raises is raised in all of its pass."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[B] = loop.create_future()
        self._waiting.append((asked, found))
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        return await found

    async def _serve(self) -> None:
        await asyncio.sleep(0)  # what is asked in the same moment goes together
        while self._waiting:
            taken, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            try:
                made = await asyncio.to_thread(self._work, [asked for asked, _ in taken])
            except Exception as error:
                for _, found in taken:
                    if not found.done():
                        found.set_exception(error)
            else:
                for (_, found), one in zip(taken, made, strict=True):
                    if not found.done():
                        found.set_result(one)


class OwnRetrieval(RetrievalClient):
    """Shards and models of this process, as a planner uses them."""

    def __init__(self, prepared: Prepared, models: OwnModels, asking: bool = True) -> None:
        """``models`` has those of the run already, or on their way."""
        self._models = own = models.of(prepared, asking)
        says = RetrievalNames.of(prepared, (), dict.fromkeys(own, ""))
        self.archive = prepared.archive
        self.parts = frozenset(own)
        self.reads_spans, self.reads_answers, self.checks = says.reads_spans, says.reads_answers, says.checks
        self.cross_encoder = says.cross_encoder
        most = prepared.config.reranker.max_batch
        embed: _Together[str, Any] = _Together(lambda texts: list(own["embedder"].call("encode_queries", texts)))
        self._vectors = QueryVectors(embed.__call__)
        self._analyze: _Together[AnalysisInput, Analysis] = _Together(
            lambda all: cast(list[Analysis], own["analyzer"].call("analyze", all))
        )
        self._read: _Together[tuple[str, list[str]], list[Reading]] = _Together(
            lambda asked: cast(list[list[Reading]], own["reranker"].call("read_each", asked, most))
        )

    def shards(self, granularity: int) -> list[LocalShard]:  # type: ignore[override]
        """See ``RetrievalClient``, here and below."""
        return [LocalShard(self.archive.shard(granularity, number)) for number in range(self.archive.n_shards)]

    def transport(self) -> None:
        """As above; SARA's generator is on Ray."""

    async def analyze(self, asked: AnalysisInput) -> Analysis:
        """As above."""
        return await self._analyze(asked)

    async def read(self, query: str, passages: list[str]) -> list[Reading]:
        """As above."""
        return await self._read((query, passages))

    async def score(self, prefix: str, texts: list[str]) -> list[list[float]]:
        """As above."""
        return cast(list[list[float]], await self._call("scorer", "score", prefix, texts))

    async def token_ends(self, texts: list[str]) -> list[list[int]]:
        """As above."""
        return cast(list[list[int]], await self._call("scorer", "token_ends", texts))

    async def keep(self, texts: list[str]) -> list[list[WordKept]]:
        """As above."""
        return cast(list[list[WordKept]], await self._call("token_classifier", "keep", texts))

    async def _call(self, part: str, method: str, *arguments: Any) -> Any:
        return await asyncio.to_thread(self._models[part].call, method, *arguments)


class LateServer(httpx2.AsyncBaseTransport):
    """HTTP to a server that may still be starting: ``address`` is its base URL, once it answers."""

    def __init__(self, address: Future[str]) -> None:
        self._address = address
        self._http = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The server's reply."""
        address: str = await asyncio.shield(asyncio.wrap_future(self._address))
        found = httpx2.URL(address)
        request.url = request.url.copy_with(scheme=found.scheme, host=found.host, port=found.port)
        request.headers["Host"] = found.netloc.decode()
        return await self._http.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class OwnPlanner(Planner):
    """A planner whose gateway, models and branches are in its own process."""

    def __init__(
        self, setup: PlannerSetup, gateway: Gateway, retrieval: RetrievalClient, generator: Future[str] | None
    ) -> None:
        """``generator`` is the address of an embedded one, once it answers; None for one that is there."""
        self._generator = generator
        self._open(setup, gateway, retrieval, lambda: None if generator is None else LateServer(generator))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._of_clients(_closed, None)

    def _tools(self, question: Question, doc_ids: tuple[str, ...], prefix: str, steps: Any) -> QuestionTools:
        tools = super()._tools(question, doc_ids, prefix, steps)
        generator, complete = self._generator, tools.ports.complete
        if generator is None:
            return tools

        async def when_there(*arguments: Any, **named: Any) -> Any:
            await asyncio.shield(asyncio.wrap_future(generator))  # raises what kept it from starting
            return await complete(*arguments, **named)

        tools.ports = replace(tools.ports, complete=when_there)
        return tools

    async def _elsewhere(
        self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str
    ) -> tuple[Any, dict[str, float], Steps]:
        return await self._run(question, doc_ids, branch, path)

    async def _artifact_of(self, name: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        make: Callable[..., Awaitable[Any]] = cast(Any, self.artifact)  # Ray's mark makes it no function to mypy
        return await make(self._artifact_key(name, doc_id), doc_id, branch, version, roles)


async def _closed(client: LlmClient, _: None) -> int:
    await client.aclose()
    return 0


class Loop:
    """An event loop in a thread of its own, and objects on it that are called as Ray's actors are."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="okralong-run", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns, from a thread that waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def handle(self, of: Any) -> Any:
        """``of`` as an actor's handle: ``await handle.method.remote(...)`` from any loop. Who gives up waiting does not
        cancel what is done, as with an actor."""
        return _Handle(of, self._loop)

    def close(self) -> None:
        """End what still runs, and the thread."""
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()


class _Handle:
    def __init__(self, of: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._of, self._loop = of, loop

    def __getattr__(self, name: str) -> _Method:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Method(getattr(self._of, name), self._loop)


class _Method:
    def __init__(self, method: Callable[..., Coroutine[Any, Any, Any]], loop: asyncio.AbstractEventLoop) -> None:
        self._method, self._loop = method, loop

    def remote(self, *arguments: Any) -> Awaitable[Any]:
        """What the method returns, as a future of the calling loop."""
        running = asyncio.run_coroutine_threadsafe(self._method(*arguments), self._loop)
        return asyncio.shield(asyncio.wrap_future(running))


@contextmanager
def own_actors(
    prepared: Prepared,
    run: str,
    llm: LlmConfig,
    listens: Future[str] | str | None,
    models: OwnModels,
    reopened: frozenset[str] = frozenset(),
    replies_from: tuple[str, ...] = (),
    weights: str = "",
) -> Iterator[RunActors]:
    """What ``run_actors`` starts on Ray, in this process; closed with the block, however it ends.

    ``listens`` is the address of an embedded generator, or will be once it answers, and ``weights`` names its weights.
    Raises OkraError when a part cannot start, BrokenError when the run cannot be written at its end.
    """
    config = prepared.config
    endpoints = llm.all_endpoints + (llm.stronger.all_endpoints if llm.stronger else ())
    reserve = reserve_bytes(sum(one.max_in_flight for one in endpoints), llm.longest_reply)
    ledger = RunLedger(
        Folder.of(run), config.budget_usd, lock_wait_s=LOCK_WAIT_S, reopened=reopened, reserve_bytes=reserve
    )
    gateway = Gateway(ledger, [LocalLimiter(endpoint.limits) for endpoint in endpoints])
    setup = PlannerSetup(
        strategy=prepared.strategy,
        policy=prepared.policy,
        llm=llm,
        prices=prepared.prices,
        address=listens if isinstance(listens, str) else None,
        tags=config.tags,
        replies_from=replies_from,
        planners=(),
        makers=(),
        retrieval=RetrievalNames(prepared.archive.location, (), {}),
        gateway="",
        run=run,
        weights=weights,
    )
    loop, finished = Loop(), False
    with _warnings_to(run):
        try:
            late = listens if isinstance(listens, Future) else None
            planner = OwnPlanner(setup, gateway, OwnRetrieval(prepared, models), late)
            models.wait()
            try:
                yield RunActors([loop.handle(planner)], cast(RunLedger, ActorClient(loop.handle(ledger))))
                finished = True
            finally:
                loop.run(planner.aclose())
        finally:
            try:
                loop.run(ledger.close())
            except OSError as error:
                if finished:  # else what ended the run is told
                    raise not_written(f"The run folder {run}", error) from error
            finally:
                loop.close()


_RUN: Final[ContextVar[str | None]] = ContextVar("run", default=None)
"""The run for which something is done, in what its thread calls; None where models are loaded, which runs share."""


@contextmanager
def _warnings_to(run: str) -> Iterator[None]:
    """Keep warnings of the run out of the terminal for the time of the block: they go to ``LOG`` in its folder."""
    folder, logger = Folder.of(run), logging.getLogger(ROOT)
    handler: logging.Handler = logging.NullHandler()
    if folder.is_local:
        handler = logging.FileHandler(Path(folder.path) / LOG, encoding="utf-8", delay=True)
        handler.setFormatter(JsonLines(run))
        handler.setLevel(logging.WARNING)
        handler.addFilter(lambda _: _RUN.get() in (None, run))  # others may run beside it
    begun = _RUN.set(run)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        _RUN.reset(begun)
        with suppress(OSError):
            handler.close()
