"""Stop signals of a command: the first ends it in order, a second one ends it at once.

``run_stoppable`` is the outermost frame of a command's process. It takes SIGINT (Ctrl-C) and SIGTERM before anything
else is imported, says on standard error what became of a command that was stopped, ends what the command has started
(Ray's processes included), and exits with EXIT_STOPPED.

Python runs a signal's handler between two bytecodes of the main thread. That is soon enough for the first signal. The
second one must not wait for the main thread, nor for the interpreter's lock, which a regular expression or the load of
a library may hold for minutes. So a process forked at the start, the attendant, reads the numbers of the signals from
a pipe that Python's C code writes at once (``signal.set_wakeup_fd``). At the second one it wakes a thread of the
command that ends it; when that thread does not get to run, it kills the command itself.
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
"""Signals within this time of the first one count as the first: a terminal and a wrapper such as uv both send Ctrl-C's.
# project default"""
LAST_S: Final = 2.0
"""How long a command may take to end itself after the second signal before it is killed. # project default"""
GONE_S: Final = 1.0
"""How long killed processes are waited for, in seconds. # project default"""
LOOK_S: Final = 5.0
"""Between two looks whether the command is still there, in seconds. # project default"""
ATTENDANT: Final = "okralong-stop"
"""What a list of processes names the attendant on Linux, where a name has 15 bytes."""
AT_ONCE: Final = (
    "Stopped at once, at the second signal. Calls in flight were given up and count as unknown; run the same command "
    "again to go on.\n"
)
_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h
SHOW_CURSOR: Final = "\x1b[?25h"
"""Progress bars hide the cursor of a terminal."""


class _Command:
    """The state of this process's command. All of it belongs to the main thread."""

    installed = False
    starting = False
    """Nothing but imports has happened yet."""
    over = False
    """What remains is to exit."""
    signalled = False
    words = f"Stopped. {GO_ON}"
    attendant = 0
    """The attendant's process id; 0 where none could be started."""

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
    """Whether a stop signal has come, so that errors that follow from it need not be reported."""
    return _command.signalled


@contextmanager
def saying(words: str) -> Iterator[None]:
    """Set what is said of a command that is stopped within the block."""
    before, _command.words = _command.words, words
    yield
    _command.words = before


@contextmanager
def on_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Let the first signal call ``stop`` while the block runs; raise KeyboardInterrupt at its end then.

    Without effect in other threads than the main one, and in processes that ``run_stoppable`` does not run.
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
    """Let processes below a command whose parents end become its own children, so that ``end_descendants`` finds them.

    Ray's agents and workers outlive their parent, by a minute where that is killed. Linux only, and without effect in
    processes that ``run_stoppable`` does not run.
    """
    if _command.installed and sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants(of: int, spare: int = 0) -> None:
    """Kill all processes below ``of`` but ``spare``, and wait until they are gone, for ``GONE_S`` at most.

    Each is halted before any is killed, so that none starts another meanwhile or loses its parent.
    """
    found: dict[int, str] = {}
    while new := {pid: state for pid, state in _descendants(of).items() if pid != spare and pid not in found}:
        found |= new
        _send(new, signal.SIGSTOP)
    _send(found, signal.SIGKILL)
    deadline = time.monotonic() + GONE_S
    while time.monotonic() < deadline:
        left = _descendants(of)
        if all(left.get(pid, "Z") == "Z" for pid in found):
            return
        time.sleep(0.02)


def _send(to: dict[int, str], number: signal.Signals) -> None:
    for pid in to:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants(of: int) -> dict[int, str]:
    """The state of each process below ``of``; Z is one that has ended."""
    below: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, state in _processes():
        below.setdefault(parent, []).append((pid, state))
    found: dict[int, str] = {}
    parents = [of]
    for parent in parents:
        for pid, state in below.get(parent, ()):
            if pid not in found:
                found[pid] = state
                parents.append(pid)
    return found


def _processes() -> Iterator[tuple[int, int, str]]:
    """All processes that can be seen: id, parent's id, state."""
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
    with suppress(OSError):  # no process can be started: the second signal then waits for the main thread
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
    atexit.register(_dismiss)  # the last to be called, as the first to be registered
    os.register_at_fork(after_in_child=lambda: _forget(tell))


def _dismiss() -> None:
    """End the attendant, at the end of the command."""
    if _command.installed and _command.attendant:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(_command.attendant, signal.SIGKILL)
            os.waitpid(_command.attendant, 0)
        _command.attendant = 0


def _forget(tell: int) -> None:
    """A fork that runs Python on, as multiprocessing makes, is no command of its own."""
    signal.set_wakeup_fd(-1)
    with suppress(OSError):
        os.close(tell)
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, usual)
    _command.installed = False


def _on_signal(number: int, frame: FrameType | None) -> None:
    signal.alarm(0)  # absl's handler, which Ray installs while it starts, lets it abort the process
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
    """The thread that the attendant wakes at the second signal."""
    if os.read(ordered, 1):
        end_descendants(os.getpid(), spare=_command.attendant)
        _dismiss()
        os._exit(EXIT_STOPPED)


def _attend(command: int, told: int, order: int) -> NoReturn:
    """The attendant: wait for the second signal of the process ``command``, and see to it that it ends then."""
    try:
        for number in (*SIGNALS, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # they come to the whole group of a terminal's command
        with suppress(OSError), open("/proc/self/comm", "w", encoding="utf-8") as name:
            name.write(ATTENDANT)
        os.close(0)
        os.close(1)  # who reads it must see its end with the command's
        first: float | None = None
        while os.getppid() == command:
            if not select.select([told], [], [], LOOK_S)[0]:
                continue
            if not os.read(told, 1):
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
    """Write to the standard error of the process, past Python's buffer, which a signal's handler may not use."""
    with suppress(OSError):  # whoever read it has gone
        cursor = SHOW_CURSOR if os.isatty(2) else ""
        os.write(2, f"{cursor}{words}".encode())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # whoever read it has gone, or there is none
            stream.flush()


def _exit(code: str | int | None) -> NoReturn:
    """What loaded torch ends without taking its thousands of modules apart, which Python would spend seconds on: all
    that a command has to put away is put away by then."""
    if isinstance(code, str) or (code != EXIT_STOPPED and "torch" not in sys.modules):
        sys.exit(code)
    atexit._run_exitfuncs()
    _flush()
    os._exit(code or EXIT_OK)
