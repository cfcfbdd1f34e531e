"""Two runs side by side without gold answers: what is another answer, what is the same one, and from where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.core.schemas import ANSWERS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_CHANGED
from okralong.pipelines.reporting.causes import Replayed
from okralong.pipelines.reporting.diff import CHANGES, diff_page, diff_runs, same_answer
from okralong.pipelines.reporting.export import Exported
from okralong.pipelines.run.corrections import Entry, append_entries
from tests.archives.written import write_version
from tests.reporting.made_run import HOSTILE


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        ("$1.2 billion", "1,200 million dollars", ""),
        ("USD 1.2bn", "$1,200,000,000.", ""),
        ("(461) million", "-461,000 thousand", ""),
        ("12 %", "12.0 percent", ""),
        ("March 3, 2023", "2023-03-03", ""),
        ("3rd of March 2023", "It was 3 Mar 2023.", ""),
        ("Revenue was $5 million", "$5 million", "What was the revenue?"),
        ("1.544 million crowns", "1,544 thousand crowns", ""),
        ("Mara Calder", "It is Mara Calder.", ""),
    ],
)
def test_the_same_in_other_words_is_the_same(before: str, after: str, question: str) -> None:
    assert same_answer(before, after, question)
    assert same_answer(after, before, question)


@pytest.mark.parametrize(
    ("before", "after", "question"),
    [
        ("$5 million", "€5 million", ""),
        ("$5 million", "$5 thousand", ""),
        ("12 %", "12", ""),
        ("5", "-5", ""),
        ("1.2 billion", "1,204 million", ""),
        ("2023-03-03", "2023-03-04", ""),
        ("Revenue rose 5 %", "Revenue fell 5 %", "How did revenue change?"),
        ("Revenue rose to 5 %", "Revenue rose by 5 %", "How did revenue change?"),
        ("Apples 5, pears 3", "Apples 3, pears 5", "How many apples and pears?"),
        ("5", "not 5", "Is it 5 or not?"),
        ("5 m", "5 million", ""),
        ("Mara Calder", "Ines Calder", ""),
    ],
)
def test_another_value_or_word_is_another_answer(before: str, after: str, question: str) -> None:
    assert not same_answer(before, after, question)


def write(place: Path, text: str, answers: Mapping[str, tuple[str, str, str]], version: str) -> Folder:
    """A run over a document of ``text``; answers are (status, answer, cited words) by query_id."""
    document = {"doc_id": "report", "text": text, "n_tokens": 9, "tables": [], "sha256": version}
    document["sections"] = [
        {"kind": "page", "name": "1", "start_char": 0},
        {"kind": "page", "name": "2", "start_char": 40},
    ]
    archive = write_version(place / f"archive-{version}", [document], [150], {"model": "m"}, fingerprint=version)
    rows: list[dict[str, Any]] = []
    for query_id, (status, answer, words) in answers.items():
        start = text.index(words) if words else 0
        spans = [{"doc_id": "report", "start_char": start, "end_char": start + len(words)}] if words else []
        row = {"query_id": query_id, "question": f"What of {query_id}?", "status": status, "answer": answer}
        rows.append(row | {"citations": spans, "carried": [("team", "lamps")]})
    run = Folder.of(place / f"run-{version}")
    run.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    begun = {"archive": str(archive), "archive_fingerprint": version, "config": {}}
    run.write_bytes("run.json", json.dumps(begun).encode())
    return run


OLD = "Sales were 1,544 thousand crowns.\n\nThe chair is Ida Moss."
NEW = "In short:\n\nsales were 1,600 thousand crowns.\n\nThe chair is Ida Moss."


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Folder, Folder]:
    before = {
        "changed": ("answered", "1,544 thousand crowns", "1,544 thousand"),
        "corrected": ("answered", "Ida Moss", ""),
        "failed": ("answered", "Ida Moss", ""),
        "gone": ("answered", "Ida Moss", ""),
        "moved": ("answered", "Ida Moss", "The chair is Ida Moss."),
        "newly_answered": ("unanswerable", "", ""),
        "newly_unanswerable": ("answered", "Ida Moss", ""),
        "same": ("answered", "$1.2 billion", ""),
        "still": ("failed", "", ""),
    }
    after = {
        "changed": ("answered", f"1,600 thousand crowns {HOSTILE}", "1,600 thousand"),
        "corrected": ("answered", "Ida Moss", ""),
        "failed": ("failed", "", ""),
        "moved": ("answered", "It is Ida Moss", "The chair is Ida Moss."),
        "new_question": ("answered", "1,600", ""),
        "newly_answered": ("answered", "Ida Moss", ""),
        "newly_unanswerable": ("unanswerable", "", ""),
        "same": ("answered", "1,200 million dollars", ""),
        "still": ("failed", "", ""),
    }
    later = write(tmp_path, NEW, after, "2")
    append_entries(later, [Entry("corrected", "corrected", datetime.now(UTC), "Ada", "Ida Moss", "Ida R. Moss")])
    return write(tmp_path, OLD, before, "1"), later


def test_each_change_is_named(runs: tuple[Folder, Folder]) -> None:
    diff = diff_runs(*map(Exported.of, runs))
    found = {row["query_id"]: row for row in diff.table.to_pylist()}
    assert {query_id: row["change"] for query_id, row in found.items()} == {name: name for name in CHANGES}
    assert (diff.counts["same"], diff.matters) == (2, True)
    assert found["changed"]["what"] == "answer, document, quote"
    assert (found["changed"]["before_source"], found["changed"]["before_quote"]) == ("report, page 1", "1,544 thousand")
    assert found["moved"]["what"] == "document, page"
    assert [name for name, row in found.items() if not row["matters"]] == ["corrected", "moved", "gone"]
    assert (found["corrected"]["what"], found["corrected"]["cause"]) == ("correction", "correction")
    assert found["corrected"]["because"].startswith("corrected to Ida R. Moss by Ada, ")
    assert found["gone"]["team"] == "lamps"
    nothing = diff_runs(Exported.of(runs[0]), Exported.of(runs[0]))
    assert (nothing.table.num_rows, nothing.counts, nothing.matters) == (0, {"same": 9}, False)
    first = diff_runs(None, Exported.of(runs[0]))
    assert set(first.table["change"].to_pylist()) == {"new_question"}


def test_without_journals_the_hashes_of_cited_documents_tell_a_cause(runs: tuple[Folder, Folder]) -> None:
    diff = diff_runs(*map(Exported.of, runs), (Replayed(runs[0]), Replayed(runs[1])))
    found = {row["query_id"]: row["cause"] for row in diff.table.to_pylist()}
    assert {found[name] for name in ("changed", "moved")} == {"document"}
    assert {found[name] for name in ("gone", "new_question")} == {"question"}
    assert (found["failed"], found["newly_answered"]) == ("failure", "unknown")
    assert diff.causes == {"correction": 1, "document": 2, "failure": 1, "question": 2, "unknown": 2}


def test_the_models_of_both_sides_are_named_even_if_no_answer_changed(runs: tuple[Folder, Folder]) -> None:
    def by(run: Exported, name: str) -> Exported:
        at = run.answers.column_names.index("replied_by")
        return replace(run, answers=run.answers.set_column(at, "replied_by", pa.array([name] * run.answers.num_rows)))

    run = Exported.of(runs[0])
    diff = diff_runs(by(run, "small-1"), by(run, "<b>small-2"))
    assert diff.lines() == ["9 unchanged", "answered before by small-1 (9), after by <b>small-2 (9)"]
    assert "answered before by small-1 (9), after by &lt;b&gt;small-2 (9)" in diff_page(diff, "", []).decode()
    assert diff_runs(by(run, "small-1"), by(run, "small-1")).replied == "answered by small-1 (9)"


def test_the_page_lets_nothing_act(runs: tuple[Folder, Folder]) -> None:
    page = diff_page(diff_runs(*map(Exported.of, runs)), "one to two", ["a fact"]).decode()
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "<del>1,544</del>" in page
    assert "<ins>1,600</ins>" in page


def test_the_command_writes_and_ends_with_its_code(runs: tuple[Folder, Folder], tmp_path: Path) -> None:
    before, after = (run.path for run in runs)
    outs = [str(tmp_path / f"diff.{suffix}") for suffix in ("html", "xlsx", "csv", "parquet")]
    ended = CliRunner().invoke(app, ["diff", before, after, *(word for out in outs for word in ("--to", out))])
    assert ended.exit_code == EXIT_CHANGED, ended.output
    assert "1 changed" in ended.output
    assert "2 unchanged" in ended.output
    assert all(Path(out).stat().st_size for out in outs)
    assert pq.read_table(outs[3]).num_rows == len(CHANGES)
    assert CliRunner().invoke(app, ["diff", before, before]).exit_code == 0
