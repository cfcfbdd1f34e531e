"""``okralong submit``: hand a job to a Ray cluster over HTTP, follow its logs, return its exit code."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from okralong.pipelines.core.types import EXIT_OK, EXIT_STOPPED


def command(
    config: Annotated[Path, typer.Argument(help="A YAML that names the job; see configs/submit/answer.yaml.")],
    address: Annotated[str, typer.Option(help="The cluster's job server, such as http://HEAD:8265.")],
    follow: Annotated[bool, typer.Option(help="Show the job's log until it ends, and end with its exit code.")] = True,
) -> None:
    """Submit a job to a Ray cluster. Keys stay in the environment of its nodes and never travel with the job."""
    from okralong.jobs.submitted import SubmittedJob, job_server
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.submission.config import Submission

    submission = load_config(Submission, config)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="okralong-submit-") as folder:
        request = job_request(submission, config.resolve().parent, Path(folder), dict(os.environ))
        client = job_server(address)
        job = SubmittedJob.start(client, address, request)
    say_line(console, f"submitted {job.job_id} to {address}")
    if not follow:
        return
    try:
        code = job.follow()
    except KeyboardInterrupt:
        say_line(console, f"{job.job_id} goes on. To stop it: ray job stop {job.job_id} --address {address}")
        raise typer.Exit(EXIT_STOPPED) from None
    if code != EXIT_OK:
        raise typer.Exit(code)


def job_request(submission: Any, base: Path, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """What Ray is sent, as arguments of ``JobSubmissionClient.submit_job``; the package lies in ``folder``.

    Raises ConfigError when anything in it cannot be used, or holds a secret of this ``environment``.
    """
    from okralong.pipelines.submission.package import write_package
    from okralong.pipelines.submission.secrets import refuse_secrets

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
