"""A night that is killed goes on with the same command, and comes to what it would have come to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from okralong.jobs.nightly import run_nightly
from okralong.pipelines.archive.versions import version_numbers
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_CHANGED
from okralong.pipelines.reporting.export import flat_answers
from okralong.pipelines.run.nightly import PHASES, nights
from okralong.pipelines.run.rows import table
from tests.conftest import CHECKOUT
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import PAPER, endpoint

pytestmark = pytest.mark.slow

DOCUMENTS = {f"works{number}": f"Works {number} sold {number + 2} lamps in 2023." for number in range(4)}


ASKING = ("canaries", "answer")


class Killed:
    """A nightly of four documents and questions in a folder, done by processes of its own."""

    def __init__(self, folder: Path, reader: FakeOpenAI) -> None:
        self.folder, self.reader, self.said = folder, reader, folder / "said.txt"
        (folder / "reports").mkdir()
        for doc_id, text in DOCUMENTS.items():
            self.change(doc_id, text)
        rows = [{"query_id": each, "question": f"How many lamps of {each}?", "doc_ids": [each]} for each in DOCUMENTS]
        (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        answer: dict[str, Any] = {"policy": PAPER, "confidence": "none", "concurrency": 1}
        for dotted, value in endpoint(reader).items():
            below, _, key = dotted.partition(".")
            answer.setdefault(below, {})[key] = value
        config = {"folder": "nightly", "archive": "archive", "sources": ["reports"], "questions": "questions.jsonl"}
        config |= {"index": {"embedding": {"of": "none"}, "shards": 1}, "answer": answer, "keep": {"versions": 1}}
        (folder / "nightly.yaml").write_text(yaml.safe_dump(config))

    def add_call(self) -> None:
        """Call a command that takes a moment when an answer changed, so that the phase can be met."""
        config = yaml.safe_load((self.folder / "nightly.yaml").read_text())
        config["on_change"] = ["sh", "-c", "sleep 1"]
        (self.folder / "nightly.yaml").write_text(yaml.safe_dump(config))

    def add_canary(self) -> None:
        """Ask a canary first, of a document that does not change."""
        row = {"query_id": "canary", "question": "How many lamps?", "doc_ids": ["works0"]}
        row["answers"] = [" ".join(DOCUMENTS["works0"].split()[:6])]
        (self.folder / "canaries.jsonl").write_text(json.dumps(row), encoding="utf-8")
        config = yaml.safe_load((self.folder / "nightly.yaml").read_text())
        config["canaries"] = {"questions": "canaries.jsonl"}
        (self.folder / "nightly.yaml").write_text(yaml.safe_dump(config))

    def change(self, doc_id: str, text: str) -> None:
        (self.folder / "reports" / f"{doc_id}.txt").write_text(text, encoding="utf-8")

    def start(self) -> subprocess.Popen[bytes]:
        ours = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        command = [sys.executable, "-m", "okralong.jobs.cli", "nightly", str(self.folder / "nightly.yaml")]
        with self.said.open("ab") as out:  # no pipe: Ray's agents outlive a kill by 40 s, and would hold it
            return subprocess.Popen(command, env={**ours, "PYTHONPATH": str(CHECKOUT)}, stdout=out, stderr=out)

    def whole(self) -> int:
        night = self.start()
        code = night.wait(timeout=500)
        assert code in (0, EXIT_CHANGED), self.said.read_text()
        return code

    def killed_in(self, phase: str, after_s: float = 0.0) -> None:
        """Kill it as soon as it has come to a phase."""
        night = self.start()
        known: list[str] = []
        deadline = time.monotonic() + 400
        asked = len(self.reader.received)
        while night.poll() is None and time.monotonic() < deadline:
            known = [each.phase for each in nights(Folder.of(self.folder / "nightly"))]
            # In the midst of asking: a request has come.
            if known and known[-1] == phase and (phase not in ASKING or len(self.reader.received) > asked):
                break
            time.sleep(0.005)
        assert night.poll() is None, f"the phase {phase} was missed"
        time.sleep(after_s)
        night.send_signal(signal.SIGKILL)
        night.wait()
        time.sleep(3)  # its workers notice that it is gone

    def outcome(self) -> dict[str, Any]:
        """What has to be the same however often it was killed."""
        last = nights(Folder.of(self.folder / "nightly"))[-1]
        place = self.folder / "nightly" / "nights" / last.name
        found = pq.read_table(place / "differences.parquet").select(
            ["query_id", "change", "before_answer", "after_answer"]
        )
        current = Folder.of(self.folder / "nightly" / "current")
        told = ["query_id", "answer", "status", "quote", "archive_version"]
        steps = sorted((row["query_id"], row["path"], row["kind"]) for row in table(current, "journal"))
        return {
            "phase": last.phase,
            "differences": found.to_pylist(),
            "answers": flat_answers(current).select(told).to_pylist(),
            "steps": steps,
            "ok": sorted(row["query_id"] for row in table(current, "ledger") if row["status"] == "ok"),
            "versions": version_numbers(Folder.of(self.folder / "archive")),
        }


@pytest.fixture
def killed(tmp_path: Path, reader: FakeOpenAI) -> Killed:
    reader.delay_s = 0.5
    return Killed(tmp_path, reader)


@pytest.mark.soak
def test_a_night_that_is_killed_while_it_asks_goes_on(ray_cluster: None, killed: Killed) -> None:
    killed.killed_in("answer")
    asked = len(killed.reader.received)
    assert 0 < asked < len(DOCUMENTS)
    killed.change("works0", "This came after the night had begun to ask.")
    # As the command does it, on the Ray that runs already.
    assert run_nightly(killed.folder / "nightly.yaml") == EXIT_CHANGED
    found = killed.outcome()
    assert found["phase"] == "done"
    assert {row["change"] for row in found["differences"]} == {"new_question"}
    assert [row["answer"] for row in found["answers"]] == [" ".join(text.split()[:6]) for text in DOCUMENTS.values()]
    assert found["ok"] == sorted(DOCUMENTS)
    assert len(killed.reader.received) <= len(DOCUMENTS) + 1, "only what was in flight was asked again"
    assert len(nights(Folder.of(killed.folder / "nightly"))) == 1


@pytest.mark.soak
@pytest.mark.parametrize("phase", PHASES[:-1])
def test_a_night_that_is_killed_in_any_phase_comes_to_the_same(
    phase: str, tmp_path: Path, reader: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory
) -> None:
    reader.delay_s = 0.3
    twins = [Killed(tmp_path_factory.mktemp(name), reader) for name in ("whole", "killed")]
    for twin in twins:
        if phase == "canaries":
            twin.add_canary()
        if phase == "tell":
            twin.add_call()
        assert twin.whole() == EXIT_CHANGED
        twin.change("works1", "Works 1 sold 90 lamps before it closed.")  # without a number nothing is asked
        if twin is twins[1]:
            twin.killed_in(phase)
        assert twin.whole() == EXIT_CHANGED
    whole, other = (twin.outcome() for twin in twins)
    assert whole == other
    assert [row["query_id"] for row in whole["differences"]] == ["works1"]
