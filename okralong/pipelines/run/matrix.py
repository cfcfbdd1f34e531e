"""Matrices: the rows are documents, the columns are questions that are asked about each document separately.

A question with ``for_each`` (in a questions file also ``doc_ids: each``) becomes one cell per document. Each cell is
planned, estimated, capped, resumed and cited like any other question. A columns file is a questions file in YAML that
has only such questions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Self

from pydantic import Field, field_validator, model_validator

from okralong.pipelines.answering.answer_types import AMOUNTS, read_answer_type
from okralong.pipelines.core.config import Settings, load_config, parse_config
from okralong.pipelines.core.types import Question, QuestionError
from okralong.pipelines.statements.checks import Rule, RuleError, parse_rule, quoted

EACH: Final = "each"
"""The value of ``doc_ids`` that asks the question about each document separately."""
EVERY: Final = ("*",)


class Column(Settings):
    """A column of a matrix.

    - ``name``: the heading, and the query_id of the question.
    - ``question``: the question about every document.
    - ``answer_type``, ``choices``: the kind of each value, as in any questions file; text by default.
    """

    name: Annotated[str, Field(min_length=1)]
    question: Annotated[str, Field(min_length=1)]
    answer_type: str | dict[str, Any] | None = None
    choices: list[str] = Field(default_factory=list)

    @property
    def kind(self) -> str:
        """The kind of its type ("money"), or the type as written if it cannot be used."""
        try:
            found = read_answer_type(self.answer_type, self.choices, lambda _: "{}")
        except QuestionError:
            return str(self.answer_type)
        return f"list of {found.kind}" if found.many else found.kind

    @field_validator("name", "question")
    @classmethod
    def _words(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("it is blank. Fill it in, or delete the column")
        return value.strip()


class Columns(Settings):
    """A columns file.

    - ``documents``: ids or patterns of the documents to ask; all by default.
    - ``where``: a filter over their metadata, which narrows the selection.
    - ``columns``: the questions, in order.
    - ``checks``: rules that the values of a row, or of a column, must satisfy (``statements/checks.py``).
    - ``shipped_checks``: whether the rules and concepts of ``configs/checks.yaml`` apply to columns with the names of
      line items.
    - ``company_facts``: a folder with company-facts files of the SEC (``CIK0000320193.json``), relative to this file.
    - ``company_facts_by``: the metadata column with a document's CIK.
    """

    documents: list[str] = Field(default_factory=lambda: list(EVERY), min_length=1)
    where: str = ""
    columns: list[Column] = Field(min_length=1)
    checks: list[str] = Field(default_factory=list)
    shipped_checks: bool = True
    company_facts: str = ""
    company_facts_by: Annotated[str, Field(pattern=r"^[\w.]+$")] = "cik"

    @field_validator("documents", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("company_facts")
    @classmethod
    def _can_be_quoted(cls, value: str) -> str:
        if "'" in value:
            raise ValueError("it has a quotation mark, which rules cannot name. Rename the folder")
        return value.strip()

    @field_validator("columns")
    @classmethod
    def _named_once(cls, value: list[Column]) -> list[Column]:
        seen: dict[str, int] = {}
        for number, column in enumerate(value, start=1):
            first = seen.setdefault(column.name.casefold(), number)
            if first != number:
                raise ValueError(
                    f"columns {first} and {number} are both named {column.name!r} (names are not "
                    "case-sensitive). Give each a unique name"
                )
        return value

    @model_validator(mode="after")
    def _rules_fit(self) -> Self:
        types = {column.name: column.kind for column in self.columns}
        for text in self.checks:
            try:
                rule = parse_rule(text, types)
            except RuleError as error:
                raise ValueError(f"the check {text!r} cannot be used: {error}") from None
            for name in rule.columns:
                if types[name] not in AMOUNTS:
                    raise ValueError(
                        f"the check {text!r} cannot be used: the column {name!r} has the answer_type "
                        f"{types[name]}. Give it {', '.join(AMOUNTS)}, or leave it out of the check"
                    )
        return self

    def rules(self, resolved: Callable[[str], str] = str) -> list[str]:
        """Return the file's rules, then the shipped ones over its columns, with the names of the columns.

        ``resolved`` makes the path of a folder of company-facts files absolute.
        """
        shipped = load_config(ShippedChecks, "checks.yaml") if self.shipped_checks else ShippedChecks()
        amounts = [column.name for column in self.columns if column.kind in AMOUNTS]
        mine = [self._with_folder(parse_rule(text, self._names), resolved) for text in self.checks]
        tagged = {rule.columns[0] for rule in mine if rule.kind == "tagged"}
        shipped_ones = (self._with_folder(parse_rule(text, amounts), resolved) for text in shipped.over(amounts))
        others = [rule for rule in shipped_ones if rule.kind != "tagged" or rule.columns[0] not in tagged]
        return list(dict.fromkeys(rule.text for rule in (*mine, *others)))

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.columns]

    def _with_folder(self, rule: Rule, resolved: Callable[[str], str]) -> Rule:
        folder = rule.folder or self.company_facts
        if rule.kind != "tagged" or not folder:
            return rule
        said, by = rule.text.partition(" in '")[0], rule.by or self.company_facts_by
        return parse_rule(f"{said} in '{resolved(folder)}' by {by}", self._names)


class ShippedChecks(Settings):
    """Rules over names of line items.

    ``names`` has other names of each item, ``rules`` use the first ones; ``concepts`` has its concepts in XBRL.
    """

    names: dict[str, list[str]] = Field(default_factory=dict)
    rules: list[str] = Field(default_factory=list)
    concepts: dict[str, list[str]] = Field(default_factory=dict)

    def over(self, columns: Sequence[str]) -> Iterator[str]:
        """Yield the rules all of whose items are among ``columns``, with the columns in place of the items."""
        plain = {re.sub(r"\W+", "_", each.casefold()).strip("_"): each for each in columns if "'" not in each}
        items = {
            item: plain[named[0]]
            for item, others in self.names.items()
            if (named := [name for name in (item, *others) if name in plain])
        }
        for rule in self.rules:
            needed = parse_rule(rule, self.names).columns
            if all(item in items for item in needed):
                yield re.sub(r"\b(" + "|".join(needed) + r")\b", lambda found: quoted(items[found[1]]), rule)
        for item, column in items.items():
            if concepts := self.concepts.get(item):
                yield f"{quoted(column)} tagged {', '.join(concepts)}"


def column_rows(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the columns of a columns file as question rows, each with its place for messages. Raises ConfigError."""
    read = parse_config(Columns, text, name)
    for column in read.columns:
        said = column.model_dump(exclude_defaults=True)
        row = {"query_id": said.pop("name"), "for_each": list(read.documents), "where": read.where, **said}
        yield f"{name}, column {column.name}", row


@dataclass(frozen=True)
class MatrixRows:
    """The documents that ``okralong matrix`` names on the command line: ids or patterns, and a filter.

    If either is empty, the question's own is used; a question that names no documents is asked about all.
    """

    documents: tuple[str, ...] = ()
    where: str = ""

    def column(self, question: Question) -> Question:
        """Return the question as a column. Raises QuestionError if it has ``doc_ids``, which mean a single answer."""
        if question.doc_ids:
            raise QuestionError(
                f"The question {question.query_id!r} names documents in doc_ids, for one answer over all of "
                "them, but a matrix asks every column of each document separately. Move them to "
                "for_each, or ask the question with okralong answer."
            )
        return replace(
            question,
            for_each=self.documents or question.for_each or EVERY,
            where=self.where or question.where,
        )


def cell_id(asked_id: str, doc_id: str) -> str:
    """Return the query_id of a cell."""
    return f"{asked_id}@{doc_id}"


def cells(columns: Sequence[tuple[Question, Collection[str]]]) -> Iterator[Question]:
    """Yield the cells of ``columns``: questions, each with its documents.

    Cells are sorted by document, then by question, so that a run that stops early leaves complete rows. Gold evidence
    is assigned to the cell of its document.
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
