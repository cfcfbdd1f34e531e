"""What reading one document may cost before it counts as a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_BAD_ROWS: Final = 1000
"""Rows of one file that are reported one by one. Ours: a file may hold a hundred million lines that are no documents,
and each report takes more memory than its line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one document or file. The index config says their defaults and why; see ``LimitsConfig``.

    ``seconds`` is processor time for one document; ``memory_bytes`` what reading it may add to the address space of its
    process; ``document_bytes`` its text, title and metadata in UTF-8; ``text_bytes`` the same of all documents of one
    file; ``file_bytes`` the file as it is stored.
    """

    seconds: float
    memory_bytes: int
    document_bytes: int
    text_bytes: int
    file_bytes: int
