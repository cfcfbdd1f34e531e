"""Why an answer differs: runs over two versions of an archive, by two configs, models and replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.diff import RunDiff
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import PAPER, always, endpoint

pytestmark = pytest.mark.slow

OLD = {
    "alder": "Alder Orchards grows apples. It was founded in 1951 by Ines Calder.",
    "lantern": "Lantern Works makes signal lamps. Tobias Venn was its first customer.",
}
QUESTIONS = [
    {"query_id": "alder", "question": "What of alder?", "doc_ids": ["alder"]},
    {"query_id": "anywhere", "question": "Who grows apples?"},
    {"query_id": "lantern", "question": "What of lantern?", "doc_ids": ["lantern"]},
]
Run = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path, reader: FakeOpenAI, own_process: None) -> Run:
    """Answers the questions over the documents of this moment; the first run is ``old``."""

    def asked(name: str, documents: dict[str, str], **given: Any) -> Path:
        place = tmp_path / "reports"
        place.mkdir(exist_ok=True)
        for doc_id, text in documents.items():
            (place / f"{doc_id}.txt").write_text(text, encoding="utf-8")
        okralong.index(tmp_path / "archive", [place], **{"embedding.of": "none", "shards": 1})
        (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
        told = endpoint(reader) | {"policy": PAPER, "confidence": "none"} | given
        okralong.answer(tmp_path / "archive", tmp_path / "questions.jsonl", tmp_path / name, **told)
        return tmp_path / name

    asked("old", OLD)
    return asked


def reasons(found: RunDiff) -> dict[str, tuple[str, str]]:
    return {row["query_id"]: (row["cause"], row["because"]) for row in found.table.to_pylist()}


def test_another_document_and_another_passage_are_told_apart(run: Run, tmp_path: Path, reader: FakeOpenAI) -> None:
    new = {"lantern": "Lantern Works makes bells.", "birch": "Who grows apples? Birch grows apples, apples."}
    asked = len(reader.received)
    found = okralong.diff(tmp_path / "old", run("new", new, replies_from=[str(tmp_path / "old")]))
    assert len(reader.received) == asked + 2, "the question about alder has the reply of before"
    assert reasons(found) == {
        "anywhere": ("retrieval", "other passages: now from birch, before from alder"),
        "lantern": ("document", "the text of lantern changed"),
    }
    assert "by cause: changed document (1), other passages (1)" in found.lines()

    free = [row for row in table(Folder.of(tmp_path / "new"), "journal") if row["query_id"] == "alder"]
    assert [row["kind"] for row in free][-2:] == ["request", "reply"], "a reused reply keeps its request, too"
    third = run("third", {"alder": "Alder Orchards grows pears."}, replies_from=[str(tmp_path / "new")])
    assert reasons(okralong.diff(tmp_path / "new", third))["alder"] == ("document", "the text of alder changed")


def test_another_model_prompt_and_reply_are_told_apart(run: Run, tmp_path: Path, reader: FakeOpenAI) -> None:
    reader.rules = [(always, 'Evidence: [1] "Alder"\nAnswer: another answer')]
    old = tmp_path / "old"
    assert set(reasons(okralong.diff(old, run("reply", {}))).values()) == {
        ("model", "another reply to the same request (generate)")
    }
    reader.models = ["gpt-5"]
    swapped = okralong.diff(old, run("model", {}, **{"llm.model": "gpt-5"}), to=[tmp_path / "diff.html"])
    assert set(reasons(swapped).values()) == {("model", "model: gpt-4o-2024-08-06 → gpt-5")}
    page = (tmp_path / "diff.html").read_text()
    assert "<b>3</b> other model or reply" in page
    reader.models = ["gpt-4o-2024-08-06"]
    drawn = okralong.diff(old, run("drawn", {}, **{"llm.temperature": 0.7}))
    assert set(reasons(drawn).values()) == {("config", "temperature")}
    short = okralong.diff(old, run("short", {}, **{"llm.contract": "short"}))
    assert set(reasons(short).values()) == {("config", "the prompt has other words")}
