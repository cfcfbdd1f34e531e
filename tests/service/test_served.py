"""``okralong serve`` as its clients use it: HTTP, OpenAI's SDK, the MCP SDK's client, and a browser."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import openai
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.export import flat_answers
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import always
from tests.llm.tools import until
from tests.reporting.conftest import browser as browser
from tests.service.conftest import KEY, Served, config_of, lines_of

if TYPE_CHECKING:
    from selenium import webdriver

pytestmark = pytest.mark.slow


def events(reply: httpx2.Response) -> list[tuple[str, dict[str, Any]]]:
    """The server-sent events of a reply."""
    found: list[tuple[str, dict[str, Any]]] = []
    name = ""
    for line in reply.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            found.append((name, json.loads(line.removeprefix("data: "))))
    return found


def audited(served: Served, question: str) -> list[dict[str, Any]]:
    """The audit log's lines of a question. The first is waited for: it is written when the reply has been sent."""
    wanted = hashlib.sha256(question.encode()).hexdigest()
    deadline = time.monotonic() + 60
    while True:
        lines = [line for log in sorted((served.folder / "audit").glob("*")) for line in lines_of(log)]
        if found := [line for line in lines if line.get("question_sha256") == wanted]:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_answer_comes_as_events_with_its_plan_sources_and_citations(served: Served) -> None:
    asked = {"question": "What does the firm grow?", "doc_ids": ["marlstone-*"]}
    with httpx2.stream("POST", f"{served.url}/ask", json=asked, headers=served.headers(), timeout=60) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert "access-control-allow-origin" not in reply.headers
        told = events(reply)
    names = [name for name, _ in told]
    assert names[-1] == "answer"
    assert {"plan", "sources"} <= set(names)
    plan = dict(told)["plan"]
    assert plan["workflow"] == "linear"
    places = [place for name, data in told if name == "sources" for place in data["sources"]]
    assert all(place["document"].startswith("marlstone-") for place in places)
    answer = told[-1][1]
    (cited,) = answer["citations"]
    assert cited["document"].startswith("marlstone-")
    assert cited["link"].startswith("file:///")
    assert cited["end_char"] - cited["start_char"] == len(cited["quote"])
    assert " ".join(cited["quote"].split()).startswith(answer["answer"])
    assert answer["cost_usd"] == pytest.approx(served.server.bill_usd)


def test_a_repeated_question_is_paid_once_and_a_new_key_asks_again(served: Served) -> None:
    with served.client() as client:
        asked = {"question": "What does the firm make?"}
        first = client.post("/ask", json=asked).json()
        with ThreadPoolExecutor(4) as pool:
            again = list(pool.map(lambda _: client.post("/ask", json=asked).json(), range(4)))
        assert not first["replayed"]
        assert all(one == first | {"replayed": True} for one in again)
        assert len(served.server.received) == 1
        anew = client.post("/ask", json=asked, headers={"Idempotency-Key": "anew"}).json()
        assert anew["query_id"] != first["query_id"]
        assert len(served.server.received) == 2


def test_the_same_question_of_several_clients_at_the_same_time_is_asked_once(served: Served) -> None:
    served.server.delay_s = 0.5
    with served.client() as client, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: client.post("/ask", json={"question": "Who sells it?"}).json(), range(8)))
    assert len({reply["answer"] for reply in replies}) == 1
    assert len(served.server.received) == 1


