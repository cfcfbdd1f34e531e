"""Answers read off the passages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.models import CrossEncoder
from okralong.pipelines.answering.question_tools import QuestionTools
from okralong.pipelines.answering.readers.cell import Cell, read_value_of
from okralong.pipelines.answering.readers.comparison import Comparison, Value, direction_of, value_of
from okralong.pipelines.answering.readers.span import Span, read_sentence, read_span
from okralong.pipelines.answering.readers.spans import level_of, line_around, probability, whole_words
from okralong.pipelines.core.types import Answer, Chunk, Hit, Question, Reading
from tests.answering.test_choice_kept import KeptLog, fan_out, ports
from tests.fakes.confidence import covering
from tests.fakes.tools import ask_of, paper_policy

TEXT = "Alder sold bread.\nRevenue was 1,204 crowns in 2023. It rose.\nThe end."
CHUNK = Chunk("d:0", "d", 150, 0, 1000, 1000 + len(TEXT), 20, TEXT)
OTHER = Chunk("d:1", "d", 150, 1, 2000, 2010, 3, "Rails here")


def tools(tmp_path: Path, readings: dict[str, Reading]) -> QuestionTools:
    async def read(query: str, passages: list[str]) -> list[Reading]:
        return [readings[text] for text in passages]

    policy = paper_policy(read__types=["extractive"], read__threshold=0.4)
    answers = CrossEncoder(reads_spans=True, reads_answers=True)
    shared = replace(ports(tmp_path, answers, read=read), policy=policy, confidence=covering())
    return QuestionTools(shared, Question("q1", "q"), (), KeptLog(), fan_out)


HITS = [Hit(OTHER, 1.0), Hit(CHUNK, 0.5)]
START = TEXT.index("1,204")


async def test_the_most_probable_span_is_the_answer_and_its_line_the_source(tmp_path: Path) -> None:
    readings = {TEXT: Reading(1.0, 0.9, START, START + 5, 0.8), OTHER.text: Reading(2.0, 0.1, 0, 5, 0.9)}
    answer = await read_span(tools(tmp_path, readings), "read", "q", HITS)
    assert (answer.status, answer.answer) == ("answered", "1,204")
    (source,) = answer.citations
    assert source.quote == "Revenue was 1,204 crowns in 2023. It rose."
    assert TEXT[source.start_char - 1000 : source.end_char - 1000] == source.quote
    assert [passage.doc_id for passage in answer.context] == ["d", "d"]


async def test_under_the_threshold_the_question_is_unanswerable(tmp_path: Path) -> None:
    readings = {TEXT: Reading(1.0, 0.3, START, START + 5, 0.8), OTHER.text: Reading(2.0, 0.1, 0, 5, 0.9)}
    answer = await read_span(tools(tmp_path, readings), "read", "q", HITS)
    assert (answer.status, answer.citations) == ("unanswerable", ())
    nothing = await read_span(tools(tmp_path, {}), "read", "q", [])
    assert nothing.status == "unanswerable"


def _typed(ask: Ask, answer_type: str) -> Ask:
    assert isinstance(ask.tools, QuestionTools)
    return replace(ask, tools=replace(ask.tools, question=Question("q1", "q", answer_type=answer_type)))


@pytest.mark.parametrize(("likely", "status"), [(0.3, "unanswerable"), (0.9, None)])
async def test_without_evidence_a_question_for_yes_or_no_is_refused(
    tmp_path: Path, likely: float, status: str | None
) -> None:
    readings = {TEXT: Reading(1.0, likely, START, START + 5, 0.8), OTHER.text: Reading(2.0, 0.1, 0, 5, 0.9)}
    for reader, answer_type in ((Span(), ""), (Cell(), "boolean")):
        ask = _typed(ask_of("Did Alder sell bread?", tools(tmp_path, readings)), answer_type)
        found = await reader.read(ask, [("q", HITS)])
        assert (found and found.status) == status


async def test_a_question_why_is_answered_by_the_sentence_that_holds_it(tmp_path: Path) -> None:
    text = "Sales of bread rose because of a fair.\nSales of cakes fell because\nof rain. The year was all crumbs."
    chunk = Chunk("d:0", "d", 512, 0, 1000, 1000 + len(text), 30, text)
    sure = {"Sales of bread": 0.2, "Sales of cakes": 0.9, "The year was": 0.1}

    def tools_with(share: float, both: float = 0.0) -> QuestionTools:
        class ByStart(dict[str, Reading]):
            def __missing__(self, sentence: str) -> Reading:
                own = sure[" ".join(sentence.split()[:3])]
                return Reading(0.0, share * max(own, both * ("crumbs" in sentence)), 0, 1, 1.0)

        return tools(tmp_path, ByStart())

    found = await read_sentence(tools_with(1.0), "read", "Why?", [Hit(chunk, 1.0)])
    assert (found.status, found.answer) == ("answered", "Sales of cakes fell because of rain.")
    (source,) = found.citations
    assert text[source.start_char - 1000 : source.end_char - 1000] == "Sales of cakes fell because\nof rain."
    surer = await read_sentence(tools_with(1.0, both=1.1), "read", "Why?", [Hit(chunk, 1.0)])
    assert surer.answer == "The year was all crumbs."  # alone as sure as with the one before it
    assert (await read_sentence(tools_with(0.3), "read", "Why?", [Hit(chunk, 1.0)])).status == "unanswerable"
    assert (await read_sentence(tools_with(1.0), "read", "Why?", [])).status == "unanswerable"


async def test_a_sentence_about_it_is_read_with_the_one_before(tmp_path: Path) -> None:
    text = "A risk is fire in the works. Against it there are sprinklers in all halls."
    first, second = text[:28], text[29:]
    readings = {first: Reading(0.0, 0.3, 0, 1, 1.0), second: Reading(0.0, 0.5, 0, 1, 1.0)}
    chunk = Hit(Chunk("d:0", "d", 512, 0, 0, len(text), 30, text), 1.0)
    for both, answer in ((0.65, text), (0.55, second)):
        said = tools(tmp_path, readings | {text: Reading(0.0, both, 0, 1, 1.0)})
        assert (await read_sentence(said, "read", "How is fire met?", [chunk])).answer == answer


async def test_a_sentence_is_not_read_with_one_of_another_paragraph(tmp_path: Path) -> None:
    text = "A risk is theft by night.\n\nA risk is fire in the works. Against it there are sprinklers."
    theft, fire, met = text[:25], text[27:55], text[56:]
    known = {theft: 0.1, fire: 0.3, met: 0.2, f"{fire} {met}": 0.6}
    said = tools(tmp_path, {each: Reading(0.0, sure, 0, 1, 1.0) for each, sure in known.items()})
    chunk = Hit(Chunk("d:0", "d", 512, 0, 0, len(text), 30, text), 1.0)
    assert (await read_sentence(said, "read", "How is fire met?", [chunk])).answer == f"{fire} {met}"


def test_lines_and_sentences() -> None:
    assert TEXT[slice(*line_around(TEXT, START, START + 5))] == "Revenue was 1,204 crowns in 2023. It rose."
    long = "It began so. " * 40 + "The answer is 42 here. " + "And so on. " * 40
    at = long.index("42")
    assert long[slice(*line_around(long, at, at + 2))] == "The answer is 42 here."
    unbroken = "x" * 5000
    assert line_around(unbroken, 2500, 2501) == (2100, 2901)
    assert probability(Reading(1.0)) == 0.0


JOINED = {
    "When did Vera Alder join?": Chunk("d:2", "d", 150, 2, 0, 31, 9, "Vera Alder joined in May 2011."),
    "When did Odile Birch join?": Chunk("d:3", "d", 150, 3, 40, 74, 9, "Odile Birch joined on 3 June 2009."),
}


@pytest.mark.parametrize(
    ("question", "chosen"),
    [
        ("Who joined earlier, Vera Alder or Odile Birch?", "Odile Birch"),
        ("Who joined later, Vera Alder or Odile Birch?", "Vera Alder"),
        ("Who joined, Vera Alder or Odile Birch?", None),
        ("Who joined earlier, Vera Alder or Emil Cedar?", None),
        ("When did Vera Alder join?", None),
        ("Did Vera Alder join earlier than Odile Birch?", "No"),
        ("Did Vera Alder join later than Odile Birch?", "Yes"),
        ("Did Vera Alder join?", None),
    ],
)
async def test_two_things_are_compared_by_what_is_read_of_each(
    tmp_path: Path, question: str, chosen: str | None
) -> None:
    texts = [each.text for each in JOINED.values()]
    readings = {text: Reading(1.0, 0.9, text.index(" joined ") + 8, len(text) - 1, 0.9) for text in texts}
    finds = [(asked, [Hit(chunk, 1.0)]) for asked, chunk in JOINED.items()]
    answer = await Comparison().read(ask_of(question, tools(tmp_path, readings)), finds)
    assert (answer and answer.answer) == chosen
    if answer is not None:
        assert {each.quote for each in answer.citations} == set(texts)


def test_values_of_spans() -> None:
    assert value_of("May 2011") == Value((2011.0, 5.0, 0.0), "date")
    assert value_of("June 3, 2009") == Value((2009.0, 6.0, 3.0), "date")
    assert value_of("1998") == Value((1998.0,), "date")
    assert value_of("1,204 crowns") == Value((1204.0,), "crowns")
    assert value_of("$1.2 billion") == Value((1.2e9,), "USD")
    assert value_of("$950 million") == Value((9.5e8,), "USD")
    assert value_of("$(1,204)") == Value((-1204.0,), "USD")
    assert value_of("950 million dollars") == value_of("$950 million")
    assert value_of("summary 2010") == Value((2010.0,), "date")
    assert value_of("from 3 to 4") is None
    assert value_of("none") is None


@pytest.mark.parametrize(
    ("words", "direction"),
    [
        ("Who joined earlier", (-1, True)),
        ("Which opened last", (1, True)),
        ("Which sold more in the last year", (1, False)),
        ("Which firm of the first half had fewer staff", (-1, False)),
        ("Who is the last of the two to speak", (0, False)),
    ],
)
def test_the_direction_of_a_comparison(words: str, direction: tuple[int, bool]) -> None:
    assert direction_of(words) == direction


@pytest.mark.parametrize(
    ("text", "found", "whole"),
    [
        ("Total revenue        467,460   462,118", "462", "462,118"),
        ("Total revenue        467,460   462,118", "460   462", "467,460"),
        ("| Net loss | (1,632) | (495) |", "632", "(1,632)"),
        ("Margins rose to 12.5% in 2023.", "12", "12.5%"),
        ("It paid $4.7 million a year.", "4.7 million", "$4.7 million"),
        ("Led by Vera Crowhurst-Lane, a baker.", "Crowhurst", "Crowhurst-Lane"),
        ("In May 2021, in Leeds.", "May 2021", "May 2021"),
    ],
)
def test_a_span_is_whole_words_of_one_cell(text: str, found: str, whole: str) -> None:
    at = text.index(found)
    start, end = whole_words(text, at, at + len(found))
    assert text[start:end] == whole


STATEMENT = """Income (in thousands of U.S. dollars)
| | 2023 | 2022 |
| Revenue | $ 467,460 | $ 431,002 |
The margin was 12.5 % in 2023, and the outlook is stable."""
TABLE = Chunk("t:0", "t", 150, 0, 50, 50 + len(STATEMENT), 60, STATEMENT)


async def read_typed(tmp_path: Path, answer_type: str, *spans: tuple[str, float], **others: Reading) -> Answer | None:
    """What is read of a type where the reader points at these words of the statement with these probabilities."""
    (words, sure), *_ = spans
    at = STATEMENT.index(words)
    readings = {STATEMENT: Reading(1.0, sure, at, at + len(words), 1.0), **others}
    hits = [Hit(TABLE, 1.0), *(Hit(OTHER, 0.5) for _ in others)]
    asked = tools(tmp_path, readings)
    return await read_value_of(asked, "read", "How much?", hits, AnswerType.of(answer_type))


@pytest.mark.parametrize(
    ("answer_type", "words", "value", "period"),
    [
        ("money", "467,460", "467460000", "2023"),
        ("money", "431", "431002000", "2022"),  # a model's tokens end anywhere
        ("money", "Revenue", "467460000", "2023"),  # the row's label
        ("percent", "12.5", "12.5", "2023"),
        ("percent", "margin", "12.5", "2023"),
        ("period", "2022", "2022", ""),
        ('choices ["stable", "worse"]', "stable", "stable", ""),
        ('choices ["stable", "worse"]', "outlook", "stable", ""),
    ],
)
async def test_a_span_is_the_value_of_its_type(
    tmp_path: Path, answer_type: str, words: str, value: str, period: str
) -> None:
    found = await read_typed(tmp_path, answer_type, (words, 0.9))
    assert found is not None
    assert found.value is not None
    assert (found.value.value, found.value.period) == (value, period)
    (source,) = found.citations
    assert STATEMENT[source.start_char - 50 : source.end_char - 50] == source.quote
    assert found.answer in source.quote


async def test_a_span_with_a_value_goes_before_a_surer_one_without_any(tmp_path: Path) -> None:
    surer = {OTHER.text: Reading(2.0, 1.0, 0, 5, 1.0)}
    found = await read_typed(tmp_path, "money", ("467,460", 0.5), **surer)
    assert found is not None
    assert found.value is not None
    assert found.value.value == "467460000"
    assert await read_typed(tmp_path, "money", ("467,460", 0.05), **surer) is None, "far less probable"


async def test_what_is_no_span_is_left_to_the_generator(tmp_path: Path) -> None:
    for answer_type in ("boolean", "list of money", "list of text", '{"type": "object", "required": ["a"]}'):
        assert await read_typed(tmp_path, answer_type, ("467,460", 0.9)) is None
    assert await read_typed(tmp_path, "date", ("stable", 0.9)) is not None, "the year in its line"
    assert await read_typed(tmp_path, 'choices ["a lot", "little"]', ("stable", 0.9)) is None
    unsure = await read_typed(tmp_path, "money", ("467,460", 0.3))
    assert unsure is not None
    assert unsure.status == "unanswerable"


CASH = "How much net cash was provided by operating activities?"


@pytest.mark.parametrize(
    ("sentence", "span", "meant"),
    [
        (
            "Cash from operating activities was $(2.8) billion and $4.8 billion for Q1 2022 and Q1 2023.",
            "$(2.8) billion",
            "$4.8 billion",
        ),
        (
            "Cash from operating activities was $46.8 billion and $84.9 billion in 2022 and 2023.",
            "$46.8 billion",
            "$84.9 billion",
        ),
        (
            "It was $16.5 billion and $25.3 billion for Q2 2023 and Q2 2024, and $21.3 billion and $44.3 billion.",
            "$16.5 billion",
            "$25.3 billion",
        ),
        (
            "To March 31, 2023 and April 1, 2022 it was $160 million and $623 million, a decrease of $463 million.",
            "$463 million",
            "$160 million",
        ),
        (
            "Net cash provided increased $34 million from the quarter before to $2,213 million.",
            "$34 million",
            "$2,213 million",
        ),
        (
            "Net cash provided decreased by $2.27 billion to $242 million, from $2.51 billion.",
            "$2.27 billion",
            "$242 million",
        ),
        (
            "Net cash used was $1.0 billion, compared to net cash used of $0.4 billion in the prior-year period.",
            "$0.4 billion",
            "$1.0 billion",
        ),
        ("In 2023 and 2022 it was $11,599 million and $11,018 million.", "$11,599 million", "$11,599 million"),
        ("It was $5 million and $7 million.", "$5 million", "$5 million"),
    ],
)
def test_of_several_amounts_of_a_sentence_the_one_that_is_asked_for(sentence: str, span: str, meant: str) -> None:
    at = sentence.index(span)
    found = level_of("money", sentence, (at, at + len(span)), CASH)
    assert found is not None
    assert sentence[slice(*found)] == meant


def test_a_change_alone_is_no_level_but_is_what_a_question_for_it_asks() -> None:
    sentence = "Net cash provided by operating activities increased $378 million for the six months."
    span = (sentence.index("$"), sentence.index(" for the"))
    assert level_of("money", sentence, span, CASH) is None
    behind = "This was partially offset by a $54 million increase in net charges."
    assert level_of("money", behind, (behind.index("$"), behind.index(" increase")), CASH) is None
    assert level_of("money", sentence, span, "By how much did operating cash flow increase?") == span


def test_of_a_list_over_times_the_one_that_the_question_names() -> None:
    sentence = "Net sales were $5.0 million and $7.0 million in 2022 and 2023."
    span = (sentence.index("$7"), sentence.index(" in 2022"))
    found = level_of("money", sentence, span, "What were net sales in 2022?")
    assert found is not None
    assert sentence[slice(*found)] == "$5.0 million"


@pytest.mark.parametrize(
    ("sentence", "span", "meant"),
    [
        (
            "Cash was $7.0 million and $5.0 million at December 31, 2023 and December 31, 2022.",
            "$7.0 million",
            "$5.0 million",
        ),
        ("Cash was $7.0 million in 2023, compared to $5.0 million in 2022.", "$5.0 million", "$5.0 million"),
    ],
)
def test_a_day_is_in_the_year_that_the_question_names(sentence: str, span: str, meant: str) -> None:
    at = sentence.index(span)
    found = level_of("money", sentence, (at, at + len(span)), "How much cash was there in 2022?")
    assert found is not None
    assert sentence[slice(*found)] == meant


def test_a_row_of_a_table_keeps_its_span() -> None:
    row = "| Net decrease | $54 | $63 |"
    span = (row.index("$54"), row.index("$54") + 3)
    assert level_of("money", row, span, CASH) == span


@pytest.mark.parametrize(
    ("question", "year"),
    [
        ("In which year was the company founded?", "1886"),
        ("When was the mill opened?", "2022"),  # the line says that of no time: the span stands
        ("Which year was it?", "2022"),
    ],
)
async def test_of_a_line_with_several_times_the_one_of_the_event(tmp_path: Path, question: str, year: str) -> None:
    text = "Alder was founded in 1886 by Piers Halloran. We sold more than in 2022."
    start = text.index("2022")
    hit = Hit(Chunk("d:0", "d", 150, 0, 0, len(text), 20, text), 1.0)
    asked = tools(tmp_path, {text: Reading(1.0, 0.9, start, start + 4, 0.8)})
    found = await read_value_of(asked, "read", question, [hit], AnswerType.of("date"))
    assert found is not None
    assert found.value is not None
    assert found.value.value == year
