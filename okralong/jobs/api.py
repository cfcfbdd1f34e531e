"""The Python API: what the commands do, as functions, any number of times in one process, also beside a running loop.

import okralong

okralong.index("archive", sources=["reports/"])
okralong.estimate("archive", questions="questions.jsonl")
okralong.answer("archive", questions="questions.jsonl", run="runs/first")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from okralong.pipelines.core.config import load_config

if TYPE_CHECKING:
    from okralong.jobs.estimate import EstimateResult
    from okralong.jobs.run_folder import RunResult
    from okralong.pipelines.indexing.job import IndexResult
    from okralong.pipelines.reporting.diff import RunDiff
    from okralong.pipelines.run.questions import Questions


def index(
    archive: str | Path,
    sources: Sequence[str | Path],
    *,
    config: str | Path = "index.yaml",
    address: str | None = None,
    rehash: bool = False,
    **overrides: Any,
) -> IndexResult:
    """Bring ``archive`` to what the sources hold now. ``overrides`` win over the config: ``index(..., shards=4)``.

    With ``rehash`` files of known size and time of change are hashed as well.

    Raises OkraError for a bad config, missing sources, or an archive that another process writes.
    """
    from okralong.actors.cluster import connected
    from okralong.actors.index_streams import index_archive
    from okralong.pipelines.indexing.config import IndexConfig
    from okralong.pipelines.indexing.listing import check_local

    settings, places = load_config(IndexConfig, config, overrides), [str(source) for source in sources]
    check_local(places)
    with connected(address):
        return index_archive(str(archive), places, settings, rehash=rehash)


def estimate(
    archive: str | Path,
    questions: Questions,
    *,
    run: str | Path | None = None,
    pilot: int = 0,
    seed: int = 7,
    config: str | Path = "answer.yaml",
    address: str | None = None,
    **overrides: Any,
) -> EstimateResult:
    """What answering the questions (as in ``answer``) will cost, with ranges. ``pilot`` of them are answered into
    ``run``.

    Raises OkraError before anything is spent when archive, config or questions cannot be used.
    """
    from okralong.jobs.estimate import Asking, estimate_questions
    from okralong.pipelines.run.config import RunConfig

    settings = load_config(RunConfig, config, overrides)
    asking = Asking(pilot, None if run is None else str(run), seed)
    return estimate_questions(str(archive), questions, settings, asking, address=address)


def answer(
    archive: str | Path,
    questions: Questions,
    run: str | Path,
    *,
    config: str | Path = "answer.yaml",
    address: str | None = None,
    retry: Sequence[str] = (),
    changed_since: int | None = None,
    **overrides: Any,
) -> RunResult:
    """Answer questions into the run folder. ``overrides``: ``answer(..., strategy="std_rag")``.

    ``questions`` are a file's path or URI, a list of strings or dicts, a pandas data frame or an Arrow table.

    ``retry`` names the ends (failed, unanswerable, invalid_output, over_budget) of questions that are asked again; with
    ``changed_since``, a version of the archive, only questions whose documents changed since then are asked.

    Raises OkraError before anything is spent when archive, config, questions or endpoint cannot be used.
    """
    from okralong.jobs.answer import answer_questions
    from okralong.pipelines.run.config import RunConfig

    settings = load_config(RunConfig, config, overrides)
    return answer_questions(
        str(archive),
        questions,
        str(run),
        settings,
        address=address,
        retry=frozenset(retry),
        changed_since=changed_since,
    )


def matrix(
    archive: str | Path,
    questions: Questions,
    run: str | Path,
    *,
    documents: Sequence[str] = (),
    where: str = "",
    config: str | Path = "answer.yaml",
    address: str | None = None,
    retry: Sequence[str] = (),
    **overrides: Any,
) -> RunResult:
    """Ask every question of each document by itself into the run folder: columns are questions, rows are documents.

    ``questions`` are a columns file (YAML) or whatever ``answer`` takes; ``documents`` are ids or patterns and
    ``where`` is a filter over the documents' metadata, which win over those of the questions; without any of them all
    documents are asked. ``export`` writes the table. All else is as in ``answer``.

    Raises OkraError before anything is spent when archive, config, questions or endpoint cannot be used, or no document
    is asked.
    """
    from okralong.jobs.answer import answer_questions
    from okralong.pipelines.run.config import RunConfig
    from okralong.pipelines.run.matrix import MatrixRows

    return answer_questions(
        str(archive),
        questions,
        str(run),
        load_config(RunConfig, config, overrides),
        address=address,
        retry=frozenset(retry),
        matrix=MatrixRows(tuple(documents), where),
    )


def stream(
    archive: str | Path,
    questions: Questions,
    run: str | Path,
    *,
    config: str | Path = "answer.yaml",
    address: str | None = None,
    retry: Sequence[str] = (),
    **overrides: Any,
) -> Iterator[dict[str, Any]]:
    """Answer as ``answer`` does, and yield each answer when it is there: a row of the run's flat table.

    Those that the run folder had before come last. Leaving the loop stops the run; the same call goes on. Raises as
    ``answer`` does, and OkraError at the end where the run had to stop.
    """
    from okralong.actors.cluster import connected
    from okralong.jobs.answer import stream_answers
    from okralong.pipelines.run.config import RunConfig

    settings = load_config(RunConfig, config, overrides)
    with connected(address):
        yield from stream_answers(str(archive), questions, str(run), settings, frozenset(retry))


def export(run: str | Path, to: str | Path, *, format: str | None = None) -> list[str]:
    """Write the answers of a run to a file: xlsx, csv, jsonl, parquet or duckdb, by its ending or ``format``.

    Returns the paths written. Raises InputError for a folder that is no run, or a format that is not known.
    """
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.reporting.export import export_run

    return export_run(Folder.of(run), str(to), format)[0]


def diff(before: str | Path, after: str | Path, *, to: Sequence[str | Path] = ()) -> RunDiff:
    """What changed between two runs of the same questions, without gold answers; written to the files ``to`` as well.

    ``table`` of the result has a row for each question that differs. Raises InputError for a folder that is no run, or
    a format that is not known.
    """
    from okralong.jobs.diff import diff_folders

    return diff_folders(str(before), str(after), [str(each) for each in to])[0]
