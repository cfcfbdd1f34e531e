"""The long context: every document of the scope in full where the window holds them, else the best chunks that fit.

Used by the strategy ``long_context`` and by precise mode. The fallback is the paper's (appendix B.2): the top chunks
of the dense retriever, 200 of them for a window of 128k tokens.
"""

from __future__ import annotations

from functools import partial

from okralong.pipelines.answering.operators.generate import generate
from okralong.pipelines.answering.operators.merge import merge, passage_of
from okralong.pipelines.answering.operators.window import prompt_fits
from okralong.pipelines.answering.prompts.answer import answer_prompt
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Document, Hit, Passage

ROLE = "full_text"

_SURELY_TOO_LONG = 2
"""A scope of more o200k tokens than this many windows is not fetched to be counted; ours. Vocabularies differ, but
none in use needs half as many tokens as o200k."""


async def answer_from_full_text(tools: Tools, question: str) -> Answer:
    """Answer from the whole scope, or from as much of it as fits.

    Steps: ``full_text/generate``, and ``full_text/retrieve`` when the scope does not fit. Raises QuestionError when
    the question leaves no room in the window.
    """
    passages = await whole_scope(tools, question)
    if passages is None:
        passages = await best_chunks(tools, question)
    return await generate(tools, "full_text/generate", question, passages, role=ROLE)


async def whole_scope(tools: Tools, question: str) -> list[Passage] | None:
    """All documents of the scope in order of doc_id, or None when they do not fit."""
    sizes = await tools.documents()
    if sum(tokens for _, tokens in sizes) > _SURELY_TOO_LONG * tools.window:
        return None
    passages: list[Passage] = []
    used = 0
    for doc_id, _ in sizes:
        passages.append(_whole(await tools.full_text(doc_id)))
        used += tools.count(passages[-1].text)
        if used > tools.window:
            return None
    return passages if prompt_fits(answer_prompt(question, passages, tools.calculator), ROLE, tools) else None


async def best_chunks(tools: Tools, question: str) -> list[Passage]:
    """The longest run of top dense chunks that fits the window, neighbours merged, in reading order."""
    policy = tools.policy.full_text
    found = await tools.retrieve(
        "full_text/retrieve", question, granularity=policy.fallback_granularity, k=policy.fallback_count
    )
    hits = list(found.semantic[: policy.fallback_count])
    build = partial(answer_prompt, question, calculator=tools.calculator)
    low, high = 0, len(hits)
    while low < high:
        middle = (low + high + 1) // 2
        if prompt_fits(build(_passages(hits[:middle])), ROLE, tools):
            low = middle
        else:
            high = middle - 1
    # Not even one fits: the first is handed on, and cut where it is shown.
    return _passages(hits[: max(low, 1)])


def _passages(hits: list[Hit]) -> list[Passage]:
    return merge(map(passage_of, hits))


def _whole(document: Document) -> Passage:
    return Passage(document.doc_id, 0, len(document.text), document.text, document.n_tokens, score=1.0, origin="full")
