"""Self-RAG (Asai et al. 2024) with prompted critique: answer from each chunk separately and keep the best answer.

For each answer the generator states whether the chunk is relevant, how well it supports the answer, and how useful the
answer is. The answer with the highest weighted sum of these marks is returned. Marks and weights are the authors'
(``retrieval_lm/run_short_form.py``): relevant 1 or 0; support full 1, partial 0.5, none 0; usefulness of 1 to 5 as -1
to 1; weights 1, 1 and 0.5.

Differences from the paper:

- The generator is prompted, and its marks are parsed from the reply; ties go to the better ranked chunk. The paper
  trains a generator that writes its marks as special tokens, and uses their probabilities.
- A separate call decides whether to retrieve; an unreadable reply counts as yes. The paper retrieves if the probability
  of a token exceeds 0.2. After "no" the generator answers from its own knowledge.
- There is one segment, the answer. The paper's beam search over the sentences of long answers is left out, because all
  sets here ask for short ones.
- The weighted sum does not include the likelihood of the answer.
- Five dense chunks of 512 tokens; the authors use five or ten passages of 100 words.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.citations import ask_and_read, ask_or, sources_of
from okralong.pipelines.answering.context import fit_passages, passage_of, prompt_fits
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.prompt_text import (
    Evidence,
    first_sections,
    framed_prompt,
    label_pattern,
    neutralise,
    parse_evidence,
    strip_thought,
    take_references,
)
from okralong.pipelines.answering.prompts import UNANSWERABLE, clean, says_unanswerable
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.stated import sought_for
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Hit, Message, NobodyAsked, Passage, Plan, Question, ReplyError
from okralong.pipelines.methods.adaptive_rag import answer_closed_book
from okralong.pipelines.methods.needs import Needs

ROLE: Final = "critique"


class Section(MethodSection):
    """Self-RAG's constants.

    The generator answers separately from each of the ``count`` best chunks of ``granularity`` tokens. ``relevance``,
    ``support`` and ``utility`` are the weights of the marks. With ``adaptive`` the generator is first asked whether to
    retrieve.
    """

    KEY = "self_rag"
    granularity: Tokens = 512
    count: Count = 5
    relevance: Annotated[float, Field(ge=0, le=100)] = 1.0
    support: Annotated[float, Field(ge=0, le=100)] = 1.0
    utility: Annotated[float, Field(ge=0, le=100)] = 0.5
    adaptive: bool = True


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True, unforeseen="the generator decides whether it retrieves at all")


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer from each chunk and return the answer with the best marks.

    Steps: ``plan``, ``decide`` if the policy is adaptive, then ``generate`` (without retrieval), or ``retrieve`` and
    one step per chunk, ``passage/1/critique``.
    """
    policy, words = tools.policy.section(Section), question.question
    plan = await tools.record_plan("plan", _plan(tools))
    if policy.adaptive and not await _must_look_up(tools, "decide", words):
        return replace(await answer_closed_book(tools, "generate", words), plan=plan)
    hits = await dense_retrieval(tools, "retrieve", words, plan)
    tried = [_critique(tools, f"passage/{number}/critique", words, hit) for number, hit in enumerate(hits, 1)]
    candidates = [found for found in await asyncio.gather(*tried) if found is not None]
    answered = [each for each in candidates if each.marks.answer]
    if not answered:
        shown, by = tuple(each.shown for each in candidates), tuple(dict.fromkeys(each.model for each in candidates))
        return Answer("unanswerable", UNANSWERABLE, plan=plan, context=shown, replied_by=by)
    best = max(answered, key=lambda each: each.marks.weight(policy))  # of ties, the better ranked chunk
    said = calculate(best.marks.answer) if tools.calculator else best.marks.answer
    citations = sources_of(best.marks.evidence, [best.shown], sought_for(best.marks.answer, words, said))
    return Answer("answered", said, citations, plan=plan, context=(best.shown,), replied_by=(best.model,))


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    calls = [("classify", 0)] if policy.adaptive else []
    most = most_of(tools, [*calls, *[(ROLE, policy.granularity)] * policy.count])
    chunks = f"each of the {policy.count} best dense chunks of {policy.granularity} tokens"
    reason = f"Self-RAG: {chunks} answered from and marked by itself, the best marked answer"
    return plain_plan(policy.granularity, policy.count, reason, most=most)


