"""The workflows "linear" and "extend": one retrieval. They differ only in the plan's ``extension_tokens``."""

from __future__ import annotations

from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.retrieve import assembled_retrieval


async def retrieve_once(ask: Ask) -> Finds:
    """Retrieve for the question itself. Step: ``retrieve``."""
    return [(ask.question, await assembled_retrieval(ask.tools, "retrieve", ask.question, ask.plan))]
