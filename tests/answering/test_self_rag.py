"""Self-RAG's golden trace: each chunk answered from and marked by itself, and the best marked answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from okralong.pipelines.answering.cost_model import plan_bound
from okralong.pipelines.core.types import Answer, Message, Question, ReplyError
from okralong.pipelines.methods.registry import load_strategy
from okralong.pipelines.methods.self_rag import read_decision, read_marks
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

QUESTION = "How much did Alder spend on research?"
WORDS = "Alder spent 41 million crowns on research"
SMALL = {"self_rag__granularity": 150, "self_rag__count": 4}


def marked(answer: str, relevance: str, support: str, utility: int, quote: str = "") -> str:
    evidence = f'Evidence: [1] "{quote}"\n' if quote else ""
    return f"Relevance: {relevance}\n{evidence}Answer: {answer}\nSupport: {support}\nUtility: {utility}"


def critique(messages: Sequence[Message]) -> str:
    if WORDS in messages[-1].content:
        return marked("41 million", "relevant", "fully", 5, WORDS)
    return marked("12 million", "irrelevant", "no", 2)


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("self_rag")(Question("q1", QUESTION), tools)


async def test_the_best_marked_answer_counts() -> None:
    replies = {"classify": ["B"], "critique": [critique]}
    tools = ScriptedTools([ALDER, BIRCH], replies, policy=paper_policy(**SMALL))
    answer = await ask(tools)
    assert [step for _, step in tools.steps()] == [
        "plan",
        "decide",
        "retrieve",
        *(f"passage/{number}/critique" for number in range(1, 5)),
    ]
    assert tools.of("retrieve")[0].details == {"query": QUESTION, "granularity": 150, "k": 4}
    assert all(tools.prompt(f"passage/{number}/critique").count("<passage ") == 1 for number in range(1, 5))
    assert (answer.status, answer.answer) == ("answered", "41 million")
    (citation,) = answer.citations
    assert ALDER.text[citation.start_char : citation.end_char] == WORDS
    assert len(answer.context) == 1
    assert answer.plan is not None
    bound = plan_bound(answer.plan, tools.window, tools.completion_limit)
    sent = sum(tools.count(tools.prompt(step)) for kind, step in tools.steps() if kind == "complete")
    assert sent < bound.prompt_tokens
    assert bound.completion_tokens == 5 * 256


async def test_what_is_known_is_not_looked_up() -> None:
    tools = ScriptedTools([ALDER], {"classify": ["A"], "generate": ["Answer: 41 million"]})
    answer = await ask(tools)
    assert [step for _, step in tools.steps()] == ["plan", "decide", "generate"]
    assert (answer.answer, answer.context) == ("41 million", ())
    always = ScriptedTools([ALDER], {"critique": [critique]}, policy=paper_policy(self_rag__adaptive=False))
    await ask(always)
    assert ("complete", "decide") not in always.steps()


async def test_without_an_answer_in_any_chunk_it_is_unanswerable() -> None:
    replies = {"classify": ["hard to say"], "critique": [marked("unanswerable", "irrelevant", "no", 1), ""]}
    tools = ScriptedTools([ALDER], replies, policy=paper_policy(**SMALL))
    answer = await ask(tools)
    assert answer.status == "unanswerable"
    assert ("complete", "decide/repair") in tools.steps()
    assert len(answer.context) == 1, "of the chunks whose critique could be read"


def test_the_weights_choose_among_marks() -> None:
    policy = paper_policy().self_rag
    relevant, supported = (
        read_marks(marked("a", "relevant", "no", 3)),
        read_marks(marked("b", "irrelevant", "partially", 5)),
    )
    assert (relevant.weight(policy), supported.weight(policy)) == (1.0, 1.0)
    assert read_marks(marked("c", "relevant", "fully", 5)).weight(policy) == 2.5
    assert read_marks(marked("c", "irrelevant", "no", 1)).weight(policy) == -0.5


def test_replies_are_read() -> None:
    found = read_marks("**Relevance:** Relevant\n**Answer:** Tarn [1]\n**Supported:** Yes, fully\n**Usefulness:** 4/5")
    assert (found.answer, found.relevant, found.support, found.utility) == ("Tarn", True, 1.0, 4)
    assert [claim.passage for claim in found.evidence] == [1]
    bare = read_marks("Tarn")
    assert (bare.answer, bare.relevant, bare.support, bare.utility) == ("Tarn", False, 0.0, 1)
    with pytest.raises(ReplyError, match="no answer"):
        read_marks("Relevance: relevant")
    assert [read_decision(reply) for reply in ("B", "A: I know it", "Yes.", "no")] == [True, False, True, False]
    with pytest.raises(ReplyError):
        read_decision("Perhaps")
