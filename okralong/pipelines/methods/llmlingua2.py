"""LLMLingua-2 (Pan et al. 2024): a token classifier shortens the 30 best chunks; the generator answers once.

The classifier is a bidirectional encoder (section 4). In one pass it returns for each word the probability that it
should be kept, independently of the question; a word's probability is the mean over its tokens (section 4.2). The
coarse stage keeps the chunks with the highest mean probability, up to twice the target of 2,000 tokens. The fine stage
keeps the most probable words of each chunk, until the target is reached. Prompt and citations are as in LongLLMLingua
(``longllmlingua.py``).

Differences from the paper:

- The classifier is the embedded sentence encoder (22 million parameters) with its last blocks trained. The paper uses
  XLM-RoBERTa-large and multilingual BERT.
- Its training labels come from data sets: the words of a passage that occur in questions about it or their answers. The
  paper's labels come from GPT-4's compressions of meetings.
- Retrieved chunks are shortened and keep their order, as in SARA's comparison; the paper shortens LongBench's contexts.
- Each chunk keeps the same share of its tokens, as in the paper; they are o200k tokens here.
- Line breaks and sentence ends (``always``) are kept between kept words, as in the authors' runs. Words with a digit
  are kept first if the policy says so, as in the authors' run on GSM8K.
- Instruction and question are not shortened, and quotations are looked up in the whole chunks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Annotated

from pydantic import Field

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Hit, Question, WordKept
from okralong.pipelines.methods.longllmlingua import Kept, Shortening, Span, answer_shortened, within_budget
from okralong.pipelines.methods.needs import Needs


class Section(Shortening):
    """LLMLingua-2's constants.

    The marks in ``always`` are kept between kept words. With ``keep_digits``, words that have a digit are kept first.
    """

    KEY = "llmlingua2"
    always: Annotated[str, Field(pattern=r"^[\n.?!]*$")] = "\n?!."
    keep_digits: bool = False


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True, token_classifier=True)


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from the shortened chunks. Steps: ``plan``, ``retrieve``, ``compress``, ``generate``."""
    policy = tools.policy.section(Section)
    return await answer_shortened(question, tools, "LLMLingua-2", policy, partial(shortened, tools, policy=policy))


async def shortened(tools: Tools, hits: Sequence[Hit], policy: Section) -> Kept:
    """Return the chunks with the highest mean probability, in order, with the spans of their text that are kept."""
    words = dict(zip(hits, await tools.keep([hit.chunk.text for hit in hits]), strict=True))
    order = sorted(hits, key=lambda hit: -_mean(words[hit]))  # stable: ties keep their order
    chosen = set(within_budget(order, policy.coarse_factor * policy.target_tokens))
    share = min(1.0, policy.target_tokens / max(1, sum(hit.chunk.n_tokens for hit in chosen)))
    spans = [(hit, kept_words(hit.chunk.text, words[hit], share, policy)) for hit in hits if hit in chosen]
    return [(hit, stretches) for hit, stretches in spans if stretches]


def _mean(words: Sequence[WordKept]) -> float:
    return fmean(word.probability for word in words) if words else 0.0


@dataclass(frozen=True, slots=True)
class _Piece:
    """A word, a mark or a line break: the span that is kept or dropped together, and the probability of keeping it."""

    start: int
    end: int
    probability: float
    sign: str = ""
    """The mark, if it is always kept; empty for a word."""


def kept_words(text: str, words: Sequence[WordKept], share: float, policy: Section) -> list[Span]:
    """Return the spans of ``text`` to keep: its most probable ``words`` and the marks between them.

    They hold a ``share`` of the text's o200k tokens and at least one word. A share of 1 keeps the whole text.
    """
    if share >= 1:
        return [(0, len(text))] if text else []
    pieces = _pieces(text, words, policy)
    sizes = {piece: count_tokens(text[piece.start : piece.end]) for piece in pieces}
    ranked = sorted((piece for piece in pieces if not piece.sign), key=lambda piece: -piece.probability)  # stable

    def with_best(count: int) -> list[_Piece]:
        best = set(ranked[:count])
        return _without_idle([piece for piece in pieces if piece.sign or piece in best])

    def too_many(count: int) -> bool:
        return sum(sizes[piece] for piece in with_best(count)) > share * sum(sizes.values())

    return _joined(with_best(max(1, bisect_left(range(len(ranked) + 1), True, key=too_many) - 1)))


def _pieces(text: str, words: Sequence[WordKept], policy: Section) -> list[_Piece]:
    """Return the words, each with the blank before it, and the marks that are always kept."""
    pieces: list[_Piece] = []
    last = 0
    for word in words:
        gap = text[last : word.start]
        if "\n" in policy.always and "\n" in gap:
            at = last + gap.index("\n")
            pieces.append(_Piece(at, at + 1, 1.0, "\n"))
        said = text[word.start : word.end]
        if set(said) <= set(policy.always):
            pieces.append(_Piece(word.start, word.end, 1.0, said))
        else:
            sure = policy.keep_digits and any(each.isdigit() for each in said)
            begin = word.start - 1 if gap else word.start
            pieces.append(_Piece(begin, word.end, 1.0 if sure else word.probability))
        last = word.end
    return pieces


def _without_idle(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Drop redundant marks: those without a word before them, and repeated line breaks."""
    kept: list[_Piece] = []
    for piece in pieces:
        before = kept[-1].sign if kept else "\n"
        if not piece.sign or (before != "\n" if piece.sign == "\n" else not before):
            kept.append(piece)
    while kept and kept[-1].sign == "\n":
        kept.pop()
    return kept


def _joined(pieces: Sequence[_Piece]) -> list[Span]:
    """Join adjacent spans. They may overlap, because the blank before a word may be a line break that is also kept."""
    joined: list[Span] = []
    for piece in pieces:
        if joined and piece.start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], piece.end))
        else:
            joined.append((piece.start, piece.end))
    return joined
