"""How probably an answer is right: by the passage that it cites, and by what that says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from okralong.pipelines.answering.agreement import agreement
from okralong.pipelines.answering.confidence import AROUND_CITATION, with_confidence
from okralong.pipelines.answering.signal_names import known
from okralong.pipelines.answering.signals import asked_kind, kind_fits, reading_signals
from okralong.pipelines.core.types import Answer, Chunk, Citation, Passage, Reading
from tests.answering.test_reading import CHUNK, OTHER, START, TEXT, tools


def passage(chunk: Chunk) -> Passage:
    return Passage(chunk.doc_id, chunk.start_char, chunk.end_char, chunk.text, chunk.n_tokens, 1.0)


def support(question: str, answer: Answer, text: str, reading: Reading) -> float:
    return reading_signals(question, answer, [text], [reading])["support"]


async def test_an_answer_is_judged_by_the_passage_that_it_cites(tmp_path: Path) -> None:
    readings = {TEXT: Reading(1.0, 0.2, START, START + 5, 0.8), OTHER.text: Reading(2.0, 0.9, 0, 5, 0.9)}
    cited = Citation("d", 1000 + START, 1005 + START, "1,204")
    given = Answer("answered", "1,204", (cited,), context=(passage(CHUNK), passage(OTHER)))
    judged = await with_confidence(tools(tmp_path, readings), "q", given)
    assert judged.signals["support"] == pytest.approx(0.2)
    elsewhere = replace(given, answer=OTHER.text[:5], citations=())
    uncited = await with_confidence(tools(tmp_path, readings), "q", elsewhere)
    assert uncited.signals["support"] == pytest.approx(0.9)
    refused = await with_confidence(tools(tmp_path, readings), "q", Answer("unanswerable", "", context=given.context))
    assert refused.signals["answerable"] == pytest.approx(0.9)
    # The passage holds an answer, and by how sure its place is it is not this one.
    wrong = await with_confidence(tools(tmp_path, readings), "q", replace(given, answer="99 crowns"))
    assert wrong.signals["support"] == pytest.approx(0.2 * (1 - math.sqrt(0.8)))


def test_an_amount_is_supported_by_the_row_whose_label_is_read() -> None:
    text = "Sales of 2023\nBread  1,204\nCakes  977"
    shown = Passage("d", 0, len(text), text, 9, 1.0)
    label = Reading(1.0, 0.8, text.index("Bread"), text.index("Bread") + 5, 1.0)
    for said, share in (("1,204", 0.8), ("977", 0.0), ("Cakes", 0.0)):
        given = Answer("answered", said, context=(shown,))
        assert support("How much bread?", given, text, label) == pytest.approx(share)


def test_a_year_in_the_answer_does_not_take_the_sentence_for_the_place() -> None:
    text = "Mara Lind succeeded Otto Voss in 2019 as chair of the board."
    shown = Passage("d", 0, len(text), text, 9, 1.0)
    wrong = Answer("answered", "Otto Voss, since 2019", context=(shown,))
    assert support("Who is chair?", wrong, text, Reading(1.0, 0.9, 0, 9, 1.0)) == 0.0


def test_the_place_is_of_whole_words() -> None:
    text = "It has 462,118 inhabitants."
    given = Answer("answered", "462,118", context=(Passage("d", 0, len(text), text, 9, 1.0),))
    assert support("How many?", given, text, Reading(1.0, 0.9, 7, 10, 1.0)) == 0.9


async def test_of_a_long_passage_the_place_is_in_the_part_that_is_judged(tmp_path: Path) -> None:
    text = "Nothing here. " * 400 + "Alder sold 1,204 loaves. " + "Nothing here. " * 400
    at = text.index("1,204")
    shown = Passage("d", 100, 100 + len(text), text, 3000, 1.0, origin="full")
    cited = Citation("d", 100 + at, 105 + at, "1,204")
    begin = at - AROUND_CITATION
    part = text[begin : at + AROUND_CITATION]
    read = {part: Reading(1.0, 0.9, at - begin, at - begin + 5, 1.0)}
    for said, share in (("1,204", 0.9), ("1,205", 0.0)):
        given = Answer("answered", said, (cited,), context=(shown,))
        judged = await with_confidence(tools(tmp_path, read), "q", given)
        assert judged.signals["support"] == pytest.approx(share)


@pytest.mark.parametrize(
    ("question", "answer", "place", "share"),
    [
        ("How much?", "It was $1,204 million.", "1204", 1.0),
        ("How much?", "1,204", "In 2023 Alder sold 1,204 loaves", 1.0),
        ("How much?", "1,205", "1,204", 0.0),
        ("How much?", "$9.7 million", "$5.2 million", 0.0),
        ("How much?", "$1.2 billion", "$1,200 million", 1.0),
        ("How much?", "a fall of 5%", "(5.0)%", 1.0),
        ("How much did Alder or its partners pay in 2023?", "2023", "1,204", 0.0),
        ("When?", "June 2023", "May 2023", 0.0),
        ("When?", "2023-03-05", "March 5, 2023", 1.0),
        ("When?", "In March 2023", "March 5, 2023", 1.0),
        ("In which month?", "June", "May", 0.0),
        ("Who leads Alder?", "Mara Lind", "Mara Voss", 0.5),
        ("Who leads Alder?", "Will Smith", "Bob Smith", 0.5),
        ("Who leads Alder?", "Zo\u00eb M\u00fcller", "Zoe\u0308 Mu\u0308ller", 1.0),
        ("Who leads Alder?", "M\u00fcller", "M\u00f6ller", 0.0),
        ("Where?", "US", "France", 0.0),
        ("Where?", "\u6771\u4eac", "\u5927\u962a", 0.0),
        ("Did Alder sell bread?", "No", "bread", 1.0),
        ("Did Alder sell bread?", "Yes, Alder sold bread.", "1,204 loaves", 1.0),
        ("Did revenue increase or decrease?", "It increased.", "1,204", 1.0),
        ("WHICH IS OLDER, ALDER OR BIRCH?", "Alder, founded in 1902", "1911", 1.0),
        ("Between Alder and Birch, which is older?", "Alder", "1902", 1.0),
        ("Which mill of Alder is older?", "Alder", "Birch", 0.0),
        ("Why?", "bread", "", 1.0),
        ("Why?", "", "bread", 1.0),
    ],
)
def test_an_answer_agrees_with_the_place_where_one_stands(question: str, answer: str, place: str, share: float) -> None:
    assert agreement(question, answer, place) == share


async def test_what_cannot_be_judged_stays_without(tmp_path: Path) -> None:
    none = tools(tmp_path, {})
    over = Answer("over_budget", "")
    assert await with_confidence(none, "q", over) is over
    assert (await with_confidence(none, "q", Answer("answered", "x"))).confidence is None


async def test_signals_say_how_an_answer_was_found_and_what_holds_it(tmp_path: Path) -> None:
    readings = {TEXT: Reading(1.0, 0.2, START, START + 5, 0.8), OTHER.text: Reading(2.0, 0.9, 0, 5, 0.9)}
    cited = Citation("d", 1000 + START, 1005 + START, "1,204")
    own = {"span_probability": 0.7}
    given = Answer("answered", "1,204", (cited,), context=(passage(CHUNK), passage(OTHER)), way="span", signals=own)
    judged = await with_confidence(tools(tmp_path, readings), "How many loaves did Xanadu sell in 1999?", given)
    expected = {"answerable": 0.9, "answerable_second": 0.2, "answerable_cited": 0.2, "held_cited": 1.0, **own}
    assert {name: pytest.approx(judged.signals[name]) for name in expected} == expected
    assert (judged.signals["asks_number"], judged.signals["kind_fits"]) == (1.0, 1.0)
    assert judged.signals["names_shown"] == judged.signals["years_shown"] == 0.0
    assert await with_confidence(tools(tmp_path, {}), "q", judged) is judged, "nothing is read twice"


def test_a_signal_without_a_meaning_is_refused() -> None:
    assert known({"words": 1, "answerable": 0.5}) == {"answerable": 0.5, "words": 1.0}
    with pytest.raises(ValueError, match="Unknown signals: mood"):
        known({"mood": 1.0})


@pytest.mark.parametrize(
    ("question", "kind", "fits", "misfits"),
    [
        ("How many loaves did Alder sell?", "number", "1,204", "many loaves"),
        ("In which year was Alder founded?", "date", "1902", "in Birch"),
        ("Did Alder sell bread?", "yes_no", "No, cakes", "1,204"),
        ("Who leads Alder?", "person", "Mara Lind", "a baker"),
    ],
)
def test_the_kind_that_a_question_asks_for(question: str, kind: str, fits: str, misfits: str) -> None:
    assert asked_kind(question) == kind
    assert (kind_fits(kind, fits), kind_fits(kind, misfits)) == (True, False)
