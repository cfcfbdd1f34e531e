"""Submit a job to a cluster: assemble what is sent, start the job, and follow its log over HTTP.

The working directory of a job is assembled file by file, so that other files next to a config (a ``.env``, an archive,
a checkout's history) are not sent by accident. Everything that is sent is searched for secrets first
(``secret_search``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import aiohttp
import ray
import requests
import yaml
from ray.job_submission import JobStatus, JobSubmissionClient

import okralong
from okralong.jobs.secret_search import refuse_secrets
from okralong.jobs.submission import IndexJob, NightlyJob, Submission
from okralong.jobs.terminal import printable
from okralong.pipelines.core.config import load_config, parse_config, shipped_config
from okralong.pipelines.core.types import EXIT_BROKEN, EXIT_OK, EXIT_STOPPED, BrokenError, ConfigError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.run.config import RunConfig

ADDRESSES: Final = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Variables that override the address passed to Ray's client."""
RETRY_FOR_S: Final = 300.0  # project default
"""Seconds without an answer of the job server before following stops. The job itself is not affected."""
POLL_S: Final = 1.0
UNREACHABLE: Final = (RuntimeError, OSError, aiohttp.ClientError, requests.RequestException)
"""Exceptions of Ray's client when its server is gone, restarts, or a proxy hangs up."""
SEARCHED_BYTES: Final = 2_000_000  # project default
"""Size up to which files are searched for keys; larger files are assumed to be data."""
_PACKAGE: Final = Path(okralong.__file__).parent


