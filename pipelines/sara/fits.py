"""What is checked before a run spends anything on SARA: the archive, its table, and the generator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okralong.pipelines.core.types import ArchiveError, ConfigError
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.models.merged_model import NO_READER
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED
from okralong.pipelines.sara.description import read_shape
from okralong.pipelines.sara.found import misfit, shipped_folder


def check_generator(folder: Path, llm: LlmConfig) -> None:
    """Raise ConfigError unless the generator that the config names is the one that the compressor was trained for."""
    shape, _ = read_shape(folder)
    if llm.base_url != EMBEDDED:
        raise ConfigError(
            f"The strategy sends vectors in the place of tokens, and llm.base_url is {llm.base_url}: an endpoint, paid "
            "or not, takes texts alone. Set llm.base_url: embedded, with which okralong serves the generator itself, "
            "or choose another strategy. Nothing was spent."
        )
    if Path(llm.model).name != Path(shape.generator).name:  # a description has a folder's name and not its path
        raise ConfigError(
            f"The compressor {folder} was trained for the generator {shape.generator!r}, and llm.model is "
            f"{llm.model!r}, which would read its vectors as noise. Set llm.model: {shape.generator}, or train a "
            "compressor for the other one with `okralong train-sara`. Nothing was spent."
        )
    if llm.reader not in (SHIPPED, NO_READER):
        raise ConfigError(
            f"llm.reader is the folder {llm.reader}, and the strategy's generator has an adapter of its own, which "
            "lies beside the compressor. Leave llm.reader out. Nothing was spent."
        )


def check_encoder(folder: Path, manifest: Mapping[str, Any], archive: str) -> None:
    """Raise ConfigError unless the compressor reads the vectors of the archive's encoder."""
    shape, _ = read_shape(folder)
    if (why := misfit(shape, manifest["embedding"], [shape.chunk_tokens])) is not None:
        raise ConfigError(
            f"The compressor {folder} cannot be used with {archive}: {why}. Name another under sara.compressor, or "
            "train one for that encoder with `okralong train-sara`. Nothing was spent."
        )


def check_table(folder: Path, manifest: Mapping[str, Any], archive: str, granularity: int) -> None:
    """Raise ArchiveError unless the archive has this compressor's table, at that granularity."""
    _, fingerprint = read_shape(folder)
    held = manifest.get("compressor")
    again = f"Set compressor: {SHIPPED if folder == shipped_folder() else folder} in the index config and run okralong "
    again += "index on it again, which embeds nothing anew. Nothing was spent."
    if held is None:
        raise ArchiveError(f"{archive} holds no compressed chunks, which the strategy sara shows. {again}")
    if held["fingerprint"] != fingerprint:
        raise ArchiveError(
            f"{archive} holds chunks compressed by {held['fingerprint']}, and the compressor {folder} is "
            f"{fingerprint}: the generator could not read them. {again}"
        )
    if held["granularity"] != granularity:
        raise ArchiveError(
            f"{archive} holds compressed chunks of {held['granularity']} tokens, and the policy's sara.granularity is "
            f"{granularity}. Set sara.granularity to {held['granularity']}, which the compressor was trained with. "
            "Nothing was spent."
        )
