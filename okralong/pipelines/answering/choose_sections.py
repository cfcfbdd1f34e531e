"""Let the generator choose, by their titles, the sections that hold the answer to a question. Not in the paper."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Final

from okralong.pipelines.answering.context import prompt_fits
from okralong.pipelines.answering.prompts import TREE_TOKENS, read_sections, section_line, sections_prompt
from okralong.pipelines.answering.retrieve import meant_documents
from okralong.pipelines.answering.sections import MOST_DOCUMENTS, NEVER
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.outline import FoundSection, OutlineNode
from okralong.pipelines.core.types import Document, ReplyError
from okralong.pipelines.llm.config import SECTIONS

_PAGES: Final = ("page", "slide", "sheet")

Listed = Sequence[tuple[OutlineNode, str]]
"""Sections, each with its line in the prompt."""


async def choose_sections(tools: Tools, question: str) -> tuple[FoundSection, ...] | None:
    """Return the sections that the generator chooses, or None to find them by their words.

    It is None if the question is not about a few documents, if their sections have no titles or the prompt does not
    fit, and if the reply is unusable. There is no second call. Step: ``sections``.
    """
    doc_ids = await _documents_of(tools, question)
    documents = [await tools.full_text(doc_id) for doc_id in doc_ids]
    outlines = [await tools.outline(doc_id) for doc_id in doc_ids]
    titles = sum(len(node.title) for outline in outlines for node in outline)
    listed = await off_loop(titles, partial(list_sections, documents, outlines, tools.count))
    offered = [(doc_id, node) for doc_id, lines in zip(doc_ids, listed, strict=True) for node, _ in lines]
    most = tools.policy.sections.most
    names = [document.title or document.doc_id for document in documents]
    shown = [(name, [line for _, line in lines]) for name, lines in zip(names, listed, strict=True)]
    messages = sections_prompt(question, shown, most)
    if not offered or not prompt_fits(messages, SECTIONS, tools):
        return None
    try:
        reply = await tools.complete(SECTIONS, messages, role=SECTIONS)
        if reply.finish_reason == "length":  # its last number may be cut
            return None
        read = partial(read_sections, reply.text, len(offered), most)
        numbers = await off_loop(len(reply.text), read)
    except ReplyError:  # NobodyAsked is one
        return None
    return tuple(FoundSection(*offered[number - 1], score=1.0) for number in numbers)


async def _documents_of(tools: Tools, question: str) -> list[str]:
    """Return the documents that the question names, or all of a small scope; none if they are too many."""
    meant = meant_documents(tools, question)
    if not meant and tools.scope_size <= MOST_DOCUMENTS:
        return [doc_id for doc_id, _ in await tools.documents()]
    return sorted(meant, key=lambda doc_id: (-meant[doc_id], doc_id)) if len(meant) <= MOST_DOCUMENTS else []


def list_sections(
    documents: Sequence[Document], outlines: Sequence[Sequence[OutlineNode]], count: Callable[[str], int]
) -> list[Listed]:
    """Return the sections to offer of each document, at most ``TREE_TOKENS`` together.

    The deepest levels are left out first, then the last sections of the highest level.
    """
    listed = [_lines(document, outline) for document, outline in zip(documents, outlines, strict=True)]
    rows = [(at, node, line) for at, lines in enumerate(listed) for node, line in lines]
    sizes = [count(f"[9999] {line}\n") for *_, line in rows]
    of_level: Counter[int] = Counter()
    for (_, node, _), size in zip(rows, sizes, strict=True):
        of_level[node.level] += size
    while len(of_level) > 1 and of_level.total() > TREE_TOKENS:
        del of_level[max(of_level)]
    kept = [(row, size) for row, size in zip(rows, sizes, strict=True) if row[1].level in of_level]
    fitting = sum(total <= TREE_TOKENS for total in accumulate(size for _, size in kept))
    return [[row[1:] for row, _ in kept[:fitting] if row[0] == at] for at in range(len(documents))]


def _lines(document: Document, outline: Sequence[OutlineNode]) -> Listed:
    pages = [each for each in document.sections if each.kind in _PAGES]
    starts = [each.start_char for each in pages]
    ends = [bisect_left(starts, node.end) - 1 for node in outline]
    return [
        (node, section_line(node, pages[end].name if end >= 0 else ""))
        for node, end in zip(outline, ends, strict=True)
        if node.role not in NEVER
    ]
