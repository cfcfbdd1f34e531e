"""Chunks ranked by what stands around them, as an operator and through the policy."""

from __future__ import annotations

import asyncio

import pytest

from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.retrieve import (
    assembled_retrieval,
    boost_by_neighbours,
    boost_by_wider,
    primary_retrieval,
)
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Chunk, Document, Hit
from okralong.pipelines.methods.registry import FullPolicy
from tests.fakes.tools import ScriptedTools, analysis, paper_policy


def hit(start: int, end: int, score: float, *, doc_id: str = "d", ordinal: int = 0, size: int = 150) -> Hit:
    return Hit(Chunk(f"{doc_id}-{size}-{start:04d}", doc_id, size, ordinal, start, end, 1, "x"), score)


def scores(hits: list[Hit]) -> dict[str, float]:
    return {each.chunk.chunk_id: round(each.score, 6) for each in hits}


def test_a_chunk_gains_by_the_share_of_it_that_each_larger_chunk_covers() -> None:
    small = [hit(0, 100, 0.2), hit(100, 200, 0.3), hit(200, 300, 0.5)]
    wide = [hit(0, 150, 1.0, size=512), hit(150, 250, 0.4, size=512), hit(0, 300, 9.0, doc_id="other", size=512)]
    boosted = boost_by_wider(small, wide, 0.5)
    assert scores(boosted) == {
        "d-150-0000": 0.7,  # 0.2 + 0.5 * 1.0
        "d-150-0100": 0.65,  # 0.3 + 0.5 * (0.5 * 1.0 + 0.5 * 0.4)
        "d-150-0200": 0.6,  # 0.5 + 0.5 * 0.5 * 0.4
    }
    assert [each.chunk.start_char for each in boosted] == [0, 100, 200]


def test_a_chunk_gains_by_its_better_neighbour_of_its_own_document() -> None:
    hits = [hit(0, 9, 1.0, ordinal=0), hit(9, 18, 0.1, ordinal=1), hit(18, 27, 0.6, ordinal=2)]
    hits += [hit(0, 9, 0.5, doc_id="other", ordinal=3)]
    assert scores(boost_by_neighbours(hits, 0.5)) == {
        "d-150-0000": 1.0 + 0.5 * 0.1,
        "d-150-0009": 0.1 + 0.5 * 1.0,
        "d-150-0018": 0.6 + 0.5 * 0.1,
        "other-150-0000": 0.5,
    }


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_nothing_is_lost_and_the_best_stands_first(weight: float) -> None:
    hits = [hit(start, start + 10, start % 7 / 7, ordinal=start // 10) for start in range(0, 200, 10)]
    for found in (
        boost_by_neighbours(hits, weight),
        boost_by_wider(hits, hits, weight),
        boost_by_wider(hits, [], weight),
    ):
        assert {each.chunk for each in found} == {each.chunk for each in hits}
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def _documents() -> list[Document]:
    filler = "The harbour was quiet and nothing was written down that day. " * 60
    near = "Alder Orchards in the valley of the Wend. " * 12 + "Cider: 1,480. " + "Alder Orchards again. " * 12
    return [Document("a", filler + near + filler, sha256="a" * 64), Document("b", filler + "Cider: 9,999. " + filler)]


def test_the_policy_decides_whether_the_larger_chunks_are_looked_up() -> None:
    plain, boosted = (
        paper_policy(),
        paper_policy(fusion__surroundings={"granularity": 512, "weight": 1.0}),
    )
    for policy, steps in ((plain, ["retrieve"]), (boosted, ["retrieve", "retrieve/wide"])):
        tools = ScriptedTools(_documents(), policy=policy)
        plan = organize(analysis("extractive"), policy, precise=False)
        hits = asyncio.run(assembled_retrieval(tools, "retrieve", "Cider of Alder Orchards", plan))
        assert [call.step for call in tools.calls if call.tool == "retrieve"] == steps
        assert all(each.chunk.granularity == 150 for each in hits)
        assert "1,480" in hits[0].chunk.text or "Alder" in hits[0].chunk.text
    assert plain.granularities() == [150, 256, 400]
    assert boosted.granularities() == [150, 256, 400, 512]


def test_chunks_as_large_as_their_surroundings_are_ranked_by_themselves() -> None:
    policy = paper_policy(fusion__surroundings={"granularity": 150, "weight": 1.0})
    tools = ScriptedTools(_documents(), policy=policy)
    assert asyncio.run(primary_retrieval(tools, "primary/retrieve", "Cider"))
    assert [call.step for call in tools.calls if call.tool == "retrieve"] == ["primary/retrieve"]


def test_our_policy_in_the_plan() -> None:
    policy = load_config(FullPolicy, "policy/default.yaml")
    wide = organize(analysis("abstractive"), policy, precise=False)
    assert (wide.granularity, wide.count, wide.neighbour_weight) == (150, 15, 0.6)
    assert any("better neighbour" in reason for reason in wide.reasons)
    step = organize(analysis("multi-bridge", evidence=False), policy, precise=False)
    assert (step.granularity, step.count, step.neighbour_weight) == (150, 3, 0.0)
    assert any("3 chunks of 150 tokens" in reason for reason in step.reasons)
    assert any("the 512 tokens around one count 0.5" in reason for reason in step.reasons)
    assert any("the 512 tokens around one count 0.5" in reason for reason in wide.reasons)
    single = organize(analysis("arithmetic"), policy, precise=False)
    assert (single.count, single.extension_tokens, single.recover_tables) == (6, 0, True)
