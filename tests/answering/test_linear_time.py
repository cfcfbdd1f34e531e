"""Every parser of replies takes time in proportion to the reply, whatever stands in it, and holds no event loop up.

A parser of replies is a function of the packages below whose first parameter is called ``reply`` or whose name begins
with ``parse_``: one that is not in ``PARSERS`` fails the first test.
"""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import okralong.pipelines
from okralong.lab.sweeps import judge
from okralong.pipelines.answering import agreement, citations, prompt_text, prompts
from okralong.pipelines.answering.analyzers import analysis
from okralong.pipelines.answering.answer_types import AnswerType, value_read, with_value
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.generate import answer_of_reply
from okralong.pipelines.answering.prompt_text import Evidence
from okralong.pipelines.answering.stated import Stated
from okralong.pipelines.answering.support import Figures, Sought, units
from okralong.pipelines.answering.workflows import documents_task
from okralong.pipelines.core.types import Answer, Citation, Passage, QuestionError, Reply, ReplyError, Usage
from okralong.pipelines.methods import (
    adaptive_rag,
    compact,
    flare,
    instructrag,
    raptor,
    recomp,
    self_rag,
)
from okralong.pipelines.methods.graphrag import build, search
from okralong.pipelines.statements import amounts, periods, table_heads, values
from tests.fakes.tools import ScriptedTools

pytestmark = pytest.mark.slow

PIPELINES: Final = Path(okralong.pipelines.__file__).parent
PACKAGES: Final = ("answering", "methods", "sara")
TEXT: Final = "Revenue rose to $12 million (5 %) in 2021, from 11,000 thousand in March 2020."
SHOWN: Final = Passage("report", 0, len(TEXT), TEXT, 20, 1.0)


def typed(kind: str) -> Callable[[str], Any]:
    return lambda text: prompts.read_typed(text, AnswerType.of(kind), "What was it?")


def passage(text: str) -> Passage:
    return Passage("long", 0, len(text), text, 20, 1.0)


def valued(kind: str) -> Callable[[str], Any]:
    cited = (Citation("report", 0, len(TEXT), TEXT),)
    wanted = AnswerType.of(kind)
    return lambda text: with_value("What was it?", wanted, Answer("answered", text, cited, context=(SHOWN,)))


PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "answering.analyzers.analysis.parse_reply": analysis.parse_reply,
    "answering.workflows.documents_task.read_task": documents_task.read_task,
    "answering.prompt_text.one_paragraph": prompt_text.one_paragraph,
    "answering.prompt_text.parse_evidence": prompt_text.parse_evidence,
    "answering.prompt_text.strip_thought": prompt_text.strip_thought,
    "answering.prompts.answer.ends_within_answer": prompts.ends_within_answer,
    "answering.prompts.answer.parse_answer": lambda text: prompts.parse_answer(text, "What was it?"),
    "answering.prompts.split.parse_split": lambda text: prompts.parse_split(text, "What was it?", 4),
    "answering.prompts.step.parse_step": prompts.parse_step,
    "answering.prompts.split.read_split": lambda text: prompts.read_split(text, 4),
    "answering.prompts.step.read_step": prompts.read_step,
    "answering.prompts.typed_replies.read_typed": typed("list of money"),
    "methods.adaptive_rag.read_complexity": adaptive_rag.read_complexity,
    "methods.compact.read_digest": compact.read_digest,
    "methods.flare.read_sentence": lambda text: flare.read_sentence(Reply(text, "m", Usage(0, 0, 0), "stop", 0.0)),
    "methods.flare.sentence_end": flare.sentence_end,
    "methods.graphrag.build.read_extracted": build.read_extracted,
    "methods.graphrag.build.read_report": build.read_report,
    "methods.graphrag.search.read_points": search.read_points,
    "methods.instructrag.read_rationale": instructrag.read_rationale,
    "methods.raptor.read_summary": raptor.read_summary,
    "methods.recomp.read_summary": recomp.read_summary,
    "methods.self_rag.read_decision": self_rag.read_decision,
    "methods.self_rag.read_marks": self_rag.read_marks,
}
READERS: Final[dict[str, Callable[[str], Any]]] = {
    "verdict": judge.parse_verdict,
    "marks": lambda text: judge.parse_marks(text, ["relevance"]),
    "conclusion": flare.conclusion,
    "typed text": typed("text"),
    "typed schema": lambda text: prompts.read_typed(text, AnswerType("schema", schema='{"type": "object"}'), "What?"),
    "references": prompt_text.take_references,
    "neutralise": prompt_text.neutralise,
    "calculate": lambda text: calculate(f"={text}"),
    "conditions": documents_task.read_conditions,
    "citations": lambda text: citations.sources_of(
        prompt_text.parse_evidence(text), [SHOWN] * 3, Sought.of(text, "rose")
    ),
    "cited": lambda text: citations.sources_of(
        [Evidence(1, "rose to no end, it seems"), Evidence(2, ""), Evidence(0, text[:9])],
        [passage(text)] * 2,
        Sought.of("a 5", "b"),
    ),
    "stated": lambda text: Stated([passage(text)]).require("money", "$1,234.5 million", "?", [text[:500]], False),
    "stated operands": lambda text: Stated([SHOWN]).require("money", f"={text}", "?", [], True),
    "figures": lambda text: Figures([text]).have(amounts.amounts("$12.5 million")[0]),
    "sentences": units,
    "agreement of an answer": lambda text: agreement.agreement("What was it?", text, TEXT),
    "agreement with a place": lambda text: agreement.agreement("What was it?", f"{text[:500]} 5 %", text, text),
    "agreement of both": lambda text: agreement.agreement("What was it?", text, text),
    "a choice": lambda text: agreement.agreement(text, "alpha", "beta"),
    "amounts": amounts.amounts,
    "numbers in words": amounts.in_words,
    "cells": amounts.has_cells,
    "dates": periods.dates,
    "periods": periods.periods,
    "spans": lambda text: [values.spans_of(kind, text) for kind in ("money", "period")],
    **{f"value {kind}": valued(kind) for kind in ("money", "list of percent", "date", "period", "boolean")},
    "value in a passage": lambda text: values.read_value(
        "money", "12", values.Context(f"{text}\n$12\n", 0, 9, "In 2021?")
    ),
}

PIECES: Final = [
    *("1,", "1, ", "1", "(", "(5 %) ", "((1)", "$", "$1 ", '[1] "', "[1]", "[1, ", '"', '"a', "“", "'", " ", "\n"),
    *(
        " \n",
        "\t",
        "\u00a0",
        "\u200b",
        "a",
        "a ",
        "A",
        "ab. ",
        ".",
        "? ",
        "-",
        "- ",
        "*",
        "_",
        "#",
        "> ",
        "{",
        "[",
        "}",
    ),
    *(
        '{"a":',
        '{"answer": "',
        '{"value": [1, ',
        '"answer": ',
        "\\",
        '\\"',
        "<",
        "<think>",
        "</think>",
        "<|im|>",
        "[INST]",
    ),
    *("answer: ", "Answer: x\n", 'Evidence: [1] "x\n', "the answer is ", "answer is", "Q: a\n", "sure, ", "2021 to "),
    *("January 1, 2021 ", "1 jan ", "three months ended ", "three and ", "q1 ", "fiscal ", "1/2/", "1.234.", "1'234"),
    *("1 million ", "in thousands ", "USD", "of dollars ", "x or ", "between ", "a | ", "| ", "entity: a | ", "(1) "),
    *(
        "5% ",
        "- - ",
        "1+",
        "1*(",
        "passage ",
        "passage 1: ",
        "not answerable from ",
        "[COMPLETE] ",
        "Summary:\n",
        "```\n",
    ),
    *(
        "$\\boxed{",
        "1. a?\n",
        "ask: ",
        "do: filter > 1 and ",
        ": ",
        "assistant\n",
        "é",
        "\u0301",
        "ﬁ",
        "İ",
        "…",
        "9" * 40,
    ),
]
BEFORE: Final = ["", "Answer: ", '[1] "', "Ask: a\nType: number\nDo: filter ", '{"value": "', "answer is"]
BEHIND: Final = [" x!", '[1] "x', "", '"}']

