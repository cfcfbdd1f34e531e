"""The outline of a document: a tree of its sections, as a list in reading order with levels."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

SectionRole = Literal[
    "front", "contents", "body", "statement", "notes", "audit", "boilerplate", "exhibits", "signatures", "certification"
]
"""What a section is for. ``front`` is the cover and what precedes the body, ``audit`` an auditor's report, and
``boilerplate`` are notices about forward-looking statements and the like."""

BESIDE_THE_BODY: Final[frozenset[SectionRole]] = frozenset(
    ("front", "contents", "boilerplate", "exhibits", "signatures", "certification")
)
"""Roles of sections that state little about the company itself."""


@dataclass(frozen=True, slots=True)
class OutlineNode:
    """A section at ``start:end`` of a document's text, with all sections below it.

    ``level`` is 1 for parts, 2 for items and chapters, 3 for statements and the like, 4 for single notes, 5 for
    headings within them. ``page`` is the page that it begins on, "" if the document has no pages.
    """

    title: str
    level: int
    role: SectionRole
    start: int
    end: int
    page: str = ""


@dataclass(frozen=True, slots=True)
class FoundSection:
    """A section that fits a query, with a score from 0 to 1."""

    doc_id: str
    node: OutlineNode
    score: float


def path_at(outline: Sequence[OutlineNode], char: int) -> list[OutlineNode]:
    """Return the sections around a character, the outermost first; ``outline`` is in reading order."""
    found: list[OutlineNode] = []
    level = 10**6
    for node in reversed(outline[: bisect_right(outline, char, key=lambda node: node.start)]):
        if node.level < level:
            found.append(node)
            level = node.level
        if level <= 1:
            break
    return [node for node in reversed(found) if char < node.end]
