"""Which compressor a config means, and whether it fits an archive."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import SHIPPED
from okralong.pipelines.sara.description import DESCRIPTION, Shape, read_shape

SARA: Final = "sara"
"""The folder of the shipped compressor below ``configs/adapters``, and the section of an answer config."""

AUTO: Final = "auto"
NONE: Final = "none"
"""What an index config may say beside a place: the shipped one where it fits, and none."""


def shipped_folder() -> Path | None:
    """Where the shipped compressor is; None where this installation comes without one."""
    folder = Path(str(resources.files("okralong.configs"))) / "adapters" / SARA
    return folder if (folder / DESCRIPTION).is_file() else None


def compressor_folder(said: str) -> Path:
    """The folder of the compressor that a config means by "shipped" or a path. Raises ConfigError for none."""
    folder = shipped_folder() if said == SHIPPED else Path(said).expanduser().resolve()
    if folder is None:
        raise ConfigError(
            "This okralong comes without a trained compressor, which SARA needs. Train one with `okralong train-sara "
            "training/sara.yaml`, and name its folder: under compressor in the index config, and under sara.compressor "
            "in the answer config."
        )
    if not (folder / DESCRIPTION).is_file():
        raise ConfigError(
            f"{folder} holds no compressor (it has no {DESCRIPTION}). Give the folder that `okralong train-sara` "
            "wrote, or shipped for the one that comes with okralong."
        )
    return folder


def compressor_to_index(said: str, encoder: Mapping[str, Any], sizes: Collection[int]) -> Path | None:
    """The compressor whose table an archive gets; None for none. ``said`` is auto, none, shipped or a folder.

    ``encoder`` has the ``sha256`` and the ``model`` of the archive's encoder, ``sizes`` are its granularities. Auto is
    the shipped one where it fits, else none; one that is named must fit: raises ConfigError.
    """
    if said == NONE:
        return None
    if said == AUTO:
        shipped = shipped_folder()
        return shipped if shipped is not None and misfit(read_shape(shipped)[0], encoder, sizes) is None else None
    folder = compressor_folder(said)
    if (why := misfit(read_shape(folder)[0], encoder, sizes)) is not None:
        raise ConfigError(
            f"The compressor {folder} cannot be used for this archive: {why}. Set compressor to auto or none in the "
            "index config, or train one for this encoder and chunk size with `okralong train-sara`. Nothing was done."
        )
    return folder


def misfit(shape: Shape, encoder: Mapping[str, Any], sizes: Collection[int]) -> str | None:
    """Why the compressor does not fit, None where it does."""
    unknown = shape.encoder_sha256 is None and shape.encoder != encoder["model"]
    if shape.encoder_sha256 != encoder["sha256"] or unknown:
        return f"it was trained on the vectors of {shape.encoder}, and the archive's are of {encoder['model']}"
    if shape.inputs != encoder.get("dimension", shape.inputs):
        return f"it reads vectors of {shape.inputs} numbers, and the archive's have {encoder['dimension']}"
    if shape.chunk_tokens not in sizes:
        said = ", ".join(map(str, sizes))
        return f"it was trained on chunks of {shape.chunk_tokens} tokens, and granularities are {said}"
    return None