SHORT: Final = 1_000
LONG: Final = 4 * SHORT
FLOOR_S: Final = 0.012
"""What takes less for ``LONG`` characters is let pass: with the square of them the fastest parser takes longer."""
MOST: Final = 10.0
"""Times as long for four times the text; the square would be 16. A machine that is busy makes it 5 or 6."""


def test_every_parser_of_replies_is_measured() -> None:
    found = {
        f"{'.'.join(file.relative_to(PIPELINES).with_suffix('').parts)}.{each.name}"
        for package in PACKAGES
        for file in (PIPELINES / package).rglob("*.py")
        for each in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
        if each.name.startswith("parse_") or [first.arg for first in each.args.args][:1] == ["reply"]
    }
    assert found == PARSERS.keys()


def hostile(pieces: str, before: str, behind: str, chars: int) -> str:
    return before + (pieces * (chars // len(pieces) + 1))[:chars] + behind


def seconds(parse: Callable[[str], Any], text: str) -> float:
    table_heads.has_amounts.cache_clear()
    agreement.parts_said.cache_clear()
    units.cache_clear()
    began = time.process_time()
    with suppress(ReplyError, ValueError, QuestionError):
        parse(text)
    return time.process_time() - began


def assert_linear(parse: Callable[[str], Any], pieces: str, before: str, behind: str) -> None:
    long, short = (hostile(pieces, before, behind, chars) for chars in (LONG, SHORT))
    taken = seconds(parse, long)
    for _ in range(4):
        if taken < FLOOR_S:
            return
        least = min(seconds(parse, short) for _ in range(2))
        taken = min(taken, seconds(parse, long))
        if taken < MOST * least:
            return
    raise AssertionError(f"{pieces!r} after {before!r}: {least:.3f} s for {SHORT} characters, {taken:.3f} s for {LONG}")


EVERY: Final = {**PARSERS, **READERS}


@pytest.mark.parametrize("name", EVERY)
def test_a_parser_takes_linear_time(name: str) -> None:
    for number, pieces in enumerate(PIECES):
        before = BEFORE[number % len(BEFORE)] if name in PARSERS else ""
        assert_linear(EVERY[name], pieces, before, BEHIND[number % len(BEHIND)])


@pytest.mark.parametrize("name", EVERY)
def test_a_parser_takes_linear_time_for_mixtures(name: str) -> None:
    @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.sampled_from(PIECES), min_size=2, max_size=3), st.sampled_from(BEFORE), st.sampled_from(BEHIND))
    def measure(pieces: list[str], before: str, behind: str) -> None:
        assert_linear(EVERY[name], "".join(pieces), before, behind)

    measure()


async def _longest_pause(work: Any) -> float:
    """The longest time in which the event loop did nothing else while ``work`` was awaited.

    In processor seconds of this process, so that other processes on a busy machine do not count.
    """
    pauses = [0.0]

    async def beat() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0.005)
            now = time.process_time()
            pauses.append(now - last)
            last = now

    heart = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await work
    await asyncio.sleep(0)
    heart.cancel()
    return max(pauses)


@pytest.mark.parametrize("pieces", ['[1] "words ', "(5 %) was ", " \n", "[1] ", '"a" and '])
async def test_the_event_loop_goes_on_while_a_long_reply_is_read(pieces: str) -> None:
    """Ten times the characters of the longest reply that a role usually has, and a heartbeat beside it."""
    tools = ScriptedTools([])
    reply = f"Answer: 5 % {pieces * (400_000 // len(pieces))} x!"

    async def work() -> None:
        answer = await answer_of_reply(tools, "What was it?", reply, [SHOWN], [SHOWN])
        await value_read("What was it?", AnswerType.of("percent"), answer)

    pause = await _longest_pause(work())
    assert pause < 2.0


async def test_the_event_loop_goes_on_while_a_long_answer_is_judged() -> None:
    words = "1 million in 2021, (5 %) was due; " * 10_000
    answer = Answer("answered", words, context=(SHOWN, passage(TEXT * 40)))
    tools = ScriptedTools([], reads=True)
    pause = await _longest_pause(with_confidence(tools, "What was it?", answer))
    assert pause < 2.0
