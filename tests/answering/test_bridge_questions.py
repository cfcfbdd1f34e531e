"""Multi-bridge questions that the cross-encoder reads by itself: what is looked up first, and what comes of it."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.bridge import MOST_LOOK_UPS, first_look_up, name_in, newly_said
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Answer, Passage, Question, Reading
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.methods.registry import FullPolicy, load_strategy
from tests.fakes.tools import ScriptedTools, analysis


def chain(question: str) -> list[str]:
    """What is asked, one after the other, where each answer is A1, A2 ..."""
    asked = []
    while (look_up := first_look_up(question)) is not None:
        asked.append(look_up.question)
        question = look_up.then(f"A{len(asked)}")
    return [*asked, question]


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "When did the director of film White Deer Plain (Film) die?",
            ["Who is the director of film White Deer Plain (Film)?", "When did A1 die?"],
        ),
        (
            "Which country the director of film Who Is This That I Love? is from?",
            ["Who is the director of film Who Is This That I Love?", "Which country A1 is from?"],
        ),
        (
            "What is the place of birth of the composer of Lord Of Wales?",
            ["Who is the composer of Lord Of Wales?", "What is the place of birth of A1?"],
        ),
        (
            "What nationality is Lord Charles Petty-Fitzmaurice's father?",
            ["Who is Lord Charles Petty-Fitzmaurice's father?", "What nationality is A1?"],
        ),
        (
            "Who is the paternal grandmother of Lucia Graves?",
            ["Who is the father of Lucia Graves?", "Who is the mother of A1?"],
        ),
        (
            "Who is Anne Mclaren's maternal grandfather?",
            ["Who is Anne Mclaren's mother?", "Who is A1's father?"],
        ),
        (
            "For which firm had the leader of project Small Hammer of Pebblebrook Lines worked before?",
            ["Who is the leader of project Small Hammer of Pebblebrook Lines?", "For which firm had A1 worked before?"],
        ),
        (
            "Who manages the works of Pebblebrook Lines at which the Linnet day ferry is made?",
            ["At which works of Pebblebrook Lines is the Linnet day ferry made?", "Who manages the works A1?"],
        ),
        (
            "What was the 2022 revenue of the Stonecrop segment that Frida Halloran leads?",
            ["Which Stonecrop segment Frida Halloran leads?", "What was the 2022 revenue of the Stonecrop segment A1?"],
        ),
        (
            "How many people work in the division led by Ida Moss?",
            ["Which division is led by Ida Moss?", "How many people work in the division A1?"],
        ),
        (
            "Who was in charge of the country where the composer of Aschenbrodel was a citizen?",
            ["Who is the composer of Aschenbrodel?", "In which country was A1 a citizen?", "Who was in charge of A2?"],
        ),
        (
            "When did the country where the village of Clonbrook is located, become a member of CARICOM?",
            ["In which country is the village of Clonbrook located?", "When did A1, become a member of CARICOM?"],
        ),
        (
            "When was the pianist who recorded Live at Shelly's Manne-Hole born?",
            ["Who recorded Live at Shelly's Manne-Hole?", "When was A1 born?"],
        ),
    ],
)
def test_the_innermost_description_is_looked_up_first(question: str, asked: list[str]) -> None:
    assert chain(question) == asked


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "Who is the director of the film White Deer Plain?",
        "Where was the place of birth of Ida Moss?",
        "What was total revenue in 2023?",
        "Which film has the director who was born earlier, Los Locos or Paulus Singing?",
        "Are the directors of both films August Rush and Wolf Totem from the same country?",
        "The Jump is a series that follows people as they try to master which sports?",  # it asks within the clause
        "Name the mother of Edward Stafford.",
        "the of the of the of",
        "Where was " + "the director of " * 5000 + "X born?",
        "What did " + "X's wife " * 3000 + "say?",
    ],
)
def test_questions_that_describe_nothing_are_left_alone(question: str) -> None:
    assert first_look_up(question) is None


def test_a_word_at_the_seam_is_said_once() -> None:
    look_up = first_look_up("What was the revenue of the Stonecrop segment that Frida Halloran leads?")
    assert look_up is not None
    assert look_up.then("Survey Optics segment") == "What was the revenue of the Stonecrop Survey Optics segment?"


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("Sujit Guha and produced by Dipti Pal", "Sujit Guha"),
        ("Brook and Sons", "Brook and Sons"),
        ("Dollar Radio\nTwo Dollar Radio", "Dollar Radio"),
        ("Ezer Weizman's", "Ezer Weizman"),
    ],
)
def test_an_answer_as_a_name(answer: str, name: str) -> None:
    assert name_in(answer) == name


def test_a_span_that_repeats_the_question_is_no_answer() -> None:
    texts = ["Yuri Ponomaryov flew.", "He married Valentina."]
    shown = [Passage("d", 0, len(text), text, 5, 1.0) for text in texts]
    readings = [Reading(1.0, 0.9, 0, 15, 1.0), Reading(1.0, 0.4, 11, 20, 1.0)]
    found = newly_said("Who is Yuri Ponomaryov's wife?", shown, readings)
    assert found is not None
    assert (found.answer, found.signals) == ("Valentina", {"span_probability": 0.4})
    assert newly_said("Who is Yuri Ponomaryov's wife?", shown[:1], readings[:1]) is None


LEADER = make_document(RawDocument("alder", "Small Hammer of Alder Works is led by Moss.", "alder"))
BEFORE = make_document(RawDocument("birch", "Before that Moss worked for Jessamine.", "birch"))
QUESTION = "For which firm had the leader of project Small Hammer of Alder Works worked before?"


async def ask(question: str = QUESTION, **read: object) -> tuple[Answer, ScriptedTools]:
    default = load_config(FullPolicy, "policy/default.yaml")
    policy = default.model_copy(update={"read": default.read.model_copy(update=read)})
    tools = ScriptedTools(
        [LEADER, BEFORE],
        {"step": ["Query: none\nAnswer: by steps"], "generate": ["Answer: at last"]},
        analysis=analysis("multi-bridge"),
        policy=policy,
        reads_answers=True,
    )
    return await load_strategy("okralong")(Question("q1", question), tools), tools


async def test_both_look_ups_are_read_and_cited_and_nothing_is_asked_of_the_generator() -> None:
    answer, tools = await ask()
    assert (answer.status, answer.answer) == ("answered", "Jessamine")
    assert {each.doc_id for each in answer.citations} == {"alder", "birch"}
    read = [call for call in tools.of("read") if call.step.startswith("bridge/") and call.step.endswith("/read")]
    assert [(call.step, call.details["query"]) for call in read] == [
        ("bridge/1/read", "Who is the leader of project Small Hammer of Alder Works?"),
        ("bridge/2/read", "For which firm had Moss worked before?"),
    ]
    assert not tools.of("complete")
    assert answer.way == "bridge"
    assert answer.signals["look_ups"] == 2
    assert 0 < answer.signals["look_up_product"] < 1


@pytest.mark.parametrize(
    ("question", "read"),
    [
        (QUESTION, {"threshold": 1.0}),
        (QUESTION, {"types": ["extractive"]}),
        ("Who was it and where?", {}),
    ],
    ids=["unsure", "off", "not understood"],
)
async def test_the_step_wise_reasoner_is_asked_for_the_rest(question: str, read: dict[str, object]) -> None:
    answer, tools = await ask(question, **read)
    assert answer.answer == "by steps"
    assert tools.of("complete")[0].step == "step/1/reason"


async def test_look_ups_end() -> None:
    """Each answer describes something again."""
    endless = ScriptedTools(
        [
            make_document(
                RawDocument("alder", "The head of Alder is the head of Alder, who is Moss'sheadofAlder", "alder")
            )
        ],
        {"step": ["Query: none\nAnswer: by steps"], "generate": ["Answer: at last"]},
        analysis=analysis("multi-bridge"),
        policy=load_config(FullPolicy, "policy/default.yaml"),
        reads_answers=True,
    )
    nested = "the head of " * 8
    answer = await load_strategy("okralong")(Question("q1", f"Where was {nested}Alder born?"), endless)
    assert answer.answer == "by steps"
    assert len([each for each in endless.of("read") if each.step.endswith("/read")]) <= MOST_LOOK_UPS
