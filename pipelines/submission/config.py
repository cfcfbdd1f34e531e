"""What ``okralong submit CONFIG`` may say: one job, its arguments, and where its driver runs.

The job is the same command that a person would type on the cluster. Archive, run and sources are URIs or absolute paths
that every node sees; questions and configs may also be files beside CONFIG, which then travel with the job.
"""

from __future__ import annotations

import re
import shlex
from abc import abstractmethod
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, field_validator

from okralong.pipelines.core.config import Place, Settings
from okralong.pipelines.submission.secrets import check_variable

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
    """A command and its arguments."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """What stands after ``okralong`` on the command line."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """What may be files beside CONFIG that travel with the job."""


class IndexJob(_Job):
    """``okralong index``; ``sources`` are what ``--from`` takes there."""

    kind: Literal["index"]
    archive: Everywhere
    sources: list[Everywhere] = Field(min_length=1)
    config: str = "index.yaml"
    rehash: bool = False

    def arguments(self) -> list[str]:
        """See ``_Job``."""
        named = [word for source in self.sources for word in ("--from", source)]
        words = ["index", self.archive, *named, "--config", self.config]
        return [*words, "--rehash"] if self.rehash else words

    @property
    def inputs(self) -> tuple[str, ...]:
        """See ``_Job``."""
        return (self.config,)


class AnswerJob(_Job):
    """``okralong answer``; every key is an option of that name there."""

    kind: Literal["answer"]
    archive: Everywhere
    questions: str
    run: Everywhere
    config: str = "answer.yaml"
    strategy: str | None = None
    analyzer: str | None = None
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    replies_from: list[Everywhere] = Field(default_factory=list)
    retry: list[Literal["failed", "unanswerable", "over_budget"]] = Field(default_factory=list)
    llm_mode: Literal["realtime", "batch"] | None = None
    deadline: str | None = None
    changed_since: Annotated[int, Field(ge=0)] | None = None

    def arguments(self) -> list[str]:
        """See ``_Job``."""
        words = ["answer", self.archive, "--questions", self.questions, "--run", self.run, "--config", self.config]
        for option in ("strategy", "analyzer", "budget_usd", "llm_mode", "deadline", "changed_since"):
            words += _option(option, getattr(self, option))
        for name, value in self.tags.items():
            words += ["--tag", f"{name}={value}"]
        for option in ("replies_from", "retry"):
            words += [word for value in getattr(self, option) for word in _option(option, value)]
        return words

    @property
    def inputs(self) -> tuple[str, ...]:
        """See ``_Job``."""
        return (self.config, self.questions)


class EstimateJob(_Job):
    """``okralong estimate`` without a pilot: it asks nobody and needs no key."""

    kind: Literal["estimate"]
    archive: Everywhere
    questions: str
    config: str = "answer.yaml"
    strategy: str | None = None

    def arguments(self) -> list[str]:
        """See ``_Job``."""
        words = ["estimate", self.archive, "--questions", self.questions, "--config", self.config]
        return [*words, *_option("strategy", self.strategy)]

    @property
    def inputs(self) -> tuple[str, ...]:
        """See ``_Job``."""
        return (self.config, self.questions)


def _option(name: str, value: Any) -> list[str]:
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]


class DriverConfig(Settings):
    """Where the command itself runs: by default on the head node. It waits most of the time; ``num_cpus`` and
    ``memory_gib`` are set aside for it, which an embedded generator needs.
    """

    num_cpus: Annotated[float, Field(ge=0)] = 0.0
    memory_gib: Annotated[float, Field(ge=0)] = 0.0
    place: Place = Place()


class Submission(Settings):
    """A job for a cluster. ``name`` begins its id; ``code`` says whether the nodes run this okralong, sent along, or
    the one that is installed on them; ``files`` are more files and folders beside CONFIG that travel with the job;
    ``environment`` are variables without any secret, which Ray shows to all who see the job.
    """

    name: str = "okralong"
    job: Annotated[IndexJob | AnswerJob | EstimateJob, Field(discriminator="kind")]
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
