"""HotpotQA: sentences as evidence, titles as gold queries, and every slip of a file by row and field."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.lab.datasets.wiki import read_hotpotqa
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, shown

ALDER = ["Alder", ["Alder is a mill on the Wend.", ' "Old Tom" built it.', "It burned (twice).", "  "]]
TOM = ["Old Tom", ["Tom Birch was a wright.", " He was born in Fell."]]
HOLT = ["Holt", ["Holt is a hill."]]


def bridge(**changes: object) -> dict[str, Any]:
    return {
        "_id": "a1",
        "question": "Where was the builder of Alder born?",
        "answer": "Fell",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Old Tom", 1], ["Alder", 1], ["Old Tom", 0]],
        "context": [HOLT, ALDER, TOM],
    } | changes


def comparison() -> dict[str, Any]:
    facts = [["Alder", 0], ["Holt", 0]]
    return bridge(_id="a2", question="Are both hills?", answer="no", type="comparison", supporting_facts=facts)


def test_evidence_is_the_supporting_sentences_in_the_text_as_published(tmp_path: Path) -> None:
    data = read_hotpotqa(json_file(tmp_path / "dev.json", [bridge(), comparison()]), "dev")
    first, second = data.items
    assert (data.name, data.part, len(data.texts)) == ("hotpotqa", "dev", 3)
    assert shown(data, first) == ["He was born in Fell.", '"Old Tom" built it.', "Tom Birch was a wright."]
    assert shown(data, second) == ["Alder is a mill on the Wend.", "Holt is a hill."]
    alder = data.texts[first.text_ids[1]]
    assert alder.text == 'Alder\nAlder is a mill on the Wend. "Old Tom" built it.It burned (twice).  '
    assert alder.document == "Alder"


def test_the_hubs_columns_read_the_same(tmp_path: Path) -> None:
    rows = [bridge(), comparison()]
    columns = [
        {
            **{key: row[key] for key in ("question", "answer", "type", "level")},
            "id": row["_id"],
            "supporting_facts": {
                "title": [title for title, _ in row["supporting_facts"]],
                "sent_id": [number for _, number in row["supporting_facts"]],
            },
            "context": {
                "title": [title for title, _ in row["context"]],
                "sentences": [sentences for _, sentences in row["context"]],
            },
        }
        for row in rows
    ]
    pq.write_table(pa.Table.from_pylist(columns), tmp_path / "dev.parquet")
    wanted = read_hotpotqa(json_file(tmp_path / "dev.json", rows), "dev")
    assert read_hotpotqa(tmp_path / "dev.parquet", "dev") == wanted
    columns[1]["context"]["title"].pop()
    with pytest.raises(InputError, match=r"row 2, context: the field 'sentences' has 3 entries for 2 titles"):
        read_hotpotqa(json_file(tmp_path / "dev.json", columns), "dev")


def test_question_type_parts_documents_and_gold_queries(tmp_path: Path) -> None:
    first, second = read_hotpotqa(json_file(tmp_path / "dev.json", [bridge(), comparison()]), "dev").items
    assert [i.gold.question.query_id for i in (first, second)] == ["hotpotqa-a1", "hotpotqa-a2"]
    assert [(i.gold.question.type, i.gold.source_type) for i in (first, second)] == [
        ("multi-bridge", "bridge"),
        ("multi-source", "comparison"),
    ]
    assert (first.gold.question.answers, first.gold.parts) == (("Fell",), (("Fell",),))
    assert second.gold.parts == ()
    assert first.documents == first.gold_queries == ("Old Tom", "Alder")


def test_an_answer_in_other_words_than_the_texts_has_no_parts(tmp_path: Path) -> None:
    (item,) = read_hotpotqa(json_file(tmp_path / "dev.json", [bridge(answer="Fells")]), "dev").items
    assert (item.gold.question.answers, item.gold.parts) == (("Fells",), ())


def test_a_sentence_that_is_missing_or_blank_is_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = json_file(tmp_path / "dev.json", [bridge(supporting_facts=[["Alder", 3], ["Alder", 4], ["Old Tom", 1]])])
    with caplog.at_level(logging.INFO):
        data = read_hotpotqa(file, "dev")
    assert shown(data, data.items[0]) == ["He was born in Fell."]
    assert "2 supporting facts" in caplog.text


def test_a_missing_paragraph_takes_all_evidence(tmp_path: Path) -> None:
    data = read_hotpotqa(json_file(tmp_path / "dev.json", [bridge(context=[ALDER, HOLT])]), "dev")
    assert data.items[0].evidence == ()
    assert data.items[0].gold_queries == ("Old Tom", "Alder")


def test_of_two_paragraphs_with_a_title_the_one_with_the_sentence_counts(tmp_path: Path) -> None:
    context = [["Old Tom", ["A cat."]], ALDER, TOM]
    data = read_hotpotqa(
        json_file(tmp_path / "dev.json", [bridge(context=context, supporting_facts=[["Old Tom", 1]])]), "dev"
    )
    assert shown(data, data.items[0]) == ["He was born in Fell."]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("_id", "a2"),
        ("question", " "),
        ("answer", 7),
        ("type", "riddle"),
        ("supporting_facts", [["Alder", "1"]]),
        ("supporting_facts", [["Alder", -1]]),
        ("supporting_facts", "Alder"),
        ("context", [["Alder", "one text"]]),
        ("context", [["Alder", [1]]]),
    ],
)
def test_a_slip_is_named_by_file_row_and_field(tmp_path: Path, field: str, value: object) -> None:
    file = json_file(tmp_path / "dev.json", [comparison(), bridge(**{field: value})])
    with pytest.raises(InputError, match=rf"dev\.json, row 2.*'{field}'"):
        read_hotpotqa(file, "dev")
