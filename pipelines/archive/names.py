"""Which documents of a scope a query names: "the operating margin of Amazon in Q2 2024" names one filing of seventy.

A chunk says neither company nor year, so over a whole archive the same row is found in every filing. What a document is
called does say it: its id, title, file name, and what its metadata give. Pure, and without an index of its own: names
are short.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from okralong.pipelines.archive.bm25 import analyze_query
from okralong.pipelines.archive.metadata import DocumentFacts

LONGEST_VALUE: Final = 80
"""Characters of a metadata value that may be part of a name; ours. Longer ones are descriptions."""

_BETWEEN: Final = re.compile(r"[_\W]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=(?:19|20)\d\d)")
"""Where the words of a name end: "Coca-Cola_Q2_2024", "annualReport2023"."""

_QUARTERS: Final = {"first": "q1", "second": "q2", "third": "q3", "fourth": "q4"}
_QUARTER: Final = re.compile(rf"\b({'|'.join(_QUARTERS)})[\s-]+quarter\b", re.IGNORECASE)


class DocumentNames:
    """The names of an archive's documents, ``names`` by doc_id."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._count = len(names)
        self._holding: dict[str, set[str]] = {}
        for doc_id, name in names.items():
            for term in _terms(name):
                self._holding.setdefault(term, set()).add(doc_id)

    @classmethod
    def of(cls, facts: Iterable[DocumentFacts]) -> DocumentNames:
        """Of what an archive knows of its documents."""
        return cls({each.doc_id: name_of(each) for each in facts})

    def named(self, query: str, doc_ids: Sequence[str] = ()) -> dict[str, float]:
        """The documents of the scope (none given: all) that share a word of their names with the query, each with a
        share of 0 to 1.

        A word counts by how few documents of the scope have it, ln(documents / those), and 1 where one alone has it; a
        word that all have counts nothing. The sums are divided by the largest where that is more than 1.
        """
        scope = frozenset(doc_ids)
        size = len(scope) or self._count
        if size < 2:
            return {}
        found: dict[str, float] = {}
        for term in _terms(query):
            holding = self._holding.get(term, set())
            here = holding & scope if scope else holding
            if here and len(here) < size:
                for doc_id in here:
                    found[doc_id] = found.get(doc_id, 0.0) + math.log(size / len(here)) / math.log(size)
        most = max(found.values(), default=0.0)
        return {doc_id: share / max(1.0, most) for doc_id, share in found.items()}


def name_of(facts: DocumentFacts) -> str:
    """All that a document is called, in one line."""
    values = [value for known in (facts.given, facts.own) for value in known.values() if len(value) <= LONGEST_VALUE]
    return " ".join(filter(None, dict.fromkeys([facts.title, facts.doc_id, facts.source_name, *values])))


def _terms(text: str) -> set[str]:
    text = _QUARTER.sub(lambda match: _QUARTERS[match[1].lower()], text)
    return set(analyze_query(_BETWEEN.sub(" ", text)))
