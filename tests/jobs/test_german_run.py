"""A run over German and English reports: prompts, citations, typed values, what is shown and exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OK, Question
from okralong.pipelines.run.rows import table
from okralong.pipelines.samples.questions import UNANSWERABLE, Sample, generate, write_sample
from tests.conftest import index_plain
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.jobs.conftest import PAPER, call, endpoint

_PASSAGES = re.compile(r'<passage id="(\d+)"[^>]*>\n(.*?)\n</passage>', re.DOTALL)


@dataclass(frozen=True)
class Archive:
    """An archive of two German and two English reports, its questions, and the quotes that answer them."""

    folder: Path
    german: Sample
    english: Sample

    @property
    def gold(self) -> dict[str, tuple[str, str]]:
        """Quote and answer by question."""
        return {
            question.question: (quote_of(sample, question), question.answers[0])
            for sample in (self.german, self.english)
            for question in sample.questions
            if question.answers
        }


def quote_of(sample: Sample, question: Question) -> str:
    doc_id, start, end = question.evidence[-1].rsplit(":", 2)
    text = next(each.text for each in sample.documents if each.doc_id == doc_id)
    return text[int(start) : int(end)]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    folder = tmp_path_factory.mktemp("mixed")
    samples = [generate(reports=2, questions=18, seed=5, words=1_600, language=each) for each in ("de", "en")]
    for sample in samples:
        write_sample(sample, folder)
    index_plain(folder / "archive", folder / "reports", shards=1)
    return Archive(folder, *samples)


def reading(archive: Archive) -> Any:
    """Return an endpoint's reply: it answers with gold, from the passage that has the quote, if one has it."""

    def reply(messages: Messages) -> str:
        shown, _, asked = messages[-1]["content"].rpartition("\n\nQuestion: ")
        question, _, form = asked.partition("\nThe value must be ")
        passages = dict(_PASSAGES.findall(shown))
        if form:
            quote = next((line for text in passages.values() for line in text.split("\n") if _ROW.match(line)), "")
            number = next((each for each, text in passages.items() if quote and quote in text), "1")
            value = quote.split("|")[1] if quote else None
            evidence = [{"passage": int(number), "quote": quote.strip()}]
            return json.dumps({"evidence": evidence, "value": value, "period": "2022"}, ensure_ascii=False)
        quote, answer = archive.gold.get(question.strip(), ("?", ""))
        number = next((each for each, text in passages.items() if quote in text), "")
        return f'Evidence: [{number}] "{quote}"\nAnswer: {answer}' if number else "Answer: unanswerable"

    return reply


_ROW = re.compile(r"Umsatz gesamt\|")


@pytest.fixture(scope="module")
def done(mixed: Archive, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Archive, Path, list[Messages]]]:
    """A run of all answerable questions and a typed one, with the prompts that it sent."""
    place = tmp_path_factory.mktemp("german-run")
    rows: list[dict[str, Any]] = [
        {"query_id": f"{language}-{each.query_id}", "question": each.question, "doc_ids": list(each.doc_ids)}
        for language, sample in (("de", mixed.german), ("en", mixed.english))
        for each in sample.questions
        if each.type in ("extractive", "multi-bridge") and not each.query_id.endswith(UNANSWERABLE)
    ]
    report = mixed.german.reports[0]
    asked = f"Wie hoch war der Umsatz gesamt der {report.company.name} im Jahr {report.year}?"
    rows.append({"query_id": "de-typed", "question": asked, "doc_ids": [report.doc_id], "answer_type": "money"})
    (place / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with (
        pytest.MonkeyPatch.context() as patch,
        FakeOpenAI(rules=[(lambda _: True, reading(mixed))], models=["gpt-4o-2024-08-06"]) as server,
    ):
        patch.setenv("OPENAI_API_KEY", "sk-test")
        given = endpoint(server) | {"policy": PAPER, "confidence": "none"}
        okralong.answer(mixed.folder / "archive", place / "questions.jsonl", place / "run", **given)
        yield mixed, place / "run", [one.messages for one in server.received]


def test_prompts_request_the_language_of_the_question(done: tuple[Archive, Path, list[Messages]]) -> None:
    archive, _, prompts = done
    german = {question.question for question in archive.german.questions}
    said = {}
    for messages in prompts:
        if "Evidence: [n]" in messages[0]["content"]:
            asked = messages[-1]["content"].rpartition("\n\nQuestion: ")[2].strip()
            said.setdefault(asked in german, set()).add("Write the answer in German" in messages[0]["content"])
    assert said == {True: {True}, False: {False}}


def test_answers_are_cited_where_the_gold_is(done: tuple[Archive, Path, list[Messages]]) -> None:
    archive, run, _ = done
    rows = {row["query_id"]: row for row in table(Folder.of(run), "answers")}
    found = {"de": 0, "en": 0}
    for language, sample in (("de", archive.german), ("en", archive.english)):
        for question in sample.questions:
            row = rows.get(f"{language}-{question.query_id}")
            if row is None or row["status"] != "answered":
                continue
            doc_id, start, end = question.evidence[-1].rsplit(":", 2)
            assert row["answer"] == question.answers[0]
            assert any(
                each["doc_id"] == doc_id and each["start_char"] < int(end) and each["end_char"] > int(start)
                for each in row["citations"]
            ), (question, row["citations"])
            found[language] += 1
    assert min(found.values()) >= 4, "most passages with gold evidence are found"


def test_a_typed_amount_is_read_as_german_writes_it(done: tuple[Archive, Path, list[Messages]]) -> None:
    archive, run, _ = done
    report = archive.german.reports[0]
    (row,) = (row for row in table(Folder.of(run), "answers") if row["query_id"] == "de-typed")
    full = report.company.accounts[report.year].revenue * 1000
    assert (row["status"], row["value"]) == ("answered", str(full)), row
    assert (row["scale"], row["currency"]) == ("thousand", "EUR")
    assert row["citations"][0]["doc_id"] == report.doc_id


def test_the_plan_says_that_the_analyzer_was_not_asked(
    done: tuple[Archive, Path, list[Messages]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, run, _ = done
    rows = {row["query_id"]: row for row in table(Folder.of(run), "answers")}
    code, printed = call(monkeypatch, capsys, "show", run, "de-typed", "--all")
    assert code == EXIT_OK
    assert "the question is in German" in " ".join(printed.split())
    assert {row["analysis"] is None for query_id, row in rows.items() if query_id.startswith("de")} == {True}
    assert {row["analysis"] is None for query_id, row in rows.items() if query_id.startswith("en")} == {False}


def test_the_workbook_has_the_value_as_a_number(
    done: tuple[Archive, Path, list[Messages]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive, run, _ = done
    report = archive.german.reports[0]
    code, printed = call(monkeypatch, capsys, "export", run, "--to", tmp_path / "out.xlsx")
    assert code == EXIT_OK, printed
    sheet = load_workbook(tmp_path / "out.xlsx").worksheets[0]
    cells = {cell.value for row in sheet.iter_rows() for cell in row}
    assert report.company.accounts[report.year].revenue * 1000 in cells
