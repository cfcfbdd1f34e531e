"""A run and the version of its archive: it goes on with the one that it began with, and says when that is gone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from okralong.jobs.run_folder import archive_of_run, table
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.schemas import RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, InputError
from okralong.pipelines.indexing.maintenance import vacuum
from okralong.pipelines.run.rows import BEGUN, purge_run
from tests.archives.nights import made_up, night

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def begun(run: Path, archive: Archive) -> Folder:
    folder = Folder.of(run)
    said = {"archive": archive.location, "archive_fingerprint": archive.manifest.get("fingerprint")}
    folder.write_bytes(BEGUN, json.dumps(said).encode())
    return folder


def test_a_run_goes_on_with_its_version_while_that_is_there(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    first = night(place, {"a": made_up("a")})
    run = begun(tmp_path / "run", first)
    night(place, {"a": made_up("a2")})
    assert archive_of_run(run, str(place)) == f"{place}@1"
    assert archive_of_run(run, f"{place}@2") == f"{place}@2"
    assert archive_of_run(run, str(tmp_path / "another")) == str(tmp_path / "another")
    assert archive_of_run(Folder.of(tmp_path / "new"), str(place)) == str(place)
    vacuum(Folder.of(place), 1)
    with pytest.raises(ArchiveError, match=r"was begun with version 1 of .*vacuumed.*--replies-from"):
        archive_of_run(run, str(place))


def test_purge_takes_steps_answers_and_quotations_of_a_run(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    with pytest.raises(InputError, match="is not a run folder"):
        purge_run(run, "a/b")
    run.write_bytes(BEGUN, b"{}")
    bodies = {"q1": '["a/b"]', "q2": '["a/bc"]', "q3": "<passage name=a/b>", "q4": '["c"]', "q5": '["d"]'}
    answers = {query_id: ["a/b"] if query_id == "q5" else [] for query_id in bodies}
    rows = {
        "journal": [
            {"seq": at, "query_id": query_id, "path": "p", "sample": 0, "kind": "reply", "body": body}
            for at, (query_id, body) in enumerate(bodies.items())
        ],
        "answers": [
            {"query_id": query_id, "question": "?", "doc_ids": ids, "status": "answered", "answer": f"of {query_id}"}
            | {"citations": [{"doc_id": "a/b", "start_char": 0, "end_char": 1}] if query_id == "q4" else []}
            | {"context": [], "finished_at": NOW}
            for query_id, ids in answers.items()
        ],
        "failures": [{"id": "q1", "stage": "s", "error_type": "E", "message": "raw words", "at": NOW}],
    }
    import pyarrow as pa

    for name, each in rows.items():
        part = "part-000000001.parquet"
        run.at(name).write_table(part, pa.Table.from_pylist(each, schema=RUN_TABLES[name]))
    assert purge_run(run, "a/b") == ["q1", "q3", "q4", "q5"]
    assert [row["query_id"] for row in table(run, "journal")] == ["q2"]
    found = {row["query_id"]: row for row in table(run, "answers")}
    assert (found["q2"]["status"], found["q2"]["answer"]) == ("answered", "of q2")
    for query_id in ("q1", "q3", "q4", "q5"):
        row = found[query_id]
        assert (row["status"], row["answer"], row["citations"]) == ("failed", "", [])
        assert "'a/b' was purged" in row["error"]
    assert "raw words" not in table(run, "failures")[0]["message"]
    assert purge_run(run, "zzz") == []
