"""Labels by the generator itself, for users without a trained analyzer: one call more for each question, in the ledger.

The reply is asked for as a JSON object (``response_format``), which OpenAI, Azure, vLLM, llama.cpp and Ollama grant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

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
from okralong.pipelines.errors import ReplyError
from okralong.pipelines.values import Analysis, Message, Reply

Ask = Callable[[Sequence[Message]], Awaitable[Reply]]


async def analyze_by_generator(ask: Ask, asked: AnalysisInput) -> Analysis:
    """The generator's three labels, each with probability 1: a written label has no other.

    Where its reply is no analysis, the keyword rules speak, and the analysis says so. What ``ask`` raises otherwise
    (an endpoint that is down, a budget that is used up) passes.
    """
    try:
        return await labels_by_generator(ask, asked)
    except ReplyError:
        (rules,) = KeywordRules().analyze([asked])
        return replace(rules, analyzer=f"{rules.analyzer} (the generator's reply was no analysis)")


async def labels_by_generator(ask: Ask, asked: AnalysisInput) -> Analysis:
    """The same where nobody else may speak. Raises ReplyError when the reply is no analysis."""
    reply = await ask(analyzer_prompt(asked))
    kind, pattern, evidence = parse_reply(reply.text)
    said = EVIDENCE[0 if evidence else 1]
    labels: tuple[tuple[tuple[str, ...], str], ...] = ((TYPES, kind), (PATTERNS, pattern), (EVIDENCE, said))
    types, patterns, holds = ({label: float(label == chosen) for label in all_} for all_, chosen in labels)
    return make_analysis(types, patterns, holds, f"llm:{reply.model}")
