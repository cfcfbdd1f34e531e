"""A question in the making: its wording, its gold answers, and the facts that prove them, by key."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from okralong.pipelines.core.types import QuestionType


@dataclass(frozen=True, slots=True)
class Draft:
    """A question whose evidence is named by (doc_id, fact key); spans come with the rendering.

    ``answers`` are equally good wordings, the first the plainest; empty if unanswerable, and then ``absent`` is the
    phrase that no document of the scope contains. ``calculation`` is the expression of an arithmetic answer in the
    report's own figures, with its unit ("(12.5 - 10) / 10 * 100 %").
    """

    question: str
    type: QuestionType
    doc_ids: tuple[str, ...]
    answers: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]
    absent: str = ""
    calculation: str = ""


def rounded(value: Decimal, places: int) -> str:
    """The value with so many decimals, halves up, as a person rounds; thousands separated."""
    return f"{value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,}"


def percentage(now: Decimal, then: Decimal) -> str:
    """The size of the change from ``then`` to ``now``, e.g. "12.4%"; the question says which way it went."""
    return f"{rounded(abs(now - then) / then * 100, 1)}%"


def change(now: Decimal, then: Decimal) -> str:
    """The formula of ``percentage``."""
    high, low = max(now, then), min(now, then)
    return f"({high:,} - {low:,}) / {then:,} * 100 %"


def thousands(value: int) -> tuple[str, ...]:
    """Ways to write an amount that a table gives in thousands of dollars."""
    return f"${value:,} thousand", f"{value:,}", f"${rounded(Decimal(value) / 1000, 1)} million"
