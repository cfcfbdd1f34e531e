"""The answer over a table: each document is asked one question by itself, and code or the generator works with what
they say. Ours, not in the paper, whose split takes at most a handful of sub-questions apart.

(1) The generator writes once what each document is asked and what is done with the values (``documents_task``). (2) A
table of one column is filled, each cell by the ordinary plan for its document. (3) A closed operation is carried out by
code (``table_operations``); of any other question the generator answers from the table, never from all passages. (4)
The answer cites what its cells cite, and names the documents that gave no value.

All of it is admitted before the first call: documents times what a cell can take at most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final, get_args

from okralong.pipelines.answering.answer_types import AnswerType, value_read
from okralong.pipelines.answering.citations import ask_for
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.context import prompt_fits
from okralong.pipelines.answering.cost_model import PROMPT_OVERHEAD, most_of, plan_bound
from okralong.pipelines.answering.documents_task import (
    ROLE,
    DocumentsTask,
    options_of,
    read_task,
    task_by_rules,
    task_prompt,
    years_of,
)
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    Analysis,
    Answer,
    Citation,
    Passage,
    Plan,
    Question,
    QuestionError,
    QuestionType,
    ReplyError,
    TypedValue,
    Usage,
)
from okralong.pipelines.llm.config import ANALYZE
from okralong.pipelines.statements.rows import with_heads
from okralong.pipelines.statements.table_operations import AMOUNTS, Cell, Outcome, Refused, carry_out, written

ROW_TOKENS: Final = 200
"""Tokens of one row of the table in the generator's prompt, frame included, at most; ours."""
STATED_TOKENS: Final = 1000
"""Tokens of the row or sentence that code finds, with the lines around it, at most; ours, for 1,500 characters."""
QUOTED: Final = 400
"""Characters of a cell's source that are shown with its value; ours."""

Orchestrate = Callable[..., Awaitable[Answer]]
"""The method, which answers a cell: called as ``orchestrate(question, tools)`` of a document."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The documents that are asked, each with the name that it has in the answer: that of one of the things between
    which the question chooses, or its doc_id.
    """

    labels: Mapping[str, str]

    @property
    def doc_ids(self) -> list[str]:
        """In sorted order, which is that of the cells."""
        return sorted(self.labels)


async def scope_of(question: str, tools: Tools) -> Scope:
    """The documents that the question chooses between, where it names one each ("..., Alder or Birch?"), else all.

    Raises QuestionError where they are more than the policy asks for one question.
    """
    task, years = task_by_rules(question), years_of(question)
    options = options_of(question) or (task.options if task is not None else ())
    found: dict[str, str] = {}
    for option in options:
        shares = tools.named(" ".join([option, *years]))
        best = [doc_id for doc_id, share in shares.items() if share == max(shares.values())]
        if len(best) == 1:
            found.setdefault(best[0], option)
    if options and len(found) == len(options):
        return Scope(found)
    most = tools.policy.over_documents.most
    if tools.scope_size > most:
        raise QuestionError(
            f"The question would be asked of {tools.scope_size:,} documents, each by itself, which is at least as many "
            f"calls; the policy allows {most:,} (over_documents.most). A question that names no documents is asked of "
            "the whole archive: name those that are meant in doc_ids, or by a filter in where, or raise "
            "over_documents.most. Nothing was asked."
        )
    return Scope({doc_id: doc_id for doc_id, _ in await tools.documents()})


def table_bound(tools: Tools, documents: int) -> Usage:
    """The most that the calls for so many documents can use: task, cells, and an answer from the table."""
    policy = tools.policy
    cell = _cell_bound(policy, tools)
    cells = Usage(documents * cell.prompt_tokens, 0, documents * cell.completion_tokens)
    return cells + most_of(tools, [(ROLE, 0), ("generate", documents * ROW_TOKENS)])


def _cell_bound(policy: Policy, tools: Tools) -> Usage:
    """Of one cell, whatever the analyzer says of it and whose answer may be asked for again; the analysis may be the
    generator's.
    """
    analyses = [
        Analysis(kind, "same", evidence, {kind: 1.0}, {"same": 1.0}, float(evidence), "expected")
        for kind in get_args(QuestionType)
        for evidence in (True, False)
    ]
    plans = [organize(each, policy, precise=False) for each in analyses]
    tables, window, limit = policy.context.table_tokens, tools.window, tools.completion_limit
    bounds = [plan_bound(plan, tables, window, limit, typed=True) for plan in plans]
    primary = policy.primary.count * policy.primary.granularity + PROMPT_OVERHEAD
    most = Usage(max(each.prompt_tokens for each in bounds), 0, max(each.completion_tokens for each in bounds))
    return most + Usage(primary + policy.over_documents.rows * STATED_TOKENS, 0, tools.completion_limit(ANALYZE))


def as_documents_plan(plan: Plan, tools: Tools, documents: int, precise: bool = False) -> Plan:
    """``plan`` as one that asks so many documents, with its bound. ``precise``: the full text may be read after it."""
    most = table_bound(tools, documents)
    if precise:
        most += Usage(tools.window, 0, tools.completion_limit("full_text"))
    reason = (
        f"{documents} documents, each asked by itself, then what is done with their values → at most "
        f"{most.prompt_tokens:,} prompt tokens"
    )
    return replace(plan, workflow="documents", max_sub_questions=documents, most=most, reasons=(*plan.reasons, reason))


