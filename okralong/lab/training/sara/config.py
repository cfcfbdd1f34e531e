"""The config of a training of SARA, and the recipe of each of its stages."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from okralong.lab.datasets.split import MANIFEST
from okralong.lab.training.recipe import Count, Epochs, Lora, Rate, Recipe, Share
from okralong.lab.training.rows.sources import SampleRows, SetPart
from okralong.pipelines.core.config import Settings
from okralong.pipelines.indexing.chunking import MIN_GRANULARITY
from okralong.pipelines.models.weights import EMBEDDED, Precision
from okralong.pipelines.sara.artifact import Unit

Stage = Literal["alignment", "reconstruction", "instruction"]
"""The stages: "alignment" (reproduce one chunk from its vector), "reconstruction" (several chunks), and "instruction"
(answer from texts and vectors)."""


def _numbered(value: Any) -> Any:
    """Convert keys that are digits to numbers, as JSON has no numeric keys."""
    if not isinstance(value, dict):
        return value
    return {int(key) if isinstance(key, str) and key.isdecimal() else key: each for key, each in value.items()}


Turn = Annotated[
    dict[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1, le=1000)]],
    BeforeValidator(_numbered),
    Field(min_length=1),
]  # project default
"""How often each number of chunks is used in a cycle; the limit catches typos."""


class StageConfig(Settings):
    """A stage: at most ``examples`` are learned ``epochs`` times, and ``validation`` held-out ones are measured.

    The first ``reply_tokens`` of a reply are learned. The validation loss is measured and the state saved
    ``evaluations`` times per epoch; the state with the lowest loss is kept. The paper states no values; these are the
    project's.
    """

    examples: Count
    validation: Count = 64
    epochs: Epochs = 1
    batch_size: Count = 8
    accumulation: Count = 1
    learning_rate: Rate
    warmup: Share = 0.05
    evaluations: Count = 4
    reply_tokens: Count


class AlignmentConfig(StageConfig):
    """Stage 1: from a chunk's vector, reproduce it or, in the share ``continued`` of the examples, the next chunk.

    ICAE (section 2.2) learns both in one pretraining, each with about half of the weight.
    """

    continued: Annotated[float, Field(ge=0, lt=1)] = 0.0


class ReconstructionConfig(StageConfig):
    """Stage 2: reproduce ``chunks`` successive chunks of a document, or fewer at its end.

    By chunk these are at least two, since a single one is alignment; by sentence a single one has several vectors.
    """

    chunks: Count = 4


class InstructionConfig(StageConfig):
    """Stage 3: answer from ``retrieved`` chunks by BM25, of which ``as_text`` are shown as text.

    The paper's values are 10 and 5 (section 3.1). ``as_text`` says how often each number is used in a cycle: with ``{0:
    3, 5: 1}`` three questions have no chunk as text and the fourth has five. If there are fewer questions than
    ``examples``, they are repeated with the next numbers of the cycle, at most as often as there are numbers. The
    questions are about documents of ``pool_tokens`` tokens. The adapter is the paper's: rank 16, alpha 32, dropout 0.1
    (A.1). If ``lora`` is null, the compressor is trained instead, with a frozen generator, as xRAG's projector is. If
    ``learned`` is false, the questions are only used for the figures.
    """

    learned: bool = True
    retrieved: Count = 10
    as_text: Turn = Field(default={5: 1})
    pool_tokens: Count = 4000
    lora: Lora | None = Lora(targets=["q_proj", "v_proj"], rank=16, alpha=32, dropout=0.1)

    @model_validator(mode="after")
    def _retrieved(self) -> Self:
        if max(self.as_text) > self.retrieved:
            raise ValueError(f"as_text shows {max(self.as_text)} chunks, but {self.retrieved} are retrieved")
        if self.lora is None and min(self.as_text) >= self.retrieved:
            raise ValueError("without lora the compressor is trained, but as_text leaves nothing to compress")
        return self


class TextConfig(Settings):
    """The sets of texts and questions, on each side of the split. ``sample`` is fictional and needs no data folder."""

    sets: list[SetPart] = Field(default_factory=list)
    sample: SampleRows | None = None
    catalog: str = "datasets.yaml"
    split: str = MANIFEST

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.sets and self.sample is None:
            raise ValueError("there is no training data: give sets, or sample")
        return self


class FiguresConfig(Settings):
    """The figures on the test side: the reconstruction of ``examples``, and the answers to ``questions``.

    ``as_text`` has the numbers of retrieved chunks that are shown as text. Prompts without text are short, so, if
    ``questions_without_text`` is larger than ``questions``, that many are measured in a separate row. For the first
    ``replies`` questions, a reply is also generated to compute its F1.
    """

    examples: Count = 200
    questions: Count = 60
    questions_without_text: Count = 60
    replies: Annotated[int, Field(ge=0)] = 40
    as_text: list[Annotated[int, Field(ge=0)]] = Field(default=[0, 1, 2, 5, 10], min_length=1)
    batch_size: Count = 8


class MemoryConfig(Settings):
    """ICAE's encoder: the generator with a low-rank adapter on the matrices ``targets`` of each block, without dropout.

    In the paper (section 3.1), it has rank 128 on a model of 7 billion parameters, and 128 slots for 512 tokens.
    """

    targets: list[str] = Field(default=["q_proj", "v_proj"], min_length=1)
    rank: Count = 16
    alpha: Count = 32


class SaraConfig(Settings):
    """The config of a whole training.

    All models run in ``precision``, whatever the processor; bfloat16 is about three times as fast on a GPU and on
    processors that multiply it.

    ``width``, ``unit`` and ``vectors_per_chunk`` are those of the compressor (see ``Shape``). With ``memory`` the
    compressor is ICAE's, which learns in every stage and does not use the encoder and ``width``. The paper's ablations
    (section 3.7) are the values: ``compression`` false (SARA-C), ``reconstruction`` null (SARA-P), ``reranking`` false
    (SARA-R), ``curriculum`` false (SARA-L), ``instruction.learned`` false (SARA-I).
    """

    model: str = Field(default=EMBEDDED, min_length=1)
    encoder: str = Field(default=EMBEDDED, min_length=1)
    seed: int = 7
    precision: Precision = "float32"
    width: Count = 2048
    unit: Unit = "chunk"
    vectors_per_chunk: Count = 1
    memory: MemoryConfig | None = None
    chunk_tokens: Annotated[int, Field(ge=MIN_GRANULARITY)] = 256
    texts: TextConfig
    compression: bool = True
    reranking: bool = True
    curriculum: bool = True
    alignment: AlignmentConfig
    reconstruction: ReconstructionConfig | None = None
    instruction: InstructionConfig | None = None
    figures: FiguresConfig = FiguresConfig()

    @model_validator(mode="after")
    def _learns_something(self) -> Self:
        if not self.compression and not (self.instruction and self.instruction.learned and self.instruction.lora):
            raise ValueError(
                "without compression only the instruction stage's adapter learns: give instruction, with lora"
            )
        return self

    @model_validator(mode="after")
    def _units(self) -> Self:
        if self.unit == "chunk":
            if self.reconstruction and self.reconstruction.chunks < 2:
                raise ValueError(
                    "reconstruction of a single chunk is alignment: set reconstruction.chunks to 2 or more"
                )
        elif self.memory is not None or self.alignment.continued:
            raise ValueError("memory and alignment.continued are ICAE's, which reads whole chunks: set unit: chunk")
        return self

    @model_validator(mode="after")
    def _memory_slots_alone(self) -> Self:
        if self.memory is None:
            return self
        if self.reranking or not self.compression:
            raise ValueError("memory slots give no vector space for selection: set reranking: false")
        if self.instruction and self.instruction.lora is not None:
            raise ValueError("with memory the compressor is trained, not the generator: set instruction.lora: null")
        return self

    @property
    def sentences(self) -> int | None:
        """The most sentences of a chunk that have a vector each; None if the chunk has one embedding."""
        return self.vectors_per_chunk if self.unit == "sentence" else None

    def stages(self) -> list[tuple[Stage, StageConfig]]:
        """Return the stages that are trained, in order."""
        both: list[tuple[Stage, StageConfig | None]] = [
            ("alignment", self.alignment if self.compression else None),
            ("reconstruction", self.reconstruction if self.compression else None),
            ("instruction", self.instruction if self.instruction and self.instruction.learned else None),
        ]
        return [(name, stage) for name, stage in both if stage is not None]

    def recipe(self, stage: StageConfig) -> Recipe:
        """Return the recipe of a stage, for the trainer."""
        shared = stage.model_dump(include=set(Recipe.model_fields) - {"lora"})
        lora = stage.lora if isinstance(stage, InstructionConfig) else None
        # There is no early stopping, since the config determines the number of steps.
        return Recipe(
            kind="sara",
            model=self.model,
            lora=lora,
            patience=1_000_000,
            seed=self.seed,
            precision=self.precision,
            **shared,
        )
