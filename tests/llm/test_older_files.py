"""A table that gained columns: its older files are read, merged and replayed; what is newer is refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from okralong.lab.sweeps.schemas import SCORES
from okralong.pipelines.core.schemas import ADDED_COLUMNS, ANSWERS, DOCUMENTS, LEDGER, ORIGINS, columns_in
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.llm.journal import FragmentedTable, JournalRow, read_run_table
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.records import ledger_row
from okralong.pipelines.llm.snapshots import Snapshot
from tests.llm.tools import a_call, paid, rows

NEW = list(ADDED_COLUMNS["ledger"])
OLD_LEDGER = pa.schema(
    [field for field in LEDGER if field.name not in NEW],
    metadata={"okralong.table": "ledger", "okralong.schema_version": "1"},
)


def write_old(run: Folder, number: int = 1) -> None:
    """A ledger file as it was before there were endpoints."""
    row = {name: value for name, value in ledger_row(paid(a_call(number), 0.05)).items() if name not in NEW}
    run.at("ledger").write_table(f"part-{number:09d}.parquet", pa.Table.from_pylist([row], schema=OLD_LEDGER))


def test_each_version_has_its_own_columns() -> None:
    assert columns_in(LEDGER, "1") == OLD_LEDGER.names
    assert columns_in(LEDGER, "2") == LEDGER.names[:-8]
    assert columns_in(LEDGER, "3") == LEDGER.names[:-5]
    assert columns_in(LEDGER, "4") == LEDGER.names[:-1]
    assert columns_in(LEDGER, "5") == LEDGER.names
    assert columns_in(LEDGER, "6") is columns_in(LEDGER, "?") is None
    assert columns_in(DOCUMENTS, "1") == DOCUMENTS.names[:-4]
    assert columns_in(DOCUMENTS, "2") == DOCUMENTS.names[:-3]
    assert columns_in(DOCUMENTS, "3") == DOCUMENTS.names[:-2]
    assert columns_in(DOCUMENTS, "4") == DOCUMENTS.names[:-2]
    assert columns_in(DOCUMENTS, "5") == DOCUMENTS.names[:-1]
    assert columns_in(DOCUMENTS, "6") == DOCUMENTS.names
    assert columns_in(DOCUMENTS, "7") is None


def test_answers_of_before_name_nobody_who_replied(tmp_path: Path) -> None:
    for name, schema, version in (("answers", ANSWERS, 5), ("origins", ORIGINS, 1), ("scores", SCORES, 2)):
        added = {each for each, first in ADDED_COLUMNS[name].items() if first > version}
        assert added
        said = {"okralong.table": name, "okralong.schema_version": str(version)}
        old = pa.schema([field for field in schema if field.name not in added], metadata=said)
        Folder.of(tmp_path).at(name).write_table(
            "part-000000001.parquet", pa.Table.from_pylist([{"query_id": "q"}], old)
        )
        (row,) = Folder.of(tmp_path).at(name).read_tables(schema).to_pylist()
        assert (row["query_id"], *(row[each] for each in added)) == ("q", *(None for _ in added))


async def test_an_older_ledger_goes_on_and_its_replies_have_no_known_origin(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    write_old(run)
    assert rows(tmp_path, "ledger")[0]["endpoint"] is None
    assert read_run_table(run, "ledger", ["snapshot", "status"]).to_pylist() == [{"snapshot": None, "status": "ok"}]
    for _ in range(2):  # read as it is, then as a part of a merged file
        ledger = RunLedger(run, 1.0)
        totals = await ledger.totals()
        assert totals.calls == 1
        assert totals.settled_usd == pytest.approx(0.05)
        assert totals.snapshots == {Snapshot("", "", "", ""): 1}
        await ledger.record([JournalRow("q", "plan", "plan", "{}")])
        await ledger.close()
    ledger = RunLedger(run, 1.0)
    await ledger.intend(a_call(2))
    await ledger.settle(paid(a_call(2), 0.03))
    await ledger.close()
    assert [(row["call_id"], row["endpoint"]) for row in rows(tmp_path, "ledger")] == [("call-1", None), ("call-2", "")]
    assert run.at("ledger").names(".parquet") == ["part-000000001-000000004.parquet"]


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    newer = LEDGER.with_metadata({"okralong.table": "ledger", "okralong.schema_version": "6"})
    Folder.of(tmp_path).at("ledger").write_table("part-000000001.parquet", newer.empty_table())
    with pytest.raises(ArchiveError, match="version 6, this okralong reads version 5"):
        FragmentedTable(Folder.of(tmp_path), "ledger")
