"""LLMLingua (Jiang et al. 2023): a small language model shortens the 30 best chunks; the generator answers once.

The small model removes the tokens that it could have guessed; the question has no influence. The coarse stage (section
3.1) keeps the chunks with the highest perplexity, up to twice the target of 2,000 tokens. The fine stage (section 3.2)
divides the text into segments of 200 tokens, reads each after the text kept so far, and keeps the least likely tokens
until the target is reached. LongLLMLingua (``longllmlingua.py``) takes the question into account; its prompt and
citations are the same.

Differences from the paper:

- The small model is the run's scorer, SmolLM2-135M by default. The paper uses LLaMA-7B or GPT2-Alpaca, and aligns it
  with the generator by a training, which is left out here.
- Retrieved chunks are shortened, as in SARA's comparison; the paper shortens demonstrations.
- Every segment keeps the same share of its tokens, as the paper's demonstrations do. Instruction and question are not
  shortened; the paper keeps shares of 0.85 and 0.9 of them.
- Chunks stay in the order of retrieval.
- Quotations are looked up in the whole chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.select_evidence import SEPARATOR, self_information
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Hit, Question
from okralong.pipelines.methods.longllmlingua import (
    Kept,
    Shortening,
    Span,
    answer_shortened,
    cut,
    kept_spans,
    most_telling,
    within_budget,
)
from okralong.pipelines.methods.needs import Needs


class Section(Shortening):
    """LLMLingua's constants: the small model reads segments of ``segment`` tokens."""

    KEY = "llmlingua"
    segment: Annotated[int, Field(ge=8, le=8192)] = 200


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True, scorer=True)


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from the shortened chunks. Steps: ``plan``, ``retrieve``, ``compress``, ``generate``."""
    policy = tools.policy.section(Section)
    return await answer_shortened(question, tools, "LLMLingua", policy, partial(shortened, tools, policy=policy))


async def shortened(tools: Tools, hits: Sequence[Hit], policy: Section) -> Kept:
    """Return the chunks with the highest perplexity, in order, with the spans of their text that are kept."""
    chosen = await _coarse(tools, hits, policy)
    share = min(1.0, policy.target_tokens / max(1, sum(hit.chunk.n_tokens for hit in chosen)))
    kept: Kept = []
    before = ""
    for hit in chosen:
        spans: list[Span] = []
        for start, end in await _segments(tools, hit.chunk.text, policy.segment):
            stretch = hit.chunk.text[start:end]
            (logs,) = await tools.score(before, [stretch])
            (ends,) = await tools.token_ends([stretch])
            found = kept_spans(ends, most_telling([-each for each in logs], share))
            spans += [(start + first, start + last) for first, last in found]
            before += cut(stretch, found)
        if spans:
            kept.append((hit, _joined(spans)))
            before += SEPARATOR
    return kept


async def _coarse(tools: Tools, hits: Sequence[Hit], policy: Section) -> list[Hit]:
    """Return the chunks with the highest perplexity: as many as fit the coarse budget, and one more.

    They stay in the order of ``hits``, as in the authors' ``prompt_compressor.py`` if there is no question.
    """
    surprise = [self_information(logs) for logs in await tools.score("", [hit.chunk.text for hit in hits])]
    order = sorted(range(len(hits)), key=lambda number: -surprise[number])  # stable: ties keep their order
    kept = {hit.chunk.chunk_id for hit in within_budget([hits[n] for n in order], _budget(policy))}
    return [hit for hit in hits if hit.chunk.chunk_id in kept]


def _budget(policy: Section) -> float:
    return policy.coarse_factor * policy.target_tokens


async def _segments(tools: Tools, text: str, size: int) -> list[Span]:
    """Split a text into spans of ``size`` tokens of the small model; the last span may be shorter."""
    (ends,) = await tools.token_ends([text])
    cuts = [0, *(ends[number] for number in range(size - 1, len(ends), size)), len(text)]
    return [(start, end) for start, end in pairwise(cuts) if end > start]


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
