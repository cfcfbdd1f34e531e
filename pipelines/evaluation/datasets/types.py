"""The one table that maps a set's own labels to the five question types: ``configs/question_types.yaml``."""

from __future__ import annotations

from functools import cache

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import InputError, QuestionType


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
