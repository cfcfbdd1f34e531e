"""The settings of ``configs/index.yaml`` and their defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from okralong.pipelines.archive.files import DenseConfig
from okralong.pipelines.core.config import IndexPlacement, Settings
from okralong.pipelines.core.spans import TelemetryConfig
from okralong.pipelines.indexing.chunking import MIN_GRANULARITY, cut_name
from okralong.pipelines.indexing.documents import Limits
from okralong.pipelines.indexing.formats.ocr import ocr_is_installed
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.sara.config import AUTO, NONE

_E5: Final = re.compile(r"(?:^|/)(?:multilingual-)?e5-(?:small|base|large)(?:-v2)?$")


class EmbeddingConfig(Settings):
    """How chunks are embedded.

    ``model`` is "embedded", a local sentence-transformers folder or a hub name. ``batch_size`` is texts per pass,
    ``max_seq_length`` tokens of the encoder, ``actors`` the number of parallel encoders. ``gpus_per_actor`` "auto" is
    one if the cluster has a GPU, otherwise none. ``dtype`` is that of the stored vectors; ``precision`` int8 runs on
    CPUs only. ``query_prefix`` and ``passage_prefix`` precede the text, as E5 or BGE expect; null means the model's own
    configuration, usually nothing, and for E5 models those of their training.

    ``of`` selects the chunks with vectors: those of the "smallest" size, which represent larger ones, those of "each"
    size, or "none" for an archive with BM25 only. Versions of an archive without this setting have all vectors.
    """

    of: Literal["each", "smallest", "none"] = "smallest"
    model: str = Field(default="embedded", min_length=1)
    batch_size: int = Field(default=32, ge=1, le=4096)
    max_seq_length: int = Field(default=512, ge=16)
    precision: Literal["auto", "float32", "bfloat16", "int8"] = "auto"
    actors: int = Field(default=1, ge=1)
    gpus_per_actor: Literal["auto"] | float = "auto"
    dtype: Literal["float32", "float16"] = "float32"
    query_prefix: str | None = None
    passage_prefix: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _prefixes_of_e5(cls, given: Any) -> Any:
        """Fill in the prefixes that E5 was trained with; its configuration on the hub lacks them."""
        if isinstance(given, Mapping) and _E5.search(str(given.get("model", "")).rstrip("/")):
            prefixes = {"query_prefix": "query: ", "passage_prefix": "passage: "}
            return {**given, **{key: value for key, value in prefixes.items() if given.get(key) is None}}
        return given

    @field_validator("gpus_per_actor")
    @classmethod
    def _possible(cls, value: str | float) -> str | float:
        if not isinstance(value, str) and value < 0:
            raise ValueError("must be auto, or 0 or more GPUs")
        return value

    @model_validator(mode="after")
    def _int8_without_gpus(self) -> Self:
        if self.precision == "int8" and self.gpus_per_actor not in ("auto", 0):
            raise ValueError("precision int8 runs on CPUs, so gpus_per_actor must be auto or 0")
        return self

    @property
    def gpus(self) -> float | None:
        """GPUs per actor; None means one if there are any."""
        if self.gpus_per_actor == "auto":
            return 0.0 if self.precision == "int8" else None
        return float(self.gpus_per_actor)

    @property
    def query_precision(self) -> str:
        """The precision for questions: float32, unless the config sets another than int8.

        In bfloat16 and int8 a vector depends on the other questions in its pass, so a repeated run would find other
        chunks and send other prompts. For short questions float32 is fast enough.
        """
        return self.precision if self.precision == "bfloat16" else "float32"


class LimitsConfig(Settings):
    """Limits for reading one document, in its own process, before it becomes a failure.

    ``document_s`` is in seconds of processor time, and five times as many by the clock; ``document_gib`` in GiB (2^30
    bytes) of memory beyond the parsers. ``document_megabytes`` and ``file_text_megabytes`` are in 10^6 bytes of text,
    of one document and of all documents of a file. OCR adds ``ocr_page_s`` seconds of processor time per page, for at
    most ``ocr_pages`` of a document.
    """

    document_s: float = Field(default=120.0, gt=0, allow_inf_nan=False)
    document_gib: float = Field(default=2.0, ge=0.125, allow_inf_nan=False)
    document_megabytes: float = Field(default=50.0, gt=0, allow_inf_nan=False)
    file_text_megabytes: float = Field(default=1000.0, gt=0, allow_inf_nan=False)
    ocr_page_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)
    ocr_pages: int = Field(default=200, ge=1)


class IndexConfig(Settings):
    """The whole index job. ``granularities`` are in o200k tokens, ``max_file_megabytes`` in 10^6 bytes.

    ``shards`` "auto" doubles with the archive, so that a shard holds at most about ``chunks_per_shard`` chunks
    of the smallest size. ``placement`` assigns the parts of the job to nodes of a cluster and does not affect the
    archive; nor does ``telemetry``, which says where traces go.

    ``exclude`` are patterns of files to ignore (see ``list_sources``). ``metadata`` is a file with columns of the
    documents (see ``read_sidecar``); null keeps the previous version's columns. ``ocr`` auto reads images and pages
    without text if the extra is installed, off reads none.

    ``compressor`` makes the table of compressed chunks for the strategy sara: "shipped", "icae", "xrag", or a folder
    that ``okralong train-sara`` wrote. "auto" is the shipped one if it was trained for this encoder and chunks of 256
    tokens have vectors (``embedding.of`` each, or 256 as the smallest size), otherwise "none". ``generator`` makes
    memory slots and is the model that they were trained with: "embedded", a folder or a hub name.
    """

    SHIPPED: ClassVar[str | None] = "index.yaml"

    granularities: list[int] = Field(default=[150, 256, 400, 512], min_length=1)
    embedding: EmbeddingConfig = EmbeddingConfig()
    shards: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    chunks_per_shard: int = Field(default=100_000, ge=1)
    dense: DenseConfig = DenseConfig()
    compressor: str = Field(default=AUTO, min_length=1)
    generator: str = Field(default=EMBEDDED, min_length=1)
    max_file_megabytes: float = Field(default=200.0, gt=0, allow_inf_nan=False)
    exclude: list[str] = Field(default_factory=list)
    metadata: str | None = Field(default=None, min_length=1)
    ocr: Literal["auto", "off"] = "auto"
    limits: LimitsConfig = LimitsConfig()
    placement: IndexPlacement = IndexPlacement()
    telemetry: TelemetryConfig = TelemetryConfig()

    _cut: str = PrivateAttr(default="")
    """The ``cut`` of a version from an earlier chunker."""

    @model_validator(mode="after")
    def _vectors_where_needed(self) -> Self:
        if self.embedding.of == "none" and self.dense.index != "flat":
            raise ValueError(f"dense.index {self.dense.index} needs vectors, but embedding.of is none")
        if self.embedding.of == "none" and self.compressor not in (AUTO, NONE):
            raise ValueError("compressor needs vectors, but embedding.of is none")
        return self

    @field_validator("granularities")
    @classmethod
    def _usable(cls, value: list[int]) -> list[int]:
        if min(value) < MIN_GRANULARITY or len(set(value)) < len(value):
            raise ValueError(f"each size must appear once and be {MIN_GRANULARITY} tokens or more")
        return value

    def content(self) -> dict[str, Any]:
        """Return the settings that determine an archive's content.

        Left out are places, settings that record their own result (excluded files, metadata, OCR), and the compressor,
        whose table is separate.
        """
        content = self.model_dump(
            exclude={"placement", "telemetry", "compressor", "generator", "exclude", "metadata", "ocr"}
        )
        content["boundaries"] = self.cut
        content["dense"] = self.dense.content()
        if self.embedding.of == "each":  # the default before this setting existed
            del content["embedding"]["of"]
        return content | {"limits": self.limits.model_dump(exclude={"ocr_page_s", "ocr_pages"})}

    @property
    def cut(self) -> str:
        """The rules by which chunks are split."""
        return self._cut or cut_name()

    @property
    def embedded_sizes(self) -> list[int]:
        """The granularities whose chunks get vectors."""
        return _with_vectors(self.embedding.of, self.granularities)

    def shard_count(self, tokens: int, before: int = 1) -> int:
        """Return the number of shards for an archive of ``tokens`` that had ``before``.

        "auto" gives a power of two that never falls, so that documents seldom change their shard.
        """
        if self.shards != "auto":
            return self.shards
        count = before if before & (before - 1) == 0 else 1
        while tokens > count * self.chunks_per_shard * min(self.granularities):
            count *= 2
        return count

    def reading_limits(self) -> Limits:
        """Return the limits of reading a document, in seconds and bytes."""
        return Limits(
            seconds=self.limits.document_s,
            memory_bytes=int(self.limits.document_gib * 2**30),
            document_bytes=int(self.limits.document_megabytes * 1e6),
            text_bytes=int(self.limits.file_text_megabytes * 1e6),
            file_bytes=int(self.max_file_megabytes * 1e6),
            ocr=("on" if ocr_is_installed() else "missing") if self.ocr == "auto" else self.ocr,
            ocr_page_seconds=self.limits.ocr_page_s,
            ocr_pages=self.limits.ocr_pages,
        )


LATER: Final = "later"
"""``IndexConfig.ocr`` of a job that leaves the pages for OCR to another one, which follows."""


def config_of(manifest: Mapping[str, Any]) -> IndexConfig:
    """Return the config of an archive version; without ``of``, it has vectors of each size."""
    said = manifest["config"]
    plain = {"embedding": {"of": "each"} | said["embedding"], "dense": DenseConfig.of_content(said["dense"])}
    config = IndexConfig.model_validate({key: said[key] for key in said if key != "boundaries"} | plain)
    config._cut = said["boundaries"]
    return config


def embedded_sizes(manifest: Mapping[str, Any]) -> list[int]:
    """Return the granularities whose chunks have vectors in an archive version."""
    return _with_vectors(manifest["config"]["embedding"].get("of", "each"), manifest["granularities"])


def _with_vectors(of: str, granularities: Sequence[int]) -> list[int]:
    if of == "smallest":
        return [min(granularities)]
    return [] if of == "none" else list(granularities)
