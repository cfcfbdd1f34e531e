"""A whole training: examples, the fit, temperatures, card and curves. It may run as a Ray task or alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from okralong.pipelines.models.weights import EMBEDDED, causal_model, resolve_embedding_model
from okralong.pipelines.training.curves import draw_curves
from okralong.pipelines.training.model_card import model_card
from okralong.pipelines.training.recipe import Recipe
from okralong.pipelines.training.rows import TrainingRow
from okralong.pipelines.training.say import Say, quiet
from okralong.pipelines.training.self_training import SOURCE as SELF_LABELLED
from okralong.pipelines.training.trained import calibrate, examples_of, figures_of, trained_analyzer

CARD: Final = "README.md"
CURVES: Final = "curves.svg"


def train_session(
    recipe: Recipe,
    train: Sequence[TrainingRow],
    validation: Sequence[TrainingRow],
    out: Path,
    left_out: Sequence[str] = (),
    say: Say = quiet,
) -> None:
    """Train by ``recipe`` and write everything to ``out``; ``left_out`` are the sets that the rows are without,
    ``say`` is told of each evaluation.

    Raises ConfigError when the model cannot be found, InputError when the rows have none to learn from.
    """
    from okralong.pipelines.training.run import train as fit_examples  # brings torch and transformers: seconds

    model, name, sha256 = _base(recipe)
    held = examples_of(validation)
    history = fit_examples(recipe, examples_of(train), held, model, sha256, out, say)
    temperatures = calibrate(recipe, out, held[: recipe.validation_rows])
    figures = {"validation": figures_of(trained_analyzer(recipe, out), validation[: recipe.validation_rows])}
    learned = train[: recipe.rows]
    counts = {"train": len(learned), "validation": len(validation[: recipe.validation_rows])}
    if own := sum(row.source == SELF_LABELLED for row in learned):
        counts["self-labelled train"] = own
    if left_out:
        name += f", without the rows of {', '.join(left_out)}"
    (out / CARD).write_text(model_card(recipe, name, counts, temperatures, figures), encoding="utf-8")
    draw_curves({"": history}, out / CURVES)


def _base(recipe: Recipe) -> tuple[str, str, str | None]:
    """Folder or hub name, what it is called, and the sha256 of its weights where known."""
    if recipe.kind == "heads":
        found = resolve_embedding_model(recipe.model)
        return found.path, found.name, found.sha256
    return causal_model(recipe.model), "SmolLM2-135M-Instruct" if recipe.model == EMBEDDED else recipe.model, None
