"""The course of a training as a picture: losses above, accuracies on validation below, a column for each stage."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import Sampler, SequentialSampler
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
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

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.answering.analyzer_label_scorer import Opening
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.lab.training.analyzer_data import UNKNOWN, Example, Learned
from okralong.pipelines.models.merged_model import FILES, READER
from okralong.pipelines.models.weights import SHIPPED, shipped_adapter

# --------
# What everything that is trained gives its training: a loss for a batch, what it got right, a folder at the end.


class Learner(nn.Module, ABC):
    """A module whose call on a batch gives {"loss": scalar, "right": tensor (n, ...)}, which ``measures`` reads.

    For an analyzer ``right`` is (n, 3): 1 right, 0 wrong, or UNKNOWN.
    """

    in_order: bool = False
    """Whether examples are learned in the order given, as a curriculum wants it, and not in a drawn one."""

    _keys_to_ignore_on_save: None = None
    """Asked for by the trainer, which takes every module for one of transformers' own."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> dict[str, Any]:
        """A batch of the examples that it learns from; it holds ``labels`` (n, ...)."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write only what was learned, as safetensors."""

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """Figures by name from the ``right`` of all validation examples: an analyzer's accuracies."""
        return accuracies(right)


def label_tensor(examples: Sequence[Example]) -> Tensor:
    """The labels of a batch, shape (n, 3)."""
    return torch.tensor([each.labels for each in examples], dtype=torch.long)


def class_weights(examples: Sequence[Example], number: int) -> Tensor:
    """A weight for each label of a field, by the inverse root of its count: rare labels count more, not all.

    They are scaled so that the mean over the examples is 1. A label that never occurs weighs 1.
    """
    _, labels = FIELDS[number]
    counts = torch.tensor([float(sum(each.labels[number] == n for each in examples)) for n in range(len(labels))])
    weights = torch.where(counts > 0, counts.clamp(min=1).rsqrt(), torch.ones_like(counts))
    total = counts.sum()
    return weights * total / (weights * counts).sum() if total else torch.ones_like(counts)


def right(logits: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Which labels are the most probable ones, shape (n, 3)."""
    said = torch.stack([each.argmax(dim=1) for each in logits], dim=1)
    return torch.where(labels == UNKNOWN, labels, (said == labels).long())


def accuracies(rows: Tensor) -> dict[str, float]:
    """Accuracy by field from rows of ``right``, those unknown left out."""
    known = rows != UNKNOWN
    return {
        f"{key}_accuracy": float((rows[:, n] == 1).sum() / known[:, n].sum())
        for n, (key, _) in enumerate(FIELDS)
        if known[:, n].any()
    }


# --------
# Training batches of examples that share a context, and else of like length: what can be read once is read once.


class LengthBatches(Sampler[int]):
    """Indices of which each ``batch_size`` in a row make a batch; the batches come in a seeded random order.

    Examples with the same context stand in one batch as far as it has room. The others are put together by
    instructions, then by length, so that a short question is not padded to three passages; what fills no batch of its
    own comes last. The order is another one in each epoch, and the same whether the training was interrupted before it
    or not.
    """

    def __init__(self, examples: Sequence[Learned], batch_size: int, seed: int) -> None:
        contexts: dict[tuple[str, str], list[int]] = {}
        for index, each in enumerate(examples):
            # Without passages nothing is shared but the instructions.
            contexts.setdefault((each.instructions, each.context or str(index)), []).append(index)
        self._kin = [indices for indices in contexts.values() if len(indices) > 1]
        self._single: dict[str, list[int]] = {}
        for (instructions, _), indices in contexts.items():
            if len(indices) == 1:
                self._single.setdefault(instructions, []).extend(indices)
        self._lengths = [each.length for each in examples]
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer before each epoch, the first one after a resume too."""
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
        """Batches of whole families, the largest first, each where it fits; some have room left."""
        size = self._batch_size
        drawn = [self._kin[at] for at in torch.randperm(len(self._kin), generator=random).tolist()]
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


# --------
# How a model is trained: plain values, for a machine that has little but PyTorch.

Kind = Literal["label_scorer", "heads", "reader"]
"""What `okralong train` trains. The stages of SARA, which have a command of their own, are of the kind "sara"."""


@dataclass(frozen=True, slots=True)
class Lora:
    """A low-rank adapter; the defaults are the paper's (appendix B.1). ``targets`` are names of a block's matrices.

    Blocks before ``first_block`` (from 0) are left as they are, and nothing is passed back through them: a third less
    work when a third is left.
    """

    targets: tuple[str, ...]
    rank: int = 8
    alpha: int = 16
    dropout: float = 0.1
    first_block: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """One training. ``model`` is "embedded", a folder or a hub name; ``lora`` None leaves it frozen.

    Learning rate, epochs and accumulation default to the paper's (appendix B.1: 1e-4, 5, 64); the rest is ours.
    ``evaluations`` are made an epoch; after ``patience`` of them without a lower loss on validation it stops.
    ``reads``, ``hidden``, ``dropout`` and ``heads_learning_rate`` (None: that of the encoder's adapter) are for heads
    alone. ``max_tokens`` bounds a label scorer's prompt; rows of a
    reader whose prompt and reply have more are left out before its training. A label scorer or a reader goes on from
    the adapter ``start`` ("shipped" or a folder, of the same shape); None: from one that changes nothing.
    """

    kind: Kind | Literal["sara"]
    model: str = "embedded"
    lora: Lora | None = None
    start: str | None = None
    learning_rate: float = 1e-4
    heads_learning_rate: float | None = None
    epochs: float = 5.0
    batch_size: int = 1
    accumulation: int = 64
    warmup: float = 0.05
    weight_decay: float = 0.0
    evaluations: int = 1
    patience: int = 3
    seed: int = 7
    reads: Literal["question", "pairs"] = "question"
    hidden: int = 128
    dropout: float = 0.2
    max_tokens: int = 1024
    rows: int | None = None
    validation_rows: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Recipe:
        """A recipe from plain values, as ``asdict`` or a config gives them."""
        lora = values["lora"]
        targeted = None if lora is None else Lora(**{**lora, "targets": tuple(lora["targets"])})
        return cls(**{**values, "lora": targeted})


# --------
# A LoRA adapter as it is kept: weights and what they are for, and nothing of the machine that they were made on.

_TEMPLATE = "README.md"


def with_adapter(model: Any, lora: Lora, task: str | None = None) -> Any:
    """``model`` with a new adapter to learn and everything else frozen. Raises ConfigError where no block is left."""
    blocks = int(model.config.num_hidden_layers)
    if lora.first_block >= blocks:
        raise ConfigError(
            f"lora.first_block is {lora.first_block}, but the model has {blocks} blocks, counted from 0: nothing would "
            "learn. Give a lower one."
        )
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        layers_to_transform=list(range(lora.first_block, blocks)) if lora.first_block else None,
        task_type=task,
    )
    return get_peft_model(model, config)


