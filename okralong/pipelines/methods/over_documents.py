"""Questions over many documents: each document is asked by itself, and the answer is worked out from the table of what
they say. Ours, not in the paper; how it goes stands in ``answering/over_documents.py``.

The method takes the same way where the policy says so (``over_documents.more_than``).
"""

from __future__ import annotations

from dataclasses import replace

from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.over_documents import answer_over_documents, as_documents_plan, fits_type, scope_of
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.needs import Needs
from okralong.pipelines.methods.okralong import orchestrate_cell


def needs(policy: Policy) -> Needs:
    """Return what the method needs of a run; a cell may get any plan."""
    return Needs(granularities=tuple(policy.granularities()), reranker=policy.needs_reranker)


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, then those of ``answer_over_documents``. Raises QuestionError where the documents are more than
    the policy asks for one question.
    """
    scope = await scope_of(question.question, tools)
    size = tools.policy.factoid
    begun = plain_plan(size.granularity_absent, size.count, "every document gives a value")
    plan = await tools.record_plan("plan", as_documents_plan(begun, tools, len(scope.doc_ids)))
    found = await answer_over_documents(question.question, tools, scope, orchestrate_cell)
    return fits_type(replace(found, plan=plan), question.answer_type)
