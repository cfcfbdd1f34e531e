"""What a sweep file may say, and the cells that it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.sweeps.config import (
    EMBEDDED_WORDS,
    OtherSets,
    Sweep,
    SweepFolder,
    expand,
    sizes_by_set,
    tables_by_cell,
)
from okralong.pipelines.core.config import parse_config, shipped_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.methods.registry import FullPolicy

FILE = """
title: The town
side: test
seeds: [7, 8]
overrides: {analyzer.kind: rules, llm.max_in_flight: 4}
sets:
  - {name: town, part: all, pool_tokens: 1000}
  - {name: town, part: all, pool_tokens: 2000, label: long town}
methods:
  okralong: {}
  base: {strategy: std_rag, variants: [default]}
variants:
  default: {}
  dense: {policy: policy/paper.yaml, policy_overrides: {fusion.only: semantic}}
  gold: {analyzer: gold, corrupted: 0.2, methods: [okralong]}
against: [base, okralong/dense]
"""


def sweep(text: str = FILE, **given: Any) -> Sweep:
    return parse_config(Sweep, text, "town.yaml", {key.replace("__", "."): value for key, value in given.items()})


def test_every_method_meets_every_set_variant_and_seed_that_is_for_it(tmp_path: Path) -> None:
    plans = expand(sweep(), SweepFolder(tmp_path))
    assert len(plans) == 2 * 2 * (3 + 1)
    assert [plan.named.cell for plan in plans[:3]] == [
        "okralong__town-all__default__7",
        "okralong__town-all__default__8",
        "okralong__town-all__dense__7",
    ]
    assert {plan.named.set for plan in plans} == {"town all", "long town"}
    assert {plan.config.strategy for plan in plans if plan.named.method == "base"} == {"std_rag"}
    assert all(plan.config.llm.seed == plan.named.seed and plan.config.llm.max_in_flight == 4 for plan in plans)


def test_variants_change_policy_and_analyzer(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path)
    plans = {(p.named.variant, p.named.set): p for p in expand(sweep(), folder) if p.named.method == "okralong"}
    default, dense, gold = (plans[name, "town all"] for name in ("default", "dense", "gold"))
    assert (default.policy.name, dense.policy.name, dense.policy.fusion.only) == ("default", "paper", "semantic")
    assert default.config.analyzer.kind == "rules"
    assert gold.config.analyzer.kind == "labels"
    assert gold.config.analyzer.labels == str(tmp_path / "sets" / "town-all" / "labels.jsonl")
    corrupt = plans["gold", "long town"].config.analyzer.corrupt
    assert corrupt is not None
    assert (corrupt.share, corrupt.seed) == (0.2, 8), "labels are corrupted by the cell's own seed"
    assert dense.config.policy == str(folder.policy("dense"))


def test_a_set_is_indexed_once_at_the_sizes_of_all_its_cells(tmp_path: Path) -> None:
    sizes = sizes_by_set(expand(sweep(), SweepFolder(tmp_path)))
    assert sizes == {"town all": [150, 256, 400, 512], "long town": [150, 256, 400, 512]}


def test_a_variant_may_name_its_compressor_and_others_share_the_archive_of_the_first(tmp_path: Path) -> None:
    variants = {"default": {}, "slots": {"methods": ["sara"], "overrides": {"sara.compressor": "icae"}}}
    methods = {"base": {"strategy": "std_rag"}, "sara": {}}
    plans = expand(sweep(methods=methods, variants=variants, against=["base"], seeds=[7]), SweepFolder(tmp_path))
    tables = {(p.named.method, p.named.variant): tables_by_cell(plans)[p.named.cell] for p in plans}
    assert tables == {
        ("base", "default"): ("shipped", "embedded"),
        ("sara", "default"): ("shipped", "embedded"),
        ("sara", "slots"): ("icae", "embedded"),
    }
    alone = [plan for plan in plans if plan.named.method == "base"]
    assert set(tables_by_cell(alone).values()) == {("none", "embedded")}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": 5.0}, "budget is not a known key"),
        ({"methods.okralong.strategie": "x"}, "methods.okralong.strategie is not a known key"),
        ({"variants.dense.policy_override": {}}, "variants.dense.policy_override is not a known key"),
        ({"against": ["std_rag"]}, "against names 'std_rag', which is none of okralong, okralong/dense"),
        ({"variants.gold.methods": ["flare"]}, "gold names 'flare', which is none of okralong, base"),
        ({"methods.base.variants": ["wide"]}, "base names 'wide', which is none of default, dense, gold"),
        ({"seeds": [7, 7]}, "seeds holds 7 twice"),
        ({"side": "dev"}, "side"),
        ({"methods": {"a__b": {}}}, "String should match pattern"),
        ({"budget_usd": 0.0}, "budget_usd = 0.0"),
        ({"variants.gold.corrupted": 1.5}, "variants.gold.corrupted = 1.5"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=r"town\.yaml cannot be used") as refused:
        parse_config(Sweep, FILE, "town.yaml", given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"methods.unheard": {}}, "There is no strategy 'unheard'"),
        ({"overrides.llm.windwo": 8000}, "llm.windwo is not a known key"),
        ({"variants.dense.policy_overrides": {"fusion.onyl": "exact"}}, "fusion.onyl is not a known key"),
        ({"overrides.budget_usd": 5.0}, "sets budget_usd, which the sweep sets for each cell"),
        ({"methods.llmlingua": {}}, "needs a local language model"),
        (
            {"methods.long-town": {"strategy": "std_rag"}, "methods.long town": {"strategy": "std_rag"}},
            "share the folder",
        ),
    ],
)
def test_what_a_cell_cannot_be_is_refused_before_anything_is_read(
    given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    overrides = {"overrides": {"analyzer.kind": "rules"}}
    for key, value in given.items():
        if key.startswith("overrides."):
            overrides["overrides"][key.removeprefix("overrides.")] = value
        else:
            overrides[key] = value
    with pytest.raises(ConfigError) as refused:
        expand(parse_config(Sweep, FILE, "town.yaml", overrides), SweepFolder(tmp_path))
    assert said in str(refused.value)


def test_a_sweep_runs_over_other_sets_with_fewer_questions() -> None:
    other = parse_config(OtherSets, "sets: [{name: village, part: all, limit: 9}, {name: city, part: all}]", "x.yaml")
    few = sweep().over(other).limited(4)
    assert (few.catalog, [(each.named, each.limit) for each in few.sets]) == (
        "datasets.yaml",
        [("village all", 4), ("city all", 4)],
    )
    assert few.methods == sweep().methods
    with pytest.raises(ConfigError, match="sets holds 'city all' twice"):
        parse_config(OtherSets, "sets: [{name: city, part: all}, {name: city, part: all}]", "x.yaml")


def test_the_embedded_models_replace_those_that_need_a_key(tmp_path: Path) -> None:
    paid = """
