"""Answer runs beside models that the test session has loaded or started already: in this process, as a warm session
carries them, or on the session's Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import ray

from okralong.actors import host
from okralong.actors.generator import generator, reading_vectors
from okralong.actors.host import DoesNotFit, RayHost, WarmHost, why_ray
from okralong.actors.local_models import LoadedModels
from okralong.actors.retrieval import RetrievalNames, SharedModels
from okralong.jobs.answer import Starting, answer_prepared
from okralong.jobs.run_folder import RunResult, archive_of_run
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared, prepare, since_version


class Warm:
    """Shards, embedder and analyzer on the session's Ray, started once for all runs over the same archive."""

    def __init__(self) -> None:
        self._models = SharedModels("okralong-tests")
        self._held = ExitStack()
        self._looking: dict[str, RetrievalNames] = {}

    def looking(self, prepared: Prepared) -> RetrievalNames:
        """What a run needs beside its planners, ledger and limiter, which it starts itself."""
        config, strategy = prepared.config, prepared.strategy
        models = [config.analyzer.model_dump_json(), config.reranker.model_dump_json()]
        if strategy.needs.scorer and config.scorer is not None:
            models.append(config.scorer.model_dump_json())
        if strategy.needs.token_classifier:
            models.append(config.token_classifier.model_dump_json())
        if strategy.needs.compressor:
            models += [config.sara.model_dump_json(), config.llm.model]
        key = " ".join([prepared.archive.location, str(prepared.archive.version), *models])
        if key not in self._looking:
            self._models.bring([prepared])
            (self._looking[key],) = self._held.enter_context(self._models.over([prepared]))
        return self._looking[key]

    def close(self) -> None:
        """End all of it."""
        self._held.close()
        self._models.keep([])


WARM: Final = Warm()
OWN: Final = LoadedModels()
"""Of runs in this process."""


@contextmanager
def without_ray() -> Iterator[None]:
    """For the time of the block runs begin as where this process is not connected to Ray."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "on_ray", lambda: False)
        yield


def answer(
    archive: str | Path,
    questions: str | Path,
    run: str | Path,
    *,
    config: str | Path = "answer.yaml",
    retry: Sequence[str] = (),
    changed_since: int | None = None,
    **overrides: Any,
) -> RunResult:
    """``okralong.answer`` beside models that are there already, whose start takes longer than a short run: in this
    process where the run fits it, as for a user, else on the session's Ray as each cell of a sweep. A test of Ray says
    ``own_process=0``. Not for runs with ``search`` options of their own."""
    settings = load_config(RunConfig, config, overrides)
    prepared = prepare(archive_of_run(Folder.of(str(run)), str(archive)), str(questions), settings)
    if changed_since is not None:
        prepared, _ = since_version(prepared, changed_since)
    with generator(prepared.llm, None, reading_vectors(prepared)) as served:
        with without_ray(), suppress(DoesNotFit):
            if not why_ray(prepared, len(prepared.questions)):
                OWN.bring(prepared)
            warm = WarmHost(OWN, prepared.llm, served)
            return answer_prepared(prepared, str(run), Starting(retry=frozenset(retry)), warm)
        assert ray.is_initialized(), "the run needs Ray: let the test use ray_cluster"
        shared = RayHost(retrieval=WARM.looking(prepared), served=served)
        return answer_prepared(prepared, str(run), Starting(retry=frozenset(retry)), shared)
