"""Where the run's own models do not know the question's language, a sentence of the passages answers."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.readers.quoted import quoted
from okralong.pipelines.core.types import Passage

GERMAN = """Die Nordhafen Uhren AG hat ihren Hauptsitz in Ostermeer.

Die Kundenzufriedenheit lag 2023 bei 51,6 Punkten. Das Prüfungshonorar für 2023 betrug 2,15 Mio. €.

Umsatz nach Segmenten (in Tausend Euro)
|2023|2022
Turmuhren|78.793|66.747
"""
CHINESE = (
    "银线测量公司的总部设在海滨镇。2023年末未交付订单金额为123.4百万元，上年末为98.7百万元。东港工厂的厂长是欧阳文博。"
)


def shown(text: str, doc_id: str) -> list[Passage]:
    return [Passage(doc_id, 100, 100 + len(text), text, 50, 1.0)]


@pytest.mark.parametrize(
    ("text", "doc_id", "language", "question", "answer"),
    [
        (
            GERMAN,
            "nordhafen-uhren-ag-2023",
            "de",
            "Wie hoch war bei der Nordhafen Uhren AG das Prüfungshonorar im Jahr 2023?",
            "Das Prüfungshonorar für 2023 betrug 2,15 Mio. €.",
        ),
        (CHINESE, "银线测量公司-2023", "zh", "银线测量公司东港工厂的厂长是谁？", "东港工厂的厂长是欧阳文博。"),
    ],
)
def test_the_sentence_about_the_question_is_quoted(
    text: str, doc_id: str, language: str, question: str, answer: str
) -> None:
    found = quoted(question, shown(text, doc_id), language)
    assert (found.status, found.answer, found.replied_by) == ("answered", answer, ("statement-rules",))
    (source,) = found.citations
    assert text[source.start_char - 100 : source.end_char - 100] == source.quote == answer


def test_a_typed_answer_is_the_value_of_the_sentence() -> None:
    money = AnswerType.of("money")
    passages = shown(GERMAN, "nordhafen-uhren-ag-2023")
    found = quoted("Wie hoch war das Prüfungshonorar 2023?", passages, "de", money)
    assert found.value is not None
    assert (found.value.value, found.value.currency) == ("2150000", "EUR")
    several = quoted("Wie hoch war der Umsatz der Turmuhren?", passages, "de", money)
    assert (several.status, several.citations) == ("unanswerable", ()), "the row has two values"
    assert "The question is in German" in several.error


def test_the_year_of_a_title_is_no_amount() -> None:
    report = "LUMIÈRE DU NORD SA : RAPPORT ANNUEL 2023\n\nElle vend des lampes à Paris, en euros."
    passages = shown(report, "rapport-2023")
    question = "Quel était le chiffre d'affaires de Lumière du Nord en 2023 ?"
    assert quoted(question, passages, "fr").answer.endswith("ANNUEL 2023")
    assert quoted(question, passages, "fr", AnswerType.of("money")).status == "unanswerable"
    counted = shown("Die Zahl der Mitarbeiter betrug 2.023.", "bericht")
    assert quoted("Wie viele Mitarbeiter?", counted, "de", AnswerType.of("number")).answer.endswith("2.023.")


def test_nothing_shared_is_no_answer() -> None:
    found = quoted("Welche Patente?", shown(GERMAN, "nordhafen"), "de")
    assert found.status == "unanswerable"
    assert "Name one that knows it under llm" in found.error
