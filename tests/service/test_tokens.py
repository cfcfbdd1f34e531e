"""Tokens, rates, the guard's checks and the texts of replies, without a server."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.config import ServeConfig
from okralong.pipelines.serving.asked import AskRequest, Event, Refused, caller_of, query_id_of
from okralong.pipelines.serving.audit import AuditLog
from okralong.pipelines.serving.guard import Guard, caller_in, notes_in, with_cors
from okralong.pipelines.serving.openai_chat import ChatRequest, completion, written
from okralong.pipelines.serving.tokens import LOCAL, RequestRates, Tokens, add_token


def test_a_token_is_known_by_its_hash_and_refused_once_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    ada, bob = add_token(path, "ada", 1.5, 30), add_token(path, "bob", 0.25, 10)
    assert ada not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    tokens = Tokens(path, ServeConfig())
    found = tokens.caller(f"Bearer {ada}")
    assert found is not None
    assert (found.name, found.daily_usd, found.requests_per_minute, found.sees_all) == ("ada", 1.5, 30, False)
    for wrong in ("", ada, f"Basic {ada}", "Bearer ", f"Bearer {ada}x"):
        assert tokens.caller(wrong) is None
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[: next(at for at, line in enumerate(lines) if "bob" in line)]))
    assert tokens.caller(f"Bearer {bob}") is None
    assert tokens.caller(f"bearer {ada}") is not None
    path.write_text("tokens: [")  # an editor saved half of it
    assert tokens.caller(f"Bearer {ada}") is not None
    path.unlink()
    assert tokens.caller(f"Bearer {ada}") is None


def test_a_file_of_tokens_that_was_away_counts_again(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    ada = add_token(path, "ada", 1.5, 30)
    tokens = Tokens(path, ServeConfig())
    path.rename(tmp_path / "away")
    assert tokens.caller(f"Bearer {ada}") is None
    (tmp_path / "away").rename(path)
    assert tokens.caller(f"Bearer {ada}") is not None


def test_a_name_is_used_once_and_has_no_dot(tmp_path: Path) -> None:
    add_token(tmp_path / "t.yaml", "ada", 1.0, 1)
    with pytest.raises(ConfigError, match="already"):
        add_token(tmp_path / "t.yaml", "ada", 1.0, 1)
    with pytest.raises(ConfigError, match="letters"):
        add_token(tmp_path / "t.yaml", "ada.b", 1.0, 1)
    with pytest.raises(ConfigError, match="new-token"):
        Tokens(tmp_path / "missing.yaml", ServeConfig())


def test_rates_count_the_last_minute() -> None:
    now = [0.0]
    rates = RequestRates(lambda: now[0])
    caller = Tokens(None, ServeConfig(requests_per_minute=2)).caller("")
    assert caller is not None
    assert caller.name == LOCAL
    assert [rates.wait_s(caller) for _ in range(3)] == [0, 0, 60]
    now[0] = 59.5
    assert rates.wait_s(caller) == 1
    now[0] = 60.0
    assert rates.wait_s(caller) == 0


def test_an_id_is_that_of_the_same_request_only() -> None:
    asked = AskRequest(question="What?", doc_ids=["a"])
    same = query_id_of("ada", asked, "setup", "")
    others = [
        query_id_of("bob", asked, "setup", ""),
        query_id_of("ada", AskRequest(question="What?"), "setup", ""),
        query_id_of("ada", asked, "other", ""),
        query_id_of("ada", asked, "setup", "again"),
    ]
    assert same == query_id_of("ada", AskRequest(question="What?", doc_ids=["a"]), "setup", "")
    assert len({same, *others}) == 5
    assert caller_of(same) == "ada"
    assert caller_of("artifact/raptor/report.txt") == ""


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"question": "x" * 51}, "51 characters"),
        ({"question": "x", "type": "/etc/schema.json"}, "names a file"),
        ({"question": "x", "doc_ids": ["each"]}, "each"),
        ({"question": "x", "type": "pounds"}, "not known"),
        ({"question": " "}, "question"),
        ({"question": "x", "type": '{"pattern": "(a+)+", "type": "string"}'}, "very long: it has the keyword pattern"),
    ],
)
def test_questions_that_are_refused(asked: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        AskRequest(**asked).to_question("q", 50)
    assert refused.value.status == 422
    assert "row 1" not in str(refused.value)


def guarded(tmp_path: Path, host: str = "127.0.0.1", **limits: Any) -> tuple[httpx2.AsyncClient, str, Path]:
    """A client of a guarded application that echoes the request, a token, and the audit log's folder."""
    config = ServeConfig(most_body_bytes=1024, **limits)
    token = add_token(tmp_path / "tokens.yaml", "ada", 1.0, 5)

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        notes_in(scope).update(question="a secret question", query_id="ada.1", cost_usd=0.5)
        await JSONResponse({"caller": caller_in(scope).name, "bytes": len(body)})(scope, receive, send)

    audit = AuditLog(tmp_path / "audit", config.audit_questions)
    guard = Guard(echo, host, config, Tokens(tmp_path / "tokens.yaml", config), audit)
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(guard), base_url="http://127.0.0.1:8100")
    return client, token, tmp_path / "audit"


