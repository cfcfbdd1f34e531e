"""RECOMP (Xu et al. 2024): the chunks are compressed for the question, then the generator answers once.

The extractive compressor keeps the sentences nearest to the question, the abstractive one writes a summary.

Differences from the paper:

- Neither compressor is trained. The extractive one ranks sentences by their dot product with the question, computed by
  the archive's encoder; the paper fine-tunes a Contriever to prefer sentences that help. The abstractive one is the
  prompted generator, and its tokens count as cost; the paper distills a T5 of 775M parameters.
- Five sentences are kept from five dense chunks of 512 tokens; the paper keeps one or two from five passages of 100
  words.
- The compressor replies "none" if nothing helps; the paper's summary is then empty. In both cases the answer is
  generated without passages (selective augmentation).
- Sentences are shown nearest first, each as a passage that can be cited. A summary occurs in no document, so its answer
  has neither context nor citations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal

import numpy as np

from okralong.pipelines.answering.citations import ask_or
from okralong.pipelines.answering.context import fit_passages, passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.prompt_text import framed_prompt, one_paragraph
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Hit, Passage, Plan, Question, ReplyError
from okralong.pipelines.methods.adaptive_rag import answer_closed_book
from okralong.pipelines.methods.needs import Needs

ROLE: Final = "summarize"

SHORTEST: Final = 12
"""Fewest characters of a sentence. project default: shorter ones are a heading's number or a truncated word."""


class Section(MethodSection):
    """RECOMP's constants.

    The ``candidates`` best chunks of ``granularity`` tokens are compressed by ``compressor``: to the ``sentences``
    nearest to the question, or to one summary.
    """

    KEY = "recomp"
    granularity: Tokens = 512
    candidates: Count = 5
    compressor: Literal["extractive", "abstractive"] = "extractive"
    sentences: Count = 5


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    section = policy.section(Section)
    written = "it answers from a summary that is yet to be written"
    return Needs(
        granularities=(section.granularity,),
        vectors=True,
        unforeseen=written if section.compressor == "abstractive" else None,
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from the compressed chunks.

    Steps: ``plan``, ``retrieve``, ``sentences`` (extractive) or ``summarize`` (abstractive), and ``generate``.
    """
    policy, words = tools.policy.section(Section), question.question
    plan = await tools.record_plan("plan", _plan(tools))
    hits = await dense_retrieval(tools, "retrieve", words, plan)
    if policy.compressor == "extractive":
        shown = await nearest_sentences(tools, "sentences", words, hits, policy.sentences)
        return replace(await generate(tools, "generate", words, shown), plan=plan)
    summary = await summarized(tools, "summarize", words, hits) if hits else ""
    if not summary:
        return replace(await answer_closed_book(tools, "generate", words), plan=plan)
    written = Passage("summary", 0, len(summary), summary, count_tokens(summary), 1.0)
    found = await generate(tools, "generate", words, [written])
    return replace(found, plan=plan, context=(), citations=())


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    shown = policy.granularity * policy.candidates
    if policy.compressor == "extractive":
        calls, into = [("generate", shown)], f"their {policy.sentences} sentences nearest to the question"
    else:
        calls, into = [(ROLE, shown), ("generate", tools.completion_limit(ROLE))], "one summary for the question"
    reason = f"RECOMP: the {policy.candidates} best dense chunks of {policy.granularity} tokens, compressed to {into}"
    return plain_plan(policy.granularity, policy.candidates, reason, most=most_of(tools, calls))


async def nearest_sentences(tools: Tools, step: str, question: str, hits: Sequence[Hit], count: int) -> list[Passage]:
    """Return the ``count`` sentences of ``hits`` with the largest dot product with the question, nearest first.

    The choice is journaled under ``step``.
    """
    sentences = [sentence for hit in hits for sentence in sentences_of(passage_of(hit))]
    if not sentences:
        return []

    async def choose() -> list[int]:
        vectors = np.asarray(await tools.embed([question, *(each.text for each in sentences)]), dtype=np.float32)
        # The sort is stable: ties keep the order of the chunks.
        order = np.argsort(-(vectors[1:] @ vectors[0]).round(6), kind="stable")
        return [int(place) for place in order[:count]]

    asked = {"question": question, "chunks": [hit.chunk.chunk_id for hit in hits], "count": count}
    return [sentences[place] for place in await tools.remember(step, asked, choose)]


def sentences_of(passage: Passage) -> list[Passage]:
    """Return the sentences and lines of a passage as passages, without very short ones."""
    found: list[Passage] = []
    start = 0
    for end in [*boundaries(passage.text, ()), len(passage.text)]:
        text = passage.text[start:end]
        lead = len(text) - len(text.lstrip())
        text = text.strip()
        if len(text) >= SHORTEST:
            first = passage.start_char + start + lead
            found.append(
                replace(passage, start_char=first, end_char=first + len(text), text=text, n_tokens=count_tokens(text))
            )
        start = end
    return found


async def summarized(tools: Tools, step: str, question: str, hits: Sequence[Hit]) -> str:
    """Summarize ``hits`` for the question in one paragraph; empty if nothing helps, or if no reply is usable."""
    build = partial(framed_prompt, INSTRUCTIONS, question)
    shown = fit_passages([passage_of(hit) for hit in hits], hits, build, ROLE, tools)
    return await ask_or(tools, ROLE, step, build(shown), read_summary, "")


# The prompt of the abstractive compressor (section 3.2). The wording is ours; the paper trains its compressor on
# GPT-3.5's replies to a similar prompt.

INSTRUCTIONS: Final = """Do not answer the question yet. Write one paragraph of at most 80 words that holds what the \
passages say to it, with names and figures in full.
If nothing in the passages helps to answer it, reply only: none"""

_NONE: Final = re.compile(r"\W*(?:none|nothing|no relevant information)\W*", re.IGNORECASE)


def read_summary(reply: str) -> str:
    """Return the summary as one line, "" for "none". Raises ReplyError if the reply is empty."""
    summary = one_paragraph(reply)
    if not summary:
        raise ReplyError(f"The reply holds no summary: {reply[:80]!r}. One paragraph, or none, was asked for.")
    return "" if _NONE.fullmatch(summary) else summary
