"""The OkraLong method: retrieve a little, analyze, plan, and follow the plan (paper section 3).

In precise mode the full text is read if the retrieved passages do not contain the answer. With the policy's
``escalate``, an answer below a confidence threshold is retried with a stronger generator or the full text (not in the
paper).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from okralong.pipelines.answering.answer_kinds import refused_if_other
from okralong.pipelines.answering.answer_types import AMOUNTS, TEXT, AnswerType
from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.context import merge, process_context
from okralong.pipelines.answering.generate import ROLE as FULL_TEXT
from okralong.pipelines.answering.generate import answer_from_full_text, generate
from okralong.pipelines.answering.instructions import instructed, with_default
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import FALLBACK_GRANULARITY, Policy
from okralong.pipelines.answering.readers.bridge import Bridge
from okralong.pipelines.answering.readers.calculation import Calculation
from okralong.pipelines.answering.readers.cell import Cell
from okralong.pipelines.answering.readers.comparison import Comparison
from okralong.pipelines.answering.readers.named import needed_rows
from okralong.pipelines.answering.readers.quoted import Quoted
from okralong.pipelines.answering.readers.reader import Reader, first_reading
from okralong.pipelines.answering.readers.span import Span
from okralong.pipelines.answering.readers.statement import Statement, read_statement
from okralong.pipelines.answering.retrieve import pool, primary_retrieval, within_tokens
from okralong.pipelines.answering.signals import retrieval_signals
from okralong.pipelines.answering.tools import ESCALATED, Tools
from okralong.pipelines.answering.workflows.documents import as_documents_plan, ask_each_document, fits_type
from okralong.pipelines.answering.workflows.documents_rules import task_by_rules
from okralong.pipelines.answering.workflows.linear import retrieve_once
from okralong.pipelines.answering.workflows.scope import Scope, scope_of
from okralong.pipelines.answering.workflows.split import retrieve_for_parts
from okralong.pipelines.answering.workflows.step import reason_in_steps
from okralong.pipelines.core.types import (
    Analysis,
    Answer,
    Hit,
    Passage,
    Plan,
    Question,
    QuestionError,
    ReplyError,
    Workflow,
)
from okralong.pipelines.core.wording import counted
from okralong.pipelines.methods.needs import Needs


async def orchestrate(question: str, tools: Tools, *, precise: bool, cell: bool = False) -> Answer:
    """Analyze the question, plan, follow the plan, and escalate answers of low confidence.

    Steps: ``primary/retrieve``, ``analyze``, ``plan``, then those of the workflow. If the policy escalates, also
    ``check`` and steps below ``escalated``.

    Args:
        question: The question's text.
        tools: The tools of this question.
        precise: Whether to read the full text after "unanswerable".
        cell: Whether this is the answer for one document in a table over many, which is never escalated.
    """
    primary, scores = await primary_retrieval(tools, "primary/retrieve", question)
    analysis = await tools.analyze("analyze", question, primary, scores) if primary else None
    scope = await _scope(question, analysis, tools)
    plan = organize(analysis, tools.policy, precise=precise, language=tools.language)
    if cell:
        plan = _cell_plan(plan, tools)
    if scope is not None:
        plan = as_documents_plan(plan, tools, len(scope.doc_ids), precise)
    plan = await tools.record_plan("plan", plan)
    ask = Ask(question, tools, plan, analysis, cell, scope, scores)
    found = await _escalate(ask, *await _follow(ask))
    return replace(found, analysis=analysis, plan=found.plan or plan)


async def orchestrate_cell(question: str, tools: Tools) -> Answer:
    """Answer a question from one document, as a cell of a table over many documents."""
    return await orchestrate(question, tools, precise=False, cell=True)


WORKFLOWS: Final[Mapping[Workflow, Callable[[Ask], Awaitable[Finds | Answer]]]] = {
    "linear": retrieve_once,
    "extend": retrieve_once,
    "split": retrieve_for_parts,
    "step": reason_in_steps,
    "documents": partial(ask_each_document, answer_cell=orchestrate_cell),
}
"""Workflows by name. A workflow returns either retrieved chunks or an answer."""

READERS: Final[Sequence[Reader]] = (Statement(), Calculation(), Bridge(), Comparison(), Cell(), Span(), Quoted())
"""The readers, in the order in which they are tried. One whose ``fits`` returns False is skipped."""


async def _execute(ask: Ask) -> Answer:
    """Follow the plan: readers that need no retrieval, the workflow, the other readers, finally the generator."""
    read = await first_reading(READERS, "before", ask)
    if read is not None:
        return read
    return replace(await _retrieve_and_answer(ask), plan=ask.plan)


async def _retrieve_and_answer(ask: Ask) -> Answer:
    found = await WORKFLOWS[ask.plan.workflow](ask)
    if isinstance(found, Answer):
        return found
    return await first_reading(READERS, "after", ask, found) or await _generate(ask, found)


async def _generate(ask: Ask, finds: Finds) -> Answer:
    """Generate the answer from the retrieved chunks. Rows of tables replace the last chunks."""
    hits = pool([found for _, found in finds])  # sub-questions take turns, so that each keeps its evidence
    rows = await _table_rows(ask, hits)
    size = sum(row.n_tokens for row in rows)
    chunks = hits if ask.cell else within_tokens(hits, sum(hit.chunk.n_tokens for hit in hits) - size)
    passages = await process_context(chunks, ask.plan, ask.tools)
    if ask.cell:
        passages = merge([*rows, *passages]) if rows else passages
    elif rows:
        passages = [*rows, *passages]
    return _of_kind(ask, await generate(ask.tools, "generate", ask.question, passages, hits))


def _of_kind(ask: Ask, found: Answer) -> Answer:
    """Refuse a reply of the embedded generator that is not of the kind asked for.

    An endpoint's reply is kept: it is paid for, and a larger model errs less often than the rules for kinds, which
    contradict 0.7 % of gold answers.
    """
    return refused_if_other(ask.question, found) if ask.wanted == TEXT and ask.tools.reads_answers else found


async def _table_rows(ask: Ask, hits: Sequence[Hit]) -> list[Passage]:
    """Return the rows of tables to show in addition to the chunks.

    For a cell, this is the row of its amount. For other questions, these are the rows that they need, but only if the
    plan recovers tables. They have at most ``ROWS_SHARE`` of the chunks' tokens: the plan's reserve covers them.
    """
    policy = ask.tools.policy
    if ask.cell:
        # If ``reads_answers``, the reader ``Statement`` has already searched the document.
        stated = None if ask.tools.reads_answers or not policy.over_documents.rows else await read_statement(ask)
        return [] if stated is None else list(stated.context)
    if not ask.is_one_of(policy.line_items.rows) or not ask.plan.recover_tables or len(hits) < 2:
        return []
    return await needed_rows(ask, round(ROWS_SHARE * sum(hit.chunk.n_tokens for hit in hits)))


ROWS_SHARE: Final = 0.4
"""The share of the retrieved tokens that rows of tables may replace. # project default"""


