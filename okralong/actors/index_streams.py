"""The Ray Data streams of the index job: files to ``documents`` and ``chunks``; texts without a vector to ``vectors``.

Rows carry work and outcomes; each task writes its own immutable files under names that depend on the input alone. Ray
Data starts each stream anew, which takes seconds, so there is not one a table.

Ray Data's own checkpoints are not used: they hold the ids of one table's rows, all in memory, for a plan that reads a
table and ends in one write, and they are gone after a good end. Here a file makes several tables, and what was done
must also count the next night: a finished part says so itself (``write_outcomes``), and so does a text with a vector.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, Final

import ray
import ray.data
from ray.data.exceptions import ExecutionTimeoutError
from ray.exceptions import RayError

from okralong.actors.cluster import index_metrics
from okralong.actors.models import Embedder
from okralong.pipelines.core.types import GO_ON, BrokenError, OkraError
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import Source
from okralong.pipelines.indexing.ingest import chunk_again, read_part
from okralong.pipelines.indexing.job import IndexProgress, IndexResult, Report, run_index
from okralong.pipelines.indexing.version_builder import Share, compress_shard, share_texts
from okralong.pipelines.models.weights import ResolvedModel
from okralong.pipelines.sara.artifact import TableCompressor

_MOST_BLOCKS: Final = 2000
"""Ours: each block is a Ray task; beyond this several parts share one."""
LOOK_S: Final = 1.0
"""How often is looked how many texts are embedded, in seconds. Ours."""


def index_archive(
    archive: str,
    sources: Sequence[str],
    config: IndexConfig,
    progress: Report | None = None,
    *,
    rehash: bool = False,
) -> IndexResult:
    """The index job on the connected Ray: see ``run_index``, whose errors it raises."""
    if progress is None:
        return run_index(archive, sources, config, RayStreams, rehash=rehash)
    live = Live(progress)
    return run_index(archive, sources, config, partial(RayStreams, live=live), live.report, rehash=rehash)


class Live:
    """Tells of texts as they are embedded: the job itself hears of a vector file when it is written, which may take
    minutes."""

    def __init__(self, progress: Report) -> None:
        self._progress = progress
        self._state: IndexProgress | None = None
        self._lock = Lock()

    def report(self, state: IndexProgress) -> None:
        """What the job says."""
        with self._lock:
            # A file that is written may be told of before the last batches of others are heard of.
            known = self._state.embedded if self._state else 0
            self._state = replace(state, embedded=max(known, state.embedded))
            self._progress(self._state)

    def embedded(self, texts: int) -> None:
        """So many are, by now."""
        with self._lock:
            if self._state is not None and texts > self._state.embedded:
                self._state = replace(self._state, embedded=texts)
                self._progress(self._state)

    @contextmanager
    def tally(self) -> Iterator[Any]:
        """An actor that embedders tell of their batches, and that is asked every second."""
        remote: Any = ray.remote(_Tally)
        actor = remote.options(num_cpus=0).remote()
        over = Event()

        def ask() -> None:
            while not over.wait(LOOK_S):
                try:
                    self.embedded(ray.get(actor.sum.remote()))
                except RayError:  # it is gone: the job goes on without it
                    return

        asking = Thread(target=ask, name="okralong-tally", daemon=True)
        asking.start()
        try:
            yield actor
        finally:
            over.set()
            asking.join()
            ray.kill(actor)


class _Tally:
    def __init__(self) -> None:
        self._sum = 0

    def add(self, number: int) -> None:
        self._sum += number

    def sum(self) -> int:
        return self._sum


@dataclass(frozen=True, slots=True)
class RayStreams:
    """The streams of the job, each a run of Ray Data or of plain tasks. See ``IndexStreams``."""

    archive: str
    config: IndexConfig
    live: Live | None = None

    def read(
        self, parts: Mapping[str, Sequence[Source]], limits: str, purged: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """A task for each part."""
        archive, config = self.archive, self.config

        def read(row: dict[str, Any]) -> dict[str, Any]:
            sources = [Source(**source) for source in row["sources"]]
            done = read_part(archive, row["part"], sources, config, limits, purged)
            index_metrics().chunked(done["chunks"])
            return done

        items = [{"part": part, "sources": [asdict(s) for s in sources]} for part, sources in parts.items()]
        yield from _rows(_dataset(items).map(read, **config.placement.readers.options()))

    def chunk(self, parts: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Any]]:
        """A task for each part."""
        archive, config = self.archive, self.config

        def chunk(row: dict[str, Any]) -> dict[str, Any]:
            done = chunk_again(archive, row["part"], row["granularities"], config.boundaries)
            index_metrics().chunked(done["chunks"])
            return done

        items = [{"part": part, "granularities": list(sizes)} for part, sizes in parts.items()]
        yield from _rows(_dataset(items).map(chunk, **config.placement.readers.options()))

    def embed(self, shares: Sequence[Share], encoder: str, model: ResolvedModel) -> Iterator[dict[str, Any]]:
        """Tasks read the texts, actors with the encoder make the vector files."""
        archive, config = self.archive, self.config

        def texts(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield from share_texts(archive, Share(**row), config)

        with self.live.tally() if self.live else nullcontext() as tally:
            vectors = (
                _dataset([asdict(share) for share in shares])
                .flat_map(texts, **config.placement.readers.options())
                .map_batches(
                    Embedder,
                    fn_constructor_args=(archive, encoder, model.path, config.embedding, tally),
                    batch_size=1,
                    batch_format="pyarrow",
                    compute=ray.data.ActorPoolStrategy(size=config.embedding.actors),
                    num_cpus=1,
                    num_gpus=_gpus(config.embedding),
                    **config.placement.embedders.options(),
                )
            )
            yield from _rows(vectors)

    def compress(self, shards: Sequence[str], compressor: TableCompressor) -> Iterator[int]:
        """Plain tasks: a shard is one piece of work, and a stream of Ray Data would take longer to start."""
        weights = ray.put(compressor)
        task: Any = ray.remote(compress_shard)
        place = self.config.placement.embedders.options()
        running = [task.options(**place).remote(self.archive, name, weights) for name in shards]
        try:
            while running:
                done, running = ray.wait(running)
                yield from ray.get(done)
        except RayError as error:
            raise _ours(error) or error from error


def _dataset(items: list[dict[str, Any]]) -> ray.data.Dataset:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # ours tell more, and both at once draw over each other
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it prints the traceback of what is raised here anyway
    return ray.data.from_items(items, override_num_blocks=min(len(items), _MOST_BLOCKS))


def _rows(dataset: ray.data.Dataset) -> Iterator[dict[str, Any]]:
    try:
        yield from dataset.iter_rows()
    except ExecutionTimeoutError as error:
        waited = ray.data.DataContext.get_current().execution_no_progress_timeout_s
        raise BrokenError(
            f"The index job made no progress for {waited:.0f} s: its nodes do not respond, or nodes that it waits for "
            f"have not joined the cluster. {GO_ON} To wait longer, set RAY_DATA_EXECUTION_NO_PROGRESS_TIMEOUT_S "
            "(seconds; -1: no limit)."
        ) from error
    except Exception as error:
        raise _ours(error) or error from error


def _ours(error: BaseException | None) -> OkraError | None:
    """The error of ours that Ray wrapped, if there is one."""
    while error is not None and not isinstance(error, OkraError):
        cause = getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) and cause is not error else error.__cause__
    return error


def _gpus(config: EmbeddingConfig) -> float:
    if config.gpus is not None:
        return config.gpus
    cluster: Any = ray
    return 1.0 if cluster.cluster_resources().get("GPU", 0) >= 1 else 0.0
