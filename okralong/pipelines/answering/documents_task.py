"""A question over many documents, taken apart: what each document is asked, and what is done with the values.

The generator writes it once, by a contract that stands here beside its parser; or rules read it off the question, where
nobody is to be asked or the reply is of no use. Both make the same ``DocumentsTask``. The rules read questions that
compare, rank, count, group, add up or follow over years, in the words of analysts, and nothing else.
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
from okralong.pipelines.statements.periods import YEAR
from okralong.pipelines.statements.table_operations import Band, Condition, Operation, OperationName, Sign
from okralong.pipelines.statements.values import read_value

ROLE: Final = "documents"
"""The role of the call that writes a task."""


@dataclass(frozen=True, slots=True)
class DocumentsTask:
    """``ask`` is what each document is asked by itself, ``answer_type`` of which type its answer must be (as
    ``answer_types.py`` writes it). ``operation`` None: a language model answers from the table. ``options`` are the
    things that the question chooses between, where it names them.
    """

    ask: str
    answer_type: str
    operation: Operation | None
    options: tuple[str, ...] = ()


# --------
# The contract, and its parser::
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
LONGEST_ASK: Final = 400
"""Characters of what each document is asked; ours."""
MOST_BANDS: Final = 40
"""Ours."""


def task_prompt(question: str, documents: int) -> list[Message]:
    """The messages that ask for the task of a question over so many documents."""
    asked = f"The question, over {documents} documents: {neutralise(question).strip()}"
    return [Message("system", INSTRUCTIONS), Message("user", asked)]


def read_task(reply: str) -> DocumentsTask:
    """Read a reply. The first label of each kind counts; without a type it is text, without "Do" a language model
    answers from the table. Raises ReplyError where nothing is asked, or type or operation is none of those named.
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
    """Raises ReplyError for what is no operation."""
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
    """Bands as the contract writes them. Raises ReplyError for one without a condition."""
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
"""Before an amount, by the sign that they are; the first that fits counts."""
_AFTER_MORE: Final = re.compile(
    r"^[\w\s]{0,30}?(?:\b(?:and|or) (?:above|more|over|higher|greater|up)\b|\+)", re.IGNORECASE
)
_AFTER_LESS: Final = re.compile(r"^[\w\s]{0,30}?\b(?:and|or) (?:below|less|under|lower|fewer)\b", re.IGNORECASE)


