r"""Train a model by a recipe: prepare, fit, calibrate, write card and curves. Runs as a Ray task or alone.

A ``Learner`` and a ``Definition`` have the parts that depend on the kind of model. This module does the rest with
transformers' trainer: batches, checkpoints, resumption, early stopping, the history and its picture.

On a machine that has PyTorch, transformers and PEFT but neither Ray nor Parquet, from a bare checkout:

    python -m okralong.lab.training.learners.fit \
        RECIPE.json TRAIN.jsonl VALIDATION.jsonl MODEL_FOLDER SHA256 OUT

SHA256 is the hash of the encoder's weights for heads, and "" for a label scorer or a reader. OUT then has the weights
and the history; only `okralong train` writes temperatures, card and curves.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
from torch.utils.data import Sampler, SequentialSampler
from transformers import (
    EarlyStoppingCallback,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_pt_utils import get_length_grouped_indices
from transformers.trainer_utils import EvalPrediction, get_last_checkpoint

from okralong.lab.training.learners.learner import Definition, Learner, Log, evaluations_of
from okralong.lab.training.recipe import AnyExample, Learned, Recipe, read_examples
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import ResolvedModel, available_cores, settle

if TYPE_CHECKING:
    from okralong.lab.training.rows.tables import AnyRow

CARD: Final = "README.md"
CURVES: Final = "curves.svg"
HISTORY: Final = "history.json"
CHECKPOINTS: Final = "checkpoints"
MARK: Final = "training.sha256"
"""The file, next to the checkpoints, that identifies their training."""

Say = Callable[[str], None]
"""A function that receives progress messages, one line at a time."""

_LOADERS: Final = 6  # project default
"""Number of processes that make batches for a GPU."""

logger = logging.getLogger(__name__)

R = TypeVar("R", bound="AnyRow")
_GENERATED: Final = "sample "
"""How the source of a row of generated reports begins."""


def quiet(_: str) -> None:
    """Discard a message."""


def definition_of(recipe: Recipe) -> Definition[Any, Any]:
    """Return the definition for a recipe's kind of model. Raises ConfigError for SARA, which has its own command."""
    # Imported here, because heads need packages that another machine may lack.
    if recipe.kind == "sara":
        raise ConfigError(
            "kind: sara is trained by `okralong train-sara`. Give label_scorer, heads, reader, cross_encoder, "
            "token_classifier or question_writer."
        )
    if recipe.kind == "reader":
        from okralong.lab.training.learners.reader import ReaderDefinition

        return ReaderDefinition()
    if recipe.kind == "cross_encoder":
        from okralong.lab.training.learners.cross_encoder import CrossEncoderDefinition

        return CrossEncoderDefinition()
    if recipe.kind == "token_classifier":
        from okralong.lab.training.learners.token_classifier import TokenClassifierDefinition

        return TokenClassifierDefinition()
    if recipe.kind == "question_writer":
        from okralong.lab.training.learners.question_writer import QuestionWriterDefinition

        return QuestionWriterDefinition(recipe.written)
    from okralong.lab.training.learners.analyzer import AnalyzerDefinition

    return AnalyzerDefinition()


def prepared(recipe: Recipe, train: Sequence[R], validation: Sequence[R]) -> tuple[list[R], list[R]]:
    """Return the first usable rows of both sides, as many as the recipe says. The rows' order is balanced already.

    Validation decides which state of a training is kept, so rows of generated reports are left out of it if there are
    others.
    """
    usable = definition_of(recipe).usable
    held = usable(recipe, validation)
    real = [row for row in held if not row.source.startswith(_GENERATED)]
    return usable(recipe, train)[: recipe.rows], (real or held)[: recipe.validation_rows]


