"""The answer call: build the prompt, call the generator, parse the reply into an answer with citations.

Also the long context, which shows whole documents, and the calculator, which evaluates answers that are formulas.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, DivisionByZero, InvalidOperation, Overflow, Underflow, localcontext
from decimal import Context as Arithmetic
from functools import partial
from typing import Final

from okralong.pipelines.answering.answer_types import (
    AMOUNTS,
    TEXT,
    AnswerType,
    context_of,
    misfit,
    typed_value,
)
from okralong.pipelines.answering.citations import ask_and_read, best_line, find_citations
from okralong.pipelines.answering.context import fit_passages, merge, most_that_fits, passage_of, prompt_fits
from okralong.pipelines.answering.prompts import (
    UNANSWERABLE,
    SaidValue,
    answer_prompt,
    ends_within_answer,
    parse_answer,
    read_typed,
)
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import (
    Answer,
    Citation,
    CutShort,
    Document,
    Hit,
    Message,
    NobodyAsked,
    Passage,
    Reply,
    ReplyError,
)
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.values import Context

LONGER: Final = "longer"
"""The step of a second call, with more room for the reply."""


async def generate(
    tools: Tools,
    step: str,
    question: str,
    passages: Sequence[Passage],
    hits: Sequence[Hit] = (),
    *,
    role: str = "generate",
    cite_in: Callable[[Sequence[Passage]], Sequence[Passage]] | None = None,
) -> Answer:
    """Answer ``question`` from ``passages``, as far as the window has room for them.

    A reply that its limit cut within the answer is requested once more with more room (``whole_reply``). A reply that
    does not fit the answer type is requested once more (``step/repair``); if that does not fit either, the answer is
    ``invalid_output`` with the raw text of both replies.

    Args:
        tools: The tools of the question.
        step: Step of the call.
        question: The question.
        passages: The passages to show. Without any, no call is made and the answer is "unanswerable".
        hits: The chunks of the passages, most important first; the last ones are dropped first.
        role: Key of ``llm.max_completion_tokens``.
        cite_in: Returns for each shown passage the one in which its quotations are searched, empty if it must not be
            cited. By default they are searched in the shown passages.

    Raises:
        QuestionError: The question leaves no room for a passage.
    """
    wanted = AnswerType.of(tools.answer_type)
    build = partial(answer_prompt, question, calculator=tools.calculator, short=tools.short_contract, wanted=wanted)
    shown = fit_passages(passages, hits, build, role, tools)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    if wanted != TEXT:
        sources = shown if cite_in is None else cite_in(shown)
        return await _generate_typed(tools, step, question, build(shown), shown, sources, role, wanted)
    reply = await whole_reply(tools, step, build(shown), role=role)
    sources = shown if cite_in is None else cite_in(shown)
    answer = await answer_of_reply(tools, question, reply.text, shown, sources)
    return replace(answer, replied_by=(reply.model,))


async def answer_of_reply(
    tools: Tools, question: str, reply: str, shown: Sequence[Passage], sources: Sequence[Passage]
) -> Answer:
    """Return the answer that a reply gives.

    Args:
        tools: The tools of the question.
        question: The question.
        reply: The generator's reply.
        shown: The passages of the prompt.
        sources: The passages that may be cited, numbered as the shown ones.

    Raises:
        ReplyError: The reply says nothing.
    """
    read = partial(_answer, tools, question, reply, shown, sources)
    return await off_loop(len(reply) + _length(sources), read)


def _length(passages: Sequence[Passage]) -> int:
    return sum(len(passage.text) for passage in passages)


def _answer(tools: Tools, question: str, reply: str, shown: Sequence[Passage], sources: Sequence[Passage]) -> Answer:
    parsed = parse_answer(reply, question)
    if parsed.unanswerable:
        return Answer("unanswerable", UNANSWERABLE, context=tuple(shown))
    said = calculate(parsed.answer) if tools.calculator else parsed.answer
    about = (said, question) if tools.short_contract else None
    found = find_citations(parsed.evidence, sources, about)
    citations = tuple(each for each in found if each.quote)
    if parsed.only_number and citations:
        # Nothing but "[2]": the model has pointed at its answer.
        start, end = best_line(citations[0].quote, "", question)
        said = citations[0].quote[start:end]
    return Answer("answered", said, citations, context=tuple(shown))


async def whole_reply(
    tools: Tools, step: str, messages: Sequence[Message], *, role: str, answer_type: str = ""
) -> Reply:
    """Return the reply, or one with more room (``step/longer``) if its limit cut it within its answer.

    Half a number is a wrong number.

    Raises:
        CutShort: The second reply was cut as well.
    """
    ask = partial(tools.complete, messages=messages, role=role, answer_type=answer_type)
    with suppress(CutShort):
        reply = await ask(step)
        if not _is_cut(reply, tools):
            return reply
    longer = await ask(f"{step}/{LONGER}", longer=True)
    if _is_cut(longer, tools):
        raise CutShort(
            "The reply was cut off within its answer, and so was the one that was asked for with more room. Raise "
            f"llm.max_completion_tokens.{role}.",
            longer.text,
        )
    return longer


def _is_cut(reply: Reply, tools: Tools) -> bool:
    return reply.finish_reason == "length" and ends_within_answer(reply.text, short=tools.short_contract)


async def _generate_typed(
    tools: Tools,
    step: str,
    question: str,
    messages: Sequence[Message],
    shown: Sequence[Passage],
    sources: Sequence[Passage],
    role: str,
    wanted: AnswerType,
) -> Answer:
    """Answer a typed question from the prompt ``messages``."""
    misfits: list[str] = []

    def read(reply: str) -> Answer:
        said = read_typed(reply, wanted, question)
        if not said:
            return Answer("unanswerable", UNANSWERABLE, context=tuple(shown))
        try:
            return _typed_answer(tools, question, said, shown, sources, wanted)
        except ValueError as error:
            misfits.append(str(error))
            raise ReplyError(f"It does not fit the answer_type {wanted}: {error}.", reply) from None

    ask = partial(whole_reply, tools, role=role, answer_type=tools.answer_type)
    try:
        fits = partial(prompt_fits, role=role, tools=tools)
        answer, reply = await ask_and_read(ask, step, messages, read, fits, _length(sources))
    except NobodyAsked:
        raise
    except ReplyError as error:
        if not misfits:  # a refusal, or nothing in it to read
            raise
        return misfit(wanted, Answer("invalid_output", "", context=tuple(shown)), misfits[-1], error.raw)
    return replace(answer, replied_by=(reply.model,))


def _typed_answer(
    tools: Tools,
    question: str,
    said: Sequence[SaidValue],
    shown: Sequence[Passage],
    sources: Sequence[Passage],
    wanted: AnswerType,
) -> Answer:
    """Return the answer that these values form, each with its own citations.

    Raises:
        ValueError: A value does not fit the type, or, under the short contract, is in no passage.
    """
    words: list[str] = []
    read: list[tuple[str, str, Context]] = []
    citations: list[Citation] = []
    for each in said:
        value = calculate(each.said) if tools.calculator and wanted.kind in AMOUNTS else each.said
        about = (value, question) if tools.short_contract else None
        own = [found for found in find_citations(each.evidence, sources, about) if found.quote]
        if each.only_number and own:
            start, end = best_line(own[0].quote, "", question)
            value = own[0].quote[start:end]
        elif tools.short_contract and value == each.said and wanted.kind in (*AMOUNTS, "date", "period"):
            _stands_there(value, shown, wanted.kind)
        words.append(value)
        read.append((value, each.period, context_of(question, value, own, sources)))
        citations += own
    typed = typed_value(wanted, read)
    cited = tuple(dict.fromkeys(citations))
    return Answer("answered", "; ".join(words), cited, context=tuple(shown), value=typed)


def _stands_there(said: str, shown: Sequence[Passage], kind: str) -> None:
    """Raise ValueError if an amount, or the year of a date or period, is in no passage.

    A small model that finds no answer repeats the example of the contract.
    """
    if kind in AMOUNTS:
        known = {abs(each.digits) for passage in shown for each in amounts(passage.text)}
        strange = [said[each.start : each.end] for each in amounts(said) if abs(each.digits) not in known]
    else:
        strange = [
            year for year in re.findall(r"(?:19|20)\d\d", said) if not any(year in passage.text for passage in shown)
        ]
    if strange:
        raise ValueError(f"{strange[0].strip()} stands in no passage")


# The long context: every document of the scope in full where the window holds them, else the best chunks that fit.
#
# Used by the strategy ``long_context`` and by precise mode. The fallback is the paper's (appendix B.2): the top chunks
# of the dense retriever, 200 of them for a window of 128k tokens.

ROLE = "full_text"

_SURELY_TOO_LONG = 2  # project default; vocabularies differ, but none in use needs half as many tokens as o200k
"""A scope of more o200k tokens than this many windows is not fetched to be counted."""


async def answer_from_full_text(tools: Tools, question: str, step: str = ROLE) -> Answer:
    """Answer from the whole scope, or from the best chunks that fit.

    Steps: ``step/generate``, and ``step/retrieve`` if the scope does not fit.

    Raises:
        QuestionError: The question leaves no room in the window.
    """
    passages = await whole_scope(tools, question)
    if passages is None:
        passages = await best_chunks(tools, question, f"{step}/retrieve")
    return await generate(tools, f"{step}/generate", question, passages, role=ROLE)


async def whole_scope(tools: Tools, question: str) -> list[Passage] | None:
    """Return all documents of the scope in order of doc_id, or None if they do not fit the window."""
    sizes = await tools.documents()
    if sum(tokens for _, tokens in sizes) > _SURELY_TOO_LONG * tools.window:
        return None
    passages: list[Passage] = []
    used = 0
    for doc_id, _ in sizes:
        passages.append(_whole(await tools.full_text(doc_id)))
        used += tools.count(passages[-1].text)
        if used > tools.window:
            return None
    wanted = AnswerType.of(tools.answer_type)
    messages = answer_prompt(question, passages, tools.calculator, tools.short_contract, wanted)
    return passages if prompt_fits(messages, ROLE, tools) else None


async def best_chunks(tools: Tools, question: str, step: str) -> list[Passage]:
    """Return as many of the best chunks as fit the window, neighbours merged, in reading order.

    They are the best by dense vectors, or by BM25 if the archive has no vectors. Step: ``step``.
    """
    policy = tools.policy.full_text
    found = await tools.retrieve(step, question, granularity=policy.fallback_granularity, k=policy.fallback_count)
    hits = list((found.semantic or found.exact)[: policy.fallback_count])
    wanted = AnswerType.of(tools.answer_type)
    build = partial(answer_prompt, question, calculator=tools.calculator, short=tools.short_contract, wanted=wanted)
    fitting = most_that_fits(len(hits), lambda count: prompt_fits(build(_passages(hits[:count])), ROLE, tools))
    # Not even one fits: the first is handed on, and cut where it is shown.
    return _passages(hits[: max(fitting, 1)])


def _passages(hits: list[Hit]) -> list[Passage]:
    return merge(map(passage_of, hits))


def _whole(document: Document) -> Passage:
    return Passage(document.doc_id, 0, len(document.text), document.text, document.n_tokens, score=1.0, origin="full")


# The calculator: a formula that the generator gave as its answer is worked out here, not by the model.
#
# The paper names code-aided generation as an extension; this is its smallest form. A formula reads as in a
# spreadsheet: an equals sign, an expression, a unit, such as ``=(12.5 - 10) / 10 * 100 %``. How it is read is ours:
#
# - One currency sign in it goes before the result, unless the result is in percent or a divisor has the sign too.
# - Numbers marked with % stand as they are where the result is in percent: where its unit says so, and in sums of
# percentages. Elsewhere they are hundredths, so ``=5% * 1200`` is 60, and so is ``=1200 * 5%``. - A unit behind every
# number of a sum counts once. Square brackets are round ones; "(461)" is 461. - A result that the model adds ("= 25
# %") is dropped; its unit is taken where the formula has none and both agree.

_ALIKE: Final = str.maketrans(
    dict.fromkeys("\u00d7\u00b7", "*")
    | dict.fromkeys("\u2013\u2212", "-")
    | {"\u00f7": "/", "\u2248": "=", "^": "**", "[": "(", "]": ")"}
)
"""Signs for times, minus, divided by and about equal; "^" is a power."""
_THOUSANDS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_TIMES: Final = re.compile(r"(?<=[\d)%])\s*[xX]\s*(?=[\d.($€£¥-])")

_CURRENCY: Final = re.compile(r"[$€£¥]")
_DIVIDED_BY_MONEY: Final = re.compile(r"/[\s(+-]*[$€£¥]")

_PARTS: Final = re.compile(r"(?P<expression>.*[\d)])\s*(?P<unit>(?:%|(?=[^\W\d_]))[^\d()+*=%]*)?\.?")
"""The expression ends at its last digit or bracket. A unit begins with "%" or a letter."""
_PERCENTAGE: Final = re.compile(r"(\d[\d.]*)\s?%")
_TWICE: Final = re.compile(r"%\s*(?=per\s?cent)", re.IGNORECASE)
"""The percent sign of "4.1% percentage points"."""
_ENDS_IN_SHARE: Final = re.compile(
    r"(?:/\s*[\d.]+%|\*\s*(?!100(?:\.0*)?\s?(?:%|per))[\d.]+\s?(?:%|per\s?cent))$", re.IGNORECASE
)
"""As in "=1200 * 5%", where the sign belongs to the number; in "* 100%" it is the unit."""
_PER_CENT: Final = re.compile(r"per\s?cent", re.IGNORECASE)

_AGREE: Final = Decimal("0.01")  # project default: covers the model's rounding
"""Share by which the model's own result may differ from the computed one."""


