"""The reader that ships, served as a run serves it, on made-up questions that it did not learn from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openai
import pytest

from okralong.actors.generator import generator
from okralong.lab.training.asking import Asker, Said
from okralong.lab.training.reader_marks import mark, well_formed
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.prompts import answer_prompt, parse_answer
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.models.merged_model import asked_as
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED, shipped_adapter
from tests.reader.make_generated import read_generated

MOST_BYTES = 15_000_000
ROWS = read_generated()


def replies_to(rows: Sequence[Any], logs: Path) -> list[Said]:
    llm = LlmConfig(base_url=EMBEDDED, model=EMBEDDED, reader=SHIPPED, timeout_s=300.0)
    with generator(llm, logs) as served:
        assert served.facts["reader"]["name"] == "reader"
        assert served.llm.calculator
        assert not served.llm.demonstrations
        client = openai.OpenAI(base_url=served.address, api_key="none", max_retries=0)
        asker = Asker(served.llm, client, served.facts["identity"])
        return [asker.ask("generate", answer_prompt(row.question, row.passages, calculator=True)) for row in rows]


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """To all of them, which takes minutes."""
    return replies_to(ROWS, tmp_path_factory.mktemp("logs"))


def test_its_adapter_is_small_and_says_where_it_is_from() -> None:
    folder = shipped_adapter("reader")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".md", ".svg"}
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == EMBEDDED
    assert f"{asked_as(folder).rows:,} train rows" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_reply_of_each_kind_keeps_the_contract(tmp_path: Path) -> None:
    some = [next(row for row in ROWS if row.type == kind) for kind in ("extractive", "arithmetic")]
    assert all(well_formed("generate", said.text) for said in replies_to(some, tmp_path))


@pytest.mark.soak
def test_every_reply_keeps_the_contract(replies: list[Said]) -> None:
    assert all(well_formed("generate", said.text) for said in replies)


@pytest.mark.soak
def test_answers_are_worth_keeping(replies: list[Said]) -> None:
    marks = {row.query_id: mark(row, said.text) for row, said in zip(ROWS, replies, strict=True)}
    extractive = [marks[row.query_id] for row in ROWS if row.type == "extractive" and row.answerable]
    assert sum(each.f1 for each in extractive) / len(extractive) >= 0.75
    told = [marks[row.query_id] for row in ROWS if row.answerable]
    assert sum(each.f1 for each in told) / len(told) >= 0.5
    cited = sum(each.cited for each in told)
    assert cited >= len(told) / 2
    # Much of what it cites is beside the point (on real test rows about half).
    assert sum(each.right for each in told) >= cited / 3


@pytest.mark.soak
def test_calculations_are_written_as_formulas_that_can_be_worked_out(replies: list[Said]) -> None:
    """Their figures are mostly the wrong ones."""
    asked = [said.text for row, said in zip(ROWS, replies, strict=True) if row.type == "arithmetic"]
    formulas = [parse_answer(text).answer for text in asked if parse_answer(text).answer.startswith("=")]
    assert len(formulas) >= len(asked) / 2
    assert all(calculate(formula) != formula.removeprefix("=").strip() for formula in formulas)
