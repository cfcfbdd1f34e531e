"""A call to a replica is made again while that is away, and no other error is retried."""

from __future__ import annotations

import pytest
from ray.exceptions import RayActorError

from okralong.actors import cluster


@pytest.mark.parametrize(("error", "calls"), [(RayActorError(), 3), (ValueError("not the replica's"), 1)])
async def test_only_a_replica_that_is_away_is_asked_again(
    error: Exception, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "REPLICA_PAUSE_S", 0.0)
    asked = []

    async def ask() -> str:
        asked.append(1)
        if len(asked) < 3:
            raise error
        return "a reply"

    if calls > 1:
        assert await cluster.retry_replica(ask) == "a reply"
    else:
        with pytest.raises(ValueError, match="not the replica's"):
            await cluster.retry_replica(ask)
    assert len(asked) == calls
