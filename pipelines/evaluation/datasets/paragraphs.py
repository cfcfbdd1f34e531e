"""Evidence paragraphs of a paper whose full text a file does not hold: each is a text of its own, wholly evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from okralong.pipelines.evaluation.datasets.pieces import keep_text
from okralong.pipelines.evaluation.datasets.values import Evidence, Text

FLOAT: Final = "FLOAT SELECTED"
"""How Qasper writes that the evidence is a figure or a table, of which the files have no text but the caption."""


def keep_paragraphs(
    texts: dict[str, Text], document: str, paragraphs: Sequence[str]
) -> tuple[tuple[Evidence, ...], int]:
    """Evidence of the paragraphs, which are now among ``texts``, and how many figures and tables were left out."""
    written = [each.strip() for each in paragraphs if not each.startswith(FLOAT)]
    floats = len(paragraphs) - len(written)
    kept = [keep_text(texts, document, each) for each in dict.fromkeys(written) if each]
    return tuple(Evidence(text.text_id, 0, len(text.text)) for text in dict.fromkeys(kept)), floats
