from __future__ import annotations

import pytest

from okralong.lab.datasets.base import DataSet, make_text
from okralong.lab.datasets.split import SIDES, Side, Split
from okralong.lab.datasets.split_build import LEFT_OUT, build_split, card
from okralong.pipelines.core.types import InputError
from tests.evaluation.split.invented import TEST_FIRST, Asked, data_set, rule, rules, text_of


def sides_of(split: Split, dataset: DataSet) -> list[Side | None]:
    return [split.side_of(item) for item in dataset.items]


def test_the_strictest_rule_of_a_component_decides() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak", "Elm"], []), ("b?", ["Elm"], []), ("c?", ["Fir"], [])])
    exam = data_set("exam", "all", [("d?", ["Oak"], [])])
    split, account = build_split([lessons, exam], TEST_FIRST)
    assert sides_of(split, lessons) == ["test", "test", "train"]
    assert sides_of(split, exam) == ["test"]
    assert account.components == [3, 1]


def test_a_question_asked_on_two_sides_stays_on_the_stricter_one() -> None:
    lessons = data_set("lessons", "train", [("Who founded it?", ["Oak"], []), ("How old is it?", ["Oak"], [])])
    exam = data_set("exam", "all", [("WHO founded it", ["Elm"], [])])
    split, account = build_split([lessons, exam], TEST_FIRST)
    assert sides_of(split, lessons) == [None, "train"]
    assert sides_of(split, exam) == ["test"]
    assert account.counts["lessons/train"] == {"train": 1, "validation": 0, "tune": 0, "test": 0, LEFT_OUT: 1}
    assert account.shared == [("lessons/train", "exam/all", 1)]


def test_the_same_text_with_evidence_joins_documents_of_other_names() -> None:
    paragraph = make_text("page-7", text_of("Oak"))
    lessons = data_set("lessons", "train", [("a?", ["Oak"], [])])
    exam = data_set("exam", "all", [("b?", ["Oak"], [])])
    renamed = DataSet("exam", "all", {paragraph.text_id: paragraph}, exam.items)
    split, _ = build_split([lessons, renamed], TEST_FIRST)
    assert sides_of(split, lessons) == ["test"]


def test_distractors_that_two_sides_carry_belong_to_the_stricter() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], ["Moss", "Fern", "Elm"])])
    exam = data_set("exam", "all", [("b?", ["Elm"], ["Moss", "Oak"])])
    split, account = build_split([lessons, exam], TEST_FIRST)
    train, test = split.filter(lessons, "train"), split.filter(exam, "test")
    assert {text.document for text in train.texts.values()} == {"Oak", "Fern"}
    assert {text.document for text in test.texts.values()} == {"Elm", "Moss"}
    assert set(train.items[0].text_ids) == set(train.texts)
    assert account.kept == {"lessons/train": 0.5, "exam/all": pytest.approx(2 / 3)}
    assert split.filter(lessons, "test") == DataSet("lessons", "train", {}, ())


def test_a_distractor_without_a_settled_document_gets_a_side_of_its_own() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], ["Moss"])])
    exam = data_set("exam", "all", [("b?", ["Elm"], ["Moss"])])
    moss = make_text("Moss", text_of("Moss"))
    other = make_text("another name", text_of("Moss"))
    renamed = DataSet("exam", "all", {**exam.texts, moss.text_id: other}, exam.items)
    split, _ = build_split([lessons, renamed], TEST_FIRST)
    assert split.text_side(moss.text_id) == "test"
    assert moss.text_id not in split.filter(lessons, "train").texts
    assert moss.text_id in split.filter(renamed, "test").texts
    assert split.text_side(make_text("Oak", text_of("Oak")).text_id) is None


def test_a_corpus_counts_as_carried_by_every_side_of_its_set() -> None:
    exam = data_set("exam", "all", [("b?", ["Elm"], [])], loose=["Moss", "Fern"])
    lessons = data_set("lessons", "train", [("a?", ["Oak"], ["Moss"])])
    split, _ = build_split([exam, lessons], TEST_FIRST)
    assert {text.document for text in split.filter(exam, "test").texts.values()} == {"Elm", "Moss", "Fern"}
    assert {text.document for text in split.filter(lessons, "train").texts.values()} == {"Oak"}


