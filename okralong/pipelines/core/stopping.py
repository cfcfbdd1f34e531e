"""Stop signals of a command: the first one stops it in order, the second at once.

``run_stoppable`` is the outermost frame of a command's process. It handles SIGINT (Ctrl-C) and SIGTERM before anything
else is imported, reports a stopped command on standard error, ends everything that the command started (including Ray's
processes), and exits with EXIT_STOPPED.

Python runs signal handlers between two bytecodes of the main thread. That is soon enough for the first signal. The
second must not wait for the main thread or the interpreter lock, which a regular expression or the loading of a library
may hold for minutes. So a process forked at the start, the attendant, reads the signal numbers from a pipe that
Python's C code writes immediately (``signal.set_wakeup_fd``). At the second signal it wakes a thread that ends the
command; if that thread does not get to run, the attendant kills the command.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

from okralong.pipelines.core.types import EXIT_OK, EXIT_STOPPED, GO_ON

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
AGAIN_S: Final = 0.5
"""Signals within this time count as one, because a terminal and a wrapper such as uv both send one. # project
default"""
LAST_S: Final = 2.0
"""Seconds that a command has to end itself after the second signal before it is killed. # project default"""
GONE_S: Final = 1.0
"""Longest wait for the end of killed processes, in seconds. # project default"""
LOOK_S: Final = 5.0
"""Seconds between checks whether the command still runs. # project default"""
ATTENDANT: Final = "okralong-stop"
"""The attendant's name in process lists on Linux, at most 15 bytes."""
AT_ONCE: Final = (
    "Stopped at once, at the second signal. Calls in flight were abandoned and count as unknown; run the same command "
    "again to resume.\n"
)
_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h
SHOW_CURSOR: Final = "\x1b[?25h"
"""Undoes what progress bars do to a terminal's cursor."""


class _Command:
    """The state of this process's command, used by the main thread only."""

    installed = False
    starting = False
    """Only imports have happened so far."""
    over = False
    """The command is done and about to exit."""
    signalled = False
    words = f"Stopped. {GO_ON}"
    attendant = 0
    """Process id of the attendant, 0 if it could not be started."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []


_command = _Command()


def run_stoppable(load: Callable[[], Callable[[], object]]) -> NoReturn:
    """Run what ``load`` returns as the command of this process, and exit with its code.

    A signal while ``load`` imports ends the process at once. Later the first signal raises KeyboardInterrupt in the
    main thread, or calls the innermost ``on_stop``.
    """
    _install()
    code: str | int | None = EXIT_OK
    try:
        command = load()
        _command.starting = False
        command()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        code = EXIT_STOPPED
    _command.over = True
    if _command.signalled and code not in (None, EXIT_OK):
        code = EXIT_STOPPED
    if code == EXIT_STOPPED:
        _flush()
        _say(f"{_command.words}\n")
        end_descendants(os.getpid(), spare=_command.attendant)
    _exit(code)


def stop_came() -> bool:
    """Return whether a stop signal has come, so that errors that follow from it need no report."""
    return _command.signalled


@contextmanager
def saying(words: str) -> Iterator[None]:
    """Set the message for a command that is stopped within the block."""
    before, _command.words = _command.words, words
    yield
    _command.words = before


@contextmanager
def on_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first signal call ``stop`` during the block, and raise KeyboardInterrupt at its end.

    A no-op in threads other than the main one, and in processes without ``run_stoppable``.
    """
    if not _command.installed or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _command.signalled
    _command.listeners.append(stop)
    try:
        yield
    finally:
        _command.listeners.pop()
    if _command.signalled and not before:
        raise KeyboardInterrupt


def adopt_orphans() -> None:
    """Adopt descendants whose parents end, so that ``end_descendants`` finds them.

    Ray's agents and workers outlive a killed parent by up to a minute. Linux only, and a no-op in processes without
    ``run_stoppable``.
    """
    if _command.installed and sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(of: int, spare: int = 0) -> None:
    """Kill all descendants of ``of`` except ``spare``, and wait up to ``GONE_S`` until they are gone.

    All are halted before any is killed, so that few start another process or lose their parent meanwhile. A process of
    several threads may still start one before it halts; so those that turn up later are killed as well, also after
    ``GONE_S``.
    """
    found: set[int] = set()
    while new := _living(of, spare) - found:
        found |= new
        _send(new, signal.SIGSTOP)
    deadline = time.monotonic() + GONE_S
    killed: set[int] = set()
    empty = 0
    # A look misses what is started while it looks.
    while empty < 2 and (not found or found - killed or time.monotonic() < deadline):
        _send(found, signal.SIGKILL)
        killed |= found
        time.sleep(0.02)
        found = _living(of, spare)
        empty = 0 if found else empty + 1


