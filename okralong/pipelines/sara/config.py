"""Find the compressor that a config names, and check that it fits the archive and the generator of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ArchiveError, ConfigError
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.models.merged_model import NO_READER
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED
from okralong.pipelines.sara.artifact import DESCRIPTION, AnyShape, Shape, read_shape

SARA: Final = "sara"
"""The name of SARA's shipped compressor (a folder in ``pipelines/models/adapters``), and of its section in an answer
config."""

ICAE: Final = "icae"
XRAG: Final = "xrag"
"""The names and folders of two more shipped compressors: ICAE's memory slots, and xRAG's projector to one vector."""

SHIPPED_AS: Final = {SHIPPED: SARA, ICAE: ICAE, XRAG: XRAG}
"""The folder of each name that a config may give."""

AUTO: Final = "auto"
NONE: Final = "none"
"""Further values in an index config: the shipped compressor if it fits, or no compressor."""


def shipped_folder(name: str = SARA) -> Path | None:
    """Return the folder of a shipped compressor, or None if this installation lacks it."""
    folder = Path(str(resources.files("okralong.pipelines.models"))) / "adapters" / name
    return folder if (folder / DESCRIPTION).is_file() else None


def compressor_folder(said: str) -> Path:
    """Return the folder for "shipped", "icae", "xrag" or a path. Raises ConfigError if it has no compressor."""
    folder = shipped_folder(SHIPPED_AS[said]) if said in SHIPPED_AS else Path(said).expanduser().resolve()
    if folder is None:
        raise ConfigError(
            "This okralong comes without a trained compressor, which SARA needs. Train one with `okralong train-sara "
            "training/sara.yaml`, and name its folder: under compressor in the index config, and under sara.compressor "
            "in the answer config."
        )
    if not (folder / DESCRIPTION).is_file():
        raise ConfigError(
            f"{folder} holds no compressor (it has no {DESCRIPTION}). Give the folder that `okralong train-sara` "
            "wrote, or shipped (SARA's), icae or xrag for one that comes with okralong."
        )
    return folder


def compressor_to_index(said: str, encoder: Mapping[str, Any], sizes: Collection[int]) -> Path | None:
    """Return the folder of the compressor for an archive's table, or None.

    Args:
        said: "auto", "none", "shipped", "icae", "xrag" or a folder; "auto" is the shipped one if it fits.
        encoder: ``sha256`` and ``model`` of the archive's encoder.
        sizes: The chunk sizes whose chunks have vectors.

    Raises:
        ConfigError: A named compressor does not fit.
    """
    if said == NONE:
        return None
    if said == AUTO:
        shipped = shipped_folder()
        if shipped is None or incompatibility_reason(read_shape(shipped)[0], encoder, sizes) is not None:
            return None
        return shipped
    folder = compressor_folder(said)
    if (why := incompatibility_reason(read_shape(folder)[0], encoder, sizes)) is not None:
        raise ConfigError(
            f"The compressor {folder} cannot be used for this archive: {why}. Set compressor to auto or none in the "
            "index config, embedding.of to each where its chunks lack vectors, or train one for this encoder and chunk "
            "size with `okralong train-sara`. Nothing was done."
        )
    return folder


def incompatibility_reason(shape: AnyShape, encoder: Mapping[str, Any], sizes: Collection[int]) -> str | None:
    """Return why a compressor does not fit an archive, or None. Memory slots need no vectors and fit any encoder."""
    if isinstance(shape, Shape):
        unknown = shape.encoder_sha256 is None and shape.encoder != encoder["model"]
        if shape.encoder_sha256 != encoder["sha256"] or unknown:
            return f"it was trained on the vectors of {shape.encoder}, and the archive's are of {encoder['model']}"
        if shape.inputs != encoder.get("dimension", shape.inputs):
            return f"it reads vectors of length {shape.inputs}, and the archive's have length {encoder['dimension']}"
    if shape.chunk_tokens not in sizes:
        said = ", ".join(map(str, sizes))
        return (
            f"it was trained on chunks of {shape.chunk_tokens} tokens, and those with vectors are of {said or 'none'}"
        )
    return None


# The section ``sara`` of an answer config.


class SaraConfig(Settings):
    """SARA's models in a run.

    ``compressor`` is "shipped" (SARA's), "icae", "xrag" or a folder that ``okralong train-sara`` wrote, which may also
    have the generator's adapter. The generator runs in ``precision``, in ``replicas`` processes with
    ``gpus_per_replica`` GPUs each. Each answers up to ``max_batch`` prompts together and waits up to ``batch_wait_s``
    seconds for a batch to fill.
    """

    compressor: Annotated[str, Field(min_length=1)] = SHIPPED
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    max_batch: Annotated[int, Field(ge=1, le=256)] = 8
    batch_wait_s: Annotated[float, Field(ge=0, le=10)] = 0.05
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0

    def folder(self) -> Path:
        """Return the compressor's folder. Raises ConfigError if there is none."""
        return compressor_folder(self.compressor)


# Checks of generator, archive and table, before a run spends anything.


def check_generator(folder: Path, llm: LlmConfig) -> None:
    """Raise ConfigError unless the config names the generator that the compressor was trained for."""
    shape, _ = read_shape(folder)
    if llm.base_url != EMBEDDED:
        raise ConfigError(
            f"The strategy sends vectors in place of tokens, and llm.base_url is {llm.base_url}, an endpoint that "
            "takes only text. Set llm.base_url: embedded, with which okralong serves the generator itself, or choose "
            "another strategy. Nothing was spent."
        )
    if Path(llm.model).name != Path(shape.generator).name:  # a description has only the folder's name
        raise ConfigError(
            f"The compressor {folder} was trained for the generator {shape.generator!r}, and llm.model is "
            f"{llm.model!r}, to which its vectors are noise. Set llm.model: {shape.generator}, or train a "
            "compressor for the other one with `okralong train-sara`. Nothing was spent."
        )
    if llm.reader not in (SHIPPED, NO_READER):
        raise ConfigError(
            f"llm.reader is the folder {llm.reader}, but the strategy's generator uses the adapter in the compressor's "
            "folder. Leave llm.reader out. Nothing was spent."
        )


def check_encoder(folder: Path, manifest: Mapping[str, Any], archive: str) -> None:
    """Raise ConfigError unless the compressor was trained for the archive's encoder."""
    shape, _ = read_shape(folder)
    if (why := incompatibility_reason(shape, manifest["embedding"], [shape.chunk_tokens])) is not None:
        raise ConfigError(
            f"The compressor {folder} cannot be used with {archive}: {why}. Name another under sara.compressor, or "
            "train one for that encoder with `okralong train-sara`. Nothing was spent."
        )


def check_table(folder: Path, manifest: Mapping[str, Any], archive: str, granularity: int) -> None:
    """Raise ArchiveError unless the archive has this compressor's table for the chunk size ``granularity``."""
    _, fingerprint = read_shape(folder)
    held = manifest.get("compressor")
    named = {shipped_folder(name): said for said, name in SHIPPED_AS.items()}.get(folder, folder)
    again = f"Set compressor: {named} and embedding.of: each in the index "
    again += "config and run okralong index on it again, which embeds only chunks without vectors. Nothing was spent."
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
