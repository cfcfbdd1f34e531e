"""Reports and questions in German and Chinese have the structure and the exact gold of the English ones."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.core.languages import detect, question_language
from okralong.pipelines.core.types import InputError
from okralong.pipelines.samples.questions import UNANSWERABLE, Sample, generate, write_sample
from okralong.pipelines.samples.words import LANGUAGES, lexicon
from okralong.pipelines.statements.locale_amounts import amounts_in


@pytest.fixture(scope="module", params=["de", "zh"])
def local(request: pytest.FixtureRequest) -> Sample:
    return generate(reports=4, questions=90, seed=11, words=1_800, language=request.param)


def language_of(sample: Sample) -> str:
    return sample.reports[0].company.words.language


def test_reports_and_questions_are_in_their_language(local: Sample) -> None:
    language = language_of(local)
    assert {detect(document.text) for document in local.documents} == {language}
    assert {question_language(question.question, [language]) for question in local.questions} == {language}
    english = re.compile(r"\b(?:the|and|of|was|were|Table|Revenue)\b")
    assert [found for document in local.documents for found in english.findall(document.text)] == []


def test_the_last_span_holds_the_answer(local: Sample) -> None:
    texts = {document.doc_id: document.text for document in local.documents}
    answered = [each for each in local.questions if not each.query_id.endswith(UNANSWERABLE)]
    literal = [each for each in answered if each.type in ("extractive", "multi-bridge")]
    assert len(literal) > 20
    for question in literal:
        doc_id, start, end = question.evidence[-1].rsplit(":", 2)
        assert texts[doc_id][int(start) : int(end)] in question.answers
    assert all(not each.answers and not each.evidence for each in local.questions if each not in answered)


def test_what_is_unanswerable_is_not_there(local: Sample) -> None:
    texts = {document.doc_id: document.text.lower() for document in local.documents}
    absent = [draft for draft in local.drafts if draft.absent]
    assert len(absent) > 10
    assert not any(draft.absent.lower() in texts[doc_id] for draft in absent for doc_id in draft.doc_ids)


def test_answers_follow_from_figures_as_the_language_writes_them(local: Sample) -> None:
    """The formula of each calculation gives the answer, up to its rounding."""
    language = language_of(local)
    calculated = [draft for draft in local.drafts if draft.calculation]
    assert len(calculated) > 10
    for draft in calculated:
        (said,) = amounts_in(draft.answers[0], language)
        found = amounts_in(calculate(f"={draft.calculation}", language), language)[0]
        assert abs(said.digits - found.digits) <= Decimal("0.6") / 10**said.places, draft


def test_all_languages_have_the_same_phrases_and_labels() -> None:
    english, *others = (lexicon(language) for language in LANGUAGES)
    assert {frozenset(other.phrases) for other in others} == {frozenset(english.phrases)}
    assert others[0].labels.keys() == others[1].labels.keys()
    for other in others:
        assert [each.key for each in other.metrics] == [each.key for each in english.metrics]
        assert len(other.sections) == len(english.sections)


def test_the_files_say_their_language(local: Sample, tmp_path: Path) -> None:
    write_sample(local, tmp_path, ("html",))
    page = next((tmp_path / "reports").iterdir()).read_text(encoding="utf-8")
    assert f'<html lang="{language_of(local)}">' in page


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match="choose from en, de, zh"):
        generate(language="fr")
