"""The keys of sweep and tune files, and their expansion into cells, each an answer run with config and policy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from okralong.lab.datasets.split import SIDES, Side
from okralong.lab.evidence.config import SetChoice, SweepSettings, repeated
from okralong.lab.sweeps.metrics import METRICS
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import Settings, parse_config, read_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.methods.registry import FullPolicy, StrategySpec, describe
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.sara.config import NONE

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+([ ._+-][A-Za-z0-9]+)*$", max_length=60)]
"""A name: letters and digits separated by single signs, because names become parts of folder names, joined by "__"."""

DEFAULT = "default"
"""The name of the variant if a sweep defines none."""


@dataclass(frozen=True, slots=True)
class CellName:
    """The columns that name a cell in the tables."""

    cell: str
    method: str
    set: str
    variant: str
    seed: int


class SweepSet(SetChoice):
    """A set of the catalog, as for the evidence bench. ``label`` is its name in the tables (null: "name part")."""

    label: Name | None = None

    @property
    def named(self) -> str:
        """Its name in the tables."""
        return self.label or f"{self.name} {self.part}"


class OtherSets(Settings):
    """A file of sets, and the catalog that has them, to run a sweep's methods over other data."""

    catalog: str = "datasets.yaml"
    sets: list[SweepSet] = Field(min_length=1)

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        if (twice := repeated([each.named for each in self.sets])) is not None:
            raise ValueError(f"sets holds {twice!r} twice; give a set that is wanted twice a label")
        return self


class SweepMethod(Settings):
    """A method: its ``strategy`` (null: the method's name in the sweep), run with ``variants`` (null: all)."""

    strategy: str | None = None
    variants: list[Name] | None = None


class Variant(Settings):
    """A change of how methods are run: another policy, or changes of the policy or the answer config.

    ``policy`` is a policy file (null: the answer config's). ``policy_overrides`` and ``overrides`` map dotted keys of
    the policy and of the answer config to values. ``analyzer`` "gold" uses the set's own types, and labels derived from
    retrieval and the marked evidence. ``corrupted`` is the share of the analyzer's labels that are changed, by the
    cell's seed. ``methods`` lists the methods that the variant applies to (null: all).
    """

    policy: str | None = None
    policy_overrides: dict[str, Any] = Field(default_factory=dict)
    overrides: dict[str, Any] = Field(default_factory=dict)
    analyzer: Literal["gold"] | None = None
    corrupted: Annotated[float, Field(ge=0, le=1)] | None = None
    methods: list[Name] | None = None


class JudgeConfig(Settings):
    """A language model that judges whether answers are right.

    ``answer`` is an answer config whose ``llm`` is the judge; ``overrides`` maps dotted keys of it to values. With
    ``marks``, a further call per answer returns SARA's four marks. All calls are repeated for each of ``seeds`` seeds:
    the config's ``llm.seed`` and the following ones. The judge's dollars count against the sweep's budget.
    """

    answer: str = "answer.yaml"
    overrides: dict[str, Any] = Field(default_factory=dict)
    marks: bool = False
    seeds: Annotated[int, Field(ge=1, le=16)] = 1


class CellSettings(SweepSettings):
    """The keys that a sweep and a tune file share.

    ``seeds`` are the seeds of the generator and of corrupted labels. ``answer`` is the answer config of all cells,
    changed by ``overrides`` (dotted keys). With ``every``, questions without marked evidence or a searchable answer are
    asked, too. ``embedding`` is the encoder of the archives: "embedded" or a model folder. ``budget_usd`` is a cap on
    everything together; ``parallel`` is the number of cells to run at a time.
    """

    seeds: list[int] = Field(default=[7], min_length=1)
    answer: str = "answer.yaml"
    overrides: dict[str, Any] = Field(default_factory=dict)
    sets: list[SweepSet] = Field(min_length=1)
    every: bool = False
    embedding: str = Field(default=EMBEDDED, min_length=1)
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    parallel: Annotated[int, Field(ge=1, le=64)] = 2


