"""Warm sessions: a process that keeps the models and the generator of an archive loaded between runs.

``okralong up`` starts a session. ``okralong answer`` and ``matrix`` over the same archive find it and hand over their
command. ``okralong down``, or an idle timeout, ends it. A run in a session is the same as a run in the command's own
process (``LocalHost`` in ``actors/host.py``): same folder, journal, ledger and exit code, with the environment, working
directory and terminal of the caller. A session executes one run at a time. If a run does not fit, because its config
names other models or it is too large for one process, the command executes it itself and prints the reason.

The two processes communicate over a Unix socket in a folder that only the user may enter: lines of JSON, and the
descriptors of standard output and error. Killing the command stops its run like Ctrl-C. If the session is killed, the
command ends with exit code 6, and the same command continues the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.archive.versions import Location
from okralong.pipelines.core.stopping import on_stop, run_stoppable
from okralong.pipelines.core.types import EXIT_BROKEN, EXIT_STOPPED, GO_ON, BrokenError, ConfigError, OkraError
from okralong.pipelines.core.wording import counted

if TYPE_CHECKING:
    from okralong.actors.host import WarmHost
    from okralong.jobs.interrupt import Interrupt
    from okralong.jobs.options import RunCommand
    from okralong.pipelines.run.config import RunConfig

IDLE_S: Final = 1800.0
"""Default seconds without a run after which a session ends. # project default"""
START_S: Final = 600.0
"""Seconds that a session may take to load its models. # project default: building a merged model takes minutes"""
LOOK_S: Final = 0.1
"""Polling interval, in seconds, for a session that starts or ends. # project default"""
END_S: Final = 60.0
"""Seconds that a session may take to end, including the grace of its run. # project default"""
LONGEST: Final = 1 << 20
"""Maximum size of a message in bytes; the longest part is a command's environment. # project default"""

Run = Callable[["RunCommand", Console, "Interrupt", "WarmHost"], int]
"""Executes a command that was handed over and returns its exit code."""


def sessions_folder() -> Path:
    """Return the folder of this user's session sockets. Raises ConfigError if another user could access it."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    folder = base / f"okralong-sessions-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"{folder} holds the sockets of okralong's sessions and must be a folder that only you can access (owner: "
            "you, mode 700). Remove it, or set XDG_RUNTIME_DIR to a folder of your own."
        )
    return folder


def _socket_of(archive: str) -> Path:
    place = Location.of(archive).place
    if "://" not in place:
        place = str(Path(place).resolve())
    return sessions_folder() / hashlib.sha256(place.encode()).hexdigest()[:16]


def _connected(path: Path) -> socket.socket | None:
    """Connect to the session behind a socket; return None if no session listens."""
    if not path.exists():
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:  # the session was killed
        connection.close()
        return None
    return connection


# The command's side.


def hand_over(archive: str, command: Mapping[str, Any], console: Console) -> int | None:
    """Let the archive's session execute a run, and return the exit code; None if no session can.

    ``command`` is sent as JSON. Ctrl-C and SIGTERM stop the run there as they would here. Prints why a session cannot
    execute the run. Raises OkraError as the run does, and BrokenError if the session dies.
    """
    connection = _connected(_socket_of(archive))
    if connection is None:
        return None
    width = console.width if console.is_terminal else None
    asked = {"ask": "run", "cwd": str(Path.cwd()), "environment": dict(os.environ), "width": width, "command": command}
    sys.stdout.flush()
    with connection, connection.makefile("rb") as said:
        connection.sendall(json.dumps(asked).encode() + b"\n")
        socket.send_fds(connection, [b"+"], [1, 2])

        def stop() -> None:
            with suppress(OSError):
                connection.sendall(b"stop\n")

        with on_stop(stop):
            line = said.readline()
    if not line:
        raise BrokenError(f"The session of {archive} died during this run. {GO_ON}")
    reply = json.loads(line)
    if "declined" in reply:
        say_line(console, f"The session of {archive} is not used: {reply['declined']}.", style="yellow")
        return None
    if "error" in reply:
        error = OkraError(reply["error"])
        error.exit_code = int(reply["code"])
        raise error
    return int(reply["code"])


def start(archive: str, options: Mapping[str, Any], idle_s: float, console: Console) -> None:
    """Start a session for runs with these ``options`` of ``okralong answer``; return when its models are loaded.

    Raises the error that kept it from starting, and ConfigError if the archive already has a session.
    """
    path = _socket_of(archive)
    if (connection := _connected(path)) is not None:
        connection.close()
        raise ConfigError(f"{archive} already has a session. End it first: okralong down {archive}")
    log = path.with_suffix(".log")
    given = json.dumps({"archive": archive, "options": dict(options), "idle_s": idle_s})
    command = [sys.executable, "-m", "okralong.jobs.session", given]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = time.monotonic() + START_S
    try:
        while (connection := _connected(path)) is None:
            if (code := process.poll()) is not None:
                raise _ended(archive, code, log)
            if time.monotonic() > deadline:
                raise BrokenError(f"The session of {archive} was not ready within {START_S:g} s. Its log is {log}.")
            time.sleep(LOOK_S)
        connection.close()
    except BaseException:
        process.kill()
        process.wait()
        raise
    say_line(
        console,
        f"The session of {archive} is up (process {process.pid}); it ends after {idle_s / 60:g} minutes without a run, "
        f"or by: okralong down {archive}",
    )


def _ended(archive: str, code: int, log: Path) -> OkraError:
    words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    error = OkraError(words[-1] if words else f"The session of {archive} ended with {code} before it was ready.")
    error.exit_code = code if code > 0 else EXIT_BROKEN
    return error


def end(archive: str | None, console: Console) -> None:
    """End the session of an archive, or all of this user's (None). Raises BrokenError if one does not end."""
    paths = sorted(sessions_folder().glob("*")) if archive is None else [_socket_of(archive)]
    ended = 0
    for path in paths:
        if path.suffix or (connection := _connected(path)) is None:
            continue
        with connection:
            connection.settimeout(END_S)
            connection.sendall(json.dumps({"ask": "end"}).encode() + b"\n")
            try:
                connection.recv(1)  # it closes when the session ends
            except TimeoutError:
                raise BrokenError(f"The session behind {path} does not end. Its log is {path}.log.") from None
        ended += 1
    if ended:
        say_line(console, f"{counted(ended, 'session')} ended")
    else:
        say_line(console, "There is no session" if archive is None else f"{archive} has no session")


