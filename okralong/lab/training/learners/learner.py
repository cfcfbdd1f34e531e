"""The model-specific parts of a training: a ``Learner`` and a ``Definition``. A new model is a new file with both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from okralong.lab.training.recipe import Learned, Recipe
from okralong.pipelines.models.weights import EMBEDDED, ResolvedModel, causal_model

Log = Sequence[Mapping[str, float]]
"""A trainer's log: losses and accuracies with the epoch at which they were measured."""

R = TypeVar("R")
E = TypeVar("E", bound=Learned)


class Learner(nn.Module, ABC):
    """A module whose call on a batch returns {"loss": scalar, "right": tensor (n, ...)}, which ``measures`` reads."""

    in_order: bool = False
    """True to learn the examples in the order given, for a curriculum, instead of a drawn one."""

    made_from: str = ""
    """Further inputs that determine the outcome, in addition to recipe and examples; a change invalidates
    checkpoints."""

    _keys_to_ignore_on_save: None = None
    """Required by the trainer, which assumes that every module is transformers' own."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Make a batch of the examples; it holds ``labels`` (n, ...)."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write only what was trained, as safetensors."""

    def finish(self) -> bool:
        """Change the weights once more after the best state is restored; return whether they changed."""
        return False

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """Return figures by name from the ``right`` of all validation examples.

        By default ``right`` is (n, 2): correctly predicted tokens of each reply, and all of them.
        """
        foretold, tokens = right.sum(dim=0).tolist()
        return {"token_accuracy": foretold / tokens}


class Definition(ABC, Generic[R, E]):
    """The model-specific parts of a training. ``R`` are its rows, ``E`` the examples made of them."""

    use: str
    """The option or key that uses the result, with ``{out}`` for its folder."""

    @abstractmethod
    def base(self, recipe: Recipe) -> ResolvedModel:
        """Find the model that the recipe names. Raises ConfigError if it is missing."""

    def usable(self, recipe: Recipe, rows: Sequence[R]) -> list[R]:
        """Return the rows that can be learned under this recipe."""
        return list(rows)

    @abstractmethod
    def examples(self, rows: Sequence[R]) -> list[E]:
        """Convert rows into the learner's examples."""

    @abstractmethod
    def learner(
        self, recipe: Recipe, train: Sequence[E], base: ResolvedModel, device: str, dtype: torch.dtype
    ) -> Learner:
        """Make the learner."""

    def beside(self, rows: Sequence[R], out: Path) -> list[Path]:
        """Write files that accompany the weights and follow from the train rows alone to ``out``; return them."""
        return []

    @abstractmethod
    def card(self, recipe: Recipe, base: str, out: Path, train: Sequence[R], held: Sequence[R], log: Log) -> list[str]:
        """Calibrate probabilities, if any, and return the card's sections. ``base`` is the base model's name."""


def causal_base(model: str) -> ResolvedModel:
    """Find a causal language model: "embedded", a folder or a hub name."""
    return ResolvedModel(causal_model(model), "SmolLM2-135M-Instruct" if model == EMBEDDED else model, None)


def evaluations_of(log: Log) -> list[Mapping[str, float]]:
    """Return the entries of a log that are validation results, in order."""
    return [entry for entry in log if "eval_loss" in entry]
