"""A run sends a tree of spans for each question, and its figures are the ledger's; without telemetry it sends none."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from okralong.pipelines.core import telemetry as telemetry_module
from okralong.pipelines.core.spans import TelemetryConfig
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.telemetry import Phases, TelemetrySetup, started
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.fakes.otlp_collector import OtlpCollector, ReceivedSpan, otlp_collector
from tests.jobs.conftest import PAPER, always, endpoint, quoting, splits
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

ASKED = 6
SECRET = "collector-key-0123456789"


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with otlp_collector() as kept:
        yield kept


@pytest.fixture
def questions(sample_folder: Path, tmp_path: Path) -> Path:
    """Some of the sample's questions, one of them to be split."""
    lines = (sample_folder / "questions.jsonl").read_text().splitlines()
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(lines[:: len(lines) // ASKED][:ASKED]))
    return file


@pytest.fixture
def reader() -> Iterator[FakeOpenAI]:
    rules: list[Any] = [(splits, "What is the revenue of 2022?\nWhat is the revenue of 2023?"), (always, quoting)]
    with FakeOpenAI(rules=rules, models=["gpt-4o-2024-08-06"]) as server:
        yield server


def check_trees(spans: list[ReceivedSpan], rows: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> None:
    """One tree for each question; its calls, tokens and dollars are those of the ledger."""
    roots = {span.attributes["okralong.query_id"]: span for span in spans if span.name == "question"}
    assert set(roots) == {row["query_id"] for row in rows}
    for row in rows:
        root = roots[row["query_id"]]
        mine = {span.id: span for span in spans if span.trace == root.trace}
        assert len(mine) == sum(span.trace == root.trace for span in spans), "no id twice"
        assert [span.name for span in mine.values() if not span.parent] == ["question"]
        for span in mine.values():
            assert not span.parent or span.parent in mine, (span.name, span.attributes)
            assert span.end_ns >= span.start_ns
        assert root.attributes["okralong.status"] == row["status"]
        calls = [span for span in mine.values() if span.attributes.get("gen_ai.operation.name") == "chat"]
        paid = [one for one in ledger if one["query_id"] == row["query_id"] and one["status"] == "ok"]
        assert len(calls) == len(paid)
        for column, name in (
            ("prompt_tokens", "gen_ai.usage.input_tokens"),
            ("completion_tokens", "gen_ai.usage.output_tokens"),
            ("cached_tokens", "gen_ai.usage.cache_read.input_tokens"),
            ("cost_usd", "okralong.cost_usd"),
        ):
            assert sum(call.attributes[name] for call in calls) == pytest.approx(sum(one[column] for one in paid))
        for call in calls:
            assert mine[call.parent].attributes["okralong.path"] == call.attributes["okralong.path"]
            assert call.attributes["gen_ai.provider.name"] == "openai"
            assert call.attributes["gen_ai.request.model"] == "gpt-4o-2024-08-06"


def parts(messages: str) -> list[dict[str, str]]:
    return [part for message in json.loads(messages) for part in message["parts"]]


def no_text(collector: OtlpCollector, rows: list[dict[str, Any]]) -> None:
    """Nothing that was sent has the words of a question or an answer."""
    sent = b"".join(collector.raw)
    for row in rows:
        assert row["question"].encode() not in sent
        assert len(row["answer"]) < 20 or row["answer"].encode() not in sent


def test_a_run_in_this_process_sends_a_tree_for_each_question(
    plain_archive: Path,
    questions: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    collector: OtlpCollector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLLECTOR_HEADERS", f"x-api-key={SECRET}")
    reader.troubles = [Trouble(status=500)]
    telemetry = {"endpoint": collector.url, "headers_env": "COLLECTOR_HEADERS"}
    given = {"policy": PAPER, "telemetry": telemetry, **endpoint(reader)}
    done = answer(plain_archive, questions, tmp_path / "run", **given)
    assert done.statuses == {"answered": ASKED}
    run = Folder.of(str(tmp_path / "run"))
    rows, ledger = table(run, "answers"), table(run, "ledger")
    check_trees(collector.spans, rows, ledger)
    no_text(collector, rows)
    assert any(span.name == "branch" for span in collector.spans), "a question was split"
    assert {each["x-api-key"] for each in collector.headers} == {SECRET}
    assert SECRET not in (tmp_path / "run" / "run.json").read_text()

    retried = [span for span in collector.spans if any(name == "okralong.retry" for name, _, _ in span.events)]
    assert [span.attributes["okralong.attempts"] for span in retried] == [2]
    assert retried[0].events[0][2]["error.type"] == "500"
    job = next(span for span in collector.spans if span.name == "okralong answer")
    assert {span.links[0] for span in collector.spans if span.name == "question"} == {(job.trace, job.id)}
    phases = [span.name for span in collector.spans if span.parent == job.id]
    assert phases == ["generator", "models", "questions", "end"]

    calls = Counter(row["status"] for row in ledger)
    told = collector.metrics["okralong.llm.calls"]
    assert {dict(key)["okralong.status"]: value for key, value in told.items()} == calls
    assert sum(collector.metrics["okralong.questions"].values()) == ASKED
    spent = sum(row["cost_usd"] for row in ledger)
    assert sum(collector.metrics["okralong.llm.cost"].values()) == pytest.approx(spent)
    by_kind = {dict(key)["gen_ai.token.type"]: value for key, value in collector.metrics[TOKENS].items()}
    assert by_kind["input"] == sum(row["prompt_tokens"] for row in ledger)
    assert by_kind["output"] == sum(row["completion_tokens"] for row in ledger)


TOKENS = "gen_ai.client.token.usage"


def test_a_run_on_ray_sends_the_same_trees_from_several_processes(
    ray_cluster: None,
    plain_archive: Path,
    questions: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    collector: OtlpCollector,
) -> None:
    given = {"policy": PAPER, "own_process": 0, "planners": 2, "telemetry.endpoint": collector.url, **endpoint(reader)}
    done = answer(plain_archive, questions, tmp_path / "run", **given)
    assert done.statuses == {"answered": ASKED}
    run = Folder.of(str(tmp_path / "run"))
    rows = table(run, "answers")
    check_trees(collector.spans, rows, table(run, "ledger"))
    no_text(collector, rows)
    assert len({span.instance for span in collector.spans}) == 4, "the command, two planners and the gateway"
    branches = {span.id: span for span in collector.spans if span.name == "branch"}
    below = [span for span in collector.spans if span.parent in branches]
    assert any(span.instance != branches[span.parent].instance for span in below), "a branch on the other planner"
    assert sum(collector.metrics["okralong.questions"].values()) == ASKED


def test_texts_are_sent_if_the_config_says_so_and_only_of_the_sample(
    plain_archive: Path,
    questions: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    collector: OtlpCollector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # By a run's own seed all of the questions are in the sample, or none is, once in 32 runs.
    monkeypatch.setattr(telemetry_module, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex="seed")))
    given = {"policy": PAPER, **endpoint(reader)}
    telemetry = {"endpoint": collector.url, "text": True, "sample": 0.5, "metrics": False}
    answer(plain_archive, questions, tmp_path / "run", telemetry=telemetry, **given)
    rows = {row["query_id"]: row for row in table(Folder.of(str(tmp_path / "run")), "answers")}
    roots = [span for span in collector.spans if span.name == "question"]
    assert 1 <= len(roots) < ASKED
    assert {span.trace for span in collector.spans if span.parent} <= {span.trace for span in roots} | {
        span.trace for span in collector.spans if span.name == "okralong answer"
    }
    for root in roots:
        row = rows[root.attributes["okralong.query_id"]]
        assert root.attributes["okralong.question"] == row["question"]
        mine = [span.attributes for span in collector.spans if span.trace == root.trace]
        calls = [each for each in mine if each.get("okralong.role") == "generate"]
        prompts = [each["content"] for one in calls for each in parts(one["gen_ai.input.messages"])]
        assert any(row["question"] in prompt for prompt in prompts)
        assert all(parts(each["gen_ai.output.messages"])[0]["content"].startswith("Evidence:") for each in calls)
    assert not collector.metrics


@pytest.mark.parametrize("collecting", ["hangs", "is not there"])
def test_a_collector_that_does_not_answer_stops_and_slows_no_run(
    plain_archive: Path, questions: Path, tmp_path: Path, reader: FakeOpenAI, collecting: str
) -> None:
    with otlp_collector(hangs=True) as collector:
        url = collector.url if collecting == "hangs" else "http://127.0.0.1:9"
        begun = time.monotonic()
        telemetry = {"endpoint": url, "timeout_s": 1.0}
        given = {"policy": PAPER, "telemetry": telemetry, **endpoint(reader)}
        done = answer(plain_archive, questions, tmp_path / "run", **given)
        assert done.statuses == {"answered": ASKED}
        answered = max(row["finished_at"] for row in table(Folder.of(str(tmp_path / "run")), "answers"))
        assert time.time() - answered.timestamp() < 50, "the collector, which hangs for a minute, is not waited for"
        assert time.monotonic() - begun < 180


def test_nothing_is_imported_while_telemetry_is_off() -> None:
    code = (
        "import sys, okralong.actors.host, okralong.actors.gateway, okralong.pipelines.core.telemetry as t\n"
        "from okralong.pipelines.core.spans import TelemetryConfig\n"
        "with t.started(TelemetryConfig(), 'run', 'answer') as telemetry: assert telemetry is None\n"
        "print(json.dumps([m for m in sys.modules if m.startswith('opentelemetry.exporter.otlp')]))"
    )
    done = subprocess.run([sys.executable, "-c", f"import json\n{code}"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_an_unusable_config_is_refused_before_anything_is_spent(
    plain_archive: Path, questions: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    with pytest.raises(ConfigError, match="NO_SUCH_VARIABLE"):
        answer(
            plain_archive,
            questions,
            tmp_path / "run",
            telemetry={"endpoint": "http://127.0.0.1:9", "headers_env": "NO_SUCH_VARIABLE"},
            **endpoint(reader),
        )
    assert reader.received == []
    secret = "name:secret0123456789"
    for given in (
        {"endpoint": f"https://{secret}@collector.example"},
        {"endpoint": f"https://collector.example/?key={secret}"},
        {"endpoint": f"collector.example/{secret}"},
        {"headers_env": f"authorization={secret}"},
    ):
        with pytest.raises(ConfigError, match=r"telemetry\.") as refused:
            TelemetryConfig(**given)
        assert secret not in str(refused.value)


def test_the_jobs_of_a_night_are_one_trace_over_one_connection(collector: OtlpCollector) -> None:
    config = TelemetryConfig(endpoint=collector.url)
    with started(config, "nightly", "okralong night", {"okralong.night": "2026-11-28"}) as night:
        assert night is not None
        with night.phase("index"), started(config, "archive", "okralong index") as index:
            assert index is not None
            phases = Phases(index)
            for stage in ("list", "read", "read", "build"):
                phases.begin(stage)
                phases.note(files=3)
            phases.end()
        with night.phase("answer"), suppress(KeyError), started(config, "run", "okralong answer", None, (KeyError,)):
            raise KeyError
    named = {span.name: span for span in collector.spans}
    assert [span.name for span in collector.spans if not span.parent] == ["okralong night"]
    above = {
        span.name: next((one.name for one in collector.spans if one.id == span.parent), "") for span in named.values()
    }
    assert above == {
        "okralong night": "",
        "index": "okralong night",
        "okralong index": "index",
        "list": "okralong index",
        "read": "okralong index",
        "build": "okralong index",
        "answer": "okralong night",
    }, "a job that has not begun has no span"
    assert len({span.trace for span in collector.spans}) == len({span.instance for span in collector.spans}) == 1
    assert named["read"].attributes["okralong.files"] == 3
    assert named["okralong night"].attributes["okralong.night"] == "2026-11-28"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.delitem(sys.modules, "okralong.pipelines.core.otlp", raising=False)
    with pytest.raises(ConfigError, match=r"pip install '\.\[otel\]' in the checkout"):
        TelemetrySetup(TelemetryConfig(endpoint="http://127.0.0.1:9"), "run").open()
