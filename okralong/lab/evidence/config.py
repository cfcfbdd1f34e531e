"""The keys of a sweep file of the evidence bench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from okralong.lab.datasets.split import MANIFEST
from okralong.pipelines.answering.analyzers.analysis import FIELDS
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig
from okralong.pipelines.answering.rerank import RerankerConfig
from okralong.pipelines.core.config import Settings
from okralong.pipelines.models.weights import SHIPPED

Count = Annotated[int, Field(ge=1, le=200)]
Scale = Annotated[float, Field(gt=0, le=20)]

RULES: Final = "rules"
GOLD: Final = "gold"
"""Analyzers that every sweep has: the keyword rules and the gold labels."""

NamedSet = Annotated[str, Field(pattern=r"^\S+ \S+$")]
"""The name and part of a set, separated by a blank."""

LabelField = Literal["type", "pattern", "evidence"]
"""The fields of an analysis, in the order of ``FIELDS``."""

Retriever = Literal["exact", "semantic", "reciprocal_rank"]
"""BM25 alone, dense vectors alone, or both, merged by reciprocal ranks."""


class SweepSettings(Settings):
    """The keys that all sweep files share: those of the evidence bench, of ``evaluate`` and of ``tune``.

    ``seed`` is used to draw questions, to pool documents and for the bootstrap. ``catalog`` is the list of the sets'
    files, ``split`` a manifest that ``okralong split`` wrote; both may be the user's own files.
    """

    title: str
    seed: int = 7
    catalog: str = "datasets.yaml"
    split: str = MANIFEST


class SetChoice(Settings):
    """A set of the sweep's catalog by name and part.

    With ``pool_tokens``, its short texts are pooled into documents of at least that many o200k tokens; with null, each
    text is a document. ``limit`` is the number of questions to draw by the sweep's seed. ``fill`` names further sets
    ("finqa dev"), whose texts of the same side fill up documents that would be too short. ``scope`` is what a question
    is asked of: its documents, or the whole archive. ``withheld`` is the share of questions, about, whose texts with
    evidence are left out; they are then unanswerable. With ``typed``, a question has an answer type if its gold answer
    is a number, or yes or no.
    """

    name: str
    part: str
    pool_tokens: Annotated[int, Field(ge=1000, le=1_000_000)] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    fill: list[NamedSet] = Field(default_factory=list)
    scope: Literal["documents", "archive"] = "documents"
    withheld: Annotated[float, Field(ge=0, lt=1)] = 0.0
    typed: bool = False

    @property
    def named(self) -> str:
        """The set's name in reports: "name part"."""
        return f"{self.name} {self.part}"


class PlainMethod(Settings):
    """A single retrieval of ``count`` chunks, shown best first. ``counts`` are the points of its curve.

    ``query_prefix`` is as in ``configs/index.yaml``. ``rerank`` is the number of first chunks that
    ``reranker``, one of the sweep's ``rerankers``, reorders.
    """

    retriever: Retriever
    query_prefix: str = ""
    granularity: Annotated[int, Field(ge=16, le=8192)]
    count: Count
    counts: list[Count] = Field(min_length=1)
    rerank: Annotated[int, Field(ge=0, le=200)] = 0
    reranker: str = SHIPPED

    @model_validator(mode="after")
    def _point_on_curve(self) -> Self:
        if self.count not in self.counts:
            raise ValueError(f"counts must hold count ({self.count})")
        _each_once("counts", self.counts)
        return self


