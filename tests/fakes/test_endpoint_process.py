from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import openai
import pytest

from tests.fakes.calls import chat
from tests.fakes.endpoint.process import ROOT, EndpointProcess

pytestmark = pytest.mark.slow

ORPHAN = """
import time
from tests.fakes.endpoint.process import EndpointProcess
with EndpointProcess() as server:
    print(server.pid, flush=True)
    time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that ended but that nobody has waited for is a zombie, and as good as gone.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive(pid)


async def test_the_process_is_real_and_gone_after_the_context() -> None:
    with EndpointProcess({"replies": {"rules": [{"text": "Paris"}]}}) as server:
        pid, port = server.pid, int(server.base_url.split(":")[2].split("/")[0])
        assert pid != os.getpid()
        assert is_alive(pid)
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0) as client:
            assert (await chat(client, "Capital of France?")).choices[0].message.content == "Paris"
        assert server.log().startswith("http://127.0.0.1:")
    assert not is_alive(pid)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def test_it_does_not_outlive_a_parent_that_was_killed(tmp_path: Path) -> None:
    # A killed parent cannot clean up, so what it leaves must lie where pytest does.
    command, environment = [sys.executable, "-c", ORPHAN], {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        os.kill(parent.pid, signal.SIGKILL)
    assert gone_within(pid, 60)


async def test_the_journal_tells_requests_apart_without_their_keys(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    await chat(client, "one")
    await chat(client, "one")
    await chat(client.with_options(api_key="sk-another-0123456789"), "two")
    one, again, other = server.received("chat")
    assert one["request_hash"] == again["request_hash"] != other["request_hash"]
    assert one["key"] == again["key"] != other["key"]
    assert "sk-" not in json.dumps([server.received(), server.state()])
    assert one["at_s"] <= one["admitted_s"] <= again["at_s"]
    assert len({one["request_id"], again["request_id"], other["request_id"]}) == 3
    assert {entry["status"] for entry in (one, again, other)} == {200}
