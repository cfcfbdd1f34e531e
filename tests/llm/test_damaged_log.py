"""Acknowledged rows are never dropped in silence: what the disk damaged is named, and the rest can be kept."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, EndpointError
from okralong.pipelines.llm.journal import RunLog, read_run_table, repair
from okralong.pipelines.llm.ledger import RunLedger
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.test_run_log import failure, failures
from tests.llm.tools import ask, client_over, config_for, rows

COMMITS = 12
SEGMENT = Path("journal/log-000000001.frames")


def killed(folder: Path) -> bytes:
    """The log of a run that was killed after some commits, with the zeros that were allocated behind them."""
    log = RunLog.open(Folder.of(folder))
    for number in range(COMMITS):
        log.append("failures", failure(f"q{number}", f"reason {number} " * 5))
        log.commit()
    data = (folder / SEGMENT).read_bytes()
    log.abandon()
    (folder / SEGMENT).write_bytes(data)
    return data


def starts(data: bytes) -> list[int]:
    """Where the frames begin; the first holds the schemas."""
    found, at = [], 16
    while length := int.from_bytes(data[at : at + 4], "little"):
        found.append(at)
        at += 8 + length
    return [*found, at]


def test_a_bit_anywhere_is_named_or_changes_nothing(tmp_path: Path) -> None:
    data, draw = killed(tmp_path), random.Random(5)
    whole = failures(Folder.of(tmp_path))
    assert len(whole) == COMMITS
    frames = starts(data)
    heads = [(at + byte, 7 - 3 * (byte % 2)) for at in frames[:-1] for byte in range(8)]
    anywhere = [(draw.randrange(frames[-1]), draw.randrange(8)) for _ in range(100)]
    for at, bit in [*heads, *anywhere]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        (tmp_path / SEGMENT).write_bytes(flipped)
        with pytest.raises(ArchiveError, match=r"log-000000001.frames is damaged at byte .* okralong repair") as caught:
            failures(Folder.of(tmp_path))
        if at >= 16:
            assert f"byte {max(each for each in frames if each <= at)}:" in str(caught.value)


@pytest.mark.parametrize("size", [1, 8, 64, 400, 2000])
def test_zeros_anywhere_are_named(tmp_path: Path, size: int) -> None:
    data, draw = killed(tmp_path), random.Random(size)
    frames = starts(data)
    for at in [*frames[:-1], *(draw.randrange(16, frames[-1]) for _ in range(40))]:
        zeroed = data[:at] + bytes(size) + data[at + size :]
        if zeroed != data:
            (tmp_path / SEGMENT).write_bytes(zeroed)
            with pytest.raises(ArchiveError, match="is damaged at byte"):
                failures(Folder.of(tmp_path))


def test_a_log_that_lost_its_end_is_named(tmp_path: Path) -> None:
    data = killed(tmp_path)
    for cut in range(20, starts(data)[-1], 101):
        (tmp_path / SEGMENT).write_bytes(data[:cut])
        with pytest.raises(ArchiveError, match="is damaged at byte"):
            failures(Folder.of(tmp_path))


def test_a_last_commit_that_was_cut_anywhere_is_ignored(tmp_path: Path) -> None:
    data = killed(tmp_path)
    folder, whole = Folder.of(tmp_path), failures(Folder.of(tmp_path))
    *_, last, end = starts(data)
    before = data[:8] + last.to_bytes(8, "little") + data[16:]  # it was never acknowledged
    for cut in [*range(last, last + 24), *range(last, end, 97)]:
        for rest in (b"", bytes(len(data) - cut)):
            (tmp_path / SEGMENT).write_bytes(before[:cut] + rest)
            assert failures(folder) == whole[:-1]


def test_segments_of_earlier_releases_are_read(tmp_path: Path) -> None:
    """They have no number of acknowledged bytes: what is followed by a readable commit is damage there."""
    data = killed(tmp_path)
    folder, whole = Folder.of(tmp_path), failures(Folder.of(tmp_path))
    last = starts(data)[-2]
    earlier = b"OKRALOG1" + data[16:]
    (tmp_path / SEGMENT).write_bytes(earlier)
    assert failures(folder) == whole
    (tmp_path / SEGMENT).write_bytes(earlier[: last + 30 - 8])
    assert failures(folder) == whole[:-1]
    at = starts(data)[4] - 8
    (tmp_path / SEGMENT).write_bytes(earlier[: at + 3] + b"\x80" + earlier[at + 4 :])
    with pytest.raises(ArchiveError, match=f"is damaged at byte {at}:"):
        failures(folder)


@pytest.mark.parametrize("frame", [0, 1, 5, COMMITS])
@pytest.mark.parametrize("byte", [0, 3, 5, 40])
def test_repair_keeps_all_other_commits(tmp_path: Path, frame: int, byte: int) -> None:
    data = killed(tmp_path)
    folder, whole = Folder.of(tmp_path), failures(Folder.of(tmp_path))
    flipped = bytearray(data)
    flipped[starts(data)[frame] + byte] ^= 128
    (tmp_path / SEGMENT).write_bytes(flipped)
    (lost,) = repair(folder)
    assert "segment 1: " in lost
    assert failures(folder) == [each for each in whole if each[0] != f"q{frame - 1}"]
    assert (tmp_path / f"{SEGMENT}.damaged").read_bytes() == flipped
    assert repair(folder) == []
    RunLog.open(folder).close()
    assert len(failures(folder)) == COMMITS - (frame > 0)


async def test_a_damaged_run_sends_nothing_until_it_is_repaired_and_then_pays_for_what_is_lost(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with FakeOpenAI() as server:
        config = config_for(server)
        async with client_over(run, config) as (client, ledger):
            for number in range(10):
                await client.complete(f"q{number}", "generate", "generate", ask(f"What is {number}?"))
            data = (run / SEGMENT).read_bytes()
            ledger.abandon()
        (run / SEGMENT).parent.mkdir(exist_ok=True)
        frame = starts(data)[6]  # the first holds the schemas, then each call has an intent and an outcome
        (run / SEGMENT).write_bytes(data[: frame + 3] + bytes([data[frame + 3] ^ 128]) + data[frame + 4 :])
        for file in run.rglob("*.parquet"):
            file.unlink()
        with pytest.raises(ArchiveError, match="is damaged"):
            RunLedger(Folder.of(run), None)
        assert len(server.received) == 10
        assert len(repair(Folder.of(run))) == 1
        async with client_over(run, config) as (client, _):
            for number in range(10):
                await client.complete(f"q{number}", "generate", "generate", ask(f"What is {number}?"))
        assert len(server.received) == 11
        found = rows(run, "ledger")
        settled = sum(row["cost_usd"] for row in found if row["status"] == "ok")
        held = sum(row["cost_usd"] for row in found if row["status"] == "unknown")
        assert settled <= server.bill_usd <= settled + held


@pytest.mark.parametrize(
    "rest", [b"", bytes(4096), b"OKRA", b"OKRALOG2" + bytes(4096)], ids=["empty", "zeros", "cut", "header"]
)
def test_a_log_of_which_nothing_is_left_is_named(tmp_path: Path, rest: bytes) -> None:
    killed(tmp_path)
    (tmp_path / SEGMENT).write_bytes(rest)
    with pytest.raises(ArchiveError, match="is damaged at byte"):
        RunLog.open(Folder.of(tmp_path)).close()


def test_a_killed_writer_leaves_no_segment_without_schemas(tmp_path: Path) -> None:
    """The next writer removes what it had begun."""
    RunLog.open(Folder.of(tmp_path)).close()
    begun = tmp_path / f"{SEGMENT}.partial"
    begun.write_bytes(bytes(4096))
    killed(tmp_path)
    assert not begun.exists()
    assert len(failures(Folder.of(tmp_path))) == COMMITS


async def test_costs_of_a_damaged_ledger_are_restored_from_the_journal(tmp_path: Path) -> None:
    """Else a repaired run could spend its budget twice, and would forget a usage that a person must decide on."""
    with FakeOpenAI() as server:
        config = config_for(server)
        async with client_over(tmp_path, config) as (client, ledger):
            await client.complete("q0", "generate", "generate", ask("What?"))
            await ledger.finish({"query_id": "q0", "question": "What?", "status": "answered", "answer": "Paris"})
            server.hidden = (0, 72_000)
            with pytest.raises(EndpointError, match=r"llm\.trust_usage"):
                await client.complete("q1", "generate", "generate", ask("What?"))
            spent = (await ledger.totals()).settled_usd
    (part,) = (tmp_path / "ledger").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    (lost,) = repair(Folder.of(tmp_path))
    assert "ledger" in lost
    for _ in range(2):
        ledger = RunLedger(Folder.of(tmp_path), 1.0)
        assert await ledger.answered() == {"q0": "answered"}
        assert await ledger.begun() == {"q1"}
        assert (await ledger.totals()).settled_usd == pytest.approx(spent)
        with pytest.raises(EndpointError, match=r"llm\.trust_usage"):
            await ledger.reserve(("new", 1), "q2", 0.001)
        await ledger.close()


@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_a_damaged_part_is_named_and_put_aside(tmp_path: Path, how: str) -> None:
    folder = Folder.of(tmp_path)
    log = RunLog.open(folder)
    log.append("failures", failure("a"))
    log.close()
    (part,) = folder.at("failures").names(".parquet")
    file = tmp_path / "failures" / part
    data = file.read_bytes()
    file.write_bytes(data[:-20] if how == "cut" else data[:40] + bytes([data[40] ^ 128]) + data[41:])
    with pytest.raises(ArchiveError, match=rf"{part} is damaged: .* okralong repair RUN"):
        read_run_table(folder, "failures")
    (lost,) = repair(folder)
    assert part in lost
    assert failures(folder) == []
    assert (tmp_path / "failures" / f"{part}.damaged").is_file()
