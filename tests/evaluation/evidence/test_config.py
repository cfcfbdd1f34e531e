"""What a sweep file may not say, and how it is told."""

from __future__ import annotations

import pytest

from okralong.lab.evidence.config import PlainMethod, PolicyMethod
from okralong.lab.evidence.sweep import index_config, scaled_policies
from okralong.pipelines.core.types import ConfigError
from tests.evaluation.evidence.invented_rows import SWEEP, sweep


@pytest.mark.parametrize(
    ("change", "to", "says"),
    [
        ("title: Invented", "title: Invented\ntitel: twice", "titel is not a known key"),
        ("against: [base]", "against: [bm25]", "'bm25' is not one of the methods (base, mine)"),
        ("pictured: [base, mine]", "pictured: [yours]", "'yours' is not one of the methods"),
        ("scales: [0.5, 1]", "scales: [0.5, 2]", "scales must hold 1.0"),
        ("scales: [0.5, 1]", "scales: [1, 0.5, 1.0]", "scales holds 1.0 twice"),
        ("counts: [2, 4]", "counts: [2, 8]", "counts must hold count (4)"),
        ("counts: [2, 4]", "counts: [4, 4]", "counts holds 4 twice"),
        ("count: 4,", "cuont: 4,", "methods.base.retrieval.cuont is not a known key"),
        ("retriever: exact", "retriever: bm25", "methods.base.retrieval.retriever = 'bm25'"),
        (
            "{policy: policy/paper.yaml,",
            "{policy: policy/paper.yaml, writer: gpt,",
            "methods.mine.policy.writer = 'gpt'",
        ),
        ("{policy: policy/paper.yaml,", "{", "methods.mine.policy.policy is missing"),
        ("side: test", "side: train", "side = 'train'"),
        ("{name: two, part: all}", "{name: one, part: all}", "sets holds one all twice"),
        ("{name: two, part: all}", "{name: two, part: all, pool_tokens: 10}", "sets.1.pool_tokens = 10"),
        ("{name: two, part: all}", "{name: two, part: all, fill: [one]}", "sets.1.fill.0 = 'one'"),
    ],
)
def test_a_mistake_is_told_by_its_key(change: str, to: str, says: str) -> None:
    assert change in SWEEP
    with pytest.raises(ConfigError) as refused:
        sweep(SWEEP.replace(change, to))
    assert says in str(refused.value)
    assert ("retrieval." in says) or "PlainMethod" not in str(refused.value)


def test_each_method_is_what_its_keys_say() -> None:
    methods = sweep().methods
    assert isinstance(methods["base"], PlainMethod)
    assert isinstance(methods["mine"], PolicyMethod)
    assert methods["mine"].scales == [0.5, 1.0]


def test_a_scale_multiplies_counts_and_budgets() -> None:
    method = PolicyMethod(
        policy="policy/paper.yaml", scales=[0.1, 1.0, 2.0], overrides={"factoid.tokens": 400, "split.tokens": 100}
    )
    little, plain, much = (scaled_policies(method)[scale] for scale in (0.1, 1.0, 2.0))
    assert [p.contextual.count for p in (little, plain, much)] == [1, 8, 16]
    assert [p.factoid.count for p in (little, plain, much)] == [1, 5, 10]
    assert [p.factoid.tokens for p in (little, plain, much)] == [40, 400, 800]
    assert [p.split.tokens for p in (little, plain, much)] == [16, 100, 200]
    assert {p.contextual.tokens for p in (little, plain, much)} == {None}
    assert plain.primary == much.primary


def test_an_override_that_is_no_key_of_the_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"split\.cuont is not a known key"):
        scaled_policies(PolicyMethod(policy="policy/paper.yaml", overrides={"split.cuont": 3}))


def test_the_archive_holds_what_every_method_needs() -> None:
    chosen = sweep(SWEEP.replace("granularity: 150", "granularity: 512"))
    mine = chosen.methods["mine"]
    assert isinstance(mine, PolicyMethod)
    assert index_config(chosen, {"mine": scaled_policies(mine)}).granularities == [150, 256, 400, 512]
