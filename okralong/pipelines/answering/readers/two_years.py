"""Read the amounts of two years from the sentence that states both: "1,558 claims in 2019, against 1,393 in 2018".

Such a sentence names its years, or one and "a year before". It is found by the measure's words; no statement needs to
list the measure. Not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.analyzers.words import content_stems
from okralong.pipelines.answering.readers.spans import LONGEST_LINE
from okralong.pipelines.core.sentences import sentence_ends
from okralong.pipelines.core.types import Answer, Document
from okralong.pipelines.statements.amounts import Amount, amounts, has_cells
from okralong.pipelines.statements.cited import cited_answer
from okralong.pipelines.statements.periods import YEAR, Span, apart, dates, periods
from okralong.pipelines.statements.values import Context, read_value

LEAST_SHARE: Final = 0.75  # project default
"""Least share of the measure's words that the sentence must contain."""
_PARAGRAPH: Final = "\n\n"
_YEAR_BEFORE: Final = re.compile(
    r"\b(?:an?|one)\s+year\s+(?:before|earlier|ago)\b|\b(?:the\s+)?(?:previous|prior|preceding)\s+(?:fiscal\s+)?year\b",
    re.IGNORECASE,
)
_CHANGE: Final = re.compile(
    r"\b(?:increas|decreas|declin|grew|grow|rose|ris|fell|fall|dropp?|improv|reduc)\w*\s+(?:by\s+|of\s+)?\S{0,2}$"
    r"|\bfrom\s+\S{0,2}$",
    re.IGNORECASE,
)
"""Words before an amount that is a change, or the earlier one of "from 3 to 4"."""


def amounts_of_years(measure: str, years: Sequence[str], document: Document) -> list[Answer] | None:
    """Return the amounts of a measure for two years, in their order, or None.

    Return None if no sentence states both, or if the sentences that fit best state different amounts.

    Args:
        measure: A question for the measure, without the document's name.
        years: The two years.
        document: The document to search.
    """
    wanted = set(content_stems(YEAR.sub(" ", measure))) - _GENERAL
    if len(years) != 2 or not wanted:
        return None
    found: dict[tuple[str, str], tuple[float, Span, dict[str, Amount]]] = {}
    for span in _sentences_with(years, document.text):
        sentence = document.text[slice(*span)]
        share = len(wanted.intersection(content_stems(sentence))) / len(wanted)
        pair = _pair_in(sentence, years) if share >= LEAST_SHARE else None
        if pair is not None:
            said = (str(pair[years[0]].digits), str(pair[years[1]].digits))
            if said not in found or found[said][0] < share:
                found[said] = (share, span, pair)
    best = sorted(found.values(), key=lambda each: -each[0])
    if not best or (len(best) > 1 and best[0][0] == best[1][0]):
        return None
    _, (start, end), pair = best[0]
    answers = [_answer(document, start, end, pair[year], year, measure) for year in years]
    units = [each.value.unit for each in answers if each.value is not None and each.value.unit]
    unit = units[0] if units else ""  # only one of the two amounts may name what is counted
    return [replace(each, value=replace(each.value, unit=unit)) for each in answers if each.value is not None]


_GENERAL: Final = frozenset(content_stems("number amount total value rate level figure count quantity"))
"""Stems that sentences about a measure need not contain."""


def _answer(document: Document, start: int, end: int, amount: Amount, year: str, measure: str) -> Answer:
    text = document.text[start:end]
    said = text[slice(*amount.place)].strip()
    kind = "money" if amount.currency else "percent" if amount.unit == "%" else "number"
    value = read_value(kind, said, Context(text, *amount.place, measure, verbatim=True))
    return cited_answer(document, said, replace(value, period=year), start, end)


def _sentences_with(years: Sequence[str], text: str) -> Iterator[Span]:
    """Yield the sentences that name both years, or the later one and the year before it."""
    last = max(years)
    follow = int(last) - int(min(years)) == 1
    at = 0
    for end in (*sentence_ends(text), len(text)):
        start, at = at, end
        start = max(start, text.rfind(_PARAGRAPH, start, end - len(_PARAGRAPH)) + 1)  # a heading has no full stop
        sentence = text[start:end]
        if last in sentence and end - start <= 2 * LONGEST_LINE:
            both = min(years) in sentence or (follow and _YEAR_BEFORE.search(sentence) is not None)
            if both and not has_cells(sentence):
                yield start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())


def _pair_in(sentence: str, years: Sequence[str]) -> dict[str, Amount] | None:
    """Return the amount of each year: the sentence must have two, of one unit, and name each year once."""
    taken = [span for span, _ in [*periods(sentence), *dates(sentence)]]
    free = apart([each for each in amounts(sentence) if not each.year], taken, lambda each: each.place)
    named = [(match.start(), match[0]) for match in YEAR.finditer(sentence)]
    if len(named) == 1:
        named += [(match.start(), min(years)) for match in _YEAR_BEFORE.finditer(sentence)]
    order = [year for _, year in sorted(named)]
    if len(free) != 2 or sorted(order) != sorted(years):
        return None
    one, two = free
    if (one.currency, one.unit, one.scale) != (two.currency, two.unit, two.scale):
        return None
    if _CHANGE.search(sentence[: one.start]):
        return None
    return dict(zip(order, free, strict=True))
