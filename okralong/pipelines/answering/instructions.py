"""Separate the instructions in a question from what it asks.

"According to the annual report, what is the total revenue (in USD) for Alder Inc. (at the end of the last period)? If
data is not available, return 'N/A'." asks "What is the total revenue (in USD) for Alder Inc.?", and N/A is its answer
without evidence. The instructions would mislead retrieval and the readers. Not in the paper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from okralong.pipelines.core.types import Answer, TypedValue

LONGEST: Final = 2_000  # project default
"""The most characters of a question that is searched for instructions."""
_ABSENT: Final = (
    r"(?:not|no|n't|never|none|nothing|cannot|missing|absent|unknown|unavailable|undisclosed|lacks?|without|n/a)"
)
_OTHERWISE: Final = re.compile(
    rf"(?:^|(?<=[.?!;])\s*)(?:if|when|where)\s(?=[^.?!]{{0,120}}?\b{_ABSENT}\b)[^.?!,]{{3,120}}?(?:,|\bthen\b|:)?\s+"
    r"(?:please\s+)?(?:return|answer|say|write|reply|respond|output|give|use|put|state)\s+(?:with\s+)?(?:only\s+)?"
    r"(?:[\"'\u2018\u201c](?P<quoted>[^\"'\u2019\u201d]{1,40})[\"'\u2019\u201d]|(?P<bare>[\w/]{1,20}))(?:[.!]\s*|\s*$)",
    re.IGNORECASE,
)
"""What to answer without evidence: "If data is not available, return 'N/A'."."""
_SOURCE: Final = (
    r"(?:in|of|by|according\s+to|based\s+on|from|(?:as\s+)?(?:listed|stated|reported|disclosed|shown|given)\s+in)\s+"
    r"(?:the|its|their|this)?\s*(?:company's\s+)?(?:latest\s+)?annual\s+report"
)
_BEFORE: Final = re.compile(rf"^\s*{_SOURCE},\s*", re.IGNORECASE)
_REPORT: Final = re.compile(rf"\s*,?\s*\b{_SOURCE}\b(?=\s*(?:[?.(]|$))", re.IGNORECASE)
_LAST: Final = re.compile(
    r"\s*\((?:with)?in\s+the\s+last\s+(?:reporting\s+)?(?:period|year)[^)]*\)"
    r"|\s+at\s+the\s+end\s+of\s+the\s+(?:reporting\s+)?period(?=\s*(?:listed|[?,.(]|$))",
    re.IGNORECASE,
)
"""Words for the report's own period, which is also the period of questions without a time."""
_FOR: Final = re.compile(
    r"^(?:for|at)\s+(?P<whose>[A-Z\d][^?]{1,100}?),\s+(?P<asks>(?:what|which|how|who)\b[^?]+?)\s*\?", re.IGNORECASE
)
"""A question whose subject is before it: "For Alder Inc., what was the total revenue?"."""
_VALUE_OF: Final = re.compile(r"\bthe\s+value\s+of\s+(?=[A-Z])")
_NOTHING: Final = frozenset(["n/a", "na", "none", "unknown", "unanswerable", "not available", "null", "-"])
"""Answers that say that there is no evidence."""
_YES_NO: Final = {"true": "yes", "false": "no", "yes": "yes", "no": "no"}


@dataclass(frozen=True, slots=True)
class Instructed:
    """A question in plain words, and what it wants as its answer without evidence ("" if it does not say that)."""

    question: str
    default: str = ""


def instructed(question: str) -> Instructed:
    """Return a question without its instructions; unchanged if it says nothing about missing evidence."""
    otherwise = _OTHERWISE.search(question) if len(question) <= LONGEST else None
    if otherwise is None:
        return Instructed(question)
    plain = f"{question[: otherwise.start()]} {question[otherwise.end() :]}"
    plain = _LAST.sub("", _BEFORE.sub("", plain))
    plain = " ".join(_VALUE_OF.sub("the ", _REPORT.sub("", plain)).split())
    plain = _FOR.sub(lambda match: f"{match['asks']} for {match['whose']}?", plain)
    plain = plain[:1].upper() + plain[1:]
    return Instructed(plain, otherwise["quoted"] or otherwise["bare"]) if len(plain) > 1 else Instructed(question)


def with_default(asked: Instructed, answer: Answer, kind: str) -> Answer:
    """Return the answer that a question wants if there is no evidence, if there is none.

    "N/A" and the like are "unanswerable", as for every question. Any other default is an answer without citations,
    with its reason as ``error``. Its confidence remains that of "unanswerable".

    Args:
        asked: The question.
        answer: Its answer.
        kind: The kind of its answer type.
    """
    if answer.status != "unanswerable" or not asked.default or asked.default.casefold() in _NOTHING:
        return answer
    said = asked.default
    value = TypedValue(_YES_NO[said.casefold()]) if kind == "boolean" and said.casefold() in _YES_NO else None
    if kind != "text" and value is None:
        return answer
    why = answer.error or f"No evidence was found; the question wants {said!r} then."
    return replace(answer, status="answered", answer=said, citations=(), value=value, error=why)
