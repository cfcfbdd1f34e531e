"""The one comparison of a ranking with an oracle's scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from okralong.pipelines.core.types import Hit


def assert_agrees(hits: Sequence[Hit], oracle: Mapping[str, float], k: int, within: float) -> None:
    """The hits are the oracle's best ``k``: each score the oracle's own, none missing that is better than the last."""
    expected = sorted(oracle.values(), reverse=True)[:k]
    assert [hit.score for hit in hits] == pytest.approx(expected, abs=within)
    for hit in hits:
        assert hit.score == pytest.approx(oracle[hit.chunk.chunk_id], abs=within)
    ids = [hit.chunk.chunk_id for hit in hits]
    assert len(set(ids)) == len(ids)
    assert ids == [hit.chunk.chunk_id for hit in sorted(hits, key=lambda hit: (-hit.score, hit.chunk.chunk_id))]
