"""UDA: three kinds of csv files without context, and three shapes of bench files with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets import uda as uda_bench
from okralong.lab.datasets import uda as uda_csv
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.filings import cells_of, evidence_of, page, write

TAT = "doc_name|q_uid|question|answer|answer_scale|answer_type\n"
FIN = "doc_name|q_uid|question|answer_1|answer_2\n"
PAPER = "doc_name|q_uid|question|answer_1|answer_2|answer_3\n"
LONG = "They wrote an answer of their own that has many more words than twelve, which nobody copies."


def csv_file(folder: Path, text: str) -> Path:
    path = folder / "questions.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_columns_of_a_csv_say_its_kind(tmp_path: Path) -> None:
    tat = uda_csv.read_uda_csv(
        csv_file(tmp_path, TAT + "alder_2019|u1|Rent?|['12', '13']|thousand|multi-span\n"), "all"
    )
    (item,) = tat.items
    assert (tat.name, tat.texts, item.documents, item.text_ids) == ("uda_tat_qa", {}, ("alder_2019",), ())
    assert item.gold.question.query_id == "uda_tat_qa-u1"
    assert item.gold.question.answers == ("12; 13", "12; 13 thousand")
    assert (item.gold.question.type, item.gold.parts) == ("extractive", (("12",), ("13",)))

    fin = uda_csv.read_uda_csv(csv_file(tmp_path, FIN + "ALD_2008|ALD/2008/page_1.pdf-1|rent ?||yes\n"), "all")
    (item,) = fin.items
    assert (fin.name, item.gold.question.type, item.gold.parts) == ("uda_fin_qa", "arithmetic", ())
    assert item.gold.question.query_id == "uda_fin_qa-ALD_2008_page_1.pdf-1"
    assert item.gold.question.answers == ("yes",)

    lines = f'1701.00001|a|Which?|"Two\nlines"||\n1701.00001|b|Why?|{LONG}| | \n'
    paper = uda_csv.read_uda_csv(csv_file(tmp_path, PAPER + lines), "text")
    assert [item.gold.question.type for item in paper.items] == ["extractive", "abstractive"]
    assert paper.items[0].gold.question.answers == ("Two\nlines",)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (TAT + "a|u1|Rent?|['1']||span\na|u2|Rent?|['1'||span\n", "row 3: the field 'answer' is not a list"),
        (TAT + "a|u1|Rent?|['1']||essay\n", "row 2: the field 'answer_type' holds a question label .*'essay'"),
        (TAT + "a|u1|Rent?|['1']\n", "row 2: the field 'answer_scale' is missing"),
        (TAT + "a|u1|Rent?|['1']||span|more\n", "row 2: the field 'answer_type' is followed by more cells"),
        (PAPER + "a|u1|Who?|Ann||\na|u1|Who?|Bob||\n", "row 3: the field 'q_uid' is 'u1', the id of an earlier"),
        (FIN + "a|u1||5|5\n", "row 2: the field 'question' is an empty text"),
        ("doc|question\n", "row 1: the columns doc|question"),
    ],
)
def test_a_malformed_csv_is_named_by_row_and_field(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(InputError, match=f"questions.csv, {where}"):
        uda_csv.read_uda_csv(csv_file(tmp_path, text), "all")


def tat_bench(**answers: Any) -> dict[str, Any]:
    return {
        "q_uid": "u1",
        "question": "Average rent?",
        "answers": {"answer": 6.5, "answer_type": "arithmetic", "scale": "", **answers},
        "derivation": "(6 + 7) / 2",
        "facts": ["6", "7"],
    }


def paper_bench(*evidence: list[str], kind: str = "extractive") -> dict[str, Any]:
    return {
        "q_uid": "p1",
        "question": "Which trees?",
        "answers": [{"answer": "Alder", "type": kind} for _ in evidence],
        "evidence": [{"raw_evidence": paragraphs, "highlighted_evidence": []} for paragraphs in evidence],
    }


def test_bench_questions_on_reports_have_facts_and_no_text(tmp_path: Path) -> None:
    data_set = uda_bench.read_uda_bench(write(tmp_path / "bench.json", {"alder_2019": [tat_bench()]}), "bench")
    (item,) = data_set.items
    assert (data_set.name, data_set.texts, item.documents) == ("uda_bench_tat_qa", {}, ("alder_2019",))
    assert (item.gold.question.answers, item.gold.parts) == (("6.5",), (("6",), ("7",)))


def test_bench_questions_on_pages_have_the_page_and_its_gold_rows(tmp_path: Path) -> None:
    row = {
        "q_uid": "ALD/2008/page_17.pdf-1",
        "question": "share ?",
        "answers": {"str_answer": "57%", "exe_answer": 0.57484},
        "evidence": {"table_1": "", "text_3": ""},
        "program": "divide(530, 922)",
        "context": page(),
    }
    data_set = uda_bench.read_uda_bench(write(tmp_path / "bench.json", {"ALD_2008": [row]}), "bench")
    (item,) = data_set.items
    assert evidence_of(data_set, item) == ["| sales | $ 530 | 922 |", "loam is dear ."]
    assert cells_of(data_set, item) == [("| in millions | 2008 | 2007 |", "| sales | $ 530 | 922 |")] * 2
    assert data_set.texts[item.text_ids[0]].document == "ALD_2008"
    row["evidence"] = {"table_7": ""}
    with pytest.raises(InputError, match="document ALD_2008, question 1: the field 'evidence' names 'table_7'"):
        uda_bench.read_uda_bench(write(tmp_path / "bench.json", {"ALD_2008": [row]}), "bench")


def test_bench_questions_on_papers_have_the_first_annotators_paragraphs(tmp_path: Path) -> None:
    row = paper_bench(["FLOAT SELECTED: Table 1", "We grow alder trees.", "We grow alder trees."], ["Another."])
    data_set = uda_bench.read_uda_bench(write(tmp_path / "bench.json", {"1701.00001": [row]}), "text")
    (item,) = data_set.items
    assert evidence_of(data_set, item) == ["We grow alder trees."]
    assert [text.document for text in data_set.texts.values()] == ["1701.00001"]
    assert (item.gold.question.answers, item.gold.parts) == (("Alder",), (("Alder",),))
    floats = paper_bench(["FLOAT SELECTED: Table 1"], kind="abstractive")
    (item,) = uda_bench.read_uda_bench(write(tmp_path / "bench.json", {"1701.00001": [floats]}), "tab").items
    assert (item.evidence, item.text_ids, item.gold.question.type) == ((), (), "abstractive")


@pytest.mark.parametrize(
    ("row", "where"),
    [
        (tat_bench(answer_type="essay"), "answers: the field 'answer_type' holds a question label .*'essay'"),
        (tat_bench(answer=[]), "answers: the field 'answer' holds no answer"),
        (paper_bench(["One."], kind="essay"), "answer 1: the field 'type' holds a question label .*'essay'"),
        ({**paper_bench(["One."]), "answers": []}, "the field 'answers' has 0 entries"),
    ],
)
def test_a_malformed_bench_question_is_named(tmp_path: Path, row: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"bench.json, document alder, question 1.*{where}"):
        uda_bench.read_uda_bench(write(tmp_path / "bench.json", {"alder": [row]}), "bench")


def test_a_file_of_another_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no question of a UDA bench file"):
        uda_bench.read_uda_bench(write(tmp_path / "bench.json", {"alder": [{"question": "?"}]}), "bench")
    with pytest.raises(InputError, match="does not exist"):
        uda_csv.read_uda_csv(tmp_path / "absent.csv", "all")
