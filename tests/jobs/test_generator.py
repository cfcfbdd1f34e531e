"""What a run settles when it starts its generator: the reader, and how that one is asked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from okralong.actors.generator import generator
from okralong.jobs.doctor import examine
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.core.config import load_config, shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Passage
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import CompletionLimits, LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.methods.registry import FullPolicy, describe
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig, fingerprint
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import config_for

pytestmark = pytest.mark.slow

READ = re.compile(r'(Evidence: \[\d+\] "[^\n]+"\n){0,3}(Answer: [^\n]+|Evidence: [^\n]*)')
"""The contract, to which a grammar holds a reply; the last line may be cut short by the token limit."""


def embedded(**more: Any) -> LlmConfig:
    return LlmConfig(base_url=EMBEDDED, model=EMBEDDED, window=1024, **more)


async def test_a_run_with_a_reader_serves_it_and_asks_it_as_it_was_trained(
    random_reader: Path, merge_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKRALONG_CACHE", str(merge_cache))
    limits = CompletionLimits(generate=48)
    with generator(embedded(reader=str(random_reader), max_completion_tokens=limits), tmp_path) as served:
        assert served.llm.demonstrations is True
        assert served.llm.constrained is True
        assert served.facts["reader"]["name"] == "random"
        assert f"+{served.facts['reader']['digest']}:" in served.facts["identity"]
        ledger = RunLedger(Folder.of(tmp_path / "run"), None)
        gateway = Gateway(ledger, [LocalLimiter(Limits(None, None, 1))])
        client = LlmClient(served.llm, gateway, address=served.address, grammar=grammar)
        try:
            prompt = answer_prompt("Who leads Fernhill?", [Passage("d", 0, 20, "Mara Lind leads it.", 0, 0.0)])
            reply = await client.complete("q", "generate", "generate", prompt)
        finally:
            await client.aclose()
            await ledger.close()
    assert reply.text
    assert served.llm.model == f"SmolLM2-135M-Instruct-random-Q8_0@{served.facts['reader']['digest']}"
    assert READ.fullmatch(reply.text), reply.text


def test_the_bare_model_is_shown_an_example_unless_told_otherwise(tmp_path: Path) -> None:
    with generator(embedded(reader="none"), tmp_path) as served:
        assert (served.llm.demonstrations, served.llm.constrained) == (True, False)
        assert served.facts["reader"] is None


@pytest.mark.parametrize(("said", "settled"), [(None, False), (True, True)])
def test_an_endpoint_is_shown_none_unless_told_otherwise(said: bool | None, settled: bool, tmp_path: Path) -> None:
    with (
        FakeOpenAI(models=["fake-model"]) as server,
        generator(config_for(server, demonstrations=said), tmp_path) as served,
    ):
        assert (served.llm.demonstrations, served.llm.constrained) == (settled, False)


def test_a_reader_trained_anew_is_another_run(random_reader: Path, tmp_path: Path) -> None:
    trained = shutil.copytree(random_reader, tmp_path / "mine")
    policy = load_config(FullPolicy, "policy/default.yaml")
    config = load_config(RunConfig, "answer.yaml", {"llm.reader": str(trained)})
    spec = describe(config.strategy, policy)
    first = fingerprint(config, policy, spec, {})
    assert fingerprint(config, policy, spec, {}) == first
    (trained / "reader.json").write_text(json.dumps({"demonstrations": False}))
    assert fingerprint(config, policy, spec, {}) != first


def test_doctor_says_which_reader_is_in_use(
    random_reader: Path, merge_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKRALONG_CACHE", str(merge_cache))
    config = tmp_path / "answer.yaml"
    text = shipped_config("answer.yaml")
    for said, expected in (
        (str(random_reader), r"random, digest [0-9a-f]{12}, trained on 12,800 rows"),
        ("none", "none: .*"),
    ):
        config.write_text(text.replace("reader: shipped", f"reader: {said}"), encoding="utf-8")
        found = {finding.name: finding for finding in examine(str(config), None)}
        assert re.fullmatch(expected, found["reader"].says)
        assert found["endpoint"].ok, found["endpoint"].remedy
