"""What the folders of a training say of themselves: a stage that has begun or is complete, and the config of it all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from okralong.pipelines.sara.training.config import SaraConfig

DONE: Final = "stage.json"
"""Written last into a stage's folder: it is complete, and from what it was made."""

BEGUN: Final = "begun.json"
"""Written first: from what the stage is made, whose checkpoints stand below."""

TRAINED: Final = "training.json"
"""In the result's folder: the config that it is of, but for its figures."""


def is_done(folder: Path, made_from: str) -> bool:
    """Whether the stage is complete, and was made from that."""
    return _said(folder / DONE) == made_from


def begin_stage(folder: Path, made_from: str) -> None:
    """The folder of a stage that is to be trained. Checkpoints of one that was made from other things are deleted."""
    if _said(folder / BEGUN) != made_from:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DONE).unlink(missing_ok=True)
    (folder / BEGUN).write_text(json.dumps({"made_from": made_from}) + "\n", encoding="utf-8")


def end_stage(folder: Path, made_from: str) -> None:
    """Say that the stage is complete."""
    (folder / DONE).write_text(json.dumps({"made_from": made_from}) + "\n", encoding="utf-8")


def _said(file: Path) -> str | None:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["made_from"])
    except (OSError, ValueError, KeyError):
        return None


def is_trained_by(out: Path, config: SaraConfig) -> bool:
    """Whether ``out`` holds the result of this config, whatever figures either asks for."""
    try:
        return (out / TRAINED).read_text(encoding="utf-8") == _as_trained(config)
    except OSError:
        return False


def say_trained(out: Path, config: SaraConfig) -> None:
    """Say of which config ``out`` holds the result."""
    (out / TRAINED).write_text(_as_trained(config), encoding="utf-8")


def _as_trained(config: SaraConfig) -> str:
    # The name alone: a folder's path says more of a machine than of a training.
    named = config.model_copy(update={"model": Path(config.model).name, "encoder": Path(config.encoder).name})
    return named.model_dump_json(indent=1, exclude={"figures"}) + "\n"
