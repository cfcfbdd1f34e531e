"""What a run needs of a cluster beside its planners: shards, query embedder, analyzer, scorer, and SARA's generator.

They are started and ended together, for one run (``started_retrieval``) or for several (``SharedModels``). An actor
that uses them (``RetrievalClient``) knows them by their names, so that one that Ray starts again can find them again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import ray
from ray.exceptions import RayError

from okralong.actors.cluster import NAMESPACE, named_actor, remove_apps, retry_replica, run_apps
from okralong.actors.shards import RayShard, Replicas, start_index_shards
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import calls_by_shard, replicas_by_shard
from okralong.pipelines.core.types import Analysis, BrokenError, ConfigError, OkraError, Reading, WordKept
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.prepare import Prepared

if TYPE_CHECKING:
    from ray import serve

Vectors = np.ndarray[Any, np.dtype[np.float32]]
Method = TypeVar("Method")

ADDRESS: Final = "http://okralong.invalid/v1"
"""What a client takes for the address of a server that it reaches through a transport: a name that leads nowhere."""
REVIVED: Final[dict[str, Any]] = {"max_restarts": 3, "max_task_retries": 3}
"""Ray's options for actors that may die and come back; the journal lets a planner repeat nothing that was paid for."""

VECTORS_KEPT: Final = 4096
"""Vectors of queries that a process keeps; ours: some six megabytes."""

APPS: Final = ("analyzer", "embedder", "reranker", "scorer", "token_classifier", "generator")
"""The applications on Ray Serve; a run has those that its strategy and its archive need."""


@dataclass(frozen=True)
class RetrievalNames:
    """``archive`` is a place that every node can read, ``shards`` are actors of okralong's namespace, for each shard
    number one or more; ``apps`` are the names of the applications on Ray Serve by part, of ``APPS``: without an
    analyzer the generator analyses, without an embedder the archive has no vectors. ``rules`` is an analyzer that each
    planner has in its own process; ``compresses`` says whether the embedder has a compressor, ``reads_spans`` whether
    the reranker says where answers stand, ``reads_answers`` whether it may answer and ``checks`` whether it says how
    probably an answer is right; ``cross_encoder`` is its name, "" where it reads nothing.
    """

    archive: str
    shards: tuple[tuple[str, ...], ...]
    apps: Mapping[str, str]
    rules: AnalyzerConfig | None = None
    compresses: bool = False
    reads_spans: bool = False
    reads_answers: bool = False
    checks: bool = False
    cross_encoder: str = ""

    @classmethod
    def of(cls, prepared: Prepared, shards: tuple[tuple[str, ...], ...], apps: Mapping[str, str]) -> RetrievalNames:
        """Those of a run."""
        reranker, ours = prepared.config.reranker, "reranker" in apps and prepared.config.reranker.reads_spans
        return cls(
            prepared.archive.location,
            shards,
            apps,
            rules=prepared.config.analyzer if prepared.config.analyzer.kind == "rules" else None,
            compresses=prepared.strategy.needs.compressor,
            reads_spans=ours,
            reads_answers=ours and reranker.may_answer(prepared.config.llm.base_url == EMBEDDED),
            checks=ours and reranker.confidence,
            cross_encoder=reranker.name if ours else "",
        )


@dataclass(frozen=True)
class _App:
    """An application that a run needs: ``identity`` is the same for equal ones."""

    identity: object
    make: Callable[[], serve.Application]


