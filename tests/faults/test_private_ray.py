"""A private Ray is its user's alone: no port of a running job can be reached from elsewhere, nor its folder entered."""

from __future__ import annotations

import ipaddress
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from okralong.pipelines.core.types import EXIT_STOPPED
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.faults.conftest import SLOW
from tests.faults.night import Night
from tests.processes import DYING_S, below, listening, living


def test_a_running_job_listens_on_loopback_and_keeps_its_folder_to_itself(night: Night) -> None:
    night.configure(reranker={"model": str(tiny_cross_encoder())}, confidence="shipped")  # a replica on Ray Serve
    night.hold_after(0)
    driver = night.start()
    night.wait_for_requests(driver, 1)
    started = below(driver.pid)  # Ray's agents overwrite their environment, and with it the mark
    titles = {driver.pid: "the command"}
    for one in started:
        with suppress(psutil.Error):  # it has ended since
            titles[one.pid] = " ".join(one.cmdline())
    for part in ("gcs_server", "raylet", "ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::ServeReplica"):
        assert any(part in title for title in titles.values()), part
    found = listening(titles)
    assert {pid for pids in found.values() for pid in pids} >= {driver.pid}
    elsewhere = {
        address: [titles[pid] for pid in pids]
        for address, pids in found.items()
        if not ipaddress.ip_address(address).is_loopback
    }
    assert elsewhere == {}

    (gcs,) = (pid for pid, title in titles.items() if "gcs_server" in title)
    variables = dict(each.partition("=")[::2] for each in Path(f"/proc/{gcs}/environ").read_text().split("\0"))
    folder = Path(variables["RAY_AUTH_TOKEN_PATH"]).parent
    assert variables["RAY_AUTH_MODE"] == "token"
    assert list((folder / "ray").glob("session_*/sockets")), "its session folder is in it"
    assert folder.stat().st_mode & 0o777 == 0o700
    driver.send_signal(signal.SIGTERM)
    night.let_go(SLOW)
    assert night.end(driver).code == EXIT_STOPPED
    assert not living(started, DYING_S)
    assert not folder.exists()
