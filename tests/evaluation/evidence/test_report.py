"""The report says what the figures say, the same on every run, and nothing of the machine that it was made on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from okralong.lab.evidence.figures import over_sets, set_figures
from okralong.lab.evidence.report import markdown, public_name, write_report
from tests.evaluation.evidence.invented_rows import SWEEP, four_questions, sweep


def write(folder: Path, text: str = SWEEP) -> list[Path]:
    chosen = sweep(text)
    rows = [*four_questions(), *four_questions("two all")]
    names = ["one all", "two all"]
    overall = over_sets(chosen, rows, names)
    figures = [set_figures(chosen, name, rows) for name in names]
    return write_report(folder, "sweeps/invented.yaml", chosen, figures, overall)


def test_three_files_that_are_the_same_on_every_run(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a"), write(tmp_path / "b")
    assert [path.name for path in first] == ["invented.md", "invented.json", "invented.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_the_page_holds_the_figures(tmp_path: Path) -> None:
    page = write(tmp_path)[0].read_text(encoding="utf-8")
    assert page.startswith("# Invented\n\n`okralong evidence sweeps/invented.yaml ")
    assert "Nothing was run." in page
    assert "- `base`: 4 chunks of 150 tokens by exact (curve: 2, 4)\n" in page
    assert "- `mine`: policy/paper.yaml; analyzer rules, queries by gold (scales: 0.5, 1)\n" in page
    assert "## Against base, mean over 2 sets" in page
    mean = page.split("## Mean over 2 sets, each counted alike\n\n| method | tokens | recall |\n", 1)[1]
    assert mean.startswith("| --- | --- | --- |\n| base | 400 | 0.500 |\n| mine | ")
    assert page.count("4 questions on 6 source documents; recall is evidence recall.") == 2
    lines = page.split("\n")
    assert any(
        line.startswith("| base | 400 | 0.500 [") and line.endswith("| - | - | 1.0 | 500 | 4 linear |")
        for line in lines
    )
    compared = [line for line in lines if line.startswith("| mine | 0.400")]
    assert len(compared) == 3
    assert all(line.endswith("(0.40) |") for line in compared)


def test_the_page_says_what_was_drawn_and_how_methods_differ(tmp_path: Path) -> None:
    text = SWEEP.replace("{name: two, part: all}", "{name: two, part: all, limit: 9}")
    text = text.replace("{policy: policy/paper.yaml,", "{policy: policy/paper.yaml, query_prefix: 'query: ',")
    page = write(tmp_path, text)[0].read_text()
    assert "## one all\n\n4 questions on 6 source documents" in page
    assert "## two all\n\n4 questions (at most 9, drawn with seed 7) on 6 source documents" in page
    assert "- `base`: 4 chunks of 150 tokens by exact (curve: 2, 4)\n" in page
    assert "queries by gold (scales: 0.5, 1), queries embedded after 'query: '\n" in page


def test_the_json_holds_them_too(tmp_path: Path) -> None:
    found = json.loads(write(tmp_path)[1].read_text(encoding="utf-8"))
    assert found["sweep"]["methods"]["mine"]["scales"] == [0.5, 1.0]
    assert [each["name"] for each in found["sets"]] == ["one all", "two all"]
    assert found["sets"][0]["methods"]["mine"]["curve"] == {"tokens": [160.0, 320.0], "recall": [0.5, 0.75]}
    assert found["overall"]["base"]["mine"]["token_ratio"]["value"] == 0.4


def test_no_path_of_the_machine_stands_anywhere(tmp_path: Path) -> None:
    text = SWEEP.replace("policy/paper.yaml", f"{tmp_path}/own.yaml") + (
        f"catalog: {tmp_path}/sets.yaml\nsplit: {tmp_path}/manifest.parquet\n"
    )
    for file in write(tmp_path / "out", text):
        assert str(tmp_path) not in file.read_text(encoding="utf-8")
    assert "own.yaml; analyzer" in (tmp_path / "out" / "invented.md").read_text(encoding="utf-8")
    assert public_name("policy/paper.yaml") == "policy/paper.yaml"
    assert public_name("~/own/policy.yaml") == "policy.yaml"


def test_without_pictured_methods_there_is_no_picture(tmp_path: Path) -> None:
    assert len(write(tmp_path, SWEEP.replace("pictured: [base, mine]", ""))) == 2


def test_a_name_with_a_bar_stays_in_its_cell() -> None:
    chosen = sweep(SWEEP.replace("mine", '"m|ne"'))
    rows = [row if row.method == "base" else replace(row, method="m|ne") for row in four_questions()]
    page = markdown("x", chosen, [set_figures(chosen, "one all", rows)], {})
    assert "\n| m\\|ne | 320 |" in page
