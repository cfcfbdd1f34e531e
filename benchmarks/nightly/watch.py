"""Measure processor time and memory of a command and its descendants once a second, by role."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

EVERY_S = 1.0


@dataclass(frozen=True)
class Sample:
    """``at`` is in seconds since the epoch; ``processor_s`` by role since each process began, ``resident`` in bytes."""

    at: float
    processor_s: dict[str, float]
    resident: dict[str, int]


class Watch:
    """Runs a command and measures it until it ends, including processes that end earlier."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._spent: dict[tuple[int, float], tuple[str, float]] = {}

    def run(self, command: Sequence[str], kill_when: Callable[[], bool] | None = None) -> float:
        """Run the command and return its seconds; ``kill -9`` it as soon as ``kill_when`` is true.

        Raises SystemExit if it fails, or ends before the kill.
        """
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        ended = threading.Event()
        watching = threading.Thread(target=self._go_on, args=(process.pid, ended))
        watching.start()
        try:
            while kill_when is not None and process.poll() is None:
                if kill_when():
                    process.kill()
                    process.wait()
                    return time.monotonic() - started
                time.sleep(0.05)
            code = process.wait()
        finally:
            process.terminate()  # where this process was told to end; else it has ended
            process.wait()
            ended.set()
            watching.join()
        if code or kill_when is not None:
            raise SystemExit(f"{' '.join(command[:4])} ended with {code}")
        return time.monotonic() - started

    def at(self, moment: float) -> Sample:
        """Return the last sample before ``moment``."""
        return max((each for each in self.samples if each.at <= moment), key=lambda each: each.at)

    @staticmethod
    def between(first: Sample, last: Sample) -> dict[str, float]:
        """Return processor seconds by role between two samples, most first."""
        spent = {role: seconds - first.processor_s.get(role, 0.0) for role, seconds in last.processor_s.items()}
        return dict(sorted(spent.items(), key=lambda pair: -pair[1]))

    def _go_on(self, pid: int, ended: threading.Event) -> None:
        while not ended.wait(EVERY_S):
            self._look(pid)

    def _look(self, pid: int) -> None:
        resident: dict[str, int] = defaultdict(int)
        try:
            top = psutil.Process(pid)
            family = [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    role = "driver" if process.pid == pid else role_of(process)
                    self._spent[process.pid, process.create_time()] = role, times.user + times.system
                    resident[role] += process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
                continue
        processor: dict[str, float] = defaultdict(float)
        for role, seconds in self._spent.values():
            processor[role] += seconds
        self.samples.append(Sample(time.time(), dict(processor), dict(resident)))


def role_of(process: psutil.Process) -> str:
    """Return Ray's name of an actor's process, else its program."""
    words = process.cmdline()
    if not words:
        return str(process.name())
    if words[0].startswith("ray::"):
        return words[0].removeprefix("ray::").split(".")[0].split("(")[0].strip()
    module = next((word for word in words if word.endswith(".py")), words[0])
    return module.rsplit("/", 1)[-1]
