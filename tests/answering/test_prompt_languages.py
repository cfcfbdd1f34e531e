"""Prompts for questions in other languages request the answer in them; those for English ones say nothing of it."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.languages import language_of_passages, language_of_text
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import in_other_language
from okralong.pipelines.answering.prompts import answer_prompt, parse_answer, read_split, split_prompt, step_prompt
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Citation, Passage
from okralong.pipelines.methods.registry import FullPolicy
from tests.fakes.tools import analysis, paper_policy

PASSAGE = Passage("bericht", 0, 60, "Der Auftragsbestand betrug Ende 2023 1.234,5 Mio. €.", 20, 1.0)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(("kind", "requested"), [("text", True), ("list of text", True), ("money", False)])
def test_answers_in_words_are_requested_in_the_language(kind: str, requested: bool, short: bool) -> None:
    wanted = AnswerType.of(kind)
    english = answer_prompt("Wie hoch?", [PASSAGE], short=short, wanted=wanted)
    german = answer_prompt("Wie hoch?", [PASSAGE], short=short, wanted=wanted, language="de")
    assert "in German" not in english[0].content
    assert german[0].content.startswith(english[0].content)
    assert ("Write the answer in German" in german[0].content) == requested
    assert german[1] == english[1], "the passages are shown alike, so that servers can cache them"


def test_splits_and_steps_too() -> None:
    assert split_prompt("Wer?", 4, "zh")[0].content == split_prompt("Wer?", 4)[0].content + (
        "\nWrite the questions in Chinese."
    )
    step = step_prompt("Wer?", [PASSAGE], "fr")[0].content
    assert step.startswith(step_prompt("Wer?", [PASSAGE])[0].content)
    assert "in French" in step


def test_replies_in_other_scripts_are_read() -> None:
    assert read_split("1. 2023年收入是多少？\n2. 2022年收入是多少？", 4) == ["2023年收入是多少？", "2022年收入是多少？"]
    parsed = parse_answer('Evidence: [1] "betrug Ende 2023 1.234,5 Mio. €"\nAnswer: 1.234,5 Mio. €')
    assert parsed.answer == "1.234,5 Mio. €"


def test_a_question_that_was_not_analyzed_gets_a_general_plan_which_says_why() -> None:
    policy = paper_policy()
    plan = organize(None, policy, precise=False, language="de")
    assert (plan.workflow, plan.count) == ("linear", policy.factoid.count)
    assert plan.exact_weight == plan.semantic_weight
    assert plan.reasons[0].startswith("the analyzer knows English, and the question is in German")
    split = organize(analysis("multi-source"), policy, precise=False, language="de")
    assert split.workflow == "split", "the generator's analysis is followed in every language"


def test_a_passage_is_in_another_language_only_if_its_words_say_so() -> None:
    german = (
        "Tabelle: Gewinn- und Verlustrechnung (in Tausend Euro)\n|2022|2021\nVertrieb und Verwaltung|-78.793|-66.747"
    )
    assert language_of_text(german) == "de"
    assert language_of_text("Table: Revenue (in thousands)\n|2022|2021\nOperating segments|78.793|66.747") == "en"
    assert language_of_text("|2022|2021\n|78.793|66.747") == "en"
    passages = [Passage("b", 0, len(german), german, 9, 1.0), Passage("e", 0, 20, "Revenue rose in 2022", 9, 1.0)]
    cited = [Citation("b", 0, 7, "Tabelle")]
    assert language_of_passages(passages, cited) == "de"


def test_models_that_know_english_alone_neither_retrieve_nor_rank() -> None:
    policy = load_config(FullPolicy, "policy/default.yaml")
    assert in_other_language(policy, encodes=True, ranks=True) is policy
    words = in_other_language(policy, encodes=False, ranks=False)
    plan = organize(None, words, precise=False, language="zh")
    assert (plan.exact_weight, plan.semantic_weight) == (1.0, 0.0)
    assert words.rerank.candidates == 0
    assert in_other_language(policy, encodes=False, ranks=True).rerank == policy.rerank
