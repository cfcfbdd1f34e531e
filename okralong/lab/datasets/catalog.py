"""The two tables that describe data sets: their files, and the question type of each of their labels."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import InputError, QuestionType

# --------
# The one table that maps a set's own labels to the five question types: ``configs/question_types.yaml``.


class MappedLabel(Settings):
    """One label's type, and the reason for it."""

    type: QuestionType
    why: str


class TypeTable(Settings):
    """By set, then by the set's own label."""

    sets: dict[str, dict[str, MappedLabel]]


def question_type(dataset: str, label: str) -> QuestionType:
    """The type of a set's label. Raises InputError for a label that the table does not know."""
    known = type_table().sets.get(dataset, {})
    if label not in known:
        raise InputError(
            f"The set {dataset!r} has a question of the kind {label!r}, which configs/question_types.yaml does not map "
            f"(it maps {', '.join(known) or 'none of that set'}). Add the label there, with its reason."
        )
    return known[label].type


@cache
def type_table() -> TypeTable:
    """The table as committed."""
    return load_config(TypeTable, "question_types.yaml")


# --------
# The catalog of data sets: which files there are, in which format, below the folder that holds the data.


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

    def source(self, name: str, part: str) -> DataSource:
        """The entry of that name and part. Raises InputError naming those that there are."""
        for source in self.sources:
            if (source.name, source.part) == (name, part):
                return source
        known = ", ".join(f"{source.name} {source.part}" for source in self.sources)
        raise InputError(f"The catalog of data sets has no {name} {part}; it has {known}.")


def load_catalog(source: str | Path = "datasets.yaml") -> Catalog:
    """The catalog as committed, or another one. Raises ConfigError when it cannot be read."""
    return load_config(Catalog, source)
