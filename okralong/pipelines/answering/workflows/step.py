"""The workflow "step": the step-wise reasoner retrieves and reasons in turns (paper section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from okralong.pipelines.answering.answer_types import misfit, with_value
from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.citations import ask_and_read, sources_of
from okralong.pipelines.answering.context import fit_passages, process_context, prompt_fits
from okralong.pipelines.answering.generate import generate, language_claimed
from okralong.pipelines.answering.prompts import ParsedStep, read_step, same_words, step_prompt
from okralong.pipelines.answering.retrieve import assembled_retrieval, pool
from okralong.pipelines.answering.stated import Stated, sought_for
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Hit, Passage, ReplyError


async def reason_in_steps(ask: Ask) -> Answer:
    """Read the passages, look up the fact that a step finds missing, and repeat, up to ``plan.max_steps`` times.

    The reasoning ends after that many steps, or when a step answers, has no new query, or gives no usable reply even
    after a repair. If there is no answer by then, a last call answers from everything retrieved.

    Steps: ``retrieve`` for the question itself, ``step/1/reason`` (and ``step/1/reason/repair``), ``step/1/retrieve``
    onward, and ``generate``.
    """
    tools, plan, question = ask.tools, ask.plan, ask.question
    finds = [await assembled_retrieval(tools, "retrieve", question, plan)]
    asked = {same_words(question)}
    for number in range(1, plan.max_steps + 1):
        hits = pool(finds)
        parsed, shown, by = await _reason(ask, f"step/{number}/reason", hits)
        if parsed.answer:
            chars = sum(len(passage.text) for passage in shown)
            answer = await off_loop(chars, partial(_answer, ask, parsed, shown))
            if answer.status == "answered":
                return replace(answer, replied_by=by, way="generated")
            break  # no value of the wanted type: the last call asks for one
        # A step without a query looks up the question itself, which was done before the first step.
        query = parsed.query or question
        if same_words(query) in asked:
            break
        asked.add(same_words(query))
        found = await assembled_retrieval(tools, f"step/{number}/retrieve", query, plan)
        known = {hit.chunk.chunk_id for hit in hits}
        if known.issuperset(hit.chunk.chunk_id for hit in found):
            break  # the next step would send the same prompt
        finds.append(found)
    hits = pool(finds)
    return await generate(tools, "generate", question, await process_context(hits, plan, tools), hits)


def _answer(ask: Ask, parsed: ParsedStep, shown: Sequence[Passage]) -> Answer:
    """Return the answer of a step: ``invalid_output`` if it does not fit the wanted type or no passage states it."""
    calculator, wanted, question = ask.tools.calculator, ask.wanted, ask.question
    language = language_claimed(parsed.evidence, shown)
    said = calculate(parsed.answer, language) if calculator else parsed.answer
    citations = sources_of(parsed.evidence, shown, sought_for(parsed.answer, question, said, language=language))
    answer = Answer("answered", said, citations, context=tuple(shown))
    try:
        if not wanted.many:
            quotes = [each.quote for each in citations]
            Stated(shown).require(wanted.kind, parsed.answer, question, quotes, calculator, language)
    except ValueError as error:
        return misfit(wanted, answer, str(error), parsed.answer)
    return with_value(question, wanted, answer)


async def _reason(ask: Ask, step: str, hits: Sequence[Hit]) -> tuple[ParsedStep, list[Passage], tuple[str, ...]]:
    """Return the reply of one step (empty if unusable), the passages that its prompt showed, and its model."""
    build = partial(step_prompt, ask.question, language=ask.tools.language)
    shown = fit_passages(await process_context(hits, ask.plan, ask.tools), hits, build, "step", ask.tools)
    if not shown:
        return ParsedStep(), [], ()
    call, fits = partial(ask.tools.complete, role="step"), partial(prompt_fits, role="step", tools=ask.tools)
    try:
        parsed, reply = await ask_and_read(call, step, build(shown), read_step, fits)
    except ReplyError:  # NobodyAsked is a ReplyError, too
        return ParsedStep(), shown, ()
    return parsed, shown, (reply.model,)
