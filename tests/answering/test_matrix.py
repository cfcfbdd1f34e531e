"""Questions that are asked of every document by itself: how they are said, and the cells that they become."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from okralong.jobs.run_folder import begin
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, InputError, Question
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.matrix import MatrixRows, cells
from okralong.pipelines.run.nightly import due, setup_of
from okralong.pipelines.run.prepare import Prepared, prepare, since_version
from okralong.pipelines.run.question_sources import read_checks
from okralong.pipelines.run.questions import question_row, read_questions
from okralong.pipelines.run.rows import in_question_order
from tests.archives.nights import made_up, night

COLUMNS = """
documents: "*_10K"
columns:
  - name: revenue
    question: What was the revenue of the year?
    answer_type: money
  - name: chair
    question: Who chairs the board?
"""


def columns_file(folder: Path, text: str = COLUMNS) -> Path:
    file = folder / "columns.yaml"
    file.write_text(textwrap.dedent(text))
    return file


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An archive of three documents, the second version of which has another b_10K, and c_10K added."""
    first = {name: made_up(name) for name in ("a_10K", "b_10K", "letter")}
    sizes = IndexConfig(granularities=[512])
    night(tmp_path / "archive", first, config=sizes)
    night(tmp_path / "archive", first | {"b_10K": "Other words.", "c_10K": made_up("c")}, config=sizes)
    return tmp_path / "archive"


def prepared(place: Path, questions: Any, matrix: MatrixRows | None = None) -> Prepared:
    return prepare(str(place), questions, load_config(RunConfig, "answer.yaml", {"strategy": "std_rag"}), matrix)


def ids(made: Prepared) -> list[str]:
    return [each.question.query_id for each in made.questions]


def test_a_question_of_each_document_is_a_cell_of_each() -> None:
    revenue = Question("revenue", "How much?", for_each=("*",), evidence=("b:0:3", "a:1:2"), answer_type="money")
    chair = Question("chair", "Who?", for_each=("b*",), where="year > 2020")
    made = list(cells([(revenue, ("b", "a")), (chair, ("b",))]))
    assert [each.query_id for each in made] == ["revenue@a", "revenue@b", "chair@b"]
    assert made[0] == Question(
        "revenue@a", "How much?", ("a",), evidence=("a:1:2",), answer_type="money", asked_id="revenue"
    )
    assert made[2] == Question("chair@b", "Who?", ("b",), asked_id="chair")
    assert made[0].question is revenue.question, "cells share the texts of their question"