def calculate(answer: str) -> str:
    """Return ``answer`` with its formula evaluated, such as "25%", "$1,234.5 million" or "0.0938"; never raises.

    Results have at most 2 decimals, and four significant digits below 1. An answer without a leading "=" is returned as
    it is, and a formula that cannot be evaluated without its "=". Only the first line is read.
    """
    if not answer.startswith("="):
        return answer
    try:
        return _work_out(answer[1:].strip().partition("\n")[0])
    except ValueError:
        return answer[1:].strip() or answer


def _work_out(formula: str) -> str:
    if len(formula) > LONGEST:
        raise ValueError(f"A formula has at most {LONGEST} characters.")
    text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), formula.translate(_ALIKE))
    text = _TIMES.sub(" * ", text)
    signs = set(_CURRENCY.findall(text))
    divided = _DIVIDED_BY_MONEY.search(text) is not None
    first, *own = _CURRENCY.sub(" ", text).split("=")
    value, unit = _read(first)
    if own and not unit:
        unit = _agreed_unit(own[-1], value)
    sign = signs.pop() if len(signs) == 1 and not divided and not _in_percent(unit) else ""
    number = f"{'-' if value < 0 else ''}{sign}{_digits(abs(value))}"
    return f"{number}{unit}" if unit.startswith("%") or not unit else f"{number} {unit}"


