"""The log of a run in progress: rows of all its tables, appended per commit and later converted to Parquet.

A *segment* is a file of *frames*. A frame is one commit: record batches of one or more tables that become durable
together. On a local disk a segment grows by appending and ``fdatasync``. An object store cannot append, so each commit
is a new segment. A segment begins with the schemas of its tables, so that later releases with more columns can read it.

    file   = MAGIC, size (u64), frame, frame, ...   the first frame holds schemas, the others record batches
    frame  = length (u32), crc32 of the payload (u32), payload
    payload = for each table: length of name (u32), length of message (u32), name, message (Arrow IPC)

Names and messages are padded to 8 bytes, as Arrow requires of its buffers.

``size`` is the number of bytes that were acknowledged. It is written after a commit, without a sync of its own, so it
may lag by one commit after a power failure. Readers ignore what cannot be read beyond it, such as the unfinished frame
of a killed process. Anything else that cannot be read is damage, because it may have held replies that were paid for:
it is reported, and ``repair_segment`` keeps the rest.

On a local disk a segment grows in preallocated steps, so that an append within a step cannot run out of space. Readers
ignore the zeros at its end; ``seal`` removes them. The same folder has the *reserve*, a preallocated file. If an append
fails, the reserve is renamed to become the next segment. This needs no inode, and it frees no space that another
program could take. Copy-on-write file systems with compression (ZFS, Btrfs) do not guarantee preallocated space; there
the reserve may not help.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError

MAGIC: Final = b"OKRALOG2"
EARLIER_MAGIC: Final = b"OKRALOG1"
"""The first bytes of segments of earlier releases, which have no size."""
SEGMENT: Final = re.compile(r"log-(\d{9})\.frames")
SEGMENT_BYTES: Final = 16 * 1024 * 1024  # project default
"""Bytes of a full segment. Converting it to Parquet takes half a second, reading it a tenth of a second."""
SEGMENT_AGE_S: Final = 60.0  # project default
"""Seconds after which a segment with rows counts as full, so that other programs find finished rows as Parquet."""
SEGMENTS_OPEN: Final = 64  # project default
"""Number of segments that may await conversion on an object store, where each commit is a segment."""

BEGUN: Final = ".partial"
"""What the name of a segment ends in until its schemas are on disk; the next writer removes those of a killed one."""
RESERVE: Final = "reserve"
"""The reserve, which becomes a segment when the disk is full."""
STEP_BYTES: Final = 256 * 1024  # project default
"""Bytes by which a segment grows: enough for about fifty commits, and little waste on a small disk."""

LONGEST_NAME: Final = 64
"""The most bytes of a table's name."""

_HEAD: Final = struct.Struct("<II")
_SIZE: Final = struct.Struct("<Q")
_FIRST: Final = len(MAGIC) + _SIZE.size
"""Where the first frame begins."""
_NO_PREALLOCATION: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_ZEROS: Final = bytes(1024 * 1024)

Batches = Mapping[str, pa.RecordBatch]
"""Record batches by table name."""


