"""The context processor: turn retrieved chunks into the passages of a prompt (paper sections 3.3, 3.4, appendix B.3).

It merges adjacent chunks, widens passages if the plan says so, completes tables that a boundary cuts, and merges
overlaps again. Finally it fits the prompt to the generator's window.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final

from okralong.pipelines.answering.policy import TABLE_TOKENS
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Hit, Message, Passage, Plan, QuestionError, TableSpan
from okralong.pipelines.statements.compact import shown_parts
from okralong.pipelines.statements.text_tables import tables_of


async def process_context(hits: Sequence[Hit], plan: Plan, tools: Tools) -> list[Passage]:
    """Return ``hits`` as passages: documents by best score, each in reading order.

    If the plan recovers tables, those that a chunk cuts are completed, and tables are shown in their compact form.
    """
    cut = {hit.chunk.chunk_id for hit in hits if hit.chunk.table_id is not None and plan.recover_tables}
    tabular = {hit.chunk.chunk_id for hit in hits if plan.recover_tables and _FIGURES.search(hit.chunk.text)}
    documents = _Documents(tools)
    worked: list[Passage] = []
    for passage in merge(map(passage_of, hits)):
        if plan.extension_tokens or not cut.isdisjoint(passage.chunk_ids):
            document = await documents.fetch(passage.doc_id)
            passage = await off_loop(len(document.text), partial(_work, passage, document, plan))
        worked.append(passage)
    reserved = max(TABLE_TOKENS, plan.granularity + 2 * plan.extension_tokens)
    return [
        with_tables(passage, await documents.fetch(passage.doc_id), reserved)
        if not tabular.isdisjoint(passage.chunk_ids)
        else passage
        for passage in merge(worked)
    ]


async def passages_to_read(hits: Sequence[Hit], tools: Tools) -> tuple[Passage, ...]:
    """Return a passage for each hit, with tables in their compact form, for a cross-encoder."""
    documents = _Documents(tools)
    return tuple(
        [
            with_tables(passage_of(hit), await documents.fetch(hit.chunk.doc_id), TABLE_TOKENS)
            if _FIGURES.search(hit.chunk.text)
            else passage_of(hit)
            for hit in hits
        ]
    )


class _Documents:
    """The documents of some hits, each fetched once, with the tables that its parser read or that its text has."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._known: dict[str, Document] = {}

    async def fetch(self, doc_id: str) -> Document:
        if doc_id not in self._known:
            document = await self._tools.full_text(doc_id)
            tables = await off_loop(len(document.text), partial(tables_of, document))
            self._known[doc_id] = replace(document, tables=tables)
        return self._known[doc_id]


_FIGURES: Final = re.compile(r"\d\)?[ \t]*%?[ \t|]*(?:\n|\Z)")
"""A line that ends in a number, as most rows of a table do."""


def with_tables(passage: Passage, document: Document, tokens: int) -> Passage:
    """Return a passage that shows the tables in it in their compact form (``statements/compact.py``).

    The plan reserves ``tokens`` for each chunk. The passage is returned unchanged if this form needs more, or if it
    has no row of a table.
    """
    parts = shown_parts(document.text, passage.start_char, passage.end_char, document.tables or ())
    if not parts:
        return passage
    shown = replace(passage, shown=parts)
    size = count_tokens(shown.shown_text)
    return replace(shown, n_tokens=size) if size <= tokens * max(1, len(passage.chunk_ids)) else passage


def _work(passage: Passage, document: Document, plan: Plan) -> Passage:
    if plan.extension_tokens:
        passage = extend(passage, document, plan.extension_tokens, count_tokens)
    # This follows the extension, because a widened passage may also cut a table.
    if plan.recover_tables:
        whole = with_whole_tables(passage, document, TABLE_TOKENS)
        passage = whole or recover_tables(passage, document, TABLE_TOKENS, count_tokens)
    return passage


# Order of passages in a prompt: documents by best score, so that the likeliest source comes first; within a document by
# position, since "the following table" only makes sense in reading order.

_ORIGINS = ("retrieved", "merged", "extended", "table", "full")
"""Origins, from least to most processed. A merged passage has the origin of its most processed part."""


def passage_of(hit: Hit) -> Passage:
    """Return one chunk as a passage."""
    chunk = hit.chunk
    return Passage(
        doc_id=chunk.doc_id,
        start_char=chunk.start_char,
        end_char=chunk.end_char,
        text=chunk.text,
        n_tokens=chunk.n_tokens,
        score=hit.score,
        chunk_ids=(chunk.chunk_id,),
    )


