"""Messages to a run's gateway: those of a few milliseconds of one process travel together, and so do their replies.

An exchange (``MessageClient``) is messages out and replies back. The first goes by Ray, which finds the gateway on any
node, waits for it where it is being started again, and raises what ended it for good. Later ones of the same node go
through a socket of the gateway's process: a call of an actor's method takes 2 ms of processor at either end where some
sixty come in a second, a message on a socket 0.4 (``benchmarks/gateway.py`` shows what a call comes to). Where the
socket breaks, or there is none, Ray carries the messages.

The socket is a Unix one, so no other machine reaches it. What is sent is pickled, as Ray's messages are; nothing is
read of a connection that has not begun with the secret that the gateway tells by Ray.
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
from weakref import WeakKeyDictionary

import ray

from okralong.actors.cluster import plain_errors

logger = logging.getLogger(__name__)

GROUP_S = 0.003
"""How long a message waits for others of its process, in seconds. Ours."""
SECRET_BYTES = 32
"""Of the secret that a connection begins with. Ours."""
LENGTH_BYTES = 8
"""Of the number before each frame that says how long it is. Ours."""


@dataclass(frozen=True, slots=True)
class Message:
    """A call of a method of ``Gateway``. ``ticket`` is the sending process's own number for it."""

    ticket: int
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Replies:
    """What became of messages, by ticket: results, errors, and tickets that nobody here knows (``lost``).

    ``incarnation`` identifies the process that replies; it changes when Ray restarts it.
    """

    incarnation: str = ""
    results: dict[int, Any] = field(default_factory=dict)
    errors: dict[int, Exception] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.results or self.errors or self.lost)


