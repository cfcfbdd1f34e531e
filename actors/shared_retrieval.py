"""Shards and models for several runs beside each other: each started once, and ended when the last has used it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from ray import serve

from okralong.actors.analyzer import analyzer_app
from okralong.actors.retrieval import RetrievalNames, compressor_of, embedder_of, generator_of, start_shards, wait_for
from okralong.actors.scorer import scorer_app
from okralong.actors.serving import remove_apps, run_apps
from okralong.pipelines.methods.registry import needs_scorer, reads_vectors
from okralong.pipelines.run.prepare import Prepared


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
        wanted: dict[str, serve.Application] = {}
        for prepared in runs:
            analyzer, embedder, scorer, generator = self._names(prepared)
            if generator is not None:
                wanted[generator] = generator_of(prepared)
            wanted[embedder] = embedder_of(prepared)
            if analyzer is not None:
                wanted[analyzer] = analyzer_app(prepared.config.analyzer, prepared.config.placement.analyzer)
            if scorer is not None and prepared.config.scorer is not None:
                wanted[scorer] = scorer_app(prepared.config.scorer, prepared.config.placement.scorer)
        new = {name: app for name, app in wanted.items() if name not in self._running}
        self._running |= new.keys()  # also what fails to start has to be removed
        if new:
            run_apps(new)

    def keep(self, runs: Iterable[Prepared]) -> None:
        """End what none of these runs needs."""
        needed = {name for prepared in runs for name in self._names(prepared) if name is not None}
        gone = sorted(self._running - needed)
        self._running &= needed
        if gone:
            remove_apps(gone)

    @contextmanager
    def over(self, runs: Sequence[Prepared]) -> Iterator[list[RetrievalNames]]:
        """Shards of the one archive of all ``runs``, for the time of the block; what each run looks with, in order."""
        first = runs[0]
        with ExitStack() as held:
            # Replicas of shards are dealt by what all runs ask of them.
            asked = replace(first, questions=[scoped for prepared in runs for scoped in prepared.questions])
            shard_names, ready = start_shards(held, asked, uuid.uuid4().hex[:8])
            wait_for(ready)
            named = []
            for prepared in runs:
                place, compresses = first.archive.location, compressor_of(prepared) is not None
                named.append(RetrievalNames(place, shard_names, *self._names(prepared), compresses))
            yield named

    def _names(self, prepared: Prepared) -> tuple[str | None, str, str | None, str | None]:
        """The applications of a run: analyzer, embedder, scorer, SARA's generator; None where it needs none."""
        config = prepared.config
        places = config.placement
        analyzer: str | None = None
        if config.analyzer.kind != "llm":
            parts = (config.analyzer.identity(), config.analyzer.model_dump(mode="json"), places.analyzer.options())
            analyzer = self._name("analyzer", parts)
        said = (prepared.manifest["config"]["embedding"], config.query_embedder.model_dump(), places.embedder.options())
        embedder = self._name("embedder", (*said, compressor_of(prepared)))
        scorer: str | None = None
        if needs_scorer(config.strategy, prepared.policy) and config.scorer is not None:
            scorer = self._name("scorer", (config.scorer.model_dump(), places.scorer.options()))
        generator: str | None = None
        if reads_vectors(config.strategy):
            asked = (config.sara.model_dump(), config.llm.model, config.llm.window, places.generator.options())
            generator = self._name("generator", asked)
        return analyzer, embedder, scorer, generator

    def _name(self, part: str, what: object) -> str:
        said = json.dumps([self._key, what], sort_keys=True, default=str)
        return f"okralong-{part}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"
