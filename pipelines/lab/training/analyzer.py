"""Temperatures: what each field's logits are divided by, so that what is said with 0.8 is right in 8 of 10 cases."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from okralong.pipelines.answering.analysis import FIELDS, AnalysisInput, Temperatures
from okralong.pipelines.answering.analyzer_heads import ADAPTER, Heads, HeadsShape, TunableEncoder, save_heads
from okralong.pipelines.answering.analyzer_label_scorer import opening_ids, prompt_ids, reply_fields
from okralong.pipelines.answering.analyzer_rules import Features, features
from okralong.pipelines.core.types import Analysis
from okralong.pipelines.lab.training.analyzer_data import UNKNOWN, Example
from okralong.pipelines.lab.training.fit import (
    Learner,
    Recipe,
    causal_to_adapt,
    class_weights,
    label_tensor,
    right,
    save_adapter,
    states_after,
    with_adapter,
)
from okralong.pipelines.reporting.statistics import Estimate, Floats, estimate, joined_by_documents, resample

_GRID: Final = np.geomspace(0.25, 8.0, 161)
"""Temperatures tried; steps of 2 %. Ours."""

BINS: Final = 10
"""Bins of equal width of the expected calibration error (Guo et al. 2017, section 3)."""


def best_temperature(probabilities: Floats, labels: Sequence[int]) -> float:
    """The temperature with the least loss on ``labels``, for probabilities (n, k) made at temperature 1; 1 for none."""
    if not len(labels):
        return 1.0
    logits = np.log(np.clip(probabilities, 1e-12, None))
    rows = np.arange(len(labels))

    def loss(temperature: float) -> float:
        return float(-np.log(np.clip(_softmax(logits / temperature)[rows, list(labels)], 1e-12, None)).mean())

    return float(min(_GRID, key=loss))


def at_temperature(probabilities: Floats, temperature: float) -> Floats:
    """The same probabilities at another temperature."""
    return _softmax(np.log(np.clip(probabilities, 1e-12, None)) / temperature)


def calibration_error(probabilities: Floats, labels: Sequence[int]) -> float:
    """Expected calibration error of the most probable label: mean gap of confidence and accuracy, by bins; 0 to 1."""
    confidence = probabilities.max(axis=1)
    hit = probabilities.argmax(axis=1) == np.array(labels)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [(bins == b).mean() * abs(hit[bins == b].mean() - confidence[bins == b].mean()) for b in np.unique(bins)]
    return float(sum(gaps))


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    normal: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return normal


# --------
# What an analyzer is worth on rows whose documents it never saw: accuracy, macro-F1, calibration, confusion.

Probabilities = list[npt.NDArray[np.float64]]
"""For each of the three fields an array (questions, labels)."""


@dataclass(frozen=True, slots=True)
class FieldFigures:
    """One field on the ``rows`` whose label is known. ``confusion`` has a row for each true label, a column for each
    one said; ``calibration_error`` is 0 to 1, and None for an analyzer that gives no probabilities.
    """

    key: str
    rows: int
    accuracy: Estimate
    macro_f1: Estimate
    calibration_error: float | None
    confusion: tuple[tuple[int, ...], ...]


def probabilities(analyses: Sequence[Analysis]) -> Probabilities:
    """What analyses say, as arrays in the order of FIELDS."""
    types = [[each.type_probabilities[label] for label in FIELDS[0][1]] for each in analyses]
    patterns = [[each.pattern_probabilities[label] for label in FIELDS[1][1]] for each in analyses]
    evidence = [[each.evidence_probability, 1 - each.evidence_probability] for each in analyses]
    return [np.array(rows, dtype=np.float64) for rows in (types, patterns, evidence)]


def field_figures(
    examples: Sequence[Example], documents: Sequence[tuple[str, ...]], said: Probabilities, sure: bool = True
) -> list[FieldFigures]:
    """The three fields; intervals draw questions that share a document together. ``sure`` False: no probabilities."""
    return [_field(n, examples, documents, said[n], sure) for n in range(len(FIELDS))]


def _field(
    number: int, examples: Sequence[Example], documents: Sequence[tuple[str, ...]], said: Floats, sure: bool
) -> FieldFigures:
    known = [index for index, each in enumerate(examples) if each.labels[number] != UNKNOWN]
    key, labels = FIELDS[number]
    true = np.array([examples[index].labels[number] for index in known], dtype=np.intp)
    rows = said[known]
    counts = np.zeros((len(labels), len(labels)))
    np.add.at(counts, (true, rows.argmax(axis=1)), 1)
    draws = _draws(true, rows.argmax(axis=1), len(labels), joined_by_documents([documents[i] for i in known]))
    return FieldFigures(
        key,
        len(known),
        _figure(_accuracy, counts, draws),
        _figure(_macro_f1, counts, draws),
        calibration_error(rows, true.tolist()) if sure and known else None,
        tuple(tuple(int(cell) for cell in line) for line in counts),
    )


def _draws(true: npt.NDArray[np.intp], said: npt.NDArray[np.intp], size: int, clusters: list[str]) -> Floats | None:
    """The confusion matrix in each draw of whole clusters: (draws, labels, labels)."""
    drawn = resample(clusters)
    if drawn is None:
        return None
    by_cluster = np.zeros((drawn.weights.shape[1], size, size))
    np.add.at(by_cluster, (drawn.index, true, said), 1)
    counts: Floats = np.tensordot(drawn.weights, by_cluster, axes=1)
    return counts


def _figure(measure: Callable[[Floats], Floats], counts: Floats, draws: Floats | None) -> Estimate:
    return estimate(float(measure(counts[None])[0]), None if draws is None else measure(draws))


def _accuracy(counts: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        found: Floats = np.trace(counts, axis1=1, axis2=2) / counts.sum(axis=(1, 2))
    return found


def _macro_f1(counts: Floats) -> Floats:
    """Mean F1 over the labels that occur, as truth or as said."""
    hits = np.diagonal(counts, axis1=1, axis2=2)
    both = counts.sum(axis=1) + counts.sum(axis=2)
    with np.errstate(invalid="ignore"):
        found: Floats = np.nanmean(np.where(both > 0, 2 * hits / both, np.nan), axis=1)
    return found


# --------
# Learning the heads, and with LoRA the encoder below them.


class HeadsLearner(Learner):
    """A ``Learner``. ``model`` is the encoder's folder, ``sha256`` that of its weights."""

    def __init__(self, recipe: Recipe, model: str, sha256: str | None, train: Sequence[Example], device: str) -> None:
        super().__init__()
        self._encoder = TunableEncoder.load(model, recipe.reads, device=device)
        if recipe.lora is not None:
            self._encoder.model = with_adapter(self._encoder.model, recipe.lora)
        else:
            self._encoder.model.requires_grad_(False)
        self.encoder: Any = self._encoder.model
        shape = HeadsShape(
            recipe.model, sha256, recipe.reads, self._encoder.width, recipe.hidden, adapted=recipe.lora is not None
        )
        self.heads = Heads(shape, recipe.dropout)
        self._features: dict[AnalysisInput, Features] = {}
        self._vectors: dict[AnalysisInput, Tensor] = {}
        self.register_buffer("type_weights", class_weights(train, 0), persistent=False)

    def train(self, mode: bool = True) -> HeadsLearner:
        """As of any module; a frozen encoder stays as it is used, without dropout."""
        super().train(mode)
        if not self.heads.shape.adapted:
            self.encoder.eval()
        return self

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """See ``Learner``. A batch holds what a tuned encoder reads, or what a frozen one said."""
        asked = [each.asked for each in examples]
        for new in dict.fromkeys(item for item in asked if item not in self._features):
            self._features[new] = features(new)
        numbers = torch.from_numpy(np.stack([self._features[item] for item in asked]))
        batch = {"features": numbers, "labels": label_tensor(examples)}
        if not self.heads.shape.adapted:
            return {**batch, "vectors": self._frozen_vectors(asked)}
        tokens, counts = self._encoder.read(asked)
        return {**batch, "tokens": tokens, "counts": counts}

    def forward(
        self,
        features: Tensor,
        labels: Tensor,
        tokens: dict[str, Tensor] | None = None,
        counts: Sequence[int] = (),
        vectors: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """See ``Learner``; the loss is the mean over the fields of which a label is known."""
        if tokens is not None:
            vectors = self._encoder.vectors(tokens, counts)
        logits = self.heads(vectors, features)
        # The rows' shares of types are our choice; those of patterns and evidence are what retrieval finds in use.
        weights = (self.get_buffer("type_weights"), None, None)
        losses = [
            nn.functional.cross_entropy(each, labels[:, n], weights[n], ignore_index=UNKNOWN)
            for n, each in enumerate(logits)
            if (labels[:, n] != UNKNOWN).any()
        ]
        loss = torch.stack(losses).mean() if losses else logits[0].sum() * 0.0
        return {"loss": loss, "right": right(logits, labels)}

    def _frozen_vectors(self, asked: Sequence[AnalysisInput]) -> Tensor:
        """A frozen encoder says the same in every epoch, and is asked once."""
        new = list(dict.fromkeys(item for item in asked if item not in self._vectors))
        if new:
            with torch.no_grad():
                self._vectors.update(zip(new, self._encoder.vectors(*self._encoder.read(new)).cpu(), strict=True))
        return torch.stack([self._vectors[item] for item in asked])

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_heads(folder, self.heads)
        if self.heads.shape.adapted:
            save_adapter(self.encoder, self.heads.shape.encoder, folder / ADAPTER)


# --------
# Learning to say the labels: LoRA on a causal language model, with the loss on the labels' tokens alone.
#
# The instructions, a third of a prompt, are read once for a batch; the loss of every row flows back through them.


class LabelLearner(Learner):
    """A ``Learner``. The base stays in the dtype given, the adapter learns in float32."""

    def __init__(self, recipe: Recipe, model: str, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self._tokenizer = causal_to_adapt(recipe, model, device, dtype)
        self._fields = reply_fields(self._tokenizer)
        self._base = recipe.model
        self._limit = recipe.max_tokens
        self._opening = opening_ids(self._tokenizer)
        self._random = random.Random(recipe.seed)

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """See ``Learner``. ``targets`` (n, length) has a field's number where a token of its label is predicted.

        Where all rows begin with the instructions, ``opened`` is true and they are left out: they are read once.
        """
        rows = [self._row(each) for each in examples]
        size = len(self._opening)
        opened = all(ids[:size] == self._opening for ids, _ in rows)
        if opened:
            rows = [(ids[size:], marks[size:]) for ids, marks in rows]
        width = max(len(ids) for ids, _ in rows)
        pad = int(self._tokenizer.eos_token_id)
        return {
            "opened": opened,
            "input_ids": torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]),
            "targets": torch.tensor([marks + [UNKNOWN] * (width - len(marks)) for _, marks in rows]),
            "labels": label_tensor(examples),
        }

    def forward(
        self, opened: bool, input_ids: Tensor, attention_mask: Tensor, targets: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        """See ``Learner``. Each field's tokens count alike in sum; the vocabulary is read at those places only."""
        causal: Any = self.model.get_base_model()
        states = states_after(causal, self._opening if opened else [], input_ids, attention_mask)
        places = (targets != UNKNOWN).nonzero()
        row, at = places[:, 0], places[:, 1]
        field, wanted = targets[row, at], input_ids[row, at + 1]
        # A contiguous 2-D tensor: sliced states would make the head copy its whole matrix.
        logits = causal.lm_head(states[row, at].contiguous()).float()
        losses = nn.functional.cross_entropy(logits, wanted, reduction="none")
        hit = (logits.argmax(dim=1) == wanted).long()
        cells = row * len(FIELDS) + field
        sums = losses.new_zeros(labels.numel()).index_add(0, cells, losses)
        misses = torch.zeros(labels.numel(), dtype=torch.long, device=labels.device).index_add(0, cells, 1 - hit)
        known = (labels != UNKNOWN).flatten()
        right = torch.where(known, (misses == 0).long(), torch.full_like(misses, UNKNOWN)).view_as(labels)
        return {"loss": sums[known].mean() if known.any() else sums.sum(), "right": right}

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_adapter(self.model, self._base, folder)

    def _row(self, each: Example) -> tuple[list[int], list[int]]:
        ids = prompt_ids(self._tokenizer, each.asked, self._limit)
        marks = [UNKNOWN] * len(ids)
        for number, field in enumerate(self._fields):
            names = list(field.labels)
            label = each.labels[number]
            # Where a label is unknown, a drawn one stands before those that follow, so that they learn nothing from it.
            said = field.labels[names[label] if label != UNKNOWN else self._random.choice(names)]
            ids = ids + field.scaffold + said
            # The token before a label's token predicts it.
            marks = marks + [UNKNOWN] * len(field.scaffold) + [UNKNOWN] * len(said)
            if label != UNKNOWN:
                first = len(ids) - len(said) - 1
                marks[first : first + len(said)] = [number] * len(said)
        return ids, marks


# --------
# The card of a trained analyzer: what it is, what it learned from, what it is worth.

NONE = "-"


def model_card(
    recipe: Recipe,
    base: str,
    counts: Mapping[str, int],
    temperatures: Temperatures,
    figures: Mapping[str, Sequence[FieldFigures]],
) -> str:
    """The card as Markdown. ``counts`` are the rows by side, ``figures`` those of each side that was measured."""
    heads = "" if recipe.heads_learning_rate is None else f" (heads {recipe.heads_learning_rate:g})"
    sections = [
        "# A trained analyzer of okralong",
        f"Made by `okralong train`. Kind `{recipe.kind}` on {base}: {learned_words(recipe)}. Learning rate "
        f"{recipe.learning_rate:g}{heads}, at most {recipe.epochs:g} epochs, "
        f"batches of {recipe.batch_size} x {recipe.accumulation}, seed "
        f"{recipe.seed}; "
        "the state of the least loss on validation was kept. "
        + ", ".join(f"{count:,} {side} rows" for side, count in counts.items())
        + ".",
        "Temperatures, measured on validation: "
        + ", ".join(f"{key} {value:.2f}" for (key, _), value in zip(FIELDS, temperatures, strict=True))
        + ".",
    ]
    for side, found in figures.items():
        sections += [f"## On {side}", figure_table({"": found})]
    return "\n\n".join(sections) + "\n"


def learned_words(recipe: Recipe) -> str:
    """What of the model is learned, in words."""
    lora = recipe.lora
    if lora is None:
        return "heads over the frozen encoder"
    learned = f"LoRA on {', '.join(lora.targets)}"
    learned += f" of the blocks from {lora.first_block} on" if lora.first_block else ""
    learned += f" (rank {lora.rank}, alpha {lora.alpha}, dropout {lora.dropout:g})"
    learned += "" if recipe.start is None else f", going on from the adapter `{Path(recipe.start).name}`"
    return learned + (", and heads" if recipe.kind == "heads" else "")


def figure_table(figures: Mapping[str, Sequence[FieldFigures]]) -> str:
    """A line for each analyzer and field; the intervals are 95 %, drawn by document."""
    lines = [["analyzer", "field", "rows", "accuracy", "macro-F1", "calibration error"], ["---"] * 6]
    for name, fields in figures.items():
        for each in fields:
            error = NONE if each.calibration_error is None else f"{each.calibration_error:.3f}"
            numbers = [_estimate(each.accuracy), _estimate(each.macro_f1), error]
            lines.append([name, each.key, f"{each.rows:,}", *numbers])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def confusion_table(figures: FieldFigures, labels: Sequence[str]) -> str:
    """True labels down, said labels across."""
    lines = [["true \\ said", *labels], ["---"] * (len(labels) + 1)]
    lines += [[label, *map(str, row)] for label, row in zip(labels, figures.confusion, strict=True)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _estimate(each: Estimate) -> str:
    if each.value is None:
        return NONE
    low, high = (NONE if end is None else f"{end:.3f}" for end in (each.low, each.high))
    return f"{each.value:.3f} [{low}, {high}]"