def train_session(
    recipe: Recipe,
    train: Sequence[Any],
    validation: Sequence[Any],
    out: Path,
    left_out: Sequence[str] = (),
    say: Say = quiet,
) -> None:
    """Train by ``recipe`` on rows, and write everything to ``out``.

    ``left_out`` are the sets that were left out of the rows; ``say`` receives a line at each evaluation. Raises
    ConfigError if the model cannot be found.
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
    """Train on examples by ``recipe``, write weights and history to ``out``, and return the history."""
    # The number of threads is given, because Ray's default for a task is one.
    device, dtype = settle("auto", recipe.precision, available_cores())
    some, held = list(train)[: recipe.rows], list(validation)[: recipe.validation_rows]
    learner = definition_of(recipe).learner(recipe, some, base, device, dtype)
    return fit(learner, recipe, some, held, out, device, say)


def write_card(out: Path, sections: Sequence[str], logs: Mapping[str, Log]) -> None:
    """Write the model card and the picture of the logs, which are by the name of their stage."""
    from okralong.lab.training.pictures import draw_curves  # matplotlib may be missing on another machine

    (out / CARD).write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    draw_curves(logs, out / CURVES)


def fit(
    learner: Learner,
    recipe: Recipe,
    train: Sequence[Learned],
    validation: Sequence[Learned],
    out: Path,
    device: str,
    say: Say = quiet,
) -> list[dict[str, float]]:
    """Train ``learner``, write it to ``out``, and return the loss and accuracies along the way.

    A killed training is resumed from its last checkpoint below ``out``. Checkpoints of other examples or of another
    recipe (epochs and ``start_weight`` may differ) are deleted. The state with the lowest validation loss is kept.
    ``say`` receives a line at each evaluation.
    """
    set_seed(recipe.seed)
    checkpoints = out / CHECKPOINTS
    told = recipe.model_copy(update={"epochs": 0, "start_weight": 0.0})
    _begin(checkpoints, digest_of(learner, told, train, validation))
    steps = max(1, len(train) // (recipe.batch_size * recipe.accumulation))
    every = max(1, steps // recipe.evaluations)
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=recipe.epochs,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=max(8, recipe.batch_size),
        gradient_accumulation_steps=recipe.accumulation,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        weight_decay=recipe.weight_decay,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        logging_steps=max(1, every // 4),
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        label_names=["labels"],
        remove_unused_columns=False,
        seed=recipe.seed,
        use_cpu=device == "cpu",
        dataloader_pin_memory=False,
        # Without these processes a GPU would wait for the next batch; on a CPU they would only take cores.
        dataloader_num_workers=0 if device == "cpu" else _LOADERS,
        report_to=[],
        restore_callback_states_from_checkpoint=True,
        disable_tqdm=True,
    )
    trainer = HeadsTrainer(
        model=learner,
        args=arguments,
        train_dataset=list(train),
        eval_dataset=sorted(validation, key=attrgetter("length")),
        data_collator=learner.collate,
        compute_metrics=partial(_measures, learner),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=recipe.patience), _Progress(say)],
    )
    trainer.heads_learning_rate = recipe.heads_learning_rate
    trainer.remove_callback(PrinterCallback)
    last: Any = get_last_checkpoint  # untyped in transformers
    trainer.train(resume_from_checkpoint=last(str(checkpoints)))
    if learner.finish():
        say("the mean with the weights that it started from:")
        trainer.evaluate()  # the last figures in the log must be those of the written weights
    learner.save(out)
    history: list[dict[str, float]] = trainer.state.log_history
    # Only the folder's name is written, because its path depends on the machine.
    kept = recipe.model_dump() | {"start": recipe.start and Path(recipe.start).name}
    (out / HISTORY).write_text(json.dumps({"recipe": kept, "history": history}, indent=1), encoding="utf-8")
    return history


def digest_of(learner: Learner, recipe: Recipe, train: Sequence[Learned], validation: Sequence[Learned]) -> str:
    """Return a hash of everything that determines the outcome of a training."""
    digest = hashlib.sha256(f"{recipe!r} {learner.made_from}".encode())
    for example in (*train, None, *validation):
        digest.update(repr(example).encode())
    return digest.hexdigest()


def _begin(checkpoints: Path, digest: str) -> None:
    """Make the folder of checkpoints, after deleting those of another training."""
    mark = checkpoints / MARK
    if checkpoints.is_dir() and (not mark.is_file() or mark.read_text(encoding="utf-8") != digest):
        logger.warning("%s belongs to another recipe or other rows: this training starts over.", checkpoints)
        shutil.rmtree(checkpoints)
    checkpoints.mkdir(parents=True, exist_ok=True)
    mark.write_text(digest, encoding="utf-8")


def _measures(learner: Learner, found: EvalPrediction) -> dict[str, float]:
    predictions: Any = found.predictions
    right = predictions[0] if isinstance(predictions, tuple) else predictions
    return dict(learner.measures(torch.as_tensor(right)))


class HeadsTrainer(Trainer):
    """A trainer whose checkpoints have only trained weights, since the base model is on disk already."""

    heads_learning_rate: float | None = None

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Create the trainer's optimizer. Heads may have another learning rate than their encoder."""
        optimizer = super().create_optimizer(model)
        if self.heads_learning_rate is not None:
            trained: Any = self.model
            heads = {id(value) for value in trained.heads.parameters()}
            for group in list(optimizer.param_groups):
                mine = [value for value in group["params"] if id(value) in heads]
                group["params"] = [value for value in group["params"] if id(value) not in heads]
                optimizer.add_param_group({**group, "params": mine, "lr": self.heads_learning_rate})
        return optimizer

    def _save(self, output_dir: str | None = None, state_dict: Mapping[str, Any] | None = None) -> None:
        model: Any = self.model
        learned = {name for name, value in model.named_parameters() if value.requires_grad}
        kept = state_dict or model.state_dict()
        super()._save(output_dir, {name: value.contiguous() for name, value in kept.items() if name in learned})

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        examples: Any = train_dataset or self.train_dataset
        learner: Any = self.model
        if learner.in_order:
            return SequentialSampler(examples)
        return LengthBatches(examples, self.args.train_batch_size, self.args.seed)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Do nothing: the base model is missing in every checkpoint."""


class _Progress(TrainerCallback):
    """Reports a line at each evaluation."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._began, self._first = 0.0, 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock. A resumed training starts at the step of its checkpoint."""
        self._began, self._first = time.monotonic(), state.global_step

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Report the validation after this step."""
        if metrics and "eval_loss" in metrics and state.global_step > self._first:
            each = (time.monotonic() - self._began) / (state.global_step - self._first)
            minutes = each * (state.max_steps - state.global_step) / 60
            self._say(
                f"step {state.global_step:,} of {state.max_steps:,}: loss on validation {metrics['eval_loss']:.3f}, "
                f"about {minutes:.0f} minutes left"
            )


class LengthBatches(Sampler[int]):
    """Yields indexes, of which every ``batch_size`` consecutive ones are a batch. Batches are in a seeded random order.

    Examples that share a context are in one batch if they fit, so that the context is read once. The others are sorted
    by instructions, then by length, so that short examples are not padded to long ones. Incomplete batches come last.
    The order differs between epochs and does not depend on interruptions.
    """

    def __init__(self, examples: Sequence[Learned], batch_size: int, seed: int) -> None:
        contexts: dict[tuple[str, str], list[int]] = {}
        for index, each in enumerate(examples):
            # Prompts without passages share only the instructions.
            contexts.setdefault((each.instructions, each.context or str(index)), []).append(index)
        self._shared = [indices for indices in contexts.values() if len(indices) > 1]
        self._single: dict[str, list[int]] = {}
        for (instructions, _), indices in contexts.items():
            if len(indices) == 1:
                self._single.setdefault(instructions, []).extend(indices)
        self._lengths = [each.length for each in examples]
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch. The trainer calls this before each epoch, also when it resumes."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        random = torch.Generator().manual_seed(self._seed + self._epoch)
        size = self._batch_size
        batches, left = self._packed(random), list[int]()
        for group in self._single.values():
            order = self._grouped(group, random)
            whole = len(order) // size * size
            batches += [order[at : at + size] for at in range(0, whole, size)]
            left += order[whole:]
        for batch in batches:
            while len(batch) < size and left:
                batch.append(left.pop())
        left += [index for batch in batches if len(batch) < size for index in batch]
        batches = [batch for batch in batches if len(batch) == size]
        for number in torch.randperm(len(batches), generator=random).tolist():
            yield from batches[number]
        yield from left

    def _packed(self, random: torch.Generator) -> list[list[int]]:
        """Return batches of whole families (examples that share a context), the largest first. Some are incomplete."""
        size = self._batch_size
        drawn = [self._shared[at] for at in torch.randperm(len(self._shared), generator=random).tolist()]
        parts = [family[at : at + size] for family in drawn for at in range(0, len(family), size)]
        batches: list[list[int]] = []
        room: dict[int, list[int]] = {}
        for part in sorted(parts, key=len, reverse=True):
            fits = next((free for free in sorted(room) if free >= len(part) and room[free]), None)
            number = room[fits].pop() if fits is not None else len(batches)
            if fits is None:
                batches.append([])
            batches[number] += part
            room.setdefault(size - len(batches[number]), []).append(number)
        return batches

    def _grouped(self, group: Sequence[int], random: torch.Generator) -> list[int]:
        by_length: Any = get_length_grouped_indices  # untyped in transformers
        order: list[int] = by_length([self._lengths[index] for index in group], self._batch_size, generator=random)
        return [group[place] for place in order]


def main(arguments: Sequence[str]) -> int:
    """Train from the command line and print the last evaluation."""
    said, rows, held, model, sha256, out = arguments
    recipe = Recipe.model_validate_json(Path(said).read_text(encoding="utf-8"))
    base = ResolvedModel(model, recipe.model, sha256 or None)
    history = fit_recipe(recipe, read_examples(Path(rows)), read_examples(Path(held)), base, Path(out))
    print(json.dumps(evaluations_of(history)[-1:], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
