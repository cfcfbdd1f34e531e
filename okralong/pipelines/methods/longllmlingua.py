"""LongLLMLingua (Jiang et al. 2024): a small language model shortens the 30 best chunks for the question.

The generator answers once, from the shortened chunks. The coarse stage (section 4.1) ranks the chunks by how likely the
question is after each, and keeps the best, up to twice the target of 2,000 tokens. The fine stage (4.2, 4.3) keeps in
each chunk the tokens that the question makes more likely, a larger share in better chunks, until the target is reached.
The package ``llmlingua`` is not used: it downloads a vocabulary when it starts, and it needs the cache format of older
transformers releases.

Differences from the paper:

- The small model is the run's scorer, SmolLM2-135M by default; the paper uses LLaMA-2-7B-Chat.
- A token's likelihood, with and without the question, is measured within its chunk; the paper reads segments of 200
  tokens, each after the text kept so far.
- The coarse stage keeps twice the target (project default). The example in the authors' README keeps 100 tokens more
  than the target, which suits short passages.
- Instruction and question are not shortened; the paper shortens them slightly.
- Instead of subsequence recovery, quotations are looked up in the whole chunks and cited from there.
- The context of an answer has all spans that were kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Budget, Count, MethodSection, Policy, Share, Tokens
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.select_evidence import SEPARATOR, self_information
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Hit, Passage, Question
from okralong.pipelines.methods.needs import Needs

RESTRICTION: Final = "We can get the answer to this question in the given documents."
"""Text after the question when chunks are ranked by how likely both are after the chunk (section 4.1)."""

Span = tuple[int, int]
Kept = list[tuple[Hit, list[Span]]]
"""Chunks in the order shown, each with the spans of its text that are kept."""


class Shortening(MethodSection):
    """The constants that the shortening methods share.

    Retrieval returns ``candidates`` chunks of ``granularity`` tokens. The coarse stage keeps ``coarse_factor`` times
    ``target_tokens`` of them; the fine stage shortens these to ``target_tokens``.
    """

    granularity: Tokens = 512
    candidates: Count = 30
    target_tokens: Budget = 2000
    coarse_factor: Annotated[float, Field(ge=1, le=100)] = 2.0


class Section(Shortening):
    """LongLLMLingua's constants: the first chunk keeps the mean share of tokens plus ``spread``, the last minus it."""

    KEY = "longllmlingua"
    spread: Share = 0.3


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True, scorer=True)


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from the shortened chunks. Steps: ``plan``, ``retrieve``, ``compress``, ``generate``."""
    policy = tools.policy.section(Section)
    shorten = partial(_shortened, tools, question.question, policy=policy)
    return await answer_shortened(question, tools, "LongLLMLingua", policy, shorten)


async def answer_shortened(
    question: Question,
    tools: Tools,
    name: str,
    policy: Shortening,
    shorten: Callable[[Sequence[Hit]], Awaitable[Kept]],
) -> Answer:
    """Answer from the best dense chunks, shortened by ``shorten``; ``name`` appears in the plan's reason.

    Shared with ``llmlingua.py`` and ``llmlingua2.py``. Steps: ``plan``, ``retrieve``, ``compress``, ``generate``.
    """
    words = question.question
    reason = f"{name}: the {policy.candidates} best dense chunks, shortened to {policy.target_tokens} tokens"
    # Doubled to be safe, because the small model's tokenizer is not o200k.
    most = most_of(tools, [("generate", 2 * policy.target_tokens)])
    plan = plain_plan(policy.granularity, policy.candidates, reason, most=most)
    plan = await tools.record_plan("plan", plan)
    hits = await dense_retrieval(tools, "retrieve", words, plan)
    kept = await compress(tools, "compress", words, hits, partial(shorten, hits))
    return replace(await answer_from_kept(tools, "generate", words, kept), plan=plan)


async def answer_from_kept(tools: Tools, step: str, question: str, kept: Kept) -> Answer:
    """Answer from shortened chunks.

    Quotations are looked up in the whole chunks. The context of the answer has every span that was shown.
    """
    whole = {hit.chunk.chunk_id: passage_of(hit) for hit, _ in kept}

    def sources(shown: Sequence[Passage]) -> list[Passage]:
        return [whole[passage.chunk_ids[0]] for passage in shown]

    order = [hit for hit, _ in kept]
    result = await generate(tools, step, question, compressed_passages(kept), order, cite_in=sources)
    return replace(result, context=kept_passages(kept, result.context))


async def compress(
    tools: Tools, step: str, question: str, hits: Sequence[Hit], shorten: Callable[[], Awaitable[Kept]]
) -> Kept:
    """Shorten ``hits`` by ``shorten``, journaled under ``step``. Raises ConfigError if the run has no scorer."""
    by_id = {hit.chunk.chunk_id: hit for hit in hits}

    async def make() -> Any:
        return [[hit.chunk.chunk_id, spans] for hit, spans in await shorten()]

    found = await tools.remember(step, {"question": question, "chunks": list(by_id)}, make) if hits else []
    return [(by_id[chunk_id], [(start, end) for start, end in spans]) for chunk_id, spans in found]


async def _shortened(tools: Tools, question: str, hits: Sequence[Hit], policy: Section) -> Kept:
    """Return the most relevant of ``hits``, best first (as the paper reorders them), each with its best tokens."""
    return await _fine(tools, question, await _coarse(tools, question, hits, policy), policy)


async def _coarse(tools: Tools, question: str, hits: Sequence[Hit], policy: Section) -> list[Hit]:
    """Return the chunks after which the question is most likely: as many as fit the coarse budget, and one more."""
    asked = f"{question.strip()} {RESTRICTION}"
    doubt: dict[str, float] = {}
    for hit in hits:
        (logs,) = await tools.score(f"{hit.chunk.text.strip()}{SEPARATOR}", [asked])
        doubt[hit.chunk.chunk_id] = self_information(logs)
    ranked = sorted(hits, key=lambda hit: (doubt[hit.chunk.chunk_id], hit.chunk.chunk_id))
    return within_budget(ranked, policy.coarse_factor * policy.target_tokens)


def within_budget(hits: Sequence[Hit], tokens: float) -> list[Hit]:
    """Return the first ``hits`` with at most ``tokens`` in total, and the next one."""
    kept: list[Hit] = []
    for hit in hits:
        kept.append(hit)
        tokens -= hit.chunk.n_tokens
        if tokens < 0:
            break
    return kept


async def _fine(tools: Tools, question: str, hits: Sequence[Hit], policy: Section) -> Kept:
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
    """Return the shortened chunks as the passages of the prompt."""
    passages = [replace(passage_of(hit), text=cut(hit.chunk.text, spans), origin="compressed") for hit, spans in kept]
    return [replace(passage, n_tokens=count_tokens(passage.text)) for passage in passages]


def kept_passages(kept: Kept, shown: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return each kept span of the chunks ``shown`` as a passage. The first span of a chunk has its ``n_tokens``."""
    spans_of = {hit.chunk.chunk_id: (hit, spans) for hit, spans in kept}
    stretches: list[Passage] = []
    for passage in shown:
        hit, spans = spans_of[passage.chunk_ids[0]]
        for number, (start, end) in enumerate(spans):
            text, first = hit.chunk.text[start:end], hit.chunk.start_char
            kept_tokens = 0 if number else passage.n_tokens
            stretch = replace(passage, start_char=first + start, end_char=first + end, text=text, n_tokens=kept_tokens)
            stretches.append(stretch)
    return tuple(stretches)


