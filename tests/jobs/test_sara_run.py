"""SARA in real runs: archive, table, generator on Serve, ledger, journal; resumed for nothing, checked beforehand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.jobs.estimate import Asking, estimate_questions
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, ConfigError
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.rows import table
from okralong.pipelines.sara.artifact import served_generator
from tests.fakes.tiny_llama import write_tiny_llama
from tests.jobs.conftest import call
from tests.jobs.warm import answer
from tests.sara.compressors import random_compressor

pytestmark = pytest.mark.slow

REPLY = 12
"""Tokens of a reply."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generator of random weights with a window of 8,192 tokens."""
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"), window=8192)


@pytest.fixture(scope="module")
def compressor(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_compressor(tmp_path_factory.mktemp("compressor"), hidden=32, generator=tiny.name)


@pytest.fixture(scope="module")
def archive(ray_cluster: None, sample_folder: Path, compressor: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's reports, indexed through the API: first without a table, then with one."""
    place = tmp_path_factory.mktemp("sara-archive")
    sources = [sample_folder / "reports"]
    first = okralong.index(place, sources, granularities=[256], compressor="none")
    second = okralong.index(place, sources, granularities=[256], compressor=str(compressor))
    assert (first.version, second.version) == (1, 2)
    assert second.work["chunks_compressed"] == second.chunks[256]
    assert (second.work["texts_embedded"], second.work["shards_written"]) == (0, 0)
    again = okralong.index(place, sources, granularities=[256], compressor=str(compressor))
    assert again.up_to_date
    return place


@pytest.fixture
def told(tiny: Path, compressor: Path) -> dict[str, Any]:
    limits = {"generate": REPLY}
    return {
        "strategy": "sara",
        "policy": "policy/paper.yaml",
        "analyzer.kind": "rules",
        "confidence": "none",
        "sara.compressor": str(compressor),
        "sara.batch_wait_s": 0.2,
        "llm.model": str(tiny),
        "llm.max_completion_tokens": limits,
    }


@pytest.fixture
def few(sample_folder: Path, tmp_path: Path) -> Path:
    file = tmp_path / "few.jsonl"
    file.write_text("".join((sample_folder / "questions.jsonl").read_text().splitlines(keepends=True)[:4]))
    return file


def test_a_run_shows_vectors_counts_them_and_goes_on_for_nothing(
    archive: Path,
    few: Path,
    tmp_path: Path,
    told: dict[str, Any],
    compressor: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    result = okralong.answer(archive, few, run, **told)
    assert sum(result.statuses.values()) == 4
    assert set(result.statuses) <= {"answered", "unanswerable"}
    folder = Folder.of(run)
    ledger = table(folder, "ledger")
    name = served_generator(compressor, told["llm.model"]).name
    assert {(row["status"], row["role"], row["model"], row["snapshot"]) for row in ledger} == {
        ("ok", "generate", name, name)
    }
    assert all(0 < row["completion_tokens"] <= REPLY for row in ledger)
    journal = table(folder, "journal")
    requests = {row["query_id"]: json.loads(row["body"])["request"] for row in journal if row["kind"] == "request"}
    choices = {row["query_id"]: json.loads(row["body"]) for row in journal if row["kind"] == "selection"}
    assert len(requests) == len(choices) == 4, "chosen in the compressor's space"
    vectors: dict[str, int] = {}
    for query_id, request in requests.items():
        parts = [part for part in request["messages"][1]["content"] if part["type"] == "vectors"]
        vectors[query_id] = len(parts)
        assert len(choices[query_id]["chosen"]) == 5
        assert len(parts) == len(choices[query_id]["wanted"]["pool"]) - 5 > 0
        assert all(set(part) == {"type", "rows", "sha256"} and part["rows"] == 1 for part in parts)
    answers = table(folder, "answers")
    assert all(len(row["context"]) == 5 and row["calls"] == 1 for row in answers)
    # Without vectors the prompt is that much shorter: one token each, its number, and the line above them.
    plain = answer(archive, few, tmp_path / "plain", **(told | {"policy": _policy(tmp_path, compression=False)}))
    assert sum(plain.statuses.values()) == 4
    shorter = {row["query_id"]: row["prompt_tokens"] for row in table(Folder.of(tmp_path / "plain"), "ledger")}
    for row in ledger:
        count = vectors[row["query_id"]]
        assert 3 * count <= row["prompt_tokens"] - shorter[row["query_id"]] <= 6 * count + 12
    # The same command over the journal alone: nothing is asked again.
    before = len(ledger)
    (run / "manifest.json").unlink()
    for part in (run / "answers").glob("*.parquet"):
        part.unlink()
    again = answer(archive, few, run, **told)
    assert again.statuses == result.statuses
    assert len(table(folder, "ledger")) == before
    assert {row["answer"] for row in table(folder, "answers")} == {row["answer"] for row in answers}
    code, said = call(monkeypatch, capsys, "show", run, answers[0]["query_id"], "--all")
    assert code == 0
    assert "Compressed passages: 1. [1 vector(s)]" in said


@pytest.mark.soak
def test_a_table_that_was_lost_is_computed_again(archive: Path, sample_folder: Path, compressor: Path) -> None:
    (lost,) = (archive / "compressed").rglob("compressed.arrow")
    held = lost.read_bytes()
    lost.unlink()
    again = okralong.index(archive, [sample_folder / "reports"], granularities=[256], compressor=str(compressor))
    assert (again.up_to_date, lost.read_bytes() == held) == (True, True)


@pytest.mark.soak  # tests/answering/test_sara.py has the strategy under a budget
def test_text_alone_under_a_budget_is_asked_of_the_same_generator(
    archive: Path, few: Path, tmp_path: Path, told: dict[str, Any]
) -> None:
    policy = _policy(tmp_path, compression=False, text=10, selection="none", max_tokens=512)
    okralong.answer(archive, few, tmp_path / "run", **(told | {"policy": policy}))
    for row in table(Folder.of(tmp_path / "run"), "answers"):
        assert 256 < row["context_tokens"] <= 512


def test_an_estimate_counts_vectors_without_a_generator(archive: Path, few: Path, told: dict[str, Any]) -> None:
    config = load_config(RunConfig, "answer.yaml", told | {"policy": "policy/paper.yaml"})
    with pytest.raises(ArchiveError, match="without chunks"):
        estimate_questions(str(archive), str(few), config.model_copy(update={"strategy": "std_rag"}), Asking())
    found = estimate_questions(str(archive), str(few), config, Asking())
    assert found.strategies["sara"].total.prompt_tokens.expected > 4 * 5 * 150


def test_what_cannot_work_is_said_before_a_token_is_spent(
    archive: Path, few: Path, tmp_path: Path, told: dict[str, Any], tiny: Path
) -> None:
    def refused(kind: type[Exception], said: str, place: Path | str = archive, **other: Any) -> None:
        with pytest.raises(kind, match=said):
            okralong.answer(place, few, tmp_path / "none", **(told | other))
        assert not (tmp_path / "none").exists()

    paid = {"llm.base_url": "https://api.openai.com/v1", "llm.model": "gpt-4o-2024-08-06"}
    refused(ConfigError, r"llm.base_url is https://api.openai.com/v1.*takes only text.*Nothing was spent", **paid)
    refused(ConfigError, r"trained for the generator .*, and llm.model is 'embedded'", **{"llm.model": "embedded"})
    refused(ConfigError, r"holds no compressor", **{"sara.compressor": str(tmp_path)})
    refused(ConfigError, r"uses the adapter in the compressor", **{"llm.reader": str(tmp_path)})
    refused(ArchiveError, r"holds no compressed chunks.*Nothing was spent", f"{archive}@1")
    other = random_compressor(tmp_path / "other", seed=9, hidden=32, generator=tiny.name)
    refused(ArchiveError, r"holds chunks compressed by", **{"sara.compressor": str(other)})
    csi = _policy(tmp_path, selection="csi")
    refused(ConfigError, r"'sara' needs a local language model.*scorer", policy=csi)


def _policy(folder: Path, **sara: Any) -> str:
    import yaml

    from okralong.pipelines.core.config import shipped_config

    policy = yaml.safe_load(shipped_config("policy/paper.yaml"))
    policy["sara"] |= sara
    file = folder / f"policy-{len(list(folder.glob('policy-*')))}.yaml"
    file.write_text(yaml.safe_dump(policy))
    return str(file)
