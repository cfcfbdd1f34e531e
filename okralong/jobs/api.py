"""The Python API: the commands as functions. They may be called repeatedly, also while an event loop is running.

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
from okralong.pipelines.core.storage_errors import storage_errors

if TYPE_CHECKING:
    from okralong.jobs.estimate import EstimateResult
    from okralong.jobs.run_folder import RunResult
    from okralong.pipelines.indexing.job import IndexResult
    from okralong.pipelines.reporting.diff import RunDiff
    from okralong.pipelines.run.question_sources import Questions


@storage_errors()
def index(
    archive: str | Path,
    sources: Sequence[str | Path],
    *,
    config: str | Path = "index.yaml",
    address: str | None = None,
    rehash: bool = False,
    **overrides: Any,
) -> IndexResult:
    """Index the sources into ``archive``: add, update and remove what changed since the last call.

    Args:
        archive: A folder or URI.
        sources: Folders, files or URIs of documents.
        config: A YAML file, or the name of a shipped config.
        address: The address of a Ray cluster; by default a private one is started.
        rehash: Hash every file, even if its size and modification time are unchanged.
        **overrides: Config values that win over the file: ``index(..., shards=4)``.

    Raises:
        OkraError: The config is invalid, a source is missing, or another process writes the archive.
    """
    from okralong.actors.cluster import connected
    from okralong.actors.index_streams import index_archive
    from okralong.pipelines.indexing.config import IndexConfig
    from okralong.pipelines.indexing.listing import check_local

    settings, places = load_config(IndexConfig, config, overrides), [str(source) for source in sources]
    check_local(places)
    with connected(address):
        return index_archive(str(archive), places, settings, rehash=rehash)


@storage_errors()
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
    """Estimate the cost of ``answer`` with the same arguments.

    Args:
        archive: The archive, or one version of it: ``archive@3``.
        questions: As for ``answer``.
        run: The folder of the planned run; its answers refine the estimate.
        pilot: Number of questions to answer for real, into ``run``.
        seed: Seed of the pilot's draw and of the simulated runs.
        config: A YAML file, or the name of a shipped config.
        address: The address of a Ray cluster; by default a private one is started if needed.
        **overrides: Config values that win over the file.

    Raises:
        OkraError: Archive, config or questions cannot be used. No money is spent then.
    """
    from okralong.jobs.estimate import Asking, estimate_questions
    from okralong.pipelines.run.config import RunConfig

    settings = load_config(RunConfig, config, overrides)
    asking = Asking(pilot, None if run is None else str(run), seed)
    return estimate_questions(str(archive), questions, settings, asking, address=address)


@storage_errors()
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
    """Answer questions into the run folder; the same call resumes a stopped run.

    Args:
        archive: The archive, or one version of it: ``archive@3``.
        questions: The path or URI of a file, a list of strings or dicts, a pandas data frame or an Arrow table.
        run: The run folder, a path or URI.
        config: A YAML file, or the name of a shipped config.
        address: The address of a Ray cluster; by default a private one is started if needed.
        retry: Statuses (failed, unanswerable, invalid_output, over_budget) of questions to ask again.
        changed_since: A version of the archive; only questions whose documents changed since then are asked.
        **overrides: Config values that win over the file: ``answer(..., strategy="std_rag")``.

    Raises:
        OkraError: Archive, config, questions or endpoint cannot be used. No money is spent then.
    """
    from okralong.jobs.answer import Starting, answer_questions
    from okralong.pipelines.run.config import RunConfig

    settings = load_config(RunConfig, config, overrides)
    return answer_questions(
        str(archive),
        questions,
        str(run),
        settings,
        Starting(address, frozenset(retry)),
        changed_since=changed_since,
    )


@storage_errors()
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
    """Ask every question of each document, into the run folder. ``export`` writes the table.

    ``questions`` are the columns: a columns file (YAML), or anything that ``answer`` accepts. ``documents`` (ids or
    patterns) and ``where`` (a filter over the documents' metadata) select the rows and win over those of the
    questions; by default all documents are asked. The other arguments are those of ``answer``.

    Raises:
        OkraError: As in ``answer``, or no document matches.
    """
    from okralong.jobs.answer import Starting, answer_questions
    from okralong.pipelines.run.config import RunConfig
    from okralong.pipelines.run.matrix import MatrixRows

    return answer_questions(
        str(archive),
        questions,
        str(run),
        load_config(RunConfig, config, overrides),
        Starting(address, frozenset(retry)),
        matrix=MatrixRows(tuple(documents), where),
    )


@storage_errors()
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
    """Answer as ``answer`` does, and yield each answer as it arrives: a row of the run's flat table.

    Answers from earlier calls come last. Leaving the loop stops the run; the same call resumes it.

    Raises:
        OkraError: As in ``answer``, or, at the end, because the run had to stop.
    """
    from okralong.actors.cluster import connected
    from okralong.jobs.answer import stream_answers
    from okralong.pipelines.run.config import RunConfig

    settings = load_config(RunConfig, config, overrides)
    with connected(address):
        yield from stream_answers(str(archive), questions, str(run), settings, frozenset(retry))


@storage_errors()
def export(run: str | Path, to: str | Path, *, format: str | None = None) -> list[str]:
    """Write the answers of a run to a file and return the paths written.

    Args:
        run: The run folder.
        to: The file, a path or URI.
        format: xlsx, csv, jsonl, parquet or duckdb; by default the ending of ``to``.

    Raises:
        InputError: The folder is not a run, or the format is unknown.
    """
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.reporting.export import export_run

    return export_run(Folder.of(run), str(to), format)[0]


@storage_errors()
def diff(before: str | Path, after: str | Path, *, to: Sequence[str | Path] = ()) -> RunDiff:
    """Compare two runs of the same questions; no gold answers are needed.

    Args:
        before: The earlier run folder.
        after: The later run folder.
        to: Files to write the differences to.

    Returns:
        The differences; ``table`` has one row per question that differs.

    Raises:
        InputError: A folder is not a run, or a format is unknown.
    """
    from okralong.jobs.diff import diff_folders

    return diff_folders(str(before), str(after), [str(each) for each in to])[0]
