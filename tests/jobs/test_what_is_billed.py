"""An endpoint that bills more than it shows, a budget that does not suffice, and damaged files, at the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_ENDPOINT, EXIT_FAILURES, EXIT_OK, EXIT_OVER_BUDGET, EXIT_USAGE
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import call, config_file

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_process")]

Answer = Callable[..., tuple[int, str]]


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sample_archive: Path,
    sample_folder: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
) -> Answer:
    """Call ``okralong answer`` with changes to the config, or the command that is given with the run's folder."""
    config = config_file(tmp_path, reader)

    def answer(command: str = "", **changes: object) -> tuple[int, str]:
        if command:
            return call(monkeypatch, capsys, command, tmp_path / "run")
        settings = yaml.safe_load(config.read_text())
        settings["llm"] |= {name: changes.pop(name) for name in ("trust_usage", "window") if name in changes}
        config.write_text(yaml.safe_dump(settings | changes | {"strategy": "std_rag"}))
        paths = ("--questions", sample_folder / "questions.jsonl", "--run", tmp_path / "run", "--config", config)
        return call(monkeypatch, capsys, "answer", sample_archive, *paths)

    return answer


def bounds(folder: Path) -> tuple[float, float]:
    """The settled sum of the ledger, and that with what is unknown."""
    rows = table(Folder.of(folder / "run"), "ledger")
    settled = sum(row["cost_usd"] for row in rows if row["status"] == "ok")
    return settled, settled + sum(row["cost_usd"] for row in rows if row["status"] == "unknown")


def test_hidden_thought_is_booked_and_stops_the_run(run: Answer, tmp_path: Path, reader: FakeOpenAI) -> None:
    reader.hidden = (0, 20_000)
    code, said = run(budget_usd=50.0)
    settled, most = bounds(tmp_path)
    assert settled == most == pytest.approx(reader.bill_usd)
    assert code == EXIT_ENDPOINT
    assert re.search(r"ignores the limit of its replies: \d+ in a row", said)
    assert "replies cost up to" in said
    assert "bills thought or a prompt that it does not show" in said


def test_hidden_prompts_that_pass_the_cap_are_named_with_an_exit_code(
    run: Answer, tmp_path: Path, reader: FakeOpenAI
) -> None:
    """A single reply may pass the cap; then nothing more is sent, and the exit code is that of the budget."""
    reader.hidden = (100_000, 0)
    code, said = run(budget_usd=0.4)
    assert code == EXIT_OVER_BUDGET
    assert reader.bill_usd <= 0.4 + 0.25
    assert bounds(tmp_path)[0] == pytest.approx(reader.bill_usd)
    assert "17 questions are left over_budget. Question " in said
    assert "Raise budget_usd and run the same command again." in said


def test_a_usage_beyond_the_window_needs_a_decision(run: Answer, tmp_path: Path, reader: FakeOpenAI) -> None:
    reader.hidden = (0, 200_000)
    code, said = run()
    assert code == EXIT_ENDPOINT
    assert "set llm.trust_usage to true if the endpoint bills what it reports" in said
    assert "more may have been billed" in said
    settled, most = bounds(tmp_path)
    assert settled < reader.bill_usd <= most + 1e-9
    asked = len(reader.received)
    assert run()[0] == EXIT_ENDPOINT
    assert len(reader.received) == asked
    reader.hidden = (0, 0)
    code, said = run(trust_usage=True)
    assert code == EXIT_OK, said
    assert len(reader.received) == 18


def test_a_budget_that_does_not_suffice_says_what_the_next_question_needs(
    run: Answer, tmp_path: Path, reader: FakeOpenAI
) -> None:
    code, said = run(budget_usd=0.02)
    assert code == EXIT_OVER_BUDGET
    settled, _ = bounds(tmp_path)
    assert "is used up" not in said
    assert "needs up to $" in said
    assert f"${settled:.6f} are spent" in said


def test_damaged_files_are_named_and_nothing_is_sent(run: Answer, tmp_path: Path, reader: FakeOpenAI) -> None:
    assert run()[0] == EXIT_OK
    asked = len(reader.received)
    for name in ("run.json", "manifest.json"):
        file = tmp_path / "run" / name
        whole = file.read_bytes()
        file.write_bytes(whole[:100])
        code, said = run()
        assert (code, "bug" in said) == (EXIT_USAGE, False), said
        assert f"{name} is damaged: it is not JSON" in said
        code, said = run("repair")
        assert code == EXIT_FAILURES
        assert ("only a copy of it can replace it" in said) == (name == "run.json")
        assert file.exists() == (name == "run.json")
        file.write_bytes(whole)
    (part,) = (tmp_path / "run" / "ledger").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-30])
    for command in ("", "report", "show"):
        code, said = run(command)
        assert (code, "bug" in said) == (EXIT_USAGE, False), said
        assert f"{part.name} is damaged" in said
    code, said = run("repair")
    assert code == EXIT_FAILURES
    assert "all rows of ledger" in said
    assert run("repair") == (EXIT_OK, f"{tmp_path / 'run'}: nothing is damaged.")
    assert run()[0] == EXIT_OK
    assert len(reader.received) == asked
