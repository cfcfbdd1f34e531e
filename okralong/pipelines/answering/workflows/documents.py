"""The workflow "documents": each document is asked separately, and code or the generator combines the values.

1. The generator writes, once, what to ask each document and what to do with the values (``documents_task``).
2. A table with one column and a row per document is filled; each cell is answered by the ordinary plan.
3. Code carries out one of a fixed set of operations (``table_operations``), or the generator answers from the table,
   never from all passages.
4. The answer cites the sources of its cells, and names the documents that gave no value.

Before the first call, the budget reserves the number of documents times the bound of a cell. The workflow is not in the
paper, whose workflow "split" is for a handful of sub-questions.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Final, get_args

from okralong.pipelines.answering.answer_types import AnswerType, value_read
from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.citations import ask_for
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.context import prompt_fits
from okralong.pipelines.answering.cost_model import PROMPT_OVERHEAD, most_of, plan_bound
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.answering.workflows.documents_rules import task_by_rules
from okralong.pipelines.answering.workflows.documents_task import ROLE, DocumentsTask, read_task, task_prompt
from okralong.pipelines.answering.workflows.scope import Scope, scope_of
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    Analysis,
    Answer,
    Citation,
    Passage,
    Plan,
    QuestionError,
    QuestionType,
    ReplyError,
    TypedValue,
    Usage,
)
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.config import ANALYZE
from okralong.pipelines.statements.choice import with_unit
from okralong.pipelines.statements.table_operations import AMOUNTS, Cell, Outcome, Refused, carry_out, written

ROW_TOKENS: Final = 200  # project default
"""The most tokens of a table row in the generator's prompt, including what is put around it."""
STATED_TOKENS: Final = 1000  # project default, for 1,500 characters
"""The most tokens of a row or sentence that code finds, with the lines around it."""
QUOTED: Final = 400  # project default
"""The most characters of a cell's source that are shown with its value."""

AnswerCell = Callable[[str, Tools], Awaitable[Answer]]
"""The method that answers one cell: a function of a module, since it is sent to other processes."""


def as_documents_plan(plan: Plan, tools: Tools, documents: int, precise: bool = False) -> Plan:
    """Return ``plan`` with the workflow "documents" and its bound in tokens.

    Args:
        plan: The plan for the question's type.
        tools: The tools of the question.
        documents: How many documents will be asked.
        precise: Whether the full text may be read after "unanswerable".
    """
    most = table_bound(tools, documents)
    if precise:
        most += Usage(tools.window, 0, tools.completion_limit("full_text"))
    reason = (
        f"{counted(documents, 'document')}, each asked by itself, then what is done with their values → at most "
        f"{most.prompt_tokens:,} prompt tokens"
    )
    return replace(plan, workflow="documents", max_sub_questions=documents, most=most, reasons=(*plan.reasons, reason))


def table_bound(tools: Tools, documents: int) -> Usage:
    """Return the most tokens that the task, the cells and the answer can use."""
    policy = tools.policy
    cell = _cell_bound(policy, tools)
    cells = Usage(documents * cell.prompt_tokens, 0, documents * cell.completion_tokens)
    return cells + most_of(tools, [(ROLE, 0), ("generate", documents * ROW_TOKENS)])


def _cell_bound(policy: Policy, tools: Tools) -> Usage:
    """Return the most tokens that one cell can use, whatever its analysis is, including those of the analysis."""
    analyses = [
        Analysis(kind, "same", evidence, {kind: 1.0}, {"same": 1.0}, float(evidence), "expected")
        for kind in get_args(QuestionType)
        for evidence in (True, False)
    ]
    plans = [organize(each, policy, precise=False) for each in analyses]
    window, limit = tools.window, tools.completion_limit
    bounds = [plan_bound(plan, window, limit, typed=True) for plan in plans]
    primary = policy.primary.count * policy.primary.granularity + PROMPT_OVERHEAD
    most = Usage(max(each.prompt_tokens for each in bounds), 0, max(each.completion_tokens for each in bounds))
    return most + Usage(primary + policy.over_documents.rows * STATED_TOKENS, 0, tools.completion_limit(ANALYZE))


async def ask_each_document(ask: Ask, answer_cell: AnswerCell) -> Answer:
    """Ask each document of the scope, and answer from their values.

    Steps: ``task`` (and ``task/repair``) if the generator writes the task, those of the cells below ``cells/1``,
    ``cells/2`` and so on, ``table``, and ``generate`` if the generator answers from the table.
    """
    scope = ask.scope or await scope_of(ask.question, task_by_rules(ask.question), ask.tools)
    task = await _task(ask, scope)
    branches = [
        Branch(
            f"cells/{number}",
            fill_cell,
            {"question": task.ask, "answer_cell": answer_cell},
            doc_ids=(doc_id,),
            answer_type=task.answer_type,
        )
        for number, doc_id in enumerate(scope.doc_ids, start=1)
    ]
    answers: list[Answer] = await ask.tools.gather(branches)
    kind = AnswerType.of(task.answer_type).kind
    table = [
        Cell(scope.labels[doc_id], kind, _value_of(answer))
        for doc_id, answer in zip(scope.doc_ids, answers, strict=True)
    ]
    await _remember(ask.tools, task, table)
    context = tuple(dict.fromkeys(passage for answer in answers for passage in answer.context))
    if not any(each.value for each in table):
        return Answer("unanswerable", UNANSWERABLE, context=context, way="documents")
    if task.operation is None:
        return replace(await _from_table(ask, table, answers), context=context, way="documents")
    try:
        outcome = carry_out(task.operation, table)
    except Refused as refused:
        return _refused(str(refused), table, answers, context)
    return _worked_out(outcome, answers, context)


