"""Values read off the rows of tables by code: the row whose label is what is asked for, and its column of the year.

For cells of a table over many documents, where nobody else reads well: the label of a statement's row says in a word or
two what a cross-encoder has to guess from a page of figures. And the scale and the currency of a value, which often
stand above the piece of the table that was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.amounts import amounts
from okralong.pipelines.answering.periods import YEAR
from okralong.pipelines.answering.values import Context, read_value
from okralong.pipelines.core.types import Answer, Citation, Document, Passage, TypedValue

ALIKE: Final = 0.5
"""Share of the words of label and measure together that both must have; ours."""
ABOVE: Final = 6000
"""Characters before a value in which the head of its table is looked for; ours, for a long balance sheet."""
_LEAD: Final = re.compile(
    r"^\s*(?:what|how)\s+(?:is|are|was|were|much|many)\s+(?:the\s+)?(?:number of\s+)?", re.IGNORECASE
)
_WHEN: Final = re.compile(r"\b(?:in|for|during)\s+(?:fiscal\s+(?:year\s+)?)?(?:FY)?(?:19|20)\d\d\b.*$")
_EMPTY: Final = frozenset(
    ["the", "of", "and", "a", "at", "in", "for", "by", "from", "balance", "amount", "period", "year"]
)
_SAME: Final = {"profit": "income", "loss": "income", "earning": "income", "operation": "operating", "ending": "end"}
"""Words for which the rows of statements have another one."""
_HEADS: Final = 40
"""Lines above a row in which its years are looked for; ours."""


def row_answer(question: str, kind: str, passages: Sequence[Passage], document: Document) -> Answer | None:
    """The value of the row of the passages whose label is nearest to what ``question`` asks for; None where none is
    near. ``document`` holds the passages. The row is cited.
    """
    wanted = _words(_WHEN.sub("", _LEAD.sub("", question)))
    years = YEAR.findall(question)
    best: tuple[float, int, int] | None = None
    for passage in passages:
        for start, end, label in _rows(passage):
            own = _words(label)
            alike = len(wanted & own) / max(len(wanted | own), 1)
            if wanted and wanted <= own and alike >= ALIKE and (best is None or alike > best[0]):
                best = alike, start, end
    if best is None:
        return None
    _, start, end = best
    line = document.text[start:end]
    cells = [each for each in amounts(line) if not each.year]
    place = _column(document.text, start, years[0], len(cells)) if len(set(years)) == 1 else 0
    if place is None or not cells:
        return None
    cell = cells[place]
    said = line[cell.start : cell.end].strip()
    value = value_in(question, kind, said, document, start + cell.start, start + cell.end)
    if value is None:
        return None
    return Answer(
        "answered", said, (Citation(document.doc_id, start, end, line),), context=tuple(passages), value=value
    )


def value_in(question: str, kind: str, said: str, document: Document, start: int, end: int) -> TypedValue | None:
    """The value of the words at these characters of a document, with what stands above them there; None for none."""
    first = max(0, start - ABOVE)
    text = document.text[first : end + 200]
    try:
        return read_value(kind, said, Context(text, start - first, end - first, question))
    except ValueError:
        return None


def with_heads(question: str, kind: str, answer: Answer, document: Document) -> Answer:
    """``answer`` with the scale and the currency that its document says above the piece of the table that was shown."""
    value = answer.value
    if value is None or value.number is None or not answer.citations or (value.scale and value.currency):
        return answer
    cited = answer.citations[0]
    at = document.text.find(answer.answer, cited.start_char, cited.end_char)
    if at < 0:
        return answer
    wider = value_in(question, kind, answer.answer, document, at, at + len(answer.answer))
    if wider is None or wider.number is None or (value.scale and wider.scale != value.scale):
        return answer
    return replace(answer, value=replace(wider, period=wider.period or value.period))


def _rows(passage: Passage) -> Iterator[tuple[int, int, str]]:
    """The rows of a passage that have a label and an amount, as characters of the document, with the label."""
    at = 0
    for line in passage.text.split("\n"):
        found = [each for each in amounts(line) if not each.year]
        if found and (label := line[: found[0].start].strip(" |\t$(:.\u200b")) and len(label) < 120:
            yield passage.start_char + at, passage.start_char + at + len(line), label
        at += len(line) + 1


def _column(text: str, start: int, year: str, cells: int) -> int | None:
    """Which amount of a row is that of the year, by the nearest head above that names years; None: another year's."""
    lines = text[max(0, start - ABOVE) : start].split("\n")[-_HEADS:]
    for line in reversed(lines):
        years = re.findall(r"(?<!\d)(?:19|20)\d\d(?!\d|,\d)", line)
        if years and not [each for each in amounts(line) if not each.year and each.places]:
            if year not in years:
                return None
            place = years.index(year)
            return place if place < cells else None
    return 0


def _words(text: str) -> frozenset[str]:
    """The words that tell one measure from another, in one form each."""
    found = (re.sub(r"(?<!s)s$", "", word) for word in re.findall(r"[a-z]+", text.casefold()) if word not in _EMPTY)
    return frozenset(_SAME.get(word, word) for word in found)