def test_typed_answers_and_filters(served: Served) -> None:
    served.server.rules = [(always, "Answer: yes")]
    with served.client() as client:
        chosen = {"question": "Is there a risk?", "type": "choices", "choices": ["yes", "no"]}
        answer = client.post("/ask", json=chosen).json()
        assert (answer["status"], answer["value"]) == ("answered", "yes")
        wrong = client.post("/ask", json={"question": "What?", "where": "no_such_column = 1"})
        assert wrong.status_code == 422
        assert "no_such_column" in wrong.json()["error"]["message"]
        assert client.post("/ask", json={"question": "What?", "doc_ids": ["nothing"]}).status_code == 422
        assert client.post("/ask", json={"question": "What?", "doc_id": "a"}).status_code == 422
        chat = {"messages": [{"role": "user", "content": "What?"}], "doc_ids": ["a"] * 1_001}
        many = client.post("/v1/chat/completions", json=chat)
        assert many.status_code == 422
        assert "doc_ids: List should have at most 1000 items" in many.json()["error"]["message"]
        broken = client.post("/ask", content=b"{", headers={"Content-Type": "application/json"})
        assert broken.status_code == 422
        assert "the body is not JSON" in broken.json()["error"]["message"]
        assert client.get("/ask").json()["error"]["message"] == "/ask does not take GET. Send POST."
        assert client.get("/asks").json()["error"]["message"] == "There is nothing at /asks."
    assert len(served.server.received) <= 2


def test_a_question_that_fails_is_in_the_audit_log_with_its_cost(served: Served) -> None:
    served.server.rules = [(always, "")]
    with served.client() as client:
        reply = client.post("/ask", json={"question": "What fails?"})
    (last,) = audited(served, "What fails?")
    assert (last["status"], last["endpoint"]) == (reply.status_code, "/ask") == (502, "/ask")
    assert last["cost_usd"] == pytest.approx(served.server.bill_usd)
    assert last["cost_usd"] > 0
    sdk = openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.tokens["ada"])
    with pytest.raises(openai.InternalServerError):
        sdk.chat.completions.create(model="okralong", messages=[{"role": "user", "content": "What fails again?"}])
    assert len(audited(served, "What fails again?")) == 1, "the SDK does not ask, and pay, again"


def test_search_is_free(served: Served) -> None:
    with served.client("poor") as client:
        found = client.get("/search", params={"q": "total revenue", "count": 3}).json()["found"]
        assert len(found) == 3
        assert found[0]["score"] >= found[1]["score"]
        assert "evenue" in found[0]["text"]
        only = client.post("/search", json={"question": "revenue", "doc_ids": [found[0]["document"]]}).json()["found"]
        assert {each["document"] for each in only} == {found[0]["document"]}
    assert served.server.received == []


def test_the_answers_of_the_last_night(served: Served) -> None:
    with served.client("poor") as client:
        whole = client.get("/answers").json()
        assert (whole["night"], whole["total"], len(whole["answers"])) == ("2026-11-27", 6, 6)
        page = client.get("/answers", params={"column": "risk", "limit": 2, "status": "answered"}).json()
        assert (page["total"], page["next_offset"]) == (3, 2)
        rest = client.get("/answers", params={"column": "risk", "limit": 2, "offset": page["next_offset"]}).json()
        assert [each["asked_id"] for each in page["answers"] + rest["answers"]] == ["risk"] * 3
        document = whole["answers"][0]["scope"]
        assert client.get("/answers", params={"document": document}).json()["total"] == 2
        one = client.get(f"/answers/{whole['answers'][0]['query_id']}").json()
        assert one["citations"][0]["quote"] == whole["answers"][0]["quote"]
        assert client.get("/answers/none").status_code == 404


def test_a_token_spends_only_its_own_budget_and_is_refused_before_a_call(served: Served) -> None:
    with served.client("poor") as client:
        refused = client.post("/ask", json={"question": "What is the first thing?"})
    assert refused.status_code == 402
    assert "daily budget of 'poor'" in refused.json()["error"]["message"]
    assert served.server.received == []
    codes = []
    with served.client("small") as client:
        for number in range(40):
            reply = client.post("/ask", json={"question": f"What is thing {number}?"})
            codes.append(reply.status_code)
            if reply.status_code != 200:
                break
        cost = client.get("/cost").json()
    assert set(codes) == {200, 402}
    assert served.server.bill_usd <= 0.04
    assert cost["tokens"] == {"small": cost["tokens"]["small"]}
    assert cost["tokens"]["small"]["spent_usd"] == pytest.approx(served.server.bill_usd)
    assert cost["night"]["name"] == "2026-11-27"
    with served.client() as client:  # others are not affected
        assert client.post("/ask", json={"question": "What else?"}).status_code == 200


