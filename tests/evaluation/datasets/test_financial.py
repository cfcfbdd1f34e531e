"""Financial-QA-10k: a filing put together from its excerpts. Loong: questions over several whole filings."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.financial import COLUMNS, read_financial_qa, read_loong, read_loong_finance
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file, shown

LONG = "Oak Ltd lends money to people in the north who build small houses of wood there."


def csv_file(folder: Path, *rows: tuple[str, ...], columns: tuple[str, ...] = COLUMNS) -> Path:
    with (folder / "f.csv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([columns, *rows])
    return folder / "f.csv"


def test_the_excerpts_of_a_filing_are_one_text_and_each_questions_own_is_evidence(tmp_path: Path) -> None:
    file = csv_file(
        tmp_path,
        ("What does Oak sell?", "Timber", "Oak sells timber.", "OAK", "2023_10K"),
        ("What does Elm sell?", "Paper", "Elm sells paper.", "ELM", "2023_10K"),
        ("What does Oak sell?", LONG, "Oak sells timber. ", "OAK", "2023_10K"),
        ("Who leads Oak?", "Ann", "Oak is led by Tom.", "OAK", "2023_10K"),
    )
    data = read_financial_qa(file, "all")
    assert {text.document: text.text for text in data.texts.values()} == {
        "OAK_2023": "Oak sells timber.\n\nOak is led by Tom.",
        "ELM_2023": "Elm sells paper.",
    }
    assert [shown(data, item) for item in data.items] == [
        ["Oak sells timber."],
        ["Elm sells paper."],
        ["Oak sells timber."],
        ["Oak is led by Tom."],
    ]
    assert [item.gold.question.query_id for item in data.items] == [f"financial_qa_10k-{n}" for n in (2, 3, 4, 5)]
    assert [item.gold.question.type for item in data.items] == ["extractive", "extractive", "abstractive", "extractive"]
    # An answer that the excerpt does not hold is not looked for.
    assert [item.gold.parts for item in data.items] == [(("Timber",),), (("Paper",),), (), ()]


def test_rows_that_lack_something_are_left_out_and_their_excerpts_stay(tmp_path: Path) -> None:
    file = csv_file(
        tmp_path,
        ("", "Ann", "Oak was led by Ann.", "OAK", "2023_10K"),
        ("Who leads Oak?", "Tom", "Oak is led by Tom.", "OAK", "2023_10K"),
        ("", "", "", "OAK", "2023_10K"),
    )
    data = read_financial_qa(file, "all")
    assert [item.gold.question.query_id for item in data.items] == ["financial_qa_10k-3"]
    assert [text.text for text in data.texts.values()] == ["Oak was led by Ann.\n\nOak is led by Tom."]


def test_another_csv_is_refused_and_so_is_a_row_of_too_many_cells(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the columns a, b are not those of Financial-QA-10k"):
        read_financial_qa(csv_file(tmp_path, columns=("a", "b")), "all")
    row = ("Who?", "Tom", "Tom.", "OAK", "2023_10K", "more")
    with pytest.raises(InputError, match=r"row 2: the field 'filing' is followed by more cells: \['more'\]"):
        read_financial_qa(csv_file(tmp_path, row), "all")


def loong_row(kind: str, answer: object, *names: str) -> dict[str, Any]:
    return {
        "query_id": f"{kind}-1",
        "kind": kind,
        "question": f"A question of {kind}?",
        "documents": [{"name": name.upper(), "doc_id": name} for name in names],
        "answer": answer,
    }


def loong_folder(folder: Path, *rows: dict[str, Any]) -> Path:
    (folder / "documents").mkdir()
    (folder / "documents" / "2024_oak.txt").write_text("Oak Ltd, in thousands: cash | 17,835\n")
    (folder / "documents" / "2024_elm.txt").write_text("Elm Ltd, in dollars: cash | 12")
    (folder / "documents" / "2024_fir.txt").write_text("Asked about by nobody.")
    return jsonl_file(folder / "questions.jsonl", rows)


def test_loongs_questions_have_the_filings_that_they_name(tmp_path: Path) -> None:
    both = ("2024_oak", "2024_elm")
    file = loong_folder(
        tmp_path,
        loong_row("spotlight", "$17,835 in thousands", *both),
        loong_row("comparison", "Oak Ltd", *both),
        loong_row("clustering", {"high": ["Oak Ltd"], "low": []}, *both),
        loong_row("chain", "It rose.", "2024_elm"),
    )
    data = read_loong_finance(file, "all")
    assert data == read_loong_finance(tmp_path, "all")
    assert {text.document for text in data.texts.values()} == set(both)
    assert [item.documents for item in data.items] == [both, both, both, ("2024_elm",)]
    assert [len(item.text_ids) for item in data.items] == [2, 2, 2, 1]
    assert [item.gold.question.type for item in data.items] == [
        "extractive",
        "multi-source",
        "multi-source",
        "multi-bridge",
    ]
    assert [item.gold.question.answers for item in data.items] == [
        ("$17,835 in thousands",),
        ("Oak Ltd",),
        ('{"high": ["Oak Ltd"], "low": []}',),
        ("It rose.",),
    ]
    assert [item.gold.parts for item in data.items] == [
        (("$17,835 in thousands", "$17,835"),),
        (("Oak Ltd",),),
        (),
        (),
    ]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (loong_row("spotlight", "1", "2024_yew"), "'documents' names '2024_yew', and .*2024_yew.txt cannot be read"),
        (loong_row("spotlight", "1"), "'documents' names no document"),
        (loong_row("spotlight", " ", "2024_oak"), "'answer' holds no answer"),
        (loong_row("riddle", "1", "2024_oak"), "'kind' holds a question label without a type"),
    ],
)
def test_mistakes_in_loong_are_named_by_row(tmp_path: Path, row: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=f"row 1: the field {why}"):
        read_loong_finance(loong_folder(tmp_path, row), "all")


TEMPLATE = "{docs}\n\nRead the documents above.\n{instruction}\n\n{question}"


def published_row(identity: str, domain: str, language: str, level: int, *names: str, **changes: Any) -> dict[str, Any]:
    return {
        "level": level,
        "set": 1,
        "length": 9,
        "type": domain,
        "language": language,
        "question": f"A question of {identity}?",
        "instruction": "Answer in a word.",
        "prompt_template": TEMPLATE,
        "doc": list(names),
        "answer": "Oak Ltd",
        "shuffle_doc": True,
        "id": identity,
        **changes,
    }


def published_folder(folder: Path, *rows: dict[str, Any]) -> Path:
    for domain in ("financial", "paper", "legal"):
        (folder / "doc" / domain).mkdir(parents=True, exist_ok=True)
    filings = {"2024-Oak Ltd-j": "Oak Ltd: 5", "2024-Oak Ltd Trust-j": "Of a trust.", "2019-oak10k": "Oak in 2019"}
    for name, text in filings.items():
        (folder / "doc" / "financial" / f"{name}.txt").write_text(text)
    (folder / "doc" / "paper" / "tree.md").write_text("# Trees\nThey grow.")
    judgments = {"case 1": {"content": "He stole.", "result": "Fined."}}
    json_file(folder / "doc" / "legal" / "legal.json", judgments)
    return jsonl_file(folder / "loong.jsonl", rows)


def test_loong_as_published_is_read_by_domain_and_language(tmp_path: Path) -> None:
    file = published_folder(
        tmp_path,
        published_row("f1", "financial", "en", 1, "Oak Ltd"),
        published_row("f4", "financial", "en", 4, "2019-oak10k", "Oak Ltd Trust", answer={"up": ["Oak Ltd"]}),
        published_row("p3", "paper", "en", 3, "tree.md", question=""),
        published_row("l2", "legal", "zh", 2, "case 1"),
        published_row("l4", "legal", "zh", 4, "case 1", instruction="我将给你若干份判决结果: 1, 2"),
    )
    financial, paper, legal = (read_loong(file, part) for part in ("financial_en", "paper_en", "legal_zh"))
    first, chain = financial.items
    assert (first.documents, chain.documents) == (("2024-Oak Ltd-j",), ("2019-oak10k", "2024-Oak Ltd Trust-j"))
    asked = first.gold.question
    assert asked.question == "Read the documents above.\nAnswer in a word.\n\nA question of f1?"
    assert (asked.query_id, asked.type, first.gold.parts) == ("loong-f1", "extractive", (("Oak Ltd",),))
    assert (chain.gold.question.answers, chain.gold.question.type) == (('{"up": ["Oak Ltd"]}',), "multi-bridge")
    assert [text.text for text in paper.texts.values()] == ["# Trees\nThey grow."]
    assert [legal.texts[item.text_ids[0]].text for item in legal.items] == ["He stole.Fined.", "He stole."]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (
            published_row("f1", "financial", "en", 1, "Elm"),
            "'doc' names 'Elm', and .*financial has no file with '2024-Elm'",
        ),
        (published_row("p1", "paper", "en", 1, "elm.md"), "'doc' names 'elm', and .*elm.md cannot be read"),
        (published_row("l1", "legal", "zh", 1, "case 2"), "'doc' names 'case 2', which .*legal.json does not have"),
        (published_row("f1", "financial", "en", 5, "Oak Ltd"), "'kind' holds a question label without a type"),
        (published_row("f1", "financial", "en", 1), "'doc' names no document"),
    ],
)
def test_mistakes_in_loong_as_published_are_named_by_row(tmp_path: Path, row: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=f"row 1: the field {why}"):
        read_loong(published_folder(tmp_path, row), f"{row['type']}_{row['language']}")
