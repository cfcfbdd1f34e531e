"""The sweeps that ship can be expanded: every strategy and policy that they name is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.lab.sweeps.config import Sweep, SweepFolder, expand, sizes_by_set
from okralong.pipelines.core.config import parse_config, shipped_config
from okralong.pipelines.methods import sara
from okralong.pipelines.methods.registry import BUILT_IN


def shipped(name: str) -> Sweep:
    return parse_config(Sweep, shipped_config(name), name)


@pytest.mark.parametrize("name", ["sweeps/smoke.yaml", "sweeps/paper.yaml", "sweeps/papers.yaml"])
def test_it_expands(name: str, tmp_path: Path) -> None:
    sweep = shipped(name)
    plans = expand(sweep, SweepFolder(tmp_path))
    assert len(plans) == len(sweep.sets) * len(sweep.systems())
    assert {plan.config.strategy for plan in plans} <= set(BUILT_IN)
    assert len({plan.config.strategy for plan in plans}) >= len(BUILT_IN) // 2
    assert set(sizes_by_set(plans)) == {chosen.named for chosen in sweep.sets}


def test_the_sweeps_for_two_cores_compare_without_the_reader(tmp_path: Path) -> None:
    sweeps = [shipped(f"sweeps/{name}.yaml") for name in ("all", "graphs")]
    plans = [plan for sweep in sweeps for plan in expand(sweep, SweepFolder(tmp_path))]
    assert len({plan.config.strategy for plan in plans}) > len(BUILT_IN) // 2
    assert all(plan.config.reranker.answers == "never" for plan in plans if plan.named.variant == "default")


def test_the_paper_s_ablations_change_one_thing_each(tmp_path: Path) -> None:
    plans = expand(shipped("sweeps/paper.yaml"), SweepFolder(tmp_path))
    policies = {plan.named.variant: plan.policy for plan in plans if plan.named.method == "okralong"}
    paper = policies["default"]
    assert set(policies["no orchestration"].workflow.values()) == {"linear"}
    assert policies["no orchestration"].model_copy(update={"workflow": paper.workflow}) == paper
    assert policies["dense alone"].fusion.model_copy(update={"only": None}) == paper.fusion
    assert policies["one granularity"].granularities() == [150, 256]
    shares = {p.named.variant: p.config.analyzer.corrupt for p in plans}
    assert [c.share for c in shares.values() if c is not None] == [0.1, 0.2, 0.3]


def test_sara_s_sweep_changes_what_its_variants_say(tmp_path: Path) -> None:
    sweep = shipped("sweeps/sara.yaml")
    plans = expand(sweep, SweepFolder(tmp_path))
    assert len(plans) == len(sweep.sets) * len(sweep.systems())
    policies = {plan.named.variant: plan.policy.section(sara.Section) for plan in plans if plan.named.method == "sara"}
    paper = policies["EMB"]
    assert (paper.retriever, paper.selection, paper.space, paper.text, paper.candidates) == (
        "exact",
        "novelty",
        "compressor",
        5,
        10,
    )
    assert policies["C no compression"] == paper.model_copy(update={"compression": False})
    assert policies["R no reranking"] == paper.model_copy(update={"selection": "none"})
    assert policies["CSI"] == paper.model_copy(update={"selection": "csi"})
    assert policies["cross-encoder"] == paper.model_copy(update={"retriever": "hybrid", "rerank": 30})
    assert [policies[f"k {k}"].text for k in (0, 1, 8, 10)] == [0, 1, 8, 10]
    assert {plan.named.variant for plan in plans if plan.named.method == "budget_rag"} == {
        "RAG",
        "512 tokens",
        "1024 tokens",
    }


def test_the_sweeps_for_confidence_withhold_texts_and_search_whole_archives(tmp_path: Path) -> None:
    for name in ("confidence", "confidence_generated"):
        sweep = shipped(f"sweeps/{name}.yaml")
        assert len(expand(sweep, SweepFolder(tmp_path))) == len(sweep.sets)
        assert any(each.withheld for each in sweep.sets)
        assert any(each.typed for each in sweep.sets)
    readers = shipped("sweeps/confidence.yaml")
    assert {each.scope for each in readers.sets} == {"documents", "archive"}