def merge(passages: Iterable[Passage]) -> list[Passage]:
    """Merge passages of a document that touch or overlap; the result is in reading order.

    Each passage's text must be the document's text in its range. The compact form of tables is lost where passages are
    merged.
    """
    ordered = sorted(passages, key=lambda passage: (passage.doc_id, passage.start_char, passage.end_char))
    merged: list[Passage] = []
    for _, of_document in groupby(ordered, key=lambda passage: passage.doc_id):
        group: list[Passage] = []
        end = -1
        for passage in of_document:
            if group and passage.start_char > end:
                merged.append(_join(group))
                group = []
            group.append(passage)
            end = max(end, passage.end_char) if len(group) > 1 else passage.end_char
        merged.append(_join(group))
    return reading_order(merged)


def reading_order(passages: Sequence[Passage]) -> list[Passage]:
    """Sort documents by their best score, highest first (ties by doc_id), and passages of a document by position."""
    best: dict[str, float] = {}
    for passage in passages:
        best[passage.doc_id] = max(passage.score, best.get(passage.doc_id, passage.score))
    return sorted(passages, key=lambda passage: (-best[passage.doc_id], passage.doc_id, passage.start_char))


def _join(group: list[Passage]) -> Passage:
    if len(group) == 1:
        return group[0]
    text, end = group[0].text, group[0].end_char
    for passage in group[1:]:
        if passage.end_char > end:
            text += passage.text[end - passage.start_char :]
            end = passage.end_char
    by_score = sorted(group, key=lambda passage: -passage.score)
    return Passage(
        doc_id=group[0].doc_id,
        start_char=group[0].start_char,
        end_char=end,
        text=text,
        n_tokens=count_tokens(text),
        score=by_score[0].score,
        chunk_ids=tuple(dict.fromkeys(chunk_id for passage in by_score for chunk_id in passage.chunk_ids)),
        origin=max((*(passage.origin for passage in group), "merged"), key=_ORIGINS.index),
    )


# Context extension: widen a passage on both sides, to the boundary of a sentence or line (section 3.4).

_SENTENCE = re.compile(r"\n+|(?<=[.!?])\s+")
_WORD = re.compile(r"\s+")
_CHARS_PER_TOKEN = 12  # project default; prose has 4 to 5, the leaders of a table up to 10
"""Characters per token of the extension that are searched for a boundary."""


def extend(passage: Passage, document: Document, tokens: int, count: Callable[[str], int]) -> Passage:
    """Widen a passage by up to ``tokens`` tokens on each side, within the document.

    Each side is widened to a sentence or line boundary if one fits, else to a gap between words; if not even a word
    fits, that side is unchanged. ``count`` counts tokens.
    """
    text = document.text
    reach = tokens * _CHARS_PER_TOKEN
    start = _widen_left(text, passage.start_char, max(0, passage.start_char - reach), tokens, count)
    end = _widen_right(text, passage.end_char, min(len(text), passage.end_char + reach), tokens, count)
    if (start, end) == (passage.start_char, passage.end_char):
        return passage
    wider = text[start:end]
    return replace(passage, start_char=start, end_char=end, text=wider, n_tokens=count(wider), origin="extended")


def _widen_left(text: str, start: int, limit: int, tokens: int, count: Callable[[str], int]) -> int:
    for boundary in (_SENTENCE, _WORD):
        places = [match.end() for match in boundary.finditer(text, limit, start) if match.end() < start]
        # ``_furthest`` requires the nearest first.
        places = [*reversed(places), *([0] if limit == 0 and start > 0 else [])]
        if (place := _furthest(places, lambda place: count(text[place:start]) <= tokens)) is not None:
            return place
    return start


def _widen_right(text: str, end: int, limit: int, tokens: int, count: Callable[[str], int]) -> int:
    for boundary in (_SENTENCE, _WORD):
        places = [match.end() for match in boundary.finditer(text, end, limit) if match.end() < limit]
        places = [*places, *([limit] if limit == len(text) and limit > end else [])]
        if (place := _furthest(places, lambda place: count(text[end:place]) <= tokens)) is not None:
            return place
    return end


def _furthest(places: Sequence[int], fits: Callable[[int], bool]) -> int | None:
    """Return the last of ``places`` that fits, or None. Each must be farther than the one before."""
    number = most_that_fits(len(places), lambda number: fits(places[number - 1]))
    return places[number - 1] if number else None


