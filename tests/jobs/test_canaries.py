"""A night's canaries: asked first and anew each night; a swapped model stops the night or moves it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.jobs import night
from okralong.jobs.nightly import run_nightly
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import (
    EXIT_CANARIES,
    EXIT_CHANGED,
    EXIT_FAILURES,
    EXIT_OK,
    CanariesFailed,
    OverBudget,
)
from okralong.pipelines.reporting.export import flat_answers
from okralong.pipelines.run.nightly import Night, nights
from tests.fakes.notify_servers import webhook
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.jobs.conftest import PAPER, call, endpoint

pytestmark = pytest.mark.slow

LAMPS = {"lantern": 1200, "skerry": 3400, "alder": 5600}
MODEL = "gpt-4o-2024-08-06"


def counting(of: str = "lamps") -> Callable[[Messages], str]:
    """A model that reads the number of lamps, or one that confuses them with bells."""

    def reply(messages: Messages) -> str:
        found = re.search(rf"([\d,]+) {of}", messages[-1]["content"])
        assert found is not None
        return json.dumps({"evidence": [{"passage": 1, "quote": found[0]}], "value": found[1], "period": ""})

    return reply


def question(doc_id: str, **more: Any) -> dict[str, Any]:
    known = {"query_id": doc_id, "question": f"How many lamps did {doc_id} sell?", "doc_ids": [doc_id]}
    return {**known, "answer_type": "number", **more}


def ask(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def sell(folder: Path, doc_id: str, lamps: int) -> None:
    text = f"In 2023 {doc_id} sold {lamps:,} lamps and {lamps + 1:,} bells."
    (folder / "reports" / f"{doc_id}.txt").write_text(text, encoding="utf-8")


def configured(folder: Path, **changed: Any) -> Path:
    config = yaml.safe_load((folder / "nightly.yaml").read_text()) | changed
    (folder / "nightly.yaml").write_text(yaml.safe_dump(config))
    return folder / "nightly.yaml"


@pytest.fixture
def folder(tmp_path: Path, reader: FakeOpenAI, own_process: None) -> Path:
    """Three documents, a question about one, and two canaries about the others."""
    (tmp_path / "reports").mkdir()
    for doc_id, lamps in LAMPS.items():
        sell(tmp_path, doc_id, lamps)
    ask(tmp_path, "questions.jsonl", question("alder"))
    ask(tmp_path, "canaries.jsonl", question("lantern", answers=["1,200"]), question("skerry", answers=["3400"]))
    answer: dict[str, Any] = {"policy": PAPER, "confidence": "none"}
    for dotted, value in endpoint(reader).items():
        below, _, key = dotted.partition(".")
        answer.setdefault(below, {})[key] = value
    config = {"folder": "nightly", "archive": "archive", "sources": ["reports"], "questions": "questions.jsonl"}
    config |= {"index": {"embedding": {"of": "none"}, "shards": 1}, "answer": answer}
    config |= {"canaries": {"questions": "canaries.jsonl", "min_right": 1.0}}
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(config))
    reader.rules = [(lambda messages: True, counting())]
    return tmp_path


def all_nights(folder: Path) -> list[Night]:
    return nights(Folder.of(folder / "nightly"))


def test_canaries_are_asked_anew_each_night_and_a_swapped_model_ends_it(
    folder: Path, reader: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = folder / "nightly.yaml"
    assert run_nightly(config) == EXIT_CHANGED
    assert len(reader.received) == 3
    assert ["alder" in one.messages[-1]["content"] for one in reader.received] == [False, False, True]
    found = all_nights(folder)[0].notes["canaries"]
    known = {"asked": 2, "right": 2, "model": MODEL, "wrong": [], "left_out": 0, "min_right": 1.0, "outcome": "passed"}
    assert {name: found[name] for name in known} == known
    assert found["usd"] > 0

    assert run_nightly(config) == EXIT_OK
    assert len(reader.received) == 5, "no reply of the night before is reused, and no other question is due"

    reader.rules = [(lambda messages: True, counting("bells"))]
    sell(folder, "alder", 7800)
    with webhook() as hook:
        configured(folder, notify=[{"when": ["night failed"], "to": [f"json://127.0.0.1:{hook.port}/"]}])
        code, said = call(monkeypatch, capsys, "nightly", config)
    assert code == EXIT_CANARIES
    assert "the endpoint got 0 of 2 canaries right" in said
    assert "lantern ('1,201' instead of '1,200')" in said
    [(_, told)] = hook.taken
    assert "the endpoint got 0 of 2 canaries right" in told["message"]
    assert len(reader.received) == 7
    third = all_nights(folder)[-1]
    assert (third.phase, third.exit_code, third.notes["canaries"]["outcome"]) == ("done", EXIT_CANARIES, "stopped")
    [row] = flat_answers(Folder.of(folder / "nightly" / "current")).to_pylist()
    assert row["number"] == 5600, "the answers of earlier nights stay"

    reader.rules = [(lambda messages: True, counting())]
    assert run_nightly(config) == EXIT_CHANGED
    [row] = flat_answers(Folder.of(folder / "nightly" / "current")).to_pylist()
    assert (row["number"], len(reader.received)) == (7800, 10)


def test_a_second_endpoint_takes_over_until_the_first_is_right_again(folder: Path, reader: FakeOpenAI) -> None:
    with FakeOpenAI(rules=[(lambda messages: True, counting())], models=["other"]) as second, webhook() as hook:
        price = {"input": 1.0, "cached_input": 0.5, "output": 2.0}
        llm = {"base_url": second.base_url, "model": "other", "price": price}
        canaries = {"questions": "canaries.jsonl", "otherwise": "second", "second_llm": llm}
        rule = {"when": "canaries failed", "to": f"json://127.0.0.1:{hook.port}/"}
        config = configured(folder, canaries=canaries, budget_usd=1.0, notify=[rule])
        reader.rules = [(lambda messages: True, counting("bells"))]
        assert run_nightly(config) == EXIT_FAILURES, "the night is done, and somebody should look at the endpoint"
        assert (len(reader.received), len(second.received)) == (2, 3)
        note = all_nights(folder)[0].notes["canaries"]
        assert (note["outcome"], note["right"], note["second"]["right"], note["second"]["model"]) == (
            "second",
            0,
            2,
            "other",
        )
        [row] = flat_answers(Folder.of(folder / "nightly" / "current")).to_pylist()
        assert (row["number"], row["model"]) == (5600, "other")
        [(_, told)] = hook.taken
        assert told["title"].endswith(": canaries failed")
        assert "the endpoint got 0 of 2 canaries right" in told["message"]

        reader.rules = [(lambda messages: True, counting())]
        run_nightly(config)
        [row] = flat_answers(Folder.of(folder / "nightly" / "current")).to_pylist()
        assert (row["model"], len(second.received)) == (MODEL, 3), "asked again of the first"

        reader.rules = second.rules = [(lambda messages: True, counting("bells"))]
        with pytest.raises(CanariesFailed, match="the second endpoint got 0 of 2 canaries right"):
            run_nightly(config)
        assert len(hook.taken) == 2


def test_a_killed_night_pays_no_canary_twice_and_canaries_count_against_the_budget(
    folder: Path, reader: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(folder, budget_usd=1e-9)
    with pytest.raises(OverBudget, match="would ask 3 questions"):
        run_nightly(config)
    assert reader.received == []

    class Killed(Exception):
        pass

    def killing(*_: object) -> None:
        raise Killed

    configured(folder, budget_usd=1.0)
    monkeypatch.setattr(night, "judged", killing)
    with pytest.raises(Killed):
        run_nightly(config)
    monkeypatch.undo()
    assert len(reader.received) == 2
    assert run_nightly(config) == EXIT_CHANGED
    assert len(reader.received) == 3
    assert len(all_nights(folder)) == 1


def test_a_canary_that_nobody_can_judge_stops_no_night(folder: Path, reader: FakeOpenAI) -> None:
    ask(folder, "canaries.jsonl", question("lantern", answers=["1200"]), question("gone", answers=["7"]))
    assert run_nightly(folder / "nightly.yaml") == EXIT_FAILURES
    note = all_nights(folder)[0].notes["canaries"]
    assert (note["asked"], note["right"], note["left_out"], note["outcome"]) == (1, 1, 1, "passed")
