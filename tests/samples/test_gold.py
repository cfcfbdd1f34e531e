"""Gold is exact: spans hold the answers, sums come out, and what is unanswerable is not there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal

import pytest

from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.samples.questions import UNANSWERABLE, Sample, generate


def quotes(sample: Sample, question: Question) -> list[str]:
    texts = {document.doc_id: document.text for document in sample.documents}
    spans = [each.rsplit(":", 2) for each in question.evidence]
    return [texts[doc_id][int(start) : int(end)] for doc_id, start, end in spans]


def answerable(sample: Sample, kind: str) -> list[Question]:
    found = [each for each in sample.questions if each.type == kind and not each.query_id.endswith(UNANSWERABLE)]
    assert len(found) > 20
    return found


def number(text: str) -> Decimal:
    match = re.search(r"\d[\d,]*(\.\d+)?", text)
    assert match, text
    return Decimal(match.group().replace(",", ""))


@pytest.mark.parametrize("kind", ["extractive", "multi-bridge"])
def test_last_span_holds_the_answer_literally(short: Sample, kind: str) -> None:
    for question in answerable(short, kind):
        assert quotes(short, question)[-1] in question.answers, question


def test_first_link_of_a_chain_is_not_the_answer(short: Sample) -> None:
    for question in answerable(short, "multi-bridge"):
        first, *rest = quotes(short, question)
        assert rest
        assert first not in question.answers


def test_single_look_ups_come_behind_the_questions_and_their_span_is_the_answer() -> None:
    plain, more = (generate(reports=2, questions=12, seed=5, words=1_500, look_ups=count) for count in (0, 40))
    assert more.questions[:12] == plain.questions
    assert more.documents == plain.documents
    single = more.questions[12:]
    assert len({(each.question, each.doc_ids) for each in single}) == 40
    for question in single:
        assert question.type == "extractive"
        assert (quotes(more, question)[0],) == question.answers, question
    with pytest.raises(InputError, match=r"at most \d+ look-ups, but 5000"):
        generate(reports=2, questions=1, words=1_500, look_ups=5000)


def test_abstractive_answers_restate_their_paragraph(short: Sample) -> None:
    for question in answerable(short, "abstractive"):
        (paragraph,) = quotes(short, question)
        said = set(re.findall(r"\w+", question.answers[0].lower()))
        there = set(re.findall(r"\w+", paragraph.lower()))
        assert len(said & there) >= 0.6 * len(said), (question, paragraph)


def _percentage(values: Sequence[Decimal]) -> Decimal:
    return abs(values[0] - values[1]) / values[1] * 100


FORMULAS: dict[str, tuple[int, Callable[[Sequence[Decimal]], Decimal]]] = {
    "percentage": (1, _percentage),
    "sum of": (0, lambda values: sum(values, Decimal(0))),
    "difference": (0, lambda values: abs(values[0] - values[1])),
    "average quarterly": (0, lambda values: sum(values, Decimal(0)) / len(values)),
    "ratio": (2, lambda values: values[0] / values[1]),
}


def test_arithmetic_answers_follow_from_their_operands(short: Sample) -> None:
    used = set()
    for question in answerable(short, "arithmetic"):
        name, (places, formula) = next((key, each) for key, each in FORMULAS.items() if key in question.question)
        result = formula([number(each) for each in quotes(short, question)])
        shown = number(question.answers[0])
        if name == "average quarterly":  # whole thousands, where a half may go either way
            assert abs(result - shown) <= Decimal("0.5")
        else:
            assert result.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP) == shown, question
        used.add(name)
    assert used == set(FORMULAS)


def test_percentages_name_the_true_direction(short: Sample) -> None:
    for question in answerable(short, "arithmetic"):
        if "percentage" in question.question:
            new, old = (number(each) for each in quotes(short, question))
            assert (" rise " if new > old else " fall ") in question.question


def test_multi_source_answers_compare_their_two_spans(short: Sample) -> None:
    for question in answerable(short, "multi-source"):
        one, other = quotes(short, question)
        if "two annual reports" in question.question:
            assert one in question.answers[0]
            assert other in question.answers[0]
            continue
        wins_first = number(one) > number(other) if "higher" in question.question else number(one) < number(other)
        place = question.question.index(question.answers[0], question.question.rindex(": ") if ": " in
                                        question.question else question.question.rindex(", "))  # fmt: skip
        separator = question.question.rindex(" or ")
        assert (place < separator) == wins_first, question


def test_multi_source_spans_come_from_the_scope(short: Sample) -> None:
    scopes = set()
    for question in answerable(short, "multi-source"):
        named = {each.rsplit(":", 2)[0] for each in question.evidence}
        assert named == set(question.doc_ids)
        scopes.add(len(named))
    assert scopes == {1, 2}


def test_unanswerable_questions_ask_for_what_is_not_there(short: Sample) -> None:
    texts = {document.doc_id: document.text.lower() for document in short.documents}
    kinds = set()
    for question, draft in zip(short.questions, short.drafts, strict=True):
        assert bool(draft.absent) == question.query_id.endswith(UNANSWERABLE) == (not question.answers)
        if draft.absent:
            assert question.evidence == ()
            assert all(draft.absent.lower() not in texts[doc_id] for doc_id in question.doc_ids)
            kinds.add(question.type)
    assert kinds == {"extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"}


def test_withheld_figures_stay_absent_from_long_reports(default: Sample) -> None:
    for report, document in zip(default.reports, default.documents, strict=True):
        lowered = document.text.lower()
        assert all(metric.term not in lowered for metric in report.company.withheld)
        assert all(metric.term in lowered for metric in report.company.disclosed)
