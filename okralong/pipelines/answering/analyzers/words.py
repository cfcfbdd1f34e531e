"""Find content words, stems and likely names in questions and passages."""

from __future__ import annotations

import re
from functools import lru_cache

import Stemmer

_WORD = re.compile(r"[A-Za-z][A-Za-z'\u2019&-]*|\d[\d.,]*\d|\d")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d]{2,})[\"\u201d]")
_NAME = re.compile(r"\b[A-Z][\w&'\u2019.-]*(?:\s+(?:of|the|and|&|de|van)\s+(?=[A-Z])|\s+(?=[A-Z]))?")

_UNTOLD = """a about according after all also am an and any are as at be been being between both but by can could did do
does doing done during each either for from given had has have having he her his how if in into is it its itself like
many may me might more most much must neither no nor not of off on one or other our over per please same shall she
should so some such tell than that the their them then there these they this those through to total under until up
upon us was we were what when where whether which while who whom whose why will with within would year years you
your"""

STOP_WORDS = frozenset(_UNTOLD.split())  # project default
"""Words that do not help to find the evidence."""


@lru_cache(maxsize=1)
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")


def words(text: str) -> list[str]:
    """Return the words and numbers of ``text`` in lower case, without possessive 's."""
    return [re.sub(r"['\u2019]s?$", "", word) for word in (match.group().lower() for match in _WORD.finditer(text))]


def content_stems(text: str) -> list[str]:
    """Return the distinct stems of the content words, in order of first use."""
    kept = dict.fromkeys(word for word in words(text) if word not in STOP_WORDS and len(word) > 1)
    return list(dict.fromkeys(_stemmer().stemWords(list(kept))))


def names(question: str) -> list[str]:
    """Return the distinct runs of capitalized words, except a single word that begins the sentence."""
    found: list[str] = []
    start, run = 0, ""
    for match in _NAME.finditer(question):
        if run and match.start() == start:
            run += match.group()
        else:
            _keep_name(found, run, start - len(run))
            run = match.group()
        start = match.end()
    _keep_name(found, run, start - len(run))
    return list(dict.fromkeys(found))


def _keep_name(found: list[str], run: str, at: int) -> None:
    name = re.sub(r"['\u2019]s?$", "", run.strip(" .,"))
    first, _, rest = name.partition(" ")
    if at == 0 and first.lower() in STOP_WORDS | {"describe", "explain", "summarise", "summarize", "list", "compare"}:
        name = rest
    if name and name.lower() not in STOP_WORDS:
        found.append(name)


def literal_tokens(question: str) -> list[str]:
    """Return the tokens to look up verbatim: numbers, quoted strings, names, and what looks like a ticker symbol."""
    quoted = _QUOTED.findall(question)
    numbers = re.findall(r"\d[\d.,]*\d|\d", question)
    tickers = re.findall(r"\b(?:[A-Z]{2}[A-Z\d]*|[A-Za-z]+\d\w*)\b", question)
    return list(dict.fromkeys([*quoted, *numbers, *names(question), *tickers]))
