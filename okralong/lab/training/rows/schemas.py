"""The Arrow schemas of training rows."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from okralong.pipelines.core.schemas import SPAN, table_schema

TRAINING_ROWS: Final = table_schema(
    "training_rows",
    [
        ("query_id", pa.string()),
        ("source", pa.string()),
        ("documents", pa.list_(pa.string())),
        ("question", pa.string()),
        ("passages", pa.list_(pa.string())),
        ("exact_scores", pa.list_(pa.float32())),
        ("semantic_scores", pa.list_(pa.float32())),
        ("semantic_ranks", pa.list_(pa.int32())),
        ("type", pa.string()),
        ("pattern", pa.string()),
        ("evidence", pa.bool_()),
    ],
)
"""A row that an analyzer learns from: a question with its primary passages and the retrievers' scores.

A null label is unknown."""

RANKING_ROWS: Final = table_schema(
    "ranking_rows",
    [
        ("query_id", pa.string()),
        ("source", pa.string()),
        ("documents", pa.list_(pa.string())),
        ("question", pa.string()),
        ("passages", pa.list_(pa.string())),
        ("relevance", pa.list_(pa.float32())),
        ("answerable", pa.list_(pa.int32())),
        ("starts", pa.list_(pa.int32())),
        ("ends", pa.list_(pa.int32())),
    ],
)
"""A row that a cross-encoder learns from: a question with passages.

Each passage has the share of the evidence in it, a label that says if it contains the answer (1, 0, or -100 if
unknown), and the range of the answer (-1 if unknown or absent)."""

KEEP_ROWS: Final = table_schema(
    "keep_rows",
    [
        ("source", pa.string()),
        ("documents", pa.list_(pa.string())),
        ("text", pa.string()),
        ("labels", pa.list_(pa.int32())),
    ],
)
"""A row that a token classifier learns from: a passage with a label per word, 1 if a question names it, 2 if an answer
does, else 0."""

_SHOWN: Final = pa.struct([("text", pa.large_string()), ("start_char", pa.int64()), ("end_char", pa.int64())])

READING_ROWS: Final = table_schema(
    "reading_rows",
    [
        ("query_id", pa.string()),
        ("source", pa.string()),
        ("documents", pa.list_(pa.string())),
        ("role", pa.string()),
        ("type", pa.string()),
        ("question", pa.string()),
        ("system", pa.large_string()),
        ("user", pa.large_string()),
        ("reply", pa.string()),
        ("answers", pa.list_(pa.string())),
        ("answerable", pa.bool_()),
        ("calculator", pa.bool_()),
        ("passages", pa.list_(pa.struct([*SPAN, ("text", pa.large_string()), ("shown", pa.list_(_SHOWN))]))),
        ("evidence", pa.list_(SPAN)),
    ],
)
"""A row that a reader adapter learns from: a prompt (``system``, ``user``) and the ``reply`` to it."""
