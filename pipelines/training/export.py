"""What a machine with little but PyTorch is given: the recipe and the examples as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from okralong.pipelines.training.examples import AnyExample, write_examples
from okralong.pipelines.training.recipe import Recipe


def export_files(
    recipe: Recipe, train: Sequence[AnyExample], validation: Sequence[AnyExample], out: Path
) -> list[Path]:
    """RECIPE.json, TRAIN.jsonl and VALIDATION.jsonl, for ``training.run`` on another machine."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "recipe.json", out / "train.jsonl", out / "validation.jsonl"]
    paths[0].write_text(json.dumps(asdict(recipe), indent=1), encoding="utf-8")
    write_examples(paths[1], train)
    write_examples(paths[2], validation)
    return paths
