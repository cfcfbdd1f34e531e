"""Shards and models of a run on Ray: the index shards' actors, and the applications on Ray Serve.

They are started and stopped together, for one run (``started_retrieval``) or for several (``SharedModels``). Processes
find them by name (``ServeModels``), so that one that Ray restarts finds them again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import ray
from ray.exceptions import RayError

from okralong.actors.cluster import NAMESPACE, remove_apps, run_apps
from okralong.actors.shards import start_index_shards
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig
from okralong.pipelines.answering.confidence_model import NONE
from okralong.pipelines.answering.models import PARTS, RANKS_ONLY, CrossEncoder, Part
from okralong.pipelines.archive.search import calls_by_shard, replicas_by_shard
from okralong.pipelines.core.types import BrokenError, ConfigError, OkraError
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED
from okralong.pipelines.run.prepare import Prepared

if TYPE_CHECKING:
    from ray import serve

REVIVED: Final[dict[str, Any]] = {"max_restarts": 3, "max_task_retries": 3}
"""Ray's options for actors that are restarted; with the journal, a planner repeats nothing that was paid for."""

APPS: Final = ("analyzer", "embedder", "reranker", "scorer", "token_classifier", "generator")
"""The applications on Ray Serve; a run has those that its strategy and its archive need."""


@dataclass(frozen=True)
class RetrievalNames:
    """Names by which processes find a run's shards and models on Ray.

    Attributes:
        archive: A place that every node can read.
        shards: For each shard number the names of one or more actors.
        apps: Names of the applications on Ray Serve, by part.
        parts: The models that the run has (see ``Models``).
        cross_encoder: What its cross-encoder can do.
        rules: An analyzer by rules, which each process loads itself.
        analyzes_english: Whether its analyzer knows English alone.
        generates_english: Whether its generator does.
    """

    archive: str
    shards: tuple[tuple[str, ...], ...]
    apps: Mapping[str, str]
    parts: frozenset[Part]
    cross_encoder: CrossEncoder = RANKS_ONLY
    rules: AnalyzerConfig | None = None
    analyzes_english: bool = False
    generates_english: bool = False

    @classmethod
    def of(cls, prepared: Prepared, shards: tuple[tuple[str, ...], ...], apps: Mapping[str, str]) -> RetrievalNames:
        """Return the names for a run."""
        analyzer = prepared.config.analyzer
        parts: set[Part] = {part for part in PARTS if part in apps}
        if analyzer.kind == "rules":
            parts.add("analyzer")
        if prepared.strategy.needs.compressor:
            parts.add("compressor")
        return cls(
            prepared.archive.location,
            shards,
            apps,
            frozenset(parts),
            cross_encoder_of(prepared, parts),
            rules=analyzer if analyzer.kind == "rules" else None,
            analyzes_english=analyzer.knows_english_alone,
            generates_english=generates_english(prepared),
        )


def generates_english(prepared: Prepared) -> bool:
    """Return whether the generator knows English alone: the embedded model as shipped."""
    llm = prepared.config.llm
    return (llm.base_url, llm.model, llm.reader) == (EMBEDDED, EMBEDDED, SHIPPED)


def cross_encoder_of(prepared: Prepared, parts: Collection[Part]) -> CrossEncoder:
    """Return what the cross-encoder of a run with these models can do in addition to ranking."""
    reranker = prepared.config.reranker
    if "reranker" not in parts or not reranker.reads_spans:
        return RANKS_ONLY
    may_answer = reranker.may_answer(prepared.config.llm.base_url == EMBEDDED)
    return CrossEncoder(reranker.name, True, may_answer, reads_english=reranker.model == SHIPPED)


@dataclass(frozen=True)
class _App:
    """An application that a run needs; equal applications have the same ``identity``."""

    identity: object
    make: Callable[[], serve.Application]


def _apps(prepared: Prepared, asking: bool = True) -> dict[str, _App]:
    """Return the applications of a run by part; SARA's generator only if the run is ``asking``."""
    # Imported here: Ray Serve takes a second and 60 MB, and a run in one process does not need it.
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
        # Keyword rules take microseconds: starting a process for them would take longer than all their work.
        if (part, config.analyzer.kind) != ("analyzer", "rules")
    }


