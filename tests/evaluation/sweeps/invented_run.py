"""A finished run over two documents, written straight to its tables, with its gold questions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from okralong.lab.sweeps.config import CellName
from okralong.pipelines.core.schemas import ANSWERS, LEDGER
from okralong.pipelines.core.storage import Folder

TEXTS = {"alder": "Sales were $ 1,544 in 2019. The chair is Ida Moss.", "birch": "Costs were 1,241 and 303."}
NAMED = CellName("std_rag__town__default__7", "std_rag", "town", "default", 7)

QUESTIONS: list[dict[str, Any]] = [
    {
        "query_id": "sales",
        "question": "Sales?",
        "doc_ids": ["alder"],
        "answers": ["1,544"],
        "evidence": ["alder:0:27"],
        "type": "extractive",
        "dataset": "tatqa",
        "parts": [["1,544"]],
        "documents": ["ALD_2019"],
    },
    {
        "query_id": "chair",
        "question": "Chair?",
        "doc_ids": ["alder"],
        "answers": ["Ida Moss"],
        "evidence": ["alder:28:50"],
        "type": "extractive",
        "dataset": "hotpotqa",
        "parts": [["Ida Moss"]],
        "documents": ["ALD_2019", "Moss"],
    },
    {
        "query_id": "costs",
        "question": "Costs?",
        "doc_ids": ["birch"],
        "answers": ["938"],
        "type": "arithmetic",
        "dataset": "finqa",
        "parts": [["1,241"], ["303"]],
        "documents": ["BIR_2019"],
    },
    {"query_id": "late", "question": "Late?", "doc_ids": ["birch"], "answers": ["no"], "type": "arithmetic"},
]


def write_questions(folder: Path) -> Path:
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in QUESTIONS), encoding="utf-8")
    return file


def answer(query_id: str, status: str = "answered", **more: Any) -> dict[str, Any]:
    asked = next(row for row in QUESTIONS if row["query_id"] == query_id)
    shared = {"finished_at": datetime(2026, 1, 1, tzinfo=UTC), "doc_ids": asked["doc_ids"], "strategy": "std_rag"}
    return {"query_id": query_id, "question": asked["question"], "status": status, "answer": "", **shared, **more}


def attempt(query_id: str, number: int, status: str, cost: float, prompt: int = 100, reply: int = 10) -> dict[str, Any]:
    return {
        "call_id": f"{query_id}-{number}",
        "query_id": query_id,
        "attempt": 1,
        "status": status,
        "prompt_tokens": prompt,
        "cached_tokens": 0,
        "completion_tokens": reply,
        "input_usd_per_million": 2.5,
        "cached_usd_per_million": 1.25,
        "output_usd_per_million": 10.0,
        "cost_usd": cost,
        "mode": "realtime",
        "started_at": datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC),
        "latency_s": 1.5,
        "first_token_s": 0.5,
    }


def span(doc_id: str, start: int, end: int) -> dict[str, Any]:
    return {"doc_id": doc_id, "start_char": start, "end_char": end}


def write_run(location: Path, answers: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> Folder:
    run = Folder.of(location)
    run.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(answers, schema=ANSWERS))
    run.at("ledger").write_table("part-000000001.parquet", pa.Table.from_pylist(ledger, schema=LEDGER))
    return run


def usual_run(location: Path, sales: str = "1544") -> Folder:
    """Sales right and cited, the chair half right, the costs never reached; "late" is not finished."""
    seconds = [("retrieve", 1.0), ("select", 0.5), ("analyze", 0.25), ("generate", 2.0), ("step", 1.0), ("total", 4.0)]
    answers = [
        answer(
            "sales",
            answer=sales,
            cited=True,
            citations=[span("alder", 0, 10), span("alder", 30, 40)],
            context=[span("alder", 0, 27)],
            prompt_tokens=200,
            completion_tokens=20,
            weighted_tokens=280,
            seconds=seconds,
        ),
        answer(
            "chair",
            answer="Moss",
            context=[span("alder", 0, 39)],
            prompt_tokens=100,
            completion_tokens=10,
            seconds=seconds,
        ),
        answer("costs", "over_budget"),
    ]
    ledger = [
        attempt("sales", 1, "ok", 0.00035),
        attempt("sales", 2, "cached", 0.0),
        attempt("sales", 3, "failed", 0.0),
        attempt("chair", 1, "ok", 0.00035),
    ]
    return write_run(location, answers, ledger)
