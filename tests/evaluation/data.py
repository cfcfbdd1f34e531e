"""A made-up data folder with one question of each shape, and the operands' files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SALES = "What is the change in sales of Alder?"
MOJIBAKE = "Alder\u00e2\u20ac\u2122s sales fell in each quarter that is reported here, as the two filings say."
ROWS: list[dict[str, Any]] = [
    {
        "dataset": "tat-dqa",
        "doc": "alder_2019",
        "question": "What were the sales?",
        "answer": "['$ 1,544']",
        "scale": "thousand",
        "type": "span",
    },
    {
        "dataset": "tat-dqa",
        "doc": "alder_2019",
        "question": "Sales in both years?",
        "answer": "['11', '12']",
        "scale": "percent",
        "type": "multi-span",
    },
    {
        "dataset": "tat-dqa",
        "doc": "alder_2019",
        "question": SALES,
        "answer": "['-303']",
        "scale": "thousand",
        "type": "arithmetic",
    },
    {
        "dataset": "tat-dqa",
        "doc": "alder_2019",
        "question": "How many?",
        "answer": "['6']",
        "scale": "",
        "type": "count",
    },
    {
        "dataset": "finqa",
        "doc": "BIRCH_2012",
        "question": "what is the growth ?",
        "answer": "57%",
        "exe_answer": "0.57484",
        "type": "arithmetic",
    },
    {
        "dataset": "finqa",
        "doc": "BIRCH_2012",
        "question": "did it grow?",
        "answer": "",
        "exe_answer": "yes",
        "type": "arithmetic",
    },
    {"dataset": "qasper", "doc": "1701.00001", "question": "Which data?", "answers": ["Europarl", "Europarl"]},
    {"dataset": "qasper", "doc": "1701.00001", "question": "How?", "answers": ["word " * 20]},
    {
        "dataset": "docugami-sec-10q",
        "doc": "*ALDER*",
        "question": "How did sales change?",
        "answer": f"{MOJIBAKE}\n\nSOURCE(S): Q1 ALDER.pdf, Q2 ALDER.pdf",
        "type": "Multi-Doc RAG",
    },
]
TAT_QA = [
    {
        "questions": [
            {"question": SALES, "answer": 77, "derivation": "80-3", "answer_type": "arithmetic"},
            {"question": SALES.upper(), "answer": -303, "derivation": "(1,241 - 1,544)", "answer_type": "arithmetic"},
        ]
    }
]
FINQA = [
    {"qa": {"question": "What is  the growth ?", "answer": "57%", "exe_ans": 0.57484, "program": "divide(53, 92)"}}
]


def write_data(folder: Path, rows: list[dict[str, Any]] | None = None) -> Path:
    """The folder with reports/, tatqa/ and finqa/ in it."""
    for name, content in (("tatqa/tatqa_dataset_dev.json", TAT_QA), ("finqa/dev_200.json", FINQA)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    (folder / "reports" / "docs").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) for row in (ROWS if rows is None else rows)]
    (folder / "reports" / "questions.jsonl").write_text("\n".join(lines) + "\n")
    return folder
