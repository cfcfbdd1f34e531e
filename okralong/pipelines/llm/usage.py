"""Decide how many tokens of a reply are booked, given what the endpoint reports and our own count.

Endpoints are not trusted, but they send the bill. So a report is booked as it is, however far it is above our count
(thought and system prompts may be hidden), up to what the model can have used. A person decides on more than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from okralong.pipelines.core.types import Usage

CHARS_PER_TOKEN: Final = 16  # project default
"""The most characters per token on average: prose has 4 to 5, a run of blanks up to 128."""
OVERLONG: Final = 1.5  # project default
"""A reply ignored its limit if it is longer than this multiple of the limit, plus ``SLACK`` tokens. A smaller excess
may be due to our tokenizer, which can need more tokens for a text than the endpoint's."""
SLACK: Final = 32
LARGEST_WINDOW: Final = 10_000_000  # project default
"""The largest window in tokens that a config may state. No prompt or reply that was billed is longer."""
BEYOND_WINDOW: Final = "the endpoint reported more tokens than llm.window allows"
"""The note in the ledger for a reply that stops the run until ``llm.trust_usage`` is set."""
UNDECIDED: Final = (
    "The endpoint reported a usage of more tokens than llm.window allows; the ledger's column error has the numbers. "
    "As much as the window allows is booked, the rest is held as unknown, and nothing more is sent until you have "
    "decided: set llm.trust_usage to true if the endpoint bills what it reports (for hidden thought, or a longer "
    "window), or to false to count tokens here instead, and run the same command again."
)


Told = tuple[float, float]
"""The tokens of a prompt and of a reply that were reported, perhaps infinite; 0 for what was not."""
NOTHING_TOLD: Final[Told] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that a request sets on its reply.

    Attributes:
        prompt_tokens: Our own count of the prompt's tokens, used if the endpoint's is impossible.
        max_tokens: The limit of the reply in the request, thought included.
    """

    prompt_tokens: int
    max_tokens: int

    @property
    def longest_text(self) -> int:
        """The most characters of a reply that are kept."""
        return CHARS_PER_TOKEN * self.max_tokens + 1000

    def is_overlong(self, completion_tokens: float) -> bool:
        """Return whether a reply of this length must have ignored its limit."""
        return completion_tokens > OVERLONG * self.max_tokens + SLACK


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the usage that an endpoint reports is believed.

    Attributes:
        window: The most tokens of a prompt, and of a reply (``llm.window``).
        decided: ``llm.trust_usage``: True books any number of tokens, False counts all tokens here. With None, a report
            beyond the window is undecided.
    """

    window: int
    decided: bool | None = None


@dataclass(frozen=True, slots=True)
class Booked:
    """What is booked for a reply.

    Attributes:
        usage: The tokens to charge.
        held: Tokens beyond ``usage`` that may have been billed, too.
        problem: Why tokens were counted here, "" if the report was taken.
        notes: What else is wrong with the report.
        undecided: Whether a person must decide if the report is true.
        unreported: Whether the endpoint did not say what it bills.
    """

    usage: Usage
    held: Usage = field(default_factory=Usage)
    problem: str = ""
    notes: tuple[str, ...] = ()
    undecided: bool = False
    unreported: bool = False

    @classmethod
    def of(cls, told: object, ours: Usage, least_reply: int, trust: Trust, before: Told = NOTHING_TOLD) -> Booked:
        """Return what to book for the report ``told``, a mapping with OpenAI's names.

        ``ours`` is our own count. A report of less than one token for the prompt, or ``least_reply`` for the reply, is
        not believed. If one of the two numbers is impossible, the other is booked if it is above our count. ``before``
        has the most that earlier events of a stream reported: a count that shrinks may have been billed.
        """
        if trust.decided is False:
            return cls(ours, problem="llm.trust_usage is false")
        if not isinstance(told, Mapping) or not told:
            return cls(ours, problem="the endpoint reported no usage", unreported=True)
        told = _named(told)
        read = {
            "prompt_tokens": _tokens(told.get("prompt_tokens"), 1),
            "completion_tokens": _tokens(_with_thought(told), least_reply),
        }
        wrong = {name: str(told.get(name))[:40] for name, tokens in read.items() if tokens is None}
        prompt, reply = (tokens or 0 for tokens in read.values())
        total = _tokens(told.get("total_tokens"), 1) or 0
        total_alone = total > 0 and len(wrong) == len(read)
        if wrong:
            prompt = max(prompt, ours.prompt_tokens, total - reply if reply else 0)
            reply = max(reply, ours.completion_tokens, total - prompt)
        prompt, reply = max(prompt, before[0]), max(reply, before[1])
        most = LARGEST_WINDOW if trust.decided else trust.window
        booked = int(min(prompt, max(most, ours.prompt_tokens))), int(min(reply, max(most, ours.completion_tokens)))
        beyond = booked != (prompt, reply)
        notes = [f"{name} of {value} cannot be true" for name, value in _negative_parts(told)]
        if beyond:
            notes.append(f"{BEYOND_WINDOW}: {prompt:.15g} of the prompt, {reply:.15g} of the reply")
        named = ", ".join(f"{name}: {value}" for name, value in wrong.items())
        return cls(
            Usage(booked[0], 0, booked[1]) if wrong else _with_parts(told, *booked),
            # Of a total alone, the tokens that are booked for the prompt may have been the reply's.
            Usage(_above(prompt, booked[0]), 0, _above(reply, booked[1]) + (booked[0] if total_alone else 0)),
            f"the endpoint reported a usage that cannot be true ({named})" if wrong else "",
            tuple(notes),
            beyond and trust.decided is None,
            unreported=bool(wrong) and not total,
        )

    @classmethod
    def of_aborted(
        cls, told: object, ours: Usage, thought_shown: bool, trust: Trust, before: Told = NOTHING_TOLD
    ) -> Booked:
        """Return what to book for an aborted stream, of which ``told`` is the usage so far, if it states one.

        The endpoint may write on until it notices the abort, at worst to the end of the window: that is held.
        """
        booked = cls.of(told, ours, 0, trust, before)
        if not booked.problem:
            unseen = 0 if thought_shown else booked.usage.reasoning_tokens
            most = max(booked.usage.completion_tokens, ours.completion_tokens + unseen)
            booked = replace(booked, usage=replace(booked.usage, completion_tokens=most))
        rest = Usage(0, 0, max(0, trust.window - booked.usage.completion_tokens))
        return replace(booked, problem="the reply was aborted", held=booked.held + rest, unreported=False)