def read_conditions(said: str, kind: str = "number") -> tuple[Condition, ...]:
    """The conditions that a text names; () where it names none. A scale that stands behind the last amount alone
    ("over 100,000 and below 1,000,000 in thousands") is that of all.
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
    """By the words before the amount, else by those behind the last one."""
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


# --------
# The rules.

_THINGS: Final = (
    r"(?:compan(?:y|ies)|firms?|reports?|filings?|documents?|businesses|business|corporations?|banks?|issuers?|papers?"
    r"|organi[sz]ations?|one|ones|of\s+(?:them|these|the\s+\w+)|financial\s+reports(?:\s+of\s+the\s+companies)?)"
)
_HIGHEST: Final = r"highest|largest|greatest|biggest|most|maximum|top"
_LOWEST: Final = r"lowest|smallest|least|fewest|minimum"
_MORE: Final = r"higher|larger|greater|bigger|more"
_LESS: Final = r"lower|smaller|fewer|less"
_HAS: Final = r"(?:has|have|had|having|reports?|reported|shows?|showed|recorded|posted|earned|made|is|was|with)"
_QUOTES: Final = "'\"\u2018\u2019\u201c\u201d"
_LISTED: Final = (
    r"(?:\s+(?:of|for|from|among|across|in|at)\s+(?:each\s+(?:of\s+)?)?(?:all\s+(?:of\s+)?)?(?:the\s+)?(?:\w+\s+){0,2}?"
    rf"{_THINGS}(?:\s+(?:listed|named|mentioned|given|provided)?\s*above)?)"
)
_SUPERLATIVE: Final = re.compile(
    rf"\b(?:which|what)\b(?P<thing>[^,?]*?)\b{_HAS}\s+(?:the\s+)?(?P<word>{_HIGHEST}|{_LOWEST})\s+(?P<measure>[^?]+)",
    re.IGNORECASE,
)
_COMPARED: Final = re.compile(
    rf"\b(?:which|who|what)\b(?P<thing>[^,?]*?)\b{_HAS}\s+(?:the\s+)?(?P<word>{_MORE}|{_LESS})\s+(?P<measure>[^?]+)",
    re.IGNORECASE,
)
_SPENT: Final = re.compile(
    rf"\b(?:which|what)\s+{_THINGS}\s+(?P<verb>\w+ed|spent|paid|sold|bought|made|lent|lost)\s+(?:the\s+)?"
    rf"(?P<word>{_HIGHEST}|{_LOWEST})\s*(?P<rest>[^?]*)",
    re.IGNORECASE,
)
_DATED: Final = re.compile(
    r"\b(?:which|what)\s+(?P<thing>[^,?]{2,40}?)\s+(?P<verb>was|were)\s+(?P<done>\w+)\s+(?:the\s+)?"
    r"(?P<word>earliest|earlier|first|latest|later|last|most recently|more recently)\b(?P<rest>[^?]*)",
    re.IGNORECASE,
)
_TOP: Final = re.compile(
    rf"\b(?:(?:top|first)\s+(?P<a>\d+|two|three|four|five|ten)|(?P<b>\d+|two|three|four|five|ten)\s+{_THINGS}\s+{_HAS}"
    rf"\s+the\s+(?P<word>{_HIGHEST}|{_LOWEST}))",
    re.IGNORECASE,
)
_NUMBERS: Final = {"two": 2, "three": 3, "four": 4, "five": 5, "ten": 10}
_HOW_MANY: Final = re.compile(
    rf"\bhow many\s+(?:of\s+the\s+)?(?:\w+\s+)?{_THINGS}\b[^?]*?\b{_HAS}\s+(?P<measure>[^?]+)", re.IGNORECASE
)
_WHICH_ONES: Final = re.compile(
    rf"\b(?:which|list\s+(?:all\s+)?(?:the\s+)?|name\s+(?:all\s+)?(?:the\s+)?)\s*(?:of\s+the\s+)?{_THINGS}\s+"
    rf"(?:(?:that|which)\s+)?{_HAS}\s+(?P<measure>[^?]+)",
    re.IGNORECASE,
)
_WITH_AMOUNT: Final = re.compile(
    rf"\b(?:which|what)\s+(?:is\s+the\s+name\s+of\s+the\s+)?{_THINGS}\s+(?:(?:that|which)\s+)?{_HAS}\s+"
    r"(?:(?P<measure>[^?\d]{0,200}?[a-z])\s+(?:of|amounting\s+to|equal\s+to|that\s+(?:is|was))\s+(?P<amount>\W{0,3}\d[^?]*)"
    r"|(?P<amount2>\W{0,3}\d[^?]{0,80}?)\s+(?:in|of)\s+(?!(?:hundred|thousand|million|billion)s?\b)"
    r"(?P<measure2>[A-Za-z][^?\d]{0,200}))\?",
    re.IGNORECASE,
)
"""A question for whose value an amount is."""
_LIMIT: Final = re.compile(
    r"\s+(?:(?:is|was|are|were|that)\s+)?(?P<limit>(?:over|above|more than|greater than|higher than|larger than"
    r"|exceed\w*|at least|below|under|less than|lower than|fewer than|smaller than|at most|up to|no more than"
    r"|between|of (?:more|less|at)"
    r"|[<>]=?).*)$",
    re.IGNORECASE,
)
_ORDERED: Final = re.compile(
    r"\b(?:in|by)\s+(?P<way>ascending|descending|rising|falling|increasing|decreasing)\s+order\b", re.IGNORECASE
)
_RANK: Final = re.compile(
    r"\b(?:rank|sort|order|arrange)\b[^?.]*?\bby\s+(?:their\s+)?(?P<measure>[^?.]+)", re.IGNORECASE
)
_LIST_OF: Final = re.compile(
    rf"\b(?:list|give|what\s+(?:is|are|was|were))\s+(?:the\s+)?(?P<measure>[^?.]+?)(?:{_LISTED}|\s+of\s+each\b)",
    re.IGNORECASE,
)
_GROUPED: Final = re.compile(
    r"\b(?:categori[sz]e|group|classify|cluster|sort|divide|place)\b(?P<head>.*?)\binto\b[^:]*?(?::|\b(?:groups|categories)\b:?)"
    r"\s*(?P<bands>.+)",
    re.IGNORECASE | re.DOTALL,
)
_BAND: Final = re.compile(r"(?:^|[,;:]|\band\b|\)\s*)\s*(?:and\s+)?(?P<name>[^,;:()]{2,60}?)\s*\((?P<limit>[^()]+)\)")
_SUM: Final = re.compile(
    r"\b(?:what\s+(?:is|was|were|are)\s+)?(?:the\s+)?(?:(?P<word>combined|sum\s+of(?:\s+the)?|aggregate|cumulative)\s+"
    r"(?P<measure>[^?]+)|total\s+(?P<measure2>[^?]+?)\s+(?:of|across|over)\s+(?:all|both|the\s+(?:two|three|four|five|six))\b)",
    re.IGNORECASE,
)
_TOGETHER: Final = re.compile(r"\s+(?:together|altogether|in total|combined)\b", re.IGNORECASE)
_MEAN: Final = re.compile(
    r"\b(?:average|mean)\s+(?P<measure>[^?]+?)(?P<of>" + _LISTED + r"|\s+(?:of|across|over)\s+all\b.*)", re.IGNORECASE
)
_DIFFERENCE: Final = re.compile(
    r"\bdifference\s+(?:in|of)\s+(?:the\s+)?(?P<measure>[^?]+?)\s+between\s+(?P<options>[^?]+)", re.IGNORECASE
)
_TREND: Final = re.compile(
    r"\b(?:(?:general\s+|overall\s+)?trends?|(?:percentage\s+|significant\s+)?change|growth|development)\b[^?]*?"
    r"(?:\b(?:in|of|about)\s+(?:the\s+)?(?:change\s+in\s+)?)(?P<measure>[^?]+)",
    re.IGNORECASE,
)
_CHANGED: Final = re.compile(
    r"\bhow\s+(?:has|have|did|does)\s+(?:the\s+)?(?P<measure>[^?]+?)\s+(?:change|changed|develop\w*|grow|grown|evolve\w*)\b",
    re.IGNORECASE,
)
_TIMES: Final = re.compile(
    r"\s+(?:(?:from|between|through|in|for|during|over)\s+(?:the\s+)?(?:fiscal\s+|financial\s+)?(?:years?\b|FY|(?:19|20)\d\d)"
    r"|over\s+(?:time|the\s+years?)|based\s+on|according\s+to|as\s+per|and\s+what)\b.*$",
    re.IGNORECASE,
)
"""Behind a measure, when and where it is looked at."""


def task_by_rules(question: str) -> DocumentsTask | None:
    """What the rules read off a question; None where it is of no form that they know."""
    asked = " ".join(question.split())
    for reader in (
        _by_groups,
        _by_order,
        _by_top,
        _by_dates,
        _by_extreme,
        _by_count,
        _by_reckoning,
        _over_years,
        _by_list,
    ):
        if (task := reader(asked)) is not None:
            return task
    return None


def _by_groups(asked: str) -> DocumentsTask | None:
    match = _GROUPED.search(asked)
    if match is None:
        return None
    bands = _bands(match["bands"])
    head = match["head"]
    quoted = re.search(rf"[{_QUOTES}](?P<measure>[^{_QUOTES}]{{2,80}})[{_QUOTES}]", head)
    by = re.search(r"\bby\s+(?:their\s+)?(?P<measure>.+)", head) or re.search(
        r"^\s*the\s+(?P<measure>.+?)\s+of\b", head
    )
    named = quoted or by
    if not bands or named is None:
        return None
    return _task(named["measure"], Operation("bands", bands=bands))


def _bands(said: str) -> tuple[Band, ...]:
    """Groups that a question names: "high (over 5), low (5 and below)", or the conditions alone, parted by commas."""
    named = [(match["name"], match["limit"]) for match in _BAND.finditer(said)]
    if not named:
        first = said.partition(". ")[0].rstrip(".")
        parts = re.split(r"[,;]\s+(?:and\s+)?", first)
        parts = parts if len(parts) > 1 else re.split(r"\s+and\s+(?=\D{0,3}\d|over|below|above|under|less|more)", first)
        named = [(part, part) for part in parts]
    found = [Band(_bare(name), _band_limit(limit)) for name, limit in named[:MOST_BANDS]]
    whole = len(found) > 1 and all(band.conditions for band in found)
    return tuple(found) if whole else ()


def _band_limit(said: str) -> tuple[Condition, ...]:
    """A group's limits, also of one that its sign alone makes: "positive cash flow"."""
    sign: Sign | None = None
    if not amounts(said):
        sign = ">" if re.match(r"positive\b", said.strip()) else "<" if re.match(r"negative\b", said.strip()) else None
    return read_conditions(said) if sign is None else (Condition(sign, TypedValue("0", 0.0)),)