class Segments:
    """The segments in one folder. One process appends; others may read at any time."""

    def __init__(self, folder: Folder, schemas: Mapping[str, pa.Schema]) -> None:
        """Use ``folder``; ``schemas`` are those of the tables to append to."""
        self._folder = folder
        self._opening = _frame({name: schema.serialize() for name, schema in schemas.items()})
        self._file: int | None = None
        self._size = 0
        self._allocated = 0
        self._reserve = 0
        self._rows_since: float | None = None
        self._last = 0

    def start_after(self, number: int) -> None:
        """Start numbering new segments at ``number`` + 1, or after the existing ones if that is higher."""
        self._last = max(number, *numbers(self._folder), 0)

    @property
    def last(self) -> int:
        """The number of the newest segment of this process; it may be open for appending."""
        return self._last

    @property
    def full(self) -> bool:
        """True if enough rows were appended since ``seal``, or long enough ago, to convert them to Parquet."""
        if self._rows_since is None:
            return False
        many = not self._folder.is_local and self._size >= SEGMENTS_OPEN
        return many or self._size >= SEGMENT_BYTES or time.monotonic() - self._rows_since >= SEGMENT_AGE_S

    def append(self, batches: Batches) -> None:
        """Make one commit durable. Raises OSError if none of it could be written."""
        frame = _frame({name: batch.serialize() for name, batch in batches.items()})
        if not self._folder.is_local:
            self._folder.write_bytes(_name(self._last + 1), _segment(self._opening + frame))
            self._last += 1
            self._size += 1
        else:
            if self._file is None:
                self._open()
            self._extend(frame)
        if self._rows_since is None:
            self._rows_since = time.monotonic()

    def seal(self) -> int:
        """Start a new segment, and return the number of the last complete one."""
        if self._file is not None:
            if self._allocated > self._size:
                with contextlib.suppress(OSError):  # if it fails, readers ignore the zeros
                    os.ftruncate(self._file, self._size)
            os.close(self._file)
            self._file = None
        self._size, self._allocated, self._rows_since = 0, 0, None
        return self._last

    def set_reserve(self, size: int) -> None:
        """Preallocate a reserve of ``size`` bytes, or reuse that of a killed process; with 0, delete it.

        No-op on an object store. Raises OSError if it fails; then there is no reserve.
        """
        if not self._folder.is_local:
            return
        path = Path(self._folder.path) / RESERVE
        self._reserve = 0
        if not size:
            path.unlink(missing_ok=True)
            return
        self._folder.create()
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            if os.fstat(file).st_size > size:
                os.ftruncate(file, size)
            _allocate(file, 0, size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        self._reserve = size

    def use_reserve(self) -> bool:
        """Continue in the reserve; return False if it is missing or cannot be written."""
        size, self._reserve = self._reserve, 0
        if not size:
            return False
        self.seal()
        try:
            self._begin(os.O_WRONLY, size)
        except OSError:
            return False
        return True

    def remove(self, first: int, last: int) -> None:
        """Delete the segments from ``first`` to ``last``."""
        for number in numbers(self._folder):
            if first <= number <= last:
                self._folder.remove(_name(number))

    def _open(self) -> None:
        self._folder.create()
        self._begin(os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0)

    def _begin(self, flags: int, allocated: int) -> None:
        """Write the schemas into a new segment, or with ``allocated`` bytes into the reserve.

        The file gets a segment's name when they are on disk, so that a segment without them is a damaged one.
        """
        folder = Path(self._folder.path)
        path = folder / (RESERVE if allocated else f"{_name(self._last + 1)}{BEGUN}")
        file = os.open(path, flags, 0o666)
        try:
            opening = _segment(self._opening)
            allocated = _write_at(file, opening, 0, allocated)
            os.fsync(file)
            path = path.rename(folder / _name(self._last + 1))
            _sync_folder(folder)
        except BaseException:  # the disk may be full: leave no empty segment behind
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        self._file, self._size, self._allocated = file, len(opening), allocated
        self._last += 1

    def _extend(self, frame: bytes) -> None:
        assert self._file is not None
        try:
            self._allocated = _write_at(self._file, frame, self._size, self._allocated)
            os.fdatasync(self._file)
        except BaseException:
            # Readers stop at a partial frame, so it must not precede another. If it cannot be removed, the next frame
            # is written to a new segment.
            try:
                os.ftruncate(self._file, self._size)
                self._allocated = self._size
            except OSError:
                self.seal()
            raise
        self._size += len(frame)
        with contextlib.suppress(OSError):  # readers then have the size of the commit before
            os.pwrite(self._file, _SIZE.pack(self._size), len(MAGIC))


def numbers(folder: Folder) -> list[int]:
    """Return the numbers of the segments in a folder, in order."""
    return [int(match[1]) for name in folder.names(".frames") if (match := SEGMENT.fullmatch(name))]


def read_segment(folder: Folder, number: int, table: str) -> tuple[pa.Schema, list[pa.RecordBatch]] | None:
    """Return a table's schema and record batches in a segment, in commit order; None if it lacks the table.

    An unfinished commit at the end is ignored. Raises FileNotFoundError if the segment was converted to Parquet
    meanwhile, and ArchiveError if it is damaged.
    """
    parts = list(_parts(_read(folder, _name(number))))
    for part in parts:
        if part.payload is None:
            raise ArchiveError(
                f"{folder.at(_name(number)).path} is damaged at byte {part.start}: the disk did not keep what was "
                "written there, and replies that were paid for may be lost. Restore the file from a copy, or run "
                f"okralong repair {Path(folder.path).parent}, which keeps what can be read and says what is lost. "
                "Nothing is sent before."
            )
    frames = iter([_messages(part.payload) for part in parts if part.payload is not None])
    opening = next(frames, None)
    if opening is None or table not in opening:
        return None
    schema = pa.ipc.read_schema(opening[table])
    return schema, [pa.ipc.read_record_batch(frame[table], schema) for frame in frames if table in frame]


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes of a segment from ``start`` to ``end``: a frame with its ``payload``, or damage (None)."""

    start: int
    end: int
    payload: bytes | None


def repair_segment(folder: Folder, number: int, schemas: Mapping[str, pa.Schema]) -> list[Part]:
    """Remove what is damaged from a segment and return it; the original is kept as ``NAME.damaged``.

    ``schemas`` are those of the tables, in case the segment's own are lost.
    """
    data = _read(folder, _name(number))
    parts = list(_parts(data))
    lost = [part for part in parts if part.payload is None]
    if lost:
        opening = _frame({name: schema.serialize() for name, schema in schemas.items()})
        kept = [part for part in parts if part.payload is not None]
        frames = b"".join(data[part.start : part.end] for part in kept)
        has_opening = bool(kept) and kept[0].start <= _FIRST
        folder.write_bytes(f"{_name(number)}.damaged", data)
        folder.write_bytes(_name(number), _segment(frames if has_opening else opening + frames))
    return lost


def _read(folder: Folder, name: str) -> bytes:
    return (Path(folder.path) / name).read_bytes() if folder.is_local else folder.read_bytes(name)


def _parts(data: bytes) -> Iterator[Part]:
    """Yield the frames of a segment and its damaged parts, without what was not acknowledged."""
    used = len(data.rstrip(b"\0"))
    at, acknowledged = _FIRST, 0
    if data[: len(MAGIC)] == EARLIER_MAGIC:
        at = len(EARLIER_MAGIC)
    elif data[: len(MAGIC)] == MAGIC and len(data) >= _FIRST:
        (size,) = _SIZE.unpack(data[len(MAGIC) : _FIRST])
        acknowledged = max(size, _FIRST + 1)  # the schemas always are
    else:
        at = _next_frame(data, 0)
        yield Part(0, at, None)
    while at < max(used, acknowledged):
        payload = _payload(data, at)
        if payload is not None:
            end = at + _HEAD.size + len(payload)
        else:
            end = _next_frame(data, at + _HEAD.size)
            if end == len(data) and at >= acknowledged:
                return
        yield Part(at, end, payload)
        if end >= len(data):
            return
        at = end


def _payload(data: bytes, at: int) -> bytes | None:
    """Return the payload of the frame at a byte, or None if there is none that can be read."""
    head, start = data[at : at + _HEAD.size], at + _HEAD.size
    if len(head) < _HEAD.size:
        return None
    length, crc = _HEAD.unpack(head)
    payload = data[start : start + length]
    return payload if length and len(payload) == length and zlib.crc32(payload) == crc else None


def _next_frame(data: bytes, at: int) -> int:
    """Return where the next frame that can be read begins, at byte ``at`` or later; the end of ``data`` if none does.

    Frames begin at multiples of 8. Only places that look like a frame, with the name of a table, are tried.
    """
    at = _padded(at)
    if at + 2 * _HEAD.size > len(data):
        return len(data)
    words = np.frombuffer(data, "<u4", count=(len(data) - at) // 8 * 2, offset=at)
    length, named, message = words[0:-2:2], words[2::2], words[3::2]
    likely = (length > 0) & (named > 0) & (named <= LONGEST_NAME) & (message < length)
    for place in (at + 8 * int(each) for each in np.flatnonzero(likely)):
        if _payload(data, place) is not None:
            return place
    return len(data)


def _messages(payload: bytes) -> dict[str, pa.Buffer]:
    found: dict[str, pa.Buffer] = {}
    at, whole = 0, pa.py_buffer(payload)
    while at < whole.size:
        named, length = _HEAD.unpack(payload[at : at + _HEAD.size])
        start = at + _HEAD.size
        message = start + _padded(named)
        found[payload[start : start + named].decode()] = whole[message : message + length]
        at = message + _padded(length)
    return found


def _segment(frames: bytes) -> bytes:
    return MAGIC + _SIZE.pack(_FIRST + len(frames)) + frames


def _frame(messages: Mapping[str, pa.Buffer]) -> bytes:
    payload = b"".join(
        piece
        for name, message in messages.items()
        for piece in (_HEAD.pack(len(name), message.size), _filled(name.encode()), _filled(message.to_pybytes()))
    )
    return _HEAD.pack(len(payload), zlib.crc32(payload)) + payload


def _padded(length: int) -> int:
    return -(-length // 8) * 8


def _filled(data: bytes) -> bytes:
    return data.ljust(_padded(len(data)), b"\0")


def _name(number: int) -> str:
    return f"log-{number:09d}.frames"


def _write_at(file: int, data: bytes, at: int, allocated: int) -> int:
    """Write ``data`` at byte ``at``, allocating another step if needed; return the allocated bytes."""
    end = at + len(data)
    if end > allocated:
        wanted = -(-end // STEP_BYTES) * STEP_BYTES
        _allocate(file, allocated, wanted)
        allocated = wanted
    left = memoryview(data)
    while left:
        left = left[os.pwrite(file, left, end - len(left)) :]
    return allocated


def _allocate(file: int, start: int, end: int) -> None:
    """Reserve space for the bytes from ``start`` to ``end``, by writing zeros if the file system cannot preallocate."""
    try:
        os.posix_fallocate(file, start, end - start)
    except (AttributeError, OSError) as error:  # macOS has no such call
        if isinstance(error, OSError) and error.errno not in _NO_PREALLOCATION:
            raise
        at = max(start, os.fstat(file).st_size)  # written bytes already have space
        while at < end:
            at += os.pwrite(file, _ZEROS[: end - at], at)


def _sync_folder(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
