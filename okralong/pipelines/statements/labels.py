"""Compare the words of questions with those of a table's labels, sections, heads and titles.

Two labels mean the same if they have the same words in normal form: "Total current assets" and "current assets", "Net
loss per common share - basic and diluted" and "basic earnings per share". Not in the paper.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

Words = frozenset[str]

_EMPTY: Final = frozenset(
    [
        *("the", "of", "and", "a", "an", "at", "in", "for", "by", "from", "balance", "amount", "period", "year", "our"),
        *(
            "is",
            "are",
            "was",
            "were",
            "there",
            "on",
            "to",
            "as",
            "its",
            "their",
            "or",
            "with",
            "assuming",
            "respectively",
        ),
        *("during", "reported", "line", "item", "value", "figure", "per_cent", "etc", "see", "ended", "fiscal"),
    ]
)
_SAME: Final = {
    same: word
    for word, others in (
        ("income", "profit loss earning"),
        ("expense", "benefit"),
        ("operating", "operation"),
        ("end", "ending"),
        ("beginning", "begin"),
        ("increase", "decrease change"),
        ("stockholder", "shareholder owner"),
        ("diluted", "dilution"),
        ("provided", "used generated"),
        ("tax", "taxation"),
    )
    for same in others.split()
}
"""Words in labels and questions that are compared as the same word."""
_LOOSE: Final = frozenset(
    ["total", "company", "end", "overall", "common", "ordinary", "basic", "consolidated", "group"]
)
"""Words that may be in only one of question and label. project default. "basic" is among them, because earnings per
share are basic unless the question says diluted."""
_NET_MATTERS: Final = frozenset(
    ["interest", "debt", "asset", "expense", "margin", "capital", "worth", "gain", "income"]
)
"""Beside these words "net" makes another item: net interest income, net debt, net assets."""
_CASH: Final = re.compile(
    r"\bcash(?:(?:\s*,)?\s*(?:,|\band\b|&)\s*(?:cash\s+equivalents|equivalents|restricted\s+cash(?:\s+equivalents)?))+",
    re.IGNORECASE,
)
""""cash and cash equivalents" and similar names, which all mean cash."""
_WHOSE: Final = re.compile(
    r"\b(?:attributable|applicable|available|allocable)\s+to\b.*?(?=[,:;\u2013\u2014-]|\bper\b|$)", re.IGNORECASE
)
"""The part of a label that says to whom income is attributable."""
_NET_OF: Final = re.compile(r"\s*[,\u2013\u2014-]?\s*\b(?:net\s+of|less|including|excluding\s+accumulated)\b.*$", re.I)
"""Deductions at the end of a label."""
_NET_END: Final = re.compile(r"\s*[,\u2013\u2014-]\s*net\s*$", re.IGNORECASE)
_BRACKETS: Final = re.compile(r"\([^()]*\)|\[[^\][]*\]")
_OF_CHANGE: Final = re.compile(r"%|\b(?:changes?|per|growth|percent\w*)\b", re.IGNORECASE)
"""Words in a label's brackets which say that the row holds changes or amounts per unit, not the item's amounts."""
_NOTE: Final = re.compile(r"[\s,]*\(?\b(?:see\s+)?notes?\s+\d+[\w.]*(?:(?:,|\s+and)\s+\d+)*\)?", re.IGNORECASE)
_MARKS: Final = re.compile(
    r"(?<=[A-Za-z)])[\s\u00b9\u00b2\u00b3\u2070-\u2079*\u2020\u2021.:\u200b\xa0]+$|(?<=[a-z]{3})\d$"
)
"""Footnote marks and leaders at the end of a label."""
_LONGEST: Final = 400  # project default
"""Characters of a label that are compared."""
_TOKEN: Final = re.compile(r"[a-z]+(?:-?\d+[a-z\d]*)?|\d+(?:\.\d+)?[a-z]*")


_PLAIN: Final = str.maketrans("\u2010\u2011\u2019", "--'")


@lru_cache(maxsize=65_536)
def words_of(text: str) -> Words:
    """Return the words that distinguish one measure from another, in normal form; "AB-3" is one word."""
    plain = " ".join(text.casefold().translate(_PLAIN).split()).replace("'s", "")
    plain = re.sub(r"\beps\b", "earnings per share", plain)
    plain = _CASH.sub("cash", plain).replace("noncurrent", "non current").replace("s'", "s")
    found = (_one_form(word) for word in _TOKEN.findall(plain) if word not in _EMPTY)
    return frozenset(_SAME.get(word, word) for word in found if word not in _EMPTY)


def _one_form(word: str) -> str:
    if not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    word = re.sub(r"is(ation|ed|ing)$", r"iz\1", word)
    return re.sub(r"(?<!s)s$", "", word)


def core(words: Words) -> Words:
    """Return the words without those that may be in only one of question and label."""
    found = words - _LOOSE
    if {"basic", "diluted"} <= words:  # one row states both
        found = (found - {"diluted"}) | {"basic&diluted"}
    if "net" in found and ("share" in found or not found & _NET_MATTERS):
        found -= {"net"}
    return found


@lru_cache(maxsize=65_536)
def label_forms(label: str) -> tuple[tuple[Words, int], ...]:
    """Return the words of a label, as written and without what adds nothing, each with what was left out (0 to 2).

    Brackets and "net of ..." add nothing; a label with "(% change)" or "(per share)" has no forms but its own.
    """
    plain = _MARKS.sub("", _NOTE.sub("", " ".join(label.split())[:_LONGEST]))
    forms = {words_of(plain): 0}
    if "%" in plain or any(_OF_CHANGE.search(each) for each in _BRACKETS.findall(plain)):
        return tuple((words | {"%"}, rank) for words, rank in forms.items())
    shorter = _MARKS.sub("", _NET_END.sub("", _NET_OF.sub("", _BRACKETS.sub(" ", plain))))
    forms.setdefault(words_of(shorter), 1)
    if (common := _WHOSE.sub(" ", shorter)) != shorter:
        forms.setdefault(words_of(common), 2)
    return tuple((words, rank) for words, rank in forms.items() if words)