class Sweep(CellSettings):
    """Every method with each of its variants, on every set, with every seed. Each combination is a *cell*.

    ``side`` is a side of the split. With "all", sets are taken as a whole, except the questions that shipped models
    were trained, or policies chosen, on. ``against`` lists the systems, "method" or "method/variant", with which all
    others are compared. ``index_times`` is the number of questions whose documents are indexed apart to measure
    ``seconds_indexing``. With ``share_replies``, the reply to a request that another cell of the set has sent is reused
    for free. ``words`` is a text to print above the tables.
    """

    words: str = ""
    side: Side | Literal["all"]
    methods: dict[Name, SweepMethod] = Field(min_length=1)
    variants: dict[Name, Variant] = Field(default_factory=lambda: {DEFAULT: Variant()}, min_length=1)
    against: list[str] = Field(default_factory=list)
    judge: JudgeConfig | None = None
    index_times: Annotated[int, Field(ge=0)] = 0
    share_replies: bool = True

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        _are_known("variants of methods", {m: each.variants for m, each in self.methods.items()}, self.variants)
        _are_known("methods of variants", {v: each.methods for v, each in self.variants.items()}, self.methods)
        labels = [each.named for each in self.sets]
        for key, values in (("sets", labels), ("seeds", self.seeds), ("against", self.against)):
            if (twice := repeated(values)) is not None:
                raise ValueError(f"{key} holds {twice!r} twice; give a set that is wanted twice a label")
        known = self.systems()
        if not known:
            raise ValueError("no variant is for any of the methods, so there is nothing to run")
        for name in self.against:
            if as_system(name) not in known:
                listed = ", ".join(m if v == DEFAULT else f"{m}/{v}" for m, v in known)
                raise ValueError(f"against names {name!r}, which is none of {listed}")
        return self

    def systems(self) -> list[tuple[str, str]]:
        """Return each method with each of its variants."""
        return [
            (method, variant)
            for method, chosen in self.methods.items()
            for variant, how in self.variants.items()
            if (chosen.variants is None or variant in chosen.variants)
            and (how.methods is None or method in how.methods)
        ]

    def over(self, other: OtherSets) -> Self:
        """Return the sweep over other sets."""
        return self.model_copy(update={"catalog": other.catalog, "sets": other.sets})

    def limited(self, limit: int) -> Self:
        """Return the sweep with at most ``limit`` questions of each set."""
        sets = [each.model_copy(update={"limit": min(limit, each.limit or limit)}) for each in self.sets]
        return self.model_copy(update={"sets": sets})

    def embedded(self) -> Sweep:
        """Return the sweep with the models that need no key and no download.

        The default answer config replaces its own, all keys of the generator are left out, and so are the judge, and
        the variants that only change the generator. Raises ConfigError if nothing is left to run.
        """
        kept = {name: each for name, each in self.variants.items() if not any(map(_of_llm, each.overrides))}
        methods = {
            name: each.model_copy(update={"variants": each.variants and [v for v in each.variants if v in kept]})
            for name, each in self.methods.items()
        }
        same = {name: getattr(self, name) for name in type(self).model_fields}
        same |= {
            "answer": "answer.yaml",
            "overrides": {key: value for key, value in self.overrides.items() if not _of_llm(key)},
            "embedding": EMBEDDED,
            "judge": None,
            "variants": kept,
            "methods": {name: each for name, each in methods.items() if each.variants != []},
            "words": f"{self.words.strip()} {EMBEDDED_WORDS}".strip(),
        }
        if not same["variants"] or not same["methods"]:
            raise ConfigError("Every variant of this sweep needs another generator, so nothing is left for --embedded.")
        systems = [(m, v) for m in same["methods"] for v in kept]
        same["against"] = [name for name in self.against if as_system(name) in systems]
        return Sweep(**same)


EMBEDDED_WORDS: Final = (
    "Answered by the embedded generator of 135M parameters in place of the models that the sweep names: an example of "
    "the output, not the figures of the methods."
)


def _of_llm(key: str) -> bool:
    return key.split(".", 1)[0] == "llm"


def as_system(name: str) -> tuple[str, str]:
    """Split a name in ``against``: "method/variant", or "method" for the default variant."""
    method, _, variant = name.partition("/")
    return method, variant or DEFAULT


def _are_known(what: str, named: Mapping[str, list[str] | None], known: Mapping[str, object]) -> None:
    for owner, names in named.items():
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise ValueError(f"{what}: {owner} names {unknown[0]!r}, which is none of {', '.join(known)}")


# --------
# Tuning: choose values of a policy on one side of the split, and report them on another.

BASE = "base"
CHOSEN = "chosen"
"""The variants in the report of a tune: the unchanged policy, and the policy with the chosen values."""

MOST_VARIANTS = 200  # project default
"""Most variants of a grid. More are a typo, or too many to be distinguished on a tune side."""


