"""CompAct (Yoon et al. 2024): the generator compresses the 30 best chunks, five at a time, into one growing summary.

It stops when it considers the summary complete, and answers only from the summary. As in the authors' settings
(``run_prompt.py``, their section 4.1), there are thirty chunks in six rounds of five, and the prompt for the answer has
the last summary and evaluation.

Differences from the paper:

- The prompted generator compresses, and its tokens count as cost. The paper distills a Mistral-7B, whose tokens
  OkraLong's authors do not count.
- Chunks have 512 tokens, retrieved densely; the paper's passages have 100 words, so a segment here is four times
  longer.
- A summary may have ``llm.max_completion_tokens.compress`` tokens (default 384); the authors allow 900.
- If a round's reply has no summary, even after one repair, the summary stays unchanged. If no round yields a summary,
  the answer is generated from the first segment's chunks.
- The answer has neither context nor citations, because the summary occurs in no document.
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
    """CompAct's constants: the ``candidates`` best chunks of ``granularity`` tokens are read ``segment`` at a time."""

    KEY = "compact"
    granularity: Tokens = 512
    candidates: Count = 30
    segment: Count = 5


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True, unforeseen="it stops when the generator finds a summary complete")


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from the summary. Steps: ``plan``, ``retrieve``, those of ``digest``, ``generate``."""
    plan = await tools.record_plan("plan", _plan(tools))
    hits = await dense_retrieval(tools, "retrieve", question.question, plan)
    text = (await digest(tools, question.question, hits, tools.policy.section(Section).segment)).text
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
    """Summarize ``hits`` (most important first) for the question, ``segment`` chunks at a time.

    Steps: ``segment/1/compress``, ``segment/2/compress`` and so on (followed by ``/repair`` if a reply is unusable),
    until a summary is complete or all segments are read.
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


# The prompt of one round (section 3.2). The two parts of a reply, their marks and the 200 words are the paper's; the
# other wording is ours::
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
    """A summary, whether the generator considers it complete, and the generator's reason."""

    summary: str = ""
    complete: bool = False
    reason: str = ""

    @property
    def text(self) -> str:
        """Summary and reason, as they are shown in the prompt for the answer (the authors' ``run_prompt.py``)."""
        return f"{self.summary} {self.reason}".strip()


NOTHING_YET: Final = Digest()


def compress_prompt(question: str, so_far: Digest, passages: Sequence[Passage]) -> list[Message]:
    """Return the messages that ask for a new summary from ``so_far`` and further ``passages``."""
    system, asked = framed_prompt(INSTRUCTIONS, question, passages)
    if not so_far.summary:
        return [system, asked]
    known = f"Summary so far: {neutralise(so_far.summary)}\nEvaluation of it: {neutralise(so_far.reason) or 'none'}"
    return [system, Message(asked.role, f"{asked.content}\n\n{known}")]


def read_digest(reply: str) -> Digest:
    """Parse a reply; one without an evaluation counts as incomplete.

    Raises:
        ReplyError: The reply has no summary.
    """
    unlabelled, parts = first_sections(_LABEL, strip_thought(reply))
    summary = parts.get("summary") or unlabelled
    if not summary:
        raise ReplyError(
            f"The reply holds no summary: {reply[:80]!r}. The lines Summary and Evaluation were asked for."
        )
    evaluation = parts.get("evaluation", "")
    complete = _COMPLETE.search(evaluation) is not None and "incomplete" not in evaluation.casefold()
    return Digest(" ".join(summary.split()), complete, " ".join(_MARKS.sub("", evaluation).split()))
