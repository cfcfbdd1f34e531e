"""The training itself: transformers' own trainer, from its last checkpoint, until validation no longer gains."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import torch
from torch.utils.data import Sampler, SequentialSampler
from transformers import EarlyStoppingCallback, PrinterCallback, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import EvalPrediction, get_last_checkpoint

from okralong.pipelines.training.examples import Learned
from okralong.pipelines.training.learner import Learner
from okralong.pipelines.training.length_batches import LengthBatches
from okralong.pipelines.training.progress import Progress
from okralong.pipelines.training.recipe import Recipe
from okralong.pipelines.training.say import Say, quiet

HISTORY: Final = "history.json"
CHECKPOINTS: Final = "checkpoints"
MARK: Final = "training.sha256"

logger = logging.getLogger(__name__)


class _Trainer(Trainer):
    """Checkpoints hold what is learned, not the base that stands on the disk anyway."""

    heads_learning_rate: float | None = None

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """The trainer's own; heads may learn faster than the encoder that they stand on."""
        optimizer = super().create_optimizer(model)
        if self.heads_learning_rate is not None:
            trained: Any = self.model
            heads = {id(value) for name, value in trained.named_parameters() if name.startswith("heads.")}
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
        """The base is missing from every checkpoint, on purpose."""


def fit(
    learner: Learner,
    recipe: Recipe,
    train: Sequence[Learned],
    validation: Sequence[Learned],
    out: Path,
    device: str,
    say: Say = quiet,
) -> list[dict[str, float]]:
    """Train ``learner`` and write it to ``out``; the loss and accuracies along the way.

    A training that was killed goes on from its last checkpoint below ``out``; checkpoints of another recipe (but for
    its epochs) or of other examples are deleted. The best state by validation loss is the one kept. ``say``
    is told of each evaluation.
    """
    set_seed(recipe.seed)
    checkpoints = out / CHECKPOINTS
    _begin(checkpoints, recipe, train, validation)
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
        report_to=[],
        restore_callback_states_from_checkpoint=True,
        disable_tqdm=True,
    )
    trainer = _Trainer(
        model=learner,
        args=arguments,
        train_dataset=list(train),
        eval_dataset=sorted(validation, key=attrgetter("length")),
        data_collator=learner.collate,
        compute_metrics=partial(_measures, learner),
        callbacks=[EarlyStoppingCallback(early_stopping_patience=recipe.patience), Progress(say)],
    )
    trainer.heads_learning_rate = recipe.heads_learning_rate
    trainer.remove_callback(PrinterCallback)
    last: Any = get_last_checkpoint  # untyped in transformers
    trainer.train(resume_from_checkpoint=last(str(checkpoints)))
    learner.save(out)
    history: list[dict[str, float]] = trainer.state.log_history
    # The name alone: a folder's path says more of a machine than of a training.
    told = replace(recipe, start=recipe.start and Path(recipe.start).name)
    (out / HISTORY).write_text(json.dumps({"recipe": asdict(told), "history": history}, indent=1), encoding="utf-8")
    return history


def _begin(checkpoints: Path, recipe: Recipe, train: Sequence[Learned], validation: Sequence[Learned]) -> None:
    """Make the folder of a training's checkpoints; what another training left there is deleted."""
    digest = hashlib.sha256(repr(replace(recipe, epochs=0)).encode())
    for example in (*train, None, *validation):
        digest.update(repr(example).encode())
    mark = checkpoints / MARK
    if checkpoints.is_dir() and (not mark.is_file() or mark.read_text(encoding="utf-8") != digest.hexdigest()):
        logger.warning("%s is of another recipe or other rows: this training begins anew.", checkpoints)
        shutil.rmtree(checkpoints)
    checkpoints.mkdir(parents=True, exist_ok=True)
    mark.write_text(digest.hexdigest(), encoding="utf-8")


def _measures(learner: Learner, found: EvalPrediction) -> dict[str, float]:
    predictions: Any = found.predictions
    right = predictions[0] if isinstance(predictions, tuple) else predictions
    return dict(learner.measures(torch.as_tensor(right)))