def _send(to: set[int], number: signal.Signals) -> None:
    for pid in to:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _living(of: int, spare: int) -> set[int]:
    """Return the descendants of ``of`` that have not ended, except ``spare``."""
    below: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, state in _processes():
        below.setdefault(parent, []).append((pid, state))
    found: set[int] = set()
    parents = [of]
    for parent in parents:
        for pid, state in below.pop(parent, ()):
            parents.append(pid)
            if state != "Z" and pid != spare:
                found.add(pid)
    return found


def _processes() -> Iterator[tuple[int, int, str]]:
    """Yield all visible processes: id, parent's id, state."""
    if not os.path.isdir("/proc/self"):
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,state="], capture_output=True, text=True, check=False)
        for pid, parent, state in (line.split() for line in listed.stdout.splitlines()):
            yield int(pid), int(parent), state[0]
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
                yield int(name), int(parent), state


def _install() -> None:
    _command.installed = _command.starting = True
    told, tell = os.pipe()
    ordered, order = os.pipe()
    command = os.getpid()
    with suppress(OSError):  # without the attendant, the second signal waits for the main thread
        _command.attendant = os.fork()
        if not _command.attendant:
            os.close(tell)
            _attend(command, told, order)
    os.close(told)
    os.close(order)
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=_end_when_ordered, args=(ordered,), name="okralong-stop", daemon=True).start()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # a shell's background job ignores Ctrl-C
            signal.signal(number, _on_signal)
    atexit.register(_dismiss)  # called last because it is registered first
    os.register_at_fork(after_in_child=lambda: _forget(tell))


def _dismiss() -> None:
    """End the attendant."""
    if _command.installed and _command.attendant:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(_command.attendant, signal.SIGKILL)
            os.waitpid(_command.attendant, 0)
        _command.attendant = 0


def _forget(tell: int) -> None:
    """Reset signal handling in a fork that goes on running Python, such as multiprocessing's."""
    signal.set_wakeup_fd(-1)
    with suppress(OSError):
        os.close(tell)
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, usual)
    _command.installed = False


def _on_signal(number: int, frame: FrameType | None) -> None:
    signal.alarm(0)  # absl's handler, which Ray installs at its start, sets an alarm that aborts the process
    if _command.signalled or _command.over:
        return
    _command.signalled = True
    if _command.starting:
        _say(f"{_command.words}\n")
        end_descendants(os.getpid(), spare=_command.attendant)
        _dismiss()
        os._exit(EXIT_STOPPED)
    if not _command.listeners:
        raise KeyboardInterrupt
    _command.listeners[-1]()


def _end_when_ordered(ordered: int) -> None:
    """Wait for the attendant's order and end the command; runs in a thread."""
    if os.read(ordered, 1):
        end_descendants(os.getpid(), spare=_command.attendant)
        _dismiss()
        os._exit(EXIT_STOPPED)


def _attend(command: int, told: int, order: int) -> NoReturn:
    """Run as the attendant: wait for the second signal of the process ``command``, then make sure that it ends."""
    try:
        for number in (*SIGNALS, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a terminal sends them to the whole process group
        with suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as name:
            name.write(ATTENDANT)
        os.close(0)
        os.close(1)  # a reader of the pipe must see its end when the command ends
        first: float | None = None
        while os.getppid() == command:
            if not select.select([told], [], [], LOOK_S)[0]:
                continue
            if not os.read(told, 64):  # signals that have come by now have come together
                break
            now = time.monotonic()
            first = now if first is None else first
            if now - first >= AGAIN_S:
                _say(AT_ONCE)
                os.write(order, b"!")
                _kill_unless_gone(command)
                break
    finally:
        os._exit(EXIT_OK)


def _kill_unless_gone(command: int) -> None:
    deadline = time.monotonic() + LAST_S
    while os.getppid() == command:
        if time.monotonic() >= deadline:
            end_descendants(command, spare=os.getpid())
            os.kill(command, signal.SIGKILL)
            return
        time.sleep(0.02)


def _say(words: str) -> None:
    """Write to standard error past Python's buffer, which a signal handler must not use."""
    with suppress(OSError):  # the reader is gone
        cursor = SHOW_CURSOR if os.isatty(2) else ""
        os.write(2, f"{cursor}{words}".encode())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # the reader is gone, or there is no stream
            stream.flush()


def _exit(code: str | int | None) -> NoReturn:
    """Exit; after torch was loaded, skip the teardown of its thousands of modules, which takes seconds."""
    if isinstance(code, str) or (code != EXIT_STOPPED and "torch" not in sys.modules):
        sys.exit(code)
    atexit._run_exitfuncs()
    _flush()
    os._exit(code or EXIT_OK)
