"""The catalog of data sets: which files there are, in which format, below the folder that holds the data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings, load_config


class DataSource(Settings):
    """One file of a data set. ``name`` and ``part`` are how splits and sweeps call it; no two sources share both.

    ``format`` is a key of ``registry.FORMATS``, ``path`` is relative to the data folder. ``hub`` is the file on a hub
    of data sets, "owner/repository/file", for those who have a connection.
    """

    name: str
    part: str
    format: str
    path: str
    hub: str | None = None


class Catalog(Settings):
    """All sources, in the order in which they are read."""

    sources: tuple[DataSource, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        counts = Counter((source.name, source.part) for source in self.sources)
        twice = [" ".join(named) for named, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"the source {twice[0]} is listed twice")
        return self


def load_catalog(source: str | Path = "datasets.yaml") -> Catalog:
    """The catalog as committed, or another one. Raises ConfigError when it cannot be read."""
    return load_config(Catalog, source)
