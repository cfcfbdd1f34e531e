"""The Ray Data streams of the index job: files to ``documents`` and ``chunks``; texts without a vector to ``vectors``.

Rows carry work and outcomes; each task writes its own immutable files, under names that depend only on the input.
Starting a stream takes seconds, so one stream writes several tables.

Ray Data's checkpoints are not used: they cover a plan that reads one table and ends in one write, and here a file
yields several tables. (By default they also keep the ids of all rows in memory and are deleted when the plan succeeds;
options of ``CheckpointConfig`` change both.) Instead, each finished part records its outcome (``write_outcomes``), and
each embedded text has its vector, which the job of the next night finds too.
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
from okralong.pipelines.core.telemetry import Phases, Telemetry, started
from okralong.pipelines.core.types import GO_ON, BrokenError, OkraError
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import Source
from okralong.pipelines.indexing.ingest import chunk_again, read_part
from okralong.pipelines.indexing.job import IndexProgress, IndexResult, Report, run_index
from okralong.pipelines.indexing.version_builder import Share, compress_shard, share_texts
from okralong.pipelines.models.weights import ResolvedModel
from okralong.pipelines.sara.artifact import TableCompressor, by_sentence

_MOST_BLOCKS: Final = 2000
"""Maximum number of blocks, each a Ray task; with more parts, several share a block. # project default"""
LOOK_S: Final = 1.0
"""Polling interval for the number of embedded texts, in seconds. # project default"""


def index_archive(
    archive: str,
    sources: Sequence[str],
    config: IndexConfig,
    progress: Report | None = None,
    *,
    rehash: bool = False,
) -> IndexResult:
    """Run the index job on the connected Ray (see ``run_index``, also for its errors)."""
    with started(config.telemetry, archive, "okralong index") as telemetry:
        report = progress if telemetry is None else _traced(telemetry, progress)
        if report is None:
            return run_index(archive, sources, config, RayStreams, rehash=rehash)
        live = Live(report)
        return run_index(archive, sources, config, partial(RayStreams, live=live), live.report, rehash=rehash)


def _traced(telemetry: Telemetry, progress: Report | None) -> Report:
    """Return a ``Report`` that also sends a span for each stage of the job."""
    phases = Phases(telemetry)
    phases.begin("list")

    def report(state: IndexProgress) -> None:
        phases.begin(state.stage) if state.stage != "done" else phases.end()
        phases.note(**{name: count for name, count in asdict(state).items() if name != "stage" and count})
        if progress is not None:
            progress(state)

    return report


class Live:
    """Reports pages as OCR reads them and texts as they are embedded.

    The job itself hears of them when a part or a vector file is written, minutes later.
    """

    def __init__(self, progress: Report) -> None:
        self._progress = progress
        self._state: IndexProgress | None = None
        self._lock = Lock()

    def report(self, state: IndexProgress) -> None:
        """Report the job's progress."""
        with self._lock:
            # A file may be reported as written before the last batches of other files are counted.
            held = self._state if state.stage == "embed" else None
            known = (held.embedded, held.tokens_embedded) if held else (0, 0)
            told = (state.embedded, state.tokens_embedded)
            embedded, tokens = max(known, told)
            page = self._state.page if self._state and state.stage == "recognize" else ""
            self._state = replace(state, embedded=embedded, tokens_embedded=tokens, page=page)
            self._progress(self._state)

    def tallied(self, texts: int, tokens: int, page: str) -> None:
        """Report how many texts are embedded so far, their tokens, and which page OCR is reading."""
        with self._lock:
            if self._state is not None and (texts > self._state.embedded or page != self._state.page):
                embedded, tokens = max((texts, tokens), (self._state.embedded, self._state.tokens_embedded))
                self._state = replace(self._state, embedded=embedded, tokens_embedded=tokens, page=page)
                self._progress(self._state)

    @contextmanager
    def tally(self) -> Iterator[Any]:
        """Start an actor in which readers and embedders say what they do, and poll it."""
        remote: Any = ray.remote(_Tally)
        actor = remote.options(num_cpus=0).remote()
        over = Event()

        def ask() -> None:
            while not over.wait(LOOK_S):
                try:
                    self.tallied(*ray.get(actor.sums.remote()))
                except RayError:  # the actor died; the job does not need it
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
        self._texts = self._tokens = 0
        self._pages: dict[str, str] = {}

    def reads(self, part: str, page: str) -> None:
        self._pages.pop(part, None)
        if page:
            self._pages[part] = page

    def add(self, texts: int, tokens: int) -> None:
        self._texts += texts
        self._tokens += tokens

    def sums(self) -> tuple[int, int, str]:
        return self._texts, self._tokens, next(reversed(self._pages.values()), "")


