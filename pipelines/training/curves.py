"""The course of a training as a picture: losses above, accuracies on validation below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure


def draw_curves(history: Sequence[Mapping[str, float]], path: Path) -> None:
    """Write an SVG of a trainer's log to ``path``. The same log gives the same bytes."""
    figure = Figure(figsize=(7, 6), layout="constrained")
    losses, shares = figure.subplots(2, 1, sharex=True)
    for key, label in (("loss", "train"), ("eval_loss", "validation")):
        points = [(entry["epoch"], entry[key]) for entry in history if key in entry]
        if points:
            losses.plot(*zip(*points, strict=True), label=label, marker="." if label == "validation" else "")
    measured = {name for entry in history for name in entry if name.endswith("_accuracy")}
    for name in sorted(measured):
        key = name.removeprefix("eval_").removesuffix("_accuracy")
        points = [(entry["epoch"], entry[name]) for entry in history if name in entry]
        if points:
            shares.plot(*zip(*points, strict=True), label=key, marker=".")
    losses.set_ylabel("loss")
    shares.set_ylabel("accuracy on validation")
    shares.set_xlabel("epoch")
    for axes in (losses, shares):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    with rc_context({"svg.hashsalt": "okralong"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
