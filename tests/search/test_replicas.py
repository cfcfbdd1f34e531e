"""Hot shards get more processes, and calls go where fewest wait."""

from __future__ import annotations

import pytest

from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.archive.search import Spread, calls_by_shard, replicas_by_shard
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.config import RunConfig


def test_a_question_asks_the_shards_of_its_documents() -> None:
    scopes = [("a",), ("a", "b", "c"), (), ("a",)]
    expected = [1, 1, 1]
    for documents in ({"a"}, {"a", "b", "c"}, {"a"}):
        for number in {shard_of(document, 3) for document in documents}:
            expected[number] += 1
    assert calls_by_shard(scopes, 3) == expected


@pytest.mark.parametrize(
    ("calls", "replicas", "dealt"),
    [
        ([5, 5, 5], 1, [1, 1, 1]),
        ([5, 5, 5], 2, [2, 2, 2]),
        ([100, 1, 1], 2, [4, 1, 1]),
        ([0, 30, 10, 0], 2, [1, 4, 2, 1]),
        ([0, 0], 3, [1, 1]),
        ([7], 4, [4]),
    ],
)
def test_more_go_to_those_that_are_asked_most(calls: list[int], replicas: int, dealt: list[int]) -> None:
    assert replicas_by_shard(calls, replicas) == dealt


def test_calls_take_turns_and_go_where_fewest_wait() -> None:
    spread = Spread(3)
    assert [spread.take() for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    for place in (1, 1, 2):
        spread.done(place)
    assert [spread.take() for _ in range(3)] == [1, 2, 1]
    assert spread.take(avoid=frozenset({1, 2})) == 0
    with pytest.raises(ValueError, match="empty"):
        spread.take(avoid=frozenset({0, 1, 2}))


def test_the_shipped_config_has_one_of_each_without_a_gpu() -> None:
    config = load_config(RunConfig, "answer.yaml")
    assert (config.search.replicas, config.search.gpus_per_shard) == (1, 0.0)


@pytest.mark.parametrize("key", ["search.replicas", "search.gpus_per_shard", "search.copies"])
def test_impossible_values_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_config(RunConfig, "answer.yaml", {key: -1})