def _read(text: str) -> tuple[Decimal, str]:
    """Return the value and the unit, "" for none, of an expression. Raises ValueError."""
    text = text.strip()
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is no expression with a unit.")
    expression, unit = parts["expression"], _TWICE.sub("", (parts["unit"] or "").strip(" ."))
    if _ENDS_IN_SHARE.search(text):
        expression, unit = _PER_CENT.sub("%", text), ""
    elif not unit and "%" in expression and not re.search(r"[^-+() ]", _PERCENTAGE.sub("", expression)):
        unit = "%"
    if unit and not re.search(r"[*/]", expression):
        expression = re.sub(rf"(?<!\w){re.escape(unit)}(?!\w)", " ", expression)
    if _in_percent(unit):
        expression = expression.replace("%", " ")
    return evaluate(_PERCENTAGE.sub(r"(\1/100)", expression)), unit


def _agreed_unit(text: str, value: Decimal) -> str:
    """Return the unit of the result that the model computed itself, if it has the same value."""
    try:
        own, unit = _read(text)
    except ValueError:
        return ""
    return unit if abs(own - value) <= _AGREE * abs(value) else ""


def _in_percent(unit: str) -> bool:
    return unit.casefold().startswith(("%", "percent", "per cent"))


def _digits(value: Decimal) -> str:
    """Return a value from 0 on in digits, rounded half up, with separators between thousands."""
    step = Decimal("0.01") if value >= 1 or not value else Decimal(1).scaleb(value.adjusted() - 3)
    digits = f"{value.quantize(step, ROUND_HALF_UP):,f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


