"""The trivial reader: it answers with the sentence of its passages that is nearest to the question."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.core.types import Citation, Passage
from okralong.pipelines.indexing.chunking import boundaries
from okralong.pipelines.reader.marks import Marks, mark_text
from okralong.pipelines.reader.rows import ReadingRow

Embed = Callable[[list[str]], NDArray[np.float32]]
"""Unit vectors of some texts, (texts, dimension)."""


def best_sentence(row: ReadingRow, embed: Embed) -> Marks:
    """The marks of that sentence, cited as its own source."""
    places = [(passage, start, end) for passage in row.passages for start, end in _sentences(passage)]
    texts = [passage.text[start:end] for passage, start, end in places]
    vectors = embed([row.question, *texts])
    passage, start, end = places[int(np.argmax(vectors[1:] @ vectors[0]))]
    quote = passage.text[start:end]
    citation = Citation(passage.doc_id, passage.start_char + start, passage.start_char + end, quote)
    return mark_text(row, " ".join(quote.split()), [citation])


def _sentences(passage: Passage) -> list[tuple[int, int]]:
    ends = list(boundaries(passage.text, ()))
    spans = zip([0, *ends], ends, strict=False)
    return [(start, end) for start, end in spans if passage.text[start:end].strip()]
