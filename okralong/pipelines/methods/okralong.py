"""The method itself: retrieve a little, analyse, plan, and follow the plan (paper section 3).

In precise mode the full text is read when the retrieved passages do not hold the answer. Where the policy says so, an
answer that is not trusted is asked for again, of a stronger generator or from the full text (``escalate``; ours).
"""

from __future__ import annotations

from dataclasses import replace

from okralong.pipelines.answering.answer_types import AMOUNTS, TEXT, AnswerType, value_read
from okralong.pipelines.answering.bridge_questions import read_bridge
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.context import merge, process_context
from okralong.pipelines.answering.documents_task import task_by_rules
from okralong.pipelines.answering.generate import ROLE as FULL_TEXT
from okralong.pipelines.answering.generate import answer_from_full_text, generate
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.over_documents import answer_over_documents, as_documents_plan, fits_type, scope_of
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.reading import (
    read_answer,
    read_comparison,
    read_sentence,
)
from okralong.pipelines.answering.retrieve import (
    line_item_retrieval,
    pool,
    primary_retrieval,
    reason_in_steps,
    split_retrieval,
)
from okralong.pipelines.answering.statement_reading import line_item_rows, read_calculation, read_cell, read_statement
from okralong.pipelines.answering.tools import ESCALATED, Tools
from okralong.pipelines.core.types import Analysis, Answer, Passage, Plan, Question, QuestionError, ReplyError
from okralong.pipelines.methods.needs import Needs
from okralong.pipelines.statements.line_items import line_item_queries


def needs(policy: Policy) -> Needs:
    """Return what the method needs of a run."""
    precise = policy.escalate is not None and policy.escalate.to == "precise"
    return needs_precisely(policy) if precise else _needs(policy, ())


def needs_precisely(policy: Policy) -> Needs:
    """Return what the method needs in precise mode."""
    return _needs(policy, (policy.full_text.fallback_granularity,))


