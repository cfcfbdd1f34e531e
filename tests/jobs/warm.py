"""Answer runs beside shards and models that the test session has started already."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from okralong.actors.retrieval import RetrievalNames, SharedModels
from okralong.jobs.answer import Interrupt, RunResult, Shared, answer_prepared
from okralong.jobs.generator import generator
from okralong.jobs.run_folder import archive_of_run
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared, prepare


class Warm:
    """Shards, embedder and analyzer on the session's Ray, started once for all runs over the same archive."""

    def __init__(self) -> None:
        self._models = SharedModels("okralong-tests")
        self._held = ExitStack()
        self._looking: dict[str, RetrievalNames] = {}

    def looking(self, prepared: Prepared) -> RetrievalNames:
        """What a run needs beside its planners, ledger and limiter, which it starts itself."""
        key = f"{prepared.archive.location} {prepared.archive.version} {prepared.config.analyzer.model_dump_json()}"
        if key not in self._looking:
            self._models.bring([prepared])
            (self._looking[key],) = self._held.enter_context(self._models.over([prepared]))
        return self._looking[key]

    def close(self) -> None:
        """End all of it."""
        self._held.close()
        self._models.keep([])


WARM: Final = Warm()


def answer(
    archive: str | Path, questions: str | Path, run: str | Path, *, retry: Sequence[str] = (), **overrides: Any
) -> RunResult:
    """``okralong.answer`` beside shards and models that run already, as each cell of a sweep does it: their start takes
    longer than a short run. Not for runs with a scorer, a compressor or ``search`` options of their own."""
    config = load_config(RunConfig, "answer.yaml", overrides)
    prepared = prepare(archive_of_run(Folder.of(str(run)), str(archive)), str(questions), config)
    with generator(config.llm, None) as served:
        shared = Shared(served, WARM.looking(prepared), Interrupt())
        return answer_prepared(prepared, str(run), retry=frozenset(retry), shared=shared)