def most_that_fits(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``most`` that ``fits``, by bisection; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def with_whole_tables(passage: Passage, document: Document, max_tokens: int) -> Passage | None:
    """Return a passage with the tables that its boundaries cut, or None if no table that was read is cut.

    If its compact form would exceed ``max_tokens``, the passage is returned unchanged: that form has the tables' heads.
    """
    start, end = passage.start_char, passage.end_char
    cut = [table for table in document.tables or () if table.start < start < table.end or table.start < end < table.end]
    if not cut:
        return None
    start, end = min(start, *(table.start for table in cut)), max(end, *(table.end for table in cut))
    parts = shown_parts(document.text, start, end, document.tables or ())
    if not parts or count_tokens("".join(part.text for part in parts)) > max_tokens:
        return passage
    text = document.text[start:end]
    return replace(passage, start_char=start, end_char=end, text=text, n_tokens=count_tokens(text), origin="table")


# Table recovery where no tables were read (appendix B.3, C.3): widen a passage whose boundary cuts a table.
#
# A passage is one contiguous range of its document. If the whole table exceeds the token bound, the passage is first
# widened to the table's start, because rows are hard to understand without column heads, and then row by row toward its
# end.


def recover_tables(
    passage: Passage, document: Document, max_tokens: int, count_tokens: Callable[[str], int]
) -> Passage:
    """Widen a passage to include the tables that its boundaries cut.

    ``document.table_spans`` must be sorted and disjoint. The result has the origin "table" and at most ``max_tokens``
    tokens. A passage that cuts no table, or already has more tokens, is returned unchanged.
    """
    head = _table_over(document.table_spans, passage.start_char)
    tail = _table_over(document.table_spans, passage.end_char)
    start = head.start_char if head else passage.start_char
    end = tail.end_char if tail else passage.end_char
    if start == passage.start_char and end == passage.end_char:
        return passage

    def fits(low: int, high: int) -> bool:
        return count_tokens(document.text[low:high]) <= max_tokens

    if not fits(start, end):
        if not fits(passage.start_char, passage.end_char):
            return passage
        start = _earliest_line(document.text, start, passage.start_char, lambda low: fits(low, passage.end_char))
        end = _latest_line(document.text, passage.end_char, end, lambda high: fits(start, high))
        if start == passage.start_char and end == passage.end_char:
            return passage
    text = document.text[start:end]
    return replace(passage, start_char=start, end_char=end, text=text, n_tokens=count_tokens(text), origin="table")


def _table_over(tables: tuple[TableSpan, ...], offset: int) -> TableSpan | None:
    place = bisect_right(tables, offset, key=lambda table: table.start_char) - 1
    if place >= 0 and tables[place].start_char < offset < tables[place].end_char:
        return tables[place]
    return None


def _earliest_line(text: str, low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the smallest line start in [low, high] that fits, or ``high`` if none does."""
    starts = [low, *(i + 1 for i in _breaks(text, low, high))]
    place = _furthest(starts[::-1], fits)
    return high if place is None else place


def _latest_line(text: str, low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest line end in [low, high] that fits, or ``low`` if none does."""
    place = _furthest([*_breaks(text, low, high), high], fits)
    return low if place is None else place


def _breaks(text: str, low: int, high: int) -> list[int]:
    return [i for i in range(low, high) if text[i] == "\n"]


# Fit a prompt to the generator's window: drop the least important passages, truncate the last one.
#
# The window is counted in the generator's own tokens. An endpoint rejects a prompt that is too long, or worse, silently
# truncates it.

MESSAGE_OVERHEAD = 16  # project default, on the safe side
"""Tokens that a chat template may add to a message: role markers and line ends."""

BuildPrompt = Callable[[Sequence[Passage]], list[Message]]


def prompt_fits(messages: Sequence[Message], role: str, tools: Tools) -> bool:
    """Return whether the prompt plus the longest reply of ``role`` fit the window."""
    prompt = sum(tools.count(message.content) + message.vector_rows + MESSAGE_OVERHEAD for message in messages)
    return prompt + tools.completion_limit(role) <= tools.window


def fit_passages(
    passages: Sequence[Passage], hits: Sequence[Hit], build: BuildPrompt, role: str, tools: Tools
) -> list[Passage]:
    """Return as many of ``passages`` as fit the window, in their order.

    ``hits`` has the most important chunk first; the passages of the last chunks are dropped first. If the most
    important passage alone is too long, it is truncated.

    Raises:
        QuestionError: Not even a word of a passage fits beside the question.
    """
    rank = {hit.chunk.chunk_id: place for place, hit in enumerate(hits)}

    def place_of(passage: Passage) -> int:
        return min((rank[chunk_id] for chunk_id in passage.chunk_ids if chunk_id in rank), default=len(rank))

    kept = list(passages)
    while len(kept) > 1 and not prompt_fits(build(kept), role, tools):
        kept.remove(max(kept, key=place_of))
    if not kept or prompt_fits(build(kept), role, tools):
        return kept
    return [_cut_to_fit(kept[0], build, role, tools)]


def _cut_to_fit(passage: Passage, build: BuildPrompt, role: str, tools: Tools) -> Passage:
    length = most_that_fits(len(passage.text), lambda n: prompt_fits(build([_head(passage, n)]), role, tools))
    if length == 0:
        raise QuestionError(
            f"The question leaves no room for any passage in the generator's window of {tools.window} tokens, of which "
            f"a reply may take {tools.completion_limit(role)}. Ask a shorter question, lower the completion limit of "
            "the config's llm section, or name a model with a larger window."
        )
    return _head(passage, length)


def _head(passage: Passage, length: int) -> Passage:
    text = passage.text[:length]
    return replace(passage, text=text, shown=(), end_char=passage.start_char + length, n_tokens=count_tokens(text))
