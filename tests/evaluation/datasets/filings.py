"""Made-up filings in the public formats of the sets that ask about tables, and slices of what was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from okralong.lab.datasets.base import DataSet, Item

Json = dict[str, Any]

TABLE = [
    ["", "Years ended June 30,", ""],
    ["", "2019", "2018"],
    ["Assets", "", ""],
    ["Alder nurseries", "$  1,452.4", "1,146.2"],
    ["Birch | nurseries", "44.1", "(56.7)"],
    ["Rent paid", "44.1", "31%"],
    ["Total", "1,496.5", "1,202.9"],
]
PARAGRAPHS = [
    {
        "uid": "p2",
        "order": 2,
        "text": "Rent rose by 7.5 per cent. It was paid in Oslo. Oslo is dear, and rent was due.",
    },
    {"uid": "p1", "order": 1, "text": "The table shows our nurseries. They stand on loam."},
]


def tat_question(**changes: Any) -> Json:
    """A question as TAT-QA writes it."""
    question = {
        "uid": "q1",
        "order": 1,
        "question": "What was the total in 2019?",
        "answer": ["1,496.5"],
        "derivation": "",
        "answer_type": "span",
        "answer_from": "table",
        "rel_paragraphs": [],
        "req_comparison": False,
        "scale": "million",
    }
    return {**question, **changes}


def tat_file(folder: Path, *questions: Json, table: list[list[str]] | None = None) -> Path:
    """A TAT-QA file with one context."""
    context = {"table": {"uid": "t1", "table": table or TABLE}, "paragraphs": PARAGRAPHS, "questions": list(questions)}
    return write(folder / "tatqa_dataset_dev.json", [context])


def page() -> Json:
    """A page as FinQA and UDA write it."""
    return {
        "pre_text": ["alder grew trees in 2008 .", ".", "the rent was $ 12.5 million ."],
        "table_ori": [["", "2008"], ["Left out", ""], ["Sales", "$530"]],
        "table": [["in millions", "2008", "2007"], ["sales", "$ 530", "922"], ["rent", "-12 ( 12 )", "7"]],
        "post_text": ["loam is dear ."],
    }


def finqa_row(**changes: Any) -> Json:
    """An item as FinQA writes it; ``changes`` are to its ``qa``."""
    asked = {
        "question": "what share of sales is rent ?",
        "answer": "57%\\\\n",
        "exe_ans": 0.57484,
        "program": "divide(530, 922), add(#0, const_100)",
        "gold_inds": {"table_1": "the sales of 2008 is 530", "text_2": "the rent was $ 12.5 million ."},
    }
    return {**page(), "filename": "ALD/2008/page_17.pdf", "id": "ALD/2008/page_17.pdf-1", "qa": {**asked, **changes}}


def write(path: Path, content: Any) -> Path:
    """``content`` as a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def evidence_of(data_set: DataSet, item: Item) -> list[str]:
    """What the evidence ranges hold."""
    return [data_set.texts[each.text_id].text[each.start_char : each.end_char] for each in item.evidence]


def cells_of(data_set: DataSet, item: Item) -> list[tuple[str, str]]:
    """Header and row of each gold cell."""
    return [
        (data_set.texts[cell.text_id].text[slice(*cell.header)], data_set.texts[cell.text_id].text[slice(*cell.row)])
        for cell in item.cells
    ]
