"""Find out which kind of answer a question asks for, and whether an answer is of that kind.

This is for questions without an answer type. The kind follows from a question's grammar: its interrogative, the noun
after "which" or "what", or the auxiliary at its start. "unknown" is the common value and fits every answer. An answer
is rejected only if it contradicts the kind: "$3.1 billion" is no company, but any words may be one. Not in the paper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from okralong.pipelines.answering.analyzers.words import content_stems
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.core.types import Answer
from okralong.pipelines.statements.amounts import amounts, in_words
from okralong.pipelines.statements.asked import line_item_of
from okralong.pipelines.statements.line_items import named_in
from okralong.pipelines.statements.periods import YEAR, dates, periods

KindName: TypeAlias = Literal[
    "unknown",
    "yes/no",
    "choice",
    "who",
    "person",
    "organisation",
    "place",
    "count",
    "amount",
    "money",
    "percent",
    "date",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of answer.

    Attributes:
        name: "who" is a person, a group or an organisation; "amount" is any quantity; "date" may also be a period.
        choices: For "choice", what the question offers; "yes" and "no" may be among it.
    """

    name: KindName = "unknown"
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the kind as messages write it: "a company or organisation"."""
        return f"one of {', '.join(self.choices)}" if self.choices else _WRITTEN[self.name]


UNKNOWN: Final = Kind()
YES_NO: Final = Kind("yes/no")

_WRITTEN: Final[dict[KindName, str]] = {
    "unknown": "any answer",
    "yes/no": "yes or no",
    "choice": "one of the choices",
    "who": "a person or organisation",
    "person": "a person",
    "organisation": "a company or organisation",
    "place": "a place",
    "count": "a count",
    "amount": "an amount",
    "money": "an amount of money",
    "percent": "a percentage",
    "date": "a date or period",
}

# --------
# The kind that a question asks for.

LONGEST_QUESTION: Final = 1_000  # project default
"""The most characters of a question whose kind is determined."""
_AUXILIARY: Final = (
    "(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must)(?:n['\u2019]t)?"
)
_INTRODUCTION: Final = re.compile(
    r"^(?:According|In|As|For|During|On|At|By|From|Under|Based|Within|Among|Per)\s(?!(?:which|what|whom)\b)[^?]{3,100}?,\s+"
    rf"(?=(?:what|which|who|when|where|how|by|{_AUXILIARY})\b)",
    re.IGNORECASE,
)
"""An adverbial before the question: "According to the report, "."""
_OPENING: Final = re.compile(r"\W*(?:to|by|from|with|for|and|but|of)?\s*", re.IGNORECASE)
_YES_NO: Final = re.compile(rf"{_AUXILIARY}\s(?!you\b)", re.IGNORECASE)
_HAPPENED: Final = re.compile(r"\s+(?:did|was|were|had|has|will)\b", re.IGNORECASE)
"""The words after a "when" that asks for a date; "when is" and "when does" may ask for a condition."""
_OFFICE: Final = re.compile(
    r"\s+(?:is|was|are|were|became|served?s?\sas)\s+(?:[\w'\u2019.&-]+\s+){0,4}?"
    r"(?:chief\s\w+\sofficers?|C[EFOT]O|(?:vice\s)?(?:president|chair(?:man|woman|person)?)s?|directors?|secretary|treasurer)\b",
    re.IGNORECASE,
)
"""The words after a "who" that asks for the holder of an office."""
_OPEN: Final = re.compile(r"\b(?:any|mention\w*)\b|\bor\s+not\b", re.IGNORECASE)
"""Words with which "or" offers no choice: "any mergers or acquisitions"."""
_ASKS: Final = re.compile(
    r"(?P<how>\bhow\s+(?P<many>many|much)\b)|(?P<which>\b(?:which|what)\b)|(?P<who>\bwhom?\b)|(?P<when>\bwhen\b)"
    r"|(?P<where>\bwhere\b)|(?P<other>\b(?:how|why|whose)\b)",
    re.IGNORECASE,
)
_OFFERED: Final = re.compile(
    r"[,:\u2013\u2014]\s+(?P<one>(?!Inc\b|Ltd\b)(?:[A-Z\d\"'\u201c]|the\s|an?\s)[^,:?]*?),?\s+or\s+"
    r"(?P<other>(?:[A-Z\d\"'\u201c]|the\s|an?\s)[^,?]+?)\s*\?*\s*$"
)
"""Choices at the end of a question: ", Alder or Birch?"."""
_AROUND_OR: Final = re.compile(
    r"(?P<one>(?:[^\s,]+\s+){1,4}?)or\s+(?P<other>[^\s,?]+(?:\s+[^\s,?]+){0,3})", re.IGNORECASE
)
_OPPOSITE: Final = re.compile(
    r"\b(?P<one>increas\w*|rise|rose|grow\w*|grew|improv\w*|gain\w*|up|higher|more|above|before|earlier|larger|profit\w*)"
    r"\s+or\s+(?:an?\s+)?(?P<other>decreas\w*|fall|fell|declin\w*|drop\w*|shrink\w*|worsen\w*|loss\w*|lost|down|lower|less|"
    r"fewer|below|after|later|smaller)\b",
    re.IGNORECASE,
)
_MONEY_WORD: Final = re.compile(r"\b(?:money|cash|dollars?|euros?|pounds|USD|EUR|GBP|JPY|AUD|CAD|CHF)\b|[$€£¥]")
_PERCENT_WORD: Final = re.compile(r"\b(?:percent|percentage|per\s+cent)\b|%", re.IGNORECASE)
_SKIPPED: Final = re.compile(
    r"\s*(?:(?P<be>is|are|was|were)\s+)?(?:(?:of|the|these|those|its|their|his|her|our|an?|other|two|three|four|following|"
    r"exact|specific|total|overall|average|approximate|estimated|new|former|current|first|last|main|largest|different|"
    r"\S+['\u2019]s?)\s+)*",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(r"(?:full\s+)?names?\s+of\s+(?:the\s+|an?\s+)?", re.IGNORECASE)
_FOLLOWS: Final = re.compile(
    rf"\s*(?:$|[?,.;:(]|(?:{_AUXILIARY}|of|in|on|at|by|for|from|to|with|as|during|that|who|which|whose|where|when|sold|"
    r"bought|won|made|held|built|led|lost|paid|gave|got|took|grew|rose|fell|left|ran|spent|came|became|owns|has|makes|first|"
    r"originally|also|reports|acquires|provides|and|or|\w+ed)\b)",
    re.IGNORECASE,
)
"""Words that may follow the head of a noun phrase. Other words make a compound: "company policy", "state law"."""
_FOLLOWS_BE: Final = re.compile(
    r"\s*(?:$|[?,]|(?:that|which|who|whose|where|named|called|responsible|behind)\b)", re.IGNORECASE
)
"""The same after "what is the", where a name is asked for only by a clause."""
_NAMES: Final = ("organisation", "person", "place")
_ADJECTIVES: Final = 2  # project default
"""The most words between "which" and the head of its noun phrase."""
_PREPOSITION: Final = re.compile(r"\b(?:of|in|on|at|by|for|from|to|with|when|that|which|between|as)\b", re.IGNORECASE)
_HEADS: Final[tuple[tuple[KindName, str], ...]] = (
    ("organisation", r"compan(?:y|ies)|firms?|corporations?|banks?|airlines?|organi[sz]ations?|universit(?:y|ies)"),
    ("person", r"persons?|m[ae]n|wom[ae]n|directors?|ceo|cfo|president|author|actor|actress|singer|scientist|chairman"),
    ("place", r"countr(?:y|ies)|cit(?:y|ies)|states?|towns?|counties|county|continent|province"),
    ("count", r"number"),
    ("percent", r"percent(?:age)?|per\s+cent"),
    ("date", r"years?(?!\s+(?:on|over)\s+year)|date|month|day|decade|century|quarter(?!\s+of\b)"),
)
_HEAD: Final = tuple((kind, re.compile(rf"(?:{pattern})\b", re.IGNORECASE)) for kind, pattern in _HEADS)


@lru_cache(maxsize=1024)
def kind_asked(question: str) -> Kind:
    """Return the kind of answer that the words of a question ask for."""
    text = " ".join(question.split())
    if len(text) > LONGEST_QUESTION:
        return UNKNOWN
    text = _INTRODUCTION.sub("", text)
    if _YES_NO.match(text) is not None:
        return _yes_no(text)
    asks = _ASKS.search(text)
    if asks is None:
        return UNKNOWN
    rest, first = text[asks.end() :], asks.start() == 0 or _OPENING.fullmatch(text, 0, asks.start()) is not None
    if asks["many"]:
        return Kind(_quantity(asks["many"].lower(), rest))
    if (asks["which"] or asks["who"]) and (offered := _OFFERED.search(text)) is not None:
        return Kind("choice", (offered["one"], offered["other"]))
    if asks["who"]:
        return Kind("person" if _OFFICE.match(rest) else "who") if first else UNKNOWN
    if asks["when"]:
        return Kind("date") if first and _HAPPENED.match(rest) else UNKNOWN
    return _of_noun(rest, text) if asks["which"] else UNKNOWN


def _yes_no(question: str) -> Kind:
    """Return the kind of a question that begins with an auxiliary; "or" may offer choices in it."""
    if (opposite := _OPPOSITE.search(question)) is not None:
        return Kind("choice", (opposite["one"], opposite["other"]))
    offered = _AROUND_OR.search(question)
    if offered is None or _OPEN.search(question):
        return YES_NO
    return Kind("choice", (offered["one"].strip(), offered["other"], "yes", "no"))


def _quantity(word: str, rest: str) -> KindName:
    if re.match(r"\s*(?:percent|per cent|percentage)", rest, re.IGNORECASE):
        return "percent"
    if re.match(rf"\s*(?:\w+\s+)?(?:{_MONEY_WORD.pattern})", rest):
        return "money"
    return "count" if word == "many" and not _PERCENT_WORD.search(rest) else "amount"


def _of_noun(rest: str, question: str) -> Kind:
    """Return the kind that the noun after "which" or "what" asks for."""
    skipped = _SKIPPED.match(rest)
    at, is_verb = (skipped.end(), skipped["be"] is not None) if skipped else (0, False)
    if is_verb and (named := _NAMED.match(rest, at)) is not None:
        at = named.end()
    nouns = rest[at : at + 60]
    for count, word in enumerate(re.finditer(r"[\w&'\u2019-]+", nouns)):
        for kind, pattern in _HEAD:
            head = pattern.match(nouns, word.start())
            after = _FOLLOWS_BE if is_verb and kind in _NAMES else _FOLLOWS
            if head is not None and after.match(nouns, head.end()):
                return Kind("amount" if kind == "count" and _PERCENT_WORD.search(question) else kind)
        if count >= _ADJECTIVES or _FOLLOWS.match(nouns, word.end()) or word[0].lower() in ("the", "a", "an"):
            break
    if is_verb and (item := line_item_of(question)) is not None:
        start = min((span[0] for span, each in named_in(question) if each == item), default=0)
        words = question[len(question) - len(rest) + at - 1 : start]
        if not _PREPOSITION.search(words) and re.search(
            r"\bthe\b|['\u2019]s?\b", question[len(question) - len(rest) : start]
        ):
            return Kind("amount")
    return UNKNOWN


# --------
# The kind of an answer.

_SAYS_YES_NO: Final = re.compile(r"\W*(?:yes|no|true|false)\b(?!\s+\w+\s*$)", re.IGNORECASE)
_ONLY_YES_NO: Final = re.compile(r"\W*(?:yes|no|true|false)\W*", re.IGNORECASE)
_ABOUT: Final = re.compile(
    r"(?:\W|\b(?:approximately|about|around|nearly|almost|over|under|more|less|than|up|to|at|least|most|some|roughly|only|an?|"
    r"total|of|in|on|by|the|and|between|from|fiscal|year|years|ended|ending|per|as|since|until|late|early|mid)\b)*",
    re.IGNORECASE,
)
_QUANTIFIER: Final = re.compile(
    r"\b(?:no|none|nothing|half|third|quarter|dozens?|hundreds?|thousands?|millions?|billions?|several|few|many|most|all|both|"
    r"single|pair|couple|twice|once|double|triple|multiple|majority|each|every|an?|little|much|some|any|trace|vast|"
    r"large|small|great)\b",
    re.IGNORECASE,
)
_TIME_WORD: Final = re.compile(
    r"\d|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec|mon|tues|wednes|thurs|fri|satur|sun|spring|summer|"
    r"autumn|fall|winter|century|centuries|decades?|years?|months?|weeks?|days?|today|now|currently|present|annual\w*|"
    r"quarter\w*|age|era|period|war|before|after|during|when|until|since|once|time|early|late|end|begin\w*)",
    re.IGNORECASE,
)
_LEGAL: Final = re.compile(
    r"\b(?:Inc|Incorporated|Corp|Corporation|Ltd|Limited|LLC|LLP|PLC|plc|GmbH|AG|SE|N\.?V|S\.?A|Company|Co|Holdings|Group|"
    r"Bank|Bancorp|University|Partners)\b\.?$"
)
_HONORIFIC: Final = re.compile(r"^(?:Mr|Mrs|Ms|Dr|Sir|Prof|Professor)\b\.?\s")


@dataclass(frozen=True, slots=True)
class _Said:
    """An answer's form. ``only`` is "money", "percent", "number" or "date" if the answer is nothing else, else ""."""

    yes_no: bool
    only: str
    number: bool


