"""A made-up archive and a run over it, written straight to their tables; hostile where wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from okralong.pipelines.answering.analyzers.analysis import TYPES, make_analysis
from okralong.pipelines.core.codec import encode
from okralong.pipelines.core.schemas import ANSWERS, JOURNAL, LEDGER
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Plan, Workflow
from tests.archives.written import write_version

FINGERPRINT = "made"
REPORT = (
    "Letter for the year.\n\nSales of the Lantern works rose to 1,544 thousand crowns in 2019, and nobody was "
    "surprised. The chair of the board is Ida Moss, who came in 1998.\n\n"
    + "The harbour was quiet and the ledgers were kept. "
    * 40
)
WORKFLOWS: dict[str, Workflow] = {"extractive": "linear", "abstractive": "linear", "arithmetic": "extend"}
WORKFLOWS |= {"multi-source": "split", "multi-bridge": "step"}

HOSTILE = (
    "</script><script>window.owned=1;document.title='owned'</script><img src=x onerror=\"window.owned=2\">"
    "<svg onload='window.owned=3'></svg><a href=\"javascript:window.owned=4\">javascript:window.owned=4</a>"
    "<style>*{display:none}</style><iframe src='https://example.org/'></iframe><!-- ]]> {{script}} &lt;b&gt; "
    "\u202etxet\u202c \u2066isolated\u2069 \x1b[31m \x00 e" + "\u0301" * 300 + " \u0627\u0644\u0633\u0644\u0627\u0645 "
)
"""What a document would say that wanted to run, to load, to turn the reading direction or to end the data."""


def write_archive(location: Path, texts: Mapping[str, str]) -> Path:
    """Documents and a manifest; no chunks."""
    rows = [{"doc_id": doc_id, "text": text, "n_tokens": 1, "tables": []} for doc_id, text in texts.items()]
    return write_version(location, rows, [150], {"model": "m"}, fingerprint=FINGERPRINT)


def write_run(location: Path, archive: Path, questions: int, strategy: str = "okralong", words: str = "") -> Path:
    """A complete run: each question quotes the sales, every third one is wrong, every seventh failed.

    ``words`` are put wherever a document, a model or a user can put words.
    """
    run = Folder.of(location)
    answers, journal, ledger = [], [], []
    for number in range(questions):
        answers.append(_answer(number, strategy, words))
        journal += _journal(number, len(journal), words)
        ledger.append(_call(number, words))
    run.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(answers, schema=ANSWERS))
    run.at("journal").write_table("part-000000001.parquet", pa.Table.from_pylist(journal, schema=JOURNAL))
    run.at("ledger").write_table("part-000000001.parquet", pa.Table.from_pylist(ledger, schema=LEDGER))
    llm = {"model": f"small{words}", "seed": 7, "base_url": "embedded"}
    config = {"strategy": strategy + words, "policy": "policy/default.yaml", "llm": llm, "analyzer": {"kind": "rules"}}
    begun = {"archive": str(archive), "archive_fingerprint": FINGERPRINT, "config": config}
    run.write_bytes("run.json", json.dumps(begun).encode())
    run.write_manifest({"config": config, "generator": {"model": f"small{words}"}, "versions": {"okralong": "0.1.0"}})
    return location


MATRIX: dict[str, list[tuple[str, str, float | None]]] = {
    "works-0": [("sales", "1544000", 0.95), ("chair", "Ida Moss", 0.6)],
    "works-1": [("sales", "998000", 0.3), ("chair", "Tobias Venn", 0.9)],
    "works-2": [("sales", "", None), ("chair", "Ida Moss", 0.85)],
}
"""The cells of ``write_matrix`` by document: column, value ("" for one that does not fit its type), confidence."""


def write_matrix(location: Path, archive: Path) -> Path:
    """A complete run of two columns over three documents, its cells those of ``MATRIX``; a check of one cell fails."""
    write_run(location, archive, 0)
    begun = json.loads((location / "run.json").read_text(encoding="utf-8"))
    (location / "run.json").write_text(json.dumps(begun | {"checks": ["sales >= 1000000"]}), encoding="utf-8")
    rows = []
    for doc_id, cells in MATRIX.items():
        for column, value, confidence in cells:
            row = _answer(int(doc_id[-1]), "okralong", "")
            row |= {"query_id": f"{column}@{doc_id}", "question": f"What of {column}?", "asked_id": column}
            row |= {"doc_ids": [doc_id], "answer": value, "confidence": confidence, "error": ""}
            row["status"] = "answered" if value else "invalid_output"
            if column == "sales":
                row["answer_type"] = "money"
                if value:
                    row |= {"value": value, "number": float(value), "currency": "SEK", "period": "FY2019"}
            if not value:
                row |= {"citations": [], "cited": False, "error": "The reply does not fit the answer_type money."}
            rows.append(row)
    answers = Folder.of(location).at("answers")
    answers.write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    return location


def write_golds(file: Path, questions: int, words: str = "") -> Path:
    """The questions of ``write_run`` with gold answers, evidence and types."""
    start = REPORT.index("1,544")
    rows = [
        {
            "query_id": query_id(number),
            "question": question(number, words),
            "answers": ["1,544 thousand crowns" + words],
            "evidence": [f"{document(number)}:{start}:{start + 5}"],
            "type": TYPES[number % 5],
        }
        for number in range(questions)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def texts(words: str = "") -> dict[str, str]:
    """The documents that the questions are about; ``words`` follow the sentence that is cited."""
    head, tail = REPORT.split("\n\nSales")
    return {
        document(number): f"{head}\n\nSales{tail}".replace("surprised.", f"surprised. {words}") for number in range(4)
    }


def query_id(number: int) -> str:
    return f"q{number:05d}"


def question(number: int, words: str = "") -> str:
    return f"What were the sales of works {number} in 2019? {words}"


def document(number: int) -> str:
    return f"works-{number % 4}"


def _kind(number: int) -> tuple[str, Workflow]:
    said = TYPES[(number + (number % 11 == 0)) % 5]  # the analyzer errs on every eleventh question
    return said, WORKFLOWS[said]


def _answer(number: int, strategy: str, words: str) -> dict[str, Any]:
    said, workflow = _kind(number)
    start = REPORT.index("Sales of")
    end = REPORT.index(", and nobody")
    failed, wrong = number % 7 == 6, number % 3 == 2
    analysis = make_analysis(
        {name: 0.8 if name == said else 0.05 for name in TYPES},
        {"exact": 0.5, "semantic": 0.25, "same": 0.25},
        {"yes": 0.75, "no": 0.25},
        f"rules{words}",
    )
    plan = Plan(workflow, 150, 5, 20, 3.0, 2.0, 0.1, 0, True, 4, 5, 4, False, (f"question is {said}{words}",))
    tokens = 400 + 37 * (number % 50)
    spans = [{"doc_id": document(number), "start_char": start, "end_char": end}]
    return {
        "query_id": query_id(number),
        "question": question(number, words),
        "doc_ids": [document(number)],
        "status": "failed" if failed else "answered",
        "answer": "" if failed else ("no idea" if wrong else "1,544 thousand crowns") + words,
        "cited": not failed,
        "citations": [] if failed else spans,
        "analysis": encode(analysis),
        "plan": encode(plan),
        "context": [{"doc_id": document(number), "start_char": 0, "end_char": 400}],
        "context_tokens": 90,
        "strategy": strategy,
        "replied_by": f"small-2026{words}",
        "calls": 1,
        "prompt_tokens": tokens,
        "cached_tokens": 0,
        "completion_tokens": 20,
        "cost_usd": tokens * 2.5e-6 + 2e-4,
        "weighted_tokens": tokens + 80,
        "seconds": [("analyze", 0.1), ("generate", 1.0 + number % 4), ("retrieve", 0.3), ("total", 1.5 + number % 4)],
        "error": f"the endpoint said 500 {words}" if failed else "",
        "finished_at": datetime(2026, 1, 1, tzinfo=UTC),
    }


def _journal(number: int, seq: int, words: str) -> list[dict[str, Any]]:
    hit = ["c1", document(number) + words, 150, 0, 0, 400, 90, None, 3.5]
    wanted = {"query": question(number, words), "granularity": 150, "k": 20}
    passage = f'<passage id="1" doc="{document(number)}">\n{REPORT[:400]}{words}\n</passage>'
    messages = [
        {"role": "system", "content": "Answer."},
        {"role": f"user{words}", "content": f"{passage}\n\nQuestion: ?"},
    ]
    call = {"prompt_tokens": 400, "completion_tokens": 20, "cost_usd": 0.001, "latency_s": 1.0}
    bodies = [
        ("retrieve", "retrieval", {"wanted": wanted, "exact": [hit], "semantic": [hit]}),
        ("generate", "request", {"request": {"model": f"small{words}", "messages": messages}}),
        (f"generate{words}", "reply", {"reply": {"text": f"Answer: 1,544{words}"}, "refusal": words, "call": call}),
    ]
    return [
        {
            "seq": seq + at,
            "query_id": query_id(number),
            "path": path,
            "sample": 0,
            "kind": kind,
            "request_hash": "",
            "body": json.dumps(body),
            "written_at": datetime(2026, 1, 1, tzinfo=UTC),
        }
        for at, (path, kind, body) in enumerate(bodies, start=1)
    ]


def _call(number: int, words: str) -> dict[str, Any]:
    return {
        "call_id": f"call-{number}",
        "query_id": query_id(number),
        "path": "generate",
        "role": f"generate{words}",
        "attempt": 1,
        "status": "ok",
        "prompt_tokens": 400,
        "cached_tokens": 0,
        "completion_tokens": 20,
        "cost_usd": 0.001,
        "latency_s": 1.0,
        "queue_s": 0.5,
        "mode": "realtime",
    }
