"""What a submitted job is: the command it runs on the cluster, where that runs, and what goes along with it."""

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
            "must be a URI (s3://BUCKET/PATH) or an absolute path that all nodes see: the working directory of a job "
            "goes with it"
        )
    return value


Everywhere = Annotated[str, AfterValidator(_everywhere)]
"""A place that every node sees."""


class _Job(Settings):
    """A command with its options; ``inputs`` may be files beside CONFIG, which then travel with the job."""

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
    """``okralong index``; ``sources`` are what ``--from`` takes there, every other key is an option of that name."""

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
    """``okralong estimate`` without a pilot, so that it makes no call and needs no key."""

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
    """``okralong nightly`` (``kind``); paths in ``config`` are relative to it, so it lies where every node sees it."""

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
    """Where the command itself runs: by default on the head node. It waits most of the time; ``num_cpus`` and
    ``memory_gib`` are set aside for it, which an embedded generator needs.
    """

    num_cpus: Annotated[float, Field(ge=0)] = 0.0
    memory_gib: Annotated[float, Field(ge=0)] = 0.0
    place: Place = Place()


class Submission(Settings):
    """A job for a cluster. Archive, run and sources are URIs or absolute paths that every node sees; questions and
    configs may also be files beside CONFIG, which then travel with the job. ``name`` begins its id; ``code`` says
    whether the nodes run this okralong, sent along, or the one that is installed on them; ``files`` are more files and
    folders beside CONFIG that travel with the job; ``environment`` are variables without any secret, which Ray shows to
    all who see the job.
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
            raise ValueError("must be up to 40 small letters, digits and dashes")
        return value

    @field_validator("environment")
    @classmethod
    def _nothing_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            check_variable(name)
        return value

    @property
    def entrypoint(self) -> str:
        """The command line of the job."""
        return shlex.join([*COMMAND, *self.job.arguments()])
