"""Rank chunks by the sections that they are in. Not in the paper.

Chunks of exhibits, certifications, signatures, tables of contents and boilerplate rank below the body. The tree of
sections is also a second way to a page: the sections whose titles have the query's words, or those that the generator
chose (``choose_sections.py``), raise their chunks.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

from okralong.pipelines.answering.policy import SectionsPolicy
from okralong.pipelines.answering.support import stems
from okralong.pipelines.answering.tools import Retriever
from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.outline import BESIDE_THE_BODY, FoundSection, OutlineNode, SectionRole, path_at
from okralong.pipelines.core.types import Hit
from okralong.pipelines.statements.line_items import items_needed

MOST_DOCUMENTS: Final = 4
"""Documents of a query whose sections are looked at. # project default"""
_FIRST: Final = 12
"""The first hits, which say which documents these are. # project default"""
_ABOVE: Final = 0.5
"""The weight of a word in the title of a section above, for each level up. # project default"""
_LEAST_RARE: Final = 0.5
"""What a word counts that all titles have. # project default"""
_NEAR: Final = 0.5
"""Sections are found that score at least this share of the best one. # project default"""
_EMPTY: Final = stems("end year company group total amount many much report annual financial name following give")
"""Words of questions that fit many titles."""
NEVER: Final = frozenset(("front", "contents", "certification", "signatures"))
"""Roles of sections that are never raised."""
_ASKS: Final[tuple[tuple[SectionRole, str], ...]] = (
    ("front", r"cover|registrant|registered|address|telephone|trading symbol|ticker|exchange|headquarter|auditor"),
    ("contents", r"table of contents|contents page"),
    ("boilerplate", r"forward[- ]looking|cautionary|disclaimer|notice|competent person|safe harbor"),
    ("exhibits", r"exhibit|consent|subsidiar|agreement|auditor|filed|incorporated by reference"),
    ("signatures", r"sign(?:ed|s|atur)|director|officer|attorney|chair"),
    ("certification", r"certif|302|906|officer"),
)
_ASKED_FOR: Final = {role: re.compile(rf"\b(?:{words})", re.IGNORECASE) for role, words in _ASKS}
"""Words of a question that ask for such a section, which is then not lowered."""