def _apps(prepared: Prepared, asking: bool = True) -> dict[str, _App]:
    """The applications of a run by part; the generator only for ``asking``."""
    # Imported here, as below: Ray Serve takes a second and 60 MB, and a run in one process needs none.
    from okralong.actors import models

    config, places, strategy = prepared.config, prepared.config.placement, prepared.strategy
    llm, encoders, scorer = config.llm, config.query_embedder, config.scorer
    compressor = config.sara.folder() if strategy.needs.compressor else None
    replicas = encoders.replicas, encoders.gpus_per_replica
    make: dict[str, Callable[[], serve.Application]] = {
        "embedder": lambda: models.query_embedder_app(prepared.manifest, *replicas, places.embedder, compressor),
        "analyzer": lambda: models.analyzer_app(config.analyzer, places.analyzer),
        "reranker": lambda: models.reranker_app(config.reranker, places.reranker),
        "token_classifier": lambda: models.token_classifier_app(config.token_classifier, places.token_classifier),
        "generator": lambda: models.sara_generator_app(config.sara, llm.model, llm.window, places.generator),
    }
    if scorer is not None:
        make["scorer"] = lambda: models.scorer_app(scorer, places.scorer)
    return {
        part: _App([identity, getattr(places, part).options()], make[part])
        for part, identity in needed_models(prepared, asking).items()
        # Keyword rules take microseconds: a process for them would take longer to start than all that they do.
        if (part, config.analyzer.kind) != ("analyzer", "rules")
    }


def needed_models(prepared: Prepared, asking: bool = True) -> dict[str, object]:
    """The models that a run needs beside its generator, and SARA's generator for ``asking``: by part what tells them
    from others, the same for equal ones.
    """
    config, strategy = prepared.config, prepared.strategy
    needed: dict[str, object] = {}
    if prepared.archive.has_vectors:
        compressor = config.sara.folder() if strategy.needs.compressor else None
        needed["embedder"] = [prepared.manifest["config"]["embedding"], config.query_embedder.model_dump(), compressor]
    if config.analyzer.kind != "llm":
        needed["analyzer"] = [config.analyzer.identity(), config.analyzer.model_dump(mode="json")]
    # An estimate sets the method beside whatever strategy the config names.
    ranks = strategy.needs.reranker if asking else prepared.policy.needs_reranker
    if ranks or (asking and config.reranker.confidence and config.reranker.reads_spans):
        needed["reranker"] = [config.reranker.identity(), config.reranker.model_dump()]
    if strategy.needs.scorer and config.scorer is not None:
        needed["scorer"] = config.scorer.model_dump()
    if strategy.needs.token_classifier:
        needed["token_classifier"] = [config.token_classifier.identity(), config.token_classifier.model_dump()]
    if asking and strategy.needs.sara_generator:
        needed["generator"] = [config.sara.model_dump(), config.llm.model, config.llm.window]
    return needed


@contextmanager
def started_retrieval(prepared: Prepared, key: str, tag: str, asking: bool = True) -> Iterator[RetrievalNames]:
    """Start all of it, the generator only for ``asking``; end it with the block, however that ends.

    The applications are named after ``key``: the same command, run again after a kill, replaces those that were left
    behind. ``tag`` makes the shards' names unique. Raises OkraError when a part cannot start.
    """
    mark = hashlib.sha256(key.encode()).hexdigest()[:8]
    names = {part: f"okralong-{part}-{mark}" for part in APPS}
    apps = _apps(prepared, asking)
    with ExitStack() as held:
        shards, ready = _start_shards(held, prepared, tag)
        if apps:  # without vectors and with the generator as analyzer there is none, and Ray Serve need not start
            held.callback(remove_apps, list(names.values()))
            run_apps({names[part]: app.make() for part, app in apps.items()})
        wait_for(ready)
        yield RetrievalNames.of(prepared, shards, {part: names[part] for part in apps})


