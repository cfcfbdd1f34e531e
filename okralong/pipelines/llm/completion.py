"""Parse a chat completion as an endpoint sent it, whole or as a stream of events.

Endpoints are not trusted. Before anything is used or stored, texts that exceed the request's limit are cut, and names
are shortened. ``usage.py`` checks token counts.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import Reply, Usage
from okralong.pipelines.llm.error_body import READ_CHARS, ErrorBody, is_error, read_error, shortened
from okralong.pipelines.llm.records import NAME_CHARS
from okralong.pipelines.llm.reply import RawReply
from okralong.pipelines.llm.usage import NOTHING_TOLD, Booked, Bounds, Told, Trust, larger, mapping, reported

LONGEST_BODY: Final = 64 * 1024 * 1024  # project default
"""Longest response in bytes; a longer one is refused."""
ABORT_GRACE_S: Final = 0.25  # project default
"""Seconds for which a reply that is to be aborted is still read and counted, since what was sent is billed."""
PARSED_IN_LOOP: Final = 256 * 1024  # project default
"""The largest JSON in bytes that is parsed in the event loop; a thread parses larger ones."""
THOUGHT: Final = ("reasoning_content", "reasoning", "thinking")
"""Names that servers use for the field of a message with the model's thought."""
SHOWN: Final = ("content", "refusal", *THOUGHT)
FINISHED: Final = {
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "safety": "content_filter",
    "recitation": "content_filter",
    "content_filtered": "content_filter",
}
"""Other servers' reasons for the end of a reply, in lower case, and OpenAI's name for each."""
_EVENT_LINES: Final = ("data:", "event:", "id:", "retry:", ":")


class Response(Protocol):
    """An HTTP response with an unread body."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names are case-insensitive."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Return the body as it arrives."""
        ...


@dataclass(frozen=True, slots=True)
class Received:
    """The body of a response as one chat completion.

    ``chars`` is the number of characters of its whole text, thought included, even if ``body`` holds only the
    beginning. ``aborted`` is True if it was not read to its end, ``streamed`` if it arrived as events. ``first_at`` is
    the time of a stream's first text by ``time.perf_counter``, ``told`` the largest usage that an event reported.
    """

    body: Mapping[str, Any]
    chars: int = 0
    aborted: bool = False
    streamed: bool = False
    first_at: float | None = None
    told: Told = NOTHING_TOLD

    def first_token_s(self, sent_at: float, latency_s: float) -> float | None:
        """Return the seconds until the first token, None if unknown.

        A stream is timed here; a whole reply may tell, as llama.cpp's server does, how long its prompt took
        (``timings.prompt_ms``).
        """
        if self.first_at is not None:
            return self.first_at - sent_at
        told = mapping(self.body.get("timings")).get("prompt_ms")
        if not isinstance(told, int | float) or isinstance(told, bool) or not 0 <= told <= 1000 * latency_s:
            return None
        return told / 1000


class Unfinished(Exception):
    """A response without a whole chat completion. ``used`` has the tokens that it reported or brought until then."""

    used: Told = NOTHING_TOLD


class NoCompletion(Unfinished, ValueError):
    """The response is not a chat completion; the message says what it is.

    Attributes:
        told: The error that the response states, if it does.
        page: Whether it is a web page.
        elsewhere: Whether it belongs to another protocol, so that the address may be wrong.
        begun: Whether a part of a reply had arrived before.
    """

    def __init__(
        self,
        said: str,
        told: ErrorBody | None = None,
        *,
        page: bool = False,
        elsewhere: bool = False,
        begun: bool = False,
    ) -> None:
        super().__init__(said)
        self.told, self.page, self.elsewhere, self.begun = told, page, elsewhere, begun


class CutOff(Unfinished):
    """The response ended in the middle."""