def _by_order(asked: str) -> DocumentsTask | None:
    ordered = _ORDERED.search(asked)
    rank = _RANK.search(asked)
    if rank is not None and not _GROUPED.search(asked):
        measure = _ORDERED.sub("", rank["measure"])
        rising = bool(ordered and ordered["way"].lower() in ("ascending", "rising", "increasing"))
        return _task(measure, Operation("sort", falling=not rising))
    if ordered is None:
        return None
    rising = ordered["way"].lower() in ("ascending", "rising", "increasing")
    listed = _LIST_OF.search(asked)
    named = _quoted(asked) or (listed["measure"] if listed is not None else "")
    return _task(named, Operation("sort", falling=not rising)) if named else None


def _by_top(asked: str) -> DocumentsTask | None:
    match = _TOP.search(asked)
    if match is None:
        return None
    said = (match["a"] or match["b"]).lower()
    count = int(said) if said.isdecimal() else _NUMBERS[said]
    rest = asked[match.end() :]
    by = re.search(r"\bby\s+(?P<measure>[^?.]+)", rest)
    measure = by["measure"] if by else rest if match["word"] else ""
    falling = not (match["word"] and re.fullmatch(_LOWEST, match["word"], re.IGNORECASE))
    return _task(measure, Operation("top", count, falling)) if measure.strip(" ?") else None


