"""TAT-QA: the context as text, and the rows, cells and sentences that an answer was taken from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.pipe_tables import count_heads, is_figure
from okralong.lab.datasets.tatqa import read_tatqa
from okralong.pipelines.core.types import InputError
from okralong.pipelines.indexing.tables import find_tables
from tests.evaluation.datasets.filings import cells_of, evidence_of, tat_file, tat_question

HEADER = "|  | Years ended June 30, |  |\n|  | 2019 | 2018 |"
TOTAL = "| Total | 1,496.5 | 1,202.9 |"
BIRCH = "| Birch / nurseries | 44.1 | (56.7) |"
RENT = "| Rent paid | 44.1 | 31% |"


def test_a_context_is_one_text_with_the_table_before_the_paragraphs(tmp_path: Path) -> None:
    data_set = read_tatqa(tat_file(tmp_path, tat_question()), "dev")
    (text,) = data_set.texts.values()
    assert text.document == "tatqa-t1"
    assert text.text.startswith(f"{HEADER}\n| Assets |  |  |\n| Alder nurseries | $ 1,452.4 | 1,146.2 |\n")
    assert text.text.index(TOTAL) < text.text.index("The table shows") < text.text.index("Rent rose by")
    (table,) = find_tables(text.text, "t1")
    assert text.text[table.start_char : table.end_char].startswith(HEADER)
    assert text.text[table.start_char : table.end_char].endswith(TOTAL)
    (item,) = data_set.items
    assert (item.documents, item.text_ids) == (("tatqa-t1",), (text.text_id,))
    assert item.gold.question.query_id == "tatqa-q1"
    assert item.gold.question.answers == ("1,496.5", "1,496.5 million")


@pytest.mark.parametrize(
    ("changes", "rows", "cells"),
    [
        ({}, [TOTAL], 1),
        ({"question": "Change of Birch nurseries?", "answer": -12.6, "derivation": "44.1-56.7"}, [BIRCH], 2),
        ({"question": "What rent was paid?", "answer": ["44.1"]}, [RENT], 1),
        ({"question": "Which is it?", "answer": ["44.1", "31%"]}, [RENT], 2),
        ({"question": "Sum?", "answer": 2, "derivation": "(1,496.5 + 1,202.9 + 7.5) / 3 * 100"}, [TOTAL], 2),
        ({"question": "In which year more?", "answer": ["2019"], "derivation": "1,496.5 (2019) > 1,202.9"}, [TOTAL], 2),
        ({"question": "In which years?", "answer": ["2019", "2018"]}, ["|  | 2019 | 2018 |"], 0),
        (
            {"question": "In which year a high total?", "derivation": "look at row 7", "answer": ["2019"]},
            [TOTAL],
            1,
        ),
    ],
)
def test_answers_from_the_table_are_found_again(
    tmp_path: Path, changes: dict[str, Any], rows: list[str], cells: int
) -> None:
    kind = "arithmetic" if isinstance(changes.get("answer"), (int, float)) else "span"
    data_set = read_tatqa(tat_file(tmp_path, tat_question(answer_type=kind, **changes)), "dev")
    (item,) = data_set.items
    assert evidence_of(data_set, item) == rows
    assert cells_of(data_set, item) == [(HEADER, rows[0])] * cells


def test_a_count_has_the_counted_rows_or_the_cells_below_the_counted_years(tmp_path: Path) -> None:
    labels = tat_question(answer_type="count", answer="2", derivation="Rent paid##Total")
    years = tat_question(
        uid="q2", question="How many years was rent paid?", answer_type="count", answer="2", derivation="2019##2018"
    )
    data_set = read_tatqa(tat_file(tmp_path, labels, years), "dev")
    assert [evidence_of(data_set, item) for item in data_set.items] == [[RENT, TOTAL], [RENT]]
    assert [item.gold.parts for item in data_set.items] == [(("Rent paid",), ("Total",)), (("2019",), ("2018",))]
    assert {item.gold.question.type for item in data_set.items} == {"arithmetic"}


def test_answers_from_the_text_are_sentences_or_else_paragraphs(tmp_path: Path) -> None:
    data_set = read_tatqa(
        tat_file(
            tmp_path,
            tat_question(uid="a", answer_from="text", answer=["7.5"], rel_paragraphs=["2"], scale="percent"),
            tat_question(
                uid="b", question="Is Oslo dear?", answer_from="text", answer=["Oslo"], rel_paragraphs=["2"], scale=""
            ),
            tat_question(uid="c", answer_from="text", answer=["never said so"], rel_paragraphs=["1"], scale=""),
            tat_question(uid="d", answer_from="table-text", answer=["7.5", "44.1"], rel_paragraphs=["2"]),
            tat_question(uid="e", answer=["1,111"]),
        ),
        "dev",
    )
    found = [evidence_of(data_set, item) for item in data_set.items]
    assert found == [
        ["Rent rose by 7.5 per cent."],
        ["Oslo is dear, and rent was due."],
        ["The table shows our nurseries. They stand on loam."],
        [BIRCH, "Rent rose by 7.5 per cent."],
        [],
    ]
    assert [item.gold.parts for item in data_set.items][2:] == [(), (("7.5",), ("44.1",)), ()]
    assert data_set.items[0].gold.question.answers == ("7.5%",)


def test_heads_end_before_the_first_figures_and_section_titles() -> None:
    cells = ("$ 1,2", "2019", "2018/19", "June 30", "-12 ( 12 )", "$ 2.2 billion", "-")
    assert [is_figure(cell) for cell in cells] == [True, False, False, False, True, True, False]
    assert count_heads([["($ in millions)", ""], ["Year", "2019"], ["Cost", "5"]]) == 2
    assert count_heads([["Cost", "5"], ["Rent", "6"]]) == 0
    assert count_heads([["Name", "Town"], ["Alder", "Oslo"]]) == 1


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"answer_type": "essay"}, "row 1, question 2: the field 'answer_type' holds a question label .*'essay'"),
        ({"answer_from": "air"}, "row 1, question 2: the field 'answer_from' is 'air'"),
        ({"rel_paragraphs": ["9"]}, "row 1, question 2: the field 'rel_paragraphs' names the paragraph '9'"),
        ({"answer": [""]}, "row 1, question 2: the field 'answer' holds no answer"),
        ({"uid": "q1"}, "row 1, question 2: the field 'uid' is 'q1', the id of an earlier"),
        ({"derivation": None}, "row 1, question 2: the field 'derivation' is NoneType"),
    ],
)
def test_a_malformed_question_is_named_by_row_and_field(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    path = tat_file(tmp_path, tat_question(), tat_question(**{"uid": "q2", **changes}))
    with pytest.raises(InputError, match=f"tatqa_dataset_dev.json, {where}"):
        read_tatqa(path, "dev")


def test_a_malformed_table_is_named(tmp_path: Path) -> None:
    broken: Any = [["", "2019"], "Total 5"]
    with pytest.raises(InputError, match="row 1, table: the field 'table' holds str where a row"):
        read_tatqa(tat_file(tmp_path, tat_question(), table=broken), "dev")
