"""Frames between a process that reads documents and the one that asks it to: a head in JSON, and a body of bytes.

Neither is pickle, which would run what the other side writes. The sizes stand first, so that a frame that is too large
is refused before any of it is read.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any, BinaryIO, Final

_SIZES: Final = struct.Struct(">QQ")
_MOST_HEAD_BYTES: Final = 16_000_000
"""Ours: the largest head is that of a document with a megabyte of metadata, six bytes of JSON for each."""
_BLOCK: Final = 1 << 20

Head = dict[str, Any]


class BrokenFrame(Exception):
    """What came is no frame, or a larger one than any that was asked for."""


def write_frame(stream: BinaryIO, head: Head, body: bytes = b"") -> None:
    """Write one frame and flush it. ``head`` holds what JSON can say."""
    data = json.dumps(head).encode()
    stream.write(_SIZES.pack(len(data), len(body)) + data)
    stream.write(body)
    stream.flush()


class FrameReader:
    """Reads frames from a pipe, none with a body of more than ``most_body`` bytes."""

    def __init__(self, descriptor: int, most_body: int) -> None:
        self._descriptor = descriptor
        self._most_body = most_body

    def read(self, deadline: float) -> tuple[Head, bytes]:
        """The next frame, waited for until ``deadline`` on the monotonic clock.

        Raises TimeoutError when that passes, EOFError when the other side has closed the pipe, BrokenFrame when what
        comes is no frame.
        """
        head_bytes, body_bytes = _SIZES.unpack(self._exactly(_SIZES.size, deadline))
        if head_bytes > _MOST_HEAD_BYTES or body_bytes > self._most_body:
            raise BrokenFrame(f"a frame of {head_bytes} + {body_bytes} bytes")
        data = self._exactly(head_bytes, deadline)
        body = self._exactly(body_bytes, deadline)
        try:
            head = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BrokenFrame(f"a head that is not JSON: {error}") from error
        if not isinstance(head, dict):
            raise BrokenFrame("a head that is not an object")
        return head, body

    def _exactly(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while len(data) < size:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            block = os.read(self._descriptor, min(_BLOCK, size - len(data)))
            if not block:
                raise EOFError
            data += block
        return bytes(data)