def _by_dates(asked: str) -> DocumentsTask | None:
    match = _DATED.search(asked)
    if match is None:
        return None
    early = match["word"].lower() in ("earliest", "earlier", "first")
    rest = _without_options(match["rest"])
    thing = re.sub(r"^of\s+(?:the\s+|these\s+)?", "", match["thing"].strip(), flags=re.IGNORECASE)
    ask = f"When {match['verb']} the {_singular(thing)} {match['done']}{rest}?"
    return DocumentsTask(" ".join(ask.split()), "date", Operation("min" if early else "max"), options_of(asked))


def _by_extreme(asked: str) -> DocumentsTask | None:
    spent = _SPENT.search(asked)
    if spent is not None and re.match(r"\s*(?:on|for|in|to|of|from|\?|$)", spent["rest"]):
        high = re.fullmatch(_HIGHEST, spent["word"], re.IGNORECASE) is not None
        ask = f"How much was {spent['verb'].lower()} {_without_options(spent['rest']).strip(' ?')}?"
        return DocumentsTask(" ".join(ask.split()), "money", Operation("max" if high else "min"), options_of(asked))
    match = _SUPERLATIVE.search(asked) or _COMPARED.search(asked)
    if match is None:
        return None
    if (than := re.search(r"\bthan\b", match["measure"])) and amounts(match["measure"][than.end() :]):
        return None  # "higher revenue than 5 million" is a limit
    high = re.fullmatch(rf"{_HIGHEST}|{_MORE}", match["word"], re.IGNORECASE) is not None
    counted = match["word"].lower() in ("most", "fewest", "more", "fewer", "least")
    measure = _without_options(match["measure"])
    return _task(measure, Operation("max" if high else "min"), options_of(asked), counted)


