from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import openai
import pytest

from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, analyzer_prompt, parse_reply
from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.prompts import (
    answer_prompt,
    parse_answer,
    parse_split,
    parse_step,
    split_prompt,
    step_prompt,
    with_demonstration,
)
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Message, Passage
from tests.fakes.calls import MODEL, chat, user
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.reports import ALDER, BIRCH

PASSAGES = [Passage(doc.doc_id, 0, 2000, doc.text[:2000], 500, 1.0) for doc in (ALDER, BIRCH)]


def sent(messages: Sequence[Message]) -> list[Any]:
    return [{"role": message.role, "content": message.content} for message in messages]


async def said(client: openai.AsyncOpenAI, messages: Sequence[Message]) -> str:
    return (await chat(client, "", messages=sent(messages))).choices[0].message.content or ""


async def test_usage_is_counted_as_the_cookbook_counts_it(client: openai.AsyncOpenAI) -> None:
    texts = ["Answer in a word.", "Wer führt Fernhill? " * 300]
    messages = [{"role": "system", "content": texts[0]}, {"role": "user", "content": texts[1]}]
    reply = await chat(client, "", messages=messages)
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == sum(count_tokens(text) + 4 for text in texts) + 3
    assert reply.usage.completion_tokens == count_tokens(reply.choices[0].message.content or "")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert (reply.object, reply.model, reply.choices[0].finish_reason) == ("chat.completion", MODEL, "stop")


async def test_made_replies_keep_the_contract_of_each_role(client: openai.AsyncOpenAI) -> None:
    answers = [parse_answer(await said(client, answer_prompt(f"Who spent what {n}?", PASSAGES))) for n in range(8)]
    for answer in answers:
        (citation,) = find_citations(answer.evidence, PASSAGES)
        assert answer.answer in citation.quote
    assert {claim.passage for answer in answers for claim in answer.evidence} == {1, 2}
    question = "Who spent more, Alder or Birch?"
    parts = parse_split(await said(client, split_prompt(question, 4)), question, 4)
    assert len(parts) == 2
    assert question not in parts
    steps = [parse_step(await said(client, step_prompt(f"Who led {n}?", PASSAGES))) for n in range(8)]
    assert {bool(step.answer) for step in steps} == {True, False}
    assert all(step.answer or step.query for step in steps)
    asked = AnalysisInput(question, (PASSAGES[0].text,))
    parse_reply(await said(client, analyzer_prompt(asked)))


async def test_a_reply_depends_on_the_prompt_alone(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    prompts = [answer_prompt(f"Question {n}?", PASSAGES) for n in range(10)]
    one = [await said(client, prompt) for prompt in prompts]
    server.reset({"script": ["server_error"], "latency": {"median_s": 0.01}})
    with pytest.raises(openai.InternalServerError):
        await said(client, prompts[0])
    again = await asyncio.gather(*(said(client, prompt) for prompt in reversed(prompts)))
    assert one == list(reversed(again))
    assert len(set(one)) > 1
    shown = with_demonstration(prompts[0], "generate")
    assert len(shown) == 4
    assert await said(client, shown) == one[0]


async def test_scripted_replies_go_first(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    rules = [{"role": "split", "text": "One?\nTwo?"}, {"contains": "harbour crew number 3", "text": "Answer: three"}]
    answers = {"Who chairs Alder?": "Answer: Ida Moss"}
    server.reset({"replies": {"rules": rules, "answers": answers, "unanswerable_share": 1.0}})
    assert await said(client, split_prompt("harbour crew number 3?", 2)) == "One?\nTwo?"
    assert await said(client, answer_prompt("Who chairs Alder?", PASSAGES[:1])) == "Answer: three"
    nothing = Passage("x", 0, 5, "empty", 1, 0.0)
    assert await said(client, answer_prompt("Who chairs Alder?", [nothing])) == "Answer: Ida Moss"
    assert parse_answer(await said(client, answer_prompt("Who else?", [nothing]))).unanswerable
    assert parse_step(await said(client, step_prompt("Who chairs Alder?", [nothing]))).answer == ""


async def test_a_reply_is_cut_at_max_tokens_and_charged_for_as_many(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    server.reset({"replies": {"rules": [{"text": "Größe und Übermaß, " * 20}]}})
    for limits in ({"max_tokens": 7}, {"max_completion_tokens": 7}):
        reply = await chat(client, "hello", logprobs=True, **limits)
        assert reply.usage is not None
        assert (reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("length", 7)
        assert reply.choices[0].logprobs is not None
        assert len(reply.choices[0].logprobs.content or []) == 7


@pytest.mark.parametrize(
    ("changes", "status", "code", "param"),
    [
        ({"model": "gpt-9"}, 404, "model_not_found", None),
        ({"messages": []}, 400, "invalid_value", "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400, "invalid_value", "messages[0].role"),
        ({"max_tokens": 0}, 400, "invalid_value", "max_tokens"),
        ({"max_tokens": 99_999}, 400, "invalid_value", "max_tokens"),
        ({"messages": user("word " * 500), "max_tokens": 600}, 400, "context_length_exceeded", "messages"),
        ({"n": 2}, 400, "invalid_value", "n"),
        ({"response_format": {"type": "json_object"}}, 400, None, "messages"),
    ],
)
async def test_what_the_real_one_refuses_is_refused_and_costs_nothing(
    server: EndpointProcess,
    client: openai.AsyncOpenAI,
    changes: dict[str, Any],
    status: int,
    code: str | None,
    param: str | None,
) -> None:
    server.reset({"models": {MODEL: {"window": 1000, "max_completion_tokens": 800}}})
    with pytest.raises(openai.APIStatusError) as caught:
        await chat(client, "hello", **changes)
    assert (caught.value.status_code, caught.value.code, caught.value.param) == (status, code, param)
    assert server.bill_usd == 0
    assert server.received()[0]["status"] == status