async def test_the_guard_refuses_and_logs_without_secrets(tmp_path: Path) -> None:
    client, token, audit = guarded(tmp_path)
    good = {"Authorization": f"Bearer {token}"}
    replies = [
        await client.post("/ask", json={}),
        await client.post("/ask", json={}, headers=good | {"Host": "evil.example"}),
        await client.post("/ask", json={}, headers=good | {"Origin": "https://evil.example"}),
        await client.post("/ask", json={}, headers=good | {"Origin": "http://localhost:8100"}),
        await client.post("/ask", content="{}", headers=good | {"Content-Type": "text/plain"}),
        await client.post("/ask", json={"x": "x" * 2000}, headers=good),
        await client.post("/ask", json={}, headers=good | {"Origin": "http://127.0.0.1:8100"}),
        *[await client.get("/cost", headers=good) for _ in range(3)],
    ]
    assert [reply.status_code for reply in replies] == [401, 421, 403, 403, 415, 413, 200, 200, 200, 429]
    assert replies[0].headers["WWW-Authenticate"] == "Bearer"
    assert 1 <= int(replies[-1].headers["Retry-After"]) <= 60
    assert replies[-1].json()["error"]["code"] == "rate_limit"
    (log,) = audit.iterdir()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["status"] for row in rows] == [reply.status_code for reply in replies]
    assert rows[6]["token"] == "ada"
    assert rows[6]["cost_usd"] == 0.5
    assert len(rows[6]["question_sha256"]) == 64
    assert token not in log.read_text()
    assert "secret" not in log.read_text()


async def test_pages_of_an_allowed_origin_ask_without_a_token_first_and_read_refusals(tmp_path: Path) -> None:
    config = ServeConfig(allowed_origins=["https://a.example"])
    add_token(tmp_path / "tokens.yaml", "ada", 1.0, 5)

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("a request without a token reaches no route")

    audit = AuditLog(tmp_path / "audit", "hash")
    guard = Guard(never, "127.0.0.1", config, Tokens(tmp_path / "tokens.yaml", config), audit)
    transport = httpx2.ASGITransport(with_cors(guard, config))
    page = {"Origin": "https://a.example"}
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8100") as client:
        for reply, status in (
            (await client.options("/ask", headers=asks | page), 200),
            (await client.post("/ask", json={}, headers=page), 401),
        ):
            assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (status, "https://a.example")
        for reply, status in (
            (await client.options("/ask", headers=asks | {"Origin": "https://b.example"}), 400),
            (await client.options("/ask", headers=page), 401),
            (await client.post("/ask", json={}, headers={"Origin": "https://b.example"}), 403),
        ):
            assert reply.status_code == status
    assert with_cors(guard, ServeConfig()) is guard


async def test_no_stream_of_an_mcp_server_without_sessions_stays_open(tmp_path: Path) -> None:
    client, token, _ = guarded(tmp_path)
    assert (await client.get("/mcp")).status_code == 401
    assert (await client.get("/mcp", headers={"Authorization": f"Bearer {token}"})).status_code == 405


async def test_a_path_makes_one_line_of_the_log_of_bounded_length(tmp_path: Path) -> None:
    client, _, audit = guarded(tmp_path)
    await client.get("/x%E2%80%A8%0A" + "x" * 5_000)
    (log,) = audit.iterdir()
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["endpoint"] == "/x\u2028\n" + "x" * 196


def test_events_have_no_other_ends_of_lines() -> None:
    text = Event("answer", {"quote": "first\u2028data: {}\x85\nsecond"}).sse()
    assert len(text.splitlines()) == 3
    assert json.loads(text.splitlines()[1].removeprefix("data: "))["quote"] == "first\u2028data: {}\x85\nsecond"


async def test_a_service_for_others_is_reached_by_any_name_unless_some_are_listed(tmp_path: Path) -> None:
    client, token, _ = guarded(tmp_path, "0.0.0.0")
    good = {"Authorization": f"Bearer {token}", "Host": "archive.example"}
    assert (await client.get("/cost", headers=good)).status_code == 200
    (tmp_path / "tokens.yaml").unlink()
    client, token, _ = guarded(
        tmp_path, "0.0.0.0", allowed_hosts=["archive.example"], allowed_origins=["https://a.example"]
    )
    good = {"Authorization": f"Bearer {token}", "Host": "archive.example"}
    assert (await client.get("/cost", headers=good | {"Origin": "https://a.example"})).status_code == 200
    assert (await client.get("/cost", headers=good | {"Host": "other.example"})).status_code == 421


ANSWER: dict[str, Any] = {
    "query_id": "ada.1",
    "status": "answered",
    "answer": "$12 million",
    "citations": [
        {
            "document": "a.pdf",
            "title": "Report",
            "place": "page 3",
            "quote": "rose to\n$12 million",
            "link": "file:///a.pdf#page=3",
        },
        {"document": "b", "title": None, "place": None, "quote": "12"},
    ],
    "prompt_tokens": 10,
    "completion_tokens": 2,
    "cached_tokens": None,
}


def test_sources_are_numbered_and_annotated() -> None:
    text, annotations = written(ANSWER)
    assert text.splitlines() == ["$12 million [1] [2]", "", "[1] Report, page 3: “rose to $12 million”", "[2] b: “12”"]
    places = [note["url_citation"] for note in annotations]
    assert [text[each["start_index"] : each["end_index"]] for each in places] == ["[1]", "[2]"]
    assert [each["url"] for each in places] == ["file:///a.pdf#page=3", "okralong:b"]
    assert completion(ANSWER)["usage"]["total_tokens"] == 12
    assert written(ANSWER | {"status": "unanswerable"}) == (
        "No answer (unanswerable). The documents do not say it.",
        [],
    )


def test_the_last_message_of_the_user_is_the_question() -> None:
    messages = [
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": [{"type": "text", "text": "Second?"}]},
    ]
    asked = ChatRequest(messages=messages, where="year = 2023", temperature=1).to_asked()  # type: ignore[call-arg]
    assert (asked.question, asked.where) == ("Second?", "year = 2023")
    for wrong in ({"model": "gpt-4o"}, {"n": 2}, {"tools": [{}]}, {"messages": [{"role": "system", "content": "x"}]}):
        with pytest.raises(Refused):
            ChatRequest(**{"messages": messages, **wrong}).to_asked()