@lru_cache(maxsize=1024)
def _said(answer: str) -> _Said:
    text = answer[:400]
    figures = [each for each in amounts(text) if each.currency or each.unit or each.scale or each.end - each.start > 1]
    only = ""
    whens = [span for span, _ in [*dates(text), *periods(text)]] + [each.span() for each in YEAR.finditer(text)]
    if whens and _nothing_else(text, whens):
        only = "date"
    elif figures and _leads(text, figures[0].start):
        first = figures[0]
        only = "money" if first.currency else "percent" if first.unit == "%" else "number"
        letter = (
            first.end - first.start <= 3
            and not (first.currency or first.unit)
            and text[first.start : first.end].isalnum()
        )
        behind = text[first.end :]
        if letter or (only == "number" and re.search(r"[A-Z]", behind)) or re.match(r"[A-Za-z-]", behind):
            only = ""
    number = bool(re.search(r"\d", text) or in_words(text) or _QUANTIFIER.search(text))
    return _Said(_SAYS_YES_NO.match(text) is not None, only, number)


def _nothing_else(text: str, spans: list[tuple[int, int]]) -> bool:
    rest = list(text)
    for start, end in spans:
        rest[start:end] = " " * (end - start)
    return _ABOUT.fullmatch("".join(rest)) is not None


