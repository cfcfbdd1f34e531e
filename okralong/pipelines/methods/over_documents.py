"""Questions over many documents: each is asked separately, and code or the generator combines the values.

Not in the paper. See ``answering/workflows/documents.py``. The method ``okralong`` does the same for questions that the
policy's ``over_documents`` selects.
"""

from __future__ import annotations

from dataclasses import replace

from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.answering.workflows.documents import as_documents_plan, ask_each_document, fits_type
from okralong.pipelines.answering.workflows.documents_rules import task_by_rules
from okralong.pipelines.answering.workflows.scope import scope_of
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.needs import Needs
from okralong.pipelines.methods.okralong import orchestrate_cell


def needs(policy: Policy) -> Needs:
    """Return the method's needs: those of all plans, because a cell may get any plan."""
    return Needs(granularities=tuple(policy.granularities()), reranker=policy.needs_reranker)


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer from the documents' values. Steps: ``plan``, then those of ``ask_each_document``.

    Raises:
        QuestionError: There are more documents than the policy allows for one question.
    """
    asked = question.question
    scope = await scope_of(asked, task_by_rules(asked), tools)
    size = tools.policy.factoid
    begun = plain_plan(size.granularity_absent, size.count, "every document gives a value")
    plan = await tools.record_plan("plan", as_documents_plan(begun, tools, len(scope.doc_ids)))
    found = await ask_each_document(Ask(asked, tools, plan, scope=scope), orchestrate_cell)
    return fits_type(replace(found, plan=plan), question.answer_type)
