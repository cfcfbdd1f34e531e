"""Load a run's analyzer. Also defines those without a model of their own: the generator, given and corrupted labels."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import Field, model_validator

from okralong.pipelines.answering.analyzers.analysis import (
    EVIDENCE,
    PATTERNS,
    TYPES,
    AnalysisInput,
    Analyzer,
    analyzer_prompt,
    best,
    make_analysis,
    parse_reply,
    sure_analysis,
)
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.citations import CallStep, always, ask_and_read
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import Analysis, ConfigError, Message, NobodyAsked, ReplyError
from okralong.pipelines.models.weights import (
    EMBEDDED,
    SHIPPED,
    adapter_digest,
    available_cores,
    causal_model,
    shipped_adapter,
)

Kind = Literal["heads", "label_scorer", "rules", "llm", "labels"]


PLAIN: Final = ("rules", "llm", "labels")
"""Kinds without an adapter."""


class CorruptConfig(Settings):
    """The ``share`` of labels to corrupt deliberately, and the ``seed``."""

    share: Annotated[float, Field(ge=0, le=1)]
    seed: int = 7


class AnalyzerConfig(Settings):
    """The section ``analyzer`` of a run's config.

    ``kind`` is "heads" (a small encoder with trained heads), "label_scorer" (a causal language model), "rules" (keyword
    rules), "llm" (the run's own generator, at its price) or "labels" (read from the file ``labels``, see
    ``GivenLabels``). ``corrupt`` changes a share of the labels, for ablations. ``adapter`` is "shipped" or a folder
    that `okralong train` wrote; for a label scorer also a hub name, or null for the model without an adapter.
    ``model``, for a label scorer, is "embedded", a model folder or a hub name. Up to ``max_batch`` questions that
    arrive within ``batch_wait_s`` seconds are analyzed together. The analyzer runs in ``replicas`` processes with
    ``gpus_per_replica`` GPUs each.
    """

    kind: Kind = "heads"
    model: str = Field(default=EMBEDDED, min_length=1)
    adapter: Annotated[str, Field(min_length=1)] | None = SHIPPED
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 16
    batch_wait_s: Annotated[float, Field(ge=0, le=10)] = 0.01
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0
    labels: Annotated[str, Field(min_length=1)] | None = None
    corrupt: CorruptConfig | None = None

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        if (self.kind == "labels") != (self.labels is not None):
            raise ValueError("kind: labels and labels: FILE belong together; give both or neither")
        if self.kind == "llm" and self.corrupt is not None:
            raise ValueError(
                "corrupt does not work with kind: llm, whose labels come from the generator; choose another kind"
            )
        return self

    @model_validator(mode="after")
    def _adapter_fits(self) -> Self:
        if self.kind in PLAIN and self.adapter not in (None, SHIPPED):
            raise ValueError(f"{self.kind} takes no adapter; set kind: heads or label_scorer, or leave adapter out")
        if self.kind == "heads" and self.adapter is None:
            raise ValueError("heads need an adapter: set it to shipped or to a folder that `okralong train` wrote")
        if self.kind == "label_scorer" and self.adapter == SHIPPED and self.model != EMBEDDED:
            raise ValueError(
                f"the shipped adapter is for the embedded model, not for {self.model!r}; set adapter: null to use the "
                "model as it is, or give the adapter that `okralong train` wrote for it"
            )
        return self

    def adapter_folder(self) -> Path | None:
        """Return the adapter's folder or hub name, or None for a kind or model without an adapter.

        Raises:
            ConfigError: The shipped adapter is missing.
        """
        if self.kind in PLAIN or self.adapter is None:
            return None
        if self.adapter == SHIPPED:
            return shipped_adapter(f"analyzer/{self.kind}")
        return Path(self.adapter).expanduser()

    @property
    def knows_english_alone(self) -> bool:
        """Whether the analyzer was made for English: the rules and the shipped adapters."""
        return self.kind == "rules" or (self.kind in ("heads", "label_scorer") and self.adapter == SHIPPED)

    def identity(self) -> dict[str, Any]:
        """Return everything that an analysis depends on: kind, model, content of adapter and labels, corruption.

        Raises:
            ConfigError: The labels file is missing.
        """
        folder = self.adapter_folder()
        adapter = None if folder is None else adapter_digest(folder) or str(self.adapter)
        return {
            "kind": self.kind,
            "model": self.model,
            "adapter": adapter,
            "labels": None if self.labels is None else labels_digest(self.labels),
            "corrupt": None if self.corrupt is None else self.corrupt.model_dump(),
        }


def analyzer_keys(said: str) -> dict[str, str]:
    """Return the config keys for `okralong answer --analyzer`, which names a kind or a trained analyzer's folder.

    Raises:
        ConfigError: ``said`` is neither.
    """
    if said in get_args(Kind):
        return {"analyzer.kind": said}
    # The path is made absolute, since the analyzer's replicas have other working directories.
    folder = Path(said).expanduser().resolve()
    if (folder / "heads.json").is_file():
        return {"analyzer.kind": "heads", "analyzer.adapter": str(folder)}
    if (folder / "adapter_config.json").is_file():
        base = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
        return {"analyzer.kind": "label_scorer", "analyzer.adapter": str(folder), "analyzer.model": base or EMBEDDED}
    raise ConfigError(
        f"--analyzer {said} is neither a kind ({', '.join(get_args(Kind))}) nor a folder that `okralong train` wrote "
        "(which holds heads.json or adapter_config.json)."
    )


def load_analyzer(config: AnalyzerConfig, precision: str = "auto") -> Analyzer:
    """Load the analyzer that ``config`` names into this process; ``precision`` is for label scorers.

    Raises:
        ConfigError: The model or adapter cannot be loaded, or the kind is "llm" (then the run's generator analyzes).
    """
    if config.kind == "llm":
        raise ConfigError(
            "The analyzer llm is the run's own generator, so only `okralong answer` can use it. Choose another kind."
        )
    if config.corrupt is not None:
        inner = load_analyzer(config.model_copy(update={"corrupt": None}), precision)
        return Corrupted(inner, config.corrupt.share, config.corrupt.seed)
    if config.kind == "labels" and config.labels is not None:
        return GivenLabels.load(config.labels)
    if config.kind == "rules":
        return KeywordRules()
    # Imported here, because importing torch and transformers takes seconds, and the rules need neither.
    if config.kind == "heads":
        from okralong.pipelines.answering.analyzers.heads import HeadsAnalyzer

        return HeadsAnalyzer.load(
            str(config.adapter_folder()), config.max_batch, label=config.adapter, threads=available_cores()
        )
    from okralong.pipelines.answering.analyzers.label_scorer import LabelScorer

    model = causal_model(config.model)
    folder = config.adapter_folder()
    name = config.model if config.adapter is None else f"{config.model}+{Path(config.adapter).name}"
    # The number of threads is given, because Ray's default for an actor is one.
    adapter = str(folder) if folder else None
    return LabelScorer.load(
        model, adapter, max_batch=config.max_batch, precision=precision, label=name, threads=available_cores()
    )


AS_JSON: Final = "\nThe dictionary is a JSON object."
"""Text that contains the word JSON: OpenAI refuses a request for a JSON object if the prompt lacks it.

It is appended to the prompt, so that the rest is the prompt that label scorers were trained on."""


async def analyze_by_generator(
    ask: CallStep, step: str, asked: AnalysisInput, fits: Callable[[Sequence[Message]], bool] = always
) -> Analysis:
    """Return the generator's three labels, each with probability 1.

    The keyword rules analyze instead if the generator is not called (in an estimate), or if neither its reply nor the
    repaired reply is an analysis. ``Analysis.analyzer`` then names the rules. Steps: ``step``, ``step/repair``.
    """
    try:
        return await labels_by_generator(ask, step, asked, fits)
    except ReplyError as error:
        (rules,) = KeywordRules().analyze([asked])
        why = (
            "the generator was not asked" if isinstance(error, NobodyAsked) else "the generator's reply was no analysis"
        )
        return replace(rules, analyzer=f"{rules.analyzer} ({why})")


async def labels_by_generator(
    ask: CallStep, step: str, asked: AnalysisInput, fits: Callable[[Sequence[Message]], bool] = always
) -> Analysis:
    """Return the generator's labels. Raises ReplyError, with both raw replies, if neither is an analysis."""
    (kind, pattern, evidence), reply = await ask_and_read(ask, step, generator_prompt(asked), parse_reply, fits)
    return sure_analysis(kind, pattern, evidence, f"llm:{reply.model}")


def generator_prompt(asked: AnalysisInput) -> list[Message]:
    """Return the analyzer's prompt in the form for a generator."""
    system, *others = analyzer_prompt(asked)
    return [replace(system, content=system.content + AS_JSON), *others]


@dataclass(frozen=True)
class Corrupted:
    """Changes each of the three labels of another analyzer with the probability ``share``, for ablations.

    The changes depend only on ``seed`` and the question (its query_id, or else its text), so all methods and reruns get
    the same labels. A label that is changed at one share is also changed at every higher one. A changed label has the
    probability 1.
    """

    analyzer: Analyzer
    share: float
    seed: int

    @property
    def name(self) -> str:
        """See ``Analyzer``."""
        return f"{self.analyzer.name}, {self.share:.0%} corrupted (seed {self.seed})"

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """See ``Analyzer``."""
        return [self._wrong(asked, said) for asked, said in zip(batch, self.analyzer.analyze(batch), strict=True)]

    def _wrong(self, asked: AnalysisInput, said: Analysis) -> Analysis:
        key = asked.query_id or asked.question
        yes = said.evidence_probability
        holds = None if yes is None else dict(zip(EVIDENCE, (yes, 1 - yes), strict=True))
        return make_analysis(
            self._spoiled(key, "type", said.type_probabilities, TYPES),
            self._spoiled(key, "pattern", said.pattern_probabilities, PATTERNS) if said.pattern else None,
            self._spoiled(key, "evidence", holds, EVIDENCE) if holds else None,
            self.name,
        )

    def _spoiled(self, key: str, field: str, said: Mapping[str, float], labels: Sequence[str]) -> Mapping[str, float]:
        right = best(said)
        drawn = self._drawn(key, field, right, labels)
        return said if drawn == right else _sure(drawn, labels)

    def _drawn(self, key: str, field: str, said: str, labels: Sequence[str]) -> str:
        digest = hashlib.sha256(f"{self.seed}\0{field}\0{key}".encode()).digest()
        random_ = random.Random(digest)
        if random_.random() >= self.share:
            return said
        return random_.choice([label for label in labels if label != said])


def _sure(label: str, labels: Sequence[str]) -> dict[str, float]:
    return {each: float(each == label) for each in labels}


# Labels from a file: gold labels for an ablation, or those of another analyzer.

Labels = tuple[str, str, bool]
"""The labels of a question: type, pattern, and whether the primary chunks contain the evidence."""


@dataclass(frozen=True)
class GivenLabels:
    """Returns the labels in a file, with probability 1. Raises KeyError for an unknown query_id."""

    labels: Mapping[str, Labels]
    name: str = "labels"

    @classmethod
    def load(cls, path: str | Path) -> GivenLabels:
        """Load a jsonl file of query_id, type, pattern and evidence. Raises ConfigError naming the line."""
        file = Path(path).expanduser()
        if not file.is_file():
            raise ConfigError(f"The labels file {file} does not exist. Check analyzer.labels.")
        found: dict[str, Labels] = {}
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                row = json.loads(line)
                kind, pattern, evidence = row["type"], row["pattern"], row["evidence"]
                if kind not in TYPES or pattern not in PATTERNS or not isinstance(evidence, bool):
                    raise ValueError(f"type, pattern and evidence are {kind!r}, {pattern!r} and {evidence!r}")
                found[str(row["query_id"])] = (kind, pattern, evidence)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"{file}, line {number} has no labels: {type(error).__name__}: {error}. A line has query_id, type "
                    f"(one of {', '.join(TYPES)}), pattern (one of {', '.join(PATTERNS)}) and evidence (true or false)."
                ) from error
        return cls(found)

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """See ``Analyzer``."""
        return [sure_analysis(*self.labels[asked.query_id], self.name) for asked in batch]


def labels_digest(path: str | Path) -> str:
    """Return a hash of the file's content. Raises ConfigError if it is missing."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"The labels file {file} does not exist. Check analyzer.labels.")
    return hashlib.sha256(file.read_bytes()).hexdigest()