class Dialect:
    """The form of an endpoint's replies, for one reply. This is OpenAI's; others translate to it.

    All checks of replies are written for OpenAI's chat completion.
    """

    done: bool = False
    """True once an event has ended the reply."""

    def whole(self, found: object) -> object:
        """Return a parsed body as a chat completion, and anything else (such as an error) unchanged."""
        return found

    def event(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an event of a stream as a chunk of a chat completion, {} to skip it, and an error unchanged."""
        return found


async def receive(response: Response, bounds: Bounds, count: CountTokens, dialect: Dialect | None = None) -> Received:
    """Read a response. A stream is aborted soon after the reply is longer than its limit and a margin.

    The default ``dialect`` is OpenAI's. Raises NoCompletion if it is not a chat completion or longer than
    ``LONGEST_BODY``, CutOff if it ends early.
    """
    dialect = dialect or Dialect()
    async with aclosing(_bounded(response)) as chunks:
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return await _read_stream(chunks, bounds, count, dialect)
        body = b"".join([chunk async for chunk in chunks])
    if body[:6].lstrip().startswith((b"data:", b"event:")):  # events under another name
        events = _Events(bounds, dialect)
        for line in body.split(b"\n"):
            events.feed(line)
        return events.received()
    if len(body) > PARSED_IN_LOOP:
        return Received(await asyncio.to_thread(parse, body, dialect))
    return Received(parse(body, dialect))


async def _bounded(response: Response) -> AsyncGenerator[bytes, None]:
    size = 0
    try:
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > LONGEST_BODY:
                raise NoCompletion(f"the body is longer than {LONGEST_BODY // 2**20} MB")
            yield chunk
    except NoCompletion:
        raise
    except Exception as error:
        raise CutOff("the connection ended in the middle of the reply") from error


async def _read_stream(chunks: AsyncIterator[bytes], bounds: Bounds, count: CountTokens, dialect: Dialect) -> Received:
    events = _Events(bounds, dialect)
    check_at = 2 * bounds.max_tokens  # characters: a token usually has more than two
    line: list[bytes] = []
    aborting = False
    try:
        async with asyncio.timeout(None) as grace:
            async for chunk in chunks:
                first, *others = chunk.split(b"\n")
                line.append(first)
                for other in others:
                    events.feed(b"".join(line))
                    line = [other]
                if events.done:
                    break
                if not aborting and events.chars >= check_at:
                    check_at = events.chars + events.chars // 4
                    if aborting := bounds.is_overlong(events.tokens(count)):
                        grace.reschedule(asyncio.get_running_loop().time() + ABORT_GRACE_S)
            else:
                events.feed(b"".join(line))
    except (Unfinished, TimeoutError) as error:
        if aborting and not isinstance(error, NoCompletion):
            return events.received(aborted=True)
        if isinstance(error, Unfinished):
            error.used = events.used(count)
        raise
    if events.began and not events.done and not events.finish:
        cut = CutOff("the stream ended before the reply did")
        cut.used = events.used(count)
        raise cut
    return events.received()


def parse(body: bytes | str, dialect: Dialect | None = None) -> Mapping[str, Any]:
    """Parse a body of JSON, and return its chat completion. Raises NoCompletion if it has none."""
    found = _loaded(body)
    return checked(found if dialect is None else dialect.whole(found))


def checked(found: object) -> Mapping[str, Any]:
    """Return ``found`` if it is a chat completion. Otherwise raises NoCompletion, with the endpoint's error if any."""
    try:
        return _checked(found)
    except NoCompletion as error:
        error.used = reported(mapping(found).get("usage"))
        raise


def _checked(found: object) -> Mapping[str, Any]:
    if isinstance(found, Mapping):
        first = _first(found)
        if first is not None:
            if first.get("error"):
                raise _told(first)
            if _message_of(first) is None and isinstance(first.get("text"), str):
                raise NoCompletion("it is a completion of the older protocol, without messages", elsewhere=True)
            return found
        if is_error(found):
            raise _told(found)
        if "choices" in found:
            raise NoCompletion("it has no choice with a message, so it holds no answer")
    if isinstance(found, list) and any(isinstance(each, Mapping) and is_error(each) for each in found[:10]):
        raise _told(found)
    start = json.dumps(found, ensure_ascii=False, default=str)[:200] if not isinstance(found, str) else found[:200]
    raise NoCompletion(f"its body is {start}", elsewhere=True)


def _told(found: object) -> NoCompletion:
    told = read_error(found)
    return NoCompletion(f"it says: {told.shown}", told)


def _loaded(body: bytes | str) -> Any:
    try:
        return json.loads(body, parse_int=read_integer)
    except (ValueError, RecursionError):
        pass
    start = body[:READ_CHARS]
    text = (start if isinstance(start, str) else start.decode("utf-8", "replace")).strip()
    if not text:
        raise NoCompletion("its body is empty", elsewhere=True)
    told = read_error(text)
    if told.page:
        raise NoCompletion(told.shown, page=True)
    if text[0] in "{[":
        raise NoCompletion(f"its body is JSON that breaks off or cannot be read: {text[:200]}")
    raise NoCompletion(f"its body is not JSON: {text[:200]}", elsewhere=True)


def read_integer(digits: str) -> float:
    """Parse a JSON integer. One too large for any table becomes infinite, as 1e400 does."""
    return int(digits) if len(digits) <= 18 else float(f"{digits[:1].strip('0123456789')}inf")


def _first(completion: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = completion.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else None


def _message_of(choice: Mapping[str, Any]) -> object:
    """Return the message of a choice, or its delta in an event; None if it has neither."""
    found = choice.get("message")
    return choice.get("delta") if found is None else found


def _texts_of(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each text in a message or delta. Some servers send a text as a list of parts."""
    for name in SHOWN:
        said = message.get(name)
        if isinstance(said, list):
            parts = [part for part in said if isinstance(part, Mapping)]
            if thought := "".join(str(part["thinking"]) for part in parts if part.get("thinking")):  # Mistral's
                yield "thinking", thought
            said = "".join(str(part.get("text") or "") for part in parts)
        if isinstance(said, str) and said:
            yield name, said


def _tools_called(message: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that a message calls instead of answering, in OpenAI's newer or older form."""
    calls = message.get("tool_calls")
    found = [mapping(each) for each in calls[:10]] if isinstance(calls, list) else []
    names = [name_of(mapping(each.get("function")).get("name")) for each in found]
    return [name for name in [*names, name_of(mapping(message.get("function_call")).get("name"))] if name]


def _count(text: str, chars: int, count: CountTokens) -> float:
    """Estimate the tokens of a text with ``chars`` characters, of which ``text`` is the beginning."""
    return count(text) * max(1.0, chars / max(1, len(text)))


def name_of(value: object) -> str:
    """Return a name or id that an endpoint sent, shortened and on one line; "" if it is not a string."""
    text = value if isinstance(value, str) else ""
    if len(text) > NAME_CHARS:
        text = f"{text[: NAME_CHARS - 1]}…"
    return " ".join(text.split())


@dataclass(slots=True)
class _Events:
    """Builds one reply from its events. Text beyond the reply's limit is counted but not kept."""

    bounds: Bounds
    dialect: Dialect
    chars: int = 0
    done: bool = False
    finish: str = ""
    _kept: int = 0
    _told: dict[str, Any] = field(default_factory=dict)
    _used: Told = NOTHING_TOLD
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _logprobs: list[Any] = field(default_factory=list)
    _calls: list[str] = field(default_factory=list)
    _begun: bool = False
    _first_at: float | None = None
    _seen: list[str] = field(default_factory=list)
    _seen_chars: int = 0

    @property
    def began(self) -> bool:
        """True if a part of a reply has arrived."""
        return self._begun

    def feed(self, line: bytes) -> None:
        """Read a line of the stream. Raises NoCompletion for an error event or invalid JSON."""
        if not self._begun and self._seen_chars < READ_CHARS:
            self._seen_chars += len(line)
            self._seen.append(line[:READ_CHARS].decode("utf-8", "replace").strip())
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if data == b"[DONE]":
            self.done = True
        elif data:
            self._take(self.dialect.event(mapping(_loaded(data))))
            self.done = self.done or self.dialect.done

    def _take(self, event: Mapping[str, Any]) -> None:
        if event.get("error") or ("choices" not in event and is_error(event)):
            raise self._error(event)
        for name in ("model", "system_fingerprint", "service_tier", "usage"):
            if event.get(name):
                self._told[name] = event[name]
        self._used = larger(self._used, reported(event.get("usage")))
        choice = _first(event)
        if choice is None or choice.get("index") not in (0, None):
            return
        if choice.get("error"):
            raise self._error(choice)
        self._begun = True
        self.finish = name_of(choice.get("finish_reason")) or self.finish
        message = mapping(_message_of(choice))
        if not self._calls:
            self._calls = _tools_called(message)
        for name, text in _texts_of(message):
            if self._first_at is None:
                self._first_at = time.perf_counter()
            self.chars += len(text)
            if self._kept <= self.bounds.longest_text:
                self._kept += len(text)
                self._texts.setdefault(name, []).append(text)
        if len(self._logprobs) <= self.bounds.longest_text:
            self._logprobs += _entries(choice)

    def tokens(self, count: CountTokens) -> float:
        """Estimate how many tokens have arrived."""
        kept = "".join(text for texts in self._texts.values() for text in texts)
        return _count(kept, self.chars, count)

    def used(self, count: CountTokens) -> Told:
        """Return the tokens that were reported until now, or if that is more, those of prompt and text by our count."""
        return larger(self._used, (self.bounds.prompt_tokens, self.tokens(count))) if self._begun else self._used

    def received(self, *, aborted: bool = False) -> Received:
        """Return the chat completion. Raises NoCompletion if no event contained a part of one."""
        if not self._begun:
            raise self._no_reply()
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [{"function": {"name": name}} for name in self._calls]
        choice = {"message": message, "finish_reason": self.finish, "logprobs": {"content": self._logprobs}}
        body = {**self._told, "choices": [choice]}
        return Received(body, self.chars, aborted, streamed=True, first_at=self._first_at, told=self._used)

    def _error(self, event: Mapping[str, Any]) -> NoCompletion:
        told = read_error(event)
        return NoCompletion(f"it says: {told.shown}", told, begun=self._begun)

    def _no_reply(self) -> NoCompletion:
        """Return the exception for a stream without any part of a reply."""
        text = "\n".join(filter(None, self._seen))
        if not text:
            return NoCompletion("its stream of events is empty")
        if not text.startswith(_EVENT_LINES):  # the body is not events, although its header says so
            try:
                checked(_loaded(text))
            except NoCompletion as other:
                return other
            return NoCompletion("it sent a whole reply under the name of a stream of events")
        return NoCompletion(f"its events hold no reply: {shortened(text)}", elsewhere=True)


def read_completion(received: Received, bounds: Bounds, model: str, count: CountTokens, trust: Trust) -> RawReply:
    """Return the first choice as a reply; its model is ``model``, unless the completion names another.

    ``note`` says what is wrong with the endpoint's usage. A text longer than its limit allows is cut there.
    """
    choice = _first(received.body) or {}
    message = mapping(_message_of(choice))
    texts = dict(_texts_of(message))
    chars = max(received.chars, sum(map(len, texts.values())))
    shown = {name: text[: bounds.longest_text] for name, text in texts.items()}
    thought = any(texts.get(name) for name in THOUGHT)
    told = received.body.get("usage")
    ours = Usage(bounds.prompt_tokens, 0, math.ceil(_count("".join(shown.values()), chars, count)))
    if received.aborted:
        booked = Booked.of_aborted(told, ours, thought, trust, received.told)
    else:  # the model may not have written a refusal
        booked = Booked.of(told, ours, min(1, chars - len(texts.get("refusal", ""))), trust, received.told)
    usage = booked.usage
    overlong = bounds.is_overlong(usage.completion_tokens)
    notes = [f"{booked.problem}; tokens were counted here", *booked.notes] if booked.problem else [*booked.notes]
    if overlong:
        notes.append(f"the limit of {bounds.max_tokens} tokens was ignored: {usage.completion_tokens} came")
    cut = len(texts.get("content", "")) > bounds.longest_text
    finish = name_of(choice.get("finish_reason"))
    finish = "length" if received.aborted or cut else FINISHED.get(finish.lower(), finish)
    logprobs = _logprobs(choice, bounds.longest_text)
    reply = Reply(
        # Tables cannot store a lone surrogate (an emoji cut in two by the token limit).
        text=shown.get("content", "").encode("utf-8", "replace").decode(),
        model=name_of(received.body.get("model")) or model,
        usage=usage,
        finish_reason=finish,
        cost_usd=0.0,
        token_logprobs=tuple(number for _, number in logprobs),
        system_fingerprint=name_of(received.body.get("system_fingerprint")),
        tokens=tuple(text for text, _ in logprobs),
    )
    return RawReply(
        reply,
        shown.get("refusal", ""),
        note="; ".join(notes),
        service_tier=name_of(received.body.get("service_tier")),
        counted_here=bool(booked.problem),
        overlong=overlong,
        undecided=booked.undecided,
        unreported=booked.unreported,
        held=booked.held,
        thought=thought,
        tools=tuple(_tools_called(message)),
    )


def _entries(choice: Mapping[str, Any]) -> list[Any]:
    found = mapping(choice.get("logprobs")).get("content")
    return found if isinstance(found, list) else []


def _logprobs(choice: Mapping[str, Any], most: int) -> list[tuple[str, float]]:
    """Return the text and the log-probability of each token, or [] if one of them is malformed.

    A character made of several tokens is given to the last of them, so that the texts add up to the reply.
    """
    decoder = getincrementaldecoder("utf-8")("replace")
    read: list[tuple[str, float]] = []
    for entry in map(mapping, _entries(choice)[:most]):
        token, number, raw = entry.get("token"), entry.get("logprob"), entry.get("bytes")
        if not isinstance(token, str) or not isinstance(number, int | float) or math.isnan(number):
            return []
        try:
            text = token if raw is None else decoder.decode(bytes(raw))
        except (TypeError, ValueError):
            return []
        read.append((text, max(float(number), LEAST_LOGPROB)))
    return read


LEAST_LOGPROB: Final = -9999.0
"""OpenAI's log-probability for a token whose probability is negligible."""
