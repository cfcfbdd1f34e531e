"""From a sweep to its cells: one answer run each, with the config and the policy that it will have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import parse_config, read_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.evaluation.sweeps.config import CellName, Sweep, SweepSet, Variant
from okralong.pipelines.methods.registry import granularities_needed, load_strategy, needs_scorer, reads_vectors
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.sara.artifact import NONE

BETWEEN = "__"
"""Stands between the parts of a cell's name; no part holds it."""


@dataclass(frozen=True)
class SweepFolder:
    """Where the parts of a sweep lie below its folder, which is absolute: actors have working folders of their own."""

    path: Path

    def cell(self, cell: str) -> Path:
        """The run folder of a cell."""
        return self.path / "cells" / cell

    def runs(self) -> list[Path]:
        """The run folders of all cells that were ever begun here."""
        return sorted(place for place in (self.path / "cells").glob("*") if place.is_dir())

    def questions(self, chosen: SweepSet) -> Path:
        """The questions of a set."""
        return self.path / "sets" / slug(chosen.named) / "questions.jsonl"

    def labels(self, chosen: SweepSet) -> Path:
        """The gold labels of a set's questions."""
        return self.path / "sets" / slug(chosen.named) / "labels.jsonl"

    def policy(self, variant: str) -> Path:
        """The policy of a variant."""
        return self.path / "policies" / f"{slug(variant)}.yaml"


@dataclass(frozen=True)
class CellPlan:
    """A cell: its names, its set, and what its run is told. ``config.policy`` is where ``policy`` will lie."""

    named: CellName
    chosen: SweepSet
    config: RunConfig
    policy: Policy

    @property
    def granularities(self) -> list[int]:
        """Chunk sizes, in tokens, that the set's archive must hold for it."""
        return granularities_needed(self.config.strategy, self.policy)


def expand(sweep: Sweep, folder: SweepFolder) -> list[CellPlan]:
    """All cells, set by set. Raises ConfigError for an unknown strategy, and where a config or policy cannot be used,
    naming the method and the variant.
    """
    where, text = read_config(sweep.answer)
    plans = []
    policies = {name: policy_of(sweep, variant) for name, variant in sweep.variants.items()}
    for chosen in sweep.sets:
        for method, variant in sweep.systems():
            strategy = sweep.methods[method].strategy or method
            load_strategy(strategy)
            for seed in sweep.seeds:
                keys = {
                    **sweep.overrides,
                    **sweep.variants[variant].overrides,
                    **_analyzer(sweep.variants[variant], folder.labels(chosen), seed),
                    "strategy": strategy,
                    "policy": str(folder.policy(variant)),
                    "llm.seed": seed,
                }
                config = parse_config(RunConfig, text, f"{where} (method {method}, variant {variant})", keys)
                named = CellName(cell_name(method, chosen, variant, seed), method, chosen.named, variant, seed)
                plans.append(CellPlan(named, chosen, config, policies[variant]))
    _check(sweep, plans)
    return plans


def policy_of(sweep: Sweep, variant: Variant) -> Policy:
    """The policy of a variant. Raises ConfigError when an override is none of its keys."""
    source = variant.policy
    if source is None:
        where, text = read_config(sweep.answer)
        source = parse_config(RunConfig, text, where, {**sweep.overrides, **variant.overrides}).policy
    where, text = read_config(source)
    return parse_config(Policy, text, where, variant.policy_overrides)


def cell_name(method: str, chosen: SweepSet, variant: str, seed: int) -> str:
    """The name of a cell and of its folder."""
    return BETWEEN.join((slug(method), slug(chosen.named), slug(variant), str(seed)))


def slug(name: str) -> str:
    """A name as a part of a folder's name."""
    return re.sub(r"\s+", "-", name.strip())


def sizes_by_set(plans: Sequence[CellPlan]) -> dict[str, list[int]]:
    """By set: the chunk sizes of one archive for all cells of it, so that each set is indexed once."""
    sizes: dict[str, set[int]] = {}
    for plan in plans:
        sizes.setdefault(plan.named.set, set()).update(plan.granularities)
    return {name: sorted(found) for name, found in sizes.items()}


def compressors_by_set(plans: Sequence[CellPlan]) -> dict[str, str]:
    """By set: the compressor whose table its archive needs, as an index config names it. An archive holds one: cells
    that name another are refused when they are prepared.
    """
    wanted = {plan.named.set: NONE for plan in plans}
    for plan in plans:
        if wanted[plan.named.set] == NONE and reads_vectors(plan.config.strategy):
            wanted[plan.named.set] = plan.config.sara.compressor
    return wanted


def _analyzer(variant: Variant, labels: Path, seed: int) -> Mapping[str, Any]:
    keys: dict[str, Any] = {}
    if variant.analyzer == "gold":
        keys |= {"analyzer": {"kind": "labels", "labels": str(labels)}}
    if variant.corrupted is not None:
        keys |= {"analyzer.corrupt": {"share": variant.corrupted, "seed": seed}}
    return keys


def _check(sweep: Sweep, plans: Sequence[CellPlan]) -> None:
    names = [plan.named.cell for plan in plans]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Two cells of the sweep would share the folder {twice[0]}. Name methods and sets apart.")
    for plan in plans:
        for key in ("budget_usd", "replies_from"):
            if getattr(plan.config, key):
                raise ConfigError(
                    f"The answer config of the sweep sets {key}, which the sweep deals out itself. Leave it out there, "
                    "and set budget_usd or share_replies in the sweep."
                )
        if needs_scorer(plan.config.strategy, plan.policy) and plan.config.scorer is None:
            raise ConfigError(
                f"The cell {plan.named.cell} needs a local language model that measures likelihoods, for its strategy "
                "or its policy's selection of evidence. Add scorer: {model: embedded} to the sweep's overrides."
            )
