"""Draw recall against context tokens as an SVG: one panel per set, one line per method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.extras import needs_extra
from okralong.pipelines.core.wording import counted
from okralong.pipelines.reporting.pictures import look, style, write_svg

with needs_extra("lab"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

PANELS_A_ROW: Final = 3
PANEL_HEIGHT: Final = 2.5
LEGEND_ROW: Final = 0.24
LEGEND_COLUMNS: Final = 4
RECALL_WIDTH: Final = 9.0
"""The width of the picture in inches. At 96 pixels per inch, it is about the 860 pixels of a README."""


@dataclass(frozen=True, slots=True)
class RecallLine:
    """A method's points: mean context ``tokens`` (above zero) and mean ``recall``, one for each budget."""

    label: str
    tokens: Sequence[float]
    recall: Sequence[float]


@dataclass(frozen=True, slots=True)
class RecallPanel:
    """A set, the numbers of its questions and documents, and the methods measured on it."""

    name: str
    questions: int
    documents: int
    lines: Sequence[RecallLine]
    measure: str = "evidence recall"


def draw_recall(path: Path, panels: Sequence[RecallPanel]) -> None:
    """Write the picture of ``panels`` to an SVG file. A method has the same color and marker in all panels.

    Raises ValueError if no panel has a point, or a point has no tokens.
    """
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    tokens = [each for panel in panels for line in panel.lines for each in line.tokens]
    if not tokens or min(tokens) <= 0:
        raise ValueError("The picture needs panels with points, each at more than zero tokens.")
    columns = min(PANELS_A_ROW, len(panels))
    rows, legend_rows = -(-len(panels) // columns), -(-len(labels) // LEGEND_COLUMNS)
    height = rows * PANEL_HEIGHT + legend_rows * LEGEND_ROW + 0.15
    legend_share = (legend_rows * LEGEND_ROW + 0.15) / height
    with style(8.5):
        layout = ConstrainedLayoutEngine(rect=(0, legend_share, 1, 1 - legend_share))
        figure = Figure(figsize=(RECALL_WIDTH, height), facecolor="white", layout=layout)
        looks = {label: look(n, markersize=4.5, linewidth=1.4) for n, label in enumerate(labels)}
        axes = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
        for n, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
            _recall_panel(axis, panel, looks)
            _token_scale(axis, min(tokens), max(tokens))
            if n % columns == 0 or panel.measure != panels[n - 1].measure:
                axis.set_ylabel(panel.measure)
            if n + columns >= len(panels):
                axis.set_xlabel("context tokens (o200k, log scale)")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
        figure.legend(handles=handles, loc="lower center", ncols=LEGEND_COLUMNS)
        write_svg(figure, path)


def _recall_panel(axis: Axes, panel: RecallPanel, looks: Mapping[str, Mapping[str, Any]]) -> None:
    for line in panel.lines:
        points = sorted(zip(line.tokens, line.recall, strict=True))
        front = 4 if len(points) == 1 else 3  # a lone point would be hidden under the lines
        axis.plot(*zip(*points, strict=True), clip_on=False, zorder=front, **looks[line.label])
    sizes = f"{counted(panel.questions, 'question')}, {counted(panel.documents, 'document')}"
    axis.set_title(f"{panel.name}\n{sizes}", fontsize=9)


def _token_scale(axis: Axes, least: float, most: float) -> None:
    """Give all panels the same axes: tokens on a logarithmic scale with powers of two, recall from 0 to 1."""
    first, last = math.floor(math.log2(least / 1000) + 0.01), math.ceil(math.log2(most / 1000) - 0.01)
    last = max(last, first + 1)
    axis.set_xscale("log", base=2)
    axis.set_xlim(1000 * 2.0**first, 1000 * 2.0**last)
    axis.xaxis.set_major_locator(FixedLocator([1000 * 2.0**n for n in range(first, last + 1)]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n / 1000:g}k" if n >= 1000 else f"{n:.0f}"))
    axis.set_ylim(0, 1)
    axis.grid(visible=True)
    axis.tick_params(labelsize=8, length=2.5)
