"""Languages of documents and questions: right where the words tell them, English or unknown elsewhere."""

from __future__ import annotations

import pytest

from okralong.pipelines.core.languages import UNKNOWN, detect, language_code, question_language

QUESTIONS = {
    "de": ["Wie hoch war der Umsatz im Jahr 2023?", "Wer ist Vorstandsvorsitzender?", "Welche Risiken nennt SAP?"],
    "fr": ["Quel était le chiffre d'affaires en 2023 ?", "Est-ce que la dette a baissé ?"],
    "es": ["¿Cuáles fueron los ingresos en 2023?", "¿Ha bajado la deuda?"],
    "ja": ["2023年度の売上高はいくらですか？", "社長は誰ですか？"],
    "zh": ["2023年的营业收入是多少？", "董事长是谁？", "Apple公司的净利润"],
    "ko": ["2023년 매출은 얼마입니까?"],
    "th": ["รายได้ในปี 2566 เท่าไร"],
    "ru": ["Кто генеральный директор?"],
    "en": [
        "How high was revenue in 2023?",
        "Who lived longer, Sammy Drechsel or Wolfgang Fischer?",
        "Who is older, Álvaro Grant Macdonald or Adrián Horacio Gómez?",
        "What was the free cash flow of Oesterreichische Kontrollbank in 2023?",
    ],
}


@pytest.mark.parametrize("language", QUESTIONS)
def test_questions_have_the_language_of_their_words(language: str) -> None:
    for scope in ((), (language,), ("en", language)):
        assert [question_language(question, scope) for question in QUESTIONS[language]] == [language] * len(
            QUESTIONS[language]
        )


def test_documents_decide_the_language_of_a_few_words() -> None:
    assert question_language("Umsatz 2022") == UNKNOWN
    assert question_language("Umsatz 2022", ["de"]) == "de"
    assert question_language("従業員数", ["ja", "en"]) == "ja"
    assert question_language("従業員数") == "zh"
    assert question_language("SAP SE", ["en"]) == "en"
    assert question_language("2022") == UNKNOWN


def test_english_has_the_benefit_of_the_doubt_over_english_documents() -> None:
    for doubtful in ("Xanthogranulomatous cholecystitis: a premalignant condition?", "La Liga revenue"):
        assert question_language(doubtful, ["en"]) == "en"
    assert question_language("total capital", ["en", "es"]) == "en"
    assert question_language("Operating profit of Société Générale", ["en", "fr"]) == "en"
    assert question_language("Wie hoch war der Umsatz im Jahr 2023?", ["en"]) == "de"


def test_documents() -> None:
    german = "Der Vorstand der Gesellschaft berichtet über die Entwicklung des Geschäfts im vergangenen Jahr. " * 30
    english = "The management board reports on the development of the business in the past year. " * 30
    assert detect(german) == "de"
    assert detect(english) == "en"
    assert detect(german + english[: len(english) // 4]) == "de"
    assert detect("1,234 | 5,678\n2,345 | (33)\n") == UNKNOWN
    assert detect("") == UNKNOWN
    assert detect("El Cielo en las manos is a 1950 Argentine film.") == "en"
    assert detect("公司2023年实现营业收入100亿元，同比增长12%。" * 20) == "zh"
    assert detect("当社の2023年度の売上高は、前年同期比で増加しました。" * 20) == "ja"
    assert detect("def main(argv: list[str]) -> None:\n    return run(argv)\n" * 40) == "en"


def test_codes_of_users() -> None:
    assert [language_code(value) for value in ("DE", "de-AT", "zh_Hans", "deutsch!", "")] == ["de", "de", "zh", "", ""]
