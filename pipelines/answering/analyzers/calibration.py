"""The temperatures of a trained adapter, kept beside its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.core.types import ConfigError

CALIBRATION: Final = "calibration.json"

Temperatures = tuple[float, float, float]
"""What the logits of each field are divided by, in the order of FIELDS."""

UNCALIBRATED: Final[Temperatures] = (1.0, 1.0, 1.0)


def write_temperatures(folder: Path, temperatures: Temperatures) -> None:
    """Write them by field."""
    said = dict(zip((key for key, _ in FIELDS), temperatures, strict=True))
    (folder / CALIBRATION).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


def read_temperatures(folder: Path) -> Temperatures:
    """What was written there; 1 for each field of a folder that holds none. Raises ConfigError when it is damaged."""
    file = folder / CALIBRATION
    if not file.is_file():
        return UNCALIBRATED
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        kind, pattern, evidence = (float(said[key]) for key, _ in FIELDS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} holds no temperatures: {error!r}. Train again, or delete the file.") from error
    if min(kind, pattern, evidence) <= 0:
        raise ConfigError(f"{file} holds a temperature that is not above 0. Train again, or delete the file.")
    return kind, pattern, evidence
