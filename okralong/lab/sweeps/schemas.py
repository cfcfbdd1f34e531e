"""The Arrow schemas of a sweep's scores and their summaries."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from okralong.pipelines.core.schemas import table_schema

SCORES: Final = table_schema(
    "scores",
    [
        ("cell", pa.string()),
        ("method", pa.string()),
        ("set", pa.string()),
        ("variant", pa.string()),
        ("seed", pa.int64()),
        ("query_id", pa.string()),
        ("cluster", pa.string()),
        ("type", pa.string()),
        ("status", pa.string()),
        ("f1", pa.float64()),
        ("em", pa.float64()),
        ("rouge_l", pa.float64()),
        ("numeric", pa.float64()),
        ("judge", pa.float64()),
        ("judge_relevance", pa.float64()),
        ("judge_correctness", pa.float64()),
        ("judge_similarity", pa.float64()),
        ("judge_faithfulness", pa.float64()),
        ("judge_seeds", pa.map_(pa.string(), pa.list_(pa.float64()))),
        ("answer_recall", pa.float64()),
        ("evidence_recall", pa.float64()),
        ("citation_precision", pa.float64()),
        ("value_mark", pa.float64()),
        ("page_mark", pa.float64()),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("weighted_tokens", pa.int64()),
        ("billed_usd", pa.float64()),
        ("alone_usd", pa.float64()),
        ("seconds_analysis", pa.float64()),
        ("seconds_retrieval", pa.float64()),
        ("seconds_generation", pa.float64()),
        ("seconds_total", pa.float64()),
        ("replied_by", pa.string()),
        ("seconds_first_token", pa.float64()),
        ("seconds_indexing", pa.float64()),
        ("tokens_per_second", pa.float64()),
    ],
)
"""A row of ``scores``: a question in a cell of a sweep.

A metric is null if it is undefined (see ``lab/sweeps/metrics.py`` and ``docs/evaluate.md``). The judge's columns are
means over its seeds; if there are several, ``judge_seeds`` has the value of each by column. Questions that are linked
by a chain of shared documents have the same ``cluster``; the bootstrap draws them together. ``replied_by`` is that of
the answers row."""

_SCOPE: Final[list[tuple[str, pa.DataType]]] = [
    ("method", pa.string()),
    ("variant", pa.string()),
    ("set", pa.string()),
    ("type", pa.string()),
]
_ESTIMATE: Final[list[tuple[str, pa.DataType]]] = [("low", pa.float64()), ("high", pa.float64())]

SUMMARY: Final = table_schema(
    "summary",
    [
        ("cell", pa.string()),
        *_SCOPE,
        ("seed", pa.int64()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        *_ESTIMATE,
        ("n", pa.int64()),
        ("clusters", pa.int64()),
    ],
)
"""A row of ``summary``: a metric of a cell with its 95 % interval.

An empty ``type`` means all types, an empty ``cell`` and ``set`` the mean over the sets, and a null ``seed`` the mean
over the seeds."""

PAIRED: Final = table_schema(
    "paired",
    [
        *_SCOPE,
        ("against_method", pa.string()),
        ("against_variant", pa.string()),
        ("metric", pa.string()),
        ("difference", pa.float64()),
        *_ESTIMATE,
        ("p", pa.float64()),
        ("p_holm", pa.float64()),
        ("n", pa.int64()),
        ("clusters", pa.int64()),
    ],
)
"""A row of ``paired``: a method minus another on the same questions. An empty ``set`` means the mean over the sets, an
empty ``type`` all types."""
