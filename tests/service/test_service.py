"""A service in this process, without HTTP and Ray: the runs of its days, its caps, and what a restart finds."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.jobs.day_run import days_folder
from okralong.jobs.serve import serve
from okralong.jobs.service import Service, ServiceSetup
from okralong.pipelines.core.config import load_config, shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.rows import BEGUN, table
from okralong.pipelines.serving.asked import AskRequest, Event, Refused, final
from okralong.pipelines.serving.audit import LOG, ServiceLog
from okralong.pipelines.serving.tokens import Caller, Tokens
from tests.conftest import index_plain
from tests.disks import no_room
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import quoting
from tests.service.conftest import RULES, config_of, lines_of

pytestmark = pytest.mark.slow

ADA = Caller("local", None, 100, True)


@pytest.fixture
def setup(sample_folder: Path, plain_archive: Path, endpoint_server: FakeOpenAI, tmp_path: Path) -> ServiceSetup:
    """An archive of its own, under a cap of a dollar, whose versions are looked at before each question."""
    endpoint_server.reset(RULES, models=["gpt-4o-2024-08-06"])
    shutil.copytree(plain_archive, tmp_path / "archive")
    shutil.copytree(sample_folder / "reports", tmp_path / "reports")
    path = config_of(tmp_path, endpoint_server, budget_usd=1.0, serve={"version_poll_s": 1e-9, "grace_s": 1.0})
    return ServiceSetup(str(tmp_path / "archive"), load_config(RunConfig, path), str(tmp_path / "days"))


def running(setup: ServiceSetup) -> Service:
    return Service(setup, Tokens(None, setup.config.serve))


def with_limits(setup: ServiceSetup, **limits: Any) -> ServiceSetup:
    serve = setup.config.serve.model_copy(update=limits)
    return replace(setup, config=setup.config.model_copy(update={"serve": serve}))


async def ask(service: Service, question: str, key: str = "") -> dict[str, Any]:
    return await final(service.ask(ADA, AskRequest(question=question), key))


async def ask_until_refused(service: Service, first: int) -> Refused:
    for number in range(first, first + 30):
        try:
            await ask(service, f"What is thing {number}?")
        except Refused as refused:
            return refused
    raise AssertionError("thirty questions cost less than the budget")


def runs(setup: ServiceSetup) -> list[Path]:
    return sorted(each for each in Path(setup.folder).iterdir() if each.name.startswith("20"))


def index_another(setup: ServiceSetup) -> None:
    """Add a document, and thereby a version."""
    reports = Path(setup.archive).parent / "reports"
    (reports / "new.txt").write_text("Alder Orchards grows apples. It was founded in 1951 by Ines Calder.")
    index_plain(Path(setup.archive), reports)


class Gate:
    """Holds the replies of the endpoint until it is opened."""

    def __init__(self) -> None:
        self.asked, self.open = threading.Event(), threading.Event()

    def __call__(self, _: Any) -> bool:
        self.asked.set()
        return self.open.wait(120)


async def test_a_restart_replays_and_a_newer_version_begins_a_run_under_the_same_cap(
    setup: ServiceSetup, endpoint_server: FakeOpenAI
) -> None:
    async with running(setup) as service:
        first = await ask(service, "What floods?")
        assert not first["replayed"]
    async with running(setup) as service:
        assert await ask(service, "What floods?") == first | {"replayed": True}
        assert (await service.cost(ADA))["tokens"]["local"]["spent_usd"] == pytest.approx(first["cost_usd"])
        assert len(endpoint_server.received) == 1
        index_another(setup)
        second = await ask(service, "What floods?")
        assert not second["replayed"]
        assert [run.name[10:] for run in runs(setup)] == ["", ".2"]
        cost = await service.cost(ADA)
        assert cost["tokens"]["local"]["spent_usd"] == pytest.approx(first["cost_usd"] + second["cost_usd"])
        assert cost["service"]["daily_usd"] == pytest.approx(1.0 - first["cost_usd"])
        found = await service.search(AskRequest(question="Who founded the orchards?", doc_ids=["new"]), 1)
        assert found[0]["document"] == "new"
    for run in runs(setup):
        manifest = Folder.of(run).read_manifest()
        assert manifest is not None
        assert manifest["questions"] == 1
        assert manifest["totals"]["settled_usd"] > 0


async def test_a_client_that_leaves_while_the_run_changes_ends_nothing(
    setup: ServiceSetup, endpoint_server: FakeOpenAI
) -> None:
    gate = Gate()
    async with running(setup) as service:
        endpoint_server.rules = [(gate, quoting)]
        first = asyncio.create_task(ask(service, "What floods?"))
        assert await asyncio.to_thread(gate.asked.wait, 60)
        await asyncio.to_thread(index_another, setup)
        leaves = asyncio.create_task(ask(service, "Who grows apples?"))
        while (await service.facts())["archive_version"] == 1:  # noqa: ASYNC110 - as a client sees it
            await asyncio.sleep(0.01)
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        assert not first.done()
        assert (await service.facts())["status"] == "ok"
        asyncio.get_running_loop().call_later(0.2, gate.open.set)
        answer = await ask(service, "Who grows apples?")
        assert first.done()  # under one cap, a run begins when the one before it has ended
        assert (await first)["status"] == "answered"
        assert not (await ask(service, "Who makes things?"))["replayed"]
        assert (await ask(service, "Who grows apples?")) == answer | {"replayed": True}
    assert [run.name[10:] for run in runs(setup)] == ["", ".2"]
    for run in runs(setup):
        assert Folder.of(run).read_manifest() is not None


async def test_a_question_waits_for_the_change_of_runs_no_longer_than_for_an_answer(
    setup: ServiceSetup, endpoint_server: FakeOpenAI
) -> None:
    gate = Gate()
    endpoint_server.rules = [(gate, quoting)]
    async with running(with_limits(setup, timeout_s=5.0)) as service:
        first = asyncio.create_task(ask(service, "What floods?"))
        assert await asyncio.to_thread(gate.asked.wait, 60)
        await asyncio.to_thread(index_another, setup)
        second = asyncio.create_task(ask(service, "Who grows apples?"))
        for waiting in (first, second):
            with pytest.raises(Refused, match="no answer after 5 s") as refused:
                await waiting
            assert refused.value.status == 504
        gate.open.set()


async def test_two_services_never_write_one_folder(
    setup: ServiceSetup, endpoint_server: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    short = {"llm": setup.config.llm.model_copy(update={"window": 64_000})}  # its answers are of another set-up
    other = replace(setup, config=setup.config.model_copy(update=short))
    async with running(setup), running(other) as second:
        with pytest.raises(Refused, match=r"its service\.log has the reason") as refused:
            await ask(second, "What floods?")
        assert refused.value.status == 503
        assert "an okralong service" in caplog.text
    assert endpoint_server.received == []
    async with running(other) as second:
        assert (await ask(second, "What floods?"))["status"] == "answered"


async def test_the_cap_of_all_holds_over_the_runs_of_a_day(setup: ServiceSetup, endpoint_server: FakeOpenAI) -> None:
    small = replace(setup, config=setup.config.model_copy(update={"budget_usd": 0.03}))
    async with running(small) as service:
        assert (await ask_until_refused(service, 0)).status == 402
    async with running(small) as service:  # the next process knows what was spent
        assert "budget" in str(await ask_until_refused(service, 30))
    assert endpoint_server.bill_usd <= 0.03


async def test_an_answer_that_takes_too_long_is_abandoned_and_its_reply_kept(
    setup: ServiceSetup, endpoint_server: FakeOpenAI
) -> None:
    async with running(with_limits(setup, timeout_s=1.0)) as service:
        endpoint_server.delay_s = 2.0
        with pytest.raises(Refused, match="no answer after") as refused:
            await ask(service, "What floods?")
        assert refused.value.status == 504
        endpoint_server.delay_s = 0.0
        answer: dict[str, Any] = {}
        while not answer:  # it waits for the abandoned one to end, then replays its reply
            with suppress(Refused):
                answer = await ask(service, "What floods?")
        assert answer["status"] == "answered"
    assert len(endpoint_server.received) == 1
    assert [row["status"] for row in table(Folder.of(runs(setup)[0]), "ledger")] == ["ok"]


async def test_an_endpoint_that_is_gone_leaves_search_and_a_503(
    setup: ServiceSetup, endpoint_server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint_server.key = "another"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody-0123456789")
    async with running(setup) as service:
        assert (await service.facts())["status"] == "no generator"
        with pytest.raises(Refused) as refused:
            await ask(service, "What floods?")
        assert refused.value.status == 503
        assert "sk-of-nobody-0123456789" not in str(refused.value)
        assert await service.search(AskRequest(question="floods"), 1)
        endpoint_server.key = None
        assert (await ask(service, "What floods?"))["status"] == "answered"


async def test_a_run_whose_disk_was_full_is_opened_anew(
    setup: ServiceSetup, endpoint_server: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(setup) as service:
        first = await ask(service, "What floods?")
        with no_room(), pytest.raises(Refused, match=r"its service\.log has the reason") as refused:
            await ask(service, "Who makes things?")
        assert refused.value.status == 503
        assert setup.folder not in str(refused.value)
        assert f"The run folder {runs(setup)[0]} cannot be written" in caplog.text
        assert (await ask(service, "Who makes things?"))["status"] == "answered"
        assert await ask(service, "What floods?") == first | {"replayed": True}
        spent = (await service.cost(ADA))["service"]["spent_usd"]
    assert spent == pytest.approx(endpoint_server.bill_usd)
    assert len(runs(setup)) == 1


def test_warnings_are_kept_while_the_folder_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(message: str) -> None:
        log.emit(logging.makeLogRecord({"msg": message, "levelname": "ERROR"}))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    log = ServiceLog(tmp_path / "days")  # not there yet
    warn("no room anywhere")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    warn("no room in the folder")
    (tmp_path / "days").mkdir()
    warn("room again")
    (other,) = tmp_path.glob("okralong-serve-*.log")
    assert [each["message"] for each in lines_of(other)] == ["no room anywhere", "no room in the folder"]
    assert [each["message"] for each in lines_of(tmp_path / "days" / LOG)] == ["room again"]


@pytest.mark.parametrize("surroundings", [1024, None])
async def test_search_needs_nothing_that_the_method_does_not_load(
    setup: ServiceSetup, surroundings: int | None
) -> None:
    policy = yaml.safe_load(shipped_config("policy/default.yaml"))
    policy["fusion"]["surroundings"] = surroundings and {"granularity": surroundings, "weight": 0.5}
    path = Path(setup.folder).with_name("policy.yaml")
    path.write_text(yaml.safe_dump(policy))
    given = {"strategy": "budget_rag", "policy": str(path), "scorer": {"model": "embedded"}}
    config = RunConfig.model_validate(setup.config.model_dump() | given)
    async with running(replace(setup, config=config)) as service:
        assert len(await service.search(AskRequest(question="What floods?"), 3)) == 3
        with pytest.raises(Refused, match="'nothing' matches no document") as refused:
            await service.search(AskRequest(question="What floods?", doc_ids=["nothing"]), 3)
    assert Path(setup.archive).parent.name not in str(refused.value)


async def test_a_version_that_cannot_be_read_leaves_the_one_before(setup: ServiceSetup) -> None:
    versions = Path(setup.archive) / "versions"
    async with running(setup) as service:
        newer = json.loads((versions / "000001.json").read_text()) | {"version": 2, "schema_version": 999}
        (versions / "000002.json").write_text(json.dumps(newer))
        assert (await ask(service, "What floods?"))["status"] == "answered"
        assert (await service.facts())["archive_version"] == 1


async def test_events_come_in_order_for_everybody_who_waits(setup: ServiceSetup) -> None:
    async with running(setup) as service:
        told: list[Event] = [event async for event in service.ask(ADA, AskRequest(question="What floods?"))]
    names = [event.name for event in told]
    assert names.index("plan") < names.index("answer") == len(names) - 1
    assert "sources" in names


def test_the_folder_of_a_day_is_that_of_its_set_up(tmp_path: Path) -> None:
    base = Folder.of(tmp_path)
    assert days_folder(base, "2026-11-28", "a")[0].path.endswith("/2026-11-28")
    for name, fingerprint in (("2026-11-28", "a"), ("2026-11-28.2", "b")):
        base.at(name).create()
        base.at(name).write_bytes(BEGUN, f'{{"fingerprint": "{fingerprint}"}}'.encode())
    for fingerprint, name, others in (("a", "", [".2"]), ("b", ".2", [""]), ("c", ".3", ["", ".2"])):
        found, rest = days_folder(base, "2026-11-28", fingerprint)
        assert found.path.endswith(f"/2026-11-28{name}")
        assert [each.path[-len("2026-11-28.2") :].partition("2026-11-28")[2] for each in rest] == others


def test_a_service_that_others_reach_needs_tokens_and_one_that_pays_a_cap(setup: ServiceSetup) -> None:
    with pytest.raises(ConfigError, match="needs tokens"):
        serve(setup.archive, host="0.0.0.0")
    config = Path(setup.archive).parent / "serve.yaml"
    config.write_text(config.read_text().replace("budget_usd: 1.0", "budget_usd: null"))
    with pytest.raises(ConfigError, match="daily cap"):
        serve(setup.archive, config=str(config))
