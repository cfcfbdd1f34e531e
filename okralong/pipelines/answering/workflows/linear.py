"""The workflows "linear" and "extend": one retrieval. The plan's ``extension_tokens`` make the difference."""

from __future__ import annotations

from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.retrieve import assembled_retrieval


async def retrieve_once(ask: Ask) -> Finds:
    """Retrieve for the question itself. Step: ``retrieve``."""
    return [(ask.question, await assembled_retrieval(ask.tools, "retrieve", ask.question, ask.plan))]
