"""A choice of chunks is durable, and a run that could not make one is refused before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okralong.pipelines.answering.models import RANKS_ONLY, CrossEncoder, FunctionModels, Generator, GeneratorCall
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.archive.search import search
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import ConfigError, Hit, Plan, Question, Reply
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import prepare
from tests.fakes.tools import paper_policy
from tests.search.small_archive import GRANULARITY, random_corpus, unit_vectors, write_archive


class KeptLog:
    """A journal in a dict."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], str] = {}

    def recorded(self, path: str, kind: str) -> str | None:
        return self.rows.get((path, kind))

    async def record(self, path: str, kind: str, body: str) -> None:
        self.rows[path, kind] = body

    async def admit(self, plan: Plan) -> None:
        pass


async def unused(*arguments: Any, **named: Any) -> Any:
    raise AssertionError(f"nothing here calls this port: {arguments} {named}")


class Unused(Generator):
    async def complete(self, call: GeneratorCall) -> Reply:
        raise AssertionError(f"nothing here calls the generator: {call}")


async def fan_out(branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
    raise AssertionError("nothing here has branches")


def ports(location: Path, cross_encoder: CrossEncoder = RANKS_ONLY, **functions: Any) -> Ports:
    small = write_archive(location, random_corpus(7, documents=6, chunks=9), shards=2)
    archive = small.open()
    return Ports(
        models=FunctionModels(archive, cross_encoder=cross_encoder, embed=unused, analyze=unused, **functions),
        generator=Unused(),
        policy=paper_policy(),
        window=8000,
        count=count_tokens,
        completion_limit=lambda role: 96,
    )


async def test_a_resumed_question_keeps_its_choice(tmp_path: Path) -> None:
    shared, log = ports(tmp_path), KeptLog()
    vector = unit_vectors(3, 1)[0]
    pool = list((await search(shared.models.shards(GRANULARITY), "", vector, (), 6)).semantic)
    calls: list[int] = []

    async def last_two() -> list[Hit]:
        calls.append(1)
        return [pool[0], pool[-1]]

    async def again(offered: Sequence[Hit], query: str = "q") -> list[Hit]:
        tools = QuestionTools(shared, Question("q1", "q"), (), log, fan_out, prefix="split/1")
        return await tools.record_choice("retrieve/select", query, offered, last_two)

    assert await again(pool) == await again(pool) == [pool[0], pool[-1]]
    assert len(calls) == 1
    assert list(log.rows) == [("split/1/retrieve/select", "selection")]
    # Another query, or another pool: the old choice says nothing.
    await again(pool, "another")
    await again(pool[1:], "another")
    assert len(calls) == 3


async def test_vectors_come_from_the_index_and_scores_need_a_model(tmp_path: Path) -> None:
    shared = ports(tmp_path)
    vector = unit_vectors(3, 1)[0]
    pool = list((await search(shared.models.shards(GRANULARITY), "", vector, (), 6)).semantic)
    tools = QuestionTools(shared, Question("q1", "q"), (), KeptLog(), fan_out)
    held = np.asarray(await tools.vectors(pool))
    assert (held @ vector).tolist() == pytest.approx([hit.score for hit in pool], abs=1e-6)
    with pytest.raises(ConfigError, match=r"'paper'.*scorer"):
        await tools.score("", ["text"])


async def test_what_a_choice_spends_on_scores_counts_once(tmp_path: Path) -> None:
    async def score(prefix: str, texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0.05)
        return [[-1.0]] * len(texts)

    tools = QuestionTools(ports(tmp_path, score=score), Question("q1", "q"), (), KeptLog(), fan_out)

    async def scored() -> list[Hit]:
        await asyncio.gather(*(tools.score("", [text]) for text in ("one", "two")))
        return []

    await tools.record_choice("select", "q", [], scored)
    assert tools.seconds.keys() == {"select"}
    assert tools.seconds["select"] > 0.04
    await tools.score("", ["three"])
    assert tools.seconds["score"] > 0.04


def test_a_strategy_without_its_scorer_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    config = load_config(RunConfig, "answer.yaml", {"strategy": "llmlingua"})
    with pytest.raises(ConfigError, match=r"needs a local language model.*scorer: \{model: embedded\}.*Nothing was"):
        prepare(str(tmp_path / "no-archive"), str(tmp_path / "no-questions"), config)
