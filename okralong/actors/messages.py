"""Batched messages to a run's gateway: messages of one process within a few milliseconds travel together.

An exchange (``MessageClient``) sends messages and returns replies. The first goes by Ray, which finds the gateway on
any node, waits while it is restarted, and raises the error that ended it for good. Later exchanges from the same node
use a socket of the gateway's process: at some sixty calls a second, a call of an actor's method takes 2 ms of processor
time at either end, a message on the socket 0.4 ms (``benchmarks/gateway.py``). If the socket breaks, or there is none,
Ray carries the messages.

It is a Unix socket, so other machines cannot reach it. Messages are pickled, as Ray's are; a connection is read only
after it has sent the secret that the gateway gives out through Ray.
"""

from __future__ import annotations

import asyncio
import atexit
import hmac
import itertools
import logging
import pickle
import secrets
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import ray

from okralong.actors.cluster import plain_errors

logger = logging.getLogger(__name__)

GROUP_S = 0.003
"""Seconds that a message waits for others of its process. # project default"""
SECRET_BYTES = 32
"""Length of the secret that a connection begins with. # project default"""
LENGTH_BYTES = 8
"""Size of the length that precedes each frame. # project default"""


@dataclass(frozen=True, slots=True)
class Message:
    """A call of a method of ``Gateway``; ``ticket`` is the sending process's number for it."""

    ticket: int
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Replies:
    """Results and errors of messages by ticket, and the tickets that this process does not know (``lost``).

    ``incarnation`` identifies the replying process; it changes when Ray restarts it.
    """

    incarnation: str = ""
    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.results or self.errors or self.lost)


