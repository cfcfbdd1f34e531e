from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import openai
import pytest

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.endpoint import check_endpoint
from okralong.pipelines.llm.errors import ApiError, Asked
from okralong.pipelines.llm.providers.base import Connection
from okralong.pipelines.llm.providers.openai import open_client
from okralong.pipelines.llm.providers.stainless import classify
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import config_for


async def test_an_endpoint_is_told_from_one_that_is_down_or_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-rightkey123456")
    with FakeOpenAI(key="sk-rightkey123456") as server:
        good = await check_endpoint(config_for(server))
        assert (good.ok, good.state) == (True, "ready")
        unknown = await check_endpoint(config_for(server, model="other"))
        assert (unknown.ok, unknown.state) == (False, "unknown_model")
        assert "fake-model" in unknown.message
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrongkey123456")
        wrong = await check_endpoint(config_for(server))
        assert (wrong.ok, wrong.state) == (False, "wrong_key")
        assert "sk-wrong" not in wrong.message
        server.key, server.lists_models = None, False
        assert (await check_endpoint(config_for(server))).state == "unchecked"
        gone = config_for(server)
        assert not server.received  # the check is free
    down = await check_endpoint(gone)
    assert (down.ok, down.state) == (False, "down")
    assert "Start the server" in down.message


async def test_openai_without_a_key_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEAM_KEY", raising=False)
    status = await check_endpoint(
        LlmConfig(base_url="https://api.openai.com/v1", model="gpt-4o", api_key_env="TEAM_KEY")
    )
    assert (status.ok, status.state) == (False, "no_key")
    assert "TEAM_KEY" in status.message


async def test_an_api_version_makes_it_an_azure_endpoint() -> None:
    config = LlmConfig(base_url="https://x.openai.azure.com", model="my-gpt", api_version="2024-10-21")
    async with open_client(config, Connection(config.base_url, "k")) as client:
        assert "/openai/deployments/my-gpt" in str(client.base_url)
        assert client.max_retries == 0


async def test_a_request_that_was_never_sent_is_told_from_one_that_may_have_been_billed() -> None:
    async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def sleeps(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            await reader.read()
        writer.close()

    async def met(serve: Any) -> ApiError:
        server = await asyncio.start_server(serve or closes, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        if serve is None:
            server.close()
        config = LlmConfig(base_url=url, model="m")
        try:
            async with open_client(config, Connection(url, "k", 0.5 if serve is sleeps else 60.0)) as client:
                with pytest.raises(openai.APIConnectionError) as caught:
                    await client.models.list()
        finally:
            server.close()
        return classify(openai, caught.value, Asked(url, "m", "OPENAI_API_KEY"), "k")

    gone, closed, slow = await met(None), await met(closes), await met(sleeps)
    late = classify(openai, TimeoutError(), Asked("http://a/v1", "m", "OPENAI_API_KEY"), "k")
    assert (late.status, late.timed_out, late.retry) == ("unknown", True, True)
    assert [(each.status, each.timed_out) for each in (gone, closed, slow)] == [
        ("failed", False),
        ("unknown", False),
        ("unknown", True),
    ]
    assert "Connection refused" in gone.message
    assert "the server closed the connection" in closed.message


async def test_an_upload_to_a_server_that_reads_nothing_ends() -> None:
    async def sleeps(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        writer.close()

    server = await asyncio.start_server(sleeps, "127.0.0.1", 0, limit=1024)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        opened = open_client(LlmConfig(base_url=url, model="m"), Connection(url, "k", 0.3, uploads=True))
        async with asyncio.timeout(180), opened as client:
            with pytest.raises(openai.APITimeoutError):
                await client.files.create(file=("requests.jsonl", b"a" * 30_000_000), purpose="batch")
    finally:
        server.close()


async def test_a_proxy_that_is_none_of_http_is_refused_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks5://anna:secret@127.0.0.1:9")
    config = LlmConfig(base_url="https://models.example/v1", model="m")
    with pytest.raises(ConfigError, match=r"proxy socks5://127\.0\.0\.1:9, but only HTTP proxies") as caught:
        open_client(config, Connection(config.base_url, "k"))
    assert "secret" not in str(caught.value)