def _needs(policy: Policy, sizes: tuple[int, ...]) -> Needs:
    return Needs(
        granularities=(*policy.granularities(), *sizes),
        reranker=policy.needs_reranker,
        escalates=policy.escalate is not None,
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer by the plan; "unanswerable" is an answer."""
    return fits_type(await orchestrate(question.question, tools, precise=False), question.answer_type)


async def answer_precisely(question: Question, tools: Tools) -> Answer:
    """Answer by the plan, then from the full text if the reply is "unanswerable": ``okralong_precise``."""
    return fits_type(await orchestrate(question.question, tools, precise=True), question.answer_type)


async def orchestrate_cell(question: str, tools: Tools) -> Answer:
    """One document's answer in a table over many: by the ordinary plan, of an amount from as much as the policy
    says (``over_documents.count`` and ``rows``), and asked of nobody again.
    """
    return await orchestrate(question, tools, precise=False, cell=True)


async def orchestrate(question: str, tools: Tools, *, precise: bool, cell: bool = False) -> Answer:
    """Primary retrieval, analysis, plan, execution; ``precise`` reads the full text after "unanswerable". The answer to
    a ``cell`` of a table stands though it is not trusted.

    Steps: ``primary/retrieve``, ``analyze``, ``plan``, then those of the workflow, and where the policy escalates
    ``check`` and those below ``escalated``.
    """
    primary, scores = await primary_retrieval(tools, "primary/retrieve", question)
    analysis = await tools.analyze("analyze", question, primary, scores) if primary else None
    organized = organize(analysis, tools.policy, precise=precise)
    if cell:
        organized = _cell_plan(replace(organized, escalate_to=None), tools)
    if _is_over_documents(question, analysis, tools):
        organized = as_documents_plan(organized, tools, len((await scope_of(question, tools)).doc_ids), precise)
    items = _line_items(question, analysis, organized, tools.policy)
    if items:
        told = f"it names a metric that is worked out from others → {len(items)} more look-ups, one for each line item"
        organized = replace(organized, reasons=(*organized.reasons, told))
    plan = await tools.record_plan("plan", organized)
    found, whole = await _follow(question, analysis, plan, tools, cell)
    if plan.escalate_to is not None:
        found = await with_confidence(tools, question, replace(found, analysis=analysis))
        trusted = found.confidence is None or found.confidence >= plan.escalate_under
        trusted = trusted and found.status != "invalid_output"
        if not trusted and not (whole and plan.escalate_to == "precise"):
            found = await _escalate(question, analysis, plan, tools, found)
    return replace(found, analysis=analysis, plan=plan)


def _cell_plan(plan: Plan, tools: Tools) -> Plan:
    """``plan`` with the chunks that a cell of amounts may show."""
    most, wanted = tools.policy.over_documents.count, AnswerType.of(tools.answer_type)
    if most is None or most >= plan.count or wanted.kind not in AMOUNTS or wanted.many:
        return plan
    return replace(plan, count=most, reasons=(*plan.reasons, f"one document is asked for an amount → {most} chunks"))


async def _escalate(question: str, analysis: Analysis | None, plan: Plan, tools: Tools, first: Answer) -> Answer:
    """The answer that is asked for again, whatever it is; ``first`` where its reply is of no use."""
    try:
        if plan.escalate_to == "precise":
            by, again = "precise", await answer_from_full_text(tools, question, f"{ESCALATED}/{FULL_TEXT}")
        else:
            stronger = tools.stronger
            by, (again, _) = stronger.generator, await _follow(question, analysis, plan, stronger)
    except (QuestionError, ReplyError):  # CallFailed is neither: then the question fails, to be asked again
        return first
    again = await with_confidence(tools, question, replace(again, analysis=analysis), f"{ESCALATED}/check")
    return replace(again, escalated=by, first_confidence=first.confidence)


async def _follow(
    question: str, analysis: Analysis | None, plan: Plan, tools: Tools, cell: bool = False
) -> tuple[Answer, bool]:
    """What the plan's workflow finds, in precise mode from the full text after "unanswerable"; and whether that was
    read.
    """
    found = await _execute(question, analysis, plan, tools, cell)
    if plan.escalate and found.status == "unanswerable":
        return await answer_from_full_text(tools, question), True
    return found, False


def _is_over_documents(question: str, analysis: Analysis | None, tools: Tools) -> bool:
    """Whether each document is asked by itself: of a question of the policy's types over so many documents, where the
    rules read what is asked of each. What they do not read would cost a call for each document on a guess.
    """
    policy = tools.policy.over_documents
    if policy.more_than is None or analysis is None or analysis.type not in policy.types:
        return False
    return policy.more_than < tools.scope_size <= policy.most and task_by_rules(question) is not None


def _line_items(question: str, analysis: Analysis | None, plan: Plan, policy: Policy) -> list[str]:
    """What is looked up beside the question: only where it is looked up once, and of a type that the policy names."""
    asked = analysis is not None and analysis.type in policy.line_items.types
    return line_item_queries(question) if asked and plan.workflow in ("linear", "extend") else []


async def _rows(tools: Tools, question: str, analysis: Analysis | None, plan: Plan, most: int) -> list[Passage]:
    """The rows of line items that stand in the place of chunks, ``most`` of them. They are a part of a table each, so
    only where the plan shows whole tables, and none longer than such a one: a plan's reserve counts on no more.
    """
    policy = tools.policy
    if analysis is None or analysis.type not in policy.line_items.rows or not plan.recover_tables:
        return []
    rows = await line_item_rows(tools, question)
    return [row for row in rows if row.n_tokens <= policy.context.table_tokens][: max(0, most)]


async def _typed(question: str, tools: Tools, read: Answer | None) -> Answer | None:
    """What was read with the value that the question's answer type asks for; None where there is none."""
    typed = None if read is None else await value_read(Question("", question, answer_type=tools.answer_type), read)
    return None if typed is None or typed.status == "invalid_output" else typed


def _read(tools: Tools, found: Answer | None) -> Answer | None:
    """What was read off passages, by the cross-encoder where nobody else is named."""
    return None if found is None else replace(found, replied_by=found.replied_by or (tools.cross_encoder,))


async def _execute(question: str, analysis: Analysis | None, plan: Plan, tools: Tools, cell: bool) -> Answer:
    wanted = AnswerType.of(tools.answer_type)
    reads = tools.reads_answers and analysis is not None and analysis.type in tools.policy.read.types
    if plan.workflow == "documents":
        return await answer_over_documents(question, tools, await scope_of(question, tools), orchestrate_cell)
    if tools.reads_answers and wanted != TEXT:
        stated = await read_statement(tools, question, wanted)
        if stated is not None:
            return stated
    if tools.reads_answers and tools.policy.read.calculations:
        worked = await read_calculation(tools, question)
        if (typed := await _typed(question, tools, worked)) is not None:
            return typed
    if plan.workflow == "step":
        read = _read(tools, await read_bridge(tools, question, plan)) if reads else None
        return await _typed(question, tools, read) or await reason_in_steps(tools, question, plan)
    if plan.workflow == "split":
        finds = await split_retrieval(tools, question, plan)
        compared = _read(tools, await read_comparison(tools, "compare", question, finds)) if reads else None
        if (typed := await _typed(question, tools, compared)) is not None:
            return typed
        # In turns, so that each sub-question keeps its evidence.
        hits = pool([found for _, found in finds])
    else:
        # Linear and extend are one way: the plan's extension_tokens make the difference.
        items = _line_items(question, analysis, plan, tools.policy)
        hits = await line_item_retrieval(tools, question, items, plan)
        if reads and not items and wanted != TEXT:
            typed_answer = _read(tools, await read_cell(tools, question, hits, wanted))
            if typed_answer is not None:
                return typed_answer
        elif reads and not items:
            by = read_sentence if analysis is not None and analysis.type == "abstractive" else read_answer
            read = await by(tools, "read", question, hits)
            return replace(read, replied_by=(tools.cross_encoder,))
    rows = [] if cell else await _rows(tools, question, analysis, plan, len(hits) - 1)
    passages = await process_context(hits[: len(hits) - len(rows)], plan, tools)
    if rows:
        passages = merge([*rows, *passages])
    if cell and tools.policy.over_documents.rows and (row := await read_statement(tools, question, wanted)) is not None:
        passages = merge([*row.context, *passages])
    return await generate(tools, "generate", question, passages, hits)
