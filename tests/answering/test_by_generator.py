"""The generator as the analyzer: its labels where it gives them, the rules where it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from okralong.pipelines.answering.analysis import AnalysisInput, analyzer_prompt, format_reply
from okralong.pipelines.answering.analyzers.by_generator import Ask, analyze_by_generator
from okralong.pipelines.answering.analyzers.config import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.analyzers.keyword_rules import KeywordRules
from okralong.pipelines.errors import ConfigError, OverBudget
from okralong.pipelines.values import Message, Reply, Usage

ASKED = AnalysisInput("Who sold more lamps, Alder or Birch?", ("Alder sold 12 lamps.",))


def generator(text: str | Exception) -> Ask:
    async def ask(messages: Sequence[Message]) -> Reply:
        assert list(messages) == analyzer_prompt(ASKED)
        if isinstance(text, Exception):
            raise text
        return Reply(text, "big-model", Usage(), "stop", 0.0)

    return ask


async def test_its_labels_are_taken_as_they_are() -> None:
    found = await analyze_by_generator(generator(format_reply("multi-source", "semantic", "no")), ASKED)
    assert (found.type, found.pattern, found.evidence) == ("multi-source", "semantic", False)
    assert found.type_probabilities["multi-source"] == 1.0
    assert found.analyzer == "llm:big-model"


@pytest.mark.parametrize("text", ["It is a comparison.", '{"question-type": "multi-source"}', ""])
async def test_a_reply_that_is_no_analysis_leaves_it_to_the_rules(text: str) -> None:
    found = await analyze_by_generator(generator(text), ASKED)
    (rules,) = KeywordRules().analyze([ASKED])
    assert found.type_probabilities == rules.type_probabilities
    assert found.analyzer == "keyword-rules (the generator's reply was no analysis)"


async def test_a_budget_that_is_used_up_passes() -> None:
    with pytest.raises(OverBudget):
        await analyze_by_generator(generator(OverBudget("No more.")), ASKED)


def test_it_cannot_be_loaded_without_a_run() -> None:
    with pytest.raises(ConfigError, match="by okralong answer alone"):
        load_analyzer(AnalyzerConfig(kind="llm"))
    with pytest.raises(ValueError, match="llm takes no adapter"):
        AnalyzerConfig(kind="llm", adapter="somewhere")