def needed_models(prepared: Prepared, asking: bool = True) -> dict[str, object]:
    """Return the models that a run needs, by part; equal models have the same identity.

    The run's generator is not among them, except SARA's. An estimate, which is not ``asking``, needs less.
    """
    config, strategy = prepared.config, prepared.strategy
    needed: dict[str, object] = {}
    if prepared.archive.has_vectors:
        compressor = config.sara.folder() if strategy.needs.compressor else None
        needed["embedder"] = [prepared.manifest["config"]["embedding"], config.query_embedder.model_dump(), compressor]
    if config.analyzer.kind != "llm":
        needed["analyzer"] = [config.analyzer.identity(), config.analyzer.model_dump(mode="json")]
    # An estimate compares the method with the strategy that the config names.
    ranks = strategy.needs.reranker if asking else prepared.policy.needs_reranker
    if ranks or (asking and config.confidence != NONE and config.reranker.reads_spans):
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
    """Start the shards and models of a run, SARA's generator only if it is ``asking``; stop them with the block.

    The applications are named after ``key``, so that the same command, run again after a kill, replaces those that
    were left behind. ``tag`` makes the shards' names unique. Raises OkraError if a part cannot start.
    """
    mark = hashlib.sha256(key.encode()).hexdigest()[:8]
    names = {part: f"okralong-{part}-{mark}" for part in APPS}
    apps = _apps(prepared, asking)
    with ExitStack() as held:
        shards, ready = _start_shards(held, prepared, tag)
        if apps:  # there are none without vectors and with the generator as analyzer; Ray Serve need not start then
            held.callback(remove_apps, list(names.values()))
            run_apps({names[part]: app.make() for part, app in apps.items()})
        wait_for(ready)
        yield RetrievalNames.of(prepared, shards, {part: names[part] for part in apps})


class SharedModels:
    """The models of many runs on Ray Serve; runs with equal models share the application.

    Applications are named after ``key`` and the model, so that the same command, run again after a kill, replaces those
    that were left behind.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._running: set[str] = set()

    def bring(self, runs: Iterable[Prepared]) -> None:
        """Start the applications that the runs need and that do not run yet. Raises ConfigError if one cannot start."""
        wanted = {self._name(part, app): app for prepared in runs for part, app in _apps(prepared).items()}
        new = {name: app.make() for name, app in wanted.items() if name not in self._running}
        self._running |= new.keys()  # an application that fails to start must be removed too
        if new:
            run_apps(new)

    def keep(self, runs: Iterable[Prepared]) -> None:
        """Stop the applications that none of these runs needs."""
        needed = {self._name(part, app) for prepared in runs for part, app in _apps(prepared).items()}
        gone = sorted(self._running - needed)
        self._running &= needed
        if gone:
            remove_apps(gone)

    @contextmanager
    def over(self, runs: Sequence[Prepared]) -> Iterator[list[RetrievalNames]]:
        """Start shards of the archive that all ``runs`` use while the block runs; yield the names of each run."""
        with ExitStack() as held:
            # The number of a shard's replicas follows from the questions of all runs.
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
    """Start the shards' actors, to be killed when ``held`` ends; return their names, and references to wait for."""
    config = prepared.config
    shard_names = _shard_names(prepared, tag)
    gpus = config.search.gpus_per_shard
    _have_gpus(gpus, sum(map(len, shard_names)))
    hosted = {"namespace": NAMESPACE, **REVIVED, **config.placement.shards.options()}
    started = start_index_shards(prepared.archive.location, shard_names, gpus, **hosted)
    shards = [hold(held, shard) for replicas in started for shard in replicas]
    return shard_names, [shard.ready.remote() for shard in shards]


def _shard_names(prepared: Prepared, tag: str) -> tuple[tuple[str, ...], ...]:
    """Return the names of each shard number's actors; shards that more questions search have more of them."""
    calls = calls_by_shard((scoped.doc_ids for scoped in prepared.questions), prepared.archive.n_shards)
    dealt = replicas_by_shard(calls, prepared.config.search.replicas)
    return tuple(
        tuple(f"okralong-shard-{tag}-{number}-{replica}" for replica in range(replicas))
        for number, replicas in enumerate(dealt)
    )


def _have_gpus(each: float, processes: int) -> None:
    """Raise ConfigError if the cluster lacks GPUs for the shards; Ray would wait forever."""
    cluster: Any = ray
    found = cluster.cluster_resources().get("GPU", 0.0)
    if each * processes > found:
        raise ConfigError(
            f"search.gpus_per_shard is {each} and {processes} process(es) hold the shards, but the cluster has "
            f"{found:g} GPUs. Set it to 0 (FAISS then runs on CPUs), or lower it or search.replicas."
        )


def hold(held: ExitStack, actor: Any) -> Any:
    """Return ``actor``, which is killed when ``held`` ends."""
    held.callback(ray.kill, actor)
    return actor


def wait_for(ready: list[Any]) -> None:
    """Wait until actors are ready. Raises the OkraError that kept one from starting, or BrokenError."""
    try:
        ray.get(ready)
    except RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, OkraError):
            raise cause from None
        last = str(error).strip().splitlines()[-1].strip()
        raise BrokenError(f"An actor of the run could not start: {last}") from error
