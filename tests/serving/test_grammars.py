"""The grammars of the replies, as llama.cpp and OpenVINO keep the bare embedded model to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompts import answer_prompt, parse_answer, read_typed, split_prompt, step_prompt
from okralong.pipelines.core.types import Message, Passage
from okralong.pipelines.llm.completion import Received, read_completion
from okralong.pipelines.llm.usage import Bounds, Trust
from okralong.pipelines.methods.adaptive_rag import complexity_prompt
from okralong.pipelines.methods.compact import NOTHING_YET, compress_prompt
from okralong.pipelines.models.serving import EmbeddedServer
from tests.serving.test_embedded_server import chat

YARD = Passage("d", 0, 40, "Fernhill's yard in Oslo has 44 workers.", 0, 0.0)
CHIEF = Passage("d", 50, 90, 'Mara Lind, "the Duke", has led Fernhill since 2016.', 1, 0.0)
CLAIM = r'Evidence: \[[1-9][0-9]?\] "[^\n]{1,300}"'
ANSWER = r"Answer: [^ \n][^\n]{0,399}"
ASKED = {
    "generate": (answer_prompt("Who leads Fernhill?", [YARD, CHIEF]), rf"({CLAIM}\n){{0,3}}{ANSWER}"),
    "step": (
        step_prompt("Where did the leader of Fernhill study?", [YARD, CHIEF]),
        rf"(Evidence: none|{CLAIM}(\n{CLAIM}){{0,2}})\nQuery: [^ \n][^\n]{{0,199}}\n{ANSWER}",
    ),
    "classify": (complexity_prompt("Where did the leader of Fernhill study?"), "[ABC]"),
    "compress": (
        compress_prompt("Who leads Fernhill?", NOTHING_YET, [YARD, CHIEF]),
        r"Summary: [^ \n][^\n]{0,1199}\nEvaluation: \[(IN)?COMPLETE\]( [^ \n][^\n]{0,239})?",
    ),
}


SOAKED = ("step", "compress")
"""Roles whose replies are long; for the others, and for every grammar in ``tests/answering``, this is seconds."""


@pytest.fixture(scope="module", params=["llama.cpp", "openvino"])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(engine=request.param, parallel=1, window=2048) as running:
        yield running


@pytest.mark.parametrize(
    "role", [pytest.param(role, marks=[pytest.mark.soak] if role in SOAKED else []) for role in ASKED]
)
def test_the_form_of_a_reply_holds_under_the_grammar_and_not_without(server: EmbeddedServer, role: str) -> None:
    prompt, contract = ASKED[role]
    assert not re.fullmatch(contract, said(server, prompt, max_tokens=60))
    assert re.fullmatch(contract, said(server, prompt, max_tokens=500, grammar=grammar(role, prompt)))


def test_a_line_that_would_never_end_ends_at_its_bound_with_its_mark(server: EmbeddedServer) -> None:
    if server.engine == "openvino":
        pytest.skip("only the token limit bounds a line here")
    prompt = split_prompt("Who sold more boats in 2021, Fernhill or Marrow Bay?", 4)
    assert "?" not in said(server, prompt, max_tokens=250)  # "2021: 2021: 2021: ..."
    first, _, more = said(server, prompt, max_tokens=250, grammar=grammar("split", prompt)).partition("\n")
    assert more
    assert re.fullmatch(r"[^?]{199}\?", first)


def test_log_probabilities_come_with_the_tokens_of_the_reply(server: EmbeddedServer) -> None:
    body = chat(server, "Write one sentence about Zürich and its ☃.", max_tokens=30, logprobs=True)
    reply = read_completion(Received(body), Bounds(100, 30), "m", len, Trust(8192)).reply
    assert len(reply.tokens) == len(reply.token_logprobs) >= 5
    assert "".join(reply.tokens).strip() == reply.text.strip()
    assert max(reply.token_logprobs) <= 0


@pytest.mark.soak  # hundreds of tokens; tests/answering/test_copying.py holds the grammar itself against texts
def test_what_stands_between_the_marks_is_a_copy(server: EmbeddedServer) -> None:
    rows = " | ".join(f"{1900 + year} | {year * 7919 % 10_000:,}" for year in range(60))
    prompt = answer_prompt("How much was it in 1934?", [YARD, Passage("d", 100, 900, rows, 1, 0.0)])
    must_quote = (grammar("generate", prompt) or "").replace("){0,3} answer", "){3} answer")
    reply = parse_answer(said(server, prompt, max_tokens=700, grammar=must_quote))
    shown = {0: "", 1: YARD.text, 2: rows}
    assert len(reply.evidence) > 0
    assert all(claim.quote in shown[claim.passage] for claim in reply.evidence)


def said(server: EmbeddedServer, messages: list[Message], **more: object) -> str:
    spoken = [{"role": message.role, "content": message.content} for message in messages]
    text: str = chat(server, "", **{**more, "messages": spoken})["choices"][0]["message"]["content"]
    return text


STATEMENT = Passage("d", 100, 200, "Revenue was $ 467,460 in 2023 and $ 431,002 in 2022, a margin of 12.5 %.", 1, 0.0)


@pytest.mark.parametrize(
    ("answer_type", "short", "said_as"),
    [
        ("money", True, r"unanswerable|(44|\$ (467,460|431,002)) \[[1-9][0-9]?\]"),
        ("period", True, r"unanswerable|202[23] \[[1-9][0-9]?\]"),
        ("boolean", True, r"unanswerable|(yes|no) \[[1-9][0-9]?\]"),
        pytest.param("money", False, None, marks=pytest.mark.soak),
        pytest.param('list of choices ["up", "down"]', False, None, marks=pytest.mark.soak),
    ],
)
def test_a_typed_reply_has_its_form_under_the_grammar(
    server: EmbeddedServer, answer_type: str, short: bool, said_as: str | None
) -> None:
    wanted = AnswerType.of(answer_type)
    prompt = answer_prompt("What was the revenue of 2023?", [YARD, STATEMENT], short=short, wanted=wanted)
    reply = said(server, prompt, max_tokens=400, grammar=grammar("generate", prompt, answer_type, short))
    assert said_as is None or re.fullmatch(said_as, reply)
    values = read_typed(reply, wanted)
    assert all(each.evidence for each in values) or not short
    if not short:
        assert isinstance(json.loads(reply), dict)
        assert all(claim.quote in f"{YARD.text} {STATEMENT.text}" for each in values for claim in each.evidence)