class SharedModels:
    """The models of many runs on Ray Serve, by what they are: equal ones are one application.

    Applications are named after ``key`` and what they are, so that the same command, run again after a kill, replaces
    those that were left behind.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._running: set[str] = set()

    def bring(self, runs: Iterable[Prepared]) -> None:
        """Start what the runs need and what does not run yet, all at once. Raises ConfigError when one cannot start."""
        wanted = {self._name(part, app): app for prepared in runs for part, app in _apps(prepared).items()}
        new = {name: app.make() for name, app in wanted.items() if name not in self._running}
        self._running |= new.keys()  # also what fails to start has to be removed
        if new:
            run_apps(new)

    def keep(self, runs: Iterable[Prepared]) -> None:
        """End what none of these runs needs."""
        needed = {self._name(part, app) for prepared in runs for part, app in _apps(prepared).items()}
        gone = sorted(self._running - needed)
        self._running &= needed
        if gone:
            remove_apps(gone)

    @contextmanager
    def over(self, runs: Sequence[Prepared]) -> Iterator[list[RetrievalNames]]:
        """Shards of the one archive of all ``runs``, for the time of the block; what each run uses, in order."""
        with ExitStack() as held:
            # Replicas of shards are dealt by what all runs ask of them.
            asked = replace(runs[0], questions=[scoped for prepared in runs for scoped in prepared.questions])
            shards, ready = _start_shards(held, asked, uuid.uuid4().hex[:8])
            wait_for(ready)
            yield [
                RetrievalNames.of(
                    prepared, shards, {part: self._name(part, app) for part, app in _apps(prepared).items()}
                )
                for prepared in runs
            ]

    def _name(self, part: str, app: _App) -> str:
        said = json.dumps([self._key, app.identity], sort_keys=True, default=str)
        return f"okralong-{part}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _start_shards(held: ExitStack, prepared: Prepared, tag: str) -> tuple[tuple[tuple[str, ...], ...], list[Any]]:
    """Start the shards' actors, to be killed when ``held`` ends: their names, and what is ready when they are."""
    config = prepared.config
    shard_names = _shard_names(prepared, tag)
    gpus = config.search.gpus_per_shard
    _have_gpus(gpus, sum(map(len, shard_names)))
    hosted = {"namespace": NAMESPACE, **REVIVED, **config.placement.shards.options()}
    started = start_index_shards(prepared.archive.location, shard_names, gpus, **hosted)
    shards = [hold(held, shard) for replicas in started for shard in replicas]
    return shard_names, [shard.ready.remote() for shard in shards]


def _shard_names(prepared: Prepared, tag: str) -> tuple[tuple[str, ...], ...]:
    """The names of each shard number's actors: more for those that more of the questions ask."""
    calls = calls_by_shard((scoped.doc_ids for scoped in prepared.questions), prepared.archive.n_shards)
    dealt = replicas_by_shard(calls, prepared.config.search.replicas)
    return tuple(
        tuple(f"okralong-shard-{tag}-{number}-{replica}" for replica in range(replicas))
        for number, replicas in enumerate(dealt)
    )


def _have_gpus(each: float, processes: int) -> None:
    """Raises ConfigError when the cluster cannot give the shards their GPUs: Ray would wait for ever."""
    cluster: Any = ray
    found = cluster.cluster_resources().get("GPU", 0.0)
    if each * processes > found:
        raise ConfigError(
            f"search.gpus_per_shard is {each} and {processes} process(es) hold the shards, but the cluster has "
            f"{found:g} GPUs. Set it to 0 (FAISS then runs on processors), or lower it or search.replicas."
        )


class QueryVectors:
    """Vectors of queries, the last of them kept: one query is searched for in several sizes and ways, and a question
    that many documents are asked is one query. Called with a query, from any event loop."""

    def __init__(self, embed: Callable[[str], Coroutine[Any, Any, Vectors]]) -> None:
        """``embed`` gives the unit vector of a query, shape (dimension,)."""
        self._embed = embed
        self._kept: dict[asyncio.AbstractEventLoop, OrderedDict[str, asyncio.Task[Vectors]]] = {}

    async def __call__(self, query: str) -> Vectors:
        """The unit vector of a query. Raises what ``embed`` does, which then is called again the next time."""
        loop = asyncio.get_running_loop()
        kept = self._kept.setdefault(loop, OrderedDict())  # a task belongs to its loop
        if query not in kept or _in_vain(kept[query]):
            kept[query] = loop.create_task(self._embed(query))
            if len(kept) > VECTORS_KEPT:
                kept.popitem(last=False)
        kept.move_to_end(query)
        return await asyncio.shield(kept[query])  # who gives up waiting leaves it to the others


