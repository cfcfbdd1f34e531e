"""Rows read straight from Arrow's buffers are what Arrow itself reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.files import ChunkRows, Strings
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Chunk

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(deadline=None)
@given(st.lists(st.none() | TEXTS))
def test_texts_and_nulls_are_read_as_arrow_reads_them(values: list[str | None]) -> None:
    column = pa.chunked_array([pa.array(values, pa.large_string())])
    strings = Strings.of(column)
    assert [strings.at(row) for row in range(len(strings))] == values


@settings(deadline=None)
@given(st.sets(TEXTS), TEXTS)
def test_a_sorted_text_is_found_by_halving(values: set[str], other: str) -> None:
    ordered = sorted(values)
    strings = Strings.of(pa.chunked_array([pa.array(ordered, pa.large_string())]))
    assert [strings.place(value) for value in ordered] == list(range(len(ordered)))
    assert strings.place(other) == (ordered.index(other) if other in values else None)


def test_mapped_rows_are_chunks(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {
            "chunk_id": f"{number}-café",
            "doc_id": "report",
            "ordinal": number,
            "start_char": number * 2**33,
            "end_char": number * 2**33 + 9,
            "n_tokens": 150 - number,
            "text": "naïve 文 " * number,
            "table_id": None if number % 2 else f"t{number}",
        }
        for number in range(19)
    ]
    layout.write_columns(Folder.of(tmp_path), layout.ROWS, pa.Table.from_pylist(rows, schema=layout.ROWS_SCHEMA))
    found = ChunkRows.of(layout.open_columns(tmp_path, layout.ROWS, layout.ROWS_SCHEMA))
    assert [found.chunk(row, 150) for row in range(19)] == [Chunk(granularity=150, **row) for row in rows]


def test_a_column_in_pieces_is_refused() -> None:
    pieces = pa.chunked_array([["a"], ["b"]], pa.large_string())
    with pytest.raises(ValueError, match="several pieces"):
        Strings.of(pieces)
    with pytest.raises(ValueError, match="several pieces"):
        Strings.of(pa.chunked_array([pa.array(["a", "b"], pa.large_string()).slice(1)]))
