"""The kind of answer that a question asks for, and answers that contradict it."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.answer_kinds import UNKNOWN, Kind, fits, kind_asked, refused_if_other, repeats
from okralong.pipelines.answering.readers.spans import span_answer
from okralong.pipelines.core.types import Answer, Passage, Reading


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Which company repurchased shares worth more than a billion dollars?", "organisation"),
        ("For which firm did the director work before?", "organisation"),
        ("What is the name of the company that leases the plant?", "organisation"),
        ("Who audits the accounts?", "who"),
        ("According to the report, who leads the segment?", "who"),
        ("Did Alder have more employees than Birch?", "yes/no"),
        ("In 2020, was a dividend paid?", "yes/no"),
        ("Did Alder mention any mergers or acquisitions?", "yes/no"),
        ("How many people does Alder employ?", "count"),
        ("How much money did Alder owe?", "money"),
        ("What percentage of sales came from exports?", "percent"),
        ("In which town was the founder born?", "place"),
        ("When was Alder founded?", "date"),
        ("In which year did sales peak?", "date"),
        ("What was the total number of warranty claims?", "count"),
        ("What was Alder's net income in 2020?", "amount"),
    ],
)
def test_the_kind_follows_from_the_grammar(question: str, kind: str) -> None:
    assert kind_asked(question).name == kind


@pytest.mark.parametrize(
    "question",
    [
        "What is the company policy on travel?",
        "What factors could cause fluctuations in net sales?",
        "Which state law governs the contract?",
        "Can you name the partners?",
        "When is goodwill considered impaired?",
        "Why did sales fall?",
        "What was the state of the plant?",
        "What is the role of the board?",
        "",
    ],
)
def test_other_wordings_ask_for_no_kind(question: str) -> None:
    assert kind_asked(question) == UNKNOWN
    assert fits(kind_asked(question), "$3.1 billion")


def test_choices_are_those_of_the_question() -> None:
    asked = kind_asked("Which company reports more claims: Alder for 2021 or Birch for 2019?")
    assert asked == Kind("choice", ("Alder for 2021", "Birch for 2019"))
    assert fits(asked, "Birch")
    assert not fits(asked, "Cedar")
    assert not fits(asked, "$4 million")
    moved = kind_asked("Did sales increase or decrease in 2020?")
    assert fits(moved, "It decreased")
    assert not fits(moved, "$4 million")


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (
            "organisation",
            ["3M", "eBay", "20th Century Fox", "Alder & Sons"],
            ["$3.1 billion", "2019", "Yes", "Dr. Ann Lee"],
        ),
        ("person", ["Ann Lee", "the king"], ["Alder Holdings Inc.", "approximately 14,000", "May 4, 2019"]),
        ("who", ["Alder Inc.", "monks"], ["14,000 employees", "12 %", "no"]),
        ("yes/no", ["Yes", "No, it did not", "The plan is closed to new members."], ["approximately 14,000", "Alder"]),
        ("count", ["14,000", "two", "several hundred", "none"], ["$3.1 billion", "Alder", "May 4, 2019"]),
        ("percent", ["12 %", "12.5", "a third"], ["$3.1 billion", "Alder"]),
        ("money", ["$3.1 billion", "34,229"], ["12 %", "Alder"]),
        ("date", ["May 4, 2019", "2019", "early spring"], ["$3.1 billion", "12 %", "Alder"]),
    ],
)
def test_answers_fit_unless_they_contradict_the_kind(kind: str, right: list[str], wrong: list[str]) -> None:
    assert [each for each in right if not fits(Kind(kind), each)] == []  # type: ignore[arg-type]
    assert [each for each in wrong if fits(Kind(kind), each)] == []  # type: ignore[arg-type]


_TEXT = "Alder Inc. bought back shares for $3.1 billion."
_SHOWN = [Passage("report", 0, len(_TEXT), _TEXT, 12, 1.0)]


def _reading(others: tuple[tuple[int, int, float], ...]) -> Reading:
    start = _TEXT.index("$3.1")
    return Reading(1.0, 0.9, start, len(_TEXT) - 1, 0.6, others)


def test_the_best_span_of_the_kind_is_chosen() -> None:
    asked = kind_asked("Which company bought back shares?")
    found = span_answer(_SHOWN, [_reading(((0, 10, 0.3),))], asked)
    assert (found.status, found.answer.rstrip(".")) == ("answered", "Alder Inc")
    assert span_answer(_SHOWN, [_reading(((0, 10, 0.3),))]).answer == "$3.1 billion"


@pytest.mark.parametrize("others", [(), ((0, 10, 0.002),)])
def test_without_a_likely_span_of_the_kind_there_is_no_answer(others: tuple[tuple[int, int, float], ...]) -> None:
    found = span_answer(_SHOWN, [_reading(others)], kind_asked("Which company bought back shares?"))
    assert found.status == "unanswerable"
    assert "a company or organisation" in found.error
    assert found.context == tuple(_SHOWN)


def test_who_holds_an_office_is_a_person() -> None:
    asked = kind_asked("Who is the chief executive officer of Alder?")
    assert asked == Kind("person") == kind_asked("Who was Alder's CFO in 2022?")
    assert not fits(asked, "Deloitte & Touche LLP")
    assert kind_asked("Who is the auditor of Alder?") == Kind("who")


def test_a_name_that_the_question_has_is_no_answer_unless_it_is_offered() -> None:
    question = "Which company was bought by Alder Inc. for money?"
    assert repeats(question, "Alder Inc.")
    assert repeats(question, "Alder, Incorporated.")
    assert not repeats(question, "Alder Services")
    assert not repeats("Which one was older, Alder Inc. or Birch?", "Alder Inc.")
    found = span_answer(_SHOWN, [_reading(((0, 10, 0.6),))], kind_asked(question), question)
    assert (found.status, found.context) == ("unanswerable", tuple(_SHOWN))
    refused = refused_if_other(question, Answer("answered", "Alder Inc."))
    assert refused.error == "The reply repeats the question: Alder Inc."


def test_a_reply_of_another_kind_is_no_answer() -> None:
    question = "Did Alder have more employees than Birch?"
    refused = refused_if_other(question, Answer("answered", "approximately 14,000"))
    assert refused.status == "unanswerable"
    assert "approximately 14,000" in refused.error
    assert refused_if_other(question, Answer("answered", "Yes")).status == "answered"
