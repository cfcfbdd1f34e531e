"""Submit a job to a cluster: assemble what is sent, start the job, and follow its log over HTTP.

The working directory of a job is assembled file by file, so that what lies beside a config (a ``.env``, an archive, a
checkout's history) is not sent by accident. Everything that is sent is searched for secrets first (``secret_search``).
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
"""Variables that win over the address that Ray's client is given."""
RETRY_FOR_S: Final = 300.0
"""How long a job server may be out of reach before we stop following; the job does not notice. Ours."""
POLL_S: Final = 1.0
UNREACHABLE: Final = (RuntimeError, OSError, aiohttp.ClientError, requests.RequestException)
"""What Ray's client raises when its server is gone, restarts, or is behind a proxy that hangs up."""
SEARCHED_BYTES: Final = 2_000_000
"""Up to this size a file that is sent is searched for keys; larger ones are data. Ours."""
_PACKAGE: Final = Path(okralong.__file__).parent


def job_request(submission: Submission, base: Path, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """What Ray is sent, as arguments of ``JobSubmissionClient.submit_job``; the package lies in ``folder``.

    Raises ConfigError when anything in it cannot be used, or holds a secret of this ``environment``.
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
    """Fill the empty folder ``into`` with what goes with the job; the names of its own files, sorted.

    ``base`` is the folder of CONFIG. Raises ConfigError when a file is missing, leads out of ``base`` or holds a secret
    of this ``environment``, and when the job's own config cannot be used.
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
        _search(into / "okralong" / "configs", into, environment)  # somebody's own may lie among those of a checkout
    return tuple(named)


def _search(place: Path, base: Path, environment: Mapping[str, str]) -> None:
    for file in _files(place):
        if file.stat().st_size <= SEARCHED_BYTES:
            said = file.read_bytes().decode("utf-8", "replace")
            refuse_secrets({f"the file {file.relative_to(base)}": said}, environment)


def _beside(submission: Submission, base: Path) -> Iterator[str]:
    """The inputs of the job that are files beside CONFIG, and those that its config names in turn."""
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
    """A config that the job would refuse is refused here, before a cluster is woken."""
    name = submission.job.config
    model: Any = IndexConfig if isinstance(submission.job, IndexJob) else RunConfig
    if name.startswith("/") or isinstance(submission.job, NightlyJob):
        return  # it lies on the nodes
    if (base / name).is_file():
        load_config(model, base / name)
    else:
        parse_config(model, shipped_config(name), f"configs/{name}")


def _below(base: Path, name: str) -> Path:
    pure = PurePosixPath(name)
    first = pure.parts[0] if pure.parts else ""
    if pure.is_absolute() or ".." in pure.parts or first in ("", "okralong"):
        raise ConfigError(
            f"{name} cannot travel with the job: give files and folders below {base}, which are not called okralong. "
            "Nothing was sent."
        )
    source = base / name
    if not source.exists() or not source.resolve().is_relative_to(base.resolve()):
        raise ConfigError(
            f"{name} is not in {base}, or leads out of it. Correct the key files in the config. Nothing was sent."
        )
    return source


def _files(source: Path) -> Iterator[Path]:
    """The plain files at or below ``source``; hidden ones and links are left out of folders."""
    if source.is_file():
        yield source
        return
    for entry in sorted(source.iterdir()):
        if not entry.name.startswith(".") and not entry.is_symlink():
            yield from _files(entry)


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
        while True:  # not a retry of one call: a log that breaks off is followed on, and each line of it is news
            try:
                read = 0  # a log is sent from its beginning each time
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
