"""Documents with tables that tests write by hand."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document

Line = tuple[str, ...]
"""A row: its label and a text for each column, "" for an empty cell; a label alone is a section."""


class Writer:
    """Writes tables into a text, with the true positions of rows and cells."""

    def __init__(self) -> None:
        self.text = ""
        self.tables: list[Table] = []

    def add(
        self,
        heads: Sequence[str | tuple[str, ...]],
        lines: Sequence[Line],
        title: str = "",
        unit: str = "(in millions of U.S. dollars, except per share data)",
        stub: str = "",
        page: str = "",
    ) -> Writer:
        """Append a table; a head is a text or its levels."""
        start = len(self.text)
        self.text += f"{title}\n{unit}\n" + " | ".join([stub, *map(str, heads)]) + "\n"
        rows: list[TableRow] = []
        sections: tuple[str, ...] = ()
        for label, *cells in lines:
            first = len(self.text)
            self.text += label
            if not cells:
                sections = (label.rstrip(":"),) if label else ()
                self.text += "\n"
                continue
            there = []
            for column, written in enumerate(cells):
                self.text += " | "
                if written:
                    there.append(TableCell(column, written, len(self.text), len(self.text) + len(written)))
                self.text += written
            rows.append(TableRow(label, first, len(self.text), tuple(there), sections))
            self.text += "\n"
        levels = tuple((head,) if isinstance(head, str) else head for head in heads)
        self.tables.append(Table(start, len(self.text), levels, tuple(rows), page, title, unit, stub))
        self.text += "\n"
        return self

    def document(self, name: str = "alder") -> Document:
        """Return the document."""
        return Document(name, self.text, tables=tuple(self.tables))
