"""The prompt of one further sentence of reasoning, and where such a reply ends. FLARE and IRCoT write in this way.

Contract of a reply: the next sentence, and in the end ``So the answer is: 4.2 million euros``. Anything behind the
first sentence is cut off, so that a model which writes on does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from okralong.pipelines.answering.prompts import clean, framed_prompt, neutralise
from okralong.pipelines.core.types import Message, Passage
from okralong.pipelines.indexing.sentences import boundaries

INSTRUCTIONS: Final = """Reason step by step, one sentence at a time. Write the next sentence of the reasoning only: \
one fact, with all names written out.
When the facts suffice, write instead: So the answer is: the shortest complete answer
If the passages do not hold it: So the answer is: unanswerable"""

SO_FAR: Final = "\n\nReasoning so far: "
"""Stands between the question and the sentences that were written."""

_CONCLUSION: Final = re.compile(r"\banswer(?:\s+is\b\s*:?|\s*:)\s*(.*)", re.IGNORECASE | re.DOTALL)
"""IRCoT and FLARE alike end at "answer is" (Trivedi et al. 2023, 3.1; FLARE's exemplars). "Answer:" is what models
write that were trained on our other prompts.
"""


def sentence_prompt(question: str, said: Sequence[str], passages: Sequence[Passage]) -> list[Message]:
    """The messages that ask for the sentence after those that were ``said``."""
    system, asked = framed_prompt(INSTRUCTIONS, question, passages)
    reasoning = " ".join(neutralise(sentence).strip() for sentence in said)
    return [system, Message(asked.role, f"{asked.content}{SO_FAR}{reasoning or '(none)'}")]


def sentence_end(reply: str) -> int:
    """Where the first sentence of ``reply`` ends, in characters, the blanks behind it not counted. A conclusion lasts
    to the end of its line.
    """
    start = len(reply) - len(reply.lstrip())
    first = reply[start : start + next(boundaries(reply[start:], ()), 0)]
    if _CONCLUSION.search(first) is not None:
        first = reply[start:].partition("\n")[0]
    return start + len(first.rstrip())


def conclusion(sentence: str) -> str | None:
    """What the sentence concludes, without the full stop behind it; None for one that reasons on."""
    found = _CONCLUSION.search(sentence)
    if found is None:
        return None
    said = clean(found[1])
    return said.removesuffix(".") if len(said.split()) < 12 else said
