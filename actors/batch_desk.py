"""The desk of a run on a cluster: ``BatchDesk`` behind a Ray handle.

It asks for no CPU; it waits for endpoints most of the time. When its process dies Ray starts it again, and it takes up
what the run's folder and the endpoint's list of batches say.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import ray

from okralong.actors.cluster import named_actor
from okralong.actors.ledger import RayLedger, plain_errors
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.batch import BatchDesk, Past
from okralong.pipelines.llm.batch_api import BatchAnswer, BatchItem
from okralong.pipelines.llm.config import LlmConfig

MAX_CONCURRENCY = 50_000
"""Calls that may wait for their batches at a time. Ours."""


class BatchDeskActor(BatchDesk):
    """The actor's class; its methods are those of ``BatchDesk``."""

    def __init__(self, run: str, run_id: str, config: LlmConfig, ledger: str, until: datetime | None) -> None:
        folder = Folder.of(run)
        super().__init__(config, RayLedger(named_actor(ledger)), run_id, lambda: Past.load(folder), until)


def start_batch_desk(
    run: str, run_id: str, config: LlmConfig, ledger: str, until: datetime | None, **options: Any
) -> Any:
    """The handle of a new desk for a run folder (path or URI that the actor's node sees), for ``RayBatchDesk``.

    ``ledger`` is the name of the run's ledger; for the others see ``BatchDesk``. ``options`` are Ray's actor options.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": MAX_CONCURRENCY}
    remote: Any = ray.remote(BatchDeskActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, run_id, config, ledger, until)


class RayBatchDesk:
    """A ``BatchDeskClient`` that speaks to the actor, and what the driver of a run asks of it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """What a batch answers, when it has."""
        answer: BatchAnswer = await plain_errors(self._actor.ask.remote(item))
        return answer

    async def stop(self, why: str) -> None:
        """The run stops: whoever waits hears so."""
        await plain_errors(self._actor.stop.remote(why))

    async def drain(self) -> None:
        """The run is over: end what nobody waits for, and settle it."""
        await plain_errors(self._actor.drain.remote())

    async def notes(self, start: int) -> list[str]:
        """What there is to tell the user, from the ``start``-th note on."""
        return list(await plain_errors(self._actor.notes.remote(start)))
