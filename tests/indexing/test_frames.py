"""What a side that was taken over could send: nothing of it is believed."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from okralong.pipelines.core.confined_process import BrokenFrame, FrameReader, write_frame
from okralong.pipelines.indexing.documents import BadRow, RawDocument, Source, make_document
from okralong.pipelines.indexing.parser_child import Parsed
from okralong.pipelines.indexing.parser_process import _FileProgress, document_of_frame

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def soon() -> float:
    return time.monotonic() + 60


def test_a_frame_comes_as_it_was_written(pipe: Pipe) -> None:
    with os.fdopen(pipe[1], "wb", closefd=False) as stream:
        write_frame(stream, {"a": "\ud800\n"}, b"\0body")
        write_frame(stream, {})
    frames = FrameReader(pipe[0], most_body=5)
    assert frames.read(soon()) == ({"a": "\ud800\n"}, b"\0body")
    assert frames.read(soon()) == ({}, b"")
    with pytest.raises(TimeoutError):
        frames.read(time.monotonic() + 0.05)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">QQ", 2, 6) + b"{}123456",
        struct.pack(">QQ", 2**40, 0),
        struct.pack(">QQ", 4, 0) + b"oops",
        struct.pack(">QQ", 2, 0) + b"[]",
        struct.pack(">QQ", 20_000, 0) + b"[" * 20_000,
    ],
)
def test_what_is_no_frame_or_too_large_is_refused(pipe: Pipe, data: bytes) -> None:
    os.write(pipe[1], data)
    with pytest.raises(BrokenFrame):
        FrameReader(pipe[0], most_body=5).read(soon())


def test_half_a_frame_is_an_end() -> None:
    reading, writing = os.pipe()
    os.write(writing, struct.pack(">QQ", 2, 5) + b"{}12")
    os.close(writing)
    with pytest.raises(EOFError):
        FrameReader(reading, most_body=5).read(soon())
    os.close(reading)


TABLE = "Division  2022  2023\nApples  12,400  13,150\nPears  4,310  4,020\n"


@pytest.mark.parametrize(
    "change",
    [
        {"doc_id": 5},
        {"title": None},
        {"metadata": ["a"]},
        {"metadata": {"a": 1}},
        {"metadata": {"a": "half a pair: \ud800"}},
        {"doc_id": "\ud800"},
        {"text_bytes": -1},
        {"text_bytes": "many"},
        {"text_bytes": 3},
        {"text_bytes": 10**9},
    ],
)
def test_a_head_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    raw = RawDocument("a", "caf\u00e9\n\n" + TABLE, "a.txt", metadata={"k": "v"})
    head, body = Parsed.of(raw).frame()
    document = document_of_frame(json.loads(json.dumps(head)), body, "a.txt")
    assert document == make_document(raw)
    assert len(document.table_spans) == 1
    with pytest.raises(BrokenFrame):
        document_of_frame({**head, **change}, body, "a.txt")


@pytest.mark.parametrize("places", [(0, 99), (-1, 2), (2, 1), (0, 2, 1, 4), (0, 1, 2)])
def test_tables_that_do_not_stand_in_the_text_are_refused(places: tuple[int, ...]) -> None:
    head, body = Parsed.of(RawDocument("a", "text", "a.txt")).frame()
    with pytest.raises(BrokenFrame):
        document_of_frame(head, body + struct.pack(f"{len(places)}q", *places), "a.txt")


def test_names_and_messages_of_failures_can_be_stored() -> None:
    head = {"kind": "bad", "doc_id": "a\ud800", "message": "b\udfff"}
    assert _FileProgress(Source("a.eml", "a"))._outcome(head, b"") == BadRow("a?", "b?")
