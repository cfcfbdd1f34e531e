"""The recall-against-tokens picture: one panel a set, one line a method, as an SVG for the README.

Up and to the left is better. The ground is painted white, so that the picture reads alike on light and dark pages. The
same points give the same bytes. This is the one module of the bench that loads matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from okralong.pipelines.reporting.charts import COLOURS, FAINT, INK, MARKERS

PANELS_A_ROW: Final = 3
WIDTH: Final = 9.0
"""Inches; at 96 pixels an inch, about the 860 pixels of a README."""
PANEL_HEIGHT: Final = 2.5
LEGEND_ROW: Final = 0.24
LEGEND_COLUMNS: Final = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A method's points: mean context ``tokens`` (above zero) and mean ``recall``, one for each budget."""

    label: str
    tokens: Sequence[float]
    recall: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """A set with the numbers of its questions and documents, and the methods measured on it.

    ``measure`` says what the recall is of, for sets that mark no evidence.
    """

    name: str
    questions: int
    documents: int
    lines: Sequence[Line]
    measure: str = "evidence recall"


def draw(path: Path, panels: Sequence[Panel]) -> None:
    """Write the picture of ``panels`` to an SVG file. A method has one colour and marker in all panels.

    Raises ValueError when there is no panel with a point, or a point has no tokens.
    """
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    tokens = [each for panel in panels for line in panel.lines for each in line.tokens]
    if not tokens or min(tokens) <= 0:
        raise ValueError("The picture needs panels with points, each at more than zero tokens.")
    columns = min(PANELS_A_ROW, len(panels))
    rows, legend_rows = -(-len(panels) // columns), -(-len(labels) // LEGEND_COLUMNS)
    height = rows * PANEL_HEIGHT + legend_rows * LEGEND_ROW + 0.15
    legend_share = (legend_rows * LEGEND_ROW + 0.15) / height
    with matplotlib.rc_context():
        _set_style()
        layout = ConstrainedLayoutEngine(rect=(0, legend_share, 1, 1 - legend_share))
        figure = Figure(figsize=(WIDTH, height), facecolor="white", layout=layout)
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        looks = {label: (COLOURS[n % len(COLOURS)], MARKERS[n % len(MARKERS)]) for n, label in enumerate(labels)}
        axes = list(grid.flat)
        for n, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
            _draw_panel(axis, panel, looks)
            _scale(axis, min(tokens), max(tokens))
            if n % columns == 0 or panel.measure != panels[n - 1].measure:
                axis.set_ylabel(panel.measure)
            if n + columns >= len(panels):
                axis.set_xlabel("context tokens (o200k, log scale)")
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        figure.legend(handles=_handles(looks), loc="lower center", ncols=LEGEND_COLUMNS, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _set_style() -> None:
    matplotlib.rcdefaults()  # a style of the user's own must not change the picture
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "okralong",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 8.5,
            "text.color": INK,
            "text.parse_math": False,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "axes.linewidth": 0.6,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )


def _draw_panel(axis: Axes, panel: Panel, looks: dict[str, tuple[str, str]]) -> None:
    for line in panel.lines:
        colour, marker = looks[line.label]
        points = sorted(zip(line.tokens, line.recall, strict=True))
        x, y = [each[0] for each in points], [each[1] for each in points]
        front = 4 if len(points) == 1 else 3  # a lone point would drown under the lines
        axis.plot(x, y, color=colour, marker=marker, markersize=4.5, linewidth=1.4, clip_on=False, zorder=front)
    documents = "1 document" if panel.documents == 1 else f"{panel.documents:,} documents"
    axis.set_title(f"{panel.name}\n{panel.questions:,} questions, {documents}", fontsize=9)


def _scale(axis: Axes, least: float, most: float) -> None:
    """Tokens by powers of two, recall from 0 to 1, the same in all panels."""
    first, last = math.floor(math.log2(least / 1000) + 0.01), math.ceil(math.log2(most / 1000) - 0.01)
    last = max(last, first + 1)
    axis.set_xscale("log", base=2)
    axis.set_xlim(1000 * 2.0**first, 1000 * 2.0**last)
    axis.xaxis.set_major_locator(FixedLocator([1000 * 2.0**n for n in range(first, last + 1)]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(_tokens))
    axis.set_ylim(0, 1)
    axis.grid(visible=True, color=FAINT, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8, length=2.5)


def _tokens(value: float, _position: int | None = None) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:.0f}"


def _handles(looks: dict[str, tuple[str, str]]) -> Iterable[Line2D]:
    return [
        Line2D([], [], color=colour, marker=marker, markersize=4.5, linewidth=1.4, label=label)
        for label, (colour, marker) in looks.items()
    ]
