"""Which cells a rule of ``notify`` matches, what the message says, and which rules are refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.nightly import NightlyConfig
from okralong.pipelines.run.notify import (
    MOST_CELLS,
    News,
    Report,
    Rule,
    Value,
    matching,
    restored,
    stored,
    unknown_questions,
)

MAIL = "mailto://mail.example:25?from=okralong@desk.example&to=desk@desk.example"


def rule(*when: str, **more: Any) -> Rule:
    return Rule.model_validate({"when": list(when), "to": [MAIL], **more})


def money(number: float | None, unit: str = "USD", status: str = "answered") -> Value:
    return Value(status, f"{number} {unit}" if number is not None else "", number, unit)


def cell(before: Value, after: Value, change: str = "changed", **more: Any) -> News:
    known: dict[str, Any] = {"names": ("revenue@acme", "revenue"), "question": "Revenue?", "documents": ("acme",)}
    return News(**{**known, "change": change, "before": before, "after": after, **more})


NONE = Value("unanswerable")


@pytest.mark.parametrize(
    ("when", "before", "after", "holds"),
    [
        ("moved more than 5 %", money(100), money(105), False),
        ("moved more than 5 %", money(100), money(105.1), True),
        ("moved by more than 5%", money(-100), money(-94), True),
        ("moved 5 %", money(0), money(1), True),
        ("moved more than 5 %", money(100), money(100, "EUR"), True),
        ("moved more than 5 %", NONE, money(100), False),
        ("above 1,000", money(900), money(1001), True),
        ("above 1,000", money(1001), money(1002), False),
        ("above 1e3", Value(), money(1001), True),
        ("above 12 %", money(11, "%"), money(13, "%"), True),
        ("above 12 %", money(11), money(13), False),
        ("below 0", money(1), money(-1), True),
        ("below -0.5", money(1), money(-0.5), False),
        ("vanished", money(1), NONE, True),
        ("vanished", money(1), Value("failed"), False),
        ("disclosed", NONE, money(1), True),
        ("disclosed", Value("failed"), money(1), False),
        ("changed", money(1), money(2), True),
        ("night failed", money(1), money(2), False),
    ],
)
def test_a_condition_holds_or_not(when: str, before: Value, after: Value, holds: bool) -> None:
    assert bool(matching(rule(when), [cell(before, after)])) is holds


def test_only_the_kinds_of_change_that_a_word_means() -> None:
    kinds = ("changed", "newly_answered", "newly_unanswerable", "failed", "new_question", "moved", "gone")
    found = {kind: bool(matching(rule("changed"), [cell(money(1), money(2), kind)])) for kind in kinds}
    assert [kind for kind, held in found.items() if held] == list(kinds[:4])
    assert matching(rule("new"), [cell(Value(), money(2), "new_question")])


def test_a_correction_is_told_beside_another_change() -> None:
    news = [cell(money(1), money(1), "corrected", corrected=True), cell(money(1), money(2), corrected=True)]
    assert [each.reasons(rule("corrected")) for each in news] == [["corrected"], ["corrected"]]
    assert [each.reasons(rule("changed")) for each in news] == [[], ["changed"]]
    assert not matching(rule("corrected"), [cell(money(1), money(2))])


def test_questions_and_documents_narrow_a_rule() -> None:
    news = [cell(money(1), money(2))]
    assert matching(rule("changed", questions="revenue", documents="ac*"), news)
    assert matching(rule("changed", questions=["revenue@*"]), news)
    assert not matching(rule("changed", questions=["income"]), news)
    assert not matching(rule("changed", documents=["beta"]), news)


def test_a_failed_check_is_reported_at_the_value_that_changed() -> None:
    check = ("assets = liabilities + equity", "100 and 90")
    changed = cell(money(1), money(1000), names=("assets@acme", "assets"), checks=(check,))
    beside = cell(money(5), money(5), "", names=("equity@acme", "equity"), checks=(check,))
    assert [each.name for each in matching(rule("check failed"), [changed, beside])] == ["assets"]
    assert [each.name for each in matching(rule("check failed"), [beside])] == ["equity"]
    assert [each.name for each in matching(rule("check failed", questions=["equity"]), [changed, beside])] == ["equity"]


def test_a_message_says_what_changed_and_where() -> None:
    rules = [rule("changed", "over budget"), rule("moved 5 %", questions="revenue")]
    news = [
        cell(
            money(100),
            money(200),
            source="acme, page 12",
            link="https://files.example/acme.pdf#page=12",
            cause="document",
            checks=(("revenue > 0", "<b>200</b>"),),
        )
    ]
    cells = restored(stored(rules, news))
    report = Report("2026-11-28", cells, over_budget="The budget is used up.", table="nights/differences.html")
    [(_, message)] = report.messages(rules).values()
    assert message.title == "okralong, night 2026-11-28: over budget, 1 cell"
    assert message.kind == "failure"
    assert message.text.split("\n\n") == [
        "The budget is used up.",
        "revenue, acme: its answer changed, moved more than 5 %\n  question: Revenue?\n  before: 100 USD\n"
        "  after: 200 USD\n  cause: document\n  check failed: revenue > 0: <b>200</b>\n"
        "  source: acme, page 12 https://files.example/acme.pdf#page=12",
        "all differences: nights/differences.html",
    ]
    assert '<a href="https://files.example/acme.pdf#page=12">acme, page 12</a>' in message.html
    assert "&lt;b&gt;200" in message.html
    assert "<b>200" not in message.html


def test_a_message_is_bounded_and_none_is_sent_about_nothing() -> None:
    news = [
        cell(money(1), Value("answered", "x" * 9_000), names=(f"revenue@{n}", "revenue"), documents=(f"d{n}",))
        for n in range(MOST_CELLS + 7)
    ]
    rules = [rule("changed")]
    [(_, message)] = Report("n", restored(stored(rules, news))).messages(rules).values()
    assert "and 7 more in the table of differences" in message.text
    assert len(message.text) < MOST_CELLS * 500
    assert Report("n", restored(stored(rules, [])), failed="It broke.").messages(rules) == {}
    assert Report("n", failed="It broke.").messages([rule("night failed")])[MAIL][1].text == "It broke."


def refused(to: Any = MAIL, **more: Any) -> str:
    text = {"folder": "n", "archive": "a", "sources": ["s"], "questions": "q.jsonl"}
    text |= {"notify": [{"when": ["changed"], "to": to, **more}]}
    with pytest.raises(ConfigError) as error:
        parse_config(NightlyConfig, yaml.safe_dump(text), "nightly.yaml")
    return str(error.value)


SECRET = "hunter2hunter2hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"mailto://me:{SECRET}@mail.example",
        f"slack://{SECRET}/b/c",
        f"json://host.example/hooks/{SECRET}",
        f"json://host.example/hooks/v1.{SECRET}.x",
        f"json://host.example/hooks%2F{SECRET}",
        f"json://me:{SECRET}@host.example/",
        f"json://host.example/?key={SECRET}",
        f"mailto://mail.example?pass={SECRET}",
        f"json://[{SECRET}",
        f"https://hooks.slack.com/services/{SECRET}",
        SECRET,
        {"env": SECRET},
        {"env": "NAME", "url": SECRET},
        {"environment": SECRET},
        [SECRET],
    ],
)
def test_a_secret_in_the_config_is_refused_and_not_repeated(url: Any) -> None:
    for to in ([MAIL, url], url):
        said = refused(to)
        assert said.startswith(
            f"nightly.yaml cannot be used: notify.0.to.{1 if isinstance(to, list) and to is not url else 0}"
        )
        assert "to: [{env: OKRALONG_NOTIFY_URL}]" in said
        assert SECRET not in said


def test_plain_urls_and_variables_are_accepted() -> None:
    rule("changed", to=[MAIL, "json://host.example:8080/hooks/desk", {"env": "OKRALONG_NOTIFY_URL"}])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"when": ["chnaged"]}, "notify.0.when.0 = 'chnaged': it is no condition (did you mean changed?)"),
        ({"when": ["above ten"]}, "moved more than N %, above N or below N"),
        ({"when": ["moved more than 0 %"]}, "its number is out of range"),
        ({"when": ["above 1e999"]}, "its number is out of range"),
        ({"when": []}, "notify.0.when"),
        ({"to": []}, "notify.0.to"),
        ({"question": ["a"]}, "notify.0.question is not a known key (did you mean notify.questions?)"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(more: dict[str, Any], says: str) -> None:
    assert says in refused(**{"to": [MAIL], **more})


def test_questions_that_are_not_asked_are_named() -> None:
    rules = [rule("changed"), rule("changed", questions=["revenue", "revnue", "net_*"])]
    assert unknown_questions(rules, ["revenue", "assets"]) == [
        "notify.1.questions.1 = 'revnue' matches no question or column (did you mean revenue?)",
        "notify.1.questions.2 = 'net_*' matches no question or column",
    ]
