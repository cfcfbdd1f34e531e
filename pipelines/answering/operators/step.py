"""The step-wise reasoner: read, say what is missing, look that up, read again (paper section 3.3).

It stops when the reply holds an answer, when there is nothing new to look up, or at the plan's bound; then one last
call answers from everything gathered.
"""

from __future__ import annotations

from functools import partial

from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.operators.calculate import calculate
from okralong.pipelines.answering.operators.context import process_context
from okralong.pipelines.answering.operators.generate import generate
from okralong.pipelines.answering.operators.pool import pool
from okralong.pipelines.answering.operators.retrieve import assembled_retrieval
from okralong.pipelines.answering.operators.window import fit_passages, prompt_fits
from okralong.pipelines.answering.prompts.split import same_words
from okralong.pipelines.answering.prompts.step import ParsedStep, read_step, step_prompt
from okralong.pipelines.answering.repair import ask_and_read
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Hit, NobodyAsked, Passage, Plan


async def reason_in_steps(tools: Tools, question: str, plan: Plan) -> Answer:
    """Answer by at most ``plan.max_steps`` steps.

    Steps: ``retrieve`` for the question itself, ``step/1/reason`` (and ``step/1/reason/repair`` when its reply is of no
    use), ``step/1/retrieve`` onward, and ``generate``. Raises ReplyError when a repaired reply is of no use either.
    """
    finds = [await assembled_retrieval(tools, "retrieve", question, plan)]
    asked = {same_words(question)}
    for number in range(1, plan.max_steps + 1):
        hits = pool(finds)
        parsed, shown = await _reason(tools, f"step/{number}/reason", question, hits, plan)
        if parsed.answer:
            citations = find_citations(parsed.evidence, shown)
            said = calculate(parsed.answer) if tools.calculator else parsed.answer
            return Answer("answered", said, citations, context=tuple(shown))
        # Nothing named stands for "look up the question itself", which was done before the first step.
        query = parsed.query or question
        if same_words(query) in asked:
            break
        asked.add(same_words(query))
        found = await assembled_retrieval(tools, f"step/{number}/retrieve", query, plan)
        known = {hit.chunk.chunk_id for hit in hits}
        if known.issuperset(hit.chunk.chunk_id for hit in found):
            # The next step would send the same prompt and pay for the same reply.
            break
        finds.append(found)
    hits = pool(finds)
    return await generate(tools, "generate", question, await process_context(hits, plan, tools), hits)


async def _reason(
    tools: Tools, step: str, question: str, hits: list[Hit], plan: Plan
) -> tuple[ParsedStep, list[Passage]]:
    """One step's reply, and the passages that it saw."""
    passages = await process_context(hits, plan, tools)
    shown = fit_passages(passages, hits, partial(step_prompt, question), "step", tools)
    if not shown:
        return ParsedStep(), []
    try:
        parsed, _ = await ask_and_read(
            partial(tools.complete, role="step"),
            step,
            step_prompt(question, shown),
            read_step,
            lambda prompt: prompt_fits(prompt, "step", tools),
        )
    except NobodyAsked:
        return ParsedStep(), shown
    return parsed, shown
