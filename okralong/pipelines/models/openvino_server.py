"""An OpenAI-compatible server that runs a GGUF file on OpenVINO GenAI, for the process of ``engine_process``.

It has one route, ``POST /v1/chat/completions``, with the fields that okralong sends. Simultaneous requests share the
model through continuous batching.
"""

from __future__ import annotations

import codecs
import itertools
import json
import re
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from okralong.pipelines.models.weights import available_cores

PROPERTIES: Final = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f16", "ENABLE_CPU_PINNING": False}
"""With OpenVINO's defaults (bfloat16 where the processor multiplies it, a cache of 8 bits) requests in a batch often
change each other's replies: 4 of 10 did in batches of three, with these properties none. Tokens that are
nearly equally likely may still change (benchmarks/results/engine.md)."""

_LONG_REPETITION: Final = re.compile(r'("(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\])|\{0,\d{2,}\}')
"""Matches literals and character classes, which are kept, and repetitions of up to ten times and more."""

_STREAM_END: Final = b"data: [DONE]\n\n"


class RequestError(Exception):
    """A request that cannot be served, with OpenAI's code for the reason."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Token:
    """A generated token: its text ("" within a character), its log-probability, and why the reply ends with it."""

    text: str
    logprob: float
    finish: str | None


class Model:
    """A loaded model, which threads share; ``window`` limits prompt and reply together, in tokens."""

    def __init__(self, gguf: str, parallel: int, window: int) -> None:
        # Importing openvino reports the import to Google Analytics, unless its telemetry cannot be imported.
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
        import openvino_genai

        self._genai: Any = openvino_genai
        self._gguf, self._parallel, self._window = gguf, parallel, window
        self._pipeline = self._load()
        self._failure = ""
        self._tokenizer: Any = self._pipeline.get_tokenizer()
        self._bytes: dict[int, bytes] = {number: text for text, number in self._tokenizer.get_vocab().items()}
        for number, text in self._bytes.items():
            if text.startswith(b"<") and not self._tokenizer.decode([number]):
                self._bytes[number] = b""  # a special token, such as the end of the reply
        self._numbers = itertools.count()
        self._stepped = threading.Condition()
        threading.Thread(target=self._generate, name="generate", daemon=True).start()

    def _load(self) -> Any:
        scheduler = self._genai.SchedulerConfig()
        scheduler.max_num_seqs = self._parallel
        scheduler.enable_prefix_caching = False  # with it, earlier requests change replies
        properties = {**PROPERTIES, "INFERENCE_NUM_THREADS": available_cores()}
        return self._genai.ContinuousBatchingPipeline(self._gguf, scheduler, "CPU", properties)

    def encode(self, messages: list[dict[str, str]]) -> Any:
        """Return the tokens of a prompt in the model's chat template, shape (1, tokens)."""
        text = self._tokenizer.apply_chat_template(messages, True)
        return self._tokenizer.encode(text, add_special_tokens=False).input_ids

    def settings(self, body: dict[str, Any], prompt_tokens: int) -> Any:
        """Return the generation config of a request. Raises RequestError if it does not fit the window."""
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or max(1, self._window - prompt_tokens)
        if prompt_tokens + limit > self._window:
            raise RequestError(
                f"This model's maximum context length is {self._window} tokens, but the prompt has {prompt_tokens} and "
                f"the reply up to {limit}.",
                "context_length_exceeded",
            )
        temperature = body.get("temperature", 1.0)
        config = self._genai.GenerationConfig(
            max_new_tokens=limit,
            apply_chat_template=False,
            do_sample=temperature > 0,
            logprobs=int(bool(body.get("logprobs"))),
            stop_strings=set(body.get("stop") or []),
            include_stop_str_in_output=True,
        )
        if temperature > 0:
            config.temperature, config.top_p = temperature, body.get("top_p") or 1.0
            config.rng_seed = (body.get("seed") or 0) % 2**32
        if form := _form(body):
            config.structured_output_config = self._genai.StructuredOutputConfig(**form)
        return config

    def reply(self, prompt: Any, settings: Any) -> Generator[Token, None, None]:
        """Yield the tokens of a reply as they are generated; closing the iterator ends the request."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        nothing = self._genai.GenerationFinishReason.NONE
        finish = None
        with self._stepped:
            pipeline = self._pipeline
            handle = pipeline.add_request(next(self._numbers), prompt, settings)
            self._stepped.notify_all()
        try:
            while finish is None:
                with self._stepped:
                    self._stepped.wait_for(lambda: handle.can_read() or self._pipeline is not pipeline)
                    if not handle.can_read():
                        raise RuntimeError(self._failure)
                (output,) = handle.read().values()
                finish = None if output.finish_reason == nothing else output.finish_reason.name.lower()
                found = list(zip(output.generated_ids, output.generated_log_probs, strict=True))
                for left, (number, logprob) in zip(reversed(range(len(found))), found, strict=True):
                    last = finish if left == 0 else None
                    yield Token(decoder.decode(self._bytes[number], final=bool(last)), logprob, last)
        finally:
            handle.cancel()

    def _generate(self) -> None:
        while True:
            with self._stepped:
                self._stepped.wait_for(self._pipeline.has_non_finished_requests)
            try:
                self._pipeline.step()
            except RuntimeError as error:  # a grammar cannot be compiled; the pipeline is unusable from then on
                with self._stepped:
                    self._failure = str(error)
                    self._pipeline = self._load()
            with self._stepped:
                self._stepped.notify_all()


def _form(body: dict[str, Any]) -> dict[str, str] | None:
    """Return the arguments of ``StructuredOutputConfig`` for a request's grammar or response format, or None."""
    if body.get("grammar"):
        return {"grammar": compilable(body["grammar"])}
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return {"json_schema": json.dumps(wanted["json_schema"]["schema"])}
    return {"json_schema": '{"type": "object"}'} if wanted.get("type") == "json_object" else None


