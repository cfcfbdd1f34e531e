"""Why an answer differs where no call tells it: by the searches and plans in two journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.schemas import JOURNAL
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.reporting.causes import AnswerSide, Replayed, Trace, causes

Steps = list[tuple[str, dict[str, Any], str]]
"""Kind, body and hash of a request."""
ROW = {"question": "What of it?", "answer": "That.", "answer_type": "", "status": "answered", "scope": ""}


def hit(doc_id: str, sha256: str, start: int = 0) -> list[Any]:
    return [f"{sha256 * 16}-150-000000", doc_id, 150, 0, start, start + 9, 3, None, 0.5]


def search(*hits: list[Any], query: str = "what") -> tuple[str, dict[str, Any], str]:
    wanted = {"query": query, "granularity": 150, "k": 20}
    return "retrieval", {"wanted": wanted, "exact": list(hits), "semantic": []}, ""


def plan(count: int) -> tuple[str, dict[str, Any], str]:
    return "plan", {"count": count}, ""


def reply(text: str, request: str) -> tuple[str, dict[str, Any], str]:
    """A reply of another run, whose request an earlier release did not keep."""
    return "reply", {"reply": {"text": text}, "refusal": ""}, request


def run(place: Path, steps: Steps) -> Replayed:
    rows = [
        {"seq": seq, "query_id": "q", "path": f"path/{kind}", "sample": 0, "kind": kind, "request_hash": request}
        | {"body": json.dumps(body)}
        for seq, (kind, body, request) in enumerate(steps)
    ]
    folder = Folder.of(place)
    folder.at("journal").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=JOURNAL))
    return Replayed(folder)


@pytest.mark.parametrize(
    ("before", "after", "cause", "because"),
    [
        ([search(hit("a", "1"))], [search(hit("a", "2"))], "document", "the text of a changed"),
        ([search(hit("a", "1"))], [search(hit("b", "1"), hit("a", "1"))], "retrieval", "other passages"),
        ([search(hit("a", "1"))], [search(hit("a", "1"), query="other")], "config", "another search (path/retrieval)"),
        ([search(hit("a", "1")), plan(5)], [search(hit("a", "1")), plan(6)], "config", "another plan (path/plan)"),
        ([search(), plan(5)], [search(), plan(5)], "unknown", "nothing that is recorded differs"),
        (
            [search(), ("plan", {"count": 5, "sections": None}, "")],  # an earlier release's
            [search(), plan(5)],
            "unknown",
            "nothing that is recorded differs",
        ),
        ([search(), reply("x", "1")], [search(), reply("x", "2")], "unknown", "nothing that is recorded differs"),
        (
            [search(), reply("x", "1")],
            [search(), reply("y", "1")],
            "model",
            "another reply to the same request (path/reply)",
        ),
    ],
)
def test_a_cause_without_requests(tmp_path: Path, before: Steps, after: Steps, cause: str, because: str) -> None:
    runs = run(tmp_path / "before", before), run(tmp_path / "after", after)
    assert causes({"q": (AnswerSide(ROW, {}), AnswerSide(ROW, {}))}, *runs) == {"q": (cause, because)}


def test_the_answers_alone_tell_some_causes(tmp_path: Path) -> None:
    runs = run(tmp_path / "before", []), run(tmp_path / "after", [])
    side = AnswerSide(ROW, {})
    pairs = {
        "new": (None, side),
        "gone": (side, None),
        "words": (side, AnswerSide(ROW | {"question": "And of that?"}, {})),
        "type": (side, AnswerSide(ROW | {"answer_type": "money"}, {})),
        "budget": (side, AnswerSide(ROW | {"status": "over_budget"}, {})),
        "hash": (AnswerSide(ROW, {"a": "1" * 64}), AnswerSide(ROW, {"a": "2" * 64})),
    }
    found = causes(pairs, *runs)
    assert {name: cause.name for name, cause in found.items()} == {
        "new": "question",
        "gone": "question",
        "words": "config",
        "type": "config",
        "budget": "failure",
        "hash": "document",
    }
    assert found["type"].because == "the answer type: text → money"


def test_evidence_that_moved_in_a_changed_document_is_the_documents(tmp_path: Path) -> None:
    def asked(model: str) -> Steps:
        body = {"model": model, "messages": [{"role": "user", "content": "Who?"}]}
        return [("request", {"request": body}, model)]

    runs = run(tmp_path / "before", asked("m")), run(tmp_path / "after", asked("n"))
    before, after = AnswerSide(ROW, {"a": "1" * 64}), AnswerSide(ROW, {"a": "2" * 64})
    assert causes({"q": (before, after)}, *runs)["q"] == ("document", "the text of a changed")
    other = AnswerSide(ROW | {"answer": "This."}, {"a": "2" * 64})
    assert causes({"q": (before, other)}, *runs)["q"] == ("model", "model: m → n"), "the same words were shown"


def test_a_further_attempt_keeps_the_request_of_the_first() -> None:
    def trace(*rows: tuple[str, str, dict[str, Any]]) -> Trace:
        found = Trace()
        for kind, request, body in rows:
            step = {"kind": kind, "request_hash": request, "body": json.dumps(body), "path": "generate", "sample": 0}
            found.add(step)
        return found

    first = ("request", "1", {"request": {"model": "m", "messages": [{"role": "user", "content": "Who?"}]}})
    answer = ("reply", "1", {"reply": {"text": "Ada"}})
    assert trace(first, ("request", "1", {"request": {}}), answer) == trace(first, answer)
    other = trace(first, ("request", "2", {"request": {}}), ("reply", "2", {"reply": {"text": "Bo"}}))
    assert other.calls["generate", 0].request is None, "another request, which was not recorded"


def test_a_run_of_an_earlier_release_has_the_set_up_of_the_same_policy_today(tmp_path: Path) -> None:
    policy = load_config(FullPolicy, "policy/default.yaml")
    begun = {"config": {"strategy": "okralong", "policy": "policy/default.yaml"}}
    setups = []
    for name, content in (("before", policy.identity()), ("after", policy.model_dump(mode="json"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(begun))
        (tmp_path / name / "manifest.json").write_text(json.dumps({"policy": content}))
        setups.append(Replayed(Folder.of(tmp_path / name)).setup("q"))
    assert setups[0] == setups[1] != ""