def contrasts(conditioned: Sequence[float], plain: Sequence[float]) -> list[float]:
    """Return how much more likely the question makes each token, in nats (equation 3).

    Both sequences are log-likelihoods of the same tokens.
    """
    return [asked - alone for asked, alone in zip(conditioned, plain, strict=True)]


def shares(count: int, mean: float, spread: float) -> list[float]:
    """Return the share of tokens that each of ``count`` documents keeps, most important first.

    The shares fall linearly from ``mean`` + ``spread`` to ``mean`` - ``spread``, within 0 and 1 (equation 5).
    """
    if count == 1:
        return [min(max(mean, 0.0), 1.0)]
    return [min(max(mean + spread * (1 - 2 * rank / (count - 1)), 0.0), 1.0) for rank in range(count)]


def most_telling(values: Sequence[float], share: float) -> list[int]:
    """Return the indexes, in order, of the highest ``share`` of ``values``, at least one; of ties the first."""
    kept = max(1, round(share * len(values))) if values else 0
    return sorted(sorted(range(len(values)), key=lambda place: (-values[place], place))[:kept])


def kept_spans(ends: Sequence[int], places: Sequence[int]) -> list[Span]:
    """Return the spans of the tokens ``places``, adjacent ones merged. ``ends`` has the end of every token."""
    starts = [0, *ends]
    spans: list[Span] = []
    for place in places:
        start, end = starts[place], ends[place]
        if spans and spans[-1][1] == start:
            spans[-1] = (spans[-1][0], end)
        elif end > start:
            spans.append((start, end))
    return spans


def cut(text: str, spans: Sequence[Span]) -> str:
    """Return the spans of ``text``, concatenated."""
    return "".join(text[start:end] for start, end in spans)
