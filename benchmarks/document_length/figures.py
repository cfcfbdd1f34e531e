"""From rows and seconds to figures: a length against the shortest, question by question."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from okralong.lab.evidence.bench import Row
from okralong.pipelines.reporting.statistics import (
    Estimate,
    Floats,
    estimate,
    joined_by_documents,
    mean,
    mean_over_sets,
    resample,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a method shows at a length, in o200k tokens: ``document`` is the mean of the documents asked, ``tokens``
    that of the contexts, ``prompts`` that of all prompts of a question. ``change`` is recall less that at the shortest.
    """

    document: float
    tokens: float
    prompts: float
    recall: Estimate
    all_evidence: float
    change: Estimate


@dataclass(frozen=True)
class Asked:
    """A method's rows on a set at one length, in the order of their query_ids, and each question's document tokens."""

    rows: Sequence[Row]
    document_tokens: Sequence[int]


def shown(sets: Sequence[Mapping[int, Asked]], length: int, shortest: int, seed: int) -> Shown:
    """The mean over the sets, each weighing alike, with 95 % intervals over source documents, paired with ``shortest``.

    Raises ValueError when a set's questions are not the same at both lengths, or mark no evidence.
    """
    here = [each[length].rows for each in sets]
    there = [each[shortest].rows for each in sets]
    for one, other in zip(here, there, strict=True):
        if [row.query_id for row in one] != [row.query_id for row in other]:
            raise ValueError("The lengths have different questions.")
    now, before = [_recalls(rows) for rows in here], [_recalls(rows) for rows in there]
    differences = [one - other for one, other in zip(now, before, strict=True)]
    return Shown(
        document=_mean([statistics.mean(each[length].document_tokens) for each in sets]),
        tokens=_mean([statistics.mean(row.shown.context_tokens for row in rows) for rows in here]),
        prompts=_mean([statistics.mean(row.prompt_tokens for row in rows) for rows in here]),
        recall=_over_sets(now, here, seed),
        all_evidence=_mean([statistics.mean(bool(row.shown.all_evidence) for row in rows) for rows in here]),
        change=_over_sets(differences, here, seed),
    )


def typical(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each stage over questions, and under "all" that of their sums."""
    sums = [sum(parts) for parts in zip(*seconds.values(), strict=True)]
    return {**{stage: statistics.median(each) for stage, each in seconds.items()}, "all": statistics.median(sums)}


def together(sets: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """All questions of several sets, by stage."""
    return {stage: [value for each in sets for value in each[stage]] for stage in sets[0]}


def _recalls(rows: Sequence[Row]) -> Floats:
    found = [row.shown.evidence_recall for row in rows]
    if any(value is None for value in found):
        raise ValueError("A question marks no evidence; choose sets whose questions do.")
    return np.array(found, dtype=np.float64)


def _over_sets(values: Sequence[Floats], rows: Sequence[Sequence[Row]], seed: int) -> Estimate:
    drawn = [
        resample(joined_by_documents([row.documents for row in own]), seed + number) for number, own in enumerate(rows)
    ]
    return estimate(*mean_over_sets([mean(each, one) for one, each in zip(drawn, values, strict=True)]))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
