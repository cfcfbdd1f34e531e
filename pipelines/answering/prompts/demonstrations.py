"""One worked example for each role, for small generators that do not follow a contract from its description alone.

A demonstration costs 60 to 130 tokens a call, so it is shown only where ``llm.demonstrations`` asks for it. The paper
shows one for splitting and for stepping to every generator (appendix, Tables 8 and 9); ours stand in the split prompt's
own text, and here.
"""

from __future__ import annotations

from collections.abc import Sequence

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
"""By role: a question as the role's prompt puts it, and the reply that its contract wants."""


def with_demonstration(messages: Sequence[Message], role: str) -> list[Message]:
    """``messages`` with the role's example after the system message; as they are for a role that has none."""
    shown = DEMONSTRATIONS.get(role)
    return list(messages) if shown is None else [messages[0], *shown, *messages[1:]]
