"""One training from rows to a folder that can be used: prepare, fit, calibrate, card, curves; as a Ray task or alone.

What differs between models is a ``Definition``; one more model is one more file with a learner and a definition.

On a machine that has PyTorch, transformers and PEFT but neither Ray nor Parquet, from a bare checkout:

    python -m okralong.pipelines.lab.training.session RECIPE.json TRAIN.jsonl VALIDATION.jsonl MODEL_FOLDER SHA256 OUT

SHA256 is that of the encoder's weights, for heads; "" for a label scorer or a reader. OUT then holds the weights and
the history; temperatures, card and curves are made by `okralong train` alone.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import torch

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.lab.training.fit import Learner, Log, Say, fit, quiet
from okralong.pipelines.lab.training.recipe import AnyExample, Learned, Recipe, read_examples
from okralong.pipelines.models.loading import settle
from okralong.pipelines.models.weights import EMBEDDED, ResolvedModel, available_cores, causal_model

CARD: Final = "README.md"
CURVES: Final = "curves.svg"

R = TypeVar("R")
E = TypeVar("E", bound=Learned)


class Definition(ABC, Generic[R, E]):
    """What of a training is one model's own. ``R`` are its rows, ``E`` the examples that are made of them."""

    use: str
    """How the result is used, with ``{out}`` for its folder."""

    @abstractmethod
    def base(self, recipe: Recipe) -> ResolvedModel:
        """The model that the recipe names. Raises ConfigError when it cannot be found."""

    def usable(self, recipe: Recipe, rows: Sequence[R]) -> list[R]:
        """The rows that can be learned under this recipe."""
        return list(rows)

    @abstractmethod
    def examples(self, rows: Sequence[R]) -> list[E]:
        """Rows as what the learner reads."""

    @abstractmethod
    def learner(
        self, recipe: Recipe, train: Sequence[E], base: ResolvedModel, device: str, dtype: torch.dtype
    ) -> Learner:
        """What learns."""

    def beside(self, rows: Sequence[R], out: Path) -> list[Path]:
        """Write to ``out`` what follows from the train rows alone and is needed beside the weights; the files."""
        return []

    @abstractmethod
    def card(self, recipe: Recipe, base: str, out: Path, train: Sequence[R], held: Sequence[R], log: Log) -> list[str]:
        """Calibrate what was trained, where it says probabilities, and the card's sections. ``base`` is its name."""


def definition_of(recipe: Recipe) -> Definition[Any, Any]:
    """The definition of what a recipe trains. Raises ConfigError for SARA, which has a command of its own."""
    # Imported here: what heads read needs more packages than a reader does, and a bare machine need not have them.
    if recipe.kind == "sara":
        raise ConfigError("kind: sara is trained by `okralong train-sara`. Give label_scorer, heads or reader.")
    if recipe.kind == "reader":
        from okralong.pipelines.lab.training.reader import ReaderDefinition

        return ReaderDefinition()
    from okralong.pipelines.lab.training.analyzer import AnalyzerDefinition

    return AnalyzerDefinition()


def causal_base(model: str) -> ResolvedModel:
    """A causal language model: "embedded", a folder or a hub name."""
    return ResolvedModel(causal_model(model), "SmolLM2-135M-Instruct" if model == EMBEDDED else model, None)


def prepared(recipe: Recipe, train: Sequence[R], validation: Sequence[R]) -> tuple[list[R], list[R]]:
    """The rows of both sides that the recipe takes: the first ones, which the rows' own order has balanced."""
    usable = definition_of(recipe).usable
    return usable(recipe, train)[: recipe.rows], usable(recipe, validation)[: recipe.validation_rows]


def train_session(
    recipe: Recipe,
    train: Sequence[Any],
    validation: Sequence[Any],
    out: Path,
    left_out: Sequence[str] = (),
    say: Say = quiet,
) -> None:
    """Train by ``recipe`` on rows and write everything to ``out``; ``left_out`` are the sets that the rows are without,
    ``say`` is told of each evaluation.

    Raises ConfigError when the model cannot be found.
    """
    definition = definition_of(recipe)
    base = definition.base(recipe)
    learned, held = prepared(recipe, train, validation)
    log = fit_recipe(recipe, definition.examples(learned), definition.examples(held), base, out, say)
    definition.beside(learned, out)
    name = base.name + (f", without the rows of {', '.join(left_out)}" if left_out else "")
    write_card(out, definition.card(recipe, name, out, learned, held, log), {"": log})


def fit_recipe(
    recipe: Recipe,
    train: Sequence[AnyExample],
    validation: Sequence[AnyExample],
    base: ResolvedModel,
    out: Path,
    say: Say = quiet,
) -> list[dict[str, float]]:
    """Train on examples as ``recipe`` says and write weights and history to ``out``; the history."""
    # Ray gives a task one thread unless told otherwise.
    device, dtype = settle("auto", "auto", available_cores())
    some, held = list(train)[: recipe.rows], list(validation)[: recipe.validation_rows]
    learner = definition_of(recipe).learner(recipe, some, base, device, dtype)
    return fit(learner, recipe, some, held, out, device, say)


def write_card(out: Path, sections: Sequence[str], logs: Mapping[str, Log]) -> None:
    """Write the model card and the picture of the losses, by the name of their stage."""
    from okralong.pipelines.lab.pictures import draw_curves  # brings matplotlib, which a bare machine need not have

    (out / CARD).write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    draw_curves(logs, out / CURVES)


def main(arguments: Sequence[str]) -> int:
    """See above; prints the last evaluation."""
    said, rows, held, model, sha256, out = arguments
    recipe = Recipe.model_validate_json(Path(said).read_text(encoding="utf-8"))
    base = ResolvedModel(model, recipe.model, sha256 or None)
    history = fit_recipe(recipe, read_examples(Path(rows)), read_examples(Path(held)), base, Path(out))
    print(json.dumps([each for each in history if "eval_loss" in each][-1:], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