class PolicyMethod(Settings):
    """The method ``okralong`` under a policy. ``overrides`` maps dotted keys of the policy file to values.

    ``analyzer`` is rules, gold, or one of the sweep's ``analyzers``. ``labels`` replaces some of its labels (type,
    pattern, evidence) for all questions, by the gold ones ("gold") or by a constant. ``writer`` is the source of
    sub-questions and next queries: "gold" (those of the set), "embedded" (the embedded model) or "reader" (the embedded
    model with the shipped reader adapter). ``reranker`` is one of the sweep's ``rerankers``, for a policy that ranks by
    a cross-encoder.
    ``scales`` are factors on every count and token budget of the policy, and the points of its curve; 1 must be among
    them. ``query_prefix`` is as in ``configs/index.yaml``.
    """

    policy: str
    query_prefix: str = ""
    analyzer: str = RULES
    labels: dict[LabelField, str] = Field(default_factory=dict)
    writer: Literal["gold", "embedded", "reader"] = "gold"
    reranker: str = SHIPPED
    overrides: dict[str, Any] = Field(default_factory=dict)
    scales: list[Scale] = Field(default=[1.0], min_length=1)

    @model_validator(mode="after")
    def _point_on_curve(self) -> Self:
        if 1.0 not in self.scales:
            raise ValueError("scales must hold 1.0, the policy as it is")
        _each_once("scales", self.scales)
        return self

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        allowed = dict(zip(get_args(LabelField), (labels for _, labels in FIELDS), strict=True))
        for field, label in self.labels.items():
            if label not in (GOLD, *allowed[field]):
                raise ValueError(f"labels.{field} = {label!r} is none of {', '.join((GOLD, *allowed[field]))}")
        return self

    @property
    def needs_gold(self) -> bool:
        """Whether the method uses gold labels, so that all questions must have a type."""
        return self.analyzer == GOLD or GOLD in self.labels.values()


def _kind(value: Any) -> str:
    """Return the kind of a method by a key that only one kind has, so that error messages refer to that kind."""
    plain = "retriever" in value if isinstance(value, dict) else isinstance(value, PlainMethod)
    return "retrieval" if plain else "policy"


Method = Annotated[
    Annotated[PlainMethod, Tag("retrieval")] | Annotated[PolicyMethod, Tag("policy")], Discriminator(_kind)
]
"""A method of a sweep: a plain retrieval if it has the key ``retriever``, else a policy."""


class Sweep(SweepSettings):
    """Every method on every set, on one side of the split.

    With ``side: all``, sets of the format ``own``, which were not used in training, are taken as a whole. All other
    methods are compared with those in ``against``, on each set and over all sets. The methods in ``pictured`` are drawn
    in the picture; ``words`` is a text to print above the figures. ``analyzers`` and ``rerankers`` define further
    analyzers and cross-encoders, by the names that methods use. ``at_tokens`` is a number of context tokens at which
    the methods are compared in addition.
    """

    side: Literal["validation", "tune", "test", "all"]
    sets: list[SetChoice] = Field(min_length=1)
    methods: dict[str, Method] = Field(min_length=1)
    against: list[str] = Field(min_length=1)
    pictured: list[str] = Field(default_factory=list)
    words: str = ""
    at_tokens: Annotated[int, Field(ge=1)] | None = None
    analyzers: dict[str, AnalyzerConfig] = Field(default_factory=dict)
    rerankers: dict[str, RerankerConfig] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        for name in (*self.against, *self.pictured):
            if name not in self.methods:
                raise ValueError(f"{name!r} is not one of the methods ({', '.join(self.methods)})")
        known = {RULES, GOLD, *self.analyzers}
        for name, method in self.methods.items():
            if isinstance(method, PolicyMethod) and method.analyzer not in known:
                raise ValueError(f"methods.{name}.analyzer = {method.analyzer!r} is none of {', '.join(sorted(known))}")
        for name, method in self.methods.items():
            if method.reranker not in {SHIPPED, *self.rerankers}:
                raise ValueError(f"methods.{name}.reranker = {method.reranker!r} is not one of the sweep's rerankers")
        _each_once("against", self.against)
        _each_once("sets", [each.named for each in self.sets])
        return self


def _each_once(key: str, values: Sequence[object]) -> None:
    if (twice := repeated(values)) is not None:
        raise ValueError(f"{key} holds {twice} twice")


def repeated(values: Sequence[object]) -> object | None:
    """Return the first value that occurs a second time, or None."""
    return next((value for number, value in enumerate(values) if value in values[:number]), None)
