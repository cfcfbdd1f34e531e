"""Labels by the generator itself, for users without a trained analyzer: one call more for each question, in the ledger.

The reply is asked for as a JSON object (``response_format``), which OpenAI, Azure, vLLM, llama.cpp and Ollama grant.
One that is no analysis is asked for once more, with the error shown; then the question has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.analysis import (
    EVIDENCE,
    PATTERNS,
    TYPES,
    AnalysisInput,
    analyzer_prompt,
    make_analysis,
    parse_reply,
)
from okralong.pipelines.answering.analyzers.keyword_rules import KeywordRules
from okralong.pipelines.answering.repair import Ask, always, ask_and_read
from okralong.pipelines.core.types import Analysis, Message, NobodyAsked

AS_JSON: Final = "\nThe dictionary is a JSON object."
"""OpenAI refuses a request for a JSON object in which the word JSON does not stand. It is put after the prompt that
label scorers were trained on, which stays as it is."""


async def analyze_by_generator(
    ask: Ask, step: str, asked: AnalysisInput, fits: Callable[[Sequence[Message]], bool] = always
) -> Analysis:
    """The generator's three labels, each with probability 1: a written label has no other.

    Where nobody is asked, as in an estimate, the keyword rules speak, and the analysis says so. Raises ReplyError, with
    the raw text, when neither the reply at ``step`` nor the one at ``step/repair`` is an analysis.
    """
    try:
        return await labels_by_generator(ask, step, asked, fits)
    except NobodyAsked:
        (rules,) = KeywordRules().analyze([asked])
        return replace(rules, analyzer=f"{rules.analyzer} (the generator was not asked)")


async def labels_by_generator(
    ask: Ask, step: str, asked: AnalysisInput, fits: Callable[[Sequence[Message]], bool] = always
) -> Analysis:
    """The same where nobody else may speak."""
    (kind, pattern, evidence), reply = await ask_and_read(ask, step, generator_prompt(asked), parse_reply, fits)
    said = EVIDENCE[0 if evidence else 1]
    labels: tuple[tuple[tuple[str, ...], str], ...] = ((TYPES, kind), (PATTERNS, pattern), (EVIDENCE, said))
    types, patterns, holds = ({label: float(label == chosen) for label in all_} for all_, chosen in labels)
    return make_analysis(types, patterns, holds, f"llm:{reply.model}")


def generator_prompt(asked: AnalysisInput) -> list[Message]:
    """The analyzer's prompt as a generator is asked."""
    system, *others = analyzer_prompt(asked)
    return [replace(system, content=system.content + AS_JSON), *others]
