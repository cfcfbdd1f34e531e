"""Read the tables of a text whose cells are separated by bars, tabs or wide gaps."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.core.tables import Table
from okralong.pipelines.core.types import Document, Section


def tables_of(document: Document) -> tuple[Table, ...]:
    """Return the tables of a document: those that its parser read, or else those in its text."""
    if document.tables is not None:
        return document.tables
    return read_text_tables(document.text, document.sections)


def read_text_tables(text: str, sections: Sequence[Section] = ()) -> tuple[Table, ...]:
    """Return the tables of a text in order; ``sections`` name the pages or sheets that they begin on."""
    return ()