def _by_count(asked: str) -> DocumentsTask | None:
    match, name = _HOW_MANY.search(asked), "count"
    if match is None and (whose := _WITH_AMOUNT.search(asked)) is not None:
        amount, when = _period_apart(whose["amount"] or whose["amount2"])
        same = read_conditions(amount)[:1]
        task = _task(f"{whose['measure'] or whose['measure2']} {when}", Operation("filter", conditions=same))
        if task is None or not same or (task.answer_type == "money" and same[0].than.unit == "%"):
            return None
        counts = whose["amount2"] is not None and not (task.answer_type == "money" and _is_money(amount))
        return None if counts else task  # "5 employees in Germany" are not an amount of Germany
    if match is None:
        match, name = _WHICH_ONES.search(asked), "filter"
    if match is None:
        return None
    limit = _LIMIT.search(f" {match['measure']}")
    if limit is None:
        return None
    measure = f" {match['measure']}"[: limit.start()]
    conditions = read_conditions(_period_apart(limit["limit"])[0])
    if not conditions:
        return None
    when = _period_apart(limit["limit"])[1]
    return _task(f"{measure} {when}", Operation("count" if name == "count" else "filter", conditions=conditions))


def _is_money(said: str) -> bool:
    """Whether a text is one amount of money, with a currency or a scale, and nothing behind it."""
    found = amounts(said)
    return len(found) == 1 and bool(found[0].currency or found[0].scale) and not said[found[0].end :].strip()


def _period_apart(said: str) -> tuple[str, str]:
    """A limit and the time behind it: "5 million in 2023"."""
    match = re.search(r"\s+(?:in|for|during)\s+(?:fiscal\s+(?:year\s+)?)?(?:FY)?(?:19|20)\d\d\b.*$", said)
    return (said[: match.start()], match[0].strip(" ?.")) if match else (said, "")


def _by_reckoning(asked: str) -> DocumentsTask | None:
    if (match := _DIFFERENCE.search(asked)) is not None:
        options, when = _period_apart(match["options"])
        return _task(f"{match['measure']} {when}", Operation("difference"), _parts(options))
    if (match := _MEAN.search(asked)) is not None:
        return _task(f"{match['measure']} {_year_of(match['of'] + asked[match.end() :])}", Operation("mean"))
    if (match := _SUM.search(asked)) is not None:
        measure = re.sub(
            _LISTED + r".*$", lambda found: f" {_year_of(found[0])}", match["measure"] or match["measure2"]
        )
        tail = _year_of(asked[match.end() :])
        return _task(f"{measure} {tail}", Operation("sum"))
    if _TOGETHER.search(asked) and (
        match := re.search(r"\bhow much\s+(?P<measure>[^?]+?)\s+did\b", asked, re.IGNORECASE)
    ):
        return _task(f"{match['measure']} {_year_of(asked)}", Operation("sum"))
    return None


def _over_years(asked: str) -> DocumentsTask | None:
    match = _CHANGED.search(asked) or _TREND.search(asked)
    if match is None:
        return None
    measure = _quoted(asked)
    if not measure:
        measure = _TIMES.sub("", match["measure"])
        # "ARVANA INC's operating profit": the document says whose it is.
        measure = re.sub(r"^.*?\b\S+['\u2019]s\s+(?=\w)", "", measure.strip())
        measure = re.sub(r"\s+(?:for|of|in)\s+(?:[A-Z][\w.,&'\u2019-]*\s*){2,}$", "", measure)
    return _task(measure, Operation("growth"))


def _by_list(asked: str) -> DocumentsTask | None:
    match = _LIST_OF.search(asked)
    if match is None or not re.search(r"\beach\b|\ball\b", asked, re.IGNORECASE):
        return None
    return _task(f"{match['measure']} {_year_of(asked[match.end() :])}", Operation("list"))


# What is asked of each document.

