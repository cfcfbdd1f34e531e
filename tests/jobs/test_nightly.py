"""A nightly from its first night on: what is asked, what is paid, what is said to be another, and what goes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from okralong.jobs.nightly import run_nightly
from okralong.pipelines.archive.versions import version_numbers
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_CHANGED, EXIT_OK, EXIT_OVER_BUDGET, InputError
from okralong.pipelines.reporting.export import flat_answers
from okralong.pipelines.run.nightly import Rehash, nights, rehash_due
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import PAPER, call, endpoint

pytestmark = pytest.mark.slow

DOCUMENTS = {
    "alder": "Alder Orchards grows apples. It was founded in 1951 by Ines Calder.",
    "lantern": "Lantern Works makes signal lamps. Tobias Venn was its first customer.",
    "skerry": "Skerry Ferries crosses the sound with two boats, the Petrel and the Gannet.",
}
TELL = """#!/bin/sh
echo "$1" >> told
"""


def ask(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def scoped(doc_id: str, query_id: str = "") -> dict[str, Any]:
    return {"query_id": query_id or doc_id, "question": f"What of {doc_id}?", "doc_ids": [doc_id], "desk": "a"}


@pytest.fixture
def folder(tmp_path: Path, reader: FakeOpenAI, ray_cluster: None) -> Path:
    """Three documents with a question each and one over the whole archive; the config of the nightly beside them."""
    (tmp_path / "reports").mkdir()
    for doc_id, text in DOCUMENTS.items():
        (tmp_path / "reports" / f"{doc_id}.txt").write_text(text, encoding="utf-8")
    ask(tmp_path, list(map(scoped, DOCUMENTS)))
    answer: dict[str, Any] = {"policy": PAPER, "confidence": "none", "carry": ["desk"]}
    for dotted, value in endpoint(reader).items():
        below, _, key = dotted.partition(".")
        answer.setdefault(below, {})[key] = value
    config = {"folder": "nightly", "archive": "archive", "sources": ["reports"], "questions": "questions.jsonl"}
    config |= {"index": {"embedding": {"of": "none"}, "shards": 1}, "answer": answer}
    config |= {"on_change": ["./tell.sh"], "export": ["current.xlsx"], "keep": {"versions": 1, "nights": 2}}
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "tell.sh").write_text(TELL)
    (tmp_path / "tell.sh").chmod(0o755)
    return tmp_path


def change(folder: Path, doc_id: str, text: str) -> None:
    (folder / "reports" / f"{doc_id}.txt").write_text(text, encoding="utf-8")


def differences(folder: Path) -> dict[str, str]:
    last = nights(Folder.of(folder / "nightly"))[-1]
    found = pq.read_table(folder / "nightly" / "nights" / last.name / "differences.parquet")
    return dict(zip(found["query_id"].to_pylist(), found["change"].to_pylist(), strict=True))


def told(folder: Path) -> int:
    return len((folder / "told").read_text().splitlines()) if (folder / "told").exists() else 0


def test_only_what_changed_is_asked_and_named(
    folder: Path, reader: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, current = folder / "nightly.yaml", Folder.of(folder / "nightly" / "current")
    known = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump(known | {"budget_usd": 0.000001}))
    code, said = call(monkeypatch, capsys, "nightly", config)
    assert (code, len(reader.received)) == (EXIT_OVER_BUDGET, 0)
    assert "Nothing was spent. Raise budget_usd" in said
    config.write_text(yaml.safe_dump(known))
    assert run_nightly(config) == EXIT_CHANGED, "the night begins anew"
    assert differences(folder) == dict.fromkeys(DOCUMENTS, "new_question")
    assert (len(reader.received), told(folder)) == (3, 1)

    change(folder, "lantern", "Lamps no more: Lantern Works makes bells since 2024.")
    ask(folder, [*map(scoped, DOCUMENTS), scoped("skerry", "other")])
    assert run_nightly(config) == EXIT_CHANGED
    assert differences(folder) == {"lantern": "changed", "other": "new_question"}
    first, second = nights(Folder.of(folder / "nightly"))
    assert dict(second.why) == {"on changed documents": 1, "new questions": 1}
    assert second.notes["causes"] == {"document": 1, "question": 1}
    asked = len(reader.received)
    assert asked <= 5, "what a night before was told is not asked again"
    rows = {row["query_id"]: row for row in flat_answers(current).to_pylist()}
    assert {name: row["night"] for name, row in rows.items()} == {
        "alder": first.name,
        "lantern": second.name,
        "other": second.name,
        "skerry": first.name,
    }
    assert rows["lantern"]["answer"].startswith("Lamps no more")
    assert rows["alder"]["quote"] == rows["alder"]["answer"] == "Alder Orchards grows apples. It was"
    assert {row["desk"] for row in rows.values()} == {"a"}
    assert version_numbers(Folder.of(folder / "archive")) == [2]
    assert (folder / "current.xlsx").is_file()

    before = {path: path.stat().st_mtime_ns for path in (folder / "nightly" / "current").rglob("*.parquet")}
    assert run_nightly(config) == EXIT_OK
    assert (differences(folder), len(reader.received), told(folder)) == ({}, asked, 2)
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "nightly" / "current").rglob("*.parquet")}
    assert [night.name for night in nights(Folder.of(folder / "nightly"))] == [second.name, f"{first.name}.3"]
    assert len(table(current, "answers")) == 4
    assert {row["query_id"] for row in table(current, "ledger")} == {*DOCUMENTS, "other"}
    code, said = call(monkeypatch, capsys, "show", folder / "nightly" / "current", "lantern")
    assert (code, "Lamps no more" in said) == (0, True)
    assert len({row["seq"] for row in table(current, "journal")}) == len(table(current, "journal"))


def test_a_file_with_its_old_size_and_time_is_found_within_a_week(folder: Path, reader: FakeOpenAI) -> None:
    config, report = folder / "nightly.yaml", folder / "reports" / "alder.txt"
    os.utime(report, (1_740_000_000, 1_740_000_000))
    assert run_nightly(config) == EXIT_CHANGED
    change(folder, "alder", DOCUMENTS["alder"].replace("apples", "cherry"))
    os.utime(report, (1_740_000_000, 1_740_000_000))
    assert run_nightly(config) == EXIT_OK, "every file was hashed this very day"
    assert differences(folder) == {}
    for night in nights(Folder.of(folder / "nightly")):
        assert night.notes["rehashed"] == night.day.isoformat()
        week_ago = replace(night, notes={**night.notes, "rehashed": (night.day - timedelta(days=7)).isoformat()})
        week_ago.write(Folder.of(folder / "nightly" / "nights" / night.name))
    assert run_nightly(config) == EXIT_CHANGED
    assert differences(folder) == {"alder": "changed"}


@pytest.mark.parametrize(
    ("rehash", "last", "is_due"),
    [
        ("weekly", "", True),
        ("weekly", "2026-11-23", False),
        ("weekly", "2026-11-22", True),
        ("weekly", "2026-11-30", True),
        ("always", "2026-11-29", True),
        ("never", "", False),
        ("never", "2026-01-01", False),
    ],
)
def test_when_every_file_is_hashed(rehash: Rehash, last: str, is_due: bool) -> None:
    assert rehash_due(rehash, last, date(2026, 11, 29)) is is_due


def test_a_night_without_its_questions_file_ends_before_it_indexes(tmp_path: Path) -> None:
    config = tmp_path / "nightly.yaml"
    config.write_text("folder: nightly\narchive: archive\nsources: [reports]\nquestions: questions.xlsx\n")
    with pytest.raises(InputError, match=r"questions\.xlsx does not exist"):
        run_nightly(config)
    assert not (tmp_path / "archive").exists()
