"""Vectors in messages: parts on the wire, hashes in what is kept, one token each in every count."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace

import pytest

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import VECTORS_PLACE, Message, TokenVectors
from okralong.pipelines.llm.request import (
    LlmRequest,
    PromptMeter,
    content_named,
    content_sent,
    content_shown,
    prompt_tokens,
)

ONE = TokenVectors(struct.pack("<4f", 1.0, 2.0, 3.0, 4.0), 2)
OTHER = TokenVectors(struct.pack("<2f", 1.0, 2.0), 1)
MIXED = Message("user", f"Text {VECTORS_PLACE} more {VECTORS_PLACE}", (ONE, OTHER))


def request(message: Message) -> LlmRequest:
    return LlmRequest("m", "embedded", (Message("system", "Be brief."), message), 16)


def test_a_text_stays_a_text() -> None:
    plain = Message("user", f"A sign {VECTORS_PLACE} of a document")
    assert content_sent(plain) == content_named(plain) == content_shown(plain.content) == plain.content


def test_parts_are_in_their_places_and_hold_the_data() -> None:
    parts = content_sent(MIXED)
    assert isinstance(parts, list)
    assert [part["type"] for part in parts] == ["text", "vectors", "text", "vectors"]
    assert [part.get("text") for part in parts] == ["Text ", None, " more ", None]
    assert base64.b64decode(parts[1]["data"]) == ONE.data
    assert [part.get("rows") for part in parts] == [None, 2, None, 1]
    assert request(MIXED).parameters()["messages"][1]["content"] == parts


def test_the_hash_knows_the_vectors_and_the_journal_does_not_hold_them() -> None:
    said = request(MIXED).canonical()
    assert base64.b64encode(ONE.data).decode() not in said
    assert json.loads(said)["messages"][1]["content"][1]["sha256"]
    hashes = {
        request(each).request_hash
        for each in (
            MIXED,
            replace(MIXED, vectors=(OTHER, ONE)),
            replace(MIXED, vectors=(ONE, replace(OTHER, data=struct.pack("<2f", 1.0, 2.5)))),
            replace(MIXED, content=f"Text {VECTORS_PLACE} Mehr {VECTORS_PLACE}"),
            Message("user", MIXED.content),
        )
    }
    assert len(hashes) == 5


def test_a_vector_counts_as_a_token() -> None:
    plain = replace(MIXED, vectors=())
    meter = PromptMeter(count_tokens)
    assert meter.plain([MIXED]) - meter.plain([plain]) == 3
    assert prompt_tokens([MIXED], count_tokens) - prompt_tokens([plain], count_tokens) == 3


def test_people_see_that_vectors_stand_there() -> None:
    assert content_shown(content_named(MIXED)) == "Text [2 vector(s)] more [1 vector(s)]"


def test_a_message_that_lacks_a_place_is_a_bug() -> None:
    with pytest.raises(ValueError, match="1 places for 2 pieces"):
        content_sent(replace(MIXED, content=f"Text {VECTORS_PLACE}"))
