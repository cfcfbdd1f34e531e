"""A worked example for each role, for small generators that do not follow a contract from its description alone.

An example costs 60 to 130 tokens per call, so it is shown only with ``llm.demonstrations``. The paper shows one for
splitting and for stepping to every generator (appendix, Tables 8 and 9); the split prompt has its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.answering.answer_types import SCHEMA, TEXT, AnswerType
from okralong.pipelines.answering.prompts.answer import answer_prompt
from okralong.pipelines.answering.prompts.split import split_prompt
from okralong.pipelines.answering.prompts.step import step_prompt
from okralong.pipelines.core.types import Message, Passage

_YARD = "Fernhill sold 310 boats in 2021. Its yard in Oslo has 44 workers."
_CHIEF = "Mara Lind has led Fernhill since 2016."


def _passage(text: str) -> Passage:
    return Passage("fernhill-2021", 0, len(text), text, 0, 0.0)


def _turn(asked: Sequence[Message], reply: str) -> tuple[Message, Message]:
    return asked[-1], Message("assistant", reply)


_READ = _turn(
    answer_prompt("Who leads Fernhill?", [_passage(_YARD), _passage(_CHIEF)]),
    f'Evidence: [2] "{_CHIEF}"\nAnswer: Mara Lind',
)

DEMONSTRATIONS: dict[str, tuple[Message, Message]] = {
    "generate": _READ,
    "full_text": _READ,
    "split": _turn(
        split_prompt("Who sold more boats in 2021, Fernhill or Marrow Bay?", 4),
        "How many boats did Fernhill sell in 2021?\nHow many boats did Marrow Bay sell in 2021?",
    ),
    "step": _turn(
        step_prompt("Where did the leader of Fernhill study?", [_passage(_CHIEF)]),
        f'Evidence: [1] "{_CHIEF}"\nQuery: Where did Mara Lind study?\nAnswer: none',
    ),
}
"""The examples by role: a question in the form of the role's prompt, and the reply that its contract requires."""

_READ_SHORT = (_READ[0], Message("assistant", "Mara Lind [2]"))
SHORT_DEMONSTRATIONS: dict[str, tuple[Message, Message]] = {
    **DEMONSTRATIONS,
    "generate": _READ_SHORT,
    "full_text": _READ_SHORT,
}
"""The same under the short contract."""


_SOLD = "How many boats did Fernhill sell in 2021?"
_COUNT = AnswerType("number")
_READ_TYPED = _turn(
    answer_prompt(_SOLD, [_passage(_YARD), _passage(_CHIEF)], wanted=_COUNT),
    '{"evidence": [{"passage": 1, "quote": "Fernhill sold 310 boats in 2021."}], "value": "310 boats", '
    '"period": "2021"}',
)
_READ_TYPED_SHORT = _turn(
    answer_prompt(_SOLD, [_passage(_YARD), _passage(_CHIEF)], short=True, wanted=_COUNT), "310 boats [1]"
)


def demonstrations(short: bool = False, wanted: AnswerType = TEXT) -> dict[str, tuple[Message, Message]]:
    """Return the examples by role, for a contract and a type of question."""
    shown = SHORT_DEMONSTRATIONS if short else DEMONSTRATIONS
    if wanted == TEXT:
        return shown
    typed = _READ_TYPED_SHORT if short and wanted.kind != SCHEMA else _READ_TYPED
    return {**shown, "generate": typed, "full_text": typed}


def with_demonstration(
    messages: Sequence[Message], role: str, short: bool = False, wanted: AnswerType = TEXT
) -> list[Message]:
    """Return ``messages`` with the role's example, if it has one, after the system message."""
    shown = demonstrations(short, wanted).get(role)
    return list(messages) if shown is None else [messages[0], *shown, *messages[1:]]
