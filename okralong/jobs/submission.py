"""The description of a submitted job: its command, where it runs on the cluster, and which files are sent with it."""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from typing import Annotated, Final, Literal

import typer
from pydantic import AfterValidator, Field, field_validator

from okralong.jobs.options import AskOptions, IndexOptions, RowOptions, RunOptions, command_words
from okralong.jobs.secret_search import check_variable
from okralong.pipelines.core.config import Place, Settings

COMMAND: Final = ("python", "-m", "okralong.jobs.cli")


def _everywhere(value: str) -> str:
    if "://" not in value and not value.startswith("/"):
        raise ValueError(
            "must be a URI (s3://BUCKET/PATH) or an absolute path that all nodes see, because the job's working "
            "directory is temporary"
        )
    return value


Everywhere = Annotated[str, AfterValidator(_everywhere)]
"""A location that every node can reach."""


class _Job(Settings):
    """A command with its options. ``inputs`` may be files next to CONFIG, which are then sent with the job."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]: ...

    @abstractmethod
    def arguments(self) -> list[str]:
        """Return the words after ``okralong`` on the command line."""


class _ArchiveJob(_Job):
    kind: str
    archive: Everywhere

    def arguments(self) -> list[str]:
        """See ``_Job``."""
        return [self.kind, self.archive, *command_words(self, without=("kind", "archive"))]


class IndexJob(IndexOptions, _ArchiveJob):
    """``okralong index``. ``sources`` is the option ``--from``; every other key is the option of the same name."""

    kind: Literal["index"]
    sources: Annotated[list[Everywhere], Field(min_length=1), typer.Option("--from")]

    @property
    def inputs(self) -> tuple[str, ...]:
        """See ``_Job``."""
        return (self.config,) if self.metadata is None else (self.config, self.metadata)


class _AskingJob(AskOptions, _ArchiveJob):
    questions: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """See ``_Job``."""
        return (self.config, self.questions)


class EstimateJob(_AskingJob):
    """``okralong estimate`` without a pilot: it makes no calls and needs no key."""

    kind: Literal["estimate"]


class _RunJob(RunOptions, _AskingJob):
    run: Everywhere
    replies_from: list[Everywhere] = Field(default_factory=list)


class AnswerJob(_RunJob):
    """``okralong answer``."""

    kind: Literal["answer"]
    changed_since: Annotated[int | None, Field(ge=0)] = None


class MatrixJob(RowOptions, _RunJob):
    """``okralong matrix``."""

    kind: Literal["matrix"]


class NightlyJob(_Job):
    """``okralong nightly`` (``kind``). Every node must reach ``config``, because paths in it are relative to it."""

    kind: Literal["nightly"]
    config: Everywhere

    def arguments(self) -> list[str]:
        """See ``_Job``."""
        return ["nightly", self.config]

    @property
    def inputs(self) -> tuple[str, ...]:
        """See ``_Job``."""
        return ()


class DriverConfig(Settings):
    """The node for the command itself, by default the head node.

    ``num_cpus`` and ``memory_gib`` are reserved for it, for example for an embedded generator.
    """

    num_cpus: Annotated[float, Field(ge=0)] = 0.0
    memory_gib: Annotated[float, Field(ge=0)] = 0.0
    place: Place = Place()


class Submission(Settings):
    """A job for a cluster.

    Archive, run and sources are URIs or absolute paths that every node can reach. Questions and configs may also be
    files next to CONFIG, which are then sent with the job. ``name`` is the prefix of the job's id. If ``code``
    is ``shipped``, the nodes run this copy of okralong, if it is ``installed``, their own. ``files`` lists more files
    and folders next to CONFIG to send. ``environment`` sets variables, none of them secret, because Ray shows
    them to everyone who sees the job.
    """

    name: str = "okralong"
    job: Annotated[IndexJob | AnswerJob | EstimateJob | MatrixJob | NightlyJob, Field(discriminator="kind")]
    code: Literal["shipped", "installed"] = "shipped"
    files: list[str] = Field(default_factory=list)
    environment: dict[str, str] = Field(default_factory=dict)
    driver: DriverConfig = DriverConfig()

    @field_validator("name")
    @classmethod
    def _an_id(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", value):
            raise ValueError("must be up to 40 lower-case letters, digits and dashes")
        return value

    @field_validator("environment")
    @classmethod
    def _nothing_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            check_variable(name)
        return value

    @property
    def entrypoint(self) -> str:
        """The job's command line."""
        return shlex.join([*COMMAND, *self.job.arguments()])