class _PendingReplies:
    """Messages of one process that are being handled, and replies that it has not fetched yet."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.replies = Replies()
        self.some = asyncio.Event()
        self._fetches = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, message: Message, work: Callable[..., Awaitable[Any]]) -> None:
        """Begin with a message; one that came before is being worked on."""
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
        """Wait for replies, and hand over all that are there; none when a later post has come to wait for them.
        ``waiting``: tickets that were posted to an earlier process.
        """
        self._fetches += 1
        mine = self._fetches
        self.some.set()
        lost = [ticket for ticket in waiting if ticket not in self.open]
        while not self.replies and not lost and mine == self._fetches:
            self.some.clear()
            await self.some.wait()
        await asyncio.sleep(0)  # what one commit has made durable goes together
        replies, self.replies = self.replies, Replies()
        replies.lost = lost
        self.open -= replies.results.keys() | replies.errors.keys()
        return replies


@dataclass(frozen=True, slots=True)
class Address:
    """The socket of a gateway's process: the Ray node whose processes reach it, its path (an abstract one, which leaves
    no file, begins with a zero byte), and the secret.
    """

    node: str
    path: str
    secret: bytes = field(repr=False)


class Inbox:
    """What a gateway's process does with the messages that come, by Ray and by its socket."""

    def __init__(self, receiver: Any) -> None:
        """``receiver`` is the object whose methods messages name."""
        self._receiver = receiver
        self._pending: dict[str, _PendingReplies] = {}
        self._incarnation = uuid.uuid4().hex
        self._address: asyncio.Task[Address | None] | None = None
        self._server: asyncio.AbstractServer | None = None

    async def post(self, sender: str, incarnation: str, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        """Work on ``messages`` of a process; returns as soon as there is any reply for it, with all that there are.

        ``waiting`` are its tickets of earlier posts whose reply it has not seen. Where they were posted to another
        ``incarnation`` of this process, those that this one does not know are named as lost, to be posted again.
        """
        pending = self._pending.setdefault(sender, _PendingReplies())
        for message in messages:
            pending.take(message, getattr(self._receiver, message.method))
        replies = await pending.fetch([] if incarnation == self._incarnation else waiting)
        replies.incarnation = self._incarnation
        return replies

    async def address(self, post: Callable[..., Awaitable[Replies]]) -> Address | None:
        """Where processes of this node exchange without Ray, from now on, by ``post``; None where there are no Unix
        sockets.
        """
        if self._address is None:
            self._address = asyncio.create_task(self._listen(post))
        return await self._address

    async def _listen(self, post: Callable[..., Awaitable[Replies]]) -> Address | None:
        secret, loop = secrets.token_bytes(SECRET_BYTES), asyncio.get_running_loop()
        try:
            path = f"\0okralong-{uuid.uuid4().hex}" if sys.platform == "linux" else str(_folder() / "gateway")
            self._server = await loop.create_unix_server(lambda: _Served(secret, post), path)
        except (AttributeError, NotImplementedError, OSError) as error:
            logger.info("Messages to the gateway go by Ray alone, since it has no socket: %s", error)
            return None
        return Address(ray.get_runtime_context().get_node_id(), path, secret)


def _folder() -> Path:
    """A new folder that only this user can read, and that goes with the process unless it is killed. Its name is short:
    a socket's path has at most 103 characters on macOS.
    """
    folder = tempfile.mkdtemp(prefix="okra-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _sendable(error: Exception) -> Exception:
    """The error, or what it says where it cannot be pickled and read again."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Frames(asyncio.Protocol):
    """A connection on which objects travel, each pickled behind its length."""

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
        """Send what is pickled. On a connection that has ended nothing is: its other end hears of that by itself."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(len(frame).to_bytes(LENGTH_BYTES) + frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def came(self, value: Any) -> None:
        """An object has come."""
        raise NotImplementedError


class _Served(_Frames):
    """The gateway's end of a connection. A request is a number and the arguments of ``post``, a reply that number and
    the ``Replies``.
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
        except Exception:  # the sender asks once more by Ray, which tells what went wrong
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
        """``Inbox.post``. Raises ConnectionError when the connection ends before the reply is here, and what pickle
        raises of arguments that it cannot write; nothing is sent then.
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
    """The messages of one process and event loop to a gateway. Those of a few milliseconds travel together, and so do
    their replies, however many callers wait.
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
        """What a method of ``Gateway`` returns; an error is raised here as it was there."""
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
        # Also of callers that have gone: what they gave up they say in a message of its own.
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
            # Known to this incarnation is what this exchange named, and what is on the way comes to it. Were there
            # others, no incarnation is named in the next exchange, so that those which this one does not know are told.
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
            self._post()  # for the replies that are still to come

    async def _replies(self, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        if (connection := self._connection) is not None:
            try:
                return await connection.post(self._sender, self._incarnation, messages, waiting)
            except ConnectionError:
                # Replies may have gone with it, so all that wait are asked for once more, as after a restart.
                self._connection, self._incarnation = None, ""
            except Exception as error:  # what only Ray can pickle
                logger.warning("A message goes by Ray, since the socket cannot carry it: %s", error)
        replies: Replies = await plain_errors(
            self._actor.post.remote(self._sender, self._incarnation, messages, waiting)
        )
        if self._reached != replies.incarnation:
            self._reached = replies.incarnation
            self._reaching = asyncio.get_running_loop().create_task(self._reach(replies.incarnation))
        return replies

    async def _reach(self, incarnation: str) -> None:
        """Open the connection to the socket of this incarnation of the gateway, once, where it is on this node."""
        try:
            address: Address | None = await plain_errors(self._actor.address.remote())
            if address is None or address.node != ray.get_runtime_context().get_node_id():
                return
            connection = await _connected(address)
        except Exception as error:  # Ray carries the messages
            logger.info("The gateway's socket cannot be reached: %s", error)
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
        await loop.sock_connect(reached, address.path)  # uvloop, which Ray has, connects to no abstract path itself
        _, connection = await loop.create_unix_connection(lambda: _Connection(address.secret), sock=reached)
    except BaseException:
        reached.close()
        raise
    return connection


class GatewayClient:
    """A gateway elsewhere as an object with the methods of ``Gateway``, for one process.

    An actor of several concurrency groups has an event loop for each, so callers wait together with those of their own.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, MessageClient] = WeakKeyDictionary()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **named: self._here().call(name, *arguments, **named)

    def _here(self) -> MessageClient:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = MessageClient(self._actor)
        return self._by_loop[loop]
