"""The bench's third selector: novelty in the space of SARA's compressor, at any chunk size and without a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.config import Sweep
from okralong.lab.evidence.sweep import compressor_of, scaled_policies
from okralong.lab.evidence.tools import BenchTools
from okralong.lab.evidence.writers import GoldWriter
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.select_evidence import choose, choose_novel
from okralong.pipelines.archive.search import stored_vectors
from okralong.pipelines.core.config import parse_config, shipped_config
from okralong.pipelines.core.types import Analysis, ConfigError
from okralong.pipelines.sara.artifact import ArrayCompressor
from tests.fakes.tools import paper_policy
from tests.sara.compressors import random_compressor

pytestmark = pytest.mark.slow

NOVELTY = {"selection__method": "novelty", "selection__space": "compressor"}


async def nobody(*_: object) -> Analysis:
    raise AssertionError("nothing is analysed here")


def tools_for(town: Bench, policy: Policy, compressor: ArrayCompressor | None) -> BenchTools:
    scope = town.pooled.questions[0].doc_ids
    return BenchTools(town.retrievals, policy, scope, (), nobody, GoldWriter(), compressor=compressor)


async def test_the_choice_is_made_among_compressed_vectors(town: Bench, tmp_path: Path) -> None:
    compressor = ArrayCompressor.load(random_compressor(tmp_path, scale=1.0))
    tools = tools_for(town, paper_policy(**NOVELTY), compressor)
    asked = town.pooled.questions[0].item.gold.question.question
    pool = list((await tools.retrieve("retrieve", asked, granularity=64, k=8)).semantic)
    held = await stored_vectors(town.retrievals.archive.clients, [hit.chunk for hit in pool])
    question = town.retrievals.encoder.encode([asked])
    space = compressor.pooled(np.concatenate([question, held]))
    expected = await choose_novel(pool, space[0], space[1:], 4, 0.0)
    assert await choose(tools, "select", asked, pool, 4) == expected
    plain = await choose_novel(pool, question[0], held, 4, 0.0)
    assert await choose(tools_for(town, paper_policy(selection__method="novelty"), None), "s", asked, pool, 4) == plain


async def test_without_a_compressor_it_is_refused(town: Bench) -> None:
    with pytest.raises(ConfigError, match="has none"):
        await tools_for(town, paper_policy(**NOVELTY), None).compress([[0.0] * 384])


def test_the_shipped_sweep_has_three_selectors_and_names_its_compressor(tmp_path: Path) -> None:
    sweep = parse_config(Sweep, shipped_config("evidence/selectors.yaml"), "selectors.yaml")
    chosen: dict[str, Any] = {name: sweep.methods[name] for name in ("novelty", "novelty compressed", "csi")}
    policies = {name: scaled_policies(method) for name, method in chosen.items()}
    spaces = {name: by_scale[1.0].selection for name, by_scale in policies.items()}
    assert [(each.method, each.space) for each in spaces.values()] == [
        ("novelty", "encoder"),
        ("novelty", "compressor"),
        ("csi", "encoder"),
    ]
    one = replace_compressor(sweep, random_compressor(tmp_path / "c"))
    found = compressor_of(one, policies)
    assert found is not None
    assert found.shape.hidden == 48
    assert compressor_of(one, {"csi": policies["csi"]}) is None, "not loaded where no method needs it"
    with pytest.raises(ConfigError, match="holds no compressor"):
        compressor_of(replace_compressor(sweep, tmp_path), policies)


def replace_compressor(sweep: Sweep, folder: Path) -> Sweep:
    return sweep.model_copy(update={"compressor": str(folder)})
