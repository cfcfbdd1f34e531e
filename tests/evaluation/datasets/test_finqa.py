"""FinQA: a page as text, with the sentences, rows and cells that the program takes its numbers from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.finqa import read_finqa
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.filings import cells_of, evidence_of, finqa_row, write

HEADER = "| in millions | 2008 | 2007 |"
SALES = "| sales | $ 530 | 922 |"


def test_a_page_is_one_text_and_gold_indices_are_ranges_of_it(tmp_path: Path) -> None:
    data_set = read_finqa(write(tmp_path / "dev.json", [finqa_row()]), "dev")
    (text,) = data_set.texts.values()
    assert text.document == "ALD_2008"
    assert text.text == (
        "alder grew trees in 2008 .\nthe rent was $ 12.5 million .\n\n"
        f"{HEADER}\n{SALES}\n| rent | -12 ( 12 ) | 7 |\n\nloam is dear ."
    )
    (item,) = data_set.items
    assert evidence_of(data_set, item) == [SALES, "the rent was $ 12.5 million ."]
    assert cells_of(data_set, item) == [(HEADER, SALES), (HEADER, SALES)]
    assert (item.gold.question.query_id, item.gold.question.type) == ("finqa-ALD_2008_page_17.pdf-1", "arithmetic")
    assert (item.gold.question.answers, item.gold.parts) == (("57%", "0.57484"), (("530",), ("922",)))
    assert (item.documents, item.gold.source_type) == (("ALD_2008",), "program")


@pytest.mark.parametrize(
    ("program", "gold", "cells"),
    [
        ("table_average(Sales, none)", {"table_1": ""}, 2),
        ("subtract(12, 530)", {"table_2": ""}, 1),
        ("subtract(3, 4)", {"table_1": "", "text_1": "."}, 0),
        ("add(12.5, 530)", {"text_2": "", "text_3": ""}, 0),
    ],
)
def test_cells_are_the_programs_numbers_or_a_whole_row(
    tmp_path: Path, program: str, gold: dict[str, str], cells: int
) -> None:
    (item,) = read_finqa(write(tmp_path / "dev.json", [finqa_row(program=program, gold_inds=gold)]), "dev").items
    assert len(item.cells) == cells
    assert len(item.evidence) == len([name for name in gold if name != "text_1"])  # a lone dot is no evidence


def test_two_pages_of_the_same_words_keep_their_own_ranges(tmp_path: Path) -> None:
    other = {**finqa_row(), "id": "ALD/2008/page_17.pdf-2", "post_text": ["loam -- is -- dear ."]}
    third = {**finqa_row(), "id": "ALD/2008/page_17.pdf-3"}
    third["pre_text"] = ["alder : grew trees in 2008", "...", "the rent was $ 12.5 ( million )"]
    data_set = read_finqa(write(tmp_path / "dev.json", [finqa_row(), other, third]), "dev")
    assert len(data_set.texts) == 3
    assert [evidence_of(data_set, item)[1] for item in data_set.items] == [
        "the rent was $ 12.5 million .",
        "the rent was $ 12.5 million .",
        "the rent was $ 12.5 ( million )",
    ]


@pytest.mark.parametrize(
    ("row", "where"),
    [
        (finqa_row(gold_inds={"table_9": ""}), "row 2, qa: the field 'gold_inds' names 'table_9'"),
        (finqa_row(gold_inds={"image_0": ""}), "row 2, qa: the field 'gold_inds' names 'image_0'"),
        (finqa_row(program=""), "row 2, qa: the field 'program' is an empty text"),
        (finqa_row(exe_ans=None), "row 2, qa: the field 'exe_ans' is NoneType"),
        ({**finqa_row(), "filename": "page_17.pdf"}, "row 2: the field 'filename' is 'page_17.pdf'"),
        ({**finqa_row(), "table": [["sales", 530]]}, "row 2: the field 'table' holds int"),
        ({**finqa_row(), "table": []}, "row 2: the field 'table' has no rows"),
        (finqa_row(), "row 2: the field 'id' is .* the id of an earlier question"),
    ],
)
def test_a_malformed_item_is_named_by_row_and_field(tmp_path: Path, row: dict[str, Any], where: str) -> None:
    row = row if "earlier" in where else {**row, "id": "ALD/2008/page_17.pdf-2"}
    with pytest.raises(InputError, match=f"dev.json, {where}"):
        read_finqa(write(tmp_path / "dev.json", [finqa_row(), row]), "dev")
