"""One training from a recipe and examples; PyTorch, transformers and PEFT are all it needs, and Ray is not there.

On a machine that has no more than those, from a bare checkout:

    python -m okralong.pipelines.training.run RECIPE.json TRAIN.jsonl VALIDATION.jsonl MODEL_FOLDER SHA256 OUT

SHA256 is that of the encoder's weights, for heads; "" for a label scorer. OUT then holds the weights and the history;
temperatures, card and curves are made by `okralong train` alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from okralong.pipelines.models.loading import settle
from okralong.pipelines.models.weights import available_cores
from okralong.pipelines.training.examples import AnyExample, Example, read_examples
from okralong.pipelines.training.fit import fit
from okralong.pipelines.training.label_learner import LabelLearner
from okralong.pipelines.training.learner import Learner
from okralong.pipelines.training.reader_learner import ReaderLearner
from okralong.pipelines.training.recipe import Recipe
from okralong.pipelines.training.say import Say, quiet


def train(
    recipe: Recipe,
    train: Sequence[AnyExample],
    validation: Sequence[AnyExample],
    model: str,
    sha256: str | None,
    out: Path,
    say: Say = quiet,
) -> list[dict[str, float]]:
    """Train as ``recipe`` says and write the result to ``out``; the history of losses and accuracies.

    ``model`` is the folder or hub name that ``recipe.model`` stands for, ``sha256`` that of its weights. At most
    ``recipe.rows`` examples are used, the first ones, which the rows' own order has balanced.
    """
    # Ray gives a task one thread unless told otherwise.
    device, dtype = settle("auto", "auto", available_cores())
    some, held = list(train)[: recipe.rows], list(validation)[: recipe.validation_rows]
    return fit(_learner(recipe, some, model, sha256, device, dtype), recipe, some, held, out, device, say)


def _learner(
    recipe: Recipe, train: Sequence[AnyExample], model: str, sha256: str | None, device: str, dtype: torch.dtype
) -> Learner:
    if recipe.kind == "heads":
        # Imported here: what the heads read needs a stemmer, which a bare machine need not have for a label scorer.
        from okralong.pipelines.training.heads_learner import HeadsLearner

        return HeadsLearner(recipe, model, sha256, [each for each in train if isinstance(each, Example)], device)
    if recipe.kind == "reader":
        return ReaderLearner(recipe, model, device, dtype)
    return LabelLearner(recipe, model, device, dtype)


def main(arguments: Sequence[str]) -> int:
    """See above; prints the last evaluation."""
    said, rows, held, model, sha256, out = arguments
    recipe = Recipe.of(json.loads(Path(said).read_text(encoding="utf-8")))
    history = train(recipe, read_examples(Path(rows)), read_examples(Path(held)), model, sha256 or None, Path(out))
    print(json.dumps([each for each in history if "eval_loss" in each][-1:], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