async def fill_cell(tools: Tools, question: str, answer_cell: AnswerCell) -> Answer:
    """Return one document's answer with its value and confidence.

    If it fails, the answer has the status "failed", so that no cell stops the others.
    """
    try:
        found = await answer_cell(question, tools)
    except (QuestionError, ReplyError) as error:
        return Answer("failed", "", error=str(error))
    wanted = AnswerType.of(tools.answer_type)
    shown = found.context
    found = await value_read(question, wanted, found)
    if wanted.kind in AMOUNTS and not wanted.many and shown:
        document = await tools.full_text(shown[0].doc_id)
        found = await off_loop(len(document.text), partial(with_unit, found, document))
    return await with_confidence(tools, question, found)


async def _task(ask: Ask, scope: Scope) -> DocumentsTask:
    """Return the task that the generator writes, else that of the rules, else one that asks the question itself.

    If the run answers with its cross-encoder, the generator is not called.
    """
    otherwise = scope.task or DocumentsTask(ask.question, "", None)
    messages = task_prompt(ask.question, len(scope.doc_ids))
    if ask.tools.reads_answers or not prompt_fits(messages, ROLE, ask.tools):
        return otherwise
    try:
        return await ask_for(ask.tools, ROLE, "task", messages, read_task)
    except ReplyError:  # NobodyAsked is a ReplyError, too
        return otherwise


def _value_of(answer: Answer) -> TypedValue | None:
    if answer.status != "answered":
        return None
    return answer.value or (TypedValue(answer.answer) if answer.answer else None)


async def _remember(tools: Tools, task: DocumentsTask, table: Sequence[Cell]) -> None:
    async def rows() -> list[list[str]]:
        return [[each.label, written(each.value) if each.value else ""] for each in table]

    operation = None if task.operation is None else asdict(task.operation)
    await tools.remember("table", {"ask": task.ask, "answer_type": task.answer_type, "operation": operation}, rows)


# --------
# From the table to the answer.


def _worked_out(outcome: Outcome, answers: Sequence[Answer], context: tuple[Passage, ...]) -> Answer:
    said = [answers[place].confidence for place in outcome.used]
    known = [each for each in said if each is not None]
    return Answer(
        "answered",
        _with_missing(outcome.text, outcome.without),
        _citations(answers, outcome.used),
        context=context,
        confidence=math.prod(known) if known and len(known) == len(said) else None,  # all must be right
        value=outcome.value,
        replied_by=_replied(answers, outcome.used),
        way="documents",
    )


def _refused(why: str, table: Sequence[Cell], answers: Sequence[Answer], context: tuple[Passage, ...]) -> Answer:
    """Return an answer with the values as they are, and the reason why the operation was not carried out."""
    listed = "; ".join(f"{each.label}: {written(each.value)}" for each in table if each.value)
    without = tuple(each.label for each in table if each.value is None)
    places = [place for place, each in enumerate(table) if each.value]
    text = _with_missing(f"{why} The values: {listed}", without)
    cited, by = _citations(answers, places), _replied(answers, places)
    return Answer("answered", text, cited, context=context, error=why, replied_by=by, way="documents")


def _with_missing(text: str, without: Sequence[str]) -> str:
    return f"{text} (no value found: {', '.join(without)})" if without else text


def _replied(answers: Sequence[Answer], places: Sequence[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for place in places for name in answers[place].replied_by))


def _citations(answers: Sequence[Answer], places: Sequence[int]) -> tuple[Citation, ...]:
    return tuple(dict.fromkeys(each for place in places for each in answers[place].citations))


async def _from_table(ask: Ask, table: Sequence[Cell], answers: Sequence[Answer]) -> Answer:
    """Return the generator's answer from the table, whose rows are passages; citing a row cites the cell's source."""
    rows: list[Passage] = []
    sources: dict[int, Passage] = {}
    for each, answer in zip(table, answers, strict=True):
        if each.value is None:
            continue
        source = answer.citations[0] if answer.citations else None
        quoted = f"\n{source.quote[:QUOTED]}" if source else ""
        text = f"{each.label}: {written(each.value)}{quoted}"
        row = Passage(each.label, len(rows), len(rows) + len(text), text, count_tokens(text), 1.0)
        if source is not None:
            sources[len(rows)] = Passage(
                source.doc_id, source.start_char, source.end_char, source.quote, count_tokens(source.quote), 1.0
            )
        rows.append(row)

    def cite_in(shown: Sequence[Passage]) -> list[Passage]:
        return [sources.get(row.start_char, replace(row, text="")) for row in shown]

    found = await generate(ask.tools, "generate", ask.question, rows, cite_in=cite_in)
    without = [each.label for each in table if each.value is None]
    return replace(found, answer=_with_missing(found.answer, without)) if found.status == "answered" else found


def fits_type(answer: Answer, answer_type: str) -> Answer:
    """Remove the computed number from ``answer`` if the question asks for text or for another kind of value.

    The value is then read from the answer's words, as for any answer.
    """
    wanted = AnswerType.of(answer_type)
    over_documents = answer.plan is not None and answer.plan.workflow == "documents"
    if not over_documents or answer.value is None or answer.value.number is None:
        return answer
    return answer if wanted.kind in AMOUNTS and not wanted.many else replace(answer, value=None)
