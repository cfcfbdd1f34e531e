"""Quotations: the words around the answer, on one line, and found again in the passage."""

from __future__ import annotations

import re

from okralong.lab.datasets.pooling import Span
from okralong.lab.training.rows.reader_replies import MOST_QUOTES, MOST_WORDS, answer_reply, quotable, quotes
from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.prompts import parse_answer
from okralong.pipelines.core.types import Passage

TEXT = (
    "The Beacon line boat is made at our works in Zealand-Cross. "
    + "It is slow but sure, and " * 8
    + 'its "old" engine gives 4.2 million\nturns a year, of which half are wasted in harbour, as the crew will tell.'
)


def passage(text: str = TEXT, start: int = 100, doc_id: str = "d") -> Passage:
    return Passage(doc_id, start, start + len(text), text, 0, 1.0)


def test_a_reply_made_of_quotes_leads_back_to_the_evidence() -> None:
    shown = [passage("Nothing of use.", 0), passage()]
    evidence = [Span("d", 100, 159), Span("d", 160, 100 + len(TEXT)), Span("other", 0, 50)]
    found = quotes(shown, evidence, "4.2 million")
    assert [number for number, _ in found] == [2, 2]
    assert all(len(words.split()) <= MOST_WORDS and '"' not in words and "\n" not in words for _, words in found)
    assert "4.2 million turns" in found[1][1]
    parsed = parse_answer(answer_reply("4.2 million", found))
    assert parsed.answer == "4.2 million"
    citations = find_citations(parsed.evidence, shown)
    assert len(citations) == 2
    assert citations[0].quote == TEXT[:58]
    assert "4.2 million\nturns" in citations[1].quote


def test_evidence_that_is_not_shown_is_not_quoted_and_no_reply_is_full_of_quotes() -> None:
    assert quotes([passage()], [Span("d", 0, 100), Span("e", 100, 200)]) == []
    told = "".join(f"The mill number {n} has burned down in winter. " for n in range(9))
    many = [Span("d", match.start(), match.end()) for match in re.finditer(r"mill number \d", told)]
    assert len(quotes([passage(told, 0)], many)) == MOST_QUOTES


def test_a_bare_figure_is_quoted_with_its_row_or_sentence() -> None:
    text = "Works, by town\nInchmoor | opened | in 1922 | 41 people\nOxenholm | opened | in 1978 | 12 people\n"
    at = text.index("1922")
    found = quotes([passage(text, 0)], [Span("d", at, at + 4)], "Inchmoor")
    assert found == [(1, "Inchmoor | opened | in 1922 | 41 people")]


def test_words_between_quote_marks_are_taken_whole_or_not_at_all() -> None:
    assert quotable('He said "no" and left', "left") == "and left"
    assert quotable('""', "x") == ""
    assert quotable("| Revenue | 12 | 14 |", "14") == "Revenue | 12 | 14"
