"""Questions that ship as places in filings: what is read and what is refused; the shipped ones are well-formed."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest

from okralong.lab.datasets.catalog import DataSource, load_catalog
from okralong.lab.datasets.placed import (
    FILINGS_QUESTIONS,
    Kind,
    PlacedQuestion,
    read_archives,
    read_placed,
    read_questions_file,
)
from okralong.lab.datasets.registry import read_dataset
from okralong.lab.datasets.split import Split, question_hash
from okralong.lab.datasets.split_build import RULES
from okralong.lab.datasets.split_components import SplitRules
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import jsonl_file, shown

OAK = "Oak Ltd\n\n  Total current assets      300   280\n\n  Total current liabilities  200   210\n"
ELM = "\nElm Ltd sold less, since it rained.\n"
SHIPPED = resources.files("okralong.configs").joinpath(FILINGS_QUESTIONS)


def place(document: str, text: str, words: str, *values: str) -> dict[str, Any]:
    start = text.strip().index(words)
    return {"document": document, "start_char": start, "end_char": start + len(words), "values": values}


def row(**changes: Any) -> dict[str, Any]:
    return {
        "query_id": "one",
        "side": "tune",
        "scope": "archive",
        "kind": "derived",
        "question": "What was Oak's current ratio?",
        "answers": ["1.5"],
        "documents": ["filings/oak.txt"],
        "calculation": "300 / 200",
        "evidence": [
            place("filings/oak.txt", OAK, "Total current assets      300   280", "300"),
            place("filings/oak.txt", OAK, "Total current liabilities  200", "200"),
        ],
        **changes,
    }


ELM_ROW = row(
    query_id="two",
    scope="documents",
    kind="prose",
    question="Why did sales fall?",
    answers=["it rained"],
    documents=["filings/elm.txt"],
    calculation="",
    evidence=[place("filings/elm.txt", ELM, "Elm Ltd sold less, since it rained.")],
)


def folder(at: Path, *rows: dict[str, Any], listed: dict[str, str] | None = None) -> Path:
    """Two filings below ``at / filings``, and questions over them in ``at / asked``."""
    (at / "asked").mkdir()
    (at / "filings").mkdir()
    hashes = {}
    for name, text in (("oak", OAK), ("elm", ELM)):
        (at / "filings" / f"{name}.txt").write_text(text, encoding="utf-8")
        hashes[f"filings/{name}.txt"] = hashlib.sha256(text.encode()).hexdigest()
    jsonl_file(at / "asked" / "questions.jsonl", rows)
    (at / "asked" / "archives.yaml").write_text(json.dumps({"archives": {"tune": listed or hashes, "test": {}}}))
    return at / "asked"


def test_a_question_of_the_whole_archive_has_all_documents_as_its_context(tmp_path: Path) -> None:
    data = read_placed(folder(tmp_path, row(), ELM_ROW), tmp_path, "tune_archive")
    (item,) = data.items
    assert item.gold.question.query_id == "filings_questions-one"
    assert (item.gold.question.type, item.gold.source_type, item.calculation) == ("arithmetic", "derived", "300 / 200")
    assert item.documents == ("oak",)
    assert [data.texts[each].document for each in item.text_ids] == ["oak", "elm"]
    assert shown(data, item) == ["Total current assets      300   280", "Total current liabilities  200"]
    assert item.gold.parts == (("300",), ("200",))


def test_a_question_of_one_document_has_that_one_and_its_answer_is_looked_for(tmp_path: Path) -> None:
    data = read_placed(folder(tmp_path, row(), ELM_ROW), tmp_path, "tune_documents")
    (item,) = data.items
    assert [text.document for text in data.texts.values()] == ["elm"]
    assert shown(data, item) == ["Elm Ltd sold less, since it rained."]
    assert item.gold.parts == (("it rained",),)


def test_what_the_scope_does_not_answer_has_no_evidence(tmp_path: Path) -> None:
    asked = row(kind="unanswerable", answers=[], documents=[], calculation="", evidence=[])
    (item,) = read_placed(folder(tmp_path, asked), tmp_path, "tune_archive").items
    assert (item.gold.question.answers, item.gold.parts, item.evidence) == ((), (), ())


def test_a_document_that_is_missing_or_altered_is_refused(tmp_path: Path) -> None:
    asked = folder(tmp_path, row())
    (tmp_path / "filings" / "elm.txt").write_text(ELM + " ", encoding="utf-8")
    with pytest.raises(InputError, match=r"elm.txt is not the text in which the evidence .* Put the original file"):
        read_placed(asked, tmp_path, "tune_archive")
    (tmp_path / "filings" / "elm.txt").unlink()
    with pytest.raises(InputError, match=r"elm.txt cannot be read \(FileNotFoundError\)"):
        read_placed(asked, tmp_path, "tune_archive")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"documents": ["filings/ash.txt"]}, r"the field 'documents' names 'filings/ash.txt', no document of its side"),
        ({"evidence": [place("filings/oak.txt", OAK, "300", "301")]}, "names the value '301', which is not at"),
        (
            {"evidence": [{"document": "filings/oak.txt", "start_char": 70, "end_char": 900}]},
            "has the place 70:900, which filings/oak.txt does not have",
        ),
        ({"kind": "riddle"}, "questions.jsonl, line 1: the field kind: Input should be 'look_up'"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    asked = folder(tmp_path, row(**changes))
    with pytest.raises(InputError, match=message):
        read_placed(asked, tmp_path, "tune_archive")


def test_an_id_that_was_taken_and_a_part_that_is_none_are_refused(tmp_path: Path) -> None:
    asked = folder(tmp_path, row(), row(question="Another?"))
    with pytest.raises(InputError, match="line 2: query_id 'one' occurs in an earlier line"):
        read_placed(asked, tmp_path, "tune_archive")
    with pytest.raises(InputError, match="has no part 'train'; its parts are tune_archive, tune_documents, test_arch"):
        read_placed(asked, tmp_path, "train")


def test_the_shipped_questions_are_well_formed() -> None:
    asked, archives = read_questions_file(SHIPPED), read_archives(SHIPPED).archives
    assert {each.kind for each in asked} == set(get_args(Kind))
    assert len(asked) >= 100
    assert 2 * sum(each.scope == "archive" for each in asked) >= len(asked)
    assert not set(archives["tune"]) & set(archives["test"])
    assert len({question_hash(each.question) for each in asked}) == len(asked)
    for each in asked:
        named = {*each.documents, *(one.document for one in each.evidence)}
        assert named == set(each.documents) <= set(archives[each.side]), each.query_id
        assert bool(each.evidence) == bool(each.answers) == (each.kind != "unanswerable"), each.query_id
        assert (each.scope == "archive") or each.documents, each.query_id
        assert all(one.start_char < one.end_char for one in each.evidence), each.query_id
        assert _operands(each) <= {value for one in each.evidence for value in one.values}, each.query_id


NO_FIGURES = {"1", "2", "3", "4", "90", "365", "1000"}
"""Of a calculation: counts, months, days of a quarter or year, and factors of a unit."""


def _operands(asked: PlacedQuestion) -> set[str]:
    """The line items of the calculation."""
    terms = asked.calculation.replace("(", " ").replace(")", " ").split()
    return {term.strip("-,") for term in terms if any(map(str.isdigit, term))} - NO_FIGURES


def test_its_parts_are_catalogued_and_stand_on_the_side_that_they_name() -> None:
    rules, split = load_config(SplitRules, RULES), Split.load()
    parts = {each.part for each in load_catalog().sources if each.name == FILINGS_QUESTIONS}
    assert parts == {each.part for each in read_questions_file(SHIPPED)}
    for part in parts:
        rule = rules.rule_of(FILINGS_QUESTIONS, part)
        assert rule is not None
        assert rules.rules[rule].shares == {part.split("_")[0]: 1.0}
    assert all(split.questions[question_hash(each.question)] == each.side for each in read_questions_file(SHIPPED))


def test_the_folder_of_filings_says_where_the_data_is(tmp_path: Path) -> None:
    (tmp_path / "filings").mkdir()
    source = DataSource(name=FILINGS_QUESTIONS, part="tune_archive", format=FILINGS_QUESTIONS, path="filings")
    with pytest.raises(InputError, match=rf"{tmp_path}/filings/.* cannot be read"):
        read_dataset(source, tmp_path)
