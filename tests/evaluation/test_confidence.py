"""Models of confidence: fits on answers whose right ones are known, and figures on orders whose areas are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from okralong.lab.confidence.answers import Judged, is_right
from okralong.lab.confidence.figures import Measured, area, area_ratio, brier_ratio, diagrams, risks, with_interval
from okralong.lab.confidence.fit import estimate, fit_model, held_out
from okralong.lab.datasets.gold import Gold
from okralong.lab.sweeps.gold_questions import GoldQuestion
from okralong.pipelines.answering.confidence_model import load_confidence
from okralong.pipelines.core.types import ConfigError, InputError, Question


def answers(count: int, source: str = "bread", seed: int = 5, **own: str) -> list[Judged]:
    """Answers that are right as probably as a signal says."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        sure, right = random.random(), random.random()
        signals = {"answerable": sure, "support": sure, "words": 1.0, "passages": random.random()}
        row = {"status": "answered", "way": "span", "replied_by": "reader@1", **own}
        made.append(
            Judged(
                source,
                f"q{number}",
                row["status"],
                row["way"],
                row["replied_by"],
                signals,
                None,
                bool(right < sure),
                f"d{number % 40}",
            )
        )
    return made


def test_confidence_is_the_probability_that_an_answer_is_right() -> None:
    other = answers(400, "cakes", seed=6)
    model = fit_model(answers(800))
    assert model.sources == {"bread": 800}
    said = Measured(
        "new",
        np.array([estimate(model, each) or 0.0 for each in other]),
        np.array([float(each.right) for each in other]),
        [each.cluster for each in other],
    )
    assert brier_ratio(said) < 0.75
    assert area_ratio(said) < 0.6
    for low in (0.0, 0.25, 0.5, 0.75):
        within = (said.confidence >= low) & (said.confidence < low + 0.25)
        assert abs(said.confidence[within].mean() - said.right[within].mean()) < 0.1


def test_what_a_model_was_not_fitted_on_has_no_confidence() -> None:
    model = fit_model([*answers(200), *answers(200, way="generated", replied_by="small@2"), *answers(9, way="cell")])
    one = answers(1)[0]
    assert estimate(model, one) is not None
    for other in (replace(one, way="cell"), replace(one, way=""), replace(one, status="unanswerable")):
        assert estimate(model, other) is None
    generated = replace(one, way="generated", replied_by="small@3")
    assert estimate(model, generated) is not None
    assert estimate(model, replace(generated, replied_by="gpt-4o")) is None
    unread = replace(one, signals={"words": 1.0})
    assert 0 < (estimate(model, unread) or 0.0) < 1, "without a cross-encoder another regression answers"


def test_answers_of_left_out_documents_are_judged_by_a_model_without_them() -> None:
    held = held_out(answers(300))
    assert len(held) == 300
    found = Measured.of("held out", held)
    assert brier_ratio(found) < 0.9
    random = np.random.default_rng(1)
    drawn = [replace(each, right=bool(random.random() < 0.5)) for each in answers(300)]
    assert brier_ratio(Measured.of("chance", held_out(drawn))) < 1.06, "signals that say nothing hardly harm"


def test_too_few_answers_make_no_model() -> None:
    with pytest.raises(InputError, match="not enough"):
        fit_model(answers(9))


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    model, file = fit_model(answers(60)), tmp_path / "mine.json"
    file.write_text(model.model_dump_json())
    again = load_confidence(str(file))
    assert again == model
    assert again is not None
    assert again.digest == model.digest
    assert load_confidence("none") is None
    body = json.loads(model.model_dump_json())
    body["heads"]["answered"]["signals"][0] = "mood"
    file.write_text(json.dumps(body))
    with pytest.raises(ConfigError, match="does not record: mood"):
        load_confidence(str(file))


def test_the_shipped_model_knows_every_common_kind_of_answer() -> None:
    model = load_confidence("shipped")
    assert model is not None
    assert {"answered/span", "answered/cell", "answered/calculation", "unanswerable/span"} <= set(model.fitted)
    assert sum(model.sources.values()) == sum(model.fitted.values())


@pytest.mark.parametrize(
    ("status", "said", "golds", "right"),
    [
        ("answered", "$6 million", ("$5 million",), False),
        ("answered", "It was $5 million.", ("$5 million",), True),
        ("answered", "Mara Lind of Alder", ("Mara Lind",), True),
        ("answered", "Otto Voss", ("Mara Lind",), False),
        ("answered", "Mara Lind", ("The one who has led the bakery since 2011 is Mara Lind.",), True),
        ("answered", "since 2009", ("The one who has led the bakery since 2011 is Mara Lind.",), False),
        ("answered", "Otto Voss", ("unanswerable",), False),
        ("unanswerable", "", ("unanswerable",), True),
        ("unanswerable", "", ("Mara Lind",), False),
    ],
)
def test_which_answers_are_right(status: str, said: str, golds: tuple[str, ...], right: bool) -> None:
    gold = GoldQuestion(Gold(Question("q", "Who has led the bakery since 2011?", answers=golds), ""), (), "d")
    assert is_right({"status": status, "answer": said, "answer_type": "", "value": None}, gold) == right


def test_the_area_of_a_right_a_wrong_and_no_order() -> None:
    wrong = np.array([0.0, 0.0, 1.0, 1.0])
    sure = np.array([0.9, 0.8, 0.3, 0.2])
    coverage, risk = risks(sure, wrong)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk == pytest.approx([0, 0, 1 / 3, 0.5])
    best, random = area(sure, wrong)
    worst, same = area(-sure, wrong)
    assert random == same == 0.5
    assert best == pytest.approx((1 / 3 + 0.5) / 4)
    assert best < 0.5 < worst
    assert area(np.full(4, 0.7), wrong) == pytest.approx((0.5, 0.5)), "equal confidences tell nothing"


def test_weights_count_answers_more_than_once() -> None:
    sure, wrong = np.array([0.9, 0.5, 0.1]), np.array([0.0, 1.0, 0.0])
    twice = area(np.array([0.9, 0.9, 0.5, 0.1]), np.array([0.0, 0.0, 1.0, 0.0]))
    assert area(sure, wrong, np.array([2.0, 1.0, 1.0])) == pytest.approx(twice)


def test_intervals_hold_the_figure_and_the_diagram_its_groups() -> None:
    random = np.random.default_rng(3)
    sure = random.random(200)
    right = (random.random(200) < sure).astype(np.float64)
    measured = Measured("spans", sure, right, [f"d{n % 40}" for n in range(200)])
    for figure in (area_ratio, brier_ratio):
        found = with_interval(measured, figure)
        assert found.interval is not None
        assert found.value is not None
        assert found.interval[0] <= found.value <= found.interval[1] < 1.0
    assert diagrams([measured]).count("<circle") == 10
