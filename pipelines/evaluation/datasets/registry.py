"""Which adapter reads which format, and the one door through which a data set comes in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import InputError
from okralong.pipelines.evaluation.datasets import (
    finqa,
    hotpotqa,
    hotpotqa_pooled,
    longbench,
    musique,
    own,
    qasper,
    qmsum,
    reports,
    tatqa,
    twowiki,
    uda_bench,
    uda_csv,
)
from okralong.pipelines.evaluation.datasets.catalog import DataSource
from okralong.pipelines.evaluation.datasets.values import DataSet

FORMATS: Final[dict[str, Callable[[Path, str], DataSet]]] = {
    "hotpotqa": hotpotqa.read,
    "2wikimultihopqa": twowiki.read,
    "musique": musique.read,
    "hotpotqa_pooled": hotpotqa_pooled.read,
    "qmsum": qmsum.read,
    "longbench": longbench.read,
    "tatqa": tatqa.read,
    "finqa": finqa.read,
    "uda_csv": uda_csv.read,
    "uda_bench": uda_bench.read,
    "qasper": qasper.read,
    "qasper_annotations": qasper.read_annotations,
    "reports": reports.read,
    "own": own.read,
}
"""By the ``format`` of a source: a path and the name of a part in, a data set out."""


def read_dataset(source: DataSource, data: Path) -> DataSet:
    """The data set of a source below the folder ``data``, or from its hub when the file is not there.

    It bears the source's ``name``. Raises InputError when the format is unknown, when neither the file nor the hub can
    be had, and as the adapter does for a malformed file.
    """
    if source.format not in FORMATS:
        raise InputError(
            f"The source {source.name!r} ({source.part}) has the format {source.format!r}, which no adapter reads. "
            f"There are: {', '.join(FORMATS)}."
        )
    return replace(FORMATS[source.format](_path(source, data), source.part), name=source.name)


def _path(source: DataSource, data: Path) -> Path:
    path = data / source.path
    if path.exists():
        return path
    if source.hub is None:
        raise InputError(
            f"{path} does not exist, and the source {source.name!r} ({source.part}) names no hub to fetch it from. "
            "Give the folder that holds the data sets, or put the file there."
        )
    return _fetched(source, source.hub, path)


def _fetched(source: DataSource, hub: str, path: Path) -> Path:
    owner, _, rest = hub.partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise InputError(f"The source {source.name!r} has the hub {hub!r}; it must be owner/repository/file.")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(hf_hub_download(f"{owner}/{repository}", file, repo_type="dataset"))
    except (OSError, HfHubHTTPError, ValueError) as error:
        raise InputError(
            f"{path} does not exist, and {hub} cannot be fetched from the hub ({type(error).__name__}: {error}). Put "
            "the file in the data folder, or run again where the hub can be reached."
        ) from error
