"""The result tables below a sweep's folder: scores as Parquet, summaries and differences also as CSV and Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from okralong.pipelines.core.schemas import PAIRED, SCORES, SUMMARY
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.evaluation.sweeps.pages import paired_page, summary_page
from okralong.pipelines.evaluation.sweeps.paired import paired_rows
from okralong.pipelines.evaluation.sweeps.summary import summary_rows
from okralong.pipelines.evaluation.sweeps.systems import System, cells_of
from okralong.pipelines.reporting.tables import safe_cell

SCORES_FOLDER: Final = "scores"
PART: Final = "part-000000001.parquet"


def write_results(
    folder: Folder, title: str, rows: Sequence[Mapping[str, Any]], against: Sequence[System], seed: int = 7
) -> list[str]:
    """Write all tables of the rows of ``scores``; the names of the files, as they lie in ``folder``."""
    folder.at(SCORES_FOLDER).write_table(PART, pa.Table.from_pylist(list(rows), schema=SCORES))
    cells = cells_of(rows)
    summaries = summary_rows(cells, seed)
    differences = paired_rows(cells, against, seed)
    written = [f"{SCORES_FOLDER}/{PART}"]
    for name, schema, found, page in (
        ("summary", SUMMARY, summaries, summary_page(title, summaries)),
        ("paired", PAIRED, differences, paired_page(title, differences)),
    ):
        table = pa.Table.from_pylist(found, schema=schema)
        folder.write_table(f"{name}.parquet", table)
        folder.write_bytes(f"{name}.csv", _csv(table))
        folder.write_bytes(f"{name}.md", page.encode())
        written += [f"{name}.parquet", f"{name}.csv", f"{name}.md"]
    return written


def read_scores(folder: Folder) -> list[dict[str, Any]]:
    """The rows of ``scores`` of a sweep's folder; none when it has no such table yet."""
    rows: list[dict[str, Any]] = folder.at(SCORES_FOLDER).read_tables(SCORES).to_pylist()
    return rows


def _csv(table: pa.Table) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([safe_cell(cell) for cell in row.values()] for row in table.to_pylist())
    return out.getvalue().encode()
