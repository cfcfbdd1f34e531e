"""CompAct's prompt: what a few further passages add to a summary, and whether that suffices (Yoon et al. 2024, 3.2).

Contract of a reply::

    Summary: what is known so far, in under 200 words
    Evaluation: [INCOMPLETE] the year is missing

The two parts, their marks and the 200 words are the paper's; the words are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.answering.prompts import cut_at_labels, framed_prompt, label_pattern, neutralise, strip_thought
from okralong.pipelines.core.types import Message, Passage, ReplyError

INSTRUCTIONS: Final = """Do not answer the question yet: gather what another reader needs to answer it. \
Reply in this form:
Summary: what the passages, and the summary so far if there is one, say that helps; under 200 words, names in full, \
no pronouns, nothing assumed
Evaluation: [COMPLETE] if the summary alone holds all that the answer needs, else [INCOMPLETE]; then why, or what is \
missing"""

_LABEL: Final = label_pattern("summary|evaluation")
_COMPLETE: Final = re.compile(r"(?<![A-Za-z-])COMPLETE\b", re.IGNORECASE)
_MARKS: Final = re.compile(r"\[?(?:IN)?COMPLETE\]?[ :;,.-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Digest:
    """A summary, whether it suffices, and the reason that was given."""

    summary: str = ""
    complete: bool = False
    reason: str = ""

    @property
    def text(self) -> str:
        """Summary and reason, which is what the reader is shown (the authors' ``run_prompt.py``)."""
        return f"{self.summary} {self.reason}".strip()


NOTHING_YET: Final = Digest()


def compress_prompt(question: str, so_far: Digest, passages: Sequence[Passage]) -> list[Message]:
    """The messages that ask for the summary of what was known ``so_far`` and of some further ``passages``."""
    system, asked = framed_prompt(INSTRUCTIONS, question, passages)
    if not so_far.summary:
        return [system, asked]
    known = f"Summary so far: {neutralise(so_far.summary)}\nEvaluation of it: {neutralise(so_far.reason) or 'none'}"
    return [system, Message(asked.role, f"{asked.content}\n\n{known}")]


def read_digest(reply: str) -> Digest:
    """Read a reply. Raises ReplyError when it holds no summary. Without an evaluation it is taken as incomplete."""
    unlabelled, sections = cut_at_labels(_LABEL, strip_thought(reply))
    parts: dict[str, str] = {}
    for label, section in sections:
        parts.setdefault(label, section)
    summary = parts.get("summary") or unlabelled
    if not summary:
        raise ReplyError(
            f"The reply holds no summary: {reply[:80]!r}. The lines Summary and Evaluation were asked for."
        )
    evaluation = parts.get("evaluation", "")
    complete = _COMPLETE.search(evaluation) is not None and "incomplete" not in evaluation.casefold()
    return Digest(" ".join(summary.split()), complete, " ".join(_MARKS.sub("", evaluation).split()))
