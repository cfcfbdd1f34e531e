"""What a sweep file of ``okralong evaluate`` may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.evaluation.evidence.config import SetChoice
from okralong.pipelines.evaluation.split.keys import Side
from okralong.pipelines.evaluation.split.manifest import MANIFEST as SPLIT_MANIFEST
from okralong.pipelines.models.weights import EMBEDDED

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]+([ ._+-][A-Za-z0-9]+)*$", max_length=60)]
"""Letters and digits with single signs between: names become parts of folder names, which join them by two lines."""

DEFAULT = "default"
"""The variant of a sweep that names none."""


@dataclass(frozen=True, slots=True)
class CellName:
    """What the rows of a run are called in the tables."""

    cell: str
    method: str
    set: str
    variant: str
    seed: int


class SweepSet(SetChoice):
    """A set of the catalog as for the evidence bench. ``label`` is its name in the tables (null: "name part")."""

    label: Name | None = None

    @property
    def named(self) -> str:
        """Its name in the tables."""
        return self.label or f"{self.name} {self.part}"


class SweepMethod(Settings):
    """A strategy by its name (null: the method's own). ``variants`` are those that it is run under (null: all)."""

    strategy: str | None = None
    variants: list[Name] | None = None


class Variant(Settings):
    """How a method is run: another policy, or changes to it or to the answer config.

    ``policy`` is a policy file (null: the answer config's), ``policy_overrides`` are dotted keys of it, ``overrides``
    dotted keys of the answer config. ``analyzer: gold`` gives the set's own types and the labels that our retrievers
    make of the marked evidence; ``corrupted`` makes that share of the analyzer's labels wrong, by the cell's seed.
    ``methods`` are those that it is for (null: all).
    """

    policy: str | None = None
    policy_overrides: dict[str, Any] = Field(default_factory=dict)
    overrides: dict[str, Any] = Field(default_factory=dict)
    analyzer: Literal["gold"] | None = None
    corrupted: Annotated[float, Field(ge=0, le=1)] | None = None
    methods: list[Name] | None = None


class JudgeConfig(Settings):
    """A language model that marks answers: ``answer`` is an answer config whose ``llm`` is asked, ``overrides`` are
    dotted keys of it. Its dollars count against the sweep's budget."""

    answer: str = "answer.yaml"
    overrides: dict[str, Any] = Field(default_factory=dict)


class Sweep(Settings):
    """Every method under every variant that is for it, on every set, with every seed: each is a *cell*.

    ``side`` is that of the split; "all" takes sets whole, without a split, for questions that nothing was chosen on.
    ``seed`` draws questions, pools documents and draws the bootstrap, ``seeds`` are those of the generator and of
    corrupted labels. ``answer`` is the answer config that all cells start from, with ``overrides`` (dotted keys).
    ``against`` names the systems, "method" or "method/variant", that all others are compared with. ``every`` also
    asks questions that mark neither evidence nor an answer to look for. ``embedding`` is the archives' encoder:
    "embedded" or a model folder. ``budget_usd`` caps the whole sweep, ``parallel`` cells run at a time, and with
    ``share_replies`` a request that another cell of the set has sent is not paid for again. ``catalog`` and
    ``split`` are as for the evidence bench, ``words`` stand above the tables.
    """

    title: str
    words: str = ""
    side: Side | Literal["all"]
    seed: int = 7
    seeds: list[int] = Field(default=[7], min_length=1)
    answer: str = "answer.yaml"
    overrides: dict[str, Any] = Field(default_factory=dict)
    sets: list[SweepSet] = Field(min_length=1)
    methods: dict[Name, SweepMethod] = Field(min_length=1)
    variants: dict[Name, Variant] = Field(default_factory=lambda: {DEFAULT: Variant()}, min_length=1)
    against: list[str] = Field(default_factory=list)
    judge: JudgeConfig | None = None
    every: bool = False
    embedding: str = Field(default=EMBEDDED, min_length=1)
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    parallel: Annotated[int, Field(ge=1, le=64)] = 2
    share_replies: bool = True
    catalog: str = "datasets.yaml"
    split: str = SPLIT_MANIFEST

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        _are_known("variants of methods", {m: each.variants for m, each in self.methods.items()}, self.variants)
        _are_known("methods of variants", {v: each.methods for v, each in self.variants.items()}, self.methods)
        labels = [each.named for each in self.sets]
        for key, values in (("sets", labels), ("seeds", self.seeds), ("against", self.against)):
            twice = [value for number, value in enumerate(values) if value in values[:number]]
            if twice:
                raise ValueError(f"{key} holds {twice[0]!r} twice; give a set that is wanted twice a label")
        known = self.systems()
        if not known:
            raise ValueError("no variant is for any of the methods, so there is nothing to run")
        for name in self.against:
            if as_system(name) not in known:
                listed = ", ".join(m if v == DEFAULT else f"{m}/{v}" for m, v in known)
                raise ValueError(f"against names {name!r}, which is none of {listed}")
        return self

    def systems(self) -> list[tuple[str, str]]:
        """Each method with each variant that is for it."""
        return [
            (method, variant)
            for method, chosen in self.methods.items()
            for variant, how in self.variants.items()
            if (chosen.variants is None or variant in chosen.variants)
            and (how.methods is None or method in how.methods)
        ]


def as_system(name: str) -> tuple[str, str]:
    """A name of ``against`` in two: "method/variant", or "method" under the default variant."""
    method, _, variant = name.partition("/")
    return method, variant or DEFAULT


def _are_known(what: str, named: Mapping[str, list[str] | None], known: Mapping[str, object]) -> None:
    for owner, names in named.items():
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise ValueError(f"{what}: {owner} names {unknown[0]!r}, which is none of {', '.join(known)}")