# The session's side.


@dataclass
class _Asked:
    """A message to the session, and its sender."""

    message: Mapping[str, Any]
    connection: socket.socket

    def reply(self, **said: Any) -> None:
        """Send the outcome to the command, which may have been killed."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(said).encode() + b"\n")


class SessionServer:
    """Executes commands of one user, one run at a time, until it is ended or idle for too long."""

    def __init__(self, listening: socket.socket, host: WarmHost, run: Run, idle_s: float) -> None:
        self._listening, self._host, self._run, self._idle_s = listening, host, run, idle_s
        self._busy = threading.Lock()
        self._ended = threading.Event()
        self._last = time.monotonic()
        self._interrupt: Interrupt | None = None
        self._goodbyes: list[socket.socket] = []  # closed by the end of the process, which they wait for

    def serve(self) -> None:
        """Serve until the end; then stop a run in progress as Ctrl-C would, and wait for it."""
        self._listening.settimeout(1.0)
        while not self._ended.is_set():
            if not self._busy.locked() and time.monotonic() - self._last > self._idle_s:
                break
            try:
                connection, _ = self._listening.accept()
            except TimeoutError:
                continue
            asked = _read(connection)
            if asked is None:
                connection.close()
            elif asked.message["ask"] == "end":
                self._goodbyes.append(connection)
                self.end()
            else:
                threading.Thread(target=self._take, args=(asked,), daemon=True).start()
        self.end()
        if self._busy.acquire(timeout=END_S):
            self._busy.release()

    def end(self) -> None:
        """Accept nothing more and stop the run in progress. May be called by a signal handler."""
        self._ended.set()
        if self._interrupt is not None:
            self._interrupt.fire()

    def _take(self, asked: _Asked) -> None:
        from okralong.jobs.interrupt import Interrupt

        with asked.connection:
            if not self._busy.acquire(blocking=False):
                asked.reply(declined="it is busy with another run")
                return
            try:
                _, descriptors, _, _ = socket.recv_fds(asked.connection, 1, 2)
                if len(descriptors) != 2:
                    return
                interrupt = Interrupt()
                self._interrupt = interrupt
                threading.Thread(target=_listen, args=(asked.connection, interrupt), daemon=True).start()
                with os.fdopen(descriptors[0], "w", encoding="utf-8") as out, os.fdopen(descriptors[1], "w"):
                    self._carry(asked, Console(file=out, width=asked.message["width"]), interrupt)
            finally:
                self._interrupt = None
                self._last = time.monotonic()
                self._busy.release()

    def _carry(self, asked: _Asked, console: Console, interrupt: Interrupt) -> None:
        from okralong.actors.host import DoesNotFit
        from okralong.jobs.options import RunCommand

        with _as_asked(asked.message):
            try:
                command = RunCommand.model_validate(asked.message["command"])
                asked.reply(code=self._run(command, console, interrupt, self._host))
            except DoesNotFit as error:
                asked.reply(declined=str(error))
            except OkraError as error:
                asked.reply(error=str(error), code=error.exit_code)
            except (asyncio.CancelledError, KeyboardInterrupt):
                asked.reply(code=EXIT_STOPPED)
            except Exception as error:
                from okralong.pipelines.core.storage_errors import storage_failure

                if (failure := storage_failure(error)) is not None:
                    asked.reply(error=str(failure), code=failure.exit_code)
                    return
                traceback.print_exc()
                bug = f"{type(error).__name__}: {error}; this is a bug. Finished work is kept."
                asked.reply(error=bug, code=EXIT_BROKEN)


def _read(connection: socket.socket) -> _Asked | None:
    """Return the first message of a connection; None if it is invalid or from another user."""
    if hasattr(socket, "SO_PEERCRED"):
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(peer[4:8], sys.byteorder) != os.getuid():
            return None
    connection.settimeout(5.0)
    found = bytearray()
    try:
        # Read no further than the line: the descriptors follow in a separate message.
        while not found.endswith(b"\n") and len(found) < LONGEST:
            some = connection.recv(LONGEST, socket.MSG_PEEK)
            if not some:
                return None
            end = some.find(b"\n")
            found += connection.recv(end + 1 if end >= 0 else len(some))
        message = json.loads(found)
    except (OSError, ValueError):
        return None
    connection.settimeout(None)
    return _Asked(message, connection)


def _listen(connection: socket.socket, interrupt: Interrupt) -> None:
    """Stop the run at each message of the command, and when the command is gone."""
    while True:
        try:
            word = connection.recv(64)
        except OSError:  # the run is over
            return
        interrupt.fire()
        if not word:
            return


@contextmanager
def _as_asked(message: Mapping[str, Any]) -> Iterator[None]:
    """Use the working directory and environment of the command while the block runs."""
    ours, here = dict(os.environ), Path.cwd()
    os.environ.clear()
    os.environ.update(message["environment"])
    try:
        os.chdir(message["cwd"])
        yield
    finally:
        os.environ.clear()
        os.environ.update(ours)
        os.chdir(here)


@contextmanager
def opened(archive: str, config: RunConfig) -> Iterator[WarmHost]:
    """Load the models that runs of this config need, and start the embedded generator if they use it.

    Raises OkraError if one cannot be loaded, and ConfigError for a config whose runs need Ray.
    """
    from okralong.actors.generator import generator
    from okralong.actors.host import WarmHost, why_ray
    from okralong.actors.local_models import LoadedModels
    from okralong.pipelines.models.weights import EMBEDDED
    from okralong.pipelines.run.prepare import prepare

    prepared = prepare(archive, ["What is it?"], config)
    if why := why_ray(prepared, 1):
        raise ConfigError(f"A session executes runs in one process, which this config does not allow: {why}.")
    models = LoadedModels()
    with ExitStack() as held:
        held.callback(models.close)
        models.bring(prepared)
        served = None
        if config.llm.base_url == EMBEDDED:
            served = held.enter_context(generator(prepared.llm, None))
        models.wait()
        yield WarmHost(models, prepared.llm, served)


def main() -> None:
    """Run a session: ``python -m okralong.jobs.session {...}``, with the JSON that ``start`` passes."""
    run_stoppable(lambda: _serve)


def _serve() -> None:
    from okralong.jobs.options import AskOptions
    from okralong.jobs.run_command import run_command

    given = json.loads(sys.argv[1])
    path = _socket_of(given["archive"])
    logging.getLogger("okralong").addHandler(logging.NullHandler())
    try:
        with opened(given["archive"], AskOptions.model_validate(given["options"]).settings()) as session:
            path.unlink(missing_ok=True)  # of one that was killed
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
                listening.bind(str(path))
                path.chmod(0o600)
                listening.listen()
                server = SessionServer(listening, session, run_command, given["idle_s"])
                try:
                    with suppress(KeyboardInterrupt), on_stop(server.end):
                        server.serve()
                finally:
                    path.unlink(missing_ok=True)
    except OkraError as error:
        print(str(error))
        sys.exit(error.exit_code)
    with suppress(OSError):
        path.with_suffix(".log").unlink()
    sys.stdout.flush()
    os._exit(0)  # nothing is left to save, and Python would take a second to tear down its modules


if __name__ == "__main__":
    main()
