"""The user's own questions: documents beside them, evidence found in them, mistakes named by row and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.lab.datasets.other import read_own
from okralong.pipelines.core.types import InputError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.samples.questions import generate, write_sample
from tests.archives.nights import encoder
from tests.evaluation.datasets.filings import evidence_of

ROW: dict[str, Any] = {
    "query_id": "rent",
    "question": "What is the rent?",
    "doc_ids": "alder.txt",
    "answers": ["12 crowns"],
    "evidence": ["The rent is 12 crowns."],
    "type": "extractive",
}


def own_folder(folder: Path, *rows: dict[str, Any]) -> Path:
    (folder / "documents").mkdir(exist_ok=True)
    (folder / "documents" / "alder.txt").write_text("Alder Ltd.\n\nThe rent\n is 12 crowns. It is due in May.")
    (folder / "documents" / "birch.md").write_text("Birch Ltd. pays nothing.")
    (folder / "elsewhere.txt").write_text("A third text.")
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_evidence_is_found_whatever_its_line_breaks(tmp_path: Path) -> None:
    data_set = read_own(own_folder(tmp_path, ROW), "mine")
    (item,) = data_set.items
    assert evidence_of(data_set, item) == ["The rent\n is 12 crowns."]
    assert (item.documents, item.gold.parts, item.gold.source_type) == (("alder",), (("12 crowns",),), "extractive")
    assert item.gold.question.query_id == "rent"
    assert item.gold.question.doc_ids == ()


def test_evidence_may_be_a_place_as_the_sample_has_it(tmp_path: Path) -> None:
    write_sample(generate(reports=2, questions=6, seed=3, words=1500), tmp_path)
    data_set = read_own(tmp_path / "questions.jsonl", "sample")
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    assert len(data_set.items) == len(rows) == 6
    for item, row in zip(data_set.items, rows, strict=True):
        assert list(item.documents) == row["doc_ids"]
        places = [place.rsplit(":", 2) for place in row["evidence"]]
        texts = {doc: (tmp_path / "reports" / f"{doc}.txt").read_text() for doc, _, _ in places}
        assert evidence_of(data_set, item) == [texts[doc][int(start) : int(end)] for doc, start, end in places]


@pytest.mark.parametrize(
    ("evidence", "doc_ids"),
    [
        (["alder:3:999"], "alder"),
        (["The rent is 13 crowns."], "alder"),  # four words of five, and another number
        (["The rent is 12 crowns."], "birch"),
        (["The rent is 12 crowns.", "The rent is due to nobody but Ann."], "alder"),
    ],
)
def test_evidence_that_stands_nowhere_is_noted_and_its_question_has_none(
    tmp_path: Path, evidence: list[str], doc_ids: str
) -> None:
    lost = {**ROW, "query_id": "lost", "evidence": evidence, "doc_ids": doc_ids}
    data_set = read_own(own_folder(tmp_path, ROW, lost), "mine")
    assert [len(item.evidence) for item in data_set.items] == [1, 0]
    (note,) = data_set.notes
    assert note.startswith(f"{tmp_path}/questions.jsonl, row 2: the field 'evidence' holds '{evidence[-1]}', which")
    assert note.endswith("The question lost is left without evidence.")


PAGE = """Elm Ltd. The rent of the mill was paid. Interest on the bor-
rowings of 1,250 crowns rose to 4.50 % in the year 2023, page 7
as the bank of Alder had asked for. The rent is paid in May, and the rent is 12 crowns."""


@pytest.mark.parametrize(
    ("passage", "place"),
    [
        # Other case and punctuation, a number written otherwise, a footer in between, a word cut in two.
        (
            "interest on the borrowings of 1250 crowns rose to 4.5% in the year 2023 as the bank of Alder had asked",
            "Interest on the bor-\nrowings of 1,250 crowns rose to 4.50 % in the year 2023, page 7\n"
            "as the bank of Alder had asked",
        ),
        # The whole of it stands later than its first words do.
        ("the rent, in 2023, is 12 crowns", None),
        ("and the rent: is 12 crowns", "and the rent is 12 crowns"),
    ],
)
def test_a_passage_in_another_rendering_is_found_by_its_words_and_numbers(
    tmp_path: Path, passage: str, place: str | None
) -> None:
    path = own_folder(tmp_path, {**ROW, "doc_ids": "elm", "evidence": [passage]})
    (tmp_path / "documents" / "elm.txt").write_text(PAGE)
    data_set = read_own(path, "mine")
    assert evidence_of(data_set, data_set.items[0]) == ([] if place is None else [place])
    says = "is left without evidence" if place is None else "1 passage of evidence is not in the documents"
    assert says in data_set.notes[0]


@pytest.mark.parametrize("folder", ["documents", "archive"])
def test_the_documents_may_be_an_archive(tmp_path: Path, folder: str) -> None:
    raw = [
        RawDocument("north/alder.pdf", "Alder Ltd.\n\nThe rent\nis 12 crowns.", "alder.pdf"),
        RawDocument("birch.pdf", "Birch Ltd. pays nothing.", "birch.pdf"),
    ]
    index_here(str(tmp_path / folder), raw, IndexConfig(granularities=[64], compressor="none"), encoder())
    path = tmp_path / "questions.jsonl"
    rows = [{**ROW, "doc_ids": "north/*"}, {"question": "All?"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data_set = read_own(path, "mine")
    first, second = data_set.items
    assert first.documents == ("north/alder.pdf",)
    assert evidence_of(data_set, first) == ["The rent\nis 12 crowns."]
    assert second.documents == ("birch.pdf", "north/alder.pdf")


def test_the_documents_are_named_all_by_pattern_or_by_path(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"question": "One?"}, {"question": "Two?", "doc_ids": ["bir*"]}]
    data_set = read_own(own_folder(tmp_path, *rows, {"question": "Three?", "doc_ids": "elsewhere.txt"}), "mine")
    assert [item.documents for item in data_set.items] == [("alder", "birch"), ("birch",), ("elsewhere",)]
    assert [item.gold.question.type for item in data_set.items] == ["", "", ""]
    assert all(text_id in data_set.texts for item in data_set.items for text_id in item.text_ids)


def test_csv_and_parquet_are_read_alike(tmp_path: Path) -> None:
    own_folder(tmp_path)
    (tmp_path / "q.csv").write_text(
        "query_id,question,doc_ids,answers,evidence,type\n"
        "rent,What is the rent?,alder.txt,12 crowns,The rent is 12 crowns.,extractive\n"
    )
    pq.write_table(pa.Table.from_pylist([ROW]), tmp_path / "q.parquet")
    assert read_own(tmp_path / "q.csv", "mine") == read_own(tmp_path / "q.parquet", "mine")


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"type": "riddle"}, "row 2: the field 'type' is 'riddle', none of extractive"),
        ({"doc_ids": "oak"}, "row 2: the field 'doc_ids' names 'oak'"),
        ({"question": " "}, "row 2 has an empty question"),
    ],
)
def test_mistakes_are_named_by_row_and_field(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"questions.jsonl, {where}"):
        read_own(own_folder(tmp_path, ROW, {**ROW, "query_id": "second", **changes}), "mine")


def test_questions_without_documents_or_with_two_of_one_name_are_refused(tmp_path: Path) -> None:
    path = own_folder(tmp_path, {"question": "One?"})
    (tmp_path / "documents" / "birch.txt").write_text("Another birch.")
    with pytest.raises(InputError, match="two texts named birch"):
        read_own(path, "mine")
    for file in (tmp_path / "documents").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="row 1: the field 'doc_ids' names no document"):
        read_own(path, "mine")
    (tmp_path / "documents" / "empty.txt").write_text(" ")
    with pytest.raises(InputError, match=r"empty.txt is empty"):
        read_own(path, "mine")