# The value of an arithmetic expression: numbers, ``+ - * / **``, signs and round brackets, nothing else.
#
# Expressions are written by a generator that has read documents of anyone, so what one may cost is bounded: its length,
# its depth, its exponents and the size of each value on the way. Values are decimal, so that 2.675 is 2.675; numbers
# are read to 17 digits. The bounds are ours.

LONGEST: Final = 300
"""Most characters of an expression."""

DEEPEST: Final = 100
"""Most nested operations; a sum of n numbers is n - 1 deep."""

LARGEST_EXPONENT: Final = 64

_CONTEXT: Final = Arithmetic(
    prec=28, Emin=-24, Emax=24, traps=[DivisionByZero, InvalidOperation, Overflow, Underflow], clamp=0
)
"""Values from 1e-24 to 1e25: cheap to compute, and they can be written in digits."""

_ALPHABET: Final = re.compile(r"[0-9.+\-*/() ]+")
"""Without letters there are no names, calls, hexadecimal or imaginary numbers."""

_BINARY: Final[dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Decimal], Decimal]]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def evaluate(expression: str) -> Decimal:
    """Return the value of an arithmetic expression, to 28 digits. Operators bind as in Python: ``-2 ** 2`` is -4.

    Raises:
        ValueError: The text is no such expression, has no finite real value, or exceeds the bounds.
    """
    if len(expression) > LONGEST or not _ALPHABET.fullmatch(expression):
        raise ValueError(f"{expression[:80]!r} is no arithmetic expression of at most {LONGEST} characters.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        with localcontext(_CONTEXT):
            return _value(tree.body, DEEPEST)
    except (SyntaxError, ArithmeticError, MemoryError, RecursionError) as error:
        # Python's parser answers brackets that are too deep for it with any of the last two, or a SyntaxError.
        raise ValueError(f"{expression!r} cannot be evaluated: {type(error).__name__}.") from error


def _value(node: ast.expr, depth: int) -> Decimal:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return _CONTEXT.create_decimal(repr(node.value))
    if depth and isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, depth - 1))
    if depth and isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, depth - 1), _value(node.right, depth - 1)
        if isinstance(node.op, ast.Pow) and abs(right) > LARGEST_EXPONENT:
            raise ValueError(f"The exponent {right} is beyond {LARGEST_EXPONENT}.")
        value = _BINARY[type(node.op)](left, right)
        if not value.is_finite():  # 0 ** -1, which Decimal lets pass
            raise ValueError(f"The expression {left} {type(node.op).__name__} {right} is infinite.")
        return value
    raise ValueError(f"An expression holds only numbers and + - * / **, at most {DEEPEST} deep.")
