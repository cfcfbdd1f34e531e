"""Reading what a sweep left: its scores, its summary with intervals, its paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow.parquet as pq

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.reporting.rows import Figure

SCORES: Final = "scores"
NEEDED: Final = ("cell", "method", "set", "query_id")
"""Columns without which a table is no table of scores; every other one may be missing or null."""

Records = list[dict[str, Any]]


def is_sweep(folder: Folder) -> bool:
    """Whether the folder holds a table of scores."""
    return folder.exists(SCORES) or folder.exists(f"{SCORES}.parquet")


def read_scores(folder: Folder) -> Records:
    """The rows of the table of scores. Raises InputError when there is none, or it lacks a needed column."""
    rows = read_records(folder, SCORES)
    if not rows:
        raise InputError(f"{folder.path} has no scores yet. Let okralong evaluate finish at least one question.")
    lacks = [name for name in NEEDED if name not in rows[0]]
    if lacks:
        raise InputError(
            f"The scores in {folder.path} have no column {', '.join(lacks)}, so they cannot be told apart. Run "
            "okralong evaluate again with this version."
        )
    return rows


def read_records(folder: Folder, name: str) -> Records:
    """The rows of ``name.parquet``, or of all Parquet files of the folder ``name``; none when it is not there."""
    places = [folder.at(f"{name}.parquet")] if folder.exists(f"{name}.parquet") else []
    if not places and folder.exists(name):
        places = [folder.at(name, file) for file in folder.at(name).names(".parquet")]
    rows: Records = []
    for place in places:
        with place.filesystem.open_input_file(place.path) as file:
            rows += pq.ParquetFile(file).read().to_pylist()
    return rows


def labels_of(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """What each (method, variant) is called, in the order in which they come: the variant is named where the method has
    several."""
    systems = list(dict.fromkeys((row["method"], row.get("variant") or "") for row in rows))
    several = {method for method, count in Counter(method for method, _ in systems).items() if count > 1}
    return {(m, variant): f"{m} ({variant})" if m in several and variant else m for m, variant in systems}


class Summary:
    """The sweep's own means and intervals, which the report repeats rather than draws again."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], labels: Mapping[tuple[str, str], str]) -> None:
        self._figures: dict[tuple[str, str, str, str], list[Figure]] = {}
        for row in rows:
            label = labels.get((row["method"], row.get("variant") or ""))
            if label is None or row["value"] is None:
                continue
            figure = Figure(row["value"], row.get("low"), row.get("high"), row.get("n") or 0)
            key = (label, row.get("set") or "", row.get("type") or "", row["metric"])
            self._figures.setdefault(key, []).append(figure)

    def figure(self, label: str, dataset: str, metric: str, kind: str = "") -> Figure | None:
        """The figure of a method on a set ("": mean over the sets) and type ("": all); None where the summary has none
        or one for each of several seeds."""
        found = self._figures.get((label, dataset, kind, metric), [])
        return found[0] if len(found) == 1 else None