@dataclass(frozen=True, slots=True)
class Marks:
    """A parsed reply: answer ("" for "unanswerable"), evidence, and marks (``support`` 0 to 1, ``utility`` 1 to 5)."""

    answer: str
    evidence: tuple[Evidence, ...]
    relevant: bool
    support: float
    utility: int

    def weight(self, policy: Section) -> float:
        """Return the weighted sum of the marks, with the usefulness scaled to -1 to 1 (the authors' ``ut_scores``)."""
        useful = (self.utility - 3) / 2
        return policy.relevance * self.relevant + policy.support * self.support + policy.utility * useful


@dataclass(frozen=True, slots=True)
class Candidate:
    """The answer from one chunk, and the name of the model that replied."""

    shown: Passage
    marks: Marks
    model: str


async def _critique(tools: Tools, step: str, question: str, hit: Hit) -> Candidate | None:
    """Return the answer from one chunk with its marks, or None if no reply is readable."""
    build = partial(framed_prompt, INSTRUCTIONS, question)
    (shown,) = fit_passages([passage_of(hit)], [hit], build, ROLE, tools)
    ask, fits = partial(tools.complete, role=ROLE), partial(prompt_fits, role=ROLE, tools=tools)
    try:
        marks, reply = await ask_and_read(ask, step, build([shown]), read_marks, fits)
    except NobodyAsked:
        raise
    except ReplyError:
        return None
    return Candidate(shown, marks, reply.model)


async def _must_look_up(tools: Tools, step: str, question: str) -> bool:
    prompt = [Message("system", DECIDE_INSTRUCTIONS), Message("user", f"Question: {neutralise(question).strip()}")]
    return await ask_or(tools, "classify", step, prompt, read_decision, True)


# The prompts. The marks are the paper's (table 1): relevant or irrelevant; fully, partially, or no support; 1 to 5. The
# wording is ours, because the paper's generator is trained and has no prompt for the marks.

DECIDE_INSTRUCTIONS: Final = """Must documents be looked up to answer the question? Reply with one letter:
A: no; I know it for certain
B: yes; documents must be looked up"""

INSTRUCTIONS: Final = """Answer from this one passage, then judge your answer. Reply in this form:
Relevance: relevant or irrelevant, whether the passage helps with the question
Evidence: [1] "exact words copied from the passage"
Answer: the shortest complete answer, or unanswerable
Support: fully, partially or no, how far the passage supports the answer
Utility: 1 to 5, how useful the answer is to the question"""

_LABEL: Final = label_pattern(r"relevance|evidence|answer|support(?:ed)?|utility|usefulness")
_LETTER: Final = re.compile(r"\W*([AB])(?![A-Za-z])", re.IGNORECASE)
_YES_NO: Final = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_SCORE: Final = re.compile(r"[1-5](?!\d)")


def read_decision(reply: str) -> bool:
    """Return whether to retrieve. Raises ReplyError if the reply is neither letter, nor yes or no."""
    said = strip_thought(reply)
    if (letter := _LETTER.match(said)) is not None:
        return letter[1].upper() == "B"
    if (word := _YES_NO.match(said)) is not None:
        return word[1].casefold() == "yes"
    raise ReplyError(f"The reply is none of the letters A and B: {reply[:80]!r}. One of them was asked for.")


def read_marks(reply: str) -> Marks:
    """Parse a reply; a missing mark counts as the lowest. Raises ReplyError if there is no answer."""
    rename = {"supported": "support", "usefulness": "utility"}
    unlabelled, sections = first_sections(_LABEL, strip_thought(reply), rename)
    answer, references = take_references(clean(sections.get("answer", "" if sections else unlabelled)))
    if not answer:
        raise ReplyError(f"The reply holds no answer: {reply[:80]!r}. The five lines of the form were asked for.")
    relevance = sections.get("relevance", "").casefold()
    score = _SCORE.search(sections.get("utility", ""))
    evidence = parse_evidence(sections.get("evidence", "")) or references
    return Marks(
        answer="" if says_unanswerable(answer) else answer,
        evidence=tuple(replace(each, passage=1) for each in evidence),
        relevant="relevant" in relevance and "irrelevant" not in relevance and "not relevant" not in relevance,
        support=_support(sections.get("support", "").casefold()),
        utility=int(score[0]) if score else 1,
    )


def _support(said: str) -> float:
    if "partial" in said:
        return 0.5
    return 1.0 if re.match(r"\W*(?:full|yes)", said) else 0.0
