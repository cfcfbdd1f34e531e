"""Choose the documents to ask for a question over many documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.answering.workflows.documents_rules import options_of, years_of
from okralong.pipelines.answering.workflows.documents_task import DocumentsTask
from okralong.pipelines.core.types import QuestionError


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents to ask.

    Attributes:
        labels: The document's name in the answer, by doc_id: one of the question's options, or else the doc_id.
        task: The task found by the rules, or None if no rule matches.
    """

    labels: Mapping[str, str]
    task: DocumentsTask | None

    @property
    def doc_ids(self) -> list[str]:
        """The documents in the order of their cells."""
        return sorted(self.labels)


async def scope_of(question: str, task: DocumentsTask | None, tools: Tools) -> Scope:
    """Return the documents that the question names as options ("..., Alder or Birch?"), or else its whole scope.

    Raises:
        QuestionError: There are more documents than the policy allows for one question.
    """
    years = years_of(question)
    options = options_of(question) or (task.options if task is not None else ())
    found: dict[str, str] = {}
    for option in options:
        shares = tools.named(" ".join([option, *years]))
        best = [doc_id for doc_id, share in shares.items() if share == max(shares.values())]
        if len(best) == 1:
            found.setdefault(best[0], option)
    if options and len(found) == len(options):
        return Scope(found, task)
    most = tools.policy.over_documents.most
    if tools.scope_size > most:
        raise QuestionError(
            f"The question would be asked of {tools.scope_size:,} documents one by one, with at least one call each; "
            f"the policy allows {most:,} (over_documents.most). A question without documents is asked of the whole "
            "archive: list the documents in doc_ids, filter them with where, or raise over_documents.most. Nothing was "
            "asked."
        )
    return Scope({doc_id: doc_id for doc_id, _ in await tools.documents()}, task)
