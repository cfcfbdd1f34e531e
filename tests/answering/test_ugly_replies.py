"""Replies as small models write them: each is an answer or "unanswerable", and only one that says nothing fails."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompt_text import RULES
from okralong.pipelines.answering.prompts import answer_prompt, parse_answer, with_demonstration
from okralong.pipelines.core.types import Answer, Passage, ReplyError
from okralong.pipelines.llm.config import LlmConfig
from tests.fakes.tools import ScriptedTools

QUESTION = "Where was the chair of Alder born?"
TEXTS = ("Alder spent 41 million in 2021. It sold 12 lamps.", "Ida Moss was born in Tarn.\nShe chairs Alder.")
PASSAGES = [Passage(f"d{n}", 0, len(text), text, 9, 1.0) for n, text in enumerate(TEXTS)]

UGLY = [
    ("Tarn", "Tarn", False),
    ("tarn tarn tarn tarn tarn", "tarn tarn tarn tarn tarn", False),
    ("Answer\uff1a Tarn", "Tarn", False),
    ("Final Answer: **Tarn**", "Tarn", False),
    ("The final answer is $\\boxed{Tarn}$", "Tarn", False),
    ("So the answer is Tarn", "Tarn", False),
    ("```\nAnswer: Tarn\n```", "Tarn", False),
    ('```json\n{"answer": "Tarn", "evidence": [2]}\n```', "Tarn", True),
    ('{"evidence": "[2] \\"Ida Moss was born in Tarn\\"", "answer": "Tarn"}', "Tarn", True),
    ('{"answer": "Tarn, where she', "Tarn, where she", False),
    ("<think>Moss? She is the chair.</think>\n\nAnswer: Tarn [2]", "Tarn", True),
    ("She is the chair, I think.\n</think>\nTarn", "Tarn", False),
    ("<thinking>hm</thinking>Tarn", "Tarn", False),
    ("<think>The chair is Ida Moss, so the answer is Tarn\nBut let me", "Tarn", False),
    ("<think>\nIda Moss was born in Tarn", "Ida Moss was born in Tarn", False),
    ("Answer: Tarn<|im_end|>\n<|im_start|>user\nQuestion: And Birch?", "Tarn", False),
    ("<|im_start|>assistant\nTarn<|im_end|>", "Tarn", False),
    ("assistant\nTarn</s>", "Tarn", False),
    ("Assistant: Tarn", "Tarn", False),
    (f"{QUESTION}\nTarn", "Tarn", False),
    (f"Question: {QUESTION}\nAnswer: Tarn", "Tarn", False),
    (f"Question: {QUESTION}\nTarn", "Tarn", False),
    (f"Q: {QUESTION}\nA: Tarn", "Tarn", False),
    ("Answer: Tarn\n\nQuestion: Who leads Birch?\nAnswer: Nobody", "Tarn", False),
    ("Answer: Tarn\nExplanation: passage [2] says so.", "Tarn", False),
    ("Explanation: she was born in Tarn", "she was born in Tarn", False),
    ("Sure! Here is the answer: Tarn", "Tarn", False),
    ("Certainly! Tarn", "Tarn", False),
    ("Based on the provided passages, Ida Moss was born in Tarn.", "Ida Moss was born in Tarn.", False),
    ("According to passage 2, Tarn.", "Tarn.", False),
    ('Evidence: [2] "Ida Moss was born in Tarn" Answer: Tarn', "Tarn", True),
    ('Evidence: [2] "Ida Moss was born in Ta', "Ida Moss was born in Ta", True),
    ('Evidence: [2] "Ida Moss was born in Tarn."\nAnswer:', "Ida Moss was born in Tarn", True),
    ("Evidence: [2]\nAnswer:", "Ida Moss was born in Tarn.", True),
    ("[2]", "Ida Moss was born in Tarn.", True),
    ("Tarn [2]", "Tarn", True),
    ("Tarn [7]", "Tarn", False),
    ("- Tarn\n- Tarn", "- Tarn\n- Tarn", False),
    ("I do not know", "I do not know", False),
    ("yes", "yes", False),
    ("41", "41", False),
]
"""A reply, its answer, and whether something is cited."""

UNANSWERABLE = [
    "unanswerable",
    "**Unanswerable**",
    "<think>nothing there</think>Answer: unanswerable",
    '{"answer": "unanswerable"}',
    "The passages do not contain the answer to this question.",
    "I'm sorry, but the provided passages don't provide enough information about her.",
    "Unanswerable [1]",
]

NOTHING = ["Answer:", "The answer is:", "<think></think>", "```\n```", "<|im_end|>", "...", '""']


async def read(reply: str, *, short: bool = False) -> Answer:
    tools = ScriptedTools([], {"generate": [reply]}, short_contract=short)
    return await generate(tools, "generate", QUESTION, PASSAGES)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(("reply", "said", "is_cited"), UGLY)
async def test_whatever_says_something_is_an_answer(reply: str, said: str, is_cited: bool, short: bool) -> None:
    answer = await read(reply, short=short)
    assert (answer.status, answer.answer, bool(answer.citations)) == ("answered", said, is_cited)


@pytest.mark.parametrize("reply", UNANSWERABLE)
async def test_missing_evidence_in_many_words(reply: str) -> None:
    assert (await read(reply)).status == "unanswerable"


@pytest.mark.parametrize("reply", NOTHING)
def test_only_what_says_nothing_fails(reply: str) -> None:
    with pytest.raises(ReplyError, match="holds no answer"):
        parse_answer(reply)


async def test_a_number_cites_the_line_that_holds_the_answer() -> None:
    (citation,) = (await read("Tarn [2]", short=True)).citations
    assert (citation.doc_id, citation.quote) == ("d1", "Ida Moss was born in Tarn.")
    (citation,) = (await read("12 lamps [1]", short=True)).citations
    assert (citation.start_char, citation.quote) == (TEXTS[0].index("It"), "It sold 12 lamps.")
    (citation,) = (await read("Tarn [2]")).citations
    assert citation.quote == "Ida Moss was born in Tarn."


def test_the_short_prompt_asks_for_the_answer_and_a_number() -> None:
    asked = answer_prompt(QUESTION, PASSAGES, short=True)
    assert asked[1] == answer_prompt(QUESTION, PASSAGES)[1]
    assert asked[0].content.startswith(RULES)
    assert "Evidence" not in asked[0].content
    assert parse_answer("41 million [2]").evidence
    shown = with_demonstration(asked, "generate", short=True)
    assert [message.content for message in shown[2:3]] == ["Mara Lind [2]"]
    assert '"unanswerable"' in (grammar("generate", asked, short=True) or "")
    assert grammar("split", asked, short=True) == grammar("split", asked)


@pytest.mark.parametrize(
    ("told", "short"),
    [
        ({"base_url": "embedded", "model": "embedded", "reader": "none"}, True),
        ({"base_url": "embedded", "model": "embedded"}, False),
        ({"base_url": "embedded", "model": "embedded", "contract": "short"}, True),
        ({"base_url": "embedded", "model": "embedded", "reader": "none", "contract": "full"}, False),
        ({"base_url": "http://localhost:1/v1", "model": "m"}, False),
        ({"base_url": "http://localhost:1/v1", "model": "m", "contract": "short"}, True),
    ],
)
def test_the_embedded_model_without_a_reader_is_asked_by_the_short_contract(told: dict[str, str], short: bool) -> None:
    assert LlmConfig.model_validate(told).short_contract == short
