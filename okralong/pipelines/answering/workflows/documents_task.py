"""The task of a question over many documents: a question about each document, and an operation on the values.

The generator writes it in the form below, or rules derive it from the question (``documents_rules.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.prompt_text import first_sections, label_pattern, neutralise, strip_thought
from okralong.pipelines.core.types import Message, QuestionError, ReplyError, TypedValue
from okralong.pipelines.statements.amounts import Amount, amounts
from okralong.pipelines.statements.table_operations import Band, Condition, Operation, OperationName, Sign
from okralong.pipelines.statements.values import read_value

ROLE: Final = "documents"
"""The role of the call that writes a task."""


@dataclass(frozen=True, slots=True)
class DocumentsTask:
    """A question about each document, and an operation on the values.

    Attributes:
        ask: The question that is asked about each document.
        answer_type: The type of its answer, as ``answer_types.py`` writes it.
        operation: The operation on the values; None if the generator answers from the table.
        options: The things between which the question chooses, if it names them.
    """

    ask: str
    answer_type: str
    operation: Operation | None
    options: tuple[str, ...] = ()


# --------
# The contract and its parser::
#
#     Ask: What was the revenue in 2021?
#     Type: money
#     Do: bands high: > 20 million; low: <= 20 million

INSTRUCTIONS: Final = """\
The question is about several documents. Each of them will be asked one and the same question by itself, whose answer \
is one value; then the values are worked with. Reply in this form and write nothing else:
Ask: the question that each document is asked, with the measure and the time in full, and without names of documents
Type: number, money, percent, date, period, boolean or text
Do: what is done with the values, one of
max | min | top 3 | bottom 3 | sort rising | sort falling | sum | mean | list
difference (of two values) | growth (from the earliest to the latest)
count > 10 million | filter >= 5 and < 10 | filter = yes
bands high: > 20 million; low: <= 20 million
language model (where none of these answers the question)
Example: Which of the companies had a profit margin above 10 % in 2021?
Ask: What was the profit margin in 2021?
Type: percent
Do: filter > 10"""

_LABEL: Final = label_pattern("ask|type|do")
_BY_MODEL: Final = re.compile(r"(?:by\s+)?(?:a\s+)?language model|other|none", re.IGNORECASE)
_ORDERS: Final[dict[str, tuple[OperationName, bool]]] = {
    "max": ("max", True),
    "min": ("min", False),
    "top": ("top", True),
    "bottom": ("top", False),
    "sort": ("sort", True),
    "count": ("count", True),
    "filter": ("filter", True),
    "bands": ("bands", True),
    "difference": ("difference", True),
    "growth": ("growth", True),
    "sum": ("sum", True),
    "mean": ("mean", True),
    "list": ("list", True),
}
# Project default.
LONGEST_ASK: Final = 400  # project default
"""The most characters of ``ask``."""
MOST_BANDS: Final = 40  # project default


def task_prompt(question: str, documents: int) -> list[Message]:
    """Return the messages that ask for the task of a question over ``documents`` documents."""
    asked = f"The question, over {documents} documents: {neutralise(question).strip()}"
    return [Message("system", INSTRUCTIONS), Message("user", asked)]


def read_task(reply: str) -> DocumentsTask:
    """Parse a reply. The first label of each kind counts.

    Without the lines "Type" and "Do", answers are text, and the generator answers from the table.

    Raises:
        ReplyError: The reply has no question, or the type or operation is unknown.
    """
    _, sections = first_sections(_LABEL, strip_thought(reply))
    parts = {label: section.strip("`*").strip() for label, section in sections.items()}
    ask = " ".join(parts.get("ask", "").split())[:LONGEST_ASK]
    if not ask:
        raise ReplyError("The reply does not say what each document is asked. The lines Ask, Type and Do were wanted.")
    try:
        kind = AnswerType.of(parts.get("type", "").split("\n")[0].strip(" .").lower())
    except QuestionError as error:
        raise ReplyError(f"The line Type cannot be read. {error}") from None
    return DocumentsTask(ask, str(kind), _operation(parts.get("do", ""), kind.kind))


def _operation(said: str, kind: str) -> Operation | None:
    """Parse the line "Do". Raises ReplyError for an unknown operation."""
    said = " ".join(said.split()).strip(" .`")
    if not said or _BY_MODEL.match(said):
        return None
    word, _, rest = said.partition(" ")
    name, falling = _ORDERS.get(word.casefold().rstrip(":"), (None, True))
    if name is None:
        raise ReplyError(f"The line Do names no operation: {said[:80]!r}. One of max, min, sum and so on was wanted.")
    if name == "sort":
        falling = not re.search(r"\b(?:rising|ascending|increasing)\b", rest, re.IGNORECASE)
    number = re.search(r"\d{1,4}", rest)
    count = int(number[0]) if name == "top" and number is not None else 1
    conditions: tuple[Condition, ...] = ()
    bands: tuple[Band, ...] = ()
    if name in ("count", "filter"):
        conditions = read_conditions(rest, kind)
        if not conditions:
            raise ReplyError(f"The line Do has a {name} without a condition, such as {name} > 10 million.")
    if name == "bands":
        bands = tuple(_named_bands(rest, kind))
    return Operation(name, max(count, 1), falling, conditions, bands)


def _named_bands(said: str, kind: str) -> list[Band]:
    found = []
    for part in filter(str.strip, said.split(";")[:MOST_BANDS]):
        name, _, condition = part.partition(":")
        conditions = read_conditions(condition, kind)
        if not conditions:
            raise ReplyError(f"The group {part.strip()[:80]!r} has no condition, such as high: > 20 million.")
        found.append(Band(name.strip(), conditions))
    return found


# --------
# Conditions, in signs or in words: "> 10 million", "over 1,000 and up to 5,000 in thousands", "0 and below".

_WORDS: Final[tuple[tuple[Sign, str], ...]] = (
    (">=", r">=|=>|\u2265|\bat least|\bno less than|\bnot less than|\bfrom|\bbetween|\bminimum(?: of)?"),
    ("<=", r"<=|=<|\u2264|\bat most|\bup to|\bno more than|\bnot more than|\bnot exceeding|\bmaximum(?: of)?"),
    (">", r">|\bover|\babove|\bmore than|\b(?:greater|higher|larger) than|\bexceed(?:s|ing|ed)?|\bbeyond|\bafter"),
    ("<", r"<|\bbelow|\bunder|\bless than|\b(?:lower|smaller|fewer) than|\bbefore"),
    ("<=", r"\bto|\band|-|\u2013|\bthrough"),
)
_BEFORE: Final = tuple(
    (sign, re.compile(rf"(?:{words})\W*(?:[A-Z]{{3}}\s*)?$", re.IGNORECASE)) for sign, words in _WORDS
)
"""Words before an amount, by the sign that they express. The first match counts."""
_AFTER_MORE: Final = re.compile(
    r"^[\w\s]{0,30}?(?:\b(?:and|or) (?:above|more|over|higher|greater|up)\b|\+)", re.IGNORECASE
)
_AFTER_LESS: Final = re.compile(r"^[\w\s]{0,30}?\b(?:and|or) (?:below|less|under|lower|fewer)\b", re.IGNORECASE)


def read_conditions(said: str, kind: str = "number") -> tuple[Condition, ...]:
    """Return the conditions in a text.

    A scale that follows only the last amount ("over 100,000 and below 1,000,000 in thousands") applies to all.
    """
    if kind in ("boolean", "choices", "text"):
        value = said.strip().lstrip("=").strip()
        return (Condition("=", TypedValue(value)),) if value else ()
    if kind in ("date", "period"):
        return _times(said, kind)
    found = amounts(said)
    scales = {each.scale for each in found if each.scale}
    scale = scales.pop() if len(scales) == 1 and found[-1].scale else ""
    return tuple(
        Condition(_sign(said, found, place), _limit(each, scale if each.digits else ""))
        for place, each in enumerate(found)
    )


def _times(said: str, kind: str) -> tuple[Condition, ...]:
    try:
        value = read_value(kind, said)
    except ValueError:
        return ()
    place = re.search(r"\d|\b[A-Z][a-z]{2,8}\b(?=[\s\d])", said)
    return (Condition(_word_sign(said[: place.start() if place else 0]) or "=", value),)


def _limit(amount: Amount, scale: str) -> TypedValue:
    amount = replace(amount, scale=amount.scale or scale)
    number = amount.digits * (1 if amount.unit == "%" else amount.factor)
    return TypedValue(f"{number:f}", float(number), amount.unit, amount.scale, amount.currency)


def _sign(said: str, found: Sequence[Amount], place: int) -> Sign:
    """Return the sign that the words before an amount express, or those after it if it is the last amount."""
    start = found[place - 1].end if place else 0
    before = _word_sign(said[start : found[place].start])
    if before is not None:
        return before
    if place + 1 == len(found):
        after = said[found[place].end :]
        if _AFTER_MORE.match(after):
            return ">="
        if _AFTER_LESS.match(after):
            return "<="
    following = said[found[place].end : found[place + 1].start] if place + 1 < len(found) else ""
    # The lower end of "10,000 to 20,000".
    return ">=" if re.fullmatch(r"[\w\s]*?(?:\bto\b|-|\u2013|\bthrough\b)\W*", following) else "="


def _word_sign(words: str) -> Sign | None:
    return next((sign for sign, pattern in _BEFORE if pattern.search(words)), None)
