"""Which of several documents with one id an archive shows. A pure function of all that the source files hold.

So it does not matter in which order files came, night by night: the archive is that of a single run over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from okralong.pipelines.archives.catalogue import Claim


def settle(claims: Iterable[Claim]) -> list[Claim]:
    """The same claims in order of doc_id; of each id the one from the first source file is seen, the rest shadowed."""
    ordered = sorted(claims, key=lambda claim: (claim.doc_id, claim.source_name, claim.source_uri))
    settled: list[Claim] = []
    for claim in ordered:
        shadowed = bool(settled) and settled[-1].doc_id == claim.doc_id
        settled.append(claim if claim.shadowed == shadowed else replace(claim, shadowed=shadowed))
    return settled


def winners(settled: Iterable[Claim]) -> dict[str, Claim]:
    """The documents that are seen, by doc_id."""
    return {claim.doc_id: claim for claim in settled if not claim.shadowed}