def causal_to_adapt(recipe: Recipe, model: str, device: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """A causal language model from a folder or hub with ``recipe``'s adapter to learn, and its tokenizer.

    The adapter is new, or holds the weights of ``recipe.start``. The base stays in ``dtype``, the adapter is in
    float32. Raises ValueError for a recipe without an adapter, ConfigError for a start that is none of its shape.
    """
    if recipe.lora is None:
        raise ValueError(f"A {recipe.kind} learns an adapter: give lora.")
    base: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, use_safetensors=True)
    adapted = with_adapter(base.to(device), recipe.lora, task="CAUSAL_LM")
    if (start := start_folder(recipe)) is not None:
        begin_with(adapted, start)
    return adapted, AutoTokenizer.from_pretrained(model)


def start_folder(recipe: Recipe) -> Path | None:
    """The adapter that ``recipe`` goes on from; None for a new one. Raises ConfigError where none is there."""
    if recipe.start is None:
        return None
    own = READER if recipe.kind == "reader" else f"analyzer/{recipe.kind}"
    folder = shipped_adapter(own) if recipe.start == SHIPPED else Path(recipe.start)
    if not all((folder / file).is_file() for file in FILES):
        raise ConfigError(
            f"start is {recipe.start}, and {folder} does not hold {' and '.join(FILES)}. Give the folder that "
            "`okralong train` wrote, or shipped."
        )
    return folder


def begin_with(model: Any, folder: Path) -> None:
    """Give the adapter of a PEFT ``model`` the weights of another. Raises ConfigError where the shapes are others."""
    own = {name: tuple(value.shape) for name, value in get_peft_model_state_dict(model).items()}
    try:
        weights = load_file(folder / FILES[1])
    except SafetensorError as error:
        raise ConfigError(f"{folder / FILES[1]} cannot be read: {error}. Train that adapter again.") from error
    if own != {name: tuple(value.shape) for name, value in weights.items()}:
        raise ConfigError(
            f"start is {folder}, an adapter of another shape than lora says. Give lora the targets, the rank and the "
            "first_block that it was trained with; adapter_config.json beside it holds them."
        )
    set_peft_model_state_dict(model, weights)


def save_adapter(model: Any, base: str, folder: Path) -> None:
    """Write the adapter of a PEFT ``model`` as safetensors. ``base`` is what the config calls the model below it."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = base  # else a path of this machine
    # No adapter here changes the vocabulary; "auto" would ask the hub for the base to find that out.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / _TEMPLATE).unlink(missing_ok=True)  # PEFT's template of a card, with nothing filled in


# --------
# Whom a training tells how it goes. Without transformers, so that those who only pass it on load in no time.

Say = Callable[[str], None]


def quiet(_: str) -> None:
    """Says nothing."""


# --------
# What a training tells while it runs: its evaluations, and about how long it still takes.


class Progress(TrainerCallback):
    """Says a line at each evaluation."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._began, self._first = 0.0, 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The clock starts; a training that goes on starts at the step of its checkpoint."""
        self._began, self._first = time.monotonic(), state.global_step

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **_: Any,
    ) -> None:
        """What validation says after this step."""
        if metrics and "eval_loss" in metrics and state.global_step > self._first:
            each = (time.monotonic() - self._began) / (state.global_step - self._first)
            minutes = each * (state.max_steps - state.global_step) / 60
            self._say(
                f"step {state.global_step:,} of {state.max_steps:,}: loss on validation {metrics['eval_loss']:.3f}, "
                f"about {minutes:.0f} minutes left"
            )


# --------
# The training itself: transformers' own trainer, from its last checkpoint, until validation no longer gains.

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


# --------
# What the rows of a batch begin with is read once, with gradients: the loss of every row flows back through it.


def states_after(causal: Any, shared: Sequence[int], ids: Tensor, mask: Tensor) -> Tensor:
    """The last hidden states of ``ids`` (rows, length), each row read after the tokens ``shared``, which may be none.

    ``causal`` is a causal language model, ``mask`` (rows, length) says which of ``ids`` are no padding.
    """
    cache = None
    if shared:
        cache = Opening.read(causal, list(shared)).cache_for(len(ids))
        mask = torch.cat([mask.new_ones((len(ids), len(shared))), mask], dim=1)
    read = causal.model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=cache is not None)
    states: Tensor = read.last_hidden_state
    return states