def _leads(text: str, start: int) -> bool:
    return _ABOUT.fullmatch(text[:start]) is not None


def refused_if_other(question: str, answer: Answer) -> Answer:
    """Return ``answer``, or "unanswerable" with the reason if it repeats the question or is of another kind."""
    kind = kind_asked(question)
    if answer.status != "answered":
        return answer
    if repeats(question, answer.answer):
        why = f"The reply repeats the question: {answer.answer}"
    elif not fits(kind, answer.answer):
        why = f"The question asks for {kind}, and the reply is none: {answer.answer}"
    else:
        return answer
    return replace(answer, status="unanswerable", answer=UNANSWERABLE, citations=(), error=why)


_OFFERS: Final = re.compile(r"\b(?:or|nor|both|either|neither|between|which\s+of)\b", re.IGNORECASE)
"""Words of questions that offer names to choose from."""


def repeats(question: str, answer: str) -> bool:
    """Return whether an answer only repeats words of a question that offers nothing to choose from.

    "Alder Inc." is no answer to "Which company acquired Alder?".
    """
    name = _LEGAL.sub("", answer.strip().rstrip("."))
    said, asked = (" ".join(re.findall(r"\w+", text.casefold())) for text in (name, question[:LONGEST_QUESTION]))
    chosen = kind_asked(question).name in ("yes/no", "choice") or _OFFERS.search(question) is not None
    return bool(said) and not chosen and f" {said} " in f" {asked} "


