"""A made-up sweep: three methods on two sets with two variants of one, as ``okralong evaluate`` leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from okralong.lab.sweeps.schemas import PAIRED, SCORES, SUMMARY
from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.core.storage import Folder
from tests.reporting import made_run

SETS = ("alpha", "beta")
SYSTEMS = {
    ("okralong", "default"): (0.8, 900),
    ("okralong", "no_tables"): (0.6, 800),
    ("std_rag", "default"): (0.5, 2_000),
    ("long_context", "default"): (0.7, 30_000),
}
"""By method and variant: the share of questions that are right, and tokens."""


def write_sweep(folder: Path, questions: int, words: str = "", summary: bool = True) -> Path:
    """Scores, summary, paired differences, runs of all cells but those of long_context, and the sets' questions."""
    archive = made_run.write_archive(folder / "archive", made_run.texts(words))
    scores = []
    for dataset in SETS:
        (folder / "sets" / dataset).mkdir(parents=True)
        made_run.write_golds(folder / "sets" / dataset / "questions.jsonl", questions, words)
        for (method, variant), (share, tokens) in SYSTEMS.items():
            cell = f"{method}-{variant}-{dataset}"
            if method != "long_context":
                made_run.write_run(folder / "cells" / cell, archive, questions, method, words)
            named = {"cell": cell, "method": method + words, "set": dataset, "variant": variant, "seed": 7}
            scores += [named | _score(number, share, tokens) for number in range(questions)]
    sweep = Folder.of(folder)
    sweep.at("scores").write_table("part-000000001.parquet", pa.Table.from_pylist(scores, schema=SCORES))
    if summary:
        rows = [_summary("okralong-default-alpha", "alpha", "", 0.8125), _summary("", "", "", 0.79)]
        sweep.write_table("summary.parquet", pa.Table.from_pylist(rows, schema=SUMMARY))
        paired = {"method": "okralong", "variant": "default", "set": "", "type": "", "metric": "f1"}
        paired |= {"against_method": "std_rag", "against_variant": "default", "difference": 0.3, "low": 0.1}
        paired |= {"high": 0.5, "p": 0.01, "p_holm": 0.02, "n": 40, "clusters": 8}
        sweep.write_table("paired.parquet", pa.Table.from_pylist([paired], schema=PAIRED))
    return folder


def _score(number: int, share: float, tokens: int) -> dict[str, Any]:
    right = float((number * 7) % 10 < 10 * share)
    return {
        "query_id": made_run.query_id(number),
        "cluster": made_run.document(number),
        "type": TYPES[number % 5],
        "status": "answered",
        "replied_by": f"small-{tokens}",
        "f1": right,
        "em": right if number % 2 else 0.0,
        "rouge_l": None,
        "evidence_recall": 0.9,
        "weighted_tokens": tokens + number,
        "billed_usd": tokens / 1e6,
        "alone_usd": tokens / 5e5,
        "seconds_analysis": 0.1,
        "seconds_retrieval": 0.4,
        "seconds_generation": tokens / 1e3,
        "seconds_total": 0.5 + tokens / 1e3,
    }


def _summary(cell: str, dataset: str, kind: str, value: float) -> dict[str, Any]:
    scope = {"cell": cell, "method": "okralong", "variant": "default", "set": dataset, "type": kind}
    return scope | {"seed": 7, "metric": "f1", "value": value, "low": 0.7, "high": 0.9, "n": 20, "clusters": 4}
