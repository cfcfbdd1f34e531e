"""Longer documents out of shorter ones: joined whole, so that the text around the evidence stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from okralong.lab.datasets.pooling import JOINT, CellSpan, Pooled, PooledDocument, PooledQuestion, Span
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import InputError


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a shorter document stands."""

    doc_id: str
    start: int

    def moved(self, span: Span) -> Span:
        """The span of the shorter document in the longer one."""
        return Span(self.doc_id, self.start + span.start_char, self.start + span.end_char)


def without_repeats(pooled: Pooled) -> Pooled:
    """Less the documents that share a text with an earlier one, as one that was filled up does, and their questions.

    Joined, they would show a question's evidence in a second place, where nothing is marked.
    """
    seen: set[str] = set()
    kept = []
    for document in pooled.documents:
        if seen.isdisjoint(document.placed):
            kept.append(document)
            seen.update(document.placed)
    ids = {document.doc_id for document in kept}
    questions = tuple(question for question in pooled.questions if ids.issuperset(question.doc_ids))
    return replace(pooled, documents=tuple(kept), questions=questions)


def longer(pooled: Pooled, tokens: int, spare: Sequence[PooledDocument] = ()) -> Pooled:
    """The same questions over documents of at least ``tokens`` o200k tokens each.

    Documents are joined in their order until there are enough tokens; the last is filled up with the others from the
    first on, and then with ``spare`` ones. A question is asked of the document that took its own in; its spans move
    along. Raises InputError when all documents together are too short.
    """
    members: list[list[PooledDocument]] = [[]]
    for document in pooled.documents:
        if members[-1] and _size(members[-1]) >= tokens:
            members.append([])
        members[-1].append(document)
    own = len(members[-1])
    held = {document.doc_id for document in members[-1]}
    for filler in [document for document in (*pooled.documents, *spare) if document.doc_id not in held]:
        if _size(members[-1]) >= tokens:
            break
        members[-1].append(filler)
    if _size(members[-1]) < tokens:
        raise InputError(f"All documents together have fewer than {tokens:,} tokens. Choose shorter ones or give more.")
    documents, places = [], {}
    for number, joined in enumerate(members):
        doc_id = f"joined-{tokens}-{number:04d}"
        placed: dict[str, int] = {}
        at = 0
        for position, document in enumerate(joined):
            if number + 1 < len(members) or position < own:
                places[document.doc_id] = _Place(doc_id, at)
            placed.update((text_id, at + start) for text_id, start in document.placed.items())
            at += len(document.text) + len(JOINT)
        documents.append(PooledDocument(doc_id, JOINT.join(document.text for document in joined), placed))
    return Pooled(tuple(documents), tuple(_moved(pooled, places)), pooled.left_out)


def _size(documents: Sequence[PooledDocument]) -> int:
    return count_tokens(JOINT.join(document.text for document in documents))


def _moved(pooled: Pooled, places: Mapping[str, _Place]) -> Iterator[PooledQuestion]:
    for question in pooled.questions:
        homes = dict.fromkeys(places[doc_id].doc_id for doc_id in question.doc_ids)
        yield replace(
            question,
            doc_ids=tuple(homes),
            evidence=tuple(places[span.doc_id].moved(span) for span in question.evidence),
            cells=tuple(
                CellSpan(places[cell.row.doc_id].moved(cell.row), places[cell.header.doc_id].moved(cell.header))
                for cell in question.cells
            ),
        )