def fits(kind: Kind, answer: str) -> bool:
    """Return whether an answer may be of a kind; False only if it contradicts the kind."""
    if kind.name == "unknown":
        return True
    said = _said(answer)
    if kind.name == "yes/no":
        return said.yes_no or _is_sentence(answer)
    if kind.name == "choice":
        return _is_choice(kind.choices, answer, said)
    if kind.name in ("who", "person", "organisation", "place"):
        wrong = _LEGAL if kind.name == "person" else _HONORIFIC if kind.name in ("organisation", "place") else None
        return (
            not (said.only or _ONLY_YES_NO.fullmatch(answer))
            and re.search(r"[^\W\d_]", answer) is not None
            and not (wrong and wrong.search(answer.strip()))
        )
    if kind.name == "date":
        return said.only not in ("money", "percent") and _TIME_WORD.search(answer) is not None
    excluded = {"count": ("money", "percent"), "money": ("percent",), "percent": ("money",)}.get(kind.name, ())
    return said.number and said.only not in (*excluded, "date")


def _is_choice(choices: tuple[str, ...], answer: str, said: _Said) -> bool:
    if "yes" in choices and (said.yes_no or _is_sentence(answer)):
        return True
    stems = set(content_stems(answer))
    return any(stems.intersection(content_stems(each)) for each in choices) or any(
        answer.casefold() in each.casefold() for each in choices
    )


def _is_sentence(answer: str) -> bool:
    """Return whether an answer is a statement, which may say yes or no in other words."""
    return answer.count(" ") >= _WORDS_OF_SENTENCE and re.search(rf"\b{_AUXILIARY}\b", answer) is not None


_WORDS_OF_SENTENCE: Final = 4  # project default
