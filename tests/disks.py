"""Small disks that fill up, and folders that cannot be written, for whoever may mount a tmpfs; else the test skips."""

from __future__ import annotations

import resource
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """``folder`` as a tmpfs with these mount options (``size=8m``, ``nr_inodes=100``)."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _mount("-t", "tmpfs", "-o", ",".join(options), "okralong-test", str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small disk can be mounted here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def remount(folder: Path, *options: str) -> None:
    """Change the options of a disk that is ``mounted``, such as ``ro`` or ``size=64m``."""
    _mount("-o", ",".join(("remount", *options)), str(folder))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


class Ballast:
    """Another program on a disk, which takes every byte, or every inode, that becomes free on it."""

    def __init__(self, disk: Path, inodes: bool = False) -> None:
        self._place = disk / "ballast"
        self._inodes = inodes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, daemon=True)

    def __enter__(self) -> Ballast:
        """The disk is full when this returns, and stays so."""
        self._place.mkdir()
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """All of it is free again."""
        self._stop.set()
        self._thread.join()
        for file in self._place.iterdir():
            file.unlink()
        self._place.rmdir()

    def _fill(self) -> None:
        while not self._stop.wait(0.002):
            self._take()

    def _take(self) -> None:
        with suppress(OSError):
            if self._inodes:
                for number in range(100_000):
                    (self._place / f"{number}").touch()
            else:
                with (self._place / "bytes").open("ab", buffering=0) as out:
                    while out.write(bytes(4096)):
                        pass


@contextmanager
def no_room() -> Iterator[None]:
    """No file of this process can grow beyond some bytes, as on a full disk. (Python ignores the signal of it.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
