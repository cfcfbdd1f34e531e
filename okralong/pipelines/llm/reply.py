"""Replies: the journal keeps them raw, and they are checked before use. ``completion.py`` parses them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow.compute as pc

from okralong.pipelines.core.codec import decode, encode
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, CutShort, EndpointError, Reply, ReplyError, Usage
from okralong.pipelines.llm.budget import WORST
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import Call, Outcome


@dataclass(frozen=True, slots=True)
class RawReply:
    """A reply as received, usable or not. The journal keeps ``reply``, ``refusal``, ``thought`` and ``tools``.

    Attributes:
        note: A remark for the ledger.
        service_tier: The tier that the reply names.
        counted_here: Whether the usage is our own count.
        overlong: Whether the endpoint ignored the limit of the reply.
        undecided: Whether a person must decide if the reported usage is true.
        unreported: Whether the endpoint did not say what it bills.
        held: Tokens beyond the usage that may have been billed, too.
        held_usd: Their cost.
        thought: Whether its message has thought apart from the text.
        tools: Names of the tools that it calls.
        first_token_s: Seconds until its first token, None if unknown.
    """

    reply: Reply
    refusal: str = ""
    request_id: str = ""
    note: str = ""
    service_tier: str = ""
    counted_here: bool = False
    overlong: bool = False
    undecided: bool = False
    unreported: bool = False
    held: Usage = field(default_factory=Usage)
    held_usd: float = 0.0
    thought: bool = False
    tools: tuple[str, ...] = ()
    first_token_s: float | None = None

    def tells_tokenizer(self, estimate: int) -> bool:
        """Return whether the usage shows how the endpoint counts a prompt that we estimate at ``estimate`` tokens.

        A hidden system prompt adds tokens whatever the length of the prompt, so a much larger count shows nothing.
        """
        return not self.counted_here and self.reply.usage.prompt_tokens <= WORST * estimate

    def received(
        self, call: Call, cost_usd: float, latency_s: float, request_id: str, without_keys: Callable[[str], str]
    ) -> RawReply:
        """Return the reply with its cost and times, and with keys removed from its texts."""
        reply = self.reply
        text = without_keys(reply.text)
        same = text == reply.text  # otherwise the tokens would spell the removed key
        reply = replace(
            reply,
            text=text,
            tokens=reply.tokens if same else (),
            token_logprobs=reply.token_logprobs if same else (),
            model=without_keys(reply.model),
            system_fingerprint=without_keys(reply.system_fingerprint),
            cost_usd=cost_usd,
            latency_s=latency_s,
            queue_s=call.queue_s,
        )
        return replace(self, reply=reply, request_id=request_id, held_usd=call.price.cost(self.held))

    def outcome(self, call: Call) -> Outcome:
        """Return the outcome of the attempt that brought the reply."""
        reply = self.reply
        return Outcome(
            call=call,
            status="ok",
            http_status=200,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            latency_s=reply.latency_s,
            provider_request_id=self.request_id,
            error=self.note,
            reply=to_journal(self),
            snapshot=reply.model,
            system_fingerprint=reply.system_fingerprint,
            service_tier=self.service_tier,
            overlong=self.overlong,
            undecided=self.undecided,
            unreported=self.unreported,
            held_usd=self.held_usd,
            first_token_s=self.first_token_s,
        )


def to_journal(raw: RawReply) -> str:
    """Return the journal's JSON of a reply."""
    beside = ({"thought": True} if raw.thought else {}) | ({"tools": raw.tools} if raw.tools else {})
    return encode({"reply": raw.reply, "refusal": raw.refusal, **beside})


def from_journal(body: str) -> RawReply:
    """Return the reply in the body of a ``reply`` row."""
    data = json.loads(body)
    reply, tools = decode(Reply, json.dumps(data["reply"])), tuple(data.get("tools", ()))
    return RawReply(reply, data["refusal"], thought=data.get("thought", False), tools=tools)


def usable(raw: RawReply, longest_text: int, *, logprobs: bool = False) -> Reply:
    """Return the reply if it has text, possibly cut off at its limit.

    The text is cut to ``longest_text`` characters, since journals of earlier releases may hold longer ones.

    Raises ReplyError for a refusal, a reply without text (or with nothing but thought in tags) or one removed by a
    content filter, and EndpointError if requested ``logprobs`` are missing.
    """
    reply = raw.reply
    if len(reply.text) > longest_text:
        reply = replace(reply, text=reply.text[:longest_text], finish_reason="length")
    only_thought = _ONLY_THOUGHT.fullmatch(reply.text) is not None
    if raw.refusal:
        raise ReplyError(
            f"{reply.model} refused to answer: {raw.refusal[:300].rstrip('. ')}. The raw reply is in the journal.",
            reply.text or raw.refusal,
        )
    if reply.finish_reason == "content_filter":
        raise ReplyError(
            f"The content filter of the endpoint removed the reply of {reply.model}. Change the filter's settings at "
            "the provider, or set llm.model to another model.",
            reply.text,
        )
    if only_thought or not reply.text.strip():
        kind = CutShort if reply.finish_reason == "length" else ReplyError
        raise kind(_why_empty(replace(raw, reply=reply, thought=raw.thought or only_thought)), reply.text)
    if logprobs and not reply.token_logprobs:
        raise EndpointError(
            f"The strategy needs the log-probabilities of the reply's tokens, but {reply.model} sent none. Set "
            "llm.base_url to an endpoint that gives them (OpenAI, vLLM, llama.cpp's server do), or choose a strategy "
            "that does not need them. The paid reply is in the journal."
        )
    return reply