def test_the_ways_of_saying_so_read_alike(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_text("query_id,question,doc_ids,for_each\na,How much?,each,\nb,Who?,,x;y_*\nc,Why?,x,\nd,How?,,each\n")
    asked, bad = read_questions(file)
    assert ([(each.doc_ids, each.for_each) for each in asked], bad) == (
        [((), ("*",)), ((), ("x", "y_*")), (("x",), ()), ((), ("*",))],
        [],
    )
    assert read_questions([question_row(each) for each in asked]) == (asked, [])
    asked, bad = read_questions(columns_file(tmp_path))
    assert asked == [
        Question("revenue", "What was the revenue of the year?", for_each=("*_10K",), answer_type="money"),
        Question("chair", "Who chairs the board?", for_each=("*_10K",)),
    ]


def test_a_column_whose_type_cannot_be_used_is_a_bad_row(tmp_path: Path) -> None:
    columns = "columns: [{name: a, question: b, answer_type: mony}, {name: c, question: d, choices: [up, down]}]"
    asked, bad = read_questions(columns_file(tmp_path, columns))
    assert [(each.query_id, each.answer_type) for each in asked] == [("c", 'choices ["up", "down"]')]
    assert "columns.yaml, column a: The answer_type 'mony' is not known. Did you mean money?" in bad[0].message


CHECKED = """
columns:
  - {name: Total assets, question: "Assets?", answer_type: money}
  - {name: liabilities, question: "Debts?", answer_type: money}
  - {name: equity, question: "Equity?", answer_type: money}
  - {name: chair, question: "Who chairs?"}
checks: [liabilities > 0, "'total assets' >= equity"]
"""


def test_checks_and_the_shipped_ones_over_its_columns_are_written_into_the_run(place: Path, tmp_path: Path) -> None:
    wanted = [
        "liabilities > 0",
        "'total assets' >= equity",
        "'Total assets' = liabilities + equity",
        "'Total assets' > 0",
        "'Total assets' steady by company",
        "'Total assets' in one currency",
        "'Total assets' tagged us-gaap:Assets, ifrs-full:Assets",
        "liabilities tagged us-gaap:Liabilities, ifrs-full:Liabilities",
        "equity tagged us-gaap:StockholdersEquity, "
        "us-gaap:StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest, ifrs-full:Equity, "
        "ifrs-full:EquityAttributableToOwnersOfParent",
    ]
    made = prepared(place, columns_file(tmp_path, CHECKED))
    assert made.checks is not None
    assert list(made.checks) == wanted
    begin(Folder.of(tmp_path / "run"), made)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["checks"] == wanted
    begin(Folder.of(tmp_path / "run"), prepared(place, columns_file(tmp_path, CHECKED + "shipped_checks: false\n")))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["checks"] == wanted[:2], "they cost no answer"


def test_types_and_columns_are_recognized_by_their_other_names(tmp_path: Path) -> None:
    text = """
    columns:
      - {name: revenue, question: "Sales?", answer_type: Money}
      - {name: Net sales, question: "Net?", answer_type: amount}
      - {name: cost of revenue, question: "Costs?", answer_type: money}
      - {name: gross profit, question: "Profit?", answer_type: money}
    """
    rules = read_checks(columns_file(tmp_path, text))
    assert rules is not None
    assert "'gross profit' = revenue - 'cost of revenue'" in rules
    assert read_checks([{"question": "Fine?"}]) is None


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("assets > 0", "the check 'assets > 0' cannot be used: it names 'assets', which is none of the columns"),
        ("liabilities = chair * 2", "the column 'chair' has the answer_type text"),
        ("liabilities", "it compares nothing"),
    ],
)
def test_a_check_that_cannot_be_used_is_refused_before_anything_is_asked(tmp_path: Path, check: str, says: str) -> None:
    text = CHECKED.replace("checks: [liabilities > 0", f"checks: [{check}")
    with pytest.raises(ConfigError, match=re.escape(says)):
        read_questions(columns_file(tmp_path, text))


def test_each_beside_documents_is_a_bad_row() -> None:
    rows = [
        {"question": "Fine?"},
        {"question": "How much?", "doc_ids": "each; a"},
        {"question": "Who?", "doc_ids": ["a"], "for_each": ["b"]},
    ]
    asked, bad = read_questions(rows)
    assert len(asked) == 1
    assert "row 2 says doc_ids: each, which asks documents one by one, and names a in doc_ids" in bad[0].message
    assert "row 3 says for_each: b" in bad[1].message
    assert "take for_each out" in bad[1].message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("columns: [{name: a, question: b}, {name: A, question: c}]", "columns 1 and 2 are both named 'A'"),
        ("columns: []", "columns = "),
        ("columns: [{name: a, question: ' '}]", "columns.0.question = ' ': it is blank"),
        ("columns: [{name: a, questoin: b}]", "columns.0.questoin is not a known key (did you mean columns.question?)"),
        ("column: [{name: a, question: b}]", "column is not a known key (did you mean columns?)"),
        ("documents: []\ncolumns: [{name: a, question: b}]", "documents = []"),
        ("- a", "holds a list, not keys and values"),
        ("columns: [", "is not valid YAML"),
    ],
)
def test_a_columns_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = columns_file(tmp_path, text)
    with pytest.raises(ConfigError) as told:
        read_questions(file)
    assert says in str(told.value)
    assert str(file) in str(told.value)


def test_cells_are_scoped_and_stand_document_by_document(tmp_path: Path, place: Path) -> None:
    made = prepared(place, columns_file(tmp_path))
    assert ids(made) == [f"{name}@{doc_id}" for doc_id in ("a_10K", "b_10K", "c_10K") for name in ("revenue", "chair")]
    assert made.questions[0].doc_ids == made.questions[0].question.doc_ids == ("a_10K",)
    assert made.columns == ["revenue", "chair"]
    narrow = [{"question": "Who?", "query_id": "q", "doc_ids": "each", "where": "doc_id in ('letter', 'a_10K')"}]
    assert ids(prepared(place, narrow)) == ["q@a_10K", "q@letter"]
    both = prepared(place, [{"question": "Which?", "query_id": "all"}, *narrow])
    assert (ids(both), both.columns) == (["all", "q@a_10K", "q@letter"], ["q"])


