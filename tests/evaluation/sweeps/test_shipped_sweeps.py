"""The sweeps that ship can be expanded, their sets are in their catalogs, and their pages name them."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.sweeps.config import CellPlan, Sweep, SweepFolder, expand, sizes_by_set
from okralong.lab.sweeps.judging import judge_config
from okralong.pipelines.core.config import parse_config, shipped_config
from okralong.pipelines.methods import sara
from okralong.pipelines.methods.registry import BUILT_IN

FILES = sorted(file.name for file in resources.files("okralong.configs").joinpath("sweeps").iterdir())
DOCS = Path(__file__).resolve().parents[3] / "docs"
PAPERS = [file for file in FILES if file.startswith(("okralong_", "sara_"))]
NAMED = "docfinqa enterprise_rag_challenge financebench ledger longbench_v2 loong mudabench multihop_rag t2_ragbench"
BENCHMARKS = [f"{name}.yaml" for name in NAMED.split()]


def shipped(name: str) -> Sweep:
    return parse_config(Sweep, shipped_config(name), name)


def plans_of(name: str, tmp_path: Path) -> dict[str, CellPlan]:
    """The first plan of each variant."""
    plans = expand(shipped(f"sweeps/{name}.yaml"), SweepFolder(tmp_path))
    return {plan.named.variant: plan for plan in reversed(plans)}


@pytest.mark.parametrize("file", FILES)
def test_it_expands_and_its_sets_are_in_its_catalog(file: str, tmp_path: Path) -> None:
    sweep = shipped(f"sweeps/{file}")
    plans = expand(sweep, SweepFolder(tmp_path))
    assert len(plans) == len(sweep.sets) * len(sweep.systems())
    assert {plan.config.strategy for plan in plans} <= set(BUILT_IN)
    assert set(sizes_by_set(plans)) == {chosen.named for chosen in sweep.sets}
    catalog = load_catalog(sweep.catalog)
    for chosen in sweep.sets:
        catalog.source(chosen.name, chosen.part)
        for filler in chosen.fill:
            catalog.source(*filler.split(" ", 1))
    if sweep.judge is not None:
        judge_config(sweep.judge)


def test_the_smoke_sweep_has_every_method() -> None:
    assert set(shipped("sweeps/smoke.yaml").methods) == set(BUILT_IN)


@pytest.mark.parametrize(("page", "wanted"), [("reproduce.md", PAPERS), ("benchmarks.md", BENCHMARKS)])
def test_the_page_has_its_sweeps_and_where_to_get_their_sets(page: str, wanted: list[str]) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"`okralong evaluate sweeps/(\w+\.yaml)`", text))) == wanted
    for file in wanted:
        sweep = shipped(f"sweeps/{file}")
        for chosen in sweep.sets:
            origin = load_catalog(sweep.catalog).source(chosen.name, chosen.part).origin
            assert origin is not None
            assert origin.address in text, f"{file}: {chosen.named}"


def test_the_sweeps_for_two_cores_compare_without_the_reader(tmp_path: Path) -> None:
    sweeps = [shipped(f"sweeps/{name}.yaml") for name in ("all", "graphs")]
    plans = [plan for sweep in sweeps for plan in expand(sweep, SweepFolder(tmp_path))]
    assert len({plan.config.strategy for plan in plans}) > len(BUILT_IN) // 2
    assert all(plan.config.reranker.answers == "never" for plan in plans if plan.named.variant == "default")


def test_the_paper_s_ablations_change_one_thing_each(tmp_path: Path) -> None:
    policies = {name: plan.policy for name, plan in plans_of("okralong_table3", tmp_path).items()}
    paper = policies["default"]
    assert set(policies["no orchestration"].workflow.values()) == {"linear"}
    assert policies["no orchestration"].model_copy(update={"workflow": paper.workflow}) == paper
    assert policies["dense alone"].fusion.model_copy(update={"only": None}) == paper.fusion
    assert policies["one granularity"].granularities() == [150, 256]


def test_wrong_labels_and_other_analyzers_are_variants(tmp_path: Path) -> None:
    corrupt = [plan.config.analyzer.corrupt for plan in plans_of("okralong_robustness", tmp_path).values()]
    assert sorted(each.share for each in corrupt if each is not None) == [0.1, 0.2, 0.3]
    kinds = {name: plan.config.analyzer.kind for name, plan in plans_of("okralong_table4", tmp_path).items()}
    assert kinds == {"default": "heads", "zero shot": "llm", "rules": "rules", "gold labels": "labels"}


def test_sara_s_sweeps_change_what_their_variants_say(tmp_path: Path) -> None:
    names = ("sara_table1", "sara_table4", "sara_figure5", "sara_figure6")
    sections = {
        f"{name} {plan.named.variant}": plan.policy.section(sara.Section)
        for name in names
        for plan in expand(shipped(f"sweeps/{name}.yaml"), SweepFolder(tmp_path))
        if plan.named.method == "sara"
    }
    paper = sections["sara_table1 EMB"]
    assert (paper.retriever, paper.selection, paper.space, paper.text, paper.candidates) == (
        "exact",
        "novelty",
        "compressor",
        5,
        10,
    )
    assert sections["sara_table4 BM25"] == sections["sara_figure5 k 5"] == sections["sara_figure6 default"] == paper
    assert sections["sara_table1 CSI"] == paper.model_copy(update={"selection": "csi"})
    assert sections["sara_figure6 C no compression"] == paper.model_copy(update={"compression": False})
    assert sections["sara_figure6 R no reranking"] == paper.model_copy(update={"selection": "none"})
    assert sections["sara_table4 cross-encoder"] == paper.model_copy(update={"retriever": "hybrid", "rerank": 30})
    assert [sections[f"sara_figure5 k {k}"].text for k in (0, 1, 2, 8, 10)] == [0, 1, 2, 8, 10]
    assert not sections["sara_figure5 k 8 no vectors"].compression


def test_each_seconds_sweep_asks_one_question_at_a_time(tmp_path: Path) -> None:
    for name in ("okralong_table2", "sara_table11"):
        sweep = shipped(f"sweeps/{name}.yaml")
        assert (sweep.parallel, sweep.share_replies) == (1, False)
        assert all(plan.config.concurrency == 1 for plan in expand(sweep, SweepFolder(tmp_path)))


def test_the_sweeps_for_confidence_withhold_texts_and_search_whole_archives(tmp_path: Path) -> None:
    for name in ("confidence", "confidence_generated"):
        sweep = shipped(f"sweeps/{name}.yaml")
        assert len(expand(sweep, SweepFolder(tmp_path))) == len(sweep.sets)
        assert any(each.withheld for each in sweep.sets)
        assert any(each.typed for each in sweep.sets)
    readers = shipped("sweeps/confidence.yaml")
    assert {each.scope for each in readers.sets} == {"documents", "archive"}