def compilable(grammar: str) -> str:
    """Return a GBNF grammar with its long repetitions unbounded.

    xgrammar prepares a mask over the vocabulary for each step of a repetition, which takes seconds for a line of up to
    400 characters. The reply's token limit bounds a line, too.
    """
    return _LONG_REPETITION.sub(lambda found: found[1] or "*", grammar)


class _Handler(BaseHTTPRequestHandler):
    model: Model

    def do_POST(self) -> None:
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            came = time.perf_counter()
            prompt = self.model.encode(body["messages"])
            tokens = self.model.reply(prompt, self.model.settings(body, prompt.shape[1]))
            with closing(tokens):
                first = self._first(body, tokens)
                prompt_ms = 1000 * (time.perf_counter() - came)
                self._answer(body, prompt.shape[1], itertools.chain([first], tokens), prompt_ms)
        except RequestError as error:
            self._send(400, _error(str(error), "invalid_request_error", error.code))
        except (KeyError, TypeError, ValueError) as error:
            self._send(400, _error(f"{type(error).__name__}: {error}", "invalid_request_error", None))
        except ConnectionError:
            pass  # the client is gone
        except Exception as error:
            traceback.print_exc()
            self._send(500, _error(str(error), "server_error", None))

    @staticmethod
    def _first(body: dict[str, Any], tokens: Iterator[Token]) -> Token:
        try:
            return next(tokens)
        except RuntimeError as error:
            form = next((name for name in ("grammar", "response_format") if body.get(name)), None)
            if form is None:
                raise
            raise RequestError(f"{form} cannot be compiled: {error}", f"unsupported_{form}") from error

    def _answer(self, body: dict[str, Any], prompt_tokens: int, tokens: Iterator[Token], prompt_ms: float) -> None:
        streamed, stops = bool(body.get("stream")), body.get("stop") or []
        said: list[Token] = []
        if streamed:
            self._begin(200, "text/event-stream")
        for token in tokens:
            said.append(token)
            if streamed and not stops:
                self._event(body, _choice("delta", token.text, body, [token]))
        text = "".join(token.text for token in said)
        text = text[: min((text.find(stop) for stop in stops if stop in text), default=None)]
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(said),
            "total_tokens": prompt_tokens + len(said),
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        if not streamed:
            choice = _choice("message", text, body, said)
            timings = {"prompt_ms": prompt_ms}  # as llama.cpp's server tells it
            self._send(200, {**_head(body, "chat.completion"), "choices": [choice], "usage": usage, "timings": timings})
            return
        if stops:
            self._event(body, _choice("delta", text, body, said))
        self._event(body, None, usage)
        self.wfile.write(_STREAM_END)

    def _event(self, body: dict[str, Any], choice: dict[str, Any] | None, usage: dict[str, Any] | None = None) -> None:
        event = {**_head(body, "chat.completion.chunk"), "choices": [choice] if choice else [], "usage": usage}
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def _send(self, status: int, reply: dict[str, Any]) -> None:
        self._begin(status, "application/json")
        self.wfile.write(json.dumps(reply).encode())

    def _begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a line per request would fill the disk over a night of questions."""


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "", "object": kind, "created": 0, "model": body.get("model", "")}


def _choice(name: str, text: str, body: dict[str, Any], tokens: list[Token]) -> dict[str, Any]:
    choice = {"index": 0, name: {"role": "assistant", "content": text}, "finish_reason": tokens[-1].finish}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{"token": each.text, "logprob": each.logprob} for each in tokens]}
    return choice


def _error(message: str, kind: str, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def serve_openvino(model: str, port: int, parallel: int, window: int) -> None:
    """Serve a GGUF file until the process ends; each of ``parallel`` simultaneous requests has ``window`` tokens."""
    server = _Server(("127.0.0.1", port), _Handler)  # first, since another process may have the port
    _Handler.model = Model(model, parallel, window)
    server.serve_forever()
