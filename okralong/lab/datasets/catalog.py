"""Describe data sets by two tables: their files (``datasets.yaml``), and the question type for each of their labels."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import InputError, QuestionType


class MappedLabel(Settings):
    """The type of one label, and the reason for it."""

    type: QuestionType
    why: str


class TypeTable(Settings):
    """The content of ``configs/question_types.yaml``: a mapped label for each set and each of its own labels."""

    sets: dict[str, dict[str, MappedLabel]]


def question_type(dataset: str, label: str) -> QuestionType:
    """Return the type of a set's label. Raises InputError for a label that the table does not map."""
    known = type_table().sets.get(dataset, {})
    if label not in known:
        raise InputError(
            f"The set {dataset!r} has a question of the kind {label!r}, which configs/question_types.yaml does not map "
            f"(it maps {', '.join(known) or 'none of that set'}). Add the label there, with its reason."
        )
    return known[label].type


@cache
def type_table() -> TypeTable:
    """Return the shipped table."""
    return load_config(TypeTable, "question_types.yaml")


class Origin(Settings):
    """Where the authors publish a set, under which ``licence``, and the size of what is fetched."""

    title: str
    address: str
    licence: str
    size: str


class DataSource(Settings):
    """A file of a data set. Splits and sweeps refer to it by ``name`` and ``part``, which no two sources share.

    ``format`` is a key of ``registry.FORMATS``, ``path`` is relative to the data folder. ``hub`` is a file on a hub of
    data sets, "owner/repository/file", which is fetched if the path does not exist. ``origin`` is where to get the file
    otherwise. ``beside`` is another path below the data folder that the format reads.
    """

    name: str
    part: str
    format: str
    path: str
    hub: str | None = None
    origin: Origin | None = None
    beside: str | None = None


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

    def source(self, name: str, part: str) -> DataSource:
        """Return the entry of that name and part. Raises InputError listing the known ones."""
        for source in self.sources:
            if (source.name, source.part) == (name, part):
                return source
        known = ", ".join(f"{source.name} {source.part}" for source in self.sources)
        raise InputError(f"The catalog of data sets has no {name} {part}; it has {known}.")


def load_catalog(source: str | Path = "datasets.yaml") -> Catalog:
    """Load the shipped catalog or another one. Raises ConfigError if it cannot be read."""
    return load_config(Catalog, source)
