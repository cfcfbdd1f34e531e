"""SQuAD: a paragraph under its article's title, the answer's sentence, and questions that nothing answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.datasets.wiki import read_squad
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, shown

CONTEXT = "The mill of Alder burned. It was built in 1832, by Ann Alder. Ann Alder sold it."


def answer(text: str, start: int | None = None) -> dict[str, Any]:
    return {"text": text, "answer_start": CONTEXT.index(text) if start is None else start}


def asked(identity: str, *answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": identity, "question": f"What of {identity}?", "answers": list(answers), **more}


def file_of(folder: Path, *questions: dict[str, Any]) -> Path:
    article = {"title": "Alder_Mill", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}
    return json_file(folder / "dev.json", {"version": "v2.0", "data": [article]})


def test_evidence_is_the_sentence_at_the_first_answers_place(tmp_path: Path) -> None:
    later = answer("Ann Alder", CONTEXT.rindex("Ann Alder"))
    file = file_of(tmp_path, asked("a", answer("1832"), answer("in 1832"), answer("1832")), asked("b", later))
    data = read_squad(file, "dev")
    first, second = data.items
    assert shown(data, first) == ["It was built in 1832, by Ann Alder."]
    assert shown(data, second) == ["Ann Alder sold it."]
    assert first.gold.question.answers == ("1832", "in 1832")
    assert first.gold.parts == (("1832", "in 1832"),)
    (text,) = data.texts.values()
    assert text.text == f"Alder Mill\n{CONTEXT}"
    assert (first.documents, first.text_ids) == (("Alder Mill",), (text.text_id,))
    assert (first.gold.question.query_id, first.gold.question.type) == ("squad-a", "extractive")


def test_an_impossible_question_is_unanswerable_and_keeps_its_paragraph(tmp_path: Path) -> None:
    plausible = [{"text": "1832", "answer_start": 42}]
    data = read_squad(file_of(tmp_path, asked("a", is_impossible=True, plausible_answers=plausible)), "dev")
    (item,) = data.items
    assert item.gold.question.answers == ("unanswerable",)
    assert (item.evidence, item.gold.parts, item.gold.source_type) == ((), (), "impossible")
    assert item.text_ids == tuple(data.texts)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (asked("a"), "the field 'answers' holds no answer, and the question is not marked as impossible"),
        (asked("a", answer("1832", 3)), "puts '1832' at character 3 of the context, where it is not"),
        ({"id": "a", "answers": [answer("1832")]}, "the field 'question' is missing"),
    ],
)
def test_mistakes_are_named_by_article_paragraph_and_question(
    tmp_path: Path, question: dict[str, Any], why: str
) -> None:
    with pytest.raises(InputError, match=rf"article 1, paragraph 1, question 1.*{why}"):
        read_squad(file_of(tmp_path, question), "dev")


def test_a_part_of_the_answerable_has_no_impossible_question(tmp_path: Path) -> None:
    file = file_of(tmp_path, asked("a", is_impossible=True), asked("b", answer("1832")))
    assert [item.gold.question.query_id for item in read_squad(file, "dev_answerable").items] == ["squad-b"]
    assert len(read_squad(file, "dev").items) == 2
