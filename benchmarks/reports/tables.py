"""Summaries as markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.reports.summary import Summary
from okralong.pipelines.reporting.tables import markdown_table

Summaries = Mapping[str, Mapping[str, Summary]]
"""By run label, then by group."""

NOT_APPLICABLE = "n/a"


def quality_table(summaries: Summaries) -> str:
    """Marks by run and group, with 95 % intervals."""
    head = ["strategy", "questions", "n", "status", "F1 [95 %]", "EM", "numeric (n)", "recall [95 %] (n; n/a)", "cited"]
    rows = [
        [
            label,
            group,
            str(each["questions"]),
            _mix(each["statuses"]),
            _with_interval(each["f1"], each["f1_interval"]),
            _share(each["em"]),
            f"{_share(each['numeric'])} ({each['numeric_defined']})",
            f"{_with_interval(each['recall'], each['recall_interval'])} "
            f"({each['recall_defined']}; {each['recall_not_applicable']})",
            _share(each["cited"]),
        ]
        for label, group, each in _walk(summaries)
    ]
    return markdown_table(head, rows) + "\n"


def cost_table(summaries: Summaries) -> str:
    """Tokens and calls a question by run and group."""
    names = ("context_tokens", "prompt_tokens", "completion_tokens", "weighted_tokens")
    head = ["strategy", "questions", *(f"{name.replace('_', ' ')}" for name in names), "calls", "other attempts"]
    rows = [
        [
            label,
            group,
            *(f"{each[name]:,.0f}" for name in names),
            f"{each['calls']:.2f}",
            str(each["other_attempts"]),
        ]
        for label, group, each in _walk(summaries)
    ]
    return markdown_table(head, rows) + "\n"


def stage_table(summaries: Summaries) -> str:
    """Seconds by run and stage, over all questions of the run."""
    rows = [
        [label, stage, str(values["questions"]), f"{values['mean']:.3f}", f"{values['median']:.3f}"]
        for label, by_group in summaries.items()
        for stage, values in by_group["all"]["seconds"].items()
    ]
    return markdown_table(["strategy", "stage", "questions with it", "mean s", "median s"], rows) + "\n"


def mix_table(summaries: Summaries) -> str:
    """What the analyzer and the organizer made of each group."""
    rows = [
        [label, group, _mix(each["analyzed_types"]), _mix(each["workflows"])]
        for label, group, each in _walk(summaries)
        if each["analyzed_types"] or group == "all"
    ]
    return markdown_table(["strategy", "questions", "analyzer's types", "workflows"], rows) + "\n"


def _walk(summaries: Summaries) -> list[tuple[str, str, Summary]]:
    return [(label, group, each) for label, by_group in summaries.items() for group, each in by_group.items()]


def _share(value: float | None) -> str:
    return NOT_APPLICABLE if value is None else f"{value:.3f}"


def _with_interval(value: float | None, interval: Sequence[float] | None) -> str:
    return _share(value) if interval is None else f"{_share(value)} [{interval[0]:.3f}, {interval[1]:.3f}]"


def _mix(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "-"
