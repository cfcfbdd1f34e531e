"""The sweeps that ship: every policy that they name is there, and an ablation takes away what it says and no more."""

from __future__ import annotations

from typing import get_args

import pytest

from okralong.lab.evidence.config import PolicyMethod, Sweep
from okralong.lab.evidence.sweep import index_config, scaled_policies
from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.answering.organizer import fusion_weights, organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Pattern, Plan, QuestionType
from tests.conftest import CHECKOUT
from tests.fakes.tools import analysis

SHIPPED = sorted(path.name for path in (CHECKOUT / "okralong" / "configs" / "evidence").glob("*.yaml"))


def policies(name: str) -> dict[str, dict[float, Policy]]:
    sweep = load_config(Sweep, f"evidence/{name}")
    return {method: scaled_policies(how) for method, how in sweep.methods.items() if isinstance(how, PolicyMethod)}


@pytest.mark.parametrize("name", SHIPPED)
def test_it_can_be_run(name: str) -> None:
    by_method = policies(name)
    config = index_config(load_config(Sweep, f"evidence/{name}"), by_method)
    assert set(config.granularities) >= {512}
    assert all(1.0 in by_scale for by_scale in by_method.values())


def test_each_ablation_takes_one_part_away() -> None:
    found = {method: by_scale[1.0] for method, by_scale in policies("ablations.yaml").items()}
    ours, linear, semantic = found["ours"], found["every workflow linear"], found["semantic only"]
    assert {_plan(linear, kind).workflow for kind in TYPES} == {"linear"}
    assert linear.model_copy(update={"workflow": ours.workflow}) == ours
    assert {_plan(ours, kind).granularity for kind in TYPES} == {150}
    for size in (256, 512):
        same = found[f"one chunk size {size}"]
        assert {_plan(same, kind).granularity for kind in TYPES} == {size}
        assert same.model_copy(update={"factoid": ours.factoid, "contextual": ours.contextual}) == ours
        assert [_plan(same, kind).count for kind in TYPES] == [_plan(ours, kind).count for kind in TYPES]
    for only, weights in (("exact only", (1.0, 0.0)), ("semantic only", (0.0, 1.0))):
        assert {fusion_weights(pattern, found[only]) for pattern in get_args(Pattern)} == {weights}
        assert found[only].fusion.model_copy(update={"only": None}) == ours.fusion
    bare = found["none of the three"]
    assert bare.workflow == linear.workflow
    assert bare.fusion == semantic.fusion
    assert bare.factoid == found["one chunk size 256"].factoid
    assert found["gold labels"] == ours


def test_corruption_differs_in_labels_alone() -> None:
    sweep = load_config(Sweep, "evidence/corruption.yaml")
    first, *others = (by_scale[1.0] for by_scale in policies("corruption.yaml").values())
    assert others == [first] * 11
    shares = {name: each.corrupt for name, each in sweep.analyzers.items() if each.corrupt is not None}
    assert sorted((each.share, each.seed) for each in shares.values()) == [
        *((share, seed) for share in (0.1, 0.2, 0.3) for seed in (7, 8, 9)),
        (1.0, 7),
    ]
    for name, method in sweep.methods.items():
        if isinstance(method, PolicyMethod) and (held := shares.get(method.analyzer)) is not None:
            assert name == f"{held.share:.0%} seed {held.seed}".replace("%", " %")
            assert method.overrides == {}


def test_labels_differ_in_labels_alone() -> None:
    sweep = load_config(Sweep, "evidence/labels.yaml")
    by_policy = {name: by_scale[1.0] for name, by_scale in policies("labels.yaml").items()}
    for start in ("paper", "ours"):
        mine = {name: method for name, method in sweep.methods.items() if name.startswith(start)}
        assert len({by_policy[name].model_dump_json() for name in mine}) == 1
        replaced = [tuple(m.labels) for m in mine.values() if isinstance(m, PolicyMethod) and m.labels]
        assert replaced == [("type",), ("pattern",), ("evidence",)] * 2


def _plan(policy: Policy, kind: QuestionType) -> Plan:
    return organize(analysis(kind), policy, precise=False)
