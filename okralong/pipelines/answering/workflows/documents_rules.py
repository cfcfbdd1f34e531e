"""Derive the task of a question over many documents from its words, by rules.

The rules cover only questions, in analysts' wording, that compare, rank, count, group, sum or track values over years.
``RULES`` is their table: a pattern recognizes a form of question, and a function makes the task from the match.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from okralong.pipelines.answering.workflows.documents_task import MOST_BANDS, DocumentsTask, read_conditions
from okralong.pipelines.core.types import TypedValue
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.periods import YEAR
from okralong.pipelines.statements.table_operations import Band, Condition, Operation, OperationName, Sign


def task_by_rules(question: str) -> DocumentsTask | None:
    """Return the task of a question, or None if no rule matches."""
    asked = " ".join(question.split())
    for forms in RULES:
        for form in forms:
            match = form.pattern.search(asked)
            if match is None or (form.only_if is not None and not form.only_if(match)):
                continue
            if (task := form.task(match)) is not None:
                return task
            break  # only the first matching form of a group is tried
    return None


class Form(NamedTuple):
    """A form of question: its pattern, the function that makes its task, and an additional condition."""

    pattern: re.Pattern[str]
    task: Callable[[re.Match[str]], DocumentsTask | None]
    only_if: Callable[[re.Match[str]], bool] | None = None


# --------
# Words of the patterns.

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

# --------
# Groups: "categorize the companies by revenue into high (over 5 million) and low (the others)".

_GROUPED: Final = re.compile(
    r"\b(?:categori[sz]e|group|classify|cluster|sort|divide|place)\b(?P<head>.*?)\binto\b[^:]*?(?::|\b(?:groups|categories)\b:?)"
    r"\s*(?P<bands>.+)",
    re.IGNORECASE | re.DOTALL,
)
_BAND: Final = re.compile(r"(?:^|[,;:]|\band\b|\)\s*)\s*(?:and\s+)?(?P<name>[^,;:()]{2,60}?)\s*\((?P<limit>[^()]+)\)")


def _grouped(match: re.Match[str]) -> DocumentsTask | None:
    bands, head = _bands(match["bands"]), match["head"]
    named = (
        re.search(rf"[{_QUOTES}](?P<measure>[^{_QUOTES}]{{2,80}})[{_QUOTES}]", head)
        or re.search(r"\bby\s+(?:their\s+)?(?P<measure>.+)", head)
        or re.search(r"^\s*the\s+(?P<measure>.+?)\s+of\b", head)
    )
    return _task(named["measure"], Operation("bands", bands=bands)) if bands and named is not None else None


def _bands(said: str) -> tuple[Band, ...]:
    """Return the groups in "high (over 5), low (5 and below)", or in conditions separated by commas."""
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
    """Return the conditions of a group, including those that a word implies ("positive cash flow")."""
    sign: Sign | None = None
    if not amounts(said):
        sign = ">" if re.match(r"positive\b", said.strip()) else "<" if re.match(r"negative\b", said.strip()) else None
    return read_conditions(said) if sign is None else (Condition(sign, TypedValue("0", 0.0)),)


# --------
# Order and rank: "rank the companies by revenue in descending order", "the top 3 by revenue".

_RANK: Final = re.compile(
    r"\b(?:rank|sort|order|arrange)\b[^?.]*?\bby\s+(?:their\s+)?(?P<measure>[^?.]+)", re.IGNORECASE
)
_ORDERED: Final = re.compile(
    r"\b(?:in|by)\s+(?P<way>ascending|descending|rising|falling|increasing|decreasing)\s+order\b", re.IGNORECASE
)
_LIST_OF: Final = re.compile(
    rf"\b(?:list|give|what\s+(?:is|are|was|were))\s+(?:the\s+)?(?P<measure>[^?.]+?)(?:{_LISTED}|\s+of\s+each\b)",
    re.IGNORECASE,
)
_TOP: Final = re.compile(
    rf"\b(?:(?:top|first)\s+(?P<a>\d+|two|three|four|five|ten)|(?P<b>\d+|two|three|four|five|ten)\s+{_THINGS}\s+{_HAS}"
    rf"\s+the\s+(?P<word>{_HIGHEST}|{_LOWEST}))",
    re.IGNORECASE,
)
_NUMBERS: Final = {"two": 2, "three": 3, "four": 4, "five": 5, "ten": 10}


def _ranked(match: re.Match[str]) -> DocumentsTask | None:
    return _task(_ORDERED.sub("", match["measure"]), _sorted(_ORDERED.search(match.string)))


def _ordered(match: re.Match[str]) -> DocumentsTask | None:
    listed = _LIST_OF.search(match.string)
    named = _quoted(match.string) or (listed["measure"] if listed is not None else "")
    return _task(named, _sorted(match)) if named else None


def _sorted(ordered: re.Match[str] | None) -> Operation:
    rising = ordered is not None and ordered["way"].lower() in ("ascending", "rising", "increasing")
    return Operation("sort", falling=not rising)


def _top(match: re.Match[str]) -> DocumentsTask | None:
    said = (match["a"] or match["b"]).lower()
    count = int(said) if said.isdecimal() else _NUMBERS[said]
    rest = match.string[match.end() :]
    by = re.search(r"\bby\s+(?P<measure>[^?.]+)", rest)
    measure = by["measure"] if by else rest if match["word"] else ""
    falling = not (match["word"] and re.fullmatch(_LOWEST, match["word"], re.IGNORECASE))
    return _task(measure, Operation("top", count, falling)) if measure.strip(" ?") else None


# --------
# The first, the last, the highest, the lowest: "which company was founded earliest?", "which spent most on research?".

_DATED: Final = re.compile(
    r"\b(?:which|what)\s+(?P<thing>[^,?]{2,40}?)\s+(?P<verb>was|were)\s+(?P<done>\w+)\s+(?:the\s+)?"
    r"(?P<word>earliest|earlier|first|latest|later|last|most recently|more recently)\b(?P<rest>[^?]*)",
    re.IGNORECASE,
)
_SPENT: Final = re.compile(
    rf"\b(?:which|what)\s+{_THINGS}\s+(?P<verb>\w+ed|spent|paid|sold|bought|made|lent|lost)\s+(?:the\s+)?"
    rf"(?P<word>{_HIGHEST}|{_LOWEST})\s*(?P<rest>[^?]*)",
    re.IGNORECASE,
)
_SUPERLATIVE: Final = re.compile(
    rf"\b(?:which|what)\b(?P<thing>[^,?]*?)\b{_HAS}\s+(?:the\s+)?(?P<word>{_HIGHEST}|{_LOWEST})\s+(?P<measure>[^?]+)",
    re.IGNORECASE,
)
_COMPARED: Final = re.compile(
    rf"\b(?:which|who|what)\b(?P<thing>[^,?]*?)\b{_HAS}\s+(?:the\s+)?(?P<word>{_MORE}|{_LESS})\s+(?P<measure>[^?]+)",
    re.IGNORECASE,
)


def _dated(match: re.Match[str]) -> DocumentsTask:
    early = match["word"].lower() in ("earliest", "earlier", "first")
    thing = re.sub(r"^of\s+(?:the\s+|these\s+)?", "", match["thing"].strip(), flags=re.IGNORECASE)
    ask = f"When {match['verb']} the {_singular(thing)} {match['done']}{_without_options(match['rest'])}?"
    operation = Operation("min" if early else "max")
    return DocumentsTask(" ".join(ask.split()), "date", operation, options_of(match.string))


_SPENT_ON: Final = re.compile(r"\s*(?:on|for|in|to|of|from|\?|$)")


def _spent(match: re.Match[str]) -> DocumentsTask:
    high = re.fullmatch(_HIGHEST, match["word"], re.IGNORECASE) is not None
    ask = f"How much was {match['verb'].lower()} {_without_options(match['rest']).strip(' ?')}?"
    operation = Operation("max" if high else "min")
    return DocumentsTask(" ".join(ask.split()), "money", operation, options_of(match.string))


def _extreme(match: re.Match[str]) -> DocumentsTask | None:
    if (than := re.search(r"\bthan\b", match["measure"])) and amounts(match["measure"][than.end() :]):
        return None  # "higher revenue than 5 million" is a limit
    high = re.fullmatch(rf"{_HIGHEST}|{_MORE}", match["word"], re.IGNORECASE) is not None
    counted = match["word"].lower() in ("most", "fewest", "more", "fewer", "least")
    measure = _without_options(match["measure"])
    return _task(measure, Operation("max" if high else "min"), options_of(match.string), counted)


# --------
# Counts and filters: "how many companies have revenue over 5 million?", "which company has a revenue of 5 million?".

_HOW_MANY: Final = re.compile(
    rf"\bhow many\s+(?:of\s+the\s+)?(?:\w+\s+)?{_THINGS}\b[^?]*?\b{_HAS}\s+(?P<measure>[^?]+)", re.IGNORECASE
)
_WITH_AMOUNT: Final = re.compile(
    rf"\b(?:which|what)\s+(?:is\s+the\s+name\s+of\s+the\s+)?{_THINGS}\s+(?:(?:that|which)\s+)?{_HAS}\s+"
    r"(?:(?P<measure>[^?\d]{0,200}?[a-z])\s+(?:of|amounting\s+to|equal\s+to|that\s+(?:is|was))\s+(?P<amount>\W{0,3}\d[^?]*)"
    r"|(?P<amount2>\W{0,3}\d[^?]{0,80}?)\s+(?:in|of)\s+(?!(?:hundred|thousand|million|billion)s?\b)"
    r"(?P<measure2>[A-Za-z][^?\d]{0,200}))\?",
    re.IGNORECASE,
)
_WHICH_ONES: Final = re.compile(
    rf"\b(?:which|list\s+(?:all\s+)?(?:the\s+)?|name\s+(?:all\s+)?(?:the\s+)?)\s*(?:of\s+the\s+)?{_THINGS}\s+"
    rf"(?:(?:that|which)\s+)?{_HAS}\s+(?P<measure>[^?]+)",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(
    r"\s+(?:(?:is|was|are|were|that)\s+)?(?P<limit>(?:over|above|more than|greater than|higher than|larger than"
    r"|exceed\w*|at least|below|under|less than|lower than|fewer than|smaller than|at most|up to|no more than"
    r"|between|of (?:more|less|at)"
    r"|[<>]=?).*)$",
    re.IGNORECASE,
)


def _limited(match: re.Match[str], operation: OperationName) -> DocumentsTask | None:
    limit = _LIMIT.search(f" {match['measure']}")
    if limit is None:
        return None
    said, when = _period_apart(limit["limit"])
    conditions = read_conditions(said)
    measure = f" {match['measure']}"[: limit.start()]
    return _task(f"{measure} {when}", Operation(operation, conditions=conditions)) if conditions else None


def _with_amount(match: re.Match[str]) -> DocumentsTask | None:
    amount, when = _period_apart(match["amount"] or match["amount2"])
    same = read_conditions(amount)[:1]
    task = _task(f"{match['measure'] or match['measure2']} {when}", Operation("filter", conditions=same))
    if task is None or not same or (task.answer_type == "money" and same[0].than.unit == "%"):
        return None
    counts = match["amount2"] is not None and not (task.answer_type == "money" and _is_money(amount))
    return None if counts else task  # "5 employees in Germany" is not an amount for Germany


def _is_money(said: str) -> bool:
    """Return whether a text is only an amount of money, with a currency or a scale."""
    found = amounts(said)
    return len(found) == 1 and bool(found[0].currency or found[0].scale) and not said[found[0].end :].strip()


# --------
# Arithmetic over all: "the difference in revenue between Alder and Birch", "the combined revenue of all companies".

_DIFFERENCE: Final = re.compile(
    r"\bdifference\s+(?:in|of)\s+(?:the\s+)?(?P<measure>[^?]+?)\s+between\s+(?P<options>[^?]+)", re.IGNORECASE
)
_MEAN: Final = re.compile(
    r"\b(?:average|mean)\s+(?P<measure>[^?]+?)(?P<of>" + _LISTED + r"|\s+(?:of|across|over)\s+all\b.*)", re.IGNORECASE
)
_SUM: Final = re.compile(
    r"\b(?:what\s+(?:is|was|were|are)\s+)?(?:the\s+)?(?:(?P<word>combined|sum\s+of(?:\s+the)?|aggregate|cumulative)\s+"
    r"(?P<measure>[^?]+)|total\s+(?P<measure2>[^?]+?)\s+(?:of|across|over)\s+(?:all|both|the\s+(?:two|three|four|five|six))\b)",
    re.IGNORECASE,
)
_TOGETHER: Final = re.compile(r"\s+(?:together|altogether|in total|combined)\b", re.IGNORECASE)
_HOW_MUCH: Final = re.compile(r"\bhow much\s+(?P<measure>[^?]+?)\s+did\b", re.IGNORECASE)


def _difference(match: re.Match[str]) -> DocumentsTask | None:
    options, when = _period_apart(match["options"])
    return _task(f"{match['measure']} {when}", Operation("difference"), _parts(options))


def _mean(match: re.Match[str]) -> DocumentsTask | None:
    return _task(f"{match['measure']} {_year_of(match['of'] + match.string[match.end() :])}", Operation("mean"))


def _sum(match: re.Match[str]) -> DocumentsTask | None:
    named = match["measure"] or match["measure2"]
    measure = re.sub(_LISTED + r".*$", lambda found: f" {_year_of(found[0])}", named)
    return _task(f"{measure} {_year_of(match.string[match.end() :])}", Operation("sum"))


def _together(match: re.Match[str]) -> DocumentsTask | None:
    return _task(f"{match['measure']} {_year_of(match.string)}", Operation("sum"))


# --------
# Values over years, and lists: "how has revenue changed since 2020?", "list the revenue of each company".

_CHANGED: Final = re.compile(
    r"\bhow\s+(?:has|have|did|does)\s+(?:the\s+)?(?P<measure>[^?]+?)\s+(?:change|changed|develop\w*|grow|grown|evolve\w*)\b",
    re.IGNORECASE,
)
_TREND: Final = re.compile(
    r"\b(?:(?:general\s+|overall\s+)?trends?|(?:percentage\s+|significant\s+)?change|growth|development)\b[^?]*?"
    r"(?:\b(?:in|of|about)\s+(?:the\s+)?(?:change\s+in\s+)?)(?P<measure>[^?]+)",
    re.IGNORECASE,
)
_TIMES: Final = re.compile(
    r"\s+(?:(?:from|between|through|in|for|during|over)\s+(?:the\s+)?(?:fiscal\s+|financial\s+)?(?:years?\b|FY|(?:19|20)\d\d)"
    r"|over\s+(?:time|the\s+years?)|based\s+on|according\s+to|as\s+per|and\s+what)\b.*$",
    re.IGNORECASE,
)
"""Words about time or source that follow a measure."""


def _over_years(match: re.Match[str]) -> DocumentsTask | None:
    measure = _quoted(match.string)
    if not measure:
        measure = _TIMES.sub("", match["measure"])
        # "ARVANA INC's operating profit": the name is dropped, because the document implies it.
        measure = re.sub(r"^.*?\b\S+['\u2019]s\s+(?=\w)", "", measure.strip())
        measure = re.sub(r"\s+(?:for|of|in)\s+(?:[A-Z][\w.,&'\u2019-]*\s*){2,}$", "", measure)
    return _task(measure, Operation("growth"))


def _listed(match: re.Match[str]) -> DocumentsTask | None:
    return _task(f"{match['measure']} {_year_of(match.string[match.end() :])}", Operation("list"))


def _is_of_each(match: re.Match[str]) -> bool:
    return re.search(r"\beach\b|\ball\b", match.string, re.IGNORECASE) is not None


RULES: Final[tuple[tuple[Form, ...], ...]] = (
    (Form(_GROUPED, _grouped),),
    (Form(_RANK, _ranked, lambda match: not _GROUPED.search(match.string)), Form(_ORDERED, _ordered)),
    (Form(_TOP, _top),),
    (Form(_DATED, _dated),),
    (
        Form(_SPENT, _spent, lambda match: _SPENT_ON.match(match["rest"]) is not None),
        Form(_SUPERLATIVE, _extreme),
        Form(_COMPARED, _extreme),
    ),
    (
        Form(_HOW_MANY, partial(_limited, operation="count")),
        Form(_WITH_AMOUNT, _with_amount),
        Form(_WHICH_ONES, partial(_limited, operation="filter")),
    ),
    (
        Form(_DIFFERENCE, _difference),
        Form(_MEAN, _mean),
        Form(_SUM, _sum),
        Form(_HOW_MUCH, _together, lambda match: _TOGETHER.search(match.string) is not None),
    ),
    (Form(_CHANGED, _over_years), Form(_TREND, _over_years)),
    (Form(_LIST_OF, _listed, _is_of_each),),
)
"""Groups of forms, tried in this order."""


# --------
# The question to each document.

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
    """Return the task for a measure, or None if the measure is empty."""
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
    """Return a measure without quote marks, articles and words that refer to the documents."""
    said = re.sub(rf"(?<!\w)[{_QUOTES}]|[{_QUOTES}](?!\w)", "", measure)
    said = re.sub(rf"{_LISTED}(?=\s|$|[?.,;])", " ", said, flags=re.IGNORECASE)
    said = re.sub(r"\s+(?:each|of each|respectively)\b.*$", "", said.strip(" ?.,;:"), flags=re.IGNORECASE)
    return " ".join(
        re.sub(r"^(?:and\s+)?(?:the|a|an|its|their)\s+", "", said.strip(), flags=re.IGNORECASE).split()
    ).strip(" ?.,;:")


def _period_apart(said: str) -> tuple[str, str]:
    """Split "5 million in 2023" into the limit and the time after it."""
    match = re.search(r"\s+(?:in|for|during)\s+(?:fiscal\s+(?:year\s+)?)?(?:FY)?(?:19|20)\d\d\b.*$", said)
    return (said[: match.start()], match[0].strip(" ?.")) if match else (said, "")


def _quoted(asked: str) -> str:
    match = re.search(rf"(?<![\w.])[{_QUOTES}](?P<measure>[^{_QUOTES}?]{{2,80}})[{_QUOTES}](?!\w)", asked)
    return match["measure"] if match else ""


def _year_of(said: str) -> str:
    years = YEAR.findall(said)
    return f"in {years[0]}" if len(set(years)) == 1 else ""


def options_of(asked: str) -> tuple[str, ...]:
    """Return the options at the end of a question: "..., Alder, Birch or Cedar?"."""
    match = re.search(r",\s*(?P<list>[^?]*?\bor\b[^?]*)\?\s*$", asked)
    return _parts(_period_apart(match["list"])[0]) if match else ()


def years_of(asked: str) -> list[str]:
    """Return the distinct years that a question names."""
    return list(dict.fromkeys(YEAR.findall(asked)))


def _parts(said: str) -> tuple[str, ...]:
    parts = re.split(r"\s*,\s*(?:or\s+|and\s+)?|\s+(?:or|and)\s+", said.strip(" ?."))
    return tuple(part.strip() for part in parts if part.strip())


def _without_options(said: str) -> str:
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