async def _follow(ask: Ask) -> tuple[Answer, bool]:
    """Return the plan's answer, and whether it came from the full text after "unanswerable"."""
    found = await _execute(ask)
    again = ask.plan.escalate and found.status == "unanswerable"
    if again:
        found = _of_kind(ask, await answer_from_full_text(ask.tools, ask.question))
    return _known(ask, found), again


def _known(ask: Ask, found: Answer) -> Answer:
    """Return the answer with what analysis and primary retrieval say about the question."""
    return replace(found, analysis=ask.analysis, signals={**retrieval_signals(ask.scores), **found.signals})


async def _escalate(ask: Ask, first: Answer, from_full_text: bool) -> Answer:
    """Return ``first``, or a second answer if the confidence is too low and the second reply is usable."""
    to = ask.plan.escalate_to
    if to is None:
        return first
    first = await with_confidence(ask.tools, ask.question, first)
    # An answer of a generator that the model was not fitted on has no confidence, but its score orders it.
    model = ask.tools.confidence
    sure = model.score(first) if model is not None and first.confidence is None else first.confidence
    confident = sure is None or sure >= ask.plan.escalate_under
    if (confident and first.status != "invalid_output") or (from_full_text and to == "precise"):
        return first
    try:
        if to == "precise":
            again = await answer_from_full_text(ask.tools, ask.question, f"{ESCALATED}/{FULL_TEXT}")
            by, again = "precise", _known(ask, again)
        else:
            stronger = ask.tools.stronger
            plan = first.plan or ask.plan  # with the sections that the first generator chose
            by, (again, _) = stronger.generator, await _follow(replace(ask, tools=stronger, plan=plan))
    except (QuestionError, ReplyError):  # CallFailed is not caught: the question fails, and a rerun asks it again
        return first
    again = replace(again, escalated=by, first_confidence=first.confidence)
    return await with_confidence(ask.tools, ask.question, again, f"{ESCALATED}/check")


async def _scope(question: str, analysis: Analysis | None, tools: Tools) -> Scope | None:
    """Return the documents to ask separately, or None if the question is about all of them together.

    They are asked separately only if the rules recognize the question, since each document costs a call.
    """
    policy = tools.policy.over_documents
    if policy.more_than is None or analysis is None or analysis.type not in policy.types:
        return None
    task = task_by_rules(question) if policy.more_than < tools.scope_size <= policy.most else None
    return None if task is None else await scope_of(question, task, tools)


def _cell_plan(plan: Plan, tools: Tools) -> Plan:
    """Return ``plan`` without escalation; if an amount is wanted, with at most ``over_documents.count`` chunks."""
    plan = replace(plan, escalate_to=None)
    most, wanted = tools.policy.over_documents.count, AnswerType.of(tools.answer_type)
    if most is None or most >= plan.count or wanted.kind not in AMOUNTS or wanted.many:
        return plan
    return replace(
        plan, count=most, reasons=(*plan.reasons, f"one document is asked for an amount → {counted(most, 'chunk')}")
    )


# --------
# The strategies ``okralong`` and ``okralong_precise``.


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer by the plan; "unanswerable" is final."""
    return await _answer(question, tools, precise=False)


async def answer_precisely(question: Question, tools: Tools) -> Answer:
    """Answer by the plan, then from the full text if the reply is "unanswerable": ``okralong_precise``."""
    return await _answer(question, tools, precise=True)


async def _answer(question: Question, tools: Tools, *, precise: bool) -> Answer:
    """Answer what the question asks without its instructions, and follow those: ``instructions.py``."""
    asked = instructed(question.question)
    found = await orchestrate(asked.question, tools, precise=precise)
    if asked.default and found.status == "unanswerable" and tools.reads:
        found = await with_confidence(tools, asked.question, found)  # of there being no evidence
    found = with_default(asked, found, AnswerType.of(question.answer_type).kind)
    return fits_type(found, question.answer_type)


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    precise = policy.escalate is not None and policy.escalate.to == "precise"
    return needs_precisely(policy) if precise else _needs(policy, ())


def needs_precisely(policy: Policy) -> Needs:
    """Return the method's needs in precise mode."""
    return _needs(policy, (FALLBACK_GRANULARITY,))


def _needs(policy: Policy, sizes: tuple[int, ...]) -> Needs:
    return Needs(
        granularities=(*policy.granularities(), *sizes),
        reranker=policy.needs_reranker,
        escalates=policy.escalate is not None,
    )