_COUNTED: Final = re.compile(
    r"\b(?:shares? (?:outstanding|issued)|employees|headcount|number of|customers|stores|units|branches|workers|sites"
    r"|outstanding shares|subsidiaries|members|patents|vessels|people|segments|works|apprentices)\b",
    re.IGNORECASE,
)
_PERCENT: Final = re.compile(
    r"\b(?:margin|percentage|per cent|share of|yield|interest rate|tax rate|growth rate)\b|%", re.IGNORECASE
)
_RATIO: Final = re.compile(r"\bratio\b", re.IGNORECASE)
_MONEY: Final = re.compile(
    r"\b(?:revenues?|sales|income|profits?|loss(?:es)?|earnings|assets|liabilit(?:y|ies)|cash|expenses?|costs?|debts?|equity"
    r"|payables?|receivables?|capital|tax(?:es)?|prices?|fees?|spending|surplus|dividends?|investments?|balance|inventor(?:y|ies)"
    r"|loans?|deposits?|borrowings|goodwill|amount|value|salar(?:y|ies)|wages|budget|turnover|depreciation|EPS|ebitda)\b",
    re.IGNORECASE,
)


def _task(
    measure: str, operation: Operation, options: tuple[str, ...] = (), counted: bool = False
) -> DocumentsTask | None:
    """The task over a measure that the question names; None where there is nothing left of it."""
    said = _bare(measure)
    if len(re.findall(r"[A-Za-z]{2,}", said)) < 1:
        return None
    if _PERCENT.search(said):
        kind = "percent"
    elif _RATIO.search(said) or _COUNTED.search(said):
        kind = "number"
    else:
        kind = "money" if _MONEY.search(said) else "number"
    if counted and kind == "number" and not said.lower().startswith("number of"):
        said = f"number of {said}"
    head = re.split(r"\s(?:of|from|at|in|for|on)\s", said)[0]
    many = bool(re.search(r"(?<![sui])s$", head)) and not head.lower().startswith("number")
    verb = ("were" if many else "was") if YEAR.search(said) else "are" if many else "is"
    return DocumentsTask(f"What {verb} the {said}?", kind, operation, options)


def _bare(measure: str) -> str:
    """A measure without quote marks, articles and the words that point at the documents."""
    said = re.sub(rf"(?<!\w)[{_QUOTES}]|[{_QUOTES}](?!\w)", "", measure)
    said = re.sub(rf"{_LISTED}(?=\s|$|[?.,;])", " ", said, flags=re.IGNORECASE)
    said = re.sub(r"\s+(?:each|of each|respectively)\b.*$", "", said.strip(" ?.,;:"), flags=re.IGNORECASE)
    return " ".join(
        re.sub(r"^(?:and\s+)?(?:the|a|an|its|their)\s+", "", said.strip(), flags=re.IGNORECASE).split()
    ).strip(" ?.,;:")


def _quoted(asked: str) -> str:
    match = re.search(rf"(?<![\w.])[{_QUOTES}](?P<measure>[^{_QUOTES}?]{{2,80}})[{_QUOTES}](?!\w)", asked)
    return match["measure"] if match else ""


def _year_of(said: str) -> str:
    years = YEAR.findall(said)
    return f"in {years[0]}" if len(set(years)) == 1 else ""


def options_of(asked: str) -> tuple[str, ...]:
    """The things at the end of a question: "..., Alder, Birch or Cedar?"."""
    match = re.search(r",\s*(?P<list>[^?]*?\bor\b[^?]*)\?\s*$", asked)
    return _parts(_period_apart(match["list"])[0]) if match else ()


def years_of(asked: str) -> list[str]:
    """The years that a question names, each once."""
    return list(dict.fromkeys(YEAR.findall(asked)))


def _parts(said: str) -> tuple[str, ...]:
    parts = re.split(r"\s*,\s*(?:or\s+|and\s+)?|\s+(?:or|and)\s+", said.strip(" ?."))
    return tuple(part.strip() for part in parts if part.strip())


def _without_options(said: str) -> str:
    """``said`` up to the things that the question chooses between."""
    match = re.search(r",\s*[^?]*\bor\b", said)
    return said[: match.start()] if match else said


def _singular(thing: str) -> str:
    return (
        re.sub(r"ies$", "y", thing)
        if thing.endswith("ies")
        else thing.removesuffix("s")
        if not thing.endswith("ss")
        else thing
    )
