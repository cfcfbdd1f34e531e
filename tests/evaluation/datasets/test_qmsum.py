"""QMSum: a meeting as one text, spans of turns as evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.papers import read_qmsum
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import jsonl_file, shown


def turn(speaker: str, content: str) -> dict[str, str]:
    return {"speaker": speaker, "content": content}


def specific(*spans: object, query: str = "What did Ann say?") -> dict[str, Any]:
    return {"query": query, "answer": "Ann was for the mill .", "relevant_text_span": list(spans)}


def meeting(*queries: dict[str, Any], first: str = "Shall we , then ?") -> dict[str, Any]:
    return {
        "topic_list": [],
        "general_query_list": [{"query": "Summarize the meeting", "answer": "They spoke of a mill ."}],
        "specific_query_list": list(queries),
        "meeting_transcripts": [
            turn("Tom", first),
            turn("Ann", "Yes , {pause}  yes ."),
            turn("Tom", ""),
            turn("Eve", "The mill ."),
        ],
    }


def test_a_span_is_its_first_to_its_last_turn(tmp_path: Path) -> None:
    file = jsonl_file(tmp_path / "train.jsonl", [meeting(specific(["1", "2"], ["3", "3"]), specific(["0", "0"]))])
    data = read_qmsum(file, "train")
    assert [shown(data, item) for item in data.items] == [
        [],
        ["Ann: Yes , {pause}  yes .\nTom:", "Eve: The mill ."],
        ["Tom: Shall we , then ?"],
    ]


def test_the_meeting_is_one_text_called_by_its_words(tmp_path: Path) -> None:
    data = read_qmsum(jsonl_file(tmp_path / "train.jsonl", [meeting(specific(["1", "1"]))]), "train")
    (text,) = data.texts.values()
    assert text.text == "Tom: Shall we , then ?\nAnn: Yes , {pause}  yes .\nTom: \nEve: The mill ."
    assert text.document == f"meeting-{text.text_id}"
    assert all(item.documents == (text.document,) and item.text_ids == (text.text_id,) for item in data.items)
    assert [item.gold.question.query_id for item in data.items] == [
        f"qmsum-{text.text_id}-general-1",
        f"qmsum-{text.text_id}-specific-1",
    ]


def test_queries_are_abstractive_without_parts_or_gold_queries(tmp_path: Path) -> None:
    data = read_qmsum(jsonl_file(tmp_path / "train.jsonl", [meeting(specific(["1", "1"]))]), "train")
    assert [(i.gold.source_type, i.gold.question.type) for i in data.items] == [
        ("general", "abstractive"),
        ("specific", "abstractive"),
    ]
    assert all((item.gold.parts, item.gold_queries) == ((), ()) for item in data.items)


@pytest.mark.parametrize("span", [["2", "1"], ["3", "4"], ["-1", "2"], [1, 2], ["1"], "12"])
def test_a_bad_span_is_named_by_row_query_and_field(tmp_path: Path, span: object) -> None:
    rows = [meeting(), meeting(specific(["1", "1"]), specific(span), first="Another day .")]
    with pytest.raises(InputError, match=r"train\.jsonl, row 2, specific_query_list 2.*'relevant_text_span'"):
        read_qmsum(jsonl_file(tmp_path / "train.jsonl", rows), "train")


def test_a_bad_turn_and_a_meeting_that_comes_twice_are_named(tmp_path: Path) -> None:
    mute = meeting() | {"meeting_transcripts": [turn("Tom", "Hm ."), {"speaker": "Ann"}]}
    with pytest.raises(InputError, match=r"row 1, turn 2.*'content'"):
        read_qmsum(jsonl_file(tmp_path / "train.jsonl", [mute]), "train")
    with pytest.raises(InputError, match=r"row 2.*'meeting_transcripts'"):
        read_qmsum(jsonl_file(tmp_path / "train.jsonl", [meeting(), meeting()]), "train")
    with pytest.raises(InputError, match=r"row 1.*'meeting_transcripts' has no turns"):
        read_qmsum(jsonl_file(tmp_path / "train.jsonl", [meeting() | {"meeting_transcripts": []}]), "train")
