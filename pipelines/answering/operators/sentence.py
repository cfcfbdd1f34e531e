"""One further sentence of a chain of reasoning, with how sure the generator is of each of its tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from okralong.pipelines.answering.context import fit_passages, passage_of
from okralong.pipelines.answering.prompts.sentence import conclusion, sentence_end, sentence_prompt
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Hit, Passage, Reply

ROLE = "sentence"


@dataclass(frozen=True, slots=True)
class Sentence:
    """``tokens`` are its tokens with their probabilities, none where they were not asked for; ``shown`` are the
    passages that it was written from.
    """

    text: str
    tokens: tuple[tuple[str, float], ...] = ()
    shown: tuple[Passage, ...] = ()

    @property
    def conclusion(self) -> str | None:
        """See ``prompts.sentence.conclusion``."""
        return conclusion(self.text)

    @property
    def confidence(self) -> float:
        """The probability of its least likely token; 1 for a sentence without tokens."""
        return min((probability for _, probability in self.tokens), default=1.0)

    def without_doubtful(self, below: float) -> str:
        """The sentence without its tokens less likely than ``below``; the whole one where none would be left."""
        kept = "".join(token if probability >= below else " " for token, probability in self.tokens)
        return " ".join(kept.split()) or self.text


def read_sentence(reply: Reply, shown: Sequence[Passage] = ()) -> Sentence:
    """The first sentence of a reply, and those of its tokens that begin in it."""
    end = sentence_end(reply.text)
    tokens: list[tuple[str, float]] = []
    at = 0
    for token, logprob in zip(reply.tokens, reply.token_logprobs, strict=True):
        if at >= end:
            break
        tokens.append((token, math.exp(logprob)))
        at += len(token)
    return Sentence(reply.text[:end].strip(), tuple(tokens), tuple(shown))


async def write_sentence(
    tools: Tools, step: str, question: str, hits: Sequence[Hit], said: Sequence[str], *, logprobs: bool = False
) -> Sentence:
    """The sentence after those ``said``, from ``hits`` as far as the window holds them. Raises as ``generate`` does."""
    build = partial(sentence_prompt, question, said)
    shown = fit_passages([passage_of(hit) for hit in hits], hits, build, ROLE, tools)
    return read_sentence(await tools.complete(step, build(shown), role=ROLE, logprobs=logprobs), shown)