class Tune(CellSettings):
    """A search over all combinations of values in ``grid`` (dotted keys of ``policy``), with ``method``, on ``search``.

    ``search`` and ``report`` are sides of the split. The combination with the best mean of ``metric`` over the sets is
    reported on the side ``report``, together with the unchanged policy. ``most`` has upper bounds on the means of other
    metrics ({weighted_tokens: 1500}); ties go to fewer tokens. ``budget_usd`` is a cap on both sides together.
    """

    method: str = "okralong"
    policy: str = "policy/default.yaml"
    grid: dict[str, list[Any]] = Field(min_length=1)
    metric: str = "f1"
    most: dict[str, float] = Field(default_factory=dict)
    search: Side = "tune"
    report: Side = "test"

    @model_validator(mode="after")
    def _honest(self) -> Self:
        if self.search == self.report:
            raise ValueError(
                f"search and report are both {self.search}: values must be chosen and reported on different sides"
            )
        if SIDES.index(self.report) < SIDES.index(self.search):
            raise ValueError(
                f"search is {self.search} and report is {self.report}: choose values on a side before the reported one "
                f"({', '.join(SIDES)}), or {self.search} could no longer be reported on"
            )
        for name in (self.metric, *self.most):
            if name not in METRICS:
                raise ValueError(f"{name!r} is not one of the metrics ({', '.join(METRICS)})")
        empty = [key for key, values in self.grid.items() if not values]
        if empty:
            raise ValueError(f"grid.{empty[0]} has no value")
        count = len(self.points())
        if count > MOST_VARIANTS:
            raise ValueError(f"the grid has {count} combinations, more than {MOST_VARIANTS}; take fewer values")
        return self

    def points(self) -> dict[str, dict[str, Any]]:
        """Return the combinations, by the name of their variant, in the order of the grid."""
        combined = itertools.product(*self.grid.values())
        return {f"point{at:03d}": dict(zip(self.grid, values, strict=True)) for at, values in enumerate(combined)}

    def searching(self) -> Sweep:
        """Return the sweep of the search."""
        variants = {
            name: Variant(policy=self.policy, policy_overrides=values) for name, values in self.points().items()
        }
        return self._sweep("search", self.search, variants, self.budget_usd, [])

    def reporting(self, values: Mapping[str, Any], budget_usd: float | None) -> Sweep:
        """Return the sweep that runs the chosen values and the unchanged policy on the side of the report."""
        variants = {
            BASE: Variant(policy=self.policy),
            CHOSEN: Variant(policy=self.policy, policy_overrides=dict(values)),
        }
        return self._sweep("report", self.report, variants, budget_usd, [f"{self.method}/{BASE}"])

    def _sweep(
        self, what: str, side: Side, variants: dict[str, Variant], budget: float | None, against: list[str]
    ) -> Sweep:
        same = {key: getattr(self, key) for key in CellSettings.model_fields}
        same |= {"title": f"{self.title}: {what}", "budget_usd": budget}
        return Sweep(**same, side=side, methods={self.method: SweepMethod()}, variants=variants, against=against)


# --------
# Expand a sweep into cells, each an answer run with its config and policy.

CELLS = "cells"
"""The subfolder of a sweep's folder with the run folders of the cells, by name."""
BETWEEN = "__"
"""The separator of the parts of a cell's name. No part contains it."""


@dataclass(frozen=True)
class SweepFolder:
    """The paths in a sweep's folder. They are absolute, since actors have other working directories."""

    path: Path

    def cell(self, cell: str) -> Path:
        """Return the run folder of a cell."""
        return self.path / CELLS / cell

    def runs(self) -> list[Path]:
        """Return the run folders of all cells that were ever started here."""
        return sorted(place for place in (self.path / CELLS).glob("*") if place.is_dir())

    def questions(self, chosen: SweepSet) -> Path:
        """Return the questions file of a set."""
        return self.path / "sets" / slug(chosen.named) / "questions.jsonl"

    def labels(self, chosen: SweepSet) -> Path:
        """Return the file with the gold labels of a set."""
        return self.path / "sets" / slug(chosen.named) / "labels.jsonl"

    def index_times(self, chosen: SweepSet) -> Path:
        """Return the file with the measured times of indexing a set."""
        return self.path / "sets" / slug(chosen.named) / "index_times.json"

    def policy(self, variant: str) -> Path:
        """Return the policy file of a variant."""
        return self.path / "policies" / f"{slug(variant)}.yaml"


