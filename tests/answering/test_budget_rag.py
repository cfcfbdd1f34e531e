"""Plain RAG under a budget: the best chunks by BM25 until the tokens are full, the last one cut at a word."""

from __future__ import annotations

from typing import Any

import pytest

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Passage, Question
from okralong.pipelines.methods.budget_rag import filled
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

QUESTION = "How much did Alder spend on research?"
REPLY = 'Evidence: [1] "Alder spent 41 million crowns on research"\nAnswer: 41 million'


async def ask(**policy: Any) -> tuple[Answer, ScriptedTools]:
    values = {f"budget_rag__{name}": value for name, value in ({"granularity": 64} | policy).items()}
    tools = ScriptedTools([ALDER, BIRCH], {"generate": [REPLY]}, policy=paper_policy(**values))
    return await load_strategy("budget_rag")(Question("q1", QUESTION), tools), tools


@pytest.mark.parametrize("budget", [100, 200, 512])
async def test_the_budget_is_filled_and_never_passed(budget: int) -> None:
    answer, tools = await ask(max_tokens=budget)
    assert [step for _, step in tools.steps()] == ["plan", "retrieve", "generate"]
    assert tools.of("retrieve")[0].details == {"query": QUESTION, "granularity": 64, "k": 10}
    used = sum(passage.n_tokens for passage in answer.context)
    whole = await ScriptedTools([ALDER, BIRCH]).retrieve("x", QUESTION, granularity=64, k=10)
    assert min(budget, sum(hit.chunk.n_tokens for hit in whole.exact)) - 12 <= used <= budget
    assert [passage.chunk_ids[0] for passage in answer.context] == [
        hit.chunk.chunk_id for hit in whole.exact[: len(answer.context)]
    ]
    for passage in answer.context:
        text = {ALDER.doc_id: ALDER, BIRCH.doc_id: BIRCH}[passage.doc_id].text
        assert passage.text == text[passage.start_char : passage.end_char]
        assert passage.n_tokens == count_tokens(passage.text)
    assert answer.status == "answered"
    assert answer.plan is not None
    assert (answer.plan.exact_weight, answer.plan.max_tokens) == (1.0, budget)


async def test_dense_retrieval_on_demand() -> None:
    answer, _ = await ask(retriever="semantic", max_tokens=100)
    whole = await ScriptedTools([ALDER, BIRCH]).retrieve("x", QUESTION, granularity=64, k=10)
    assert answer.context[0].chunk_ids[0] == whole.semantic[0].chunk.chunk_id


def test_what_crosses_the_line_is_cut_at_a_word_and_ends_the_list() -> None:
    text = "one two three four five six seven eight nine ten"
    first = Passage("d", 5, 5 + len(text), text, count_tokens(text), 1.0, ("c1",))
    (head,) = filled([first, first], 4)
    assert text.startswith(f"{head.text} ")
    assert (head.end_char, head.n_tokens) == (5 + len(head.text), 4)
    assert filled([first], 100) == [first]
    assert [each.n_tokens for each in filled([first, first], first.n_tokens + 2)] == [first.n_tokens, 2]
    assert filled([Passage("d", 0, 9, "unbroken!", 3, 1.0)], 1) == []
