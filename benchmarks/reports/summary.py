"""Mark sheets into means: for all questions of a run, by gold type and by dataset."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.reports.scoring import Sheet
from okralong.pipelines.reporting.statistics import clustered_mean

Summary = dict[str, Any]


def groups(sheets: Sequence[Sheet]) -> dict[str, list[Sheet]]:
    """The sheets as "all", "type: ..." and "dataset: ...", in this order."""
    found: dict[str, list[Sheet]] = {"all": list(sheets)}
    for type_ in sorted({sheet.gold.question.type for sheet in sheets}):
        found[f"type: {type_}"] = [sheet for sheet in sheets if sheet.gold.question.type == type_]
    for dataset in sorted({sheet.gold.dataset for sheet in sheets}):
        found[f"dataset: {dataset}"] = [sheet for sheet in sheets if sheet.gold.dataset == dataset]
    return found


def summarise(sheets: Sequence[Sheet], seed: int = 7) -> Summary:
    """The figures of a group of at least one sheet. Means are over its questions; a mean of nothing is None."""
    spent = [sheet.spent for sheet in sheets]
    recalled = [sheet for sheet in sheets if sheet.recall is not None]
    return {
        "questions": len(sheets),
        "statuses": _counts([sheet.status for sheet in sheets]),
        "context_tokens": _mean([sheet.context_tokens for sheet in sheets]),
        "prompt_tokens": _mean([each.prompt_tokens for each in spent]),
        "completion_tokens": _mean([each.completion_tokens for each in spent]),
        "weighted_tokens": _mean([each.weighted_tokens for each in spent]),
        "calls": _mean([each.calls for each in spent]),
        "other_attempts": sum(each.other_attempts for each in spent),
        "latency_s": _mean([each.latency_s for each in spent]),
        "queue_s": _mean([each.queue_s for each in spent]),
        "seconds": stage_seconds(sheets),
        "f1": _mean([sheet.f1 for sheet in sheets]),
        "f1_interval": clustered_mean(
            [sheet.f1 for sheet in sheets], [sheet.gold.cluster for sheet in sheets], seed
        ).interval,
        "em": _mean([sheet.em for sheet in sheets]),
        "numeric": _mean([sheet.numeric for sheet in sheets if sheet.numeric is not None]),
        "numeric_defined": sum(sheet.numeric is not None for sheet in sheets),
        "recall": _mean([sheet.recall or 0.0 for sheet in recalled]),
        "recall_interval": clustered_mean(
            [sheet.recall or 0.0 for sheet in recalled], [sheet.gold.cluster for sheet in recalled], seed
        ).interval,
        "recall_defined": len(recalled),
        "recall_not_applicable": len(sheets) - len(recalled),
        "cited": _mean([float(sheet.cited) for sheet in sheets]),
        "analyzed_types": _counts([sheet.analyzed_type for sheet in sheets if sheet.analyzed_type]),
        "workflows": _counts([sheet.workflow for sheet in sheets if sheet.workflow]),
    }


def stage_seconds(sheets: Sequence[Sheet]) -> dict[str, dict[str, float]]:
    """Mean and median wall seconds by stage, over the questions that have the stage (``questions`` says how many).

    Questions run beside each other, so a stage's time has its waiting in it.
    """
    stages = sorted({stage for sheet in sheets for stage in sheet.seconds})
    found = {}
    for stage in stages:
        values = [sheet.seconds[stage] for sheet in sheets if stage in sheet.seconds]
        found[stage] = {
            "questions": len(values),
            "mean": statistics.fmean(values),
            "median": statistics.median(values),
        }
    return found


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _counts(values: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
