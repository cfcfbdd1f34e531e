"""The adapter of the ``reports`` set: four shapes in, gold questions out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.lab.datasets.gold import (
    derivation_operands,
    program_operands,
    read_operands,
)
from okralong.lab.datasets.reports import read_reports, read_reports_set
from okralong.pipelines.core.types import InputError
from tests.evaluation.data import FINQA, ROWS, write_data


def test_each_shape_becomes_a_question_with_answers_type_and_parts(tmp_path: Path) -> None:
    golds = read_reports(write_data(tmp_path))
    seen = [(g.question.query_id, g.question.type, g.question.answers, g.parts) for g in golds]
    assert seen == [
        ("tat-dqa-001", "extractive", ("$ 1,544", "$ 1,544 thousand"), (("$ 1,544",),)),
        ("tat-dqa-002", "extractive", ("11%; 12%",), (("11",), ("12",))),
        ("tat-dqa-003", "arithmetic", ("-303", "-303 thousand"), (("1,241",), ("1,544",))),
        ("tat-dqa-004", "arithmetic", ("6",), ()),
        ("finqa-001", "arithmetic", ("57%", "0.57484"), (("53",), ("92",))),
        ("finqa-002", "arithmetic", ("yes",), ()),
        ("qasper-001", "extractive", ("Europarl",), (("Europarl",),)),
        ("qasper-002", "abstractive", ("word " * 20,), ()),
        ("docugami-sec-10q-001", "multi-source", golds[-1].question.answers, ()),
    ]
    assert golds[-1].question.answers[0].startswith("Alder\u2019s sales fell")
    assert golds[-1].question.answers[0].endswith("say.")
    assert [g.question.doc_ids for g in golds][-1] == ("*ALDER*",)
    assert (golds[1].dataset, golds[1].source_type, golds[1].cluster) == ("tat-dqa", "multi-span", "alder_2019")


def test_without_the_operand_files_calculations_have_no_parts(tmp_path: Path) -> None:
    write_data(tmp_path)
    for folder in ("tatqa", "finqa"):
        for file in (tmp_path / folder).iterdir():
            file.unlink()
    golds = read_reports(tmp_path)
    assert [gold.parts for gold in golds if gold.question.type == "arithmetic"] == [(), (), (), ()]
    assert read_operands(tmp_path).sources == []


def test_an_answer_in_other_words_than_its_document_has_no_parts(tmp_path: Path) -> None:
    write_data(tmp_path)
    docs = tmp_path / "reports" / "docs"
    (docs / "alder_2019.txt").write_text("Sales of 1,544 and 1,241; cheese 12 of all.")
    (docs / "1701.00001.txt").write_text("The data are the EUROPARL corpus.")
    found = {gold.question.query_id: len(gold.parts) for gold in read_reports(tmp_path)}
    assert [found[f"tat-dqa-00{n}"] for n in (1, 2, 3)] == [1, 0, 2]  # 12 stands there and 11 does not
    assert found["qasper-001"] == 1
    assert found["finqa-001"] == 2  # its document is not there, so nothing can be said against it


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"dataset": "squad", "question": "?"}, "none of the shapes .*KeyError: 'squad'"),
        ({**ROWS[0], "answer": "no list ["}, "none of the shapes .*SyntaxError"),
        ({**ROWS[0], "type": "essay"}, "of the kind 'essay', which configs/question_types.yaml does not map"),
    ],
)
def test_a_row_of_no_known_shape_is_named(tmp_path: Path, row: dict[str, str], problem: str) -> None:
    write_data(tmp_path, [ROWS[0], row])
    with pytest.raises(InputError, match=f"questions.jsonl, line 2.*{problem}"):
        read_reports(tmp_path)


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_reports(tmp_path)
    write_data(tmp_path)
    (tmp_path / "finqa" / "dev_200.json").write_text(json.dumps([{"qa": {**FINQA[0]["qa"], "program": None}}]))
    with pytest.raises(InputError, match="published format"):
        read_reports(tmp_path)


@pytest.mark.parametrize(
    ("derivation", "operands"),
    [
        ("(242 + 545) / 2", ("242", "545")),
        ("(5.99+4.79+2.66+1.88)/4", ("5.99", "4.79", "2.66", "1.88")),
        ("22,149+25,858", ("22,149", "25,858")),
        ("(255,817-245,817)/245,817 * 100", ("255,817", "245,817")),
        ("Fourth quarter", ()),
        ("7 / 20", ("7", "20")),
    ],
)
def test_operands_of_derivations(derivation: str, operands: tuple[str, ...]) -> None:
    assert derivation_operands(derivation) == operands


def test_operands_of_programs() -> None:
    assert program_operands("subtract(1200, 90), divide(#0, const_100), add(57%, -3.5)") == (
        "1200",
        "90",
        "57%",
        "-3.5",
    )
    assert program_operands("table_average(net sales, none)") == ()


def test_as_a_data_set_the_documents_are_texts_and_scopes_are_resolved(tmp_path: Path) -> None:
    docs = write_data(tmp_path) / "reports" / "docs"
    for name in ("alder_2019", "BIRCH_2012", "1701.00001", "2022_ALDER", "2023_ALDER"):
        (docs / f"{name}.txt").write_text(f"Text of {name}: 1,544, 1,241, 11, 12, 53, 92, Europarl.")
    data_set = read_reports_set(tmp_path / "reports" / "questions.jsonl", "all")
    assert (data_set.name, data_set.part, len(data_set.texts), len(data_set.items)) == ("reports", "all", 5, 9)
    last = data_set.items[-1]
    assert last.documents == ("2022_ALDER", "2023_ALDER")
    assert [data_set.texts[text_id].document for text_id in last.text_ids] == list(last.documents)
    assert last.gold.question.doc_ids == ()
    assert last.evidence == ()
    (docs / "BIRCH_2012.txt").unlink()
    with pytest.raises(InputError, match="finqa-001: the field 'doc' is 'BIRCH_2012'"):
        read_reports_set(tmp_path / "reports" / "questions.jsonl", "all")
