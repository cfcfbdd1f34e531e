"""Adaptive-RAG (Jeong et al. 2024, section 3): a classifier says how complex the question is, and that is how it is
answered: A without retrieval, B by one retrieval, C by retrieval and reasoning in turns (IRCoT).

Where this differs from the paper:

- The classifier is the generator, prompted; the paper trains a T5-large on which of the three ways answered right.
- Retrieval is dense, five chunks of 512 tokens a look-up, as OkraLong's authors ran it (their section 4.2); the paper's
  own is BM25 over paragraphs.
- The reader and the reasoner are prompted in our words and without worked examples; the paper's have some.
- Retrieval has the question's scope, and A answers as it is: nothing is looked up when the generator does not know.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from okralong.pipelines.answering.citations import ask_and_read
from okralong.pipelines.answering.context import passage_of, prompt_fits
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.operators.closed_book import answer_closed_book
from okralong.pipelines.answering.operators.interleave import interleave
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts.complexity import Complexity, complexity_prompt, read_complexity
from okralong.pipelines.answering.strategies.plain import most_of, plain_plan
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Plan, Question

UNFORESEEN: Final = "the classifier's reply decides how often it retrieves and asks"


def granularities(policy: Policy) -> list[int]:
    """The chunk size that the archive must hold."""
    return [policy.adaptive_rag.granularity]


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``classify``, ``plan``, then ``generate`` (A), ``retrieve`` and ``generate`` (B), or those of
    ``operators/interleave.py`` (C). Raises ReplyError when there is no letter in the repaired reply either.
    """
    words = question.question
    ask = partial(tools.complete, role="classify")
    fits = partial(prompt_fits, role="classify", tools=tools)
    letter, _ = await ask_and_read(ask, "classify", complexity_prompt(words), read_complexity, fits)
    plan = await tools.record_plan("plan", _plan(letter, tools))
    if plan.count == 0:
        result = await answer_closed_book(tools, "generate", words)
    elif plan.workflow == "step":
        result = await interleave(tools, words, plan, tools.policy.adaptive_rag.max_chunks)
    else:
        found = await tools.retrieve("retrieve", words, granularity=plan.granularity, k=plan.count)
        hits = found.semantic[: plan.count]
        result = await generate(tools, "generate", words, [passage_of(hit) for hit in hits], hits)
    return replace(result, plan=plan)


def _plan(letter: Complexity, tools: Tools) -> Plan:
    policy = tools.policy.adaptive_rag
    size, count = policy.granularity, policy.count
    if letter == "A":
        return plain_plan(size, 0, "Adaptive-RAG, A: no retrieval")
    if letter == "B":
        return plain_plan(size, count, f"Adaptive-RAG, B: the {count} best dense chunks of {size} tokens")
    sentence = tools.completion_limit("sentence")  # those written before stand in each prompt
    shown = [size * min(number * count, policy.max_chunks) for number in range(1, policy.max_steps + 2)]
    calls = [("sentence", tokens + number * sentence) for number, tokens in enumerate(shown[:-1])]
    calls.append(("generate", shown[-1]))
    reason = f"Adaptive-RAG, C: at most {policy.max_steps} look-ups of {count} chunks, by a chain of thought"
    return plain_plan(size, count, reason, workflow="step", max_steps=policy.max_steps, most=most_of(tools, calls))
