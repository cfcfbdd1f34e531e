"""A job on a cluster, seen from outside over HTTP: its log as it grows, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import ray
import requests
from ray.job_submission import JobStatus, JobSubmissionClient

from okralong.jobs.terminal import printable
from okralong.pipelines.core.types import EXIT_BROKEN, EXIT_OK, EXIT_STOPPED, BrokenError, ConfigError

ADDRESSES: Final = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Variables that win over the address that Ray's client is given."""
PATIENCE_S: Final = 300.0
"""How long a job server may be out of reach before we stop following; the job does not notice. Ours."""
POLL_S: Final = 1.0
UNREACHABLE: Final = (RuntimeError, OSError, aiohttp.ClientError, requests.RequestException)
"""What Ray's client raises when its server is gone, restarts, or is behind a proxy that hangs up."""


def job_server(address: str) -> JobSubmissionClient:
    """The client of a job server. Raises ConfigError when the address is none, or nobody listens there, or the cluster
    runs another Ray than this okralong was made for.
    """
    if not re.fullmatch(r"https?://[^/@?#\s]+/?", address):
        raise ConfigError(
            "--address must be that of a job server, such as http://HEAD:8265: without user, key or query. (A token "
            "is read from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH.) Nothing was sent."
        )
    try:
        with _without(ADDRESSES):
            client = JobSubmissionClient(address.rstrip("/"))
    except UNREACHABLE as error:
        raise ConfigError(
            f"No job server answers at {address}: {_said(error)}. Check that the cluster is up and started with its "
            "dashboard (ray[default]), and that RAY_AUTH_MODE and the token are those of the cluster. Nothing was sent."
        ) from error
    theirs = getattr(client, "_server_ray_version", None)  # Ray's client has asked, and tells nobody
    if theirs not in (None, ray.__version__):
        raise ConfigError(
            f"The cluster at {address} runs Ray {theirs}, and this okralong is installed with {ray.__version__}. Use "
            "the same version (requirements.lock has it) on both sides. Nothing was sent."
        )
    return client


@dataclass
class SubmittedJob:
    """One job; ``job_id`` is the id that it was submitted under."""

    client: JobSubmissionClient
    address: str
    job_id: str

    @classmethod
    def start(cls, client: JobSubmissionClient, address: str, request: dict[str, Any]) -> SubmittedJob:
        """Upload its package and start it. Raises BrokenError when the cluster refuses it."""
        try:
            return cls(client, address, client.submit_job(**request))
        except UNREACHABLE as error:
            raise BrokenError(f"The cluster at {address} did not take the job: {_said(error)}.") from error

    def follow(self, write: Callable[[str], Any] | None = None) -> int:
        """Pass its log on, as it grows, to ``write`` (standard output); its exit code when it has ended.

        A job server that is out of reach for a while is waited for. Raises BrokenError when it stays away.
        """
        return asyncio.run(self._follow(write or _to_terminal))

    async def _follow(self, write: Callable[[str], Any]) -> int:
        shown = 0
        seen = time.monotonic()
        while True:
            try:
                told = 0  # a log is told from its beginning each time
                async for text in self.client.tail_job_logs(self.job_id):
                    fresh = text[max(0, shown - told) :]
                    told += len(text)
                    shown = max(shown, told)
                    seen = time.monotonic()
                    if fresh:
                        write(fresh)
                info = await asyncio.to_thread(self.client.get_job_info, self.job_id)
                seen = time.monotonic()
                if info.status.is_terminal():
                    return self._code(info, write)
            except UNREACHABLE as error:
                if time.monotonic() - seen > PATIENCE_S:
                    raise BrokenError(
                        f"The job server at {self.address} has not answered for {PATIENCE_S:.0f} s: {_said(error)}. "
                        f"The job {self.job_id} may go on; ask `ray job status {self.job_id} --address {self.address}`."
                    ) from error
            await asyncio.sleep(POLL_S)

    def _code(self, info: Any, write: Callable[[str], Any]) -> int:
        if info.status == JobStatus.STOPPED:
            return EXIT_STOPPED
        code = info.driver_exit_code
        if code is None:  # its command never ran, or its node is gone
            if info.status == JobStatus.SUCCEEDED:
                return EXIT_OK
            write(f"{self.job_id} failed: {info.message or 'Ray does not say why'}\n")
            return EXIT_BROKEN
        return int(code) if code >= 0 else 128 - int(code)  # as a shell tells of a signal


def _to_terminal(text: str) -> None:
    sys.stdout.write(printable(text))
    sys.stdout.flush()


def _said(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:500].rstrip(".")


@contextlib.contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
