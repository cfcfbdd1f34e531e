"""What a machine with little but PyTorch is given: the recipe and the examples as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from okralong.pipelines.training.recipe import Recipe, write_examples
from okralong.pipelines.training.rows import TrainingRow
from okralong.pipelines.training.trained import examples_of


def export_files(
    recipe: Recipe, train: Sequence[TrainingRow], validation: Sequence[TrainingRow], out: Path
) -> list[Path]:
    """RECIPE.json, TRAIN.jsonl and VALIDATION.jsonl, for ``training.run`` on another machine."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "recipe.json", out / "train.jsonl", out / "validation.jsonl"]
    paths[0].write_text(json.dumps(asdict(recipe), indent=1), encoding="utf-8")
    write_examples(paths[1], examples_of(train))
    write_examples(paths[2], examples_of(validation))
    return paths
