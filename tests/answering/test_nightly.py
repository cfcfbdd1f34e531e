"""Which questions a night asks, which nights go, and how a night's state is kept; without Ray."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.run import nightly
from okralong.pipelines.run.nightly import (
    PHASES,
    Current,
    Keep,
    Merged,
    Night,
    NightlyConfig,
    due,
    expired,
    next_night,
    only,
)
from okralong.pipelines.run.prepare import Prepared, Scoped

NOW = datetime(2026, 11, 25, 1, 0, tzinfo=UTC)
DOCUMENTS = {"a": "1", "b": "1"}


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """Three questions, over a, over b and over all, and one whose scope names nothing."""
    monkeypatch.setattr(nightly, "setup_of", lambda _: "setup")
    questions = [
        Scoped(Question("a", "What of a?", ("a",)), ("a",)),
        Scoped(Question("b", "What of b?", ("b*",)), ("b",)),
        Scoped(Question("all", "What of all?"), ()),
    ]
    given: Any = dict.fromkeys(Prepared.__dataclass_fields__)
    unscoped = [(Question("none", "What of c?", ("c",)), "no such document")]
    return Prepared(**given | {"questions": questions, "unscoped": unscoped, "bad": []})


def current(prepared: Prepared, **statuses: str) -> Current:
    """All of it answered over the documents as they were."""
    asked = [(each.question, each.doc_ids) for each in prepared.questions]
    asked += [(question, question.doc_ids) for question, _ in prepared.unscoped]
    answers = {
        question.query_id: {
            "question": question.question,
            "answer_type": question.answer_type,
            "doc_ids": list(doc_ids),
            "status": statuses.get(question.query_id, "answered"),
        }
        for question, doc_ids in asked
    }
    origins = {query_id: {"setup": "setup"} for query_id in answers}
    return Current(Folder.of("."), {}, answers, origins, DOCUMENTS)


def test_nothing_is_due_when_nothing_changed(prepared: Prepared) -> None:
    assert due(prepared, current(prepared, none="failed"), DOCUMENTS, ["failed"]) == {}
    empty = Current(Folder.of("."), {}, {}, {}, {})
    assert due(prepared, empty, DOCUMENTS, []) == dict.fromkeys(("a", "b", "all", "none"), "new questions")


@pytest.mark.parametrize(
    ("documents", "wanted"),
    [
        ({"a": "2", "b": "1"}, {"a", "all"}),
        ({"a": "1", "b": "1", "c": "1"}, {"all"}),
        ({"a": "1"}, {"b", "all"}),
    ],
)
def test_what_rests_on_other_documents_is_due(prepared: Prepared, documents: dict[str, str], wanted: set[str]) -> None:
    found = due(prepared, current(prepared, none="failed"), documents, ["failed"])
    assert found == dict.fromkeys(wanted, "on changed documents")
    assert {each.question.query_id for each in only(prepared, found).questions} == wanted


def test_what_is_asked_otherwise_or_had_no_answer_is_due(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    before = current(prepared, a="failed", b="over_budget", all="unanswerable", none="failed")
    assert due(prepared, before, DOCUMENTS, ["failed"]) == dict.fromkeys(("a", "b"), "no answer before")
    assert due(prepared, before, DOCUMENTS, []) == {"b": "no answer before"}
    other = replace(prepared.questions[1], doc_ids=("a", "b"))
    again = replace(prepared.questions[0], question=Question("a", "And what of a?", ("a",)))
    changed = replace(prepared, questions=[again, other, prepared.questions[2]])
    assert due(changed, current(prepared), DOCUMENTS, []) == {"a": "in other words", "b": "another scope"}
    monkeypatch.setattr(nightly, "setup_of", lambda _: "another")
    assert set(due(prepared, current(prepared), DOCUMENTS, []).values()) == {"another config"}


def test_other_checks_of_the_same_answers_are_merged_too(prepared: Prepared) -> None:
    begun = {"archive": "archive@1", "columns": ["a"], "checks": ["a > 0"]}
    held = replace(current(prepared), begun=begun)
    rows = [held.answers[query_id] for query_id in sorted(held.answers)]
    assert Merged(begun, rows, []).is_in(held)
    assert not Merged(begun | {"checks": ["a > 1"]}, rows, []).is_in(held)
    assert not Merged(begun, rows[1:], []).is_in(held)


def test_nights_are_named_by_their_day_and_kept_by_rules(tmp_path: Path) -> None:
    names = ["2026-10-01", "2026-11-20", *(f"2026-11-24{end}" for end in ("", ".2", ".10"))]
    known = [Night(name, phase="done") for name in names]
    assert [night.name for night in sorted(known, key=lambda night: night.order)] == names
    assert next_night(known, NOW).name == "2026-11-25"
    assert next_night(known, NOW.replace(day=24)).name == "2026-11-24.11"
    assert expired(known, Keep(nights=2), NOW) == names[:3]
    assert expired(known, Keep(nights=1, days=10), NOW) == names[:1]
    assert expired(known, Keep(nights=None, days=None), NOW) == []
    assert expired([replace(known[0], phase="answer"), *known[1:]], Keep(nights=1), NOW) == names[1:4]


def test_a_night_goes_on_from_its_state(tmp_path: Path) -> None:
    place = Folder.of(tmp_path / "night")
    assert Night.read(place) is None
    night = next_night([], NOW).after("index", archive_version=3, notes={"a": 1}).after("estimate", due=("x",))
    night.write(place)
    assert Night.read(place) == night
    assert (night.phase, night.spends, PHASES[-1]) == ("canaries", True, "done")
    assert not next_night([], NOW).spends


def test_the_shipped_config_is_one() -> None:
    config = load_config(NightlyConfig, "nightly.yaml")
    assert (config.budget_usd, config.retry, config.keep) == (None, ["failed"], Keep())
