"""Ids and types of questions, with errors that name the row when a set's own are of no use."""

from __future__ import annotations

import re
from typing import Final

from okralong.pipelines.core.types import InputError, QuestionType
from okralong.pipelines.evaluation.datasets.fields import Row
from okralong.pipelines.evaluation.datasets.types import question_type

_UNSAFE: Final = re.compile(r"[^\w.\-]")


class QueryIds:
    """Query ids of one set: its name and its own ids, with signs that no file name bears made ``_``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._used: set[str] = set()

    def take(self, row: Row, field: str) -> str:
        """The id of this row. Raises InputError when it was taken before."""
        query_id = f"{self._name}-{_UNSAFE.sub('_', row.text(field).strip())}"
        if query_id in self._used:
            row.bad(field, f"is {row.values[field]!r}, the id of an earlier question")
        self._used.add(query_id)
        return query_id


def row_type(row: Row, field: str, dataset: str, label: str) -> QuestionType:
    """The mapped type of a label that the row's field holds or implies. Raises InputError naming row and field."""
    try:
        return question_type(dataset, label)
    except InputError as error:
        row.bad(field, f"holds a kind of question without a type. {error}")