def test_the_rate_of_a_token(served: Served) -> None:
    with served.client("slow") as client:
        replies = [client.get("/cost") for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert 1 <= int(replies[2].headers["retry-after"]) <= 60


def test_unknown_tokens_and_foreign_pages_are_refused(served: Served) -> None:
    asked = {"question": "What?"}
    assert httpx2.post(f"{served.url}/ask", json=asked).status_code == 401
    assert httpx2.post(f"{served.url}/mcp", json={}).status_code == 401
    assert httpx2.get(f"{served.url}/v1/models", headers={"Authorization": "Bearer okra_x"}).status_code == 401
    assert httpx2.post(f"{served.url}/ask", json=asked, headers=served.headers(Host="evil.example")).status_code == 421
    foreign = served.headers(Origin="https://evil.example")
    assert httpx2.post(f"{served.url}/ask", json=asked, headers=foreign).status_code == 403
    large = {"question": "x" * 300_000}
    assert httpx2.post(f"{served.url}/ask", json=large, headers=served.headers()).status_code == 413
    pieces = (b" " * 50_000 for _ in range(6))  # sent in chunks, without a length
    chunked = served.headers(**{"Content-Type": "application/json"})
    assert httpx2.post(f"{served.url}/ask", content=pieces, headers=chunked).status_code == 413
    assert httpx2.post(f"{served.url}/ask", json={"question": "x" * 5_000}, headers=served.headers()).status_code == 422
    assert httpx2.get(f"{served.url}/health").json()["status"] == "ok"
    assert served.server.received == []


def test_openai_s_sdk(served: Served) -> None:
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.tokens["ada"], max_retries=0)
    assert [model.id for model in client.models.list()] == ["okralong"]
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What floods?"}]
    whole = client.chat.completions.create(model="okralong", messages=messages)
    message = whole.choices[0].message
    assert message.content is not None
    assert "\n\n[1] " in message.content
    assert message.annotations is not None
    note = message.annotations[0].url_citation
    assert message.content[note.start_index : note.end_index] == "[1]"
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == served.server.received[0].prompt_tokens
    with client.chat.completions.create(
        model="okralong", messages=messages, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == message.content
    assert chunks[-1].usage == whole.usage
    poor = openai.OpenAI(base_url=f"{served.url}/v1", api_key=served.tokens["poor"], max_retries=0)
    for stream_too in (False, True):
        with pytest.raises(openai.APIError, match="daily budget"):
            list(poor.chat.completions.create(model="okralong", messages=messages, stream=stream_too))
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.chat.completions.create(model="gpt-4o", messages=messages)


async def test_an_mcp_client_over_http(served: Served) -> None:
    async def over(name: str) -> list[Any]:
        http = httpx2.AsyncClient(headers=served.headers(name), timeout=60)
        async with http, Client(streamable_http_client(f"{served.url}/mcp", http_client=http)) as client:
            return await use_tools(client)

    tools, night, found, answer = await over("ada")
    assert {tool.name for tool in tools.tools} == {"search", "ask", "tonight"}
    assert night.structured_content["total"] == 3
    assert "Night 2026-11-27: answers 1 to 3 of 3." in night.content[0].text
    assert len(found.structured_content["found"]) == 2
    assert not answer.is_error
    assert "\n\n[1] " in answer.content[0].text
    assert answer.structured_content["cost_usd"] == pytest.approx(served.server.bill_usd)
    refused = (await over("poor"))[3]
    assert refused.is_error
    assert "daily budget of 'poor'" in refused.content[0].text


async def use_tools(client: Client) -> list[Any]:
    """The table of the night, passages, and an answer to a question of its own."""
    return [
        await client.list_tools(),
        await client.call_tool("tonight", {"column": "revenue"}),
        await client.call_tool("search", {"query": "revenue", "count": 2}),
        await client.call_tool("ask", {"question": "What of the roads?"}),
    ]


async def test_an_mcp_client_over_stdio(
    plain_archive: Path, endpoint_server: FakeOpenAI, night: Path, tmp_path: Path
) -> None:
    words = ["-m", "okralong", "mcp", str(plain_archive), "--config", str(config_of(tmp_path, endpoint_server))]
    words += ["--night", str(night), "--budget-usd", "0.05", "--folder", str(tmp_path / "days")]
    environment = dict(os.environ) | {"OPENAI_API_KEY": KEY}
    command = StdioServerParameters(command=sys.executable, args=words, env=environment)
    endpoint_server.received.clear()
    async with Client(stdio_client(command)) as client:
        _, night_table, _, answer = await use_tools(client)
        assert night_table.structured_content["total"] == 3
        assert answer.structured_content["status"] == "answered"
        asked = 1
        while not (last := await client.call_tool("ask", {"question": f"What is thing {asked}?"})).is_error:
            asked += 1
            assert asked < 60
    assert "budget" in last.content[0].text
    assert endpoint_server.bill_usd <= 0.05
    (run,) = [each for each in (tmp_path / "days").iterdir() if each.name.startswith("20")]
    answers = flat_answers(Folder.of(run)).to_pylist()
    assert sum(row["status"] == "answered" for row in answers) == asked


FETCH = """
const [url, token, done] = arguments;
fetch(url + "/ask", {
  method: "POST",
  headers: {"Content-Type": "application/json", "Authorization": "Bearer " + token},
  body: JSON.stringify({question: "What does the page ask?"}),
}).then(async (reply) => {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  done({status: reply.status, text});
}).catch((error) => done({status: 0, text: String(error)}));
"""


def test_a_page_of_the_service_s_own_origin_may_fetch_and_others_may_not(
    served: Served, browser: webdriver.Chrome
) -> None:
    browser.set_script_timeout(60)
    browser.get(f"{served.url}/health")
    own = browser.execute_async_script(FETCH, served.url, served.tokens["ada"])
    assert own["status"] == 200
    assert "event: plan" in own["text"]
    assert json.loads(own["text"].strip().rpartition("data: ")[2])["status"] == "answered"
    browser.get("data:text/html,<p>Another page</p>")
    other = browser.execute_async_script(FETCH, served.url, served.tokens["ada"])
    assert other["status"] == 0
    assert len(served.server.received) == 1


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
async def test_a_client_that_leaves_pays_for_no_further_call_and_its_reply_is_kept(served: Served, accept: str) -> None:
    served.server.hold_after = 0
    split = f"What is the total revenue of each company, and what are its costs? ({accept})"
    async with httpx2.AsyncClient(headers=served.headers(Accept=accept), timeout=180) as leaving:
        asking = asyncio.create_task(leaving.post(f"{served.url}/ask", json={"question": split}))
        await until(lambda: bool(served.server.received))
        asking.cancel()
        await asyncio.wait([asking])
    audited(served, split)  # the service has noticed
    served.server.hold_after = None
    await until(lambda: served.rows("ledger")[-1]["status"] == "ok")
    await asyncio.sleep(1.0)
    assert len(served.server.received) == 1
    with served.client() as client:
        answer = client.post("/ask", json={"question": split}).json()
    assert answer["status"] in ("answered", "unanswerable")
    assert answer["calls"] == len(served.server.received)
    assert answer["cost_usd"] == pytest.approx(served.server.bill_usd)


def test_requests_whose_bodies_stop_leave_room_for_others(served: Served) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    head = f"POST /ask HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    replica = served.replica.pid
    with ExitStack() as held:
        for number in range(1_100):
            stalled = held.enter_context(socket.create_connection((host, int(port)), 60))
            whose = "" if number % 100 == 99 else f"Authorization: Bearer {served.tokens['ada']}\r\n"
            stalled.sendall(f"{head}{whose}\r\n{{".encode())
        assert httpx2.get(f"{served.url}/health", timeout=30).status_code == 200
        with served.client("small") as client:
            assert client.get("/search", params={"q": "revenue"}).status_code == 200
        with served.client() as client:
            assert client.get("/cost").json()["error"]["code"] == "rate_limit"
        stalled.settimeout(60)
        assert stalled.recv(100).startswith(b"HTTP/1.1 4")
    with served.client() as client:
        deadline = time.monotonic() + 60
        while client.get("/cost").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    assert served.replica.pid == replica


def test_a_body_that_does_not_arrive_is_refused(served: Served) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    head = f"POST /ask HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
    with socket.create_connection((host, int(port)), 60) as stalled:
        stalled.sendall(f"{head}Authorization: Bearer {served.tokens['ada']}\r\n\r\n".encode())
        for _ in range(12):  # a byte a second is no progress
            time.sleep(1)
            stalled.sendall(b" ")
        assert stalled.recv(100).startswith(b"HTTP/1.1 408")


def test_only_the_owner_reads_what_a_service_writes(served: Served) -> None:
    """The fixture starts it with a umask of 0."""
    found = [served.folder, *served.folder.rglob("*")]
    assert len(found) > 5
    assert [path for path in found if path.stat().st_mode & 0o077] == []


def test_a_killed_replica_comes_back_and_loses_no_paid_reply(served: Served) -> None:
    questions = [{"question": f"What is there to say of number {number}?"} for number in range(12)]
    killed = threading.Event()

    def ask(asked: dict[str, str]) -> dict[str, Any] | None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                reply = httpx2.post(
                    f"{served.url}/ask", json=asked, headers=served.headers(Accept="application/json"), timeout=30
                )
            except httpx2.TransportError:
                continue
            if reply.status_code == 200:
                return dict(reply.json())
            assert reply.status_code in (500, 502, 503), reply.text
            time.sleep(0.3)
        return None

    served.server.delay_s = 0.4
    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, each) for each in questions]
        while sum(each.done() for each in asking) < 3:
            time.sleep(0.05)
        served.replica.kill()
        killed.set()
        answers = [each.result() for each in asking]
    assert all(answer is not None and answer["status"] == "answered" for answer in answers)
    calls = len(served.server.received)
    assert 12 <= calls <= 12 + 4  # at most the calls in flight were made twice
    ledger = {row["query_id"]: row for row in served.rows("ledger") if row["status"] == "ok"}
    assert {answer["query_id"] for answer in answers if answer} <= ledger.keys()
    unknown = [row for row in served.rows("ledger") if row["status"] == "unknown"]
    assert len(unknown) <= 4 + 1
    again = [ask(each) for each in questions]
    assert all(one is not None and one["replayed"] for one in again)
    assert len(served.server.received) == calls


def test_the_day_is_a_run_and_the_audit_log_has_no_secret(served: Served) -> None:
    with served.client() as client:
        answer = client.post("/ask", json={"question": "What is in the log?"}).json()
        whole = client.get("/cost").json()["service"]
    row = next(row for row in flat_answers(Folder.of(served.run)).to_pylist() if row["query_id"] == answer["query_id"])
    assert row["answer"] == answer["answer"]
    billed = sum(row["cost_usd"] for row in served.rows("ledger") if row["status"] in ("ok", "unknown"))
    assert whole["spent_usd"] == pytest.approx(billed)
    (last,) = audited(served, "What is in the log?")
    assert last["query_id"] == answer["query_id"]
    assert (last["token"], last["endpoint"], last["status"]) == ("ada", "/ask", 200)
    assert last["cost_usd"] == pytest.approx(answer["cost_usd"])
    kept = "".join(path.read_text(errors="replace") for path in served.folder.rglob("*") if path.is_file())
    assert KEY not in kept
    assert not any(token in kept for token in served.tokens.values())
    assert "What is in the log?" not in "".join(log.read_text() for log in (served.folder / "audit").iterdir())
