"""The selection of evidence that the policy names, made durable before anything is built on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from okralong.pipelines.answering.operators.csi import choose_surprising
from okralong.pipelines.answering.operators.novelty import choose_novel
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.values import Hit


async def choose(tools: Tools, step: str, query: str, pool: Sequence[Hit], count: int) -> list[Hit]:
    """At most ``count`` of ``pool`` (best first, each once) by the policy's method, which must not be "none".

    In the order of choice, the most relevant first. Raises ConfigError when the method needs a scorer and there is
    none; a run checks that before it begins.
    """
    selection = tools.policy.selection

    async def pick() -> list[Hit]:
        if selection.method == "csi":
            question = query if selection.condition_on_question else ""
            return await choose_surprising(pool, tools.score, count, selection.trade_off, question)
        asked = np.asarray(await tools.embed([query]), dtype=np.float32)[0]
        vectors = np.asarray(await tools.vectors(pool), dtype=np.float32)
        return await choose_novel(pool, asked, vectors, count, selection.trade_off)

    # One candidate, or room for one: nothing to judge, and nothing to keep.
    return await tools.record_choice(step, query, pool, pick) if min(len(pool), count) > 1 else list(pool[:count])
