"""A set's own calculation as the reader writes it, held against the set's answer before anybody learns from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from okralong.pipelines.answering.generate import calculate
from okralong.pipelines.reporting.metrics import numeric_match

_SCALE: Final = re.compile(r"\b(thousand|million|billion)\b")
_UNIT: Final = re.compile(r"[%a-z]\s*$")


def formula(calculation: str, answers: Sequence[str]) -> str | None:
    """The answer as an expression with its unit ("=(12 - 10) / 10 * 100 %"), or None where it misses the gold.

    Sets leave the last step to the reader: a share is to be written in percent, an amount has the table's scale.
    """
    plain = " ".join(calculation.strip().lstrip("=").split())
    if not plain:
        return None
    for candidate in _candidates(plain, answers):
        result = calculate(candidate)
        if result != candidate.removeprefix("=").strip() and numeric_match(result, answers):
            return candidate
    return None


def _candidates(plain: str, answers: Sequence[str]) -> list[str]:
    if _UNIT.search(plain):
        return [f"={plain}"]
    bracketed = plain if re.fullmatch(r"[\d.,]+ ?[/*] ?[\d.,]+", plain) else f"({plain})"
    bracketed = plain if plain.endswith(")") or re.search(r"\)\s*/\s*[\d.,]+$", plain) else bracketed
    scale = next((match.group() for answer in answers if (match := _SCALE.search(answer.lower()))), None)
    if any("%" in answer for answer in answers):
        return [f"={bracketed} * 100 %", f"={plain} %"]
    return [f"={plain} {scale}", f"={plain}"] if scale else [f"={plain}"]
