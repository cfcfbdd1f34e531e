"""FLARE (Jiang et al. 2023, section 3.2, implicit queries): retrieve whenever a sentence has unlikely tokens.

The generator writes the answer sentence by sentence. Each sentence is first written as a draft. If a token of the draft
is less likely than ``threshold``, the draft without its tokens below ``mask_below`` becomes a query, and the sentence
is rewritten from the chunks found. This repeats until a sentence states the answer. The values are those of the
authors' config for 2WikiMultihopQA (``configs/2wikihop_flare_config.json``: 0.8, 0.4, drafts of 64 tokens, truncated
after the first sentence).

Differences from the paper:

- Each retrieval returns five dense chunks of 512 tokens, as in OkraLong's baselines (their section 4.2). The paper uses
  two passages of BM25 or of a search engine.
- A chat model writes one sentence per call; the paper's text-davinci-003 continues a text.
- The prompt for the draft has the latest passages, as in the authors' code; the paper describes a prompt without
  passages.
- At most ``max_sentences`` sentences are written (project default) instead of 256 tokens. A repeated sentence ends the
  text. If no sentence states the answer, the whole text is the answer.
- There are no citations, because sentences do not name passages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.context import fit_passages, passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Rounds, Share, Tokens
from okralong.pipelines.answering.prompt_text import framed_prompt, neutralise
from okralong.pipelines.answering.prompts import UNANSWERABLE, clean, says_unanswerable
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.types import Answer, Hit, Message, Passage, Plan, Question, Reply
from okralong.pipelines.methods.needs import Needs

ROLE: Final = "sentence"


class Section(MethodSection):
    """FLARE's constants.

    Each retrieval returns ``count`` chunks of ``granularity`` tokens. If a draft has a token less likely than
    ``threshold``, the query is the draft without its tokens less likely than ``mask_below``. At most ``max_sentences``
    sentences are written.
    """

    KEY = "flare"
    granularity: Tokens = 512
    count: Count = 5
    threshold: Share = 0.8
    mask_below: Share = 0.4
    max_sentences: Rounds = 8


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs(
        (size,),
        vectors=True,
        logprobs=True,
        unforeseen="how sure the generator is of each sentence decides how often it retrieves and asks",
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Write the answer sentence by sentence.

    Steps: ``plan``, ``retrieve``; then for each sentence ``sentence/1/look_ahead`` (the draft) and, if it is uncertain,
    ``sentence/1/retrieve`` and ``sentence/1/write``.
    """
    policy, words = tools.policy.section(Section), question.question
    plan = await tools.record_plan("plan", _plan(tools))
    hits = await dense_retrieval(tools, "retrieve", words, plan)
    said: list[Sentence] = []
    for number in range(1, plan.max_steps + 1):
        step, before = f"sentence/{number}", [sentence.text for sentence in said]
        sentence = await write_sentence(tools, f"{step}/look_ahead", words, hits, before, logprobs=True)
        if sentence.confidence < policy.threshold:
            query = sentence.without_doubtful(policy.mask_below)
            hits = await dense_retrieval(tools, f"{step}/retrieve", query, plan)
            sentence = await write_sentence(tools, f"{step}/write", words, hits, before, logprobs=True)
        if sentence.text in before:
            break
        said.append(sentence)
        if sentence.conclusion is not None:
            break
    text = said[-1].conclusion or " ".join(sentence.text for sentence in said)
    shown, by = said[-1].shown, tuple(dict.fromkeys(sentence.model for sentence in said))
    if says_unanswerable(text):
        return Answer("unanswerable", UNANSWERABLE, plan=plan, context=shown, replied_by=by)
    worked_out = calculate(text) if tools.calculator else text
    return Answer("answered", worked_out, plan=plan, context=shown, replied_by=by)


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    shown, sentence = policy.granularity * policy.count, tools.completion_limit("sentence")
    twice = [("sentence", shown + number * sentence) for number in range(policy.max_sentences) for _ in range(2)]
    anew = f"looked up anew for each sentence with a token below {policy.threshold}"
    reason, most = f"FLARE: {policy.count} dense chunks, {anew}", most_of(tools, twice)
    steps = policy.max_sentences
    return plain_plan(policy.granularity, policy.count, reason, workflow="step", max_steps=steps, most=most)


