"""Figures by hand from a few rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from okralong.lab.evidence.curves import Curve
from okralong.lab.evidence.figures import measured, over_sets, set_figures
from tests.evaluation.evidence.invented_rows import SWEEP, four_questions, row, sweep


def test_a_method_as_it_is_with_its_curve() -> None:
    figures = set_figures(sweep(), "one all", four_questions())
    assert (figures.name, figures.measure, figures.questions, figures.documents) == ("one all", "evidence", 4, 6)
    base, mine = figures.methods["base"], figures.methods["mine"]
    assert (base.tokens, base.recall.value, base.all_evidence.value) == (400.0, 0.5, 0.25)
    assert (mine.tokens, mine.recall.value, mine.all_evidence.value) == (320.0, 0.75, 0.5)
    assert base.curve == Curve((200.0, 400.0), (0.25, 0.5))
    assert mine.curve == Curve((160.0, 320.0), (0.5, 0.75))
    assert (base.answer_recall, base.cells, base.queries, base.workflows) == (None, None, 1.0, {"linear": 4})
    assert base.recall.low is not None
    assert base.recall.low <= 0.5


def test_what_is_shown_within_so_many_tokens_is_read_off_the_curves() -> None:
    rows = [
        replace(
            each, shown=replace(each.shown, answer_recall=None if each.query_id == "q0" else each.shown.evidence_recall)
        )
        for each in four_questions()
    ]
    asked = sweep(f"at_tokens: 300\n{SWEEP}")
    figures = set_figures(asked, "one all", rows).methods
    # Half-way between the points of 200 and 400 tokens; of answer recall without the first question.
    assert figures["base"].recall_within == pytest.approx((0.25 + 0.5) / 2)
    assert figures["base"].answer_recall_within == pytest.approx((1 / 3 + 2 / 3) / 2)
    # A curve that ends before has shown by then what it shows at its end.
    assert set_figures(sweep(f"at_tokens: 9999\n{SWEEP}"), "one all", rows).methods["mine"].recall_within == 0.75
    assert set_figures(sweep(), "one all", rows).methods["mine"].recall_within is None


def test_questions_that_share_a_document_are_drawn_together() -> None:
    rows = [replace(row, documents=(*row.documents, "one page for all")) for row in four_questions()]
    base = set_figures(sweep(), "one all", rows).methods["base"]
    assert (base.recall.value, base.recall.low, base.recall.high) == (0.5, None, None)


def test_one_method_against_another() -> None:
    figures = set_figures(sweep(), "one all", four_questions())
    assert set(figures.against) == {"base"}
    assert set(figures.against["base"]) == {"mine"}
    mine = figures.against["base"]["mine"]
    assert mine.token_ratio.value == pytest.approx(160 / 400)
    # Beyond its last point a curve is not defined: the baseline's 400 tokens are more than mine ever shows.
    assert mine.recall_difference.value is None
    assert mine.all_evidence_ratio.value == pytest.approx(0.5 / 0.25)


def test_half_the_tokens_takes_the_largest_point_that_fits() -> None:
    mine = set_figures(sweep(), "one all", four_questions()).against["base"]["mine"]
    assert mine.half.value == pytest.approx(0.5 / 0.25)
    assert mine.half_tokens == pytest.approx(160 / 400)
    wide = [replace(r, shown=replace(r.shown, context_tokens=201)) if r.point == 0.5 else r for r in four_questions()]
    mine = set_figures(sweep(), "one all", wide).against["base"]["mine"]
    assert (mine.half.value, mine.half_tokens) == (None, None)
    exact = [replace(r, shown=replace(r.shown, context_tokens=200)) if r.point == 0.5 else r for r in four_questions()]
    assert set_figures(sweep(), "one all", exact).against["base"]["mine"].half_tokens == pytest.approx(0.5)


def test_over_sets_is_the_mean_of_the_sets() -> None:
    other = [
        replace(r, shown=replace(r.shown, context_tokens=r.shown.context_tokens * 2)) if r.method == "mine" else r
        for r in four_questions("two all")
    ]
    rows = [*four_questions(), *other]
    one, two = (set_figures(sweep(), name, rows).against["base"]["mine"] for name in ("one all", "two all"))
    both = over_sets(sweep(), rows, ["one all", "two all"])["base"]["mine"]
    assert two.token_ratio.value == pytest.approx(320 / 400)
    assert both.token_ratio.value == pytest.approx((0.4 + 0.8) / 2)
    assert both.all_evidence_ratio.value == pytest.approx(2.0)
    assert one.half.value is not None
    assert both.recall_difference == two.recall_difference
    # Half the tokens cannot be had in one set: the mean is the other's, and says so.
    assert (two.half.value, both.half, both.half_tokens) == (None, one.half, one.half_tokens)
    assert (one.left_out, two.left_out) == ({}, {})
    assert both.left_out == {"recall_difference": ("one all",), "half": ("two all",)}


def test_a_set_without_evidence_is_judged_by_its_answers() -> None:
    rows = [
        row(method, point, number, 100, None, answer)
        for method, point in (("base", 2.0), ("base", 4.0), ("mine", 0.5), ("mine", 1.0))
        for number, answer in enumerate((1.0, 0.0, 0.5))
    ]
    figures = set_figures(sweep(), "one all", rows)
    assert (figures.measure, figures.questions) == ("answer", 3)
    assert figures.methods["mine"].recall.value == figures.methods["mine"].answer_recall == 0.5
    assert figures.methods["mine"].all_evidence.value is None
    compared = figures.against["base"]["mine"]
    assert (compared.all_evidence_ratio.value, compared.half.value, compared.half_tokens) == (None, None, None)
    assert compared.recall_difference.value == 0.0


def test_in_a_set_with_evidence_a_question_without_is_left_out() -> None:
    bare = [row(r.method, r.point, 9, 9999, None, 1.0) for r in four_questions()[::4]]
    rows = [*bare, *four_questions()]
    assert set_figures(sweep(), "one all", rows) == set_figures(sweep(), "one all", four_questions())
    assert {r.query_id for r in measured("one all", rows)[1]} == {"q0", "q1", "q2", "q3"}
    with pytest.raises(ValueError, match="No row of two all"):
        measured("two all", rows)


def test_the_strong_method_is_compared_too() -> None:
    chosen = sweep(SWEEP.replace("against: [base]", "against: [base, mine]"))
    base = set_figures(chosen, "one all", four_questions()).against["mine"]["base"]
    # At mine's 320 tokens base stands between 0.25 (at 200) and 0.5 (at 400); it never reaches mine's 0.75.
    assert base.recall_difference.value == pytest.approx(0.4 - 0.75)
    assert base.token_ratio.value is None
