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
"""A question that an analyzer learns from, with its primary passages and the retrievers' scores.

Null labels are unknown.
"""

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
"""A question that a cross-encoder learns from, with passages.

Each passage has the share of the evidence that it holds, a label for holding the answer (1, 0, or -100 if unknown), and
the answer's characters (-1 if unknown or absent).
"""

KEEP_ROWS: Final = table_schema(
    "keep_rows",
    [
        ("source", pa.string()),
        ("documents", pa.list_(pa.string())),
        ("text", pa.string()),
        ("labels", pa.list_(pa.int32())),
    ],
)
"""A passage that a token classifier learns from, with a label per word: 0, 1 named by a question, 2 by an answer."""

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
        ("passages", pa.list_(pa.struct([*SPAN, ("text", pa.large_string())]))),
        ("evidence", pa.list_(SPAN)),
    ],
)
"""A prompt that a reader learns from (``system``, ``user``) and the ``reply`` that it should get."""
