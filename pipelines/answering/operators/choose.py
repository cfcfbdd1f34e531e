"""The selection of evidence that the policy names, made durable before anything is built on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from okralong.pipelines.answering.operators.csi import choose_surprising
from okralong.pipelines.answering.operators.novelty import choose_novel
from okralong.pipelines.answering.policy import SelectionPolicy
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Hit


async def choose(
    tools: Tools, step: str, query: str, pool: Sequence[Hit], count: int, selection: SelectionPolicy | None = None
) -> list[Hit]:
    """At most ``count`` of ``pool`` (best first, each once) by ``selection``, by default the policy's; its method must
    not be "none".

    In the order of choice, the most relevant first. Raises ConfigError when the method needs a scorer or a compressor
    and there is none; a run checks that before it begins.
    """
    by = selection or tools.policy.selection

    async def pick() -> list[Hit]:
        if by.method == "csi":
            question = query if by.condition_on_question else ""
            return await choose_surprising(pool, tools.score, count, by.trade_off, question)
        vectors = [*await tools.embed([query]), *await tools.vectors(pool)]
        if by.space == "compressor":
            vectors = await tools.compress(vectors)
        rows = np.asarray(vectors, dtype=np.float32)
        return await choose_novel(pool, rows[0], rows[1:], count, by.trade_off)

    # One candidate, or room for one: nothing to judge, and nothing to keep.
    return await tools.record_choice(step, query, pool, pick) if min(len(pool), count) > 1 else list(pool[:count])
