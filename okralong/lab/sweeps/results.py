"""Write the tables and pages of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from okralong.lab.sweeps.markdown import agreement_page, indexing_page, paired_page, seeds_page, summary_page
from okralong.lab.sweeps.schemas import PAIRED, SCORES, SUMMARY
from okralong.lab.sweeps.statistics import ResultRow, System, cells_of, paired_rows, summary_rows
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.reporting.tables import csv_file

SCORES_FOLDER: Final = "scores"
PART: Final = "part-000000001.parquet"


def write_results(
    folder: Folder,
    title: str,
    words: str,
    rows: Sequence[ResultRow],
    against: Sequence[System],
    seed: int = 7,
    indexing: Sequence[ResultRow] = (),
    times: bool = False,
) -> list[str]:
    """Write ``scores`` as Parquet, and summary and differences as Parquet, CSV and Markdown.

    ``indexing`` (rows of ``indexing_row``) is written as CSV and as a section below the summary. ``words`` is a text to
    print above the means; ``times`` adds columns about time to the page. Returns the names of the files in ``folder``.
    """
    folder.at(SCORES_FOLDER).write_table(PART, pa.Table.from_pylist(list(rows), schema=SCORES))
    cells = cells_of(rows)
    summaries = summary_rows(cells, seed)
    differences = paired_rows(cells, against, seed)
    written = [f"{SCORES_FOLDER}/{PART}"]
    for name, schema, found, page in (
        (
            "summary",
            SUMMARY,
            summaries,
            summary_page(title, words, summaries, times=times)
            + agreement_page(rows)
            + seeds_page(rows)
            + indexing_page(indexing),
        ),
        ("paired", PAIRED, differences, paired_page(title, differences)),
    ):
        table = pa.Table.from_pylist(found, schema=schema)
        folder.write_table(f"{name}.parquet", table)
        folder.write_bytes(f"{name}.csv", csv_file(table.to_pydict()))
        folder.write_bytes(f"{name}.md", page.encode())
        written += [f"{name}.parquet", f"{name}.csv", f"{name}.md"]
    if indexing:
        columns = {name: [row[name] for row in indexing] for name in indexing[0]}
        folder.write_bytes("indexing.csv", csv_file(columns))
        written.append("indexing.csv")
    return written


def read_scores(folder: Folder) -> list[dict[str, Any]]:
    """Return the rows of ``scores`` in a sweep's folder. Raises InputError if there are none yet."""
    rows: list[dict[str, Any]] = folder.at(SCORES_FOLDER).read_tables(SCORES).to_pylist()
    if not rows:
        raise InputError(f"{folder.path} has no scores yet. Let okralong evaluate finish at least one question.")
    return rows
