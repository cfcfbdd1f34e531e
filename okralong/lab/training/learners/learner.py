"""``Learner`` and ``Definition``: the parts of a training that depend on the kind of model, one file for each kind."""

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
"""A trainer's log: losses and accuracies, with the epoch at which they were measured."""

R = TypeVar("R")
E = TypeVar("E", bound=Learned)


class Learner(nn.Module, ABC):
    """A module that maps a batch to {"loss": scalar, "right": tensor (n, ...)}, which ``measures`` reads."""

    in_order: bool = False
    """True to learn the examples in the order given (a curriculum) instead of a random order."""

    made_from: str = ""
    """Further inputs, besides recipe and examples, that determine the outcome. If they change, checkpoints are
    invalid."""

    _keys_to_ignore_on_save: None = None
    """Required by the trainer, which assumes that every module is one of transformers."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Make a batch of the examples. It must have ``labels``, shape (n, ...)."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the trained weights, and only these, as safetensors."""

    def finish(self) -> bool:
        """Optionally change the weights after the best state was restored; return whether they changed."""
        return False

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """Return figures, by name, computed from ``right`` of all validation examples.

        By default ``right`` has the shape (n, 2): for each reply, the correctly predicted tokens and all tokens.
        """
        foretold, tokens = right.sum(dim=0).tolist()
        return {"token_accuracy": foretold / tokens}


class Definition(ABC, Generic[R, E]):
    """Defines how a kind of model is trained. ``R`` is the type of its rows, ``E`` that of its examples."""

    use: str
    """The option or config key that uses the trained model, in which ``{out}`` stands for its folder."""

    @abstractmethod
    def base(self, recipe: Recipe) -> ResolvedModel:
        """Find the model that the recipe names. Raises ConfigError if it is missing."""

    def usable(self, recipe: Recipe, rows: Sequence[R]) -> list[R]:
        """Return the rows that can be learned by this recipe."""
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
        """Write files that depend only on the train rows to ``out``, next to the weights; return their paths."""
        return []

    @abstractmethod
    def card(self, recipe: Recipe, base: str, out: Path, train: Sequence[R], held: Sequence[R], log: Log) -> list[str]:
        """Calibrate the probabilities, if any, and return the card's sections. ``base`` is the base model's name."""


def causal_base(model: str) -> ResolvedModel:
    """Find a causal language model: "embedded", a folder or a hub name."""
    return ResolvedModel(causal_model(model), "SmolLM2-135M-Instruct" if model == EMBEDDED else model, None)


def evaluations_of(log: Log) -> list[Mapping[str, float]]:
    """Return the entries of a log that are validation results, in order."""
    return [entry for entry in log if "eval_loss" in entry]
