"""Make the answers that code reads from a row or sentence of a document."""

from __future__ import annotations

from typing import Final

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Citation, Document, Passage, TypedValue

BY_RULES: Final = "statement-rules"
"""The value of ``replied_by`` in answers that code read from a row or sentence."""
SHOWN: Final = 600
"""Characters of context on each side of a value, extended to the end of a line. project default"""


def cited_answer(document: Document, said: str, value: TypedValue, start: int, end: int) -> Answer:
    """Return an answer that cites a span, with the text around it as context."""
    cited = Citation(document.doc_id, start, end, document.text[start:end])
    passage = lines_around(document, start, end, SHOWN)
    return Answer("answered", said, (cited,), context=(passage,), value=value, replied_by=(BY_RULES,), way="stated")


def lines_around(document: Document, start: int, end: int, around: int) -> Passage:
    """Return a span extended by up to ``around`` characters on each side, to the end of a line."""
    text = document.text
    first, last = max(0, start - around), min(len(text), end + around)
    first = max(first, text.find("\n", first, start) + 1) if first else first
    last = max(text.rfind("\n", end, last), end) if last < len(text) and "\n" in text[end:last] else last
    return Passage(document.doc_id, first, last, text[first:last], count_tokens(text[first:last]), 1.0)
