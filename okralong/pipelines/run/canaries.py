"""Canaries of ``okralong nightly``: questions with known answers, asked before the others of a night.

They are asked in a run of their own that reuses no reply of an earlier night, because a stored reply would hide that
the endpoint serves another model now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.run.question_sources import column_name, plain_value, read_rows
from okralong.pipelines.run.questions import read_questions

MOST_NAMED: Final = 5  # project default
"""Maximum number of wrong canaries in a message."""
SAID_CHARS: Final = 100  # project default
"""Maximum length of an answer in a message."""


class Canaries(Settings):
    """The canaries of a nightly.

    - ``questions``: a questions file with gold answers (column ``answers``).
    - ``min_right``: the share of right answers below which the endpoint is not trusted.
    - ``otherwise``: what happens then: "stop" ends the night before it asks anything else; "second" asks the canaries
      and the night's questions of a second endpoint, and stops if that is below the share, too.
    - ``second_llm``: the second endpoint: the keys of ``llm`` that differ from the answer config's.
    """

    questions: str
    min_right: Annotated[float, Field(gt=0, le=1)] = 0.9
    otherwise: Literal["stop", "second"] = "stop"
    second_llm: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _has_a_second(self) -> Self:
        if (self.otherwise == "second") != (self.second_llm is not None):
            raise ConfigError(
                "canaries.second_llm must name the second endpoint (base_url, model, ...) if otherwise is second, and "
                "be left out if it is stop."
            )
        return self

    def second(self, first: LlmConfig, where: str) -> LlmConfig:
        """Return the config of the second endpoint, where only what ``second_llm`` names differs from ``first``.

        Limits, prices and other endpoints of the first one are not taken over. Raises ConfigError.
        """
        own: dict[str, Any] = {"endpoints": [], "price": None, "api_version": None}
        own |= {"requests_per_minute": None, "tokens_per_minute": None}
        return parse_config(
            LlmConfig,
            yaml.safe_dump(first.model_dump(mode="json") | own | (self.second_llm or {})),
            f"{where}, canaries.second_llm",
        )


def check_canaries(source: str) -> None:
    """Raise InputError, naming file, row and remedy, if a canary cannot be asked or has no gold answer."""
    _, bad = read_questions(source)
    if bad:
        raise InputError(f"A canary cannot be asked: {bad[0].message} Nothing was run.")
    empty = [place for place, row in read_rows(source, source) if not _has_gold(row)]
    if empty:
        more = f" (so {counted(len(empty) - 1, 'other row')})" if len(empty) > 1 else ""
        raise InputError(
            f"{empty[0]}: the canary has no gold answer{more}. Fill its column answers with the known answer "
            f'("unanswerable" if the documents do not state one), or remove the row. Nothing was run.'
        )


def _has_gold(row: Any) -> bool:
    named = {column_name(key): value for key, value in row.items()} if isinstance(row, Mapping) else {}
    golds = plain_value(named.get("answers"))
    golds = golds if isinstance(golds, (list, tuple)) else [golds]
    return any(plain_value(each) is not None and str(each).strip() for each in golds)


@dataclass(frozen=True)
class Wrong:
    """A canary that was answered wrongly."""

    query_id: str
    said: str
    gold: str


@dataclass(frozen=True)
class Verdict:
    """How the canaries were answered.

    Attributes:
        asked: Number of canaries that reached the endpoint.
        right: Number of right answers among them.
        model: The models that replied, as the replies name them.
        wrong: The others.
        left_out: Number of canaries that reached no endpoint: their scope matches no document, or a local model
            answered them. They are not judged.
        usd: What they cost.
    """

    asked: int
    right: int
    model: str
    wrong: Sequence[Wrong] = ()
    left_out: int = 0
    usd: float = 0.0

    def passes(self, share: float) -> bool:
        """Return whether at least the ``share`` is right. Without a judged canary nothing speaks against the model."""
        return self.right >= share * self.asked - 1e-9

    def note(self) -> dict[str, Any]:
        """Return what ``night.json`` keeps."""
        found: dict[str, Any] = {"asked": self.asked, "right": self.right, "model": self.model, "usd": self.usd}
        return found | {"wrong": [each.query_id for each in self.wrong], "left_out": self.left_out}

    def words(self) -> str:
        """Return a line with the counts and the model."""
        return f"{self.right:,} of {counted(self.asked, 'canary', 'canaries')} right, answered by {self.model}"

    def first_wrong(self) -> str:
        """Return the first wrong canaries in words."""
        named = [
            f"{each.query_id} ({each.said[:SAID_CHARS] or 'no answer'!r} instead of {each.gold[:SAID_CHARS]!r})"
            for each in self.wrong[:MOST_NAMED]
        ]
        more = len(self.wrong) - MOST_NAMED
        return ", ".join([*named, *([f"{more:,} more"] if more > 0 else [])])
