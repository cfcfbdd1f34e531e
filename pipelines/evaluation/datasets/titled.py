"""A Wikipedia paragraph as a text: its title on a line of its own, then the paragraph, which can be evidence whole."""

from __future__ import annotations

from okralong.pipelines.evaluation.datasets.pieces import keep_text, trimmed
from okralong.pipelines.evaluation.datasets.values import Evidence, Text


def keep_titled(texts: dict[str, Text], title: str, paragraph: str) -> Text:
    """The text of a paragraph, from now on one of ``texts``."""
    return keep_text(texts, title, f"{title}\n{paragraph}")


def whole_paragraph(text: Text, title: str) -> Evidence:
    """All of a titled text but its title line, as evidence."""
    start, end = trimmed(text.text, (len(title) + 1, len(text.text)))
    return Evidence(text.text_id, start, end)
