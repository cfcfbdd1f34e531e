"""The answer call: passages into the answer prompt, one call of the generator, reply into answer and citations.

An answer that is a formula is worked out, whether or not one was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.operators.calculate import calculate
from okralong.pipelines.answering.operators.window import fit_passages
from okralong.pipelines.answering.prompts.answer import UNANSWERABLE, answer_prompt, parse_answer
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Hit, Passage


async def generate(
    tools: Tools,
    step: str,
    question: str,
    passages: Sequence[Passage],
    hits: Sequence[Hit] = (),
    *,
    role: str = "generate",
    cite_in: Callable[[Sequence[Passage]], Sequence[Passage]] | None = None,
) -> Answer:
    """Answer ``question`` from ``passages``, less what the window cannot hold (the last of ``hits`` goes first).

    ``cite_in`` gives for each passage that is shown the one in which its quotations stand, an empty one where none may
    be cited; None: in the shown ones.

    Without any passage nothing is asked and nothing is paid: the answer is "unanswerable". Raises QuestionError when
    the question leaves no room for a passage, and what ``Tools.complete`` raises.
    """
    build = partial(answer_prompt, question, calculator=tools.calculator)
    shown = fit_passages(passages, hits, build, role, tools)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    reply = await tools.complete(step, build(shown), role=role)
    parsed = parse_answer(reply.text)
    if parsed.unanswerable:
        return Answer("unanswerable", UNANSWERABLE, context=tuple(shown))
    said = calculate(parsed.answer) if tools.calculator else parsed.answer
    citations = find_citations(parsed.evidence, shown if cite_in is None else cite_in(shown))
    return Answer("answered", said, tuple(each for each in citations if each.quote), context=tuple(shown))
