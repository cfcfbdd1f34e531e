"""Asking a reader for a report, over real sockets: what a reply says of itself, and what is not asked again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import openai

from okralong.lab.evidence.writers import KeptReplies
from okralong.lab.training.asking import Asker
from okralong.pipelines.core.types import Message
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import config_for

PROMPT = [Message("system", "Answer."), Message("user", "Who leads Fernhill?")]
REPLY = 'Answer: Mara Lind\nEvidence: [1] "Mara Lind leads it"'


def asker_of(server: FakeOpenAI) -> Asker:
    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
    return Asker(config_for(server, demonstrations=False), client, "weights:engine")


def test_a_reader_is_asked_each_prompt_once_ever(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda messages: True, REPLY)]) as server:
        asker = asker_of(server)
        assert asker.remembered(KeptReplies(tmp_path / "kept.jsonl"), "generate", PROMPT) == REPLY
        again = KeptReplies(tmp_path / "kept.jsonl")
        assert asker.remembered(again, "generate", PROMPT) == REPLY
        assert len(server.received) == 1
        assert replace(asker, identity="others:engine").remembered(again, "generate", PROMPT) == REPLY
        assert asker.remembered(again, "generate", [*PROMPT, Message("user", "And?")]) == REPLY
        assert len(server.received) == 3


def test_a_server_that_counts_nothing_is_asked_as_well() -> None:
    with FakeOpenAI(troubles=[Trouble(text=REPLY, no_usage=True)]) as server:
        said = asker_of(server).ask("generate", PROMPT)
    assert said.text == REPLY
    assert said.seconds > 0
    assert said.read == said.written == (0, 0.0)
