"""Read what a question for one amount asks for: the measure, whose it is, the time and the kind of figure.

Not in the paper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from okralong.pipelines.statements.amounts import currencies
from okralong.pipelines.statements.labels import Words, core, words_of
from okralong.pipelines.statements.line_items import LineItem, named_in
from okralong.pipelines.statements.periods import dates, periods
from okralong.pipelines.statements.times import TIME_PHRASE, Time, time_of


@dataclass(frozen=True, slots=True)
class Asked:
    """A question for one amount.

    Attributes:
        kind: The wanted answer type: "money", "number" or "percent".
        time: When.
        words: The words of the measure, with those of its owner.
        item: The line item that the words name, alone or with an owner's words; None if it is unknown.
        names: The words of each name of the item; empty if ``item`` is None.
        owner: The words besides those of the item: a segment, a product, a subsidiary.
        marks: What figures are wanted besides actual ones of the group: "plan", "parent", "old" and so on.
        currency: An ISO 4217 code, or "".
    """

    kind: str
    time: Time
    words: Words
    item: LineItem | None
    names: tuple[Words, ...]
    owner: Words
    marks: frozenset[str]
    currency: str

    def instead(self, item: LineItem) -> Asked:
        """Return the same question for another line item, which rows must name as a whole."""
        return replace(self, item=item, names=())

    @property
    def counts(self) -> bool:
        """True if the question asks for a number of shares."""
        others = {"per", "price", "value", "income", "cost", "proceed", "equity"}
        return "share" in self.words and not self.words & others

    @property
    def percent(self) -> bool:
        """True if the question asks for a percentage."""
        return self.kind == "percent"

    @property
    def per_share(self) -> bool:
        """True if the question asks for an amount per share."""
        return "share" in self.words and "per" in self.words


MARKS: Final = {
    "plan": re.compile(
        r"\bbudget\w*|\bforecast\w*|\bguidance\b|\boutlook\b|\bpro[\s-]?forma\b|\bprojected\b|\bprojections?\b",
        re.IGNORECASE,
    ),
    "old": re.compile(
        r"\b(?:as\s+)?(?:previously|originally)\s+(?:reported|stated|published|issued|presented|filed)\b"
        r"|\bbefore\s+(?:restatement|adjustments?)\b",
        re.IGNORECASE,
    ),
    "restated": re.compile(r"\b(?:as\s+)?(?:restated|revised|recast|as\s+adjusted)\b", re.IGNORECASE),
    "parent": re.compile(
        r"\bparent(?:[\s-]company)?(?:[\s-]only)?\b|\bcompany[\s-]only\b|\bstandalone\b|\bunconsolidated\b",
        re.IGNORECASE,
    ),
}
"""Words for figures that are not, or not as first published, the group's actual amounts. A question gets figures of
plans and of the parent company, and superseded ones, only if it has such words."""
_LEAD: Final = re.compile(
    r"^\s*(?:what|how(?:\s+(?:much|many))?|state|give|report)?\s*(?:(?:is|are|was|were|did|does|do)\s+)?(?:the\s+)?"
    r"(?:(?:number|amount|value) of\s+)?",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(
    r"(?:[\s,]*\b(?:in|for|during|as|at|of|on|by|the|fiscal|financial|years?|quarter|half|months?|ended|ending|fy|f)\b)*"
    r"[\s,']*\x00",
    re.IGNORECASE,
)
"""A time (replaced by NUL characters) with the words before it that belong to it."""
_ASIDE: Final = re.compile(r"\((?:[A-Z&]{2,8}|(?:see\s)?notes?\b[^)]*)\)")
"""An abbreviation or note in a question: "earnings per share (EPS)"."""
_OTHER: Final = re.compile(
    r"\b(?:growth|margin|ratio|per|share of|percent\w*|segment|division|region|business unit|subsidiar\w*|forecast"
    r"|guidance|outlook|expected|average|difference|comprehensive|adjusted|non-gaap|pro forma|backlog)\b|%",
    re.IGNORECASE,
)
"""Words of questions that do not just ask for the amount of a line item."""
ASKS_CHANGE: Final = re.compile(
    r"\b(?:increas|decreas|declin|chang|grow|grew|rise|rose|fell|fall|drop|differ|gain|higher|lower|more|less)\w*",
    re.IGNORECASE,
)
_HOW_MUCH: Final = re.compile(
    r"^\s*how much\s+(.+?)\s+(?:(?:was|were|is|are|has been)\s+(?=(?:provided|used|generated)\b)|came\s+(?=from\b)"
    r"|(?:did|does)\s+(?:it|they|the\s(?:company|firm|group))\s+(?:report|have|hold|record|generate|earn|post|show|own|owe)\b)",
    re.I,
)
""""how much cash was provided by ..." becomes "cash provided by ...", "how much debt did it have ..." "debt ..."."""
_AMOUNT_OF: Final = re.compile(
    r"\b(?:amount|balance|value)\s+of\s+(?:the\s+)?|\s+(?:amount|balance)(?=\s*(?:\?|$))", re.I
)
"""Phrases that may surround any line item: "the amount of accounts payable", "the accounts payable amount"."""
_ASKED_OF: Final = re.compile(
    rf"(?:\s*\([^)]*\))*\s*(?:$|[?;:.!]|(?:of|by|for)\s(?:the\s)?(?:company|firm|group|registrant|corporation)\b"
    rf"|attributable\b|,?\s?{TIME_PHRASE}(?:$|[?;:.!(]))",
    re.IGNORECASE,
)
"""Words that may follow the line item in a question about its total."""


def line_item_of(question: str) -> LineItem | None:
    """Return the line item that a question asks for, of the whole company and at one time.

    Return None if it asks for several line items, for more than an amount, or for something else.
    """
    plain = _AMOUNT_OF.sub("", _HOW_MUCH.sub(r"\1 ", question)).strip()
    asked = {item: span for span, item in named_in(plain) if _ASKED_OF.match(plain, span[1])}
    if len(asked) != 1:
        return None
    ((item, (start, end)),) = asked.items()
    rest = f"{plain[:start]} {plain[end:]}"
    other = item.statement == "metric" or _OTHER.search(rest) or ASKS_CHANGE.search(rest)
    return None if other else item


def asked_of(question: str, kind: str, own: Words = frozenset()) -> Asked | None:
    """Return what a question asks for, or None if it names several times or no measure.

    Args:
        question: The question.
        kind: The wanted answer type.
        own: The words of the document's own names; "Alder's revenue" has no owner in Alder's report.
    """
    time = time_of(question) if len(question) <= _LONGEST else None
    if time is None:
        return None
    marks = frozenset(name for name, pattern in MARKS.items() if pattern.search(question))
    plain = _HOW_MUCH.sub(r"\1 ", _ASIDE.sub(" ", question))
    plain = _AMOUNT_OF.sub(" ", _without_times(_LEAD.sub("", plain)))
    for name in marks:
        plain = MARKS[name].sub(" ", plain)
    currency = _currency_of(plain)
    plain = _IN_CURRENCY.sub(" ", plain)
    for owner in _OWNER.finditer(plain):
        if words_of(owner["name"]) <= own:
            plain = plain.replace(owner[0], " ", 1)
    words = words_of(plain)
    if not core(words):
        return None
    item, rest = line_item_of(question), frozenset[str]()
    if item is not None:
        spans = [span for span, each in named_in(plain) if each == item]
        named = words_of(" ".join(plain[start:end] for start, end in spans))
        rest = (words & words_of(" ".join(_PROPER.findall(plain)))) - named - MEASURES
    else:
        found = sorted(named_in(plain, _ANYWHERE), key=lambda each: each[0][0] - each[0][1])
        if found:
            (start, end), item = found[0]
            rest = core(words) - words_of(plain[start:end])
        if rest & MEASURES:
            item, rest = None, frozenset()
    names = _names(item) if item else ()
    if item is None and (owned := _OF_OWNER.fullmatch(plain.strip(" ?."))) is not None:
        rest, names = core(words_of(owned["owner"])), (core(words_of(owned["measure"])),)
    rest = rest - _PARTS or rest
    return Asked(kind, time, words, item, names, rest, marks, currency)


def _names(item: LineItem) -> tuple[Words, ...]:
    return tuple(dict.fromkeys(core(words_of(name)) for name in item.names))


_PARTS: Final = frozenset(["segment", "division", "region", "unit", "business", "market", "product", "subsidiary"])
_OF_OWNER: Final = re.compile(
    r"(?P<measure>[^?]{3,200}?)\s(?:of|in|for|at)\s(?:the\s)?"
    r"(?P<owner>[A-Z\d][\w&.-]*(?:\s(?:[A-Z\d&][\w&.-]*|of|and|segment|division|region|business|unit))*)"
)
"""A measure and the name of its owner."""


_LONGEST: Final = 2_000  # project default
"""Characters of a question that is read; one for an amount has a hundred."""
_ANYWHERE: Final = re.compile(r"(?:^|\W)$")
MEASURES: Final = frozenset(
    [
        *("cost", "deferred", "gross", "net", "average", "growth", "margin", "expense", "tax", "interest", "income"),
        *(
            "comprehensive",
            "operating",
            "accumulated",
            "other",
            "unearned",
            "adjusted",
            "per",
            "share",
            "ratio",
            "rate",
        ),
        *(
            "increase",
            "beginning",
            "total",
            "current",
            "non",
            "percent",
            "percentage",
            "number",
            "before",
            "after",
            "rest",
        ),
        *(
            "weighted",
            "diluted",
            "provided",
            "paid",
            "received",
            "sold",
            "held",
            "due",
            "long",
            "short",
            "term",
            "yield",
        ),
    ]
)
"""Words that turn an item into another measure. The row's label must have them: "cost of software revenue"."""
_PROPER: Final = re.compile(r"(?<![.?!]\s)\b(?:[A-Z]|\w*\d)[\w&.-]*")
"""A word of a name."""
_OWNER: Final = re.compile(
    r"(?:\bthe\s+)?(?<!\w)(?P<name>(?:[A-Z\d][\w&.-]*\s+){0,4}[A-Z\d][\w&.-]*?)(?:['\u2019]s|(?<=s)['\u2019])(?=\s)"
)
"""A name in the genitive: "AB-3's"."""
_IN_CURRENCY: Final = re.compile(
    r"\s*\(?\bin\s+(?P<name>USD|EUR|GBP|JPY|CNY|RMB|INR|CHF|CAD|AUD|(?:U\.?S\.?\s+)?dollars?|euros?|pounds?|yen|rupees)\b\)?",
    re.IGNORECASE,
)


def _currency_of(text: str) -> str:
    named = _IN_CURRENCY.search(text)
    if named is None:
        return ""
    return currencies().get(named["name"].upper(), "") or currencies().get(named["name"].casefold(), "")


def _without_times(question: str) -> str:
    """Remove dates, periods and years from ``question``, with their prepositions."""
    spans = [span for span, _ in [*periods(question), *dates(question)]]
    spans += [match.span() for match in _BARE_TIME.finditer(question)]
    marked = list(question)
    for start, end in spans:
        marked[start:end] = "\x00" * (end - start)
    return _WHEN.sub(" ", re.sub("\x00+", "\x00", "".join(marked)))


_BARE_TIME: Final = re.compile(
    r"(?:(?<=\bFY)|(?<=\bF)|\b)(?:19|20)\d\d(?:[/-]\d\d)?\b|\bFY\s?'?\d\d\b"
    r"|\b(?:first|second|third|fourth)\s(?:fiscal\s)?(?:quarter|half)\b|\b(?:three|six|nine|twelve)\smonths\b"
    r"|\b(?:Q[1-4]|H[12])\b",
    re.IGNORECASE,
)
