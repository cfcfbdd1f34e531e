"""Which sources go to which sides, in what shares: ``configs/split/rules.yaml``."""

from __future__ import annotations

import hashlib
from typing import Final

from pydantic import Field, field_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.evaluation.split.keys import Side

RULES: Final = "split/rules.yaml"
"""The shipped rules."""


class Rule(Settings):
    """``sources`` are sets ("tatqa") or files of sets ("hotpotqa/dev"); ``shares`` are parts of their questions."""

    sources: tuple[str, ...] = Field(min_length=1, strict=False)
    shares: dict[Side, float]
    why: str

    @field_validator("shares")
    @classmethod
    def _whole(cls, shares: dict[Side, float]) -> dict[Side, float]:
        if min(shares.values(), default=0.0) < 0 or abs(sum(shares.values()) - 1) > 1e-9:
            raise ValueError("the shares must be positive and add up to 1")
        return shares

    def covers(self, name: str, part: str) -> bool:
        """Whether the file ``part`` of the set ``name`` is among the sources."""
        return name in self.sources or f"{name}/{part}" in self.sources


class SplitRules(Settings):
    """The first rule that covers any question of a component decides; the last lines say who has no public names.

    ``named_by_questions``: a set whose documents have names of its own, and the sources whose questions tell which
    public document is meant. ``named_by_passages``: sets whose texts hold whole texts of other sets.
    """

    seed: int
    rules: tuple[Rule, ...] = Field(min_length=1, strict=False)
    named_by_questions: dict[str, tuple[str, ...]] = Field(default_factory=dict, strict=False)
    named_by_passages: tuple[str, ...] = Field(default=(), strict=False)

    @field_validator("named_by_questions", mode="before")
    @classmethod
    def _tuples(cls, value: object) -> object:
        return {k: tuple(v) for k, v in value.items()} if isinstance(value, dict) else value

    def rule_of(self, name: str, part: str) -> int | None:
        """The number of the first rule for a file of a set; None when there is none."""
        return next((number for number, rule in enumerate(self.rules) if rule.covers(name, part)), None)

    def fingerprint(self) -> str:
        """A hash that changes with any value of the rules."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]
