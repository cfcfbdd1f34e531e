"""The files of a sweep: what Parquet, CSV and Markdown say is the same."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import PAIRED, SUMMARY
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.lab.sweeps.results import read_scores, shown_number, write_results
from tests.evaluation.sweeps.invented_scores import cell


def test_all_tables_are_written_and_read_again(tmp_path: Path) -> None:
    rows = cell("std_rag", "town all", {"q1": (0.0, "x"), "q2": (0.5, "y")})
    rows += cell("okralong", "town all", {"q1": (1.0, "x"), "q2": (0.5, "y")}, variant="wide")
    folder = Folder.of(tmp_path)
    written = write_results(folder, "The town", "A small town.\n", rows, [("std_rag", "default")])
    assert all((tmp_path / name).is_file() for name in written)
    assert read_scores(folder) == rows
    summary, paired = pq.read_table(tmp_path / "summary.parquet"), pq.read_table(tmp_path / "paired.parquet")
    assert (summary.schema.names, paired.schema.names) == (SUMMARY.names, PAIRED.names)
    with (tmp_path / "summary.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["value"]) for line in lines] == summary["value"].to_pylist()
    page = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert page.startswith("# The town\n\nA small town.\n\nMeans over questions")
    assert "## town all" in page
    assert "| okralong (wide), seed 7 | 2 | 0.750 [0.500, 1.000] |" in page
    differences = (tmp_path / "paired.md").read_text(encoding="utf-8")
    assert "## Less std_rag" in differences
    assert "| okralong (wide) | 2 | +0.500 [0.000, 1.000] (1.000) |" in differences


def test_figures_are_short() -> None:
    assert [shown_number(value) for value in (None, 0.0, 0.25, 12.5, 12345.6, 0.00004)] == [
        "-",
        "0.000",
        "0.250",
        "12.500",
        "12,346",
        "4e-05",
    ]


def test_a_set_s_name_is_no_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    write_results(Folder.of(tmp_path), "t", "", cell("std_rag", "=cmd()", {"q1": (0.0, "x")}), [])
    with (tmp_path / "summary.csv").open(encoding="utf-8", newline="") as file:
        assert {line["set"] for line in csv.DictReader(file)} <= {"'=cmd()", ""}
    assert "=cmd()" in pq.read_table(tmp_path / "summary.parquet")["set"].to_pylist()
