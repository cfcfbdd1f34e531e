"""How likely and how well foretold replies are, example by example, and means of that with intervals by document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from okralong.pipelines.reporting.metrics import best, token_f1
from okralong.pipelines.reporting.statistics import Estimate, estimate, resample
from okralong.pipelines.sara.training.conditions import CONDITIONS, Condition, under
from okralong.pipelines.sara.training.examples import MixedExample
from okralong.pipelines.sara.training.learner import SaraLearner

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Of each example the mean negative log-likelihood of its reply's tokens (nats) and the share foretold, (n,)."""

    nll: Floats
    accuracy: Floats
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """Means over examples. The differences are paired, true minus the other: below 0, true vectors are likelier.

    ``less_before`` is that of true vectors minus those of the compressor as it was a stage earlier, where there is one;
    ``f1`` that of replies which were written from true vectors, to the first ``replies`` examples.
    """

    examples: int
    documents: int
    nll: dict[Condition, Estimate]
    accuracy: dict[Condition, Estimate]
    less_shuffled: Estimate
    less_none: Estimate
    less_before: Estimate | None = None
    replies: int = 0
    f1: Estimate | None = None


@torch.inference_mode()
def measured(learner: SaraLearner, examples: Sequence[MixedExample], batch_size: int) -> Measured:
    """Every example in batches of like length."""
    learner.eval()
    order = sorted(range(len(examples)), key=lambda number: examples[number].length)
    nll, accuracy = np.zeros(len(examples)), np.zeros(len(examples))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        losses, right, row = learner.token_losses([examples[number] for number in batch])
        counts = torch.bincount(row, minlength=len(batch)).double().cpu()
        for values, found in ((losses.double(), nll), (right.double(), accuracy)):
            sums = torch.zeros(len(batch), dtype=torch.float64).index_add_(0, row.cpu(), values.cpu())
            found[batch] = (sums / counts).numpy()
    return Measured(nll, accuracy, tuple(each.document for each in examples))


def compared(learner: SaraLearner, examples: Sequence[MixedExample], batch_size: int, seed: int) -> Compared:
    """The examples under all three conditions."""
    return comparison(measured_under_all(learner, examples, batch_size, seed))


def measured_under_all(
    learner: SaraLearner, examples: Sequence[MixedExample], batch_size: int, seed: int
) -> dict[Condition, Measured]:
    """The examples under all three conditions, which are one where nothing is compressed."""
    if not any(len(each.embeddings) for each in examples):
        return dict.fromkeys(CONDITIONS, measured(learner, examples, batch_size))
    return {each: measured(learner, under(each, examples, seed), batch_size) for each in CONDITIONS}


def reply_f1(
    learner: SaraLearner, examples: Sequence[MixedExample], answers: Sequence[Sequence[str]], batch_size: int
) -> Estimate:
    """The mean token F1 of replies that are written out, each against the nearest of its answers' wordings."""
    learner.eval()
    order = sorted(range(len(examples)), key=lambda number: examples[number].length)
    found = np.zeros(len(examples))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        for number, reply in zip(batch, learner.write([examples[number] for number in batch]), strict=True):
            found[number] = best(token_f1, reply, answers[number])
    drawn = resample([each.document for each in examples])
    return estimate(float(found.mean()), None if drawn is None else drawn.means(found))


def comparison(found: dict[Condition, Measured], before: Measured | None = None) -> Compared:
    """The means and paired differences of what was measured on the same examples; ``before``: a stage earlier."""
    documents = found["true"].documents
    drawn = resample(documents)

    def mean(values: Floats) -> Estimate:
        return estimate(float(values.mean()), None if drawn is None else drawn.means(values))

    return Compared(
        len(documents),
        len(set(documents)),
        {name: mean(each.nll) for name, each in found.items()},
        {name: mean(each.accuracy) for name, each in found.items()},
        mean(found["true"].nll - found["shuffled"].nll),
        mean(found["true"].nll - found["none"].nll),
        None if before is None else mean(found["true"].nll - before.nll),
    )