def _why_empty(raw: RawReply) -> str:
    """Return why a reply has no text, and which setting to change."""
    reply, usage = raw.reply, raw.reply.usage
    if raw.tools:
        return (
            f"{reply.model} called a tool ({', '.join(raw.tools)}) in place of an answer, though the request offers "
            "none. Turn off tool calls at the server (vLLM: start it without --enable-auto-tool-choice), or set "
            "llm.model to another model."
        )
    thought = f", {usage.reasoning_tokens} of them in thought" if usage.reasoning_tokens else ""
    thinks = raw.thought or usage.reasoning_tokens > 0
    if reply.finish_reason == "length" and thinks:
        return (
            f"{reply.model} was cut off in its thought: it used up its {usage.completion_tokens} completion "
            f"tokens{thought}, before it answered. Give llm.reasoning_tokens more room, or lower llm.reasoning_effort."
        )
    if reply.finish_reason == "length":
        return (
            f"{reply.model} sent an empty reply, cut off at its limit after {usage.completion_tokens} completion "
            "tokens. Raise llm.max_completion_tokens, or llm.reasoning_tokens if the model thinks before it answers."
        )
    if thinks:
        return (
            f"{reply.model} sent only thought and no answer ({usage.completion_tokens} completion tokens{thought}). "
            "Set llm.reasoning_effort to none or low, or give llm.reasoning_tokens more room. If the answer is part of "
            "the thought, the server's reasoning parser does not fit the model (vLLM: --reasoning-parser; llama.cpp: "
            "--reasoning-format none)."
        )
    ended = reply.finish_reason or "none"
    return (
        f"{reply.model} sent an empty reply (finish_reason {ended}, {usage.completion_tokens} completion tokens). "
        "Ask again with --retry failed, or set llm.model to another model."
    )


_ONLY_THOUGHT: Final = re.compile(r"\s*<(think(?:ing)?|thought|reasoning)>(?:(?!</\1>).)*(?:</\1>\s*)?", re.DOTALL)
"""Matches a text that is thought in tags, ended or not, as servers without a reasoning parser send it."""


@dataclass(frozen=True)
class SharedReplies:
    """Replies that other runs have paid for. Equal requests reuse them for free.

    ``bodies`` maps a request hash to the run and the body of the journal row. Requests are equal if their hashes are,
    since the hash covers everything that can change a reply. Replies that the other runs receive after this run's start
    are not seen.
    """

    bodies: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def load(cls, runs: Sequence[str]) -> SharedReplies:
        """Read the journals of ``runs``. Of several replies to equal requests, that of the first run is used.

        Raises ArchiveError for a journal of another schema version.
        """
        bodies: dict[str, tuple[str, str]] = {}
        for run in runs:
            journal = read_run_table(Folder.of(run), "journal", ["kind", "request_hash", "body"])
            for row in journal.filter(pc.equal(journal["kind"], "reply")).to_pylist():
                bodies.setdefault(row["request_hash"], (run, row["body"]))
        return cls(bodies)

    def take(self, call: Call) -> tuple[RawReply, Outcome] | None:
        """Return the reply to an equal request and the outcome of this attempt, or None if there is none.

        The attempt costs nothing. Its row has the tokens that the other run paid for, at this run's prices.
        """
        if call.request_hash not in self.bodies:
            return None
        run, body = self.bodies[call.request_hash]
        known = from_journal(body)
        free = replace(known, reply=replace(known.reply, cost_usd=0.0, latency_s=0.0, queue_s=0.0))
        said = f"the reply to an equal request, from the run {run}"
        outcome = replace(free.outcome(call), status="cached", http_status=0, error=said)
        return free, outcome


def sharing_runs(runs: Sequence[str]) -> tuple[str, ...]:
    """Return the absolute paths of the runs in ``replies_from``. Raises ConfigError for one without a journal."""
    places = []
    for run in runs:
        folder = Folder.of(run)
        if not folder.exists("journal"):
            raise ConfigError(
                f"replies_from names {run}, which has no journal: it is not a run folder, or no question was "
                "asked yet. Give folders that okralong answer --run wrote, or remove it. Nothing was spent."
            )
        places.append(folder.path if folder.is_local else run)
    return tuple(places)
