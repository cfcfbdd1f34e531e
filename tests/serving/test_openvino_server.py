"""The embedded generator on OpenVINO, as a client sees it; what it shares with llama.cpp is in the tests beside."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.openvino_server import compilable
from okralong.pipelines.models.serving import EmbeddedServer, choose
from okralong.pipelines.models.weights import cache_folder, repacked_gguf
from tests.processes import wait_until_gone
from tests.serving.test_embedded_server import FIGURES, chat

ASKED = ("What is the capital of France?", FIGURES, FIGURES.replace(" ", "   "), "Write about Zürich and its ☃.", " ")
WINDOW = 512
BOAT = {"type": "object", "properties": {"boats": {"type": "integer"}}, "required": ["boats"]}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    logs = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OKRALONG_CACHE", str(cache_folder()))
        patch.setenv("HOME", str(home))
        running = EmbeddedServer.start(engine="openvino", parallel=3, window=WINDOW, log_folder=logs)
    with running:
        yield running
    assert wait_until_gone(running.pid)
    assert list(logs.iterdir()) == []


def streamed(server: EmbeddedServer, text: str, **more: Any) -> list[dict[str, Any]]:
    messages = [{"role": "user", "content": text}]
    body = {"model": server.model, "messages": messages, "temperature": 0, "stream": True, **more}
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        lines = [line[6:] for line in response.read().decode().splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def refusal(server: EmbeddedServer, text: str, **more: Any) -> dict[str, Any]:
    with pytest.raises(urllib.error.HTTPError) as refused:
        chat(server, text, **more)
    assert refused.value.code == 400
    error: dict[str, Any] = json.load(refused.value)["error"]
    return error


def test_the_first_weights_of_the_name_have_an_identity_of_this_engine(server: EmbeddedServer) -> None:
    assert (server.engine, server.model) == ("openvino", "SmolLM2-135M-Instruct-Q8_0")
    assert server.identity.startswith("openvino:")
    assert server.identity.endswith(":q8_0")


def test_prompts_have_the_tokens_that_llama_cpp_counts(server: EmbeddedServer) -> None:
    with EmbeddedServer.start(engine="llama.cpp", parallel=1, window=WINDOW) as other:
        for text in ASKED:
            counted = [chat(one, text, max_tokens=1)["usage"]["prompt_tokens"] for one in (server, other)]
            assert counted[0] == counted[1], text
        system = [{"role": "system", "content": "Reply in one word."}, {"role": "user", "content": "Hi"}]
        counted = [chat(one, "", messages=system, max_tokens=1)["usage"]["prompt_tokens"] for one in (server, other)]
        assert counted[0] == counted[1]


def test_a_stream_has_the_text_and_usage_of_the_whole_reply(server: EmbeddedServer) -> None:
    whole = chat(server, "Repeat: Zürich ☃ 12", max_tokens=24)
    events = streamed(server, "Repeat: Zürich ☃ 12", max_tokens=24)
    choices = [event["choices"][0] for event in events[:-1]]
    assert "".join(choice["delta"]["content"] for choice in choices) == whole["choices"][0]["message"]["content"]
    assert choices[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert events[-1]["usage"] == whole["usage"]


def test_a_whole_reply_tells_when_its_first_token_came(server: EmbeddedServer) -> None:
    replies = [chat(server, text, max_tokens=8) for text in ("Hi", FIGURES)]
    assert all(reply["timings"]["prompt_ms"] > 0 for reply in replies)


def test_a_reply_ends_at_its_limit_at_a_stop_or_by_itself(server: EmbeddedServer) -> None:
    counting = "Count from one to five."
    limited = chat(server, counting, max_tokens=4)
    assert (limited["choices"][0]["finish_reason"], limited["usage"]["completion_tokens"]) == ("length", 4)
    text = limited["choices"][0]["message"]["content"]
    stopped = chat(server, counting, max_tokens=40, stop=[text[-1]])["choices"][0]
    assert stopped["finish_reason"] == "stop"
    assert stopped["message"]["content"] == text[: text.index(text[-1])]
    assert chat(server, counting, max_tokens=4, grammar='root ::= "1"')["choices"][0]["finish_reason"] == "stop"


def test_more_requests_than_places_are_each_served_by_their_own_terms(server: EmbeddedServer) -> None:
    def said(number: int) -> tuple[str, int]:
        reply = chat(server, "Count.", max_tokens=6, grammar=f'root ::= "{number}" " {number}"*')
        return reply["choices"][0]["message"]["content"].split()[0], reply["usage"]["completion_tokens"]

    with ThreadPoolExecutor(7) as pool:
        replies = list(pool.map(said, range(7)))
    assert [text for text, _ in replies] == [str(number) for number in range(7)]
    assert all(tokens <= 6 for _, tokens in replies)


def test_a_json_schema_is_enforced(server: EmbeddedServer) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "boat", "schema": BOAT}}
    reply = chat(server, "Alder sold 310 boats.", max_tokens=40, response_format=form)
    assert list(json.loads(reply["choices"][0]["message"]["content"])) == ["boats"]


def test_what_cannot_be_served_is_refused_and_the_server_goes_on(server: EmbeddedServer) -> None:
    assert refusal(server, "word " * WINDOW, max_tokens=1)["code"] == "context_length_exceeded"
    assert refusal(server, "Hi", max_tokens=WINDOW)["code"] == "context_length_exceeded"
    assert refusal(server, "", messages=None)["code"] is None
    broken = refusal(server, "Hi", max_tokens=4, grammar="root ::= nowhere")
    assert broken["code"] == "unsupported_grammar"
    assert "nowhere" in broken["message"]
    assert chat(server, "Hi", max_tokens=2)["usage"]["completion_tokens"] == 2


def test_openvino_s_telemetry_leaves_no_trace(server: EmbeddedServer, home: Path) -> None:
    chat(server, "Hi", max_tokens=1)
    assert list(home.iterdir()) == []  # it would keep its client id in ~/intel


def test_long_repetitions_become_unbounded_outside_of_literals() -> None:
    grammar = r'root ::= ("a{0,99}\"{0,50}" | [^"{0,40}]{0,399} "x"){0,3} | [^\]]{0,12}' + "\n"
    assert compilable(grammar) == r'root ::= ("a{0,99}\"{0,50}" | [^"{0,40}]* "x"){0,3} | [^\]]*' + "\n"


def test_other_models_are_left_to_the_other_engines() -> None:
    with pytest.raises(ConfigError, match="'openvino' cannot serve the model"):
        choose(str(repacked_gguf()), "openvino", 1, 512)
