"""Conditional self-information: the chunk that surprises a reader of what is chosen already (SARA section 2.4).

A small language model reads the chosen chunks; how unlikely it finds a further one, a token on average, is how much
that one adds. What repeats a chosen chunk is foreseen, and stays behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from okralong.pipelines.answering.operators.greedy import choose_greedily
from okralong.pipelines.core.types import Hit

Score = Callable[[str, Sequence[str]], Awaitable[list[list[float]]]]
"""``Tools.score``: log-likelihood of each token of some texts after a prefix that they share."""

SEPARATOR = "\n\n"
"""Stands behind the question and behind each chosen chunk; ours."""


async def choose_surprising(
    hits: Sequence[Hit], score: Score, count: int, trade_off: float, question: str = ""
) -> list[Hit]:
    """At most ``count`` of ``hits`` (best first, each once), chosen by self-information (SARA equations 6 and 7).

    Given the chosen chunks, and the ``question`` before them unless it is empty. ``score`` is called once for each
    choice after the first. For ``trade_off`` see ``choose_greedily``.
    """

    async def novelty(chosen: Sequence[Hit], rest: Sequence[Hit]) -> Sequence[float]:
        read = [question] if question else []
        prefix = "".join(text.strip() + SEPARATOR for text in [*read, *(hit.chunk.text for hit in chosen)])
        return [self_information(logs) for logs in await score(prefix, [hit.chunk.text.strip() for hit in rest])]

    return await choose_greedily(hits, count, trade_off, novelty)


def self_information(logs: Sequence[float]) -> float:
    """Mean of minus ``logs``, natural log-likelihoods of a text's tokens, in nats a token; 0 for a text of none."""
    return -sum(logs) / len(logs) if logs else 0.0
