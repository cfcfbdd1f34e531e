"""Adaptive-RAG (Jeong et al. 2024, section 3): a classifier chooses between no, one and several retrievals.

Class A answers without retrieval, B retrieves once, and C alternates retrieval and reasoning (IRCoT).

Differences from the paper:

- The classifier is the prompted generator. The paper trains a T5-large to predict which of the three classes answers a
  question correctly.
- Retrieval is dense, and returns five chunks of 512 tokens, as in OkraLong's baselines (section 4.2 of its paper). The
  paper uses BM25 over paragraphs.
- The prompts for reasoning and for the answer are ours and have no worked examples.
- If the classifier's reply has no letter, even after one repair, the class is B.
- Retrieval is limited to the question's scope. Class A never retrieves, even if the generator does not know the answer.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.citations import ask_or
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Rounds, Tokens
from okralong.pipelines.answering.prompt_text import neutralise, strip_thought
from okralong.pipelines.answering.prompts import FORMULA, RESULT, UNANSWERABLE, parse_answer
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import QUESTION_MARK, Answer, Hit, Message, Plan, Question, ReplyError
from okralong.pipelines.methods.flare import write_sentence
from okralong.pipelines.methods.needs import Needs


class Section(MethodSection):
    """Adaptive-RAG's constants.

    Each retrieval returns ``count`` chunks of ``granularity`` tokens. Class C writes at most ``max_steps`` sentences of
    reasoning and gathers at most ``max_chunks`` chunks.
    """

    KEY = "adaptive_rag"
    granularity: Tokens = 512
    count: Count = 5
    max_steps: Rounds = 10
    max_chunks: Count = 15


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True, unforeseen="the classifier's reply decides how often it retrieves and asks")


async def answer(question: Question, tools: Tools) -> Answer:
    """Classify the question, then answer it by the workflow of its class.

    Steps: ``classify``, ``plan``, then ``generate`` (A), ``retrieve`` and ``generate`` (B), or those of ``interleave``
    (C).
    """
    words = question.question
    letter: Complexity = await ask_or(tools, "classify", "classify", complexity_prompt(words), read_complexity, "B")
    plan = await tools.record_plan("plan", _plan(letter, tools))
    if plan.count == 0:
        result = await answer_closed_book(tools, "generate", words)
    elif plan.workflow == "step":
        result = await interleave(tools, words, plan, tools.policy.section(Section).max_chunks)
    else:
        hits = await dense_retrieval(tools, "retrieve", words, plan)
        result = await generate(tools, "generate", words, [passage_of(hit) for hit in hits], hits)
    return replace(result, plan=plan)


def _plan(letter: Complexity, tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    size, count = policy.granularity, policy.count
    if letter == "A":
        return plain_plan(size, 0, "Adaptive-RAG, A: no retrieval")
    if letter == "B":
        return plain_plan(size, count, f"Adaptive-RAG, B: the {count} best dense chunks of {size} tokens")
    sentence = tools.completion_limit("sentence")  # each prompt repeats the earlier sentences
    shown = [size * min(number * count, policy.max_chunks) for number in range(1, policy.max_steps + 2)]
    calls = [("sentence", tokens + number * sentence) for number, tokens in enumerate(shown[:-1])]
    calls.append(("generate", shown[-1]))
    reason = f"Adaptive-RAG, C: at most {policy.max_steps} look-ups of {count} chunks, by a chain of thought"
    return plain_plan(size, count, reason, workflow="step", max_steps=policy.max_steps, most=most_of(tools, calls))


async def interleave(tools: Tools, question: str, plan: Plan, max_chunks: int) -> Answer:
    """Answer by IRCoT (Trivedi et al. 2023, section 3): each sentence of a chain of thought is the next query.

    The generator writes at most ``plan.max_steps`` sentences; the first ``max_chunks`` chunks found are kept. As in the
    paper, the prompt for the answer has the passages but not the chain.

    Steps: ``retrieve``; ``step/1/reason``, ``step/1/retrieve``, ``step/2/reason`` and so on, until a sentence states
    the answer or repeats an earlier one; ``generate``.
    """
    gathered: dict[str, Hit] = {}

    async def look_up(step: str, query: str) -> list[Hit]:
        for hit in await dense_retrieval(tools, step, query, plan):
            if len(gathered) < max_chunks:
                gathered.setdefault(hit.chunk.chunk_id, hit)
        return list(gathered.values())

    hits = await look_up("retrieve", question)
    said: list[str] = []
    for number in range(1, plan.max_steps + 1):
        sentence = await write_sentence(tools, f"step/{number}/reason", question, hits, said)
        if sentence.conclusion is not None or sentence.text in said:
            break
        said.append(sentence.text)
        hits = await look_up(f"step/{number}/retrieve", sentence.text)
    return await generate(tools, "generate", question, [passage_of(hit) for hit in hits], hits)


async def answer_closed_book(tools: Tools, step: str, question: str) -> Answer:
    """Answer from the generator's own knowledge, in one call without context or citations."""
    reply = await tools.complete(step, closed_book_prompt(question, tools.calculator), role="generate")
    parsed = await off_loop(len(reply.text), partial(parse_answer, reply.text, question))
    if parsed.unanswerable:
        return Answer("unanswerable", UNANSWERABLE, replied_by=(reply.model,))
    said = calculate(parsed.answer) if tools.calculator else parsed.answer
    return Answer("answered", said, replied_by=(reply.model,))


# The classifier's prompt (section 3.2). A reply is A, B or C. The classes are the paper's; the wording is ours, because
# the paper's classifier is trained and has no prompt.

Complexity = Literal["A", "B", "C"]

COMPLEXITY_INSTRUCTIONS: Final = """\
How much must be looked up to answer the question? Reply with one letter and nothing else:
A: nothing; it is answered from general knowledge
B: one thing; a single place holds the answer
C: several things, one after the other or side by side"""

_LETTER: Final = re.compile(
    r"\W*(?:(?:the[ ]+)?(?:answer|letter|label|class|category|option|complexity)\b(?:[ ]+is\b)?\W*)?"
    r"([ABC])(?:\W*\Z|\W*\n|[ ]*[:.)\]\-*])",
    re.IGNORECASE,
)


def complexity_prompt(question: str) -> list[Message]:
    """Return the messages that ask for a question's class, a letter."""
    return [Message("system", COMPLEXITY_INSTRUCTIONS), Message("user", f"Question: {neutralise(question).strip()}")]


def read_complexity(reply: str) -> Complexity:
    """Return the class letter that a reply begins with as a separate word.

    Raises:
        ReplyError: The reply begins with none of the letters.
    """
    found = _LETTER.match(strip_thought(reply))
    if found is None:
        raise ReplyError(f"The reply is none of the letters A, B and C: {reply[:80]!r}. One of them was asked for.")
    letters: dict[str, Complexity] = {"A": "A", "B": "B", "C": "C"}
    return letters[found[1].upper()]


CLOSED_BOOK_INSTRUCTIONS: Final = """You answer questions from what you know. Reply in this form:
Answer: the shortest complete answer
{calculation}
If you do not know it, reply only: Answer: unanswerable"""


def closed_book_prompt(question: str, calculator: bool = False) -> list[Message]:
    """Return the messages; with ``calculator`` they ask for a formula if the answer needs one."""
    instructions = CLOSED_BOOK_INSTRUCTIONS.format(calculation=FORMULA if calculator else RESULT)
    return [
        Message("system", instructions),
        Message("user", f"{QUESTION_MARK.strip()} {neutralise(question).strip()}"),
    ]
