"""What a model of its own gives to a training: a ``Learner`` and a ``Definition``; one more model is one more file with
the two.
"""

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
    """A module whose call on a batch gives {"loss": scalar, "right": tensor (n, ...)}, which ``measures`` reads."""

    in_order: bool = False
    """Whether examples are learned in the order given, as a curriculum wants it, and not in a drawn one."""

    made_from: str = ""
    """What else than recipe and examples decides the outcome: checkpoints made from other things are of no use."""

    _keys_to_ignore_on_save: None = None
    """Asked for by the trainer, which takes every module for one of transformers' own."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> dict[str, Any]:
        """A batch of the examples that it learns from; it holds ``labels`` (n, ...)."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write only what was learned, as safetensors."""

    def finish(self) -> bool:
        """Change what was learned once more, when the best state is found; whether it did."""
        return False

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """Figures by name from the ``right`` of all validation examples.

        Unless a learner says otherwise ``right`` is (n, 2): of each reply the tokens foretold, and all of them.
        """
        foretold, tokens = right.sum(dim=0).tolist()
        return {"token_accuracy": foretold / tokens}


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


def causal_base(model: str) -> ResolvedModel:
    """A causal language model: "embedded", a folder or a hub name."""
    return ResolvedModel(causal_model(model), "SmolLM2-135M-Instruct" if model == EMBEDDED else model, None)


def evaluations_of(log: Log) -> list[Mapping[str, float]]:
    """The entries of a log that are evaluations on validation, in their order."""
    return [entry for entry in log if "eval_loss" in entry]
