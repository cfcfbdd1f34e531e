"""Sections that a paid generator chooses: their chunks are shown, for one call, which the estimate counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import okralong
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.conftest import index_plain
from tests.fakes.openai_server import FakeOpenAI, Messages, Trouble
from tests.jobs.conftest import always, endpoint, quoting
from tests.jobs.warm import answer
from tests.statements.test_outline import PROSE

pytestmark = pytest.mark.slow

QUESTION = "How many employees does the company have?"
MENTION = "How the company does have rules, and how many rules employees have.\n"
HIDDEN = "84 of them"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report whose figure is in a section that shares no word with the question."""
    folder = tmp_path_factory.mktemp("sections")
    pages = [f"TOPIC {name}\n{MENTION * 30}" for name in "ABCDEFGH"]
    (folder / "reports").mkdir()
    (folder / "reports" / "quill.txt").write_text("".join([*pages, f"RIVERBANK\nWe had {HIDDEN}.\n{PROSE * 3}"]))
    (folder / "questions.jsonl").write_text(json.dumps({"query_id": "q1", "question": QUESTION}))
    index_plain(folder / "archive", folder / "reports")
    return folder / "archive"


def choosing(messages: Messages) -> bool:
    return "numbered section titles" in messages[0]["content"]


def riverbank(messages: Messages) -> str:
    """The number of the section that holds the figure."""
    found = re.search(r"\[(\d+)\] *RIVERBANK", messages[-1]["content"])
    assert found is not None
    return found[1]


def given(folder: Path, server: FakeOpenAI, by: str) -> dict[str, Any]:
    """A run by the paper's policy, whose sections are chosen ``by``."""
    policy = yaml.safe_load(shipped_config("policy/paper.yaml"))
    policy["sections"] = {"by": by, "weight": 2.0}
    (folder / f"{by}.yaml").write_text(yaml.safe_dump(policy))
    return {**endpoint(server), "policy": str(folder / f"{by}.yaml"), "budget_usd": 5.0}


def shown(server: FakeOpenAI) -> list[bool]:
    """Of each prompt with passages, whether it has the figure."""
    return [HIDDEN in one.messages[-1]["content"] for one in server.received if not choosing(one.messages)]


def test_the_chosen_section_is_shown_for_one_call_that_the_estimate_has(
    archive: Path, tmp_path: Path, reader: FakeOpenAI, own_process: None
) -> None:
    reader.rules = [(choosing, riverbank), (always, quoting)]
    questions, run = archive.parent / "questions.jsonl", Folder.of(tmp_path / "run")
    told = given(tmp_path, reader, "generator")
    before = okralong.estimate(archive, questions, **told).strategies["okralong"]
    without = okralong.estimate(archive, questions, **given(tmp_path, reader, "code")).strategies["okralong"]
    assert reader.received == []

    refused = answer(archive, questions, tmp_path / "poor", **told | {"budget_usd": 0.001})
    assert refused.statuses == {"over_budget": 1}
    assert reader.received == []

    assert answer(archive, questions, run.path, **told).statuses == {"answered": 1}
    assert [choosing(one.messages) for one in reader.received] == [True, False]
    assert shown(reader) == [True]
    paid = {row["path"]: row for row in table(run, "ledger") if row["status"] == "ok"}
    assert {path: row["role"] for path, row in paid.items()} == {"sections": "sections", "generate": "generate"}
    assert sum(row["cost_usd"] for row in paid.values()) == pytest.approx(reader.bill_usd, abs=1e-9)
    more = before.total.prompt_tokens.expected - without.total.prompt_tokens.expected
    assert more == pytest.approx(paid["sections"]["prompt_tokens"], rel=0.02)
    (row,) = table(run, "answers")
    assert [each["node"]["title"] for each in json.loads(row["plan"])["sections"]] == ["RIVERBANK"]


def test_a_run_that_goes_on_asks_for_no_sections_again(
    archive: Path, tmp_path: Path, reader: FakeOpenAI, own_process: None
) -> None:
    reader.rules = [(choosing, riverbank), (always, quoting)]
    questions, told = archive.parent / "questions.jsonl", given(tmp_path, reader, "generator")
    reader.troubles = [None, *[Trouble(401, "invalid_api_key", "revoked")] * 20]
    answer(archive, questions, tmp_path / "run", **told)
    reader.troubles = []
    asked = sum(choosing(one.messages) for one in reader.received)
    assert answer(archive, questions, tmp_path / "run", **told).statuses == {"answered": 1}
    assert asked == sum(choosing(one.messages) for one in reader.received) == 1
    assert shown(reader)[-1]
    count = len(reader.received)
    assert answer(archive, questions, tmp_path / "run", **told).statuses == {"answered": 1}
    assert len(reader.received) == count


@pytest.mark.parametrize(
    "trouble", [Trouble(text="The section about people."), Trouble(text="", refusal="I cannot help.")]
)
def test_an_unusable_reply_leaves_the_sections_to_the_words(
    archive: Path, tmp_path: Path, reader: FakeOpenAI, own_process: None, trouble: Trouble
) -> None:
    reader.rules = [(always, quoting)]
    reader.troubles = [trouble]
    questions = archive.parent / "questions.jsonl"
    told = given(tmp_path, reader, "generator")
    assert answer(archive, questions, tmp_path / "run", **told).statuses == {"answered": 1}
    assert [choosing(one.messages) for one in reader.received] == [True, False]
    by_words = given(tmp_path, reader, "code")
    assert answer(archive, questions, tmp_path / "code", **by_words).statuses == {"answered": 1}
    assert shown(reader) == [False, False]
    assert reader.received[1].messages == reader.received[2].messages
