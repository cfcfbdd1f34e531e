"""How many questions of which kind, what is refused, and what lands in the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.pipelines.core.types import InputError
from okralong.pipelines.samples.questions import UNANSWERABLE, Sample, generate, write_sample

TYPES = {"extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"}


def test_twenty_questions_have_all_kinds(default: Sample) -> None:
    assert len(default.questions) == 20
    assert {each.type for each in default.questions if each.answers} == TYPES
    assert sum(each.query_id.endswith(UNANSWERABLE) for each in default.questions) >= 2
    assert {doc_id for each in default.questions for doc_id in each.doc_ids} == {d.doc_id for d in default.documents}


def test_questions_are_asked_once(short: Sample) -> None:
    assert len({(each.question, each.doc_ids) for each in short.questions}) == len(short.questions) == 1_000


def test_too_many_questions_are_refused_with_the_bound() -> None:
    with pytest.raises(InputError, match=r"at most (\d+) questions") as refused:
        generate(reports=1, questions=10_000, words=1_500)
    bound = int(str(refused.value).split("at most ")[1].split()[0])
    assert len(generate(reports=1, questions=bound, words=1_500).questions) == bound


@pytest.mark.parametrize("wrong", [{"reports": 0}, {"questions": -1}, {"words": 10}, {"look_ups": -1}])
def test_impossible_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="A sample needs"):
        generate(**wrong)


def test_files_hold_the_documents_and_the_rows(tmp_path: Path, short: Sample) -> None:
    write_sample(short, tmp_path)
    for document in short.documents:
        assert (tmp_path / "reports" / f"{document.doc_id}.txt").read_text(encoding="utf-8") == document.text
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(short.questions)
    for row, question in zip(rows, short.questions, strict=True):
        assert list(row) == ["query_id", "question", "doc_ids", "answers", "evidence", "type"]
        assert tuple(row["evidence"]) == question.evidence
        assert tuple(row["answers"]) == question.answers


def test_evidence_fits_the_format_of_each_file(tmp_path: Path, short: Sample) -> None:
    write_sample(short, tmp_path, formats=("txt", "md", "html"))
    forms = {path.stem: path for path in (tmp_path / "reports").iterdir()}
    texts = {document.doc_id: document.text for document in short.documents}
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    seen = set()
    for row, question in zip(rows, short.questions, strict=True):
        for written, plain in zip(row["evidence"], question.evidence, strict=True):
            doc_id, start, end = plain.rsplit(":", 2)
            quote, path = texts[doc_id][int(start) : int(end)], forms[doc_id]
            if path.suffix == ".html":
                assert written == quote
            else:
                named, first, last = written.rsplit(":", 2)
                assert named == doc_id
                assert path.read_text(encoding="utf-8")[int(first) : int(last)] == quote
            seen.add(path.suffix)
    assert seen == {".txt", ".md", ".html"}


def test_unknown_format_is_refused(tmp_path: Path, short: Sample) -> None:
    with pytest.raises(InputError, match="choose from"):
        write_sample(short, tmp_path, formats=())