@dataclass(frozen=True, slots=True)
class RayStreams:
    """The streams of the job as runs of Ray Data or plain tasks (see ``IndexStreams``)."""

    archive: str
    config: IndexConfig
    live: Live | None = None

    def read(
        self, parts: Mapping[str, Sequence[Source]], limits: str, purged: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Run a task for each part."""
        archive, config = self.archive, self.config

        items = [{"part": part, "sources": [asdict(s) for s in sources]} for part, sources in parts.items()]
        with self.live.tally() if self.live and config.reading_limits().ocr == "on" else nullcontext() as tally:

            def read(row: dict[str, Any]) -> dict[str, Any]:
                def on_page(words: str) -> None:
                    if tally is not None:
                        tally.reads.remote(row["part"], words)

                sources = [Source(**source) for source in row["sources"]]
                done = read_part(archive, row["part"], sources, config, limits, purged, on_page)
                index_metrics().chunked(done["chunks"])
                return done

            yield from _rows(_dataset(items).map(read, **config.placement.readers.options()))

    def chunk(self, parts: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Any]]:
        """Run a task for each part."""
        archive, config = self.archive, self.config

        def chunk(row: dict[str, Any]) -> dict[str, Any]:
            done = chunk_again(archive, row["part"], row["granularities"])
            index_metrics().chunked(done["chunks"])
            return done

        items = [{"part": part, "granularities": list(sizes)} for part, sizes in parts.items()]
        yield from _rows(_dataset(items).map(chunk, **config.placement.readers.options()))

    def embed(self, shares: Sequence[Share], encoder: str, model: ResolvedModel) -> Iterator[dict[str, Any]]:
        """Read the texts in tasks and write the vector files in actors that hold the encoder."""
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

    def compress(
        self, shards: Sequence[tuple[str, str | None]], compressor: TableCompressor, encoder: str, model: ResolvedModel
    ) -> Iterator[int]:
        """Run a plain task for each shard; a stream of Ray Data would take longer to start.

        If sentences are embedded, the shards are dealt to actors that hold the encoder.
        """
        weights, embedding = ray.put(compressor), self.config.embedding
        place = self.config.placement.embedders.options()
        actors: list[Any] = []
        if by_sentence(compressor.shape):
            made: Any = ray.remote(Embedder)
            made = made.options(num_cpus=1, num_gpus=_gpus(embedding), **place)
            count = min(embedding.actors, len(shards))
            actors = [made.remote(self.archive, encoder, model.path, embedding) for _ in range(count)]
            tasks = [actors[number % count].compress for number in range(len(shards))]
        else:
            task: Any = ray.remote(compress_shard)
            tasks = [task.options(**place)] * len(shards)
        running = [
            each.remote(self.archive, name, before, weights) for each, (name, before) in zip(tasks, shards, strict=True)
        ]
        try:
            while running:
                done, running = ray.wait(running)
                yield from ray.get(done)
        except RayError as error:
            raise _ours(error) or error from error
        finally:
            for actor in actors:
                ray.kill(actor)


def _dataset(items: list[dict[str, Any]]) -> ray.data.Dataset:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # the job's own progress display shows more, and the two overwrite each other
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it prints errors that are raised here too
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
    """Return the OkraError that Ray wrapped, or None."""
    while error is not None and not isinstance(error, OkraError):
        cause = getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) and cause is not error else error.__cause__
    return error


def _gpus(config: EmbeddingConfig) -> float:
    if config.gpus is not None:
        return config.gpus
    cluster: Any = ray
    return 1.0 if cluster.cluster_resources().get("GPU", 0) >= 1 else 0.0