def _in_vain(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


class RetrievalClient:
    """Retrieval and models as an actor uses them: ports of ``QuestionTools``, each of which outlives a replica that
    dies.
    """

    def __init__(self, names: RetrievalNames) -> None:
        self.archive = Archive.open(names.archive)
        self.parts = frozenset(names.apps)
        if names.rules is not None:
            self.parts |= {"analyzer"}
        if names.compresses:
            self.parts |= {"compressor"}
        self.reads_spans, self.reads_answers, self.checks = names.reads_spans, names.reads_answers, names.checks
        self.cross_encoder = names.cross_encoder
        self._shards = [Replicas([named_actor(name) for name in of_one]) for of_one in names.shards]
        self._rules = None if names.rules is None else load_analyzer(names.rules)
        self._apps = _app_handles(names.apps)
        self._vectors = QueryVectors(self._vector)

    def port(self, part: str, method: Method) -> Method | None:
        """``method`` of this client where the run has the part that it asks (``APPS``, or "compressor"), else None."""
        return method if part in self.parts else None

    def shards(self, granularity: int) -> list[RayShard]:
        """All shards of a granularity, in order of their numbers."""
        return [RayShard(replicas, granularity) for replicas in self._shards]

    async def embed(self, texts: list[str]) -> Vectors:
        """Unit vectors, shape (texts, dimension); only where there is an embedder."""
        return np.stack(await asyncio.gather(*map(self._vectors, texts))).astype(np.float32)

    async def _vector(self, query: str) -> Vectors:
        vector: Vectors = await retry_replica(partial(self._apps["embedder"].remote, query))
        return vector

    async def compress(self, vectors: Vectors) -> Vectors:
        """What SARA's compressor makes of vectors; only where there is one."""
        made: Vectors = await retry_replica(partial(self._apps["embedder"].compress.remote, vectors))
        return made

    def transport(self) -> Any:
        """What carries requests to SARA's generator; None where the run has another."""
        from okralong.actors.models import HandleTransport

        return HandleTransport(self._apps["generator"]) if "generator" in self._apps else None

    async def analyze(self, asked: AnalysisInput) -> Analysis:
        """The analyzer's word; only where there is one."""
        if self._rules is not None:
            return self._rules.analyze([asked])[0]
        analysis: Analysis = await retry_replica(partial(self._apps["analyzer"].remote, asked))
        return analysis

    async def read(self, query: str, passages: list[str]) -> list[Reading]:
        """The cross-encoder's readings of passages for a query; only where there is one."""
        readings: list[Reading] = await retry_replica(partial(self._apps["reranker"].remote, query, passages))
        return readings

    async def score(self, prefix: str, texts: list[str]) -> list[list[float]]:
        """The scorer's log-likelihoods; only where there is one."""
        logs: list[list[float]] = await retry_replica(partial(self._apps["scorer"].remote, prefix, texts))
        return logs

    async def token_ends(self, texts: list[str]) -> list[list[int]]:
        """Where the tokens end that ``score`` measures; only where there is a scorer."""
        ends: list[list[int]] = await retry_replica(partial(self._apps["scorer"].token_ends.remote, texts))
        return ends

    async def keep(self, texts: list[str]) -> list[list[WordKept]]:
        """The token classifier's words with their probabilities; only where there is one."""
        words: list[list[WordKept]] = await retry_replica(partial(self._apps["token_classifier"].remote, texts))
        return words


def _app_handles(apps: Mapping[str, str]) -> dict[str, Any]:
    """The handles of applications on Ray Serve, by part."""
    if not apps:
        return {}
    from ray import serve

    return {part: serve.get_app_handle(name) for part, name in apps.items()}


def hold(held: ExitStack, actor: Any) -> Any:
    """``actor``, killed when ``held`` ends."""
    held.callback(ray.kill, actor)
    return actor


def wait_for(ready: list[Any]) -> None:
    """Wait for actors to be there. Raises the OkraError that kept one from starting, else BrokenError."""
    try:
        ray.get(ready)
    except RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, OkraError):
            raise cause from None
        last = str(error).strip().splitlines()[-1].strip()
        raise BrokenError(f"An actor of the run could not start: {last}") from error
