"""The config of ``okralong nightly`` with its paths, and copies of its questions files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import yaml

from okralong.pipelines.core.config import Settings, load_config, parse_config
from okralong.pipelines.core.filesystems import located, open_file
from okralong.pipelines.core.spans import TelemetryConfig
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import (
    ConfigError,
)
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.nightly import (
    NightlyConfig,
)
from okralong.pipelines.run.questions import schema_files

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Places:
    """A nightly's config, and its paths resolved against its own file ``where``, a path or URI."""

    config: NightlyConfig
    where: str

    @classmethod
    def read(cls, source: str) -> Places:
        """Read the config. Raises ConfigError if it is missing or invalid."""
        text = _text_at(source)
        if text is None:
            raise ConfigError(f"The config {source} does not exist. Copy configs/nightly.yaml and set its paths.")
        where = source if "://" in source else str(Path(source).resolve())
        return cls(parse_config(NightlyConfig, text, where), where)

    def of(self, path: str) -> str:
        """Resolve a path of the config."""
        if "://" in path or PurePosixPath(path).is_absolute():
            return path
        return f"{self.where.rpartition('/')[0]}/{path.removeprefix('./')}"

    @property
    def beside(self) -> Path | None:
        """The folder of the config, in which commands run; None for a URI."""
        return None if "://" in self.where else Path(self.where).parent

    @cached_property
    def index(self) -> IndexConfig:
        """The index config. Raises ConfigError."""
        found = self._part(IndexConfig, "index", self.config.index).model_copy(update=self._telemetry)
        return found.model_copy(update={"metadata": self.of(found.metadata)}) if found.metadata else found

    @cached_property
    def answer(self) -> RunConfig:
        """The answer config with the night's budget. Raises ConfigError."""
        found = self._part(RunConfig, "answer", self.config.answer).model_copy(update=self._telemetry)
        budget = self.config.budget_usd
        return found if budget is None else found.model_copy(update={"budget_usd": budget})

    @cached_property
    def second(self) -> RunConfig | None:
        """The answer config with the second endpoint of ``canaries``, or None. Raises ConfigError."""
        canaries = self.config.canaries
        if canaries is None or canaries.second_llm is None:
            return None
        return self.answer.model_copy(update={"llm": canaries.second(self.answer.llm, self.where)})

    @property
    def telemetry(self) -> TelemetryConfig:
        """Where the traces of a night go. Raises ConfigError."""
        return self.config.telemetry or self.answer.telemetry

    @property
    def _telemetry(self) -> dict[str, Any]:
        return {} if self.config.telemetry is None else {"telemetry": self.config.telemetry}

    def _part(self, model: type[S], name: str, said: str | dict[str, Any]) -> S:
        if isinstance(said, dict):
            return parse_config(model, yaml.safe_dump(said), f"{self.where}, {name}")
        text = _text_at(self.of(said))
        return load_config(model, said) if text is None else parse_config(model, text, self.of(said))


def _text_at(location: str) -> str | None:
    """Return the text of the file at a path or URI, or None if there is no file."""
    filesystem, path = located(location)
    if not filesystem.get_file_info(path).is_file:
        return None
    with open_file(filesystem, path) as file:
        return bytes(file.read()).decode("utf-8-sig")


def copy_name(source: str) -> str:
    """Return the name that a questions file has in a night's folder."""
    return f"questions{PurePosixPath(source).suffix.lower()}"


def copied(source: str, to: Folder) -> str:
    """Copy a questions file and its JSON schemas to a night's folder; return its name there, or "" without a file."""
    filesystem, inside = located(source)
    if not filesystem.get_file_info(inside).is_file:  # prepare() reports the error
        return ""
    with open_file(filesystem, inside) as file:
        to.write_bytes(copy_name(source), bytes(file.read()))
    for name, content in schema_files(source).items():
        *folders, file_name = PurePosixPath(name).parts
        to.at(*folders).write_bytes(file_name, content)
    return copy_name(source)