title: The town
side: test
answer: paper/answer.yaml
overrides: {llm.window: 64000, concurrency: 1, analyzer: {kind: heads}}
embedding: facebook/contriever-msmarco
sets: [{name: town, part: all}]
methods: {okralong: {}, raptor: {variants: [large]}}
variants:
  default: {policy: policy/paper.yaml}
  large: {policy: policy/paper.yaml, overrides: {llm.model: gpt-4o}}
against: [okralong/large, okralong]
judge: {overrides: {llm.model: gpt-4o}}
"""
    here = sweep(paid).embedded()
    (plan,) = expand(here, SweepFolder(tmp_path))
    assert (plan.named.method, plan.named.variant, plan.config.llm.base_url) == ("okralong", "default", "embedded")
    assert (plan.config.concurrency, plan.config.analyzer.kind, plan.policy.name) == (1, "heads", "paper")
    assert (here.embedding, here.judge, here.against) == ("embedded", None, ["okralong"])
    assert EMBEDDED_WORDS in here.words
    only = paid.replace("okralong: {}, ", "").replace("[okralong/large, okralong]", "[]")
    with pytest.raises(ConfigError, match="nothing is left for --embedded"):
        sweep(only).embedded()


def test_the_paper_s_set_up_is_a_config(tmp_path: Path) -> None:
    paper = sweep(FILE.replace("overrides: {analyzer.kind: rules, llm.max_in_flight: 4}", "answer: paper/answer.yaml"))
    config = next(plan.config for plan in expand(paper, SweepFolder(tmp_path)) if plan.named.variant == "default")
    assert (config.analyzer.kind, config.analyzer.model) == ("label_scorer", "meta-llama/Llama-3.2-1B-Instruct")
    assert (config.llm.model, config.llm.demonstrations) == ("gpt-4o-2024-08-06", True)
    index = parse_config(IndexConfig, shipped_config("paper/index.yaml"), "paper/index.yaml")
    assert (index.embedding.of, index.embedding.model) == ("each", "facebook/contriever-msmarco")
    policy = parse_config(FullPolicy, shipped_config("policy/paper.yaml"), "policy/paper.yaml")
    assert {*policy.granularities(), policy.std_rag.granularity} == set(index.granularities)