# The prompt for the next sentence of reasoning, also used by IRCoT (``adaptive_rag.py``). The last sentence states the
# answer: ``So the answer is: 4.2 million euros``. Text after the first sentence of a reply is ignored.

INSTRUCTIONS: Final = """Reason step by step, one sentence at a time. Write the next sentence of the reasoning only: \
one fact, with all names written out.
When the facts suffice, write instead: So the answer is: the shortest complete answer
If the passages do not hold it: So the answer is: unanswerable"""

SO_FAR: Final = "\n\nReasoning so far: "
"""The text between the question and the sentences written so far."""

_CONCLUSION: Final = re.compile(r"\banswer(?:\s+is\b(?>(?:\s*+:)?)|\s*+:)\s*(.*)", re.IGNORECASE | re.DOTALL)
"""The words that introduce the answer. IRCoT and FLARE both use "answer is" (Trivedi et al. 2023, 3.1; FLARE's
exemplars). Models trained on our other prompts write "Answer:"."""


def sentence_prompt(question: str, said: Sequence[str], passages: Sequence[Passage]) -> list[Message]:
    """Return the messages that ask for the sentence after ``said``."""
    system, asked = framed_prompt(INSTRUCTIONS, question, passages)
    reasoning = " ".join(neutralise(sentence).strip() for sentence in said)
    return [system, Message(asked.role, f"{asked.content}{SO_FAR}{reasoning or '(none)'}")]


def sentence_end(reply: str) -> int:
    """Return where the first sentence of ``reply`` ends, in characters, without trailing blanks.

    A sentence that states the answer extends to the end of its line.
    """
    start = len(reply) - len(reply.lstrip())
    first = reply[start : start + next(boundaries(reply[start:], ()), 0)]
    if _CONCLUSION.search(first) is not None:
        first = reply[start:].partition("\n")[0]
    return start + len(first.rstrip())


def conclusion(sentence: str) -> str | None:
    """Return the answer that a sentence states, without the final period, or None."""
    found = _CONCLUSION.search(sentence)
    if found is None:
        return None
    said = clean(found[1])
    return said.removesuffix(".") if len(said.split()) < 12 else said


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, its tokens and their probabilities (if requested), the passages shown, and the model's name."""

    text: str
    tokens: tuple[tuple[str, float], ...] = ()
    shown: tuple[Passage, ...] = ()
    model: str = ""

    @property
    def conclusion(self) -> str | None:
        """The answer that the sentence states, or None."""
        return conclusion(self.text)

    @property
    def confidence(self) -> float:
        """The probability of the least likely token; 1 if there are no tokens."""
        return min((probability for _, probability in self.tokens), default=1.0)

    def without_doubtful(self, below: float) -> str:
        """Return the sentence without tokens less likely than ``below``, or unchanged if none would be left."""
        kept = "".join(token if probability >= below else " " for token, probability in self.tokens)
        return " ".join(kept.split()) or self.text


def read_sentence(reply: Reply, shown: Sequence[Passage] = ()) -> Sentence:
    """Return the first sentence of a reply, with the tokens that begin in it."""
    end = sentence_end(reply.text)
    tokens: list[tuple[str, float]] = []
    at = 0
    for token, logprob in zip(reply.tokens, reply.token_logprobs, strict=True):
        if at >= end:
            break
        tokens.append((token, math.exp(logprob)))
        at += len(token)
    return Sentence(reply.text[:end].strip(), tuple(tokens), tuple(shown), reply.model)


async def write_sentence(
    tools: Tools, step: str, question: str, hits: Sequence[Hit], said: Sequence[str], *, logprobs: bool = False
) -> Sentence:
    """Write the sentence after ``said`` from as many ``hits`` as fit the window. Raises as ``generate`` does."""
    build = partial(sentence_prompt, question, said)
    shown = fit_passages([passage_of(hit) for hit in hits], hits, build, ROLE, tools)
    reply = await tools.complete(step, build(shown), role=ROLE, logprobs=logprobs)
    return await off_loop(len(reply.text), partial(read_sentence, reply, shown))