def test_shares_come_out_by_questions_and_the_draw_is_the_seeds() -> None:
    asked: list[Asked] = [(f"{n}-{i}?", [f"Town {n}"], []) for n in range(60) for i in range(1 + n % 5)]
    chosen = rule(["lessons"], train=0.5, validation=0.1, tune=0.1, test=0.3)
    lessons = data_set("lessons", "train", asked)
    split, account = build_split([lessons], rules(chosen))
    got = account.counts["lessons/train"]
    assert sum(got.values()) == len(asked) == 180
    assert all(abs(got[side] / 180 - chosen.shares[side]) < 0.03 for side in SIDES)
    again, _ = build_split([data_set("lessons", "train", asked)], rules(chosen))
    assert again == split
    turned, _ = build_split([data_set("lessons", "train", asked[::-1])], rules(chosen))
    assert turned == split
    other, _ = build_split([lessons], rules(chosen, seed=2))
    assert (other.questions, other.documents) != (split.questions, split.documents)


def test_a_set_of_two_documents_has_two_sides() -> None:
    dev = data_set("dev", "dev", [("a?", ["Oak"], []), ("b?", ["Elm"], [])])
    split, _ = build_split([dev], TEST_FIRST)
    assert set(sides_of(split, dev)) == {"tune", "test"}


def test_what_no_rule_covers_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="No rule of the split covers guesses/dev"):
        build_split([data_set("guesses", "dev", [("a?", ["Oak"], [])])], TEST_FIRST)
    with pytest.raises(InputError, match="no questions to split"):
        build_split([], TEST_FIRST)


def test_unknown_questions_get_no_side() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], [])])
    split, _ = build_split([lessons], TEST_FIRST)
    fuller = data_set("lessons", "train", [("a?", ["Oak"], []), ("b?", ["Oak"], [])])
    assert sides_of(split, fuller) == ["train", None]
    with pytest.raises(InputError, match=r"does not know 1 of the 2 questions of lessons/train .*lessons-train-1"):
        split.filter(fuller, "train")


def test_the_card_has_every_source_and_the_totals() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], []), ("b?", ["Fir"], [])])
    exam = data_set("exam", "all", [("a?", ["Elm"], [])])
    split, account = build_split([lessons, exam], TEST_FIRST)
    written = card(account, split, TEST_FIRST)
    assert "| lessons/train | 1 | 0 | 0 | 0 | 1 | 2 |" in written
    assert "| all | 1 | 0 | 0 | 1 | 1 | 3 |" in written
    assert "| lessons/train | exam/all | 1 |" in written


def test_a_set_of_a_later_round_follows_what_it_shares_and_moves_nothing() -> None:
    old = data_set("old", "all", [(f"old {n}?", [f"tree {n}"], []) for n in range(40)])
    first = rules(rule(["old"], train=0.5, test=0.5))
    before, _ = build_split([old], first)
    new = data_set("new", "all", [(f"new {n}?", [f"tree {n}"], []) for n in range(30, 60)])
    later = rules(*first.rules, rule(["new"], round=2, test=1.0))
    split, account = build_split([new, old], later)
    assert sides_of(split, old) == sides_of(before, old)
    assert sides_of(split, new)[:10] == sides_of(before, old)[30:]
    assert set(sides_of(split, new)[10:]) == {"test"}
    assert "| 2 | new | test 1 | for the test |" in card(account, split, later)


def test_a_later_set_that_joins_two_components_takes_the_stricter_side() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], [])])
    exam = data_set("exam", "all", [("b?", ["Elm"], [])])
    both = data_set("both", "all", [("c?", ["Oak", "Elm"], [])])
    split, _ = build_split([lessons, exam, both], rules(*TEST_FIRST.rules, rule(["both"], round=2, train=1.0)))
    assert [sides_of(split, each) for each in (lessons, exam, both)] == [["test"], ["test"], ["test"]]
