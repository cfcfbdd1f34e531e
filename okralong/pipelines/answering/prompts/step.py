"""The prompt of one step of reasoning (paper section 3.3).

A step reads the passages retrieved so far. Its reply says what they establish, what to look up next, and the answer if
they already contain it. The reply is untrusted, since the model has read documents: its next query is only passed to
the retriever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from okralong.pipelines.answering.languages import language_name
from okralong.pipelines.answering.prompt_text import (
    Evidence,
    cut_at_labels,
    framed_prompt,
    label_pattern,
    parse_evidence,
    strip_thought,
    take_references,
)
from okralong.pipelines.answering.prompts.answer import clean, says_unanswerable
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.types import Message, Passage, ReplyError

STEP_INSTRUCTIONS = """The question may need several look-ups, one after the other. Reply in this form:
Evidence: [n] "exact words copied from passage n" that help
Query: one question that looks up the next missing fact, or none
Answer: the shortest complete answer if the passages hold it, or none"""

_STEP_LABEL = label_pattern(r"evidence|(?:next[ \t_-]*)?(?:query|question)|(?:final[ \t]+)?answer")
_NO_ANSWER = re.compile(r"(?:none|n/?a|null|nil|not (?:yet )?(?:known|found|available))?", re.IGNORECASE)
"""Ways to say that there is no answer yet. "No" is not among them, because it answers a yes-or-no question."""
_NO_QUERY = re.compile(rf"{_NO_ANSWER.pattern}|no(?:thing)?(?: (?:more|further).*)?", re.IGNORECASE)
_LONGEST_QUERY = 400  # project default
"""Most characters of the next query; the rest is dropped."""


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """The parts of a step's reply; a part that the reply lacks is empty."""

    answer: str = ""
    query: str = ""
    evidence: tuple[Evidence, ...] = ()


def step_prompt(question: str, passages: Sequence[Passage], language: str = ENGLISH) -> list[Message]:
    """Return the messages of one step over the passages retrieved so far; ``language`` is that of the question."""
    return framed_prompt(STEP_INSTRUCTIONS + _in_language(language), question, passages)


def _in_language(language: str) -> str:
    if language == ENGLISH:
        return ""
    return (
        f"\nWrite the query and the answer in {language_name(language)}. Copy quotations in the language of their "
        "passage. The labels and the word none stay in English."
    )


def parse_step(reply: str) -> ParsedStep:
    """Return the parts that ``read_step`` returns; all are empty if the reply is unusable."""
    try:
        return read_step(reply)
    except ReplyError:
        return ParsedStep()


def read_step(reply: str) -> ParsedStep:
    """Parse a reply. The first label of each kind counts; a single question without a label is the next query.

    "unanswerable" is not an answer here, because the next look-up may still find the evidence.

    Raises:
        ReplyError: The reply has neither a label nor a question.
    """
    unlabelled, found = cut_at_labels(_STEP_LABEL, strip_thought(reply))
    if not found and unlabelled.endswith("?") and "\n" not in unlabelled:
        found = [("query", unlabelled)]
    sections: dict[str, str] = {}
    for label, section in found:
        kind = "answer" if label.endswith("answer") else "evidence" if label == "evidence" else "query"
        sections.setdefault(kind, section)
    if not sections:
        raise ReplyError("The reply has none of the lines Evidence, Query and Answer. These three were asked for.")
    answer, references = take_references(clean(_unless(_NO_ANSWER, sections.get("answer", ""))))
    if says_unanswerable(answer):
        answer = ""
    query = _unless(_NO_QUERY, sections.get("query", "").split("\n")[0])
    claims = parse_evidence(_unless(_NO_QUERY, sections.get("evidence", "")))
    return ParsedStep(answer, query[:_LONGEST_QUERY], claims or references)


def _unless(nothing: re.Pattern[str], text: str) -> str:
    """Return ``text``, or "" if it matches ``nothing``."""
    return "" if nothing.fullmatch(text.strip(" \t\n.*_\"'`()[]<>-")) else text.strip()