def reported(told: object) -> Told:
    """Return the tokens of prompt and reply in a report, which may be of a part of the reply."""
    names = _named(mapping(told))
    return _tokens(names.get("prompt_tokens"), 0) or 0.0, _tokens(_with_thought(names), 0) or 0.0


def larger(first: Told, second: Told) -> Told:
    """Return the larger number of each kind."""
    return max(first[0], second[0]), max(first[1], second[1])


def as_usage(told: Told) -> Usage:
    """Return reported tokens as a usage, without numbers that no model reaches."""
    prompt, reply = (_above(tokens, 0) for tokens in told)
    return Usage(prompt, 0, reply)


def _named(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a report with the names of chat completions, if it has those of OpenAI's newer protocol."""
    newer = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    return {name: told[other] for name, other in newer.items() if other in told} | dict(told)


def _tokens(value: object, least: int) -> float | None:
    """Return a reported number of tokens, perhaps infinite; None if it is not a whole number of at least ``least``."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= least:
        return None
    return value if math.isinf(value) or value == int(value) else None


def _with_thought(told: Mapping[str, Any]) -> object:
    """Return the reported tokens of the reply, with its thought if the report has it only in other fields."""
    written = told.get("completion_tokens")
    reply, prompt = _tokens(written, 0), _tokens(told.get("prompt_tokens"), 0)
    if reply is None or prompt is None or math.isinf(reply + prompt):
        return written
    thought = _tokens(mapping(told.get("completion_tokens_details")).get("reasoning_tokens"), 0) or 0
    total = _tokens(told.get("total_tokens"), 0) or 0
    return max(reply, total - prompt, reply + thought if thought > reply else 0)


def _above(tokens: float, booked: int) -> int:
    return max(0, int(tokens) - booked) if tokens <= LARGEST_WINDOW else 0


def _with_parts(told: Mapping[str, Any], prompt: int, completion: int) -> Usage:
    """Return the usage with its parts, such as cached tokens. They never exceed their total: no cost is negative."""
    cached = min(_part(told, "prompt_tokens_details", "cached_tokens"), prompt)
    written = min(_part(told, "prompt_tokens_details", "cache_write_tokens"), prompt - cached)
    thought = min(_part(told, "completion_tokens_details", "reasoning_tokens"), completion)
    return Usage(prompt, cached, completion, thought, written)


def _part(told: Mapping[str, Any], details: str, name: str) -> int:
    value = mapping(told.get(details)).get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _negative_parts(told: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for details in ("prompt_tokens_details", "completion_tokens_details"):
        for name, value in mapping(told.get(details)).items():
            if isinstance(value, int | float) and value < 0:
                yield str(name)[:40], value


def added(first: object, *others: object) -> object:
    """Return ``first``, if it is a number, plus those of ``others`` that are positive numbers."""
    if not isinstance(first, int | float) or isinstance(first, bool):
        return first
    return sum([other for other in others if isinstance(other, int | float) and other > 0], first)


def mapping(value: object) -> Mapping[str, Any]:
    """Return ``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}
