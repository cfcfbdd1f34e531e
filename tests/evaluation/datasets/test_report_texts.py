"""T2-RAGBench, DocFinQA and LEDGER, on small files of our own in their published forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.lab.datasets.report_texts import read_docfinqa, read_ledger, read_t2_ragbench
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file, shown


def t2_row(identity: str, context: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "context_id": context,
        "split": "test",
        "question": f"What was the rent of Alder in 2019, by {identity}?",
        "program_answer": "12.0",
        "original_answer": "12",
        "context": f"Of {context}.\n\n| rent | 12.0 |",
        "file_name": f"{context}.pdf",
        "company_name": "Alder",
        "company_symbol": "ALD",
        "report_year": "2019",
        **changes,
    }


def test_each_question_of_t2_ragbench_is_asked_of_all_contexts(tmp_path: Path) -> None:
    rows = [t2_row("q1", "c1"), t2_row("q2", "c1"), t2_row("q3", "c2", company_symbol=None), t2_row("q4", "c3")]
    file = jsonl_file(tmp_path / "metadata.jsonl", [*rows, t2_row("q5", "c3", question=" ", program_answer=0.5)])
    data = read_t2_ragbench(file, "FinQA_test")
    assert [item.documents for item in data.items] == [("ALD_2019",), ("ALD_2019",), ("c2",), ("ALD_2019",)]
    assert {item.text_ids for item in data.items} == {tuple(data.texts)}
    assert len(data.texts) == 3
    first = data.items[0].gold
    assert (first.question.query_id, first.question.answers, first.parts) == ("t2_ragbench-q1", ("12.0",), (("12.0",),))
    assert shown(data, data.items[2]) == ["Of c2.\n\n| rent | 12.0 |"]
    assert "1 of 5 rows are left out" in data.notes[0]
    with pytest.raises(InputError, match="row 1: the field 'program_answer' is None and not a number or a text"):
        read_t2_ragbench(jsonl_file(file, [t2_row("q1", "c1", program_answer=None)]), "FinQA_test")
    with pytest.raises(InputError, match="holds a question label without a type"):
        read_t2_ragbench(jsonl_file(file, [t2_row("q1", "c1")]), "Other_test")


def test_docfinqa_is_asked_of_whole_filings(tmp_path: Path) -> None:
    filing, row = "Alder's filing.\n\nThe rent was 12.", {"Program": "rent = 12\nanswer = rent"}
    rows = [
        {**row, "Context": filing, "Question": "What was the rent?", "Answer": "12"},
        {**row, "Context": filing, "Question": "How did it change?", "Answer": "-3.5%"},
        {**row, "Context": "Birch's filing.", "Question": "What was the rent?", "Answer": 7.0},
    ]
    data = read_docfinqa(json_file(tmp_path / "test.json", rows), "test")
    assert [item.gold.question.answers for item in data.items] == [("12",), ("-3.5%",), ("7",)]
    assert [item.gold.question.query_id for item in data.items] == [
        "docfinqa-test-1",
        "docfinqa-test-2",
        "docfinqa-test-3",
    ]
    assert data.items[0].text_ids == data.items[1].text_ids != data.items[2].text_ids
    assert [item.gold.parts for item in data.items] == [(("12",),), (), ()]
    with pytest.raises(InputError, match="row 1: the field 'Context' is missing"):
        read_docfinqa(json_file(tmp_path / "test.json", [row]), "test")


SPLIT = "<--- Page Split --->"


def ledger_file(file: Path, column: str, qrels: list[dict[str, Any]], **changes: Any) -> Path:
    row = {
        "query_id": "ALD_rent_2019",
        "query_text": "What was the rent of Alder in 2019?",
        "ticker": "ALD",
        "exchange": "NYSE",
        "year": 2019,
        "kpi": "rent",
        "value": 2104600000.0,
        "qrels": qrels,
        column: SPLIT.join(["Cover\n\n", "\n\n", "\n<table>rent 2,104.6</table>\n", "\n"]),
        **changes,
    }
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([row, {**row, "query_id": "ALD_rent_2018", "value": 0.25, "qrels": []}]), file)
    return file


QRELS = [{"doc_id": "NYSE_ALD_2019/page_0000", "relevance": 1}, {"doc_id": "NYSE_ALD_2019/page_0002", "relevance": 2}]


@pytest.mark.parametrize("column", ["mmd_text", "report_full_text"])
def test_ledger_is_asked_of_reports_with_pages(tmp_path: Path, column: str) -> None:
    ledger_file(tmp_path / "eval" / "test.parquet", column, QRELS)
    data = read_ledger(tmp_path, "eval")
    first, second = data.items
    assert (first.documents, second.documents) == (("NYSE_ALD_2019",), ("ALD_2019",))
    assert [item.gold.question.answers for item in data.items] == [("2104600000",), ("0.25",)]
    text = data.texts[first.text_ids[0]]
    assert [section.name for section in text.sections] == ["1", "3"]
    ((page,),) = first.pools
    assert text.text[page.start_char : page.end_char] == "<table>rent 2,104.6</table>"
    assert second.pools == ()


def test_mistakes_in_ledger_are_named_by_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no Parquet file"):
        read_ledger(tmp_path, "eval")
    file = ledger_file(tmp_path / "a.parquet", "mmd_text", [{"doc_id": "NYSE_ALD_2019", "relevance": 2}])
    with pytest.raises(InputError, match="row 1: the field 'qrels' holds 'NYSE_ALD_2019' and not a report and a page"):
        read_ledger(file, "eval")
