"""CompAct (Yoon et al. 2024): the 30 best chunks, five at a time, are worked into one summary, which grows until the
generator finds it complete; the answer is read from the summary alone.

Thirty chunks in six rounds of five, and a reader that sees summary and evaluation, are the authors' settings
(``run_prompt.py``, their section 4.1; OkraLong's section 4.2 takes the same thirty).

Where this differs from the paper:

- The prompted variant: the generator compresses. The paper distils a Mistral-7B for it, whose tokens OkraLong's authors
  do not count; here each compression is a call like any other, and costs.
- Chunks of 512 tokens by dense retrieval; the paper's are passages of 100 words, so a segment here is four times as
  long.
- A summary may have ``llm.max_completion_tokens.compress`` tokens, 384 unless set; the authors allow 900.
- A round whose reply holds no summary, also when it is asked for once more, leaves the summary as it was. Where no
  round brings one, the answer is read from the first segment's chunks.
- The answer has neither context nor citations, since what the reader saw stands in no document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from okralong.pipelines.answering.citations import ask_or
from okralong.pipelines.answering.context import fit_passages, passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.prompt_text import (
    first_sections,
    framed_prompt,
    label_pattern,
    neutralise,
    strip_thought,
)
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Hit, Message, Passage, Plan, Question, ReplyError
from okralong.pipelines.methods.needs import Needs

ROLE: Final = "compress"


class Section(MethodSection):
    """CompAct: the ``candidates`` best chunks of ``granularity`` tokens are read ``segment`` at a time, best first."""

    KEY = "compact"

    granularity: Tokens = 512
    candidates: Count = 30
    segment: Count = 5


def needs(policy: Policy) -> Needs:
    """Return what the method needs of a run."""
    return Needs(
        granularities=(policy.section(Section).granularity,),
        vectors=True,
        unforeseen="it stops when the generator finds a summary complete",
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, those of ``digest``, ``generate``."""
    plan = await tools.record_plan("plan", _plan(tools))
    hits = await dense_retrieval(tools, "retrieve", question.question, plan)
    text = (await digest(tools, question.question, hits, tools.policy.section(Section).segment)).text
    # It is shown as a passage, but stands in no document, so the answer has neither context nor citations.
    written = Passage("summary", 0, len(text), text, count_tokens(text), 1.0)
    first = [passage_of(hit) for hit in hits[: tools.policy.section(Section).segment]]
    found = await generate(tools, "generate", question.question, [written] if text else first)
    return Answer(found.status, found.answer, plan=plan)


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    rounds = -(-policy.candidates // policy.segment)
    summary = tools.completion_limit("compress")
    calls = [("compress", policy.granularity * policy.segment + summary)] * rounds
    reason = f"CompAct: the {policy.candidates} best dense chunks, {policy.segment} at a time, into one summary"
    most = most_of(tools, [*calls, ("generate", summary)])
    return plain_plan(policy.granularity, policy.candidates, reason, workflow="step", max_steps=rounds, most=most)


async def digest(tools: Tools, question: str, hits: Sequence[Hit], segment: int) -> Digest:
    """What ``hits``, most important first and ``segment`` at a time, say on the question.

    Steps: ``segment/1/compress`` onward (each with ``/repair`` where its reply is of no use), until a summary is
    complete or all are read. A round without a summary adds nothing.
    """
    so_far = NOTHING_YET
    for number, start in enumerate(range(0, len(hits), segment), start=1):
        part = hits[start : start + segment]
        build = partial(compress_prompt, question, so_far)
        shown = fit_passages([passage_of(hit) for hit in part], part, build, ROLE, tools)
        so_far = await ask_or(tools, ROLE, f"segment/{number}/compress", build(shown), read_digest, so_far)
        if so_far.complete:
            break
    return so_far


# The prompt of one round: what a few further passages add to a summary, and whether that suffices (section 3.2). The
# two parts of a reply, their marks and the 200 words are the paper's; the words are ours::
#
#     Summary: what is known so far, in under 200 words
#     Evaluation: [INCOMPLETE] the year is missing

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
    unlabelled, parts = first_sections(_LABEL, strip_thought(reply))
    summary = parts.get("summary") or unlabelled
    if not summary:
        raise ReplyError(
            f"The reply holds no summary: {reply[:80]!r}. The lines Summary and Evaluation were asked for."
        )
    evaluation = parts.get("evaluation", "")
    complete = _COMPLETE.search(evaluation) is not None and "incomplete" not in evaluation.casefold()
    return Digest(" ".join(summary.split()), complete, " ".join(_MARKS.sub("", evaluation).split()))
