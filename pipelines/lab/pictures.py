"""The course of a training as a picture: losses above, accuracies on validation below, a column for each stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Log = Sequence[Mapping[str, float]]
"""A trainer's log."""


def draw_curves(logs: Mapping[str, Log], path: Path) -> None:
    """Write an SVG of the logs, by the name of their stage, to ``path``. The same logs give the same bytes.

    Stages learn different things, so they share no axis.
    """
    figure = Figure(figsize=(max(7, 4 * len(logs)), 6), layout="constrained")
    panels = figure.subplots(2, len(logs), sharex="col", squeeze=False)
    for (name, log), losses, shares in zip(logs.items(), *panels, strict=True):
        for key, label in (("loss", "train"), ("eval_loss", "validation")):
            _line(losses, log, key, label, "." if label == "validation" else "")
        for key in sorted({key for entry in log for key in entry if key.endswith("_accuracy")}):
            _line(shares, log, key, key.removeprefix("eval_").removesuffix("_accuracy"), ".")
        losses.set_title(name)
        shares.set_xlabel("epoch")
        for axes in (losses, shares):
            axes.grid(alpha=0.3)
            axes.legend(frameon=False)
    panels[0, 0].set_ylabel("loss")
    panels[1, 0].set_ylabel("accuracy on validation")
    with rc_context({"svg.hashsalt": "okralong"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _line(axes: Axes, log: Log, key: str, label: str, marker: str) -> None:
    points = [(entry["epoch"], entry[key]) for entry in log if key in entry]
    if points:
        axes.plot(*zip(*points, strict=True), label=label, marker=marker)
