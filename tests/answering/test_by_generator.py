"""The generator as the analyzer: its labels, one repair, and the rules only where nobody is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, analyzer_prompt, format_reply
from okralong.pipelines.answering.analyzers.analyzer import (
    AS_JSON,
    AnalyzerConfig,
    analyze_by_generator,
    generator_prompt,
    labels_by_generator,
    load_analyzer,
)
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.citations import CallStep
from okralong.pipelines.core.types import ConfigError, Message, NobodyAsked, OverBudget, Reply, ReplyError, Usage

ASKED = AnalysisInput("Who sold more lamps, Alder or Birch?", ("Alder sold 12 lamps.",))
GOOD = format_reply("multi-source", "semantic", "no")


def generator(*texts: str | Exception) -> CallStep:
    script = dict(zip(("analyze", "analyze/repair"), texts, strict=False))

    async def ask(step: str, messages: Sequence[Message]) -> Reply:
        assert list(messages[:2]) == generator_prompt(ASKED)
        text = script[step]
        if isinstance(text, Exception):
            raise text
        return Reply(text, "big-model", Usage(), "stop", 0.0)

    return ask


@pytest.mark.parametrize("texts", [(GOOD,), ("It is a comparison.", GOOD), ('{"question-type": "multi-source"}', GOOD)])
async def test_its_labels_are_taken_as_they_are_at_the_second_try_too(texts: tuple[str, ...]) -> None:
    found = await analyze_by_generator(generator(*texts), "analyze", ASKED)
    assert (found.type, found.pattern, found.evidence) == ("multi-source", "semantic", False)
    assert found.type_probabilities["multi-source"] == 1.0
    assert found.analyzer == "llm:big-model"


async def test_after_two_replies_that_are_no_analysis_the_rules_speak_and_say_so() -> None:
    found = await analyze_by_generator(generator("It is a comparison.", "Truly."), "analyze", ASKED)
    (rules,) = KeywordRules().analyze([ASKED])
    assert found.type_probabilities == rules.type_probabilities
    assert found.analyzer == "keyword-rules (the generator's reply was no analysis)"


async def test_labels_for_training_are_the_generators_alone() -> None:
    with pytest.raises(ReplyError, match="not one JSON dictionary") as failed:
        await labels_by_generator(generator("It is a comparison.", "Truly."), "analyze", ASKED)
    assert failed.value.raw == "It is a comparison.\n--- asked once more ---\nTruly."


async def test_where_nobody_is_asked_the_rules_speak() -> None:
    found = await analyze_by_generator(generator(NobodyAsked("an estimate")), "analyze", ASKED)
    (rules,) = KeywordRules().analyze([ASKED])
    assert found.type_probabilities == rules.type_probabilities
    assert found.analyzer == "keyword-rules (the generator was not asked)"


async def test_a_budget_that_is_used_up_passes() -> None:
    with pytest.raises(OverBudget):
        await analyze_by_generator(generator(OverBudget("No more.")), "analyze", ASKED)


def test_the_word_json_is_in_its_prompt_and_the_trained_prompt_is_as_it_was() -> None:
    trained, asked = analyzer_prompt(ASKED), generator_prompt(ASKED)
    assert "json" not in trained[0].content.lower()
    assert asked == [Message("system", trained[0].content + AS_JSON), *trained[1:]]


def test_it_cannot_be_loaded_without_a_run() -> None:
    with pytest.raises(ConfigError, match="only `okralong answer` can use it"):
        load_analyzer(AnalyzerConfig(kind="llm"))
    with pytest.raises(ValueError, match="llm takes no adapter"):
        AnalyzerConfig(kind="llm", adapter="somewhere")
