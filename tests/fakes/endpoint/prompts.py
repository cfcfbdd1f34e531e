"""What a prompt asks for: okralong's roles, told by the instructions that the product itself puts into its prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okralong.pipelines.answering.analyzers.analysis import SYSTEM_PROMPT as ANALYZE
from okralong.pipelines.answering.prompt_text import RULES
from okralong.pipelines.answering.prompts import SPLIT_INSTRUCTIONS as SPLIT
from okralong.pipelines.answering.prompts import STEP_INSTRUCTIONS as STEP
from okralong.pipelines.answering.prompts import VALUE_MARK
from okralong.pipelines.core.types import QUESTION_MARK
from okralong.pipelines.methods.adaptive_rag import COMPLEXITY_INSTRUCTIONS as CLASSIFY
from okralong.pipelines.methods.compact import INSTRUCTIONS as COMPRESS
from okralong.pipelines.methods.flare import INSTRUCTIONS as SENTENCE
from okralong.pipelines.methods.flare import SO_FAR
from okralong.pipelines.methods.raptor import INSTRUCTIONS as SUMMARIZE
from tests.fakes.endpoint.scenario import Role

_OVER_PASSAGES: dict[Role, str] = {"step": STEP, "sentence": SENTENCE, "compress": COMPRESS}
_SPLIT_OPENING = SPLIT.split("{", maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The role, the last message as it stands, and the question in it."""

    role: Role
    text: str
    question: str


def read_prompt(messages: Sequence[tuple[str, str]]) -> Prompt:
    """Read ``(role, content)`` messages; demonstrations between the first and the last are passed over."""
    opening, text = messages[0][1], messages[-1][1]
    role = _role(opening) if messages[0][0] in ("system", "developer") else "other"
    before, mark, question = text.rpartition(QUESTION_MARK)
    if not mark:
        question = before or question.removeprefix(QUESTION_MARK.lstrip())
    return Prompt(role, text, question.partition(SO_FAR)[0].partition(VALUE_MARK)[0].strip())


def _role(opening: str) -> Role:
    if opening.startswith(ANALYZE):
        return "analyze"
    if opening.startswith(_SPLIT_OPENING):
        return "split"
    if opening == CLASSIFY:
        return "classify"
    if opening == SUMMARIZE:
        return "summarize"
    for role, instructions in _OVER_PASSAGES.items():
        if instructions in opening:
            return role
    return "read" if opening.startswith(RULES) else "other"