def test_a_matrix_asks_every_question_of_each_document(tmp_path: Path, place: Path) -> None:
    rows = [{"query_id": "q", "question": "Who?"}, {"query_id": "p", "question": "Why?", "doc_ids": ["letter"]}]
    made = prepared(place, rows, MatrixRows())
    assert ids(made) == ["q@a_10K", "q@b_10K", "q@c_10K", "q@letter"]
    assert "a matrix asks every column of each document separately" in made.unusable[0]
    assert ids(prepared(place, columns_file(tmp_path), MatrixRows(("let*",)))) == ["revenue@letter", "chair@letter"]
    filtered = MatrixRows(where="doc_id like 'c%'")
    assert ids(prepared(place, columns_file(tmp_path), filtered)) == ["revenue@c_10K", "chair@c_10K"]


def test_a_matrix_over_no_documents_is_refused_and_a_column_over_none_is_a_failure(tmp_path: Path, place: Path) -> None:
    with pytest.raises(InputError, match=r"The matrix has no cells.*matches no document.*nearest") as told:
        prepared(place, columns_file(tmp_path), MatrixRows(("x_10K",)))
    assert "columns.yaml, revenue" in str(told.value)
    made = prepared(place, [{"question": "Who?", "for_each": "none"}, {"query_id": "q", "question": "Why?"}])
    assert (ids(made), [question.query_id for question, _ in made.unscoped]) == (["q"], ["q000001"])


def test_two_questions_for_one_cell_are_one_cell_and_a_bad_row(place: Path) -> None:
    rows = [
        {"query_id": "q@letter", "question": "This one?", "doc_ids": ["letter"]},
        {"query_id": "q", "question": "Who?", "doc_ids": "each"},
    ]
    made = prepared(place, rows)
    assert ids(made) == ["q@letter", "q@a_10K", "q@b_10K", "q@c_10K"]
    assert made.questions[0].question.question == "This one?"
    assert [row.query_id for row in made.bad] == ["q"]
    assert "the id 'q@letter' of one of its cells is that of another question" in made.bad[0].message


def test_only_cells_of_changed_documents_are_due(tmp_path: Path, place: Path) -> None:
    file = columns_file(tmp_path)
    now = prepared(place, file)
    assert ids(since_version(now, 1)[0]) == [f"{n}@{d}" for d in ("b_10K", "c_10K") for n in ("revenue", "chair")]
    before = prepared(f"{place}@1", file)  # type: ignore[arg-type]
    answers = {
        each.question.query_id: {
            "question": each.question.question,
            "status": "answered",
            "doc_ids": list(each.doc_ids),
            "answer_type": each.question.answer_type,
        }
        for each in before.questions
    }
    origins = {query_id: {"setup": setup_of(before)} for query_id in answers}
    hashes = [{doc_id: each.sha256 for doc_id, each in made.archive.entries().items()} for made in (before, now)]
    current = SimpleNamespace(answers=answers, origins=origins, documents=hashes[0])
    assert due(now, current, hashes[1], ["failed"]) == {  # type: ignore[arg-type]
        **dict.fromkeys(("revenue@b_10K", "chair@b_10K"), "on changed documents"),
        **dict.fromkeys(("revenue@c_10K", "chair@c_10K"), "new questions"),
    }


def test_thousands_of_cells_take_little_memory() -> None:
    import tracemalloc

    columns = [(Question(f"q{n}", "What? " * 100, for_each=("*",)), [f"{d:04}" for d in range(400)]) for n in range(20)]
    tracemalloc.start()
    made = list(cells(columns))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made) == 8_000
    assert held < 8_000 * 700


def test_a_run_keeps_the_order_of_its_questions(place: Path, tmp_path: Path) -> None:
    """Those of no document included; cells follow; a start with fewer questions moves none."""
    rows = [
        {"query_id": "z", "question": "?"},
        {"query_id": "gone", "question": "?", "doc_ids": ["no-such-document"]},
        {"query_id": "b", "question": "?", "for_each": ["*"]},
        {"query_id": "a", "question": "?"},
    ]
    made = prepared(place, rows)
    assert made.order[:3] == ("z", "gone", "a")
    assert list(made.order[3:]) == [one.question.query_id for one in made.questions if one.question.asked_id == "b"]
    run = Folder.of(tmp_path / "run")
    begin(run, made)
    begin(run, prepared(place, [{"query_id": "new", "question": "?"}, rows[3]]))
    asked = [{"query_id": name} for name in ("a", "gone", "new", "z")]
    assert [row["query_id"] for row in in_question_order(run, asked)] == ["new", "a", "z", "gone"]
