"""Chunks made short for a question by a small language model: LongLLMLingua's coarse and fine compression.

The coarse part ranks chunks by how likely each makes the question, and keeps the first; the fine part keeps of each the
tokens that the question makes more likely (Jiang et al. 2024, sections 4.1 to 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.operators.contrast import Span, contrasts, cut, kept_spans, most_telling, shares
from okralong.pipelines.answering.policy import LongLlmLinguaPolicy
from okralong.pipelines.answering.select_evidence import SEPARATOR, self_information
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Hit, Passage

RESTRICTION: Final = "We can get the answer to this question in the given documents."
"""Stands behind the question when a chunk is ranked by how likely it makes both (Jiang et al. 2024, 4.1)."""

Kept = list[tuple[Hit, list[Span]]]
"""Chunks in the order in which they are shown, each with the stretches of its text that stay."""


async def compress(tools: Tools, step: str, question: str, hits: Sequence[Hit], policy: LongLlmLinguaPolicy) -> Kept:
    """The most telling of ``hits``, the best first (which is the paper's reordering), each cut to its best tokens.

    What was kept is journaled under ``step``. Raises ConfigError when the run has no scorer.
    """
    by_id = {hit.chunk.chunk_id: hit for hit in hits}

    async def make() -> Any:
        chosen = await _coarse(tools, question, hits, policy)
        return [[hit.chunk.chunk_id, spans] for hit, spans in await _fine(tools, question, chosen, policy)]

    found = await tools.remember(step, {"question": question, "chunks": list(by_id)}, make) if hits else []
    return [(by_id[chunk_id], [(start, end) for start, end in spans]) for chunk_id, spans in found]


async def _coarse(tools: Tools, question: str, hits: Sequence[Hit], policy: LongLlmLinguaPolicy) -> list[Hit]:
    """Chunks by the perplexity of the question behind them, as many as the coarse budget holds and one more."""
    asked = f"{question.strip()} {RESTRICTION}"
    doubt: dict[str, float] = {}
    for hit in hits:
        (logs,) = await tools.score(f"{hit.chunk.text.strip()}{SEPARATOR}", [asked])
        doubt[hit.chunk.chunk_id] = self_information(logs)
    budget = policy.coarse_factor * policy.target_tokens
    kept: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (doubt[hit.chunk.chunk_id], hit.chunk.chunk_id)):
        kept.append(hit)
        budget -= hit.chunk.n_tokens
        if budget < 0:
            break
    return kept


async def _fine(tools: Tools, question: str, hits: Sequence[Hit], policy: LongLlmLinguaPolicy) -> Kept:
    texts = [hit.chunk.text for hit in hits]
    ends = await tools.token_ends(texts)
    plain = await tools.score("", texts)
    conditioned = await tools.score(f"{question.strip()}{SEPARATOR}", texts)
    mean = policy.target_tokens / max(1, sum(hit.chunk.n_tokens for hit in hits))
    kept: Kept = []
    for number, share in enumerate(shares(len(hits), min(mean, 1.0), policy.spread if mean < 1 else 0.0)):
        places = most_telling(contrasts(conditioned[number], plain[number]), share)
        spans = kept_spans(ends[number], places)
        if spans:
            kept.append((hits[number], spans))
    return kept


def compressed_passages(kept: Kept) -> list[Passage]:
    """What the generator is shown: each chunk's text without what was cut."""
    texts = [cut(hit.chunk.text, spans) for hit, spans in kept]
    return [
        replace(passage_of(hit), text=text, n_tokens=count_tokens(text), origin="compressed")
        for (hit, _), text in zip(kept, texts, strict=True)
    ]


def kept_passages(kept: Kept, shown: Sequence[Passage]) -> tuple[Passage, ...]:
    """The stretches of the documents that ``shown`` holds. The tokens of a chunk are counted with its first stretch."""
    spans_of = {hit.chunk.chunk_id: (hit, spans) for hit, spans in kept}
    stretches: list[Passage] = []
    for passage in shown:
        hit, spans = spans_of[passage.chunk_ids[0]]
        for number, (start, end) in enumerate(spans):
            stretches.append(
                replace(
                    passage,
                    start_char=hit.chunk.start_char + start,
                    end_char=hit.chunk.start_char + end,
                    text=hit.chunk.text[start:end],
                    n_tokens=0 if number else passage.n_tokens,
                )
            )
    return tuple(stretches)
