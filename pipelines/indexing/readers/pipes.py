"""Rows of cells as lines that a person, a language model and the table finder all read as a table."""

from __future__ import annotations

from collections.abc import Sequence


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """One ``| cell | cell |`` line a row; rows and columns without any text are left out."""
    kept = [[" ".join(cell.replace("|", "/").split()) for cell in row] for row in rows]
    kept = [row for row in kept if any(row)]
    width = max((len(row) for row in kept), default=0)
    columns = [c for c in range(width) if any(c < len(row) and row[c] for row in kept)]
    return "\n".join("| " + " | ".join(row[c] if c < len(row) else "" for c in columns) + " |" for row in kept)
