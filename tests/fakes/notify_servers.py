"""Servers that take notifications: SMTP, and HTTP as webhooks have it; one may refuse, and one may hang."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(socketserver.ThreadingTCPServer):
    """What it took is in ``taken``. A hanging one answers when ``released`` is set."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, handler: type[socketserver.BaseRequestHandler], status: int = 200, hangs: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.taken: list[Any] = []
        self.location = ""
        self.status, self.hangs, self.released = status, hangs, threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Mail(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline().decode().strip():
            word = line.split()[0].upper()
            if word == "DATA":
                self._say("354 go on")
                lines: list[bytes] = []
                while (data := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(data.removeprefix(b".") if data.startswith(b"..") else data)
                self.server.taken.append(email.message_from_bytes(b"".join(lines), policy=email.policy.default))
            self._say("221 bye" if word == "QUIT" else "250 ok")
            if word == "QUIT":
                return

    def _say(self, words: str) -> None:
        self.wfile.write(f"{words}\r\n".encode())


class _Hook(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.server.hangs:
            self.server.released.wait(60)
        self.server.taken.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_GET(self) -> None:
        self.server.taken.append((self.path, None))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """No lines on stderr."""


class _HttpServer(Server, ThreadingHTTPServer):
    pass


@contextmanager
def _serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def mail_server() -> Any:
    """An SMTP server without login; ``taken`` has the messages."""
    return _serving(Server(_Mail))


def webhook(status: int = 200, hangs: bool = False, location: str = "") -> Any:
    """An HTTP server; ``taken`` has pairs of a path and the JSON sent there. It redirects to ``location``."""
    server = _HttpServer(_Hook, status, hangs)
    server.location = location
    return _serving(server)


def words_of(message: EmailMessage) -> tuple[str, str]:
    """The plain text and the HTML of a mail."""
    text, marked = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert marked is not None
    return str(text.get_content()), str(marked.get_content())
