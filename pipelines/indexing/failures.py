"""The documents of a version that could not be had, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from okralong.pipelines.archive.versions import Claim, KnownSource, winners
from okralong.pipelines.indexing.readers.listing import duplicate

Failure = tuple[str, str]
"""(doc_id, one paragraph)"""


def failures_of(settled: Sequence[Claim], sources: Iterable[KnownSource], others: Iterable[Failure]) -> list[Failure]:
    """What failed in each file, what is shadowed, and ``others``, in order of doc_id."""
    seen = winners(settled)
    shadowed = [
        (claim.doc_id, duplicate(claim.doc_id, seen[claim.doc_id].origin, claim.origin).message)
        for claim in settled
        if claim.shadowed
    ]
    return sorted([*others, *(failure for source in sources for failure in source.failed), *shadowed])


def purged_message(doc_id: str, origin: str) -> str:
    """The failure of a document that was purged and still stands in a source file: it stays out."""
    return (
        f"{origin} holds the document {doc_id!r}, which was purged from this archive and stays out of it. Delete it "
        "there as well, or index into another folder."
    )
