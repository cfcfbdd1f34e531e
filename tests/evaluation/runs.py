"""A tiny archive and a tiny run over it, written straight to their tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from okralong.lab.datasets.gold import Gold
from okralong.pipelines.core.schemas import ANSWERS, LEDGER
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from tests.archives.written import write_version

TEXTS = {"alder": "Sales were $ 1,544 in 2019. The chair is Ida Moss.", "birch": "Costs were 1,241 and 303."}
GOLDS = [
    Gold(Question("q1", "Sales?", ("alder",), ("1,544",), type="extractive"), "tat-dqa", "span", (("1,544",),)),
    Gold(Question("q2", "Chair?", ("alder",), ("Ida Moss",), type="extractive"), "qasper", "", (("Ida Moss",),)),
    Gold(
        Question("q3", "Change?", ("birch",), ("938",), type="arithmetic"),
        "finqa",
        "arithmetic",
        (("1,241",), ("303",)),
    ),
    Gold(Question("q4", "Good?", ("birch",), ("yes",), type="arithmetic"), "finqa", "arithmetic"),
]


def write_archive(location: Path) -> Path:
    """Documents and a manifest; no chunks."""
    rows = [{"doc_id": doc_id, "text": text, "n_tokens": 1, "tables": []} for doc_id, text in TEXTS.items()]
    return write_version(location, rows, [512], {"model": "m"})


def write_run(location: Path, strategy: str = "okralong") -> Path:
    """Four answers: right, half right, right number, and failed; q1 took three calls, of which one ended badly."""
    shared = {
        "strategy": strategy,
        "context_tokens": 10,
        "finished_at": datetime(2026, 1, 1, tzinfo=UTC),
        "doc_ids": [],
    }
    plan, analysis = json.dumps({"workflow": "linear"}), json.dumps({"type": "extractive"})
    answers: list[dict[str, Any]] = [
        {
            "query_id": "q1",
            "question": "Sales?",
            "status": "answered",
            "answer": "1544",
            "cited": True,
            "context": [_span("alder", 0, 27)],
            "plan": plan,
            "analysis": analysis,
            "seconds": [("retrieve", 1.0), ("total", 2.0)],
        },
        {
            "query_id": "q2",
            "question": "Chair?",
            "status": "answered",
            "answer": "Moss",
            "context": [_span("alder", 0, 27)],
            "plan": plan,
            "analysis": analysis,
            "seconds": [("retrieve", 3.0), ("total", 4.0)],
        },
        {
            "query_id": "q3",
            "question": "Change?",
            "status": "answered",
            "answer": "about 937.5",
            "context": [_span("birch", 0, 16)],
            "context_tokens": 30,
            "seconds": [("total", 9.0)],
        },
        {"query_id": "q4", "question": "Good?", "status": "failed", "answer": "yes", "context_tokens": None},
    ]
    ledger = [
        _attempt("q1", 1, "failed", 50, 50),
        _attempt("q1", 2, "ok", 100, 10),
        _attempt("q1", 3, "ok", 200, 20),
        _attempt("q2", 1, "ok", 60, 5),
        _attempt("q3", 1, "ok", 40, 5),
    ]
    run = Folder.of(location)
    run.at("answers").write_table(
        "part-000000001.parquet", pa.Table.from_pylist([{**shared, **row} for row in answers], schema=ANSWERS)
    )
    run.at("ledger").write_table("part-000000001.parquet", pa.Table.from_pylist(ledger, schema=LEDGER))
    config = {"strategy": strategy, "analyzer": {"kind": "rules"}, "llm": {"model": "/models/small", "window": 8192}}
    run.write_bytes("run.json", json.dumps({"archive": "/mnt/someone/archive", "config": config}).encode())
    return location


def _span(doc_id: str, start: int, end: int) -> dict[str, Any]:
    return {"doc_id": doc_id, "start_char": start, "end_char": end}


def _attempt(query_id: str, attempt: int, status: str, prompt: int, completion: int) -> dict[str, Any]:
    return {
        "call_id": f"{query_id}-call",
        "query_id": query_id,
        "attempt": attempt,
        "status": status,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "latency_s": 0.5,
        "queue_s": 0.25,
    }
