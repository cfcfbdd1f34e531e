"""What the writers write is read back by the real parsers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.lab.evidence.writers import NO_ANSWER, GoldWriter, as_question
from okralong.pipelines.answering.prompts import parse_split, parse_step

PLAIN = ["Who built Alder Mill?", "Port Ellery", "When was\nthe harbour  opened"]
ODD = ["Fresnel", "B. Traven", "2. Bundesliga", "[REC] (film)", "No More", "What Is Love? (song)", "Yahoo!", '"Heroes"']


async def test_a_split_holds_all_queries() -> None:
    reply = await GoldWriter().write([*PLAIN, *ODD], "split/questions", "split", [])
    found = parse_split(reply, "the question", 20)
    assert found[:3] == ["Who built Alder Mill?", "Port Ellery?", "When was the harbour opened?"]
    assert found == [as_question(query) for query in [*PLAIN, *ODD]]
    assert found[3:5] == ["What is Fresnel?", "What is B. Traven?"]
    assert parse_split(reply, "the question", 4) == found[:4]


@pytest.mark.parametrize("query", [*PLAIN, *ODD])
def test_the_words_of_a_query_are_kept(query: str) -> None:
    kept = as_question(query)
    assert kept.removeprefix("What is ").rstrip("?").split() == query.replace("?", " ").rstrip("!").split()


async def test_a_step_asks_the_query_of_its_number_and_never_answers() -> None:
    writer = GoldWriter()
    for number, query in enumerate(ODD, start=1):
        for path in (f"step/{number}/reason", f"split/9/step/{number}/reason"):
            parsed = parse_step(await writer.write(ODD, path, "step", []))
            assert (parsed.query, parsed.answer, parsed.evidence) == (as_question(query), "", ())
    parsed = parse_step(await writer.write(ODD, f"step/{len(ODD) + 1}/reason", "step", []))
    assert (parsed.query, parsed.answer) == ("", "")


async def test_without_queries_the_question_stands_for_itself() -> None:
    writer = GoldWriter()
    assert parse_split(await writer.write([], "split/questions", "split", []), "the question", 4) == ["the question"]
    assert parse_step(await writer.write([], "step/1/reason", "step", [])).query == ""
    assert await writer.write(PLAIN, "generate", "generate", []) == NO_ANSWER


@given(st.text(max_size=500))
def test_whatever_the_query_it_is_one_question(query: str) -> None:
    asked = as_question(query)
    if query.strip(" ?.!:\t\n"):
        assert parse_split(asked, "nothing", 4) != ["nothing"]
    assert len(asked) < 400