class _PendingReplies:
    """The messages of one process that are being handled, and the replies that it has not fetched."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.replies = Replies()
        self.some = asyncio.Event()
        self._fetches = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, message: Message, work: Callable[..., Awaitable[Any]]) -> None:
        """Start handling a message; ignore one that is being handled already."""
        if message.ticket not in self.open:
            self.open.add(message.ticket)
            task = asyncio.create_task(self._work(message, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, message: Message, work: Callable[..., Awaitable[Any]]) -> None:
        try:
            self.replies.results[message.ticket] = await work(*message.arguments, **message.named)
        except Exception as error:
            self.replies.errors[message.ticket] = _sendable(error)
        self.some.set()

    async def fetch(self, waiting: Sequence[int]) -> Replies:
        """Wait for replies and return all there are; return none if a later post waits for them.

        ``waiting`` are tickets that were posted to an earlier process.
        """
        self._fetches += 1
        mine = self._fetches
        self.some.set()
        lost = [ticket for ticket in waiting if ticket not in self.open]
        while not self.replies and not lost and mine == self._fetches:
            self.some.clear()
            await self.some.wait()
        await asyncio.sleep(0)  # replies that wait for the same commit go together
        replies, self.replies = self.replies, Replies()
        replies.lost = lost
        self.open -= replies.results.keys() | replies.errors.keys()
        return replies


@dataclass(frozen=True, slots=True)
class Address:
    """The socket of a gateway's process: the Ray node that reaches it, its path, and the secret.

    An abstract path, which leaves no file, begins with a zero byte.
    """

    node: str
    path: str
    secret: bytes = field(repr=False)


class Inbox:
    """Handles the messages that reach a gateway's process, by Ray or by its socket."""

    def __init__(self, receiver: Any) -> None:
        """``receiver`` is the object whose methods the messages call."""
        self._receiver = receiver
        self._pending: dict[str, _PendingReplies] = {}
        self._incarnation = uuid.uuid4().hex
        self._address: asyncio.Task[Address | None] | None = None
        self._server: asyncio.AbstractServer | None = None

    async def post(self, sender: str, incarnation: str, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        """Handle the messages of a process; return as soon as there is a reply for it, with all there are.

        ``waiting`` are its tickets of earlier posts without a reply. If they were posted to another ``incarnation`` of
        this process, those unknown here are returned as lost, to be posted again.
        """
        pending = self._pending.setdefault(sender, _PendingReplies())
        for message in messages:
            pending.take(message, getattr(self._receiver, message.method))
        replies = await pending.fetch([] if incarnation == self._incarnation else waiting)
        replies.incarnation = self._incarnation
        return replies

    async def address(self, post: Callable[..., Awaitable[Replies]]) -> Address | None:
        """Open the socket for processes of this node and return its address; None without Unix sockets."""
        if self._address is None:
            self._address = asyncio.create_task(self._listen(post))
        return await self._address

    async def _listen(self, post: Callable[..., Awaitable[Replies]]) -> Address | None:
        secret, loop = secrets.token_bytes(SECRET_BYTES), asyncio.get_running_loop()
        try:
            path = f"\0okralong-{uuid.uuid4().hex}" if sys.platform == "linux" else str(_folder() / "gateway")
            self._server = await loop.create_unix_server(lambda: _Served(secret, post), path)
        except (AttributeError, NotImplementedError, OSError) as error:
            logger.info("The gateway has no socket, so all messages to it go by Ray: %s", error)
            return None
        return Address(ray.get_runtime_context().get_node_id(), path, secret)


def _folder() -> Path:
    """Return a new folder that only this user can read, removed at the end of the process unless it is killed.

    Its name is short: a socket's path has at most 103 characters on macOS.
    """
    folder = tempfile.mkdtemp(prefix="okra-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _sendable(error: Exception) -> Exception:
    """Return the error, or its message as a RuntimeError if it cannot be pickled and read again."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Frames(asyncio.Protocol):
    """A connection that carries pickled objects, each preceded by its length."""

    def __init__(self) -> None:
        self._read = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._read += data
        while len(self._read) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._read[:LENGTH_BYTES])
            if len(self._read) < end:
                return
            frame = bytes(self._read[LENGTH_BYTES:end])
            del self._read[:end]
            self.came(pickle.loads(frame))

    def send(self, frame: bytes) -> None:
        """Send a pickled object. No-op on a closed connection; the peer detects the closing."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(len(frame).to_bytes(LENGTH_BYTES) + frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def came(self, value: Any) -> None:
        """Handle a received object."""
        raise NotImplementedError


class _Served(_Frames):
    """The gateway's end of a connection.

    A request is a number and the arguments of ``post``; its reply is that number and the ``Replies``.
    """

    def __init__(self, secret: bytes, post: Callable[..., Awaitable[Replies]]) -> None:
        super().__init__()
        self._secret: bytes | None = secret
        self._post = post
        self._tasks: set[asyncio.Task[None]] = set()

    def data_received(self, data: bytes) -> None:
        if self._secret is None:
            super().data_received(data)
            return
        self._read += data
        if len(self._read) < SECRET_BYTES:
            return
        known = hmac.compare_digest(bytes(self._read[:SECRET_BYTES]), self._secret)
        rest = bytes(self._read[SECRET_BYTES:])
        self._read.clear()
        if not known:
            self.close()
            return
        self._secret = None
        super().data_received(rest)

    def came(self, value: Any) -> None:
        task = asyncio.create_task(self._reply(*value))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, number: int, arguments: tuple[Any, ...]) -> None:
        try:
            self.send(pickle.dumps((number, await self._post(*arguments)), pickle.HIGHEST_PROTOCOL))
        except Exception:  # the sender repeats it by Ray, which reports the error
            logger.exception("An exchange with the gateway failed.")
            self.close()


class _Connection(_Frames):
    """The sender's end of a connection."""

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._secret = secret
        self._numbers = itertools.count()
        self._exchanges: dict[int, asyncio.Future[Replies]] = {}
        self.broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast(asyncio.WriteTransport, transport).write(self._secret)

    def connection_lost(self, error: Exception | None) -> None:
        self.broken = True
        for exchange in self._exchanges.values():
            if not exchange.done():
                exchange.set_exception(ConnectionResetError("the gateway's socket was closed"))
        self._exchanges.clear()

    def came(self, value: Any) -> None:
        number, replies = value
        if (exchange := self._exchanges.pop(number, None)) is not None and not exchange.done():
            exchange.set_result(replies)

    async def post(self, *arguments: Any) -> Replies:
        """Call ``Inbox.post``.

        Raises ConnectionError if the connection ends before the reply, and pickle's errors before anything is sent.
        """
        if self.broken:
            raise ConnectionResetError("the gateway's socket was closed")
        number = next(self._numbers)
        frame = pickle.dumps((number, arguments), pickle.HIGHEST_PROTOCOL)
        exchange: asyncio.Future[Replies] = asyncio.get_running_loop().create_future()
        self._exchanges[number] = exchange
        self.send(frame)
        return await exchange


class MessageClient:
    """Sends the messages of one process and event loop to a gateway.

    Messages within a few milliseconds travel together, and so do their replies, however many callers wait.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._sender = uuid.uuid4().hex
        self._incarnation = ""
        self._tickets = itertools.count()
        self._callers: dict[int, tuple[Message, asyncio.Future[Any]]] = {}
        self._new: list[int] = []
        self._on_the_way: set[int] = set()  # tickets whose message is in a post that has not returned
        self._posts: set[asyncio.Task[None]] = set()
        self._connection: _Connection | None = None
        self._reached: str = ""  # the incarnation of the gateway whose socket was tried
        self._reaching: asyncio.Task[None] | None = None

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of ``Gateway``; its error is raised here as it was there."""
        loop = asyncio.get_running_loop()
        ticket = next(self._tickets)
        reply: asyncio.Future[Any] = loop.create_future()
        self._callers[ticket] = Message(ticket, method, arguments, named), reply
        self._send(ticket)
        try:
            return await reply
        finally:
            self._callers.pop(ticket, None)

    def _send(self, ticket: int) -> None:
        if not self._new:
            asyncio.get_running_loop().call_later(GROUP_S, self._post)
        self._new.append(ticket)

    def _post(self) -> None:
        # Also for callers that were cancelled: they report what they abandoned in a message of their own.
        messages = [self._callers[ticket][0] for ticket in self._new if ticket in self._callers]
        self._new.clear()
        waiting = [ticket for ticket in self._callers if ticket not in self._on_the_way]
        sent = {message.ticket for message in messages}
        waiting = [ticket for ticket in waiting if ticket not in sent]
        if not messages and not waiting:
            return
        self._on_the_way |= sent
        task = asyncio.get_running_loop().create_task(self._exchange(messages, waiting))
        self._posts.add(task)

    async def _exchange(self, messages: Sequence[Message], waiting: Sequence[int]) -> None:
        try:
            replies = await self._replies(messages, waiting)
        except Exception as error:  # the gateway is gone for good
            replies = Replies(errors=dict.fromkeys(self._callers, error))
        self._posts.remove(asyncio.current_task())  # type: ignore[arg-type]
        sent = {message.ticket for message in messages}
        self._on_the_way -= sent
        if replies.incarnation and replies.incarnation != self._incarnation:
            # This incarnation knows the tickets that this exchange named, and those on the way will reach it. If there
            # are others, the next exchange names no incarnation, so that unknown tickets are reported as lost.
            others = self._callers.keys() - sent - set(waiting) - set(self._new) - self._on_the_way
            self._incarnation = "" if others else replies.incarnation
        for ticket, result in replies.results.items():
            if (caller := self._callers.get(ticket)) is not None and not caller[1].done():
                caller[1].set_result(result)
        for ticket, why in replies.errors.items():
            if (caller := self._callers.get(ticket)) is not None and not caller[1].done():
                caller[1].set_exception(why)
        for ticket in replies.lost:
            if ticket in self._callers and ticket not in self._new and ticket not in self._on_the_way:
                self._send(ticket)
        if not self._posts and not self._new and any(not reply.done() for _, reply in self._callers.values()):
            self._post()  # to fetch the remaining replies

    async def _replies(self, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        if (connection := self._connection) is not None:
            try:
                return await connection.post(self._sender, self._incarnation, messages, waiting)
            except ConnectionError:
                # Replies may be lost with it, so all waiting tickets are asked for again, as after a restart.
                self._connection, self._incarnation = None, ""
            except Exception as error:  # only Ray can pickle it
                logger.warning("A message goes by Ray, because it cannot be pickled for the socket: %s", error)
        replies: Replies = await plain_errors(
            self._actor.post.remote(self._sender, self._incarnation, messages, waiting)
        )
        if self._reached != replies.incarnation:
            self._reached = replies.incarnation
            self._reaching = asyncio.get_running_loop().create_task(self._reach(replies.incarnation))
        return replies

    async def _reach(self, incarnation: str) -> None:
        """Connect once to the socket of this incarnation of the gateway, if it is on this node."""
        try:
            address: Address | None = await plain_errors(self._actor.address.remote())
            if address is None or address.node != ray.get_runtime_context().get_node_id():
                return
            connection = await _connected(address)
        except Exception as error:  # Ray goes on carrying the messages
            logger.info("Cannot connect to the gateway's socket: %s", error)
        else:
            if self._reached == incarnation:
                self._connection = connection
            else:
                connection.close()


async def _connected(address: Address) -> _Connection:
    loop = asyncio.get_running_loop()
    reached = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        reached.setblocking(False)
        await loop.sock_connect(reached, address.path)  # Ray's uvloop cannot connect to abstract paths
        _, connection = await loop.create_unix_connection(lambda: _Connection(address.secret), sock=reached)
    except BaseException:
        reached.close()
        raise
    return connection
