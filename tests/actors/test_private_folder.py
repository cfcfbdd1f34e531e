"""The private folder of a process's Ray: gone with the process, or at the next start after a kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from okralong.actors.cluster import PREFIX

pytestmark = pytest.mark.slow

HOLD = "from okralong.actors.cluster import _private_folder; print(_private_folder(), flush=True); input()"


def holder(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process with a private folder below ``base``, which ends when its input does."""
    environment = os.environ | {"RAY_TMPDIR": str(base)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_next_start_removes_the_folders_of_killed_processes_and_nothing_else() -> None:
    base = Path("/tmp") / f"okr{os.getpid()}"  # short: sockets are below it
    base.mkdir()
    try:
        (kept := base / "elsewhere").mkdir()
        (kept / "owner").touch()
        (base / f"{PREFIX}link").symlink_to(kept)
        (base / f"{PREFIX}new").mkdir()  # its process has not locked it yet
        (base / f"{PREFIX}linked").mkdir()
        (base / f"{PREFIX}linked" / "owner").symlink_to(kept / "owner")
        (foreign := base / f"{PREFIX}foreign").mkdir()
        (foreign / "owner").touch()
        if os.geteuid() == 0:
            os.chown(foreign, 12_345, 12_345)
        else:
            foreign.rename(base / "foreign")
        others = {each.name for each in base.iterdir()}

        running, live = holder(base)
        killed, dead = holder(base)
        assert {live.parent, dead.parent} == {base}
        assert live.stat().st_mode & 0o777 == 0o700
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        assert dead.exists()
        third, folder = holder(base)
        assert not dead.exists()
        assert live.exists()
        running.communicate("\n", 60)
        third.communicate("\n", 60)
        assert not live.exists()
        assert not folder.exists()
        assert {each.name for each in base.iterdir()} == others
    finally:
        shutil.rmtree(base)