def job_request(submission: Submission, base: Path, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Assemble the job's files in ``folder`` and return the arguments of ``JobSubmissionClient.submit_job``.

    Raises:
        ConfigError: Something cannot be used, or holds a secret of ``environment``.
    """
    driver = submission.driver
    variables = {"PYTHONUNBUFFERED": "1", **submission.environment}
    shown: dict[str, Any] = {
        "submission_id": f"{submission.name}-{uuid.uuid4().hex[:12]}",
        "entrypoint": submission.entrypoint,
        "runtime_env": {"env_vars": variables},
        "metadata": {"okralong": submission.job.kind},
        "entrypoint_num_cpus": driver.num_cpus or None,
        "entrypoint_memory": int(driver.memory_gib * 2**30) or None,
        "entrypoint_resources": driver.place.resources or None,
        "entrypoint_label_selector": driver.place.labels or None,
    }
    refuse_secrets({**shown, "config": submission.model_dump()}, environment)
    write_package(submission, base, folder, environment)
    shown["runtime_env"]["working_dir"] = str(folder)
    return shown


def write_package(submission: Submission, base: Path, into: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Copy the job's files into the empty folder ``into`` and return the names of those from ``base``, sorted.

    ``base`` is the folder of CONFIG.

    Raises:
        ConfigError: A file is missing, is outside ``base`` or holds a secret of ``environment``, or the job's config
            is invalid.
    """
    _check_config(submission, base)
    named = sorted({*_beside(submission, base), *submission.files})
    for name in named:
        source = _below(base, name)
        _search(source, base, environment)
        for file in _files(source):
            target = into / file.relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    if submission.code == "shipped":
        shutil.copytree(_PACKAGE, into / "okralong", ignore=shutil.ignore_patterns("__pycache__", ".*"))
        _search(into / "okralong" / "configs", into, environment)  # a checkout may hold private ones
    return tuple(named)


def _search(place: Path, base: Path, environment: Mapping[str, str]) -> None:
    for file in _files(place):
        if file.stat().st_size <= SEARCHED_BYTES:
            said = file.read_bytes().decode("utf-8", "replace")
            refuse_secrets({f"the file {file.relative_to(base)}": said}, environment)


def _beside(submission: Submission, base: Path) -> Iterator[str]:
    """Yield the job's inputs that are files next to CONFIG, and the files that its config names."""
    for name in submission.job.inputs:
        if "://" in name or name.startswith("/"):
            continue
        if (base / name).is_file():
            yield name
            if name == submission.job.config:
                yield from _named_by(base / name, base)
        elif name != submission.job.config:
            raise ConfigError(
                f"The file {name}, which the job names, is not in {base}. Put it there, or give a URI or an absolute "
                "path that all nodes see. Nothing was sent."
            )


def _named_by(config: Path, base: Path) -> Iterator[str]:
    said: Any = yaml.safe_load(config.read_text(encoding="utf-8"))
    for key in ("policy", "prices"):
        name = said.get(key) if isinstance(said, dict) else None
        if isinstance(name, str) and not name.startswith("/") and (base / name).is_file():
            yield name


def _check_config(submission: Submission, base: Path) -> None:
    """Validate the job's config before contacting the cluster."""
    name = submission.job.config
    model: Any = IndexConfig if isinstance(submission.job, IndexJob) else RunConfig
    if name.startswith("/") or isinstance(submission.job, NightlyJob):
        return  # it is on the nodes
    if (base / name).is_file():
        load_config(model, base / name)
    else:
        parse_config(model, shipped_config(name), f"configs/{name}")


def _below(base: Path, name: str) -> Path:
    pure = PurePosixPath(name)
    first = pure.parts[0] if pure.parts else ""
    if pure.is_absolute() or ".." in pure.parts or first in ("", "okralong"):
        raise ConfigError(
            f"{name} cannot be sent with the job. Name files and folders below {base} that are not called okralong. "
            "Nothing was sent."
        )
    source = base / name
    if not source.exists() or not source.resolve().is_relative_to(base.resolve()):
        raise ConfigError(
            f"{name} is not in {base}, or is a link out of it. Correct the key files in the config. Nothing was sent."
        )
    return source


def _files(source: Path) -> Iterator[Path]:
    """Yield the plain files at or below ``source``, skipping hidden entries and links inside folders."""
    if source.is_file():
        yield source
        return
    for entry in sorted(source.iterdir()):
        if not entry.name.startswith(".") and not entry.is_symlink():
            yield from _files(entry)


def job_server(address: str) -> JobSubmissionClient:
    """Connect to a job server.

    Raises:
        ConfigError: The address is invalid, no server answers, or the cluster runs another version of Ray.
    """
    if not re.fullmatch(r"https?://[^/@?#\s]+/?", address):
        raise ConfigError(
            "--address must be the URL of a job server, such as http://HEAD:8265, without user, key or query. (A token "
            "is read from RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH.) Nothing was sent."
        )
    try:
        with _without(ADDRESSES):
            client = JobSubmissionClient(address.rstrip("/"))
    except UNREACHABLE as error:
        raise ConfigError(
            f"No job server answers at {address}: {_said(error)}. Check that the cluster is up and started with its "
            "dashboard (ray[default]), and that RAY_AUTH_MODE and the token match the cluster's. Nothing was sent."
        ) from error
    theirs = getattr(client, "_server_ray_version", None)  # Ray's client knows it but does not publish it
    if theirs not in (None, ray.__version__):
        raise ConfigError(
            f"The cluster at {address} runs Ray {theirs}, but this okralong is installed with {ray.__version__}. Use "
            "the same version (see requirements.lock) on both sides. Nothing was sent."
        )
    return client


@dataclass
class SubmittedJob:
    """A job on the cluster."""

    client: JobSubmissionClient
    address: str
    job_id: str

    @classmethod
    def start(cls, client: JobSubmissionClient, address: str, request: dict[str, Any]) -> SubmittedJob:
        """Upload the package and start the job. Raises BrokenError if the cluster refuses it."""
        try:
            return cls(client, address, client.submit_job(**request))
        except UNREACHABLE as error:
            raise BrokenError(f"The cluster at {address} rejected the job: {_said(error)}.") from error

    def follow(self, write: Callable[[str], Any] | None = None) -> int:
        """Pass the growing log to ``write`` (default: standard output) and return the job's exit code when it ends.

        Raises:
            BrokenError: The job server has been unreachable for ``RETRY_FOR_S`` seconds.
        """
        return asyncio.run(self._follow(write or _to_terminal))

    async def _follow(self, write: Callable[[str], Any]) -> int:
        shown = 0
        seen = time.monotonic()
        while True:  # resume a log that breaks off
            try:
                read = 0  # the server sends a log from its beginning each time
                async for text in self.client.tail_job_logs(self.job_id):
                    fresh = text[max(0, shown - read) :]
                    read += len(text)
                    shown = max(shown, read)
                    seen = time.monotonic()
                    if fresh:
                        write(fresh)
                info = await asyncio.to_thread(self.client.get_job_info, self.job_id)
                seen = time.monotonic()
                if info.status.is_terminal():
                    return self._code(info, write)
            except UNREACHABLE as error:
                if time.monotonic() - seen > RETRY_FOR_S:
                    raise BrokenError(
                        f"The job server at {self.address} has not answered for {RETRY_FOR_S:.0f} s: {_said(error)}. "
                        f"The job {self.job_id} may still run: `ray job status {self.job_id} --address {self.address}`."
                    ) from error
            await asyncio.sleep(POLL_S)

    def _code(self, info: Any, write: Callable[[str], Any]) -> int:
        if info.status == JobStatus.STOPPED:
            return EXIT_STOPPED
        code = info.driver_exit_code
        if code is None:  # the command never ran, or its node is gone
            if info.status == JobStatus.SUCCEEDED:
                return EXIT_OK
            write(f"{self.job_id} failed: {info.message or 'Ray does not say why'}\n")
            return EXIT_BROKEN
        return int(code) if code >= 0 else 128 - int(code)  # as shells report a signal


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