@dataclass(frozen=True)
class Ranking:
    """How the sections of documents change the ranking of a query's hits."""

    tools: Retriever
    step: str
    query: str
    names: Sequence[str]
    outlines: Mapping[str, Sequence[OutlineNode]]

    @classmethod
    async def of(
        cls,
        tools: Retriever,
        step: str,
        query: str,
        names: Sequence[str],
        hits: Sequence[Hit],
        meant: Collection[str],
    ) -> Ranking:
        """Read the outlines of the documents that the query means, or of those with most of the first hits."""
        policy = tools.policy.sections
        if policy.by == "none" and policy.lower == 1.0:
            return cls(tools, step, query, names, {})
        counts = Counter(hit.chunk.doc_id for hit in hits[:_FIRST])
        first = sorted(counts, key=lambda doc_id: (doc_id not in meant, -counts[doc_id], doc_id))[:MOST_DOCUMENTS]
        return cls(tools, step, query, names, {doc_id: await tools.outline(doc_id) for doc_id in first})

    async def raised(
        self, hits: Sequence[Hit], granularity: int, chosen: Sequence[FoundSection] | None = None
    ) -> list[Hit]:
        """Return ``hits`` with those of some sections raised, best first. Step: ``step/sections``.

        These are the ``chosen`` sections, or without any, those whose titles fit the query.
        """
        policy = self.tools.policy.sections
        if policy.by == "none":
            return list(hits)
        found = chosen or sections_for(self.query, self.names, self.outlines, policy.most)
        known = {hit.chunk.chunk_id for hit in hits}
        more = await candidates_in(self.tools, f"{self.step}/sections", self.query, found, granularity, policy)
        return raised([*hits, *(hit for hit in more if hit.chunk.chunk_id not in known)], found, policy.weight)

    def lowered(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return ``hits`` with those beside the body lowered, best first."""
        return lower(hits, self.query, self.outlines, self.tools.policy.sections.lower)


def lower(hits: Sequence[Hit], query: str, outlines: Mapping[str, Sequence[OutlineNode]], factor: float) -> list[Hit]:
    """Multiply the scores of chunks beside the body by ``factor``; return hits best first.

    Sections that the query asks for are not lowered.
    """
    if factor == 1.0:
        return list(hits)
    asked = {role for role, words in _ASKED_FOR.items() if words.search(query)}
    low = BESIDE_THE_BODY - asked

    def scored(hit: Hit) -> Hit:
        path = path_at(outlines.get(hit.chunk.doc_id, ()), (hit.chunk.start_char + hit.chunk.end_char) // 2)
        return Hit(hit.chunk, hit.score * factor) if path and path[-1].role in low else hit

    return _sorted(map(scored, hits))


def sections_for(
    query: str, names: Sequence[str], outlines: Mapping[str, Sequence[OutlineNode]], most: int
) -> list[FoundSection]:
    """Return the sections whose titles, with those above, have most of the query's words, weighted by rarity.

    ``names`` in the query do not count: most titles with them have the company's own name. A word may stand for others
    of its subject (``configs/section_words.yaml``), a line item for its statement.
    """
    wanted = list(_wanted(query, names))
    found: list[FoundSection] = []
    for doc_id, outline in outlines.items():
        titles = [stems(node.title) for node in outline]
        held = Counter(word for words in titles for word in words)
        size = len(outline) + 1

        def rarity(words: frozenset[str], held: Counter[str] = held, size: int = size) -> float:
            return sum(math.log(size / (1 + held[word])) + _LEAST_RARE for word in words)

        above: list[tuple[int, frozenset[str]]] = []
        for node, words in zip(outline, titles, strict=True):
            above = [*((level, own) for level, own in above if level < node.level), (node.level, words)]
            score = here = 0.0
            for forms in wanted:
                own = max((rarity(form) for form in forms if form <= words), default=0.0)
                up = max((rarity(form) for form in forms for _, other in above if form <= other), default=0.0)
                score += max(own, _ABOVE * up)
                here += own
            if here and node.role not in NEVER:
                precise = min(1.0, here / max(rarity(words), _LEAST_RARE))
                found.append(FoundSection(doc_id, node, score * math.sqrt(precise)))
    first = max((each.score for each in found), default=1.0)
    found = [FoundSection(each.doc_id, each.node, each.score / first) for each in found if each.score >= _NEAR * first]
    return sorted(found, key=lambda each: (-each.score, each.doc_id, each.node.start))[:most]


def _wanted(query: str, names: Sequence[str]) -> Iterator[list[frozenset[str]]]:
    """Yield the forms of each word of a query that titles may have, as sets of stems that stand together."""
    said = stems(query) - stems(" ".join(names))
    words = _section_words()
    taken: set[str] = set()
    for forms in words.of_subjects:
        if any(form <= said for form in forms):
            yield forms
            taken |= {word for form in forms if form <= said for word in form}
    for statement in sorted({item.statement for item in items_needed(query)} & words.of_statements.keys()):
        yield words.of_statements[statement]
    for word in sorted(said - taken - _EMPTY):
        yield [frozenset((word,))]


class SectionWords(Settings):
    """The content of ``section_words.yaml``: wordings of one subject, and titles of statements by their names."""

    subjects: list[list[str]]
    statements: dict[str, list[str]]

    @cached_property
    def of_subjects(self) -> list[list[frozenset[str]]]:
        """The subjects' wordings as stems."""
        return [list(map(stems, forms)) for forms in self.subjects]

    @cached_property
    def of_statements(self) -> dict[str, list[frozenset[str]]]:
        """The statements' titles as stems."""
        return {name: list(map(stems, forms)) for name, forms in self.statements.items()}


@cache
def _section_words() -> SectionWords:
    return load_config(SectionWords, "section_words.yaml")


def raised(hits: Sequence[Hit], sections: Sequence[FoundSection], weight: float) -> list[Hit]:
    """Add ``weight`` times the score of the best section around each chunk, times the best hit's score."""
    top = max((hit.score for hit in hits), default=0.0)

    def scored(hit: Hit) -> Hit:
        middle = (hit.chunk.start_char + hit.chunk.end_char) // 2
        inside = (
            each.score
            for each in sections
            if each.doc_id == hit.chunk.doc_id and each.node.start <= middle < each.node.end
        )
        return Hit(hit.chunk, hit.score + weight * top * max(inside, default=0.0))

    return _sorted(map(scored, hits))


async def candidates_in(
    tools: Retriever, step: str, query: str, sections: Sequence[FoundSection], granularity: int, policy: SectionsPolicy
) -> list[Hit]:
    """Return chunks within ``sections``, the best by BM25 first. Step: ``step``."""
    doc_ids = sorted({each.doc_id for each in sections})
    if not doc_ids:
        return []
    found = await tools.retrieve(step, query, granularity=granularity, k=policy.candidates, doc_ids=doc_ids)
    chunks = {hit.chunk.chunk_id: hit.chunk for hit in (*found.exact, *found.semantic)}
    return [
        Hit(chunk, 0.0)
        for chunk in chunks.values()
        if any(
            each.doc_id == chunk.doc_id and each.node.start <= (chunk.start_char + chunk.end_char) // 2 < each.node.end
            for each in sections
        )
    ]


def _sorted(hits: Iterable[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.chunk_id))
