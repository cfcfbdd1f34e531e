"""The files of a sweep: what Parquet, CSV and Markdown say is the same."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from okralong.lab.sweeps.markdown import kappa, r_of, shown_number
from okralong.lab.sweeps.results import read_scores, write_results
from okralong.lab.sweeps.schemas import PAIRED, SUMMARY
from okralong.pipelines.core.storage import Folder
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


def test_what_was_written_once_stands_below_the_means(tmp_path: Path) -> None:
    rows = cell("graphrag", "town", {"q1": (0.0, "x")})
    counts = {"artifacts": 2, "calls": 1200, "prompt_tokens": 600_400, "completion_tokens": 240_000, "alone_usd": 3.9}
    row = {"cell": "c", "method": "graphrag", "set": "town", "variant": "global", "seed": 7, **counts}
    written = write_results(Folder.of(tmp_path), "t", "", rows, [], 7, [row])
    assert "indexing.csv" in written
    page = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "## Written once for the documents" in page
    assert "| graphrag (global), seed 7 | town | 2 | 1,200 | 600,400 | 240,000 | 3.900 |" in page
    with (tmp_path / "indexing.csv").open(encoding="utf-8", newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["method"], line["prompt_tokens"]) == ("graphrag", "600400")


def test_the_judge_stands_beside_exact_match_and_f1(tmp_path: Path) -> None:
    rows = cell("std_rag", "town", {f"q{n}": (f1, "x") for n, f1 in enumerate((1.0, 1.0, 0.5, 0.0))})
    for row, em, judge, mark in zip(
        rows, (1.0, 1.0, 0.0, 0.0), (1.0, 1.0, 1.0, 0.0), (1.0, 1.0, 0.5, 0.0), strict=True
    ):
        row |= {"em": em, "judge": judge, "judge_correctness": mark}
    write_results(Folder.of(tmp_path), "t", "", rows, [])
    page = (tmp_path / "summary.md").read_text(encoding="utf-8")
    # Three of four agree; by chance 0.75 x 0.5 + 0.25 x 0.5 would: (0.75 - 0.5) / 0.5.
    assert "| town | 4 | 0.750 | 0.500 | 0.750 | 0.500 | 0.870 | 1.000 |" in page
    assert kappa(np.ones(3), np.ones(3)) is None
    assert r_of(np.ones(3), np.arange(3.0)) is None
    write_results(Folder.of(tmp_path), "t", "", cell("std_rag", "town", {"q": (0.0, "x")}), [])
    assert "judge beside" not in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_the_judge_s_seeds_stand_side_by_side_with_their_variance(tmp_path: Path) -> None:
    rows = cell("std_rag", "town", {"q1": (1.0, "x"), "q2": (0.0, "y")}) + cell("flare", "town", {"q1": (1.0, "x")})
    said = ([1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.5])
    for row, verdicts in zip(rows, said, strict=True):
        row |= {"em": 0.0, "judge": sum(verdicts) / 3, "judge_seeds": [("judge", verdicts)]}
    write_results(Folder.of(tmp_path), "t", "", rows, [])
    page = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "| | seed 1 | seed 2 | seed 3 | variance of the mean | of an answer |" in page.replace("|  |", "| |")
    # The means 0.5, 1 and 0: variance 1/4; of the answers 1/3 both.
    assert "| std_rag | 0.500 (1) | 1.000 (1) | 0.000 (2) | 0.250000 | 0.333333 |" in page
    assert "| flare | 0.500 (1) | 0.500 (2) | 0.500 (1) | 0.000000 | 0.000000 |" in page
    write_results(Folder.of(tmp_path), "t", "", cell("std_rag", "town", {"q": (0.0, "x")}), [])
    assert "over its seeds" not in (tmp_path / "summary.md").read_text(encoding="utf-8")


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