async def answer_over_documents(question: str, tools: Tools, scope: Scope, orchestrate: Orchestrate) -> Answer:
    """Steps: ``task`` (and ``task/repair``) where the generator writes it, those of each cell below ``cells/1`` onward,
    ``table``, and ``generate`` where it answers from the table.
    """
    task = await _task(question, tools, len(scope.doc_ids))
    branches = [
        Branch(
            f"cells/{number}",
            answer_cell,
            {"question": task.ask, "answer_type": task.answer_type, "orchestrate": orchestrate},
            doc_ids=(doc_id,),
            answer_type=task.answer_type,
        )
        for number, doc_id in enumerate(scope.doc_ids, start=1)
    ]
    answers: list[Answer] = await tools.gather(branches)
    kind = AnswerType.of(task.answer_type).kind
    table = [
        Cell(scope.labels[doc_id], kind, _value_of(answer))
        for doc_id, answer in zip(scope.doc_ids, answers, strict=True)
    ]
    await tools.remember("table", _asked(task), _found(table))
    context = tuple(dict.fromkeys(passage for answer in answers for passage in answer.context))
    if not any(each.value for each in table):
        return Answer("unanswerable", UNANSWERABLE, context=context)
    if task.operation is None:
        found = await _from_table(question, tools, table, answers)
        return replace(found, context=context)
    try:
        outcome = carry_out(task.operation, table)
    except Refused as refused:
        return _refused(str(refused), table, answers, context)
    return _worked_out(outcome, answers, context)


async def answer_cell(tools: Tools, question: str, answer_type: str, orchestrate: Orchestrate) -> Answer:
    """What one document says, by the ordinary plan for it, with its value and its confidence. Never asked again of
    another generator. What cannot be answered has no value: no cell stops the others.
    """
    try:
        found = await orchestrate(question, tools)
    except (QuestionError, ReplyError) as error:
        return Answer("failed", "", error=str(error))
    wanted = AnswerType.of(answer_type)
    if wanted.kind in AMOUNTS and not wanted.many and found.context:
        document = await tools.full_text(found.context[0].doc_id)
        found = await value_read(Question("", question, answer_type=answer_type), found)
        heads = partial(with_heads, question, wanted.kind, found, document)
        found = await off_loop(len(document.text), heads)
    else:
        found = await value_read(Question("", question, answer_type=answer_type), found)
    return await with_confidence(tools, question, found) if tools.reads else found


async def _task(question: str, tools: Tools, documents: int) -> DocumentsTask:
    """By the generator; where the run's cross-encoder answers in its place, or the reply is of no use, by the rules;
    else each document is asked the question itself, and the generator answers from the table.
    """
    if tools.reads_answers and (ruled := task_by_rules(question)) is not None:
        return ruled
    plain = DocumentsTask(question, "", None)
    if tools.reads_answers:
        return plain
    messages = task_prompt(question, documents)
    if prompt_fits(messages, ROLE, tools):
        try:
            return await ask_for(tools, ROLE, "task", messages, read_task)
        except ReplyError:  # NobodyAsked is one
            pass
    return task_by_rules(question) or plain


def _value_of(answer: Answer) -> TypedValue | None:
    """What stands in a cell: the value, of text the words; None where there is none."""
    if answer.status != "answered":
        return None
    return answer.value or (TypedValue(answer.answer) if answer.answer else None)


def _asked(task: DocumentsTask) -> dict[str, object]:
    operation = None if task.operation is None else asdict(task.operation)
    return {"ask": task.ask, "answer_type": task.answer_type, "operation": operation}


def _found(table: Sequence[Cell]) -> Callable[[], Awaitable[list[list[str]]]]:
    async def rows() -> list[list[str]]:
        return [[each.label, written(each.value) if each.value else ""] for each in table]

    return rows


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
        confidence=min(known) if known and len(known) == len(said) else None,
        value=outcome.value,
        replied_by=_replied(answers, outcome.used),
    )


def _refused(why: str, table: Sequence[Cell], answers: Sequence[Answer], context: tuple[Passage, ...]) -> Answer:
    """The values as they stand, and why nothing was done with them."""
    listed = "; ".join(f"{each.label}: {written(each.value)}" for each in table if each.value)
    without = tuple(each.label for each in table if each.value is None)
    places = [place for place, each in enumerate(table) if each.value]
    text = _with_missing(f"{why} The values: {listed}", without)
    cited, by = _citations(answers, places), _replied(answers, places)
    return Answer("answered", text, cited, context=context, error=why, replied_by=by)


def _with_missing(text: str, without: Sequence[str]) -> str:
    return f"{text} (no value found: {', '.join(without)})" if without else text


def _replied(answers: Sequence[Answer], places: Sequence[int]) -> tuple[str, ...]:
    """Who gave the values of these cells."""
    return tuple(dict.fromkeys(name for place in places for name in answers[place].replied_by))


def _citations(answers: Sequence[Answer], places: Sequence[int]) -> tuple[Citation, ...]:
    return tuple(dict.fromkeys(each for place in places for each in answers[place].citations))


async def _from_table(question: str, tools: Tools, table: Sequence[Cell], answers: Sequence[Answer]) -> Answer:
    """The generator's answer from the rows of the table, which are shown as passages; to cite a row is to cite what its
    cell cites.
    """
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

    found = await generate(tools, "generate", question, rows, cite_in=cite_in)
    without = [each.label for each in table if each.value is None]
    return replace(found, answer=_with_missing(found.answer, without)) if found.status == "answered" else found


def fits_type(answer: Answer, answer_type: str) -> Answer:
    """``answer`` without the number that was worked out where the question asks for a value of another kind, or for
    text: that is then read from its words, as of any answer.
    """
    wanted = AnswerType.of(answer_type)
    over_documents = answer.plan is not None and answer.plan.workflow == "documents"
    if not over_documents or answer.value is None or answer.value.number is None:
        return answer
    return answer if wanted.kind in AMOUNTS and not wanted.many else replace(answer, value=None)
