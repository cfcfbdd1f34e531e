"""Replies that cannot be used: asked for once more, kept as they came, and asked for anew when a retry says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK
from okralong.pipelines.run.rows import table
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.jobs.conftest import PAPER
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

MODEL = "gpt-4o-2024-08-06"
GOOD = '{"question-type": "multi-source", "info-type": "same", "containing": "no"}'
ANALYSES = [
    {"role": "analyze", "contains": "This reply cannot be used", "text": GOOD},
    {"role": "analyze", "text": "I think that it is a comparison."},
]

EMPTY = {"role": "read", "text": "Answer:"}


@pytest.fixture
def server(endpoint_process: EndpointProcess) -> EndpointProcess:
    endpoint_process.reset({"models": {MODEL: {}}})
    return endpoint_process


def test_malformed_replies_fail_no_question_and_empty_ones_are_asked_for_anew(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, server: EndpointProcess
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join((sample_folder / "questions.jsonl").read_text().splitlines()[:6]))
    run = Folder.of(tmp_path / "run")
    told: dict[str, Any] = {"policy": PAPER, "analyzer.kind": "llm", "llm.temperature": 0.0, "llm.window": 128_000}
    told |= {
        "reranker.model": tiny_cross_encoder(),
        "llm.base_url": server.base_url,
        "llm.model": MODEL,
        "llm.tokenizer": "o200k_base",
    }
    server.change({"replies": {"rules": [*ANALYSES, {"role": "split", "text": "Alder, obviously:"}, EMPTY]}})
    malformed = answer(sample_archive, few, run.path, **told)
    assert (malformed.exit_code, malformed.statuses) == (EXIT_FAILURES, {"failed": 6})
    said = [row["message"] for row in table(run, "failures")]
    assert len(said) == 6
    assert all("holds no answer" in message for message in said)
    asked = {row["path"] for row in table(run, "ledger")}
    assert asked == {"analyze", "analyze/repair", "split/questions", "split/questions/repair", "generate"}

    server.change({"replies": {"rules": ANALYSES}})
    assert answer(sample_archive, few, run.path, **told).exit_code == EXIT_FAILURES, "without retry it stays so"
    mended = answer(sample_archive, few, run.path, retry=["failed"], **told)
    assert (mended.exit_code, mended.statuses) == (EXIT_OK, {"answered": 6})
