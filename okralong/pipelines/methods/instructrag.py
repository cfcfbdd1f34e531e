"""InstructRAG (Wei et al. 2025), in-context: the generator explains how the chunks lead to the answer.

The prompt has examples: questions with known answers, and rationales that the generator wrote for them before. The
rationales are an artifact of the run: they are written when the first question needs them, under steps of their own,
and shared by all questions. ``--replies-from`` reuses them in another run without new calls.

Differences from the paper:

- This is the in-context variant. For InstructRAG-FT, which does better in the paper, ``lab/training/rows/labels.py``
  makes the training rows, and ``okralong train`` trains a reader adapter that needs no examples. None is shipped.
- The examples are two made-up questions over made-up passages, one relevant and one not. The paper samples them from
  each data set's training questions. In both cases the generator writes the rationales.
- A rationale ends with the lines of our answer format, so that there is a short answer to score and a source to cite.
  The authors count a rationale as right if it contains the answer anywhere.
- As in all methods here, the generator may use only the passages; without evidence the answer is "unanswerable".
- The passages are five dense chunks of 512 tokens, best first; the authors' have 100 words, best last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Final

from pydantic import Field

from okralong.pipelines.answering.citations import ask_or
from okralong.pipelines.answering.context import fit_passages, passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.generate import answer_of_reply
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.prompt_text import framed_prompt, neutralise, render_passages, strip_thought
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.core.types import Answer, Message, Passage, Plan, Question, ReplyError
from okralong.pipelines.methods.needs import Needs

ROLE: Final = "rationale"

ARTIFACT: Final = "instructrag"
EXAMPLES: Final = "examples"
"""The artifact's key has this instead of a doc_id, because the examples belong to no document."""


class Section(MethodSection):
    """InstructRAG's constants: the ``count`` best chunks of ``granularity`` tokens, and the number of ``examples``."""

    KEY = "instructrag"
    granularity: Tokens = 512
    count: Count = 5
    examples: Annotated[int, Field(ge=0, le=2)] = 2


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    section = policy.section(Section)
    return Needs(
        granularities=(section.granularity,),
        vectors=True,
        unforeseen="the rationales of its examples must be written first" if section.examples else None,
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once with a rationale.

    Steps: ``plan``, ``retrieve``, the artifact ``instructrag`` (``write_rationales``), and ``rationale``.
    """
    policy, words = tools.policy.section(Section), question.question
    plan = await tools.record_plan("plan", _plan(tools))
    hits = await dense_retrieval(tools, "retrieve", words, plan)
    if not hits:
        return Answer("unanswerable", UNANSWERABLE, plan=plan)
    rationales: list[str] = []
    if policy.examples:
        branch = Branch("rationales", write_rationales, {"count": policy.examples})
        rationales = await tools.artifact(ARTIFACT, EXAMPLES, branch)
    build = partial(rationale_prompt, words, rationales)
    shown = fit_passages([passage_of(hit) for hit in hits], hits, build, ROLE, tools)
    reply = await tools.complete(ROLE, build(shown), role=ROLE)
    found = await answer_of_reply(tools, words, reply.text, shown, shown)
    return replace(found, plan=plan, replied_by=(reply.model,))


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    shown = policy.granularity * policy.count + policy.examples * (tools.completion_limit(ROLE) + EXAMPLE_TOKENS)
    reason = f"InstructRAG: the {policy.count} best dense chunks and {policy.examples} examples, with a rationale"
    return plain_plan(policy.granularity, policy.count, reason, most=most_of(tools, [(ROLE, shown)]))


async def write_rationales(tools: Tools, count: int) -> list[str]:
    """Ask the generator for the rationales of the first ``count`` examples.

    An example whose rationale is unusable will be shown with only its answer. Steps: ``1/rationale``, ``2/rationale``,
    ...
    """
    written: list[str] = []
    for number, example in enumerate(WORKED[:count], start=1):
        prompt = synthesis_prompt(example)
        written.append(await ask_or(tools, ROLE, f"{number}/rationale", prompt, read_rationale, ""))
    return written


# The examples and the two prompts (section 3): one asks for the rationale of a known answer, the other, after such
# examples, for the rationale and the answer. The wording is ours.


@dataclass(frozen=True, slots=True)
class Example:
    """A question, its passages and its answer. In an example of ours, passage number ``source`` contains ``quote``."""

    question: str
    passages: tuple[str, ...]
    source: int
    quote: str
    answer: str


WORKED: Final = (
    Example(
        "Who leads Fernhill?",
        (
            "Fernhill sold 310 boats in 2021. Its yard in Oslo has 44 workers.",
            "Mara Lind has led Fernhill since 2016. Before that she built bridges.",
        ),
        2,
        "Mara Lind has led Fernhill since 2016.",
        "Mara Lind",
    ),
    Example(
        "In which town does the founder of Marrow Bay live?",
        (
            "Marrow Bay was founded in 1988 by Tor Askim, who still lives in Lervik.",
            "The harbour of Lervik was dredged in 1990, at a cost of 3 million crowns.",
        ),
        1,
        "founded in 1988 by Tor Askim, who still lives in Lervik",
        "Lervik",
    ),
)

EXAMPLE_TOKENS: Final = 120
"""Tokens of an example without its rationale: the passages, the question, the quotation and the answer."""

SYNTHESIS_INSTRUCTIONS: Final = """You explain answers. Say in two or three sentences which of the numbered passages \
help with the question, and how what they say leads to the answer that is given. Name the passages that do not help.
Reply with the explanation alone."""

INSTRUCTIONS: Final = """First explain in two or three sentences which passages help with the question, and how what \
they say leads to the answer. Then reply in this form:
Evidence: [n] "exact words copied from passage n"
Answer: the shortest complete answer
If the passages do not hold the answer, say why, then: Answer: unanswerable"""


def synthesis_prompt(example: Example) -> list[Message]:
    """Return the messages that ask for an example's rationale."""
    question, told = neutralise(example.question), neutralise(example.answer)
    asked = f"{_frames(example)}\n\nQuestion: {question}\nAnswer: {told}"
    return [Message("system", SYNTHESIS_INSTRUCTIONS), Message("user", asked)]


def read_rationale(reply: str) -> str:
    """Return the rationale as one line.

    Raises:
        ReplyError: The reply has none.
    """
    said = " ".join(neutralise(strip_thought(reply)).split())
    if not any(char.isalnum() for char in said):
        raise ReplyError(f"The reply holds no explanation: {reply[:80]!r}. Two or three sentences were asked for.")
    return said


def rationale_prompt(question: str, rationales: Sequence[str], passages: Sequence[Passage]) -> list[Message]:
    """Return the messages that ask for a rationale and the answer, after one example for each of ``rationales``."""
    system, asked = framed_prompt(INSTRUCTIONS, question, passages)
    shown = [system]
    for example, rationale in zip(WORKED, rationales, strict=False):
        contract = f'Evidence: [{example.source}] "{example.quote}"\nAnswer: {example.answer}'
        shown.append(replace(asked, content=f"{_frames(example)}\n\nQuestion: {example.question}"))
        shown.append(Message("assistant", f"{rationale}\n{contract}".strip()))
    return [*shown, asked]


def _frames(example: Example) -> str:
    return render_passages(
        [Passage(f"example-{number}", 0, len(text), text, 0, 0.0) for number, text in enumerate(example.passages, 1)]
    )
