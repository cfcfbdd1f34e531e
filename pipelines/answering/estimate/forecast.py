"""What a question will send to the generator, as far as that can be known before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Looks = Literal["none", "split", "step"]
"""How many look-ups there will be depends on replies: not at all, on the sub-questions, on the steps."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, in tokens as an endpoint counts them (see ``prompt_tokens``)."""

    role: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """The prompts of one question under one strategy.

    ``certain`` are sent whatever the replies say. Where ``looks`` is not "none", ``answer[n]`` are the tokens of the
    answer prompt when n + 1 look-ups have each found chunks that no other found, and ``reason[n]`` those of the prompt
    of a reasoning step over as many. ``full_text`` are the tokens of the prompt that follows the reply "unanswerable",
    0 where none does.
    """

    certain: tuple[Prompt, ...] = ()
    looks: Looks = "none"
    answer: tuple[int, ...] = ()
    reason: tuple[int, ...] = ()
    full_text: int = 0


@dataclass(frozen=True, slots=True)
class Outlook:
    """One question under each strategy. ``type`` and ``workflow`` are those that the method gives it, "unknown" and
    "linear" where there was nothing to analyse. ``problems`` says by strategy why it cannot be asked.
    """

    query_id: str
    type: str
    workflow: str
    forecasts: Mapping[str, Forecast]
    problems: Mapping[str, str]
