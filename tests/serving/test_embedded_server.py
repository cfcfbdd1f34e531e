"""The embedded generator as a client sees it, and what is left when its driver goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from okralong.pipelines.core.child_process import module_environment
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import ConfigError, EndpointError
from okralong.pipelines.models import serving
from okralong.pipelines.models.serving import EmbeddedServer
from okralong.pipelines.models.weights import converted_model, repacked_gguf
from tests.processes import alive, wait_until_gone

DRIVER = """
import sys
import time
from okralong.pipelines.models.serving import EmbeddedServer
server = EmbeddedServer.start(engine=sys.argv[1], parallel=1, window=512)
print(server.pid, server.base_url, flush=True)
time.sleep(600)
"""


def chat(server: EmbeddedServer, text: str, **more: Any) -> dict[str, Any]:
    body = {"model": server.model, "messages": [{"role": "user", "content": text}], "temperature": 0, **more}
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        reply: dict[str, Any] = json.load(response)
        return reply


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    logs = tmp_path_factory.mktemp("logs")
    with EmbeddedServer.start(engine="llama.cpp", parallel=3, window=1024, log_folder=logs) as running:
        yield running
    assert wait_until_gone(running.pid)
    assert list(logs.iterdir()) == []


def test_completion_with_true_usage(server: EmbeddedServer) -> None:
    reply = chat(server, "What is the capital of France?", max_tokens=4)
    assert reply["model"] == server.model
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 4
    assert 10 < reply["usage"]["prompt_tokens"] < 60
    assert server.base_url.startswith("http://127.0.0.1:")


def test_usage_counts_as_the_tokenizer_does(server: EmbeddedServer) -> None:
    count = token_counter(server.tokenizer)
    short, long = "Revenue rose.", "Revenue rose by 12,345 dollars in Öland — see note 7.\n" * 5
    used = [chat(server, text, max_tokens=1)["usage"]["prompt_tokens"] for text in (short, long)]
    assert used[1] - used[0] == count(long.strip()) - count(short) or used[1] - used[0] == count(long) - count(short)


FIGURES = "| Net sales |   12,345 |  1 807.25 | (3.1)% |\n\n  2019  in   Öland: ٣٤ x² ½ — it's 007's\t\t42\n   \n12"


def test_transformers_and_the_server_read_the_same_tokens(server: EmbeddedServer) -> None:
    """What is trained on one must be served on the other: figures in aligned tables are where they once differed."""
    for folder in (converted_model(), server.tokenizer):
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        for text in (
            FIGURES,
            FIGURES.replace(" ", "   "),
            "Revenue rose.",
            "<|im_start|>user\nHow many? 3<|im_end|>\n",
        ):
            body = json.dumps({"content": text, "add_special": False, "parse_special": True}).encode()
            address = f"{server.base_url.removesuffix('/v1')}/tokenize"
            request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as response:
                tokens = json.load(response)["tokens"]
            assert tokenizer(text, add_special_tokens=False)["input_ids"] == tokens


def test_requests_at_once_share_the_server(server: EmbeddedServer) -> None:
    with ThreadPoolExecutor(3) as pool:
        replies = list(pool.map(lambda n: chat(server, f"Count from {n}.", max_tokens=8, ignore_eos=True), range(3)))
    assert [reply["usage"]["completion_tokens"] for reply in replies] == [8, 8, 8]


def test_a_prompt_over_the_window_is_refused(server: EmbeddedServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        chat(server, "word " * 2000, max_tokens=1)
    assert refused.value.code == 400


def test_stop_twice_leaves_no_process() -> None:
    running = EmbeddedServer.start(engine="llama.cpp", parallel=1, window=512)
    running.stop()
    running.stop()
    assert wait_until_gone(running.pid)


@pytest.mark.parametrize("engine", ["llama.cpp", "openvino"])
def test_a_killed_driver_leaves_no_server(engine: str) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, engine], stdout=subprocess.PIPE, text=True, env=module_environment()
    )
    assert driver.stdout is not None
    pid = int(driver.stdout.readline().split()[0])
    assert alive(pid)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert wait_until_gone(pid)


@pytest.mark.parametrize("engine", ["llama.cpp", "openvino"])
def test_broken_weights_end_in_a_clear_error(engine: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(EndpointError, match=r"ended with code .*Its log .* ends: "):
        serving.launch(_served(engine, broken), serving.free_port(), tmp_path / "log", serving.EarlyEnd())


def _served(engine: Any, gguf: Path) -> Any:
    from okralong.pipelines.models.serving import ServedModel, choose

    good = choose("embedded", engine, 1, 512)
    swap = str(repacked_gguf()), str(gguf)
    return ServedModel(
        good.engine,
        good.name,
        good.identity,
        good.tokenizer,
        lambda port: [part.replace(*swap) for part in good.command(port)],
    )


@pytest.mark.parametrize(
    ("model", "engine", "window"),
    [("embedded", "auto", 9000), ("/no/such/model.gguf", "auto", 512), ("no-such-folder", "auto", 512)],
)
def test_what_cannot_be_served_is_refused(model: str, engine: Any, window: int) -> None:
    with pytest.raises(ConfigError):
        EmbeddedServer.start(engine=engine, model=model, window=window)