@dataclass(frozen=True)
class CellPlan:
    """A cell: its names, set and run config. ``config.policy`` is the path to which ``policy`` will be written."""

    named: CellName
    chosen: SweepSet
    config: RunConfig
    policy: Policy
    strategy: StrategySpec

    @property
    def granularities(self) -> tuple[int, ...]:
        """The chunk sizes, in tokens, that the set's archive must have for the cell."""
        return self.strategy.needs.granularities


def expand(sweep: Sweep, folder: SweepFolder) -> list[CellPlan]:
    """Return all cells, set by set.

    Raises ConfigError, naming the method and the variant, for an unknown strategy or an unusable config or policy.
    """
    where, text = read_config(sweep.answer)
    plans = []
    policies = {name: policy_of(sweep, variant) for name, variant in sweep.variants.items()}
    for chosen in sweep.sets:
        for method, variant in sweep.systems():
            strategy = sweep.methods[method].strategy or method
            spec = describe(strategy, policies[variant])
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
                plans.append(CellPlan(named, chosen, config, policies[variant], spec))
    _check(plans)
    return plans


def policy_of(sweep: Sweep, variant: Variant) -> Policy:
    """Return the policy of a variant. Raises ConfigError if an override is not one of its keys."""
    source = variant.policy
    if source is None:
        where, text = read_config(sweep.answer)
        source = parse_config(RunConfig, text, where, {**sweep.overrides, **variant.overrides}).policy
    where, text = read_config(source)
    return parse_config(FullPolicy, text, where, variant.policy_overrides)


def cell_name(method: str, chosen: SweepSet, variant: str, seed: int) -> str:
    """Return the name of a cell and of its folder."""
    return BETWEEN.join((slug(method), slug(chosen.named), slug(variant), str(seed)))


def slug(name: str) -> str:
    """Return a name in a form that can be a part of a folder's name."""
    return re.sub(r"\s+", "-", name.strip())


def sizes_by_set(plans: Sequence[CellPlan]) -> dict[str, list[int]]:
    """Return the chunk sizes that all cells of a set need together, by set, so that each set is indexed once."""
    sizes: dict[str, set[int]] = {}
    for plan in plans:
        sizes.setdefault(plan.named.set, set()).update(plan.granularities)
    return {name: sorted(found) for name, found in sizes.items()}


CompressedBy = tuple[str, str]
"""The compressor of an archive's table and the generator for memory slots, as an index config names them."""


def tables_by_cell(plans: Sequence[CellPlan]) -> dict[str, CompressedBy]:
    """Return the table of compressed chunks that each cell's archive must have, by cell.

    An archive has only one table, so cells of a set that need different tables have different archives. A cell that
    needs no table uses the archive of the first cell that does.
    """
    vectors = [plan for plan in plans if plan.strategy.needs.sara_generator]
    own = {plan.named.cell: (plan.config.sara.compressor, plan.config.llm.model) for plan in vectors}
    first: dict[str, CompressedBy] = {}
    for plan in plans:
        if plan.named.cell in own:
            first.setdefault(plan.named.set, own[plan.named.cell])
    return {p.named.cell: own.get(p.named.cell, first.get(p.named.set, (NONE, EMBEDDED))) for p in plans}


def _analyzer(variant: Variant, labels: Path, seed: int) -> Mapping[str, Any]:
    keys: dict[str, Any] = {}
    if variant.analyzer == "gold":
        keys |= {"analyzer": {"kind": "labels", "labels": str(labels)}}
    if variant.corrupted is not None:
        keys |= {"analyzer.corrupt": {"share": variant.corrupted, "seed": seed}}
    return keys


def _check(plans: Sequence[CellPlan]) -> None:
    names = [plan.named.cell for plan in plans]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Two cells of the sweep would share the folder {twice[0]}. Name methods and sets apart.")
    for plan in plans:
        for key in ("budget_usd", "replies_from"):
            if getattr(plan.config, key):
                raise ConfigError(
                    f"The answer config of the sweep sets {key}, which the sweep sets for each cell. Leave it out "
                    "there, and set budget_usd or share_replies in the sweep."
                )
        if plan.strategy.needs.scorer and plan.config.scorer is None:
            raise ConfigError(
                f"The cell {plan.named.cell} needs a local language model that measures likelihoods. "
                "Add scorer: {model: embedded} to the sweep's overrides."
            )
