"""The trained reader: the LoRA adapter that is merged into a local generator, and how that one is to be asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.embedded import EMBEDDED
from okralong.pipelines.models.shipped import SHIPPED, adapter_digest, shipped_adapter

READER: Final = "reader"
"""The name of the shipped reader, and of its folder below ``configs/adapters``."""

NO_READER: Final = "none"
"""What a config says for the model as it is."""

DIGITS: Final = 12
"""Hex digits of an adapter's digest that stand in names and identities; ours, as for the packaged models."""

FILES: Final = ("adapter_config.json", "adapter_model.safetensors")
"""What PEFT writes, and all that a merge reads."""

ASKED: Final = "reader.json"


class ReaderFile(Settings):
    """A reader's ``reader.json``: how it was asked in training, and so wants to be asked.

    ``demonstrations``: a worked example stood in each prompt. ``calculator``: sums were left to the calculator.
    ``rows``: how many it learned from; None where that is not known.
    """

    demonstrations: bool = False
    calculator: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """An adapter that is there. ``name`` is "reader" for the shipped one, else its folder's; ``digest`` its content's,
    the first 12 hex digits.
    """

    folder: Path
    name: str
    digest: str


def find_reader(said: str, base_url: str, model: str) -> Reader | None:
    """The reader that a config means by ``said`` ("shipped", "none" or a folder) for its model; None: no merge.

    The shipped one is for the embedded model and is left out with any other. Raises ConfigError when the folder holds
    no adapter, and for a folder with a remote endpoint, whose weights are out of reach.
    """
    if said == NO_READER:
        return None
    if said == SHIPPED:
        embedded = (base_url, model) == (EMBEDDED, EMBEDDED)
        return _read(shipped_adapter(READER), READER) if embedded else None
    if base_url != EMBEDDED:
        raise ConfigError(
            f"llm.reader is the folder {said}, and llm.base_url is {base_url}: nothing can be merged into a model that "
            "is served elsewhere. Set llm.reader: none, or serve the model here with llm.base_url: embedded and "
            "llm.model: embedded or a transformers folder."
        )
    folder = Path(said).expanduser().resolve()
    return _read(folder, folder.name)


def asked_as(folder: Path) -> ReaderFile:
    """What the reader's ``reader.json`` says; the defaults where it has none. Raises ConfigError for unknown keys."""
    file = folder / ASKED
    if not file.is_file():
        return ReaderFile()
    return parse_config(ReaderFile, file.read_text(encoding="utf-8", errors="replace"), str(file))


def _read(folder: Path, name: str) -> Reader:
    missing = [file for file in FILES if not (folder / file).is_file()]
    if missing:
        raise ConfigError(
            f"The reader {folder} holds no {' and no '.join(missing)}. Give llm.reader the folder that `okralong "
            "train` wrote, or none for the model as it is."
        )
    return Reader(folder, name, (adapter_digest(folder) or "")[:DIGITS])
