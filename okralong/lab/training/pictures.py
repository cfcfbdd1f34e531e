"""Draw the course of a training as an SVG: losses above, validation accuracies below, one column per stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from okralong.pipelines.core.extras import needs_extra
from okralong.pipelines.reporting.pictures import COLOURS, style, write_svg

with needs_extra("lab"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Log = Sequence[Mapping[str, float]]
"""A trainer's log."""


def draw_curves(logs: Mapping[str, Log], path: Path) -> None:
    """Write an SVG of the logs, given by stage, to ``path``.

    Stages have different losses, so they share no axis.
    """
    with style():
        figure = Figure(figsize=(max(7, 4 * len(logs)), 6), facecolor="white", layout="constrained")
        panels = figure.subplots(2, len(logs), sharex="col", squeeze=False)
        for (name, log), losses, shares in zip(logs.items(), *panels, strict=True):
            measured = sorted({key for entry in log for key in entry if key.endswith("_accuracy")})
            _curves(losses, log, {"loss": "train", "eval_loss": "validation"})
            _curves(shares, log, {key: key.removeprefix("eval_").removesuffix("_accuracy") for key in measured})
            losses.set_title(name)
            shares.set_xlabel("epoch")
        panels[0, 0].set_ylabel("loss")
        panels[1, 0].set_ylabel("accuracy on validation")
        write_svg(figure, path)


def _curves(axis: Axes, log: Log, labels: Mapping[str, str]) -> None:
    for number, (key, label) in enumerate(labels.items()):
        points = [(entry["epoch"], entry[key]) for entry in log if key in entry]
        if points:
            marker = "" if key == "loss" else "."  # losses have too many points for markers
            axis.plot(*zip(*points, strict=True), color=COLOURS[number % len(COLOURS)], label=label, marker=marker)
    axis.grid(visible=True)
    if axis.lines:  # some models have no accuracy
        axis.legend()
