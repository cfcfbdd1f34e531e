"""The matrix: its rows are documents, its columns are questions about each single document.

A question with ``for_each`` (in a questions file also ``doc_ids: each``) becomes one cell per document. A cell is a
question of its own, planned, estimated, capped, resumed and cited like any other. A columns file, in YAML, is a
questions file of such questions only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import Field, field_validator

from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import Question, QuestionError

EACH: Final = "each"
"""The ``doc_ids`` of a question for each document separately."""
EVERY: Final = ("*",)


class Column(Settings):
    """A column of a matrix.

    - ``name``: its heading, and the query_id of its question.
    - ``question``: the question about every document.
    - ``answer_type``, ``choices``: the kind of each value, as in any questions file; text by default.
    """

    name: Annotated[str, Field(min_length=1)]
    question: Annotated[str, Field(min_length=1)]
    answer_type: str | dict[str, Any] | None = None
    choices: list[str] = Field(default_factory=list)

    @field_validator("name", "question")
    @classmethod
    def _words(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("it is blank. Write words there, or delete the column")
        return value.strip()


class Columns(Settings):
    """A columns file.

    - ``documents``: ids or patterns of the documents to ask; all by default.
    - ``where``: a filter over their metadata, which narrows the selection.
    - ``columns``: the questions, in order.
    """

    documents: list[str] = Field(default_factory=lambda: list(EVERY), min_length=1)
    where: str = ""
    columns: list[Column] = Field(min_length=1)

    @field_validator("documents", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("columns")
    @classmethod
    def _named_once(cls, value: list[Column]) -> list[Column]:
        seen: dict[str, int] = {}
        for number, column in enumerate(value, start=1):
            first = seen.setdefault(column.name.casefold(), number)
            if first != number:
                raise ValueError(
                    f"columns {first} and {number} are both named {column.name!r} (capitals do not tell names apart). "
                    "Give each a name of its own"
                )
        return value


def column_rows(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the columns of a file as rows of questions, each with its place in words. Raises ConfigError."""
    read = parse_config(Columns, text, name)
    for column in read.columns:
        said = column.model_dump(exclude_defaults=True)
        row = {"query_id": said.pop("name"), "for_each": list(read.documents), "where": read.where, **said}
        yield f"{name}, column {column.name}", row


@dataclass(frozen=True)
class MatrixRows:
    """The documents of ``okralong matrix``: ids or patterns, and a filter.

    Where one is empty the question's own applies; a question without documents covers all of them.
    """

    documents: tuple[str, ...] = ()
    where: str = ""

    def column(self, question: Question) -> Question:
        """Return the question as a column. Raises QuestionError if it names documents for a single answer."""
        if question.doc_ids:
            raise QuestionError(
                f"The question {question.query_id!r} names documents in doc_ids, for one answer over all of them, and "
                "every column of a matrix is asked of each document by itself. Move them to for_each, or ask it with "
                "okralong answer."
            )
        return replace(
            question,
            for_each=self.documents or question.for_each or EVERY,
            where=self.where or question.where,
        )


def cell_id(asked_id: str, doc_id: str) -> str:
    """Return the query_id of a cell, made of the question's and the document's."""
    return f"{asked_id}@{doc_id}"


def cells(columns: Sequence[tuple[Question, Collection[str]]]) -> Iterator[Question]:
    """Yield the cells of questions with the documents of each.

    They are sorted by document, and within a document in the order of the questions, so that a run that stops early
    leaves complete rows. Gold evidence goes to the cell of its document.
    """
    named = [(question, frozenset(doc_ids)) for question, doc_ids in columns]
    for doc_id in sorted(frozenset[str]().union(*(doc_ids for _, doc_ids in named))):
        for question, doc_ids in named:
            if doc_id in doc_ids:
                yield replace(
                    question,
                    query_id=cell_id(question.query_id, doc_id),
                    doc_ids=(doc_id,),
                    evidence=tuple(each for each in question.evidence if each.startswith(f"{doc_id}:")),
                    where="",
                    for_each=(),
                    asked_id=question.query_id,
                )
