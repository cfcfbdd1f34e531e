"""A shard of an earlier version, from which the next one takes what has not changed: mapped, and read file by file.

It is apart from ``Shard``, which is made for questions and may keep its columns in other forms.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.search import layout
from okralong.pipelines.search.merged_postings import PostingPiece


@dataclass(frozen=True)
class BaseShard:
    """``ranges`` are the rows of each document; ``over_limit`` the rows of which the encoder does not see the end."""

    rows: pa.Table
    ranges: dict[str, range]
    vectors: NDArray[np.float32]
    over_limit: NDArray[np.bool_]
    path: Path
    copied_to: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, folder: Folder) -> BaseShard:
        """Map its files; those of another filesystem are first copied. Raises ArchiveError when they cannot be used."""
        copied_to = None if folder.is_local else tempfile.TemporaryDirectory(prefix="okralong-shard-")
        path = Path(copied_to.name if copied_to else folder.path)
        try:
            if copied_to is not None:
                fs.copy_files(folder.path, copied_to.name, source_filesystem=folder.filesystem)
            ranges = layout.open_columns(path, layout.RANGES, layout.RANGES_SCHEMA).to_pydict()
            rows = layout.open_columns(path, layout.ROWS, layout.ROWS_SCHEMA)
            flags = path / layout.OVER_LIMIT
            return cls(
                rows=rows,
                ranges={
                    doc_id: range(first, end)
                    for doc_id, first, end in zip(ranges["doc_id"], ranges["first_row"], ranges["end_row"], strict=True)
                },
                vectors=layout.open_array(path, layout.VECTORS),
                over_limit=layout.open_array(path, layout.OVER_LIMIT) if flags.exists() else np.zeros(len(rows), bool),
                path=path,
                copied_to=copied_to,
            )
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ArchiveError(
                f"The index shard {folder.path} of an earlier version cannot be used: {error}. Delete that folder's "
                "version below versions/, or index into a new archive."
            ) from error

    def postings(self, places: NDArray[np.int64]) -> PostingPiece:
        """Its postings; ``places`` has for each row its place among the rows to come, or -1."""
        pointers, rows, frequencies, lengths = (
            layout.open_array(self.path, name)
            for name in (layout.POINTERS, layout.POSTING_ROWS, layout.FREQUENCIES, layout.LENGTHS)
        )
        column = layout.open_columns(self.path, layout.VOCABULARY, layout.VOCABULARY_SCHEMA).column("term")
        return PostingPiece(column.combine_chunks(), pointers, rows, frequencies, lengths, places)
