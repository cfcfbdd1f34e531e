"""What a config of `okralong train-sara` may say (``configs/training/sara*.yaml``)."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.evaluation.split.manifest import MANIFEST
from okralong.pipelines.indexing.chunking import MIN_GRANULARITY
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.sara.training.stage_names import Stage
from okralong.pipelines.training.config import Count, LoraConfig, Rate, Share
from okralong.pipelines.training.recipe import Lora, Recipe
from okralong.pipelines.training.rows_config import SampleRows


def _numbered(value: Any) -> Any:
    """Digits as keys are numbers: JSON, in which a training is kept beside what it made, has no other keys."""
    if not isinstance(value, dict):
        return value
    return {int(key) if isinstance(key, str) and key.isdecimal() else key: each for key, each in value.items()}


Turn = Annotated[
    dict[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1, le=1000)]],
    BeforeValidator(_numbered),
    Field(min_length=1),
]
"""How often in turn each count of chunks is dealt; the limit is ours, to catch slips."""


class StageConfig(Settings):
    """One stage: at most ``examples`` are learned from, ``epochs`` times, ``validation`` of the held-out ones measured.

    Of a reply the first ``reply_tokens`` are learned. The state of the least loss on validation, which is measured and
    saved ``evaluations`` times an epoch, is kept. All values are ours: the paper gives none.
    """

    examples: Count
    validation: Count = 64
    epochs: Annotated[float, Field(gt=0, le=1000)] = 1
    batch_size: Count = 8
    accumulation: Count = 1
    learning_rate: Rate
    warmup: Share = 0.05
    evaluations: Count = 4
    reply_tokens: Count


class ReconstructionConfig(StageConfig):
    """Stage 2: a document is ``chunks`` successive chunks, fewer where it ends."""

    chunks: Annotated[int, Field(ge=2)] = 4


class InstructionConfig(StageConfig):
    """Stage 3: ``retrieved`` chunks a question, by BM25, of which ``as_text`` stand as text.

    The paper's values are 10 and 5 (section 3.1). ``as_text`` says how often in turn each count is dealt: with
    ``{0: 3, 5: 1}`` three questions have no chunk as text and the fourth has five. Where there are fewer questions
    than ``examples``, each is asked again, further on in the turn, at most as often as there are counts. Questions are
    asked over documents of ``pool_tokens``. The adapter is the paper's: rank 16, alpha 32, dropout 0.1 (A.1). Where it
    is not ``learned``, the questions are only for the figures.
    """

    learned: bool = True

    retrieved: Count = 10
    as_text: Turn = Field(default={5: 1})
    pool_tokens: Count = 4000
    lora: LoraConfig = LoraConfig(targets=["q_proj", "v_proj"], rank=16, alpha=32, dropout=0.1)

    @model_validator(mode="after")
    def _retrieved(self) -> Self:
        if max(self.as_text) > self.retrieved:
            raise ValueError(f"as_text shows {max(self.as_text)} chunks, but {self.retrieved} are retrieved")
        return self


class SetName(Settings):
    """A set of the catalog; at most ``limit`` of its questions on each side."""

    name: str
    part: str
    limit: Count | None = None


class TextConfig(Settings):
    """From which sets texts and questions are taken, side by side of the split; ``sample`` is made up and needs no
    data folder."""

    sets: list[SetName] = Field(default_factory=list)
    sample: SampleRows | None = None
    catalog: str = "datasets.yaml"
    split: str = MANIFEST

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.sets and self.sample is None:
            raise ValueError("there is nothing to learn from: give sets, or sample")
        return self


class FiguresConfig(Settings):
    """What is measured on the side test: reconstruction of so many ``examples``, answers to so many ``questions``.

    ``as_text`` are the counts of chunks that stand as text, of those retrieved. Without any, a prompt is short: a row
    of its own measures ``questions_without_text``, where those are more. To the first ``replies`` questions the reply
    is also written out, for its F1.
    """

    examples: Count = 200
    questions: Count = 60
    questions_without_text: Count = 60
    replies: Annotated[int, Field(ge=0)] = 40
    as_text: list[Annotated[int, Field(ge=0)]] = Field(default=[0, 1, 2, 5, 10], min_length=1)
    batch_size: Count = 8


class SaraConfig(Settings):
    """A whole training. ``width`` and ``vectors_per_chunk`` are of the compressor, see ``Shape``.

    The paper's ablations (section 3.7) are values: ``compression`` false is SARA-C, ``reconstruction`` null SARA-P,
    ``reranking`` false SARA-R, ``curriculum`` false SARA-L, ``instruction.learned`` false SARA-I.
    """

    model: str = Field(default=EMBEDDED, min_length=1)
    encoder: str = Field(default=EMBEDDED, min_length=1)
    seed: int = 7
    width: Count = 2048
    vectors_per_chunk: Count = 1
    chunk_tokens: Annotated[int, Field(ge=MIN_GRANULARITY)] = 256
    texts: TextConfig
    compression: bool = True
    reranking: bool = True
    curriculum: bool = True
    alignment: StageConfig
    reconstruction: ReconstructionConfig | None = None
    instruction: InstructionConfig | None = None
    figures: FiguresConfig = FiguresConfig()

    @model_validator(mode="after")
    def _learns_something(self) -> Self:
        if not self.compression and not (self.instruction and self.instruction.learned):
            raise ValueError("without compression only the instruction stage learns: give instruction")
        return self

    def stages(self) -> list[tuple[Stage, StageConfig]]:
        """The stages that are trained, in order."""
        both: list[tuple[Stage, StageConfig | None]] = [
            ("alignment", self.alignment if self.compression else None),
            ("reconstruction", self.reconstruction if self.compression else None),
            ("instruction", self.instruction if self.instruction and self.instruction.learned else None),
        ]
        return [(name, stage) for name, stage in both if stage is not None]

    def recipe(self, stage: StageConfig) -> Recipe:
        """The stage as the trainer takes it."""
        lora = stage.lora if isinstance(stage, InstructionConfig) else None
        return Recipe(
            kind="sara",
            model=self.model,
            lora=Lora(**{**lora.model_dump(), "targets": tuple(lora.targets)}) if lora else None,
            learning_rate=stage.learning_rate,
            epochs=stage.epochs,
            batch_size=stage.batch_size,
            accumulation=stage.accumulation,
            warmup=stage.warmup,
            evaluations=stage.evaluations,
            patience=1_000_000,  # the number of steps is the config's
            seed=self.seed,
        )
