"""The report's pictures as PNG and SVG, for papers and slides. This is the one module of the report that loads
matplotlib. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from okralong.pipelines.reporting.charts import COLOURS, FAINT, INK, MARKERS, Panel
from okralong.pipelines.reporting.page import Report
from okralong.pipelines.reporting.rows import ACCURACY, COST, plain

WIDTH: Final = 7.0
"""Inches: two columns of a paper."""
DPI: Final = 160
NAME_CHARS: Final = 36
"""Of a method, set or type. Ours."""


def pictures(report: Report) -> dict[str, bytes]:
    """The files by name. A picture that has nothing to show is left out."""
    found: dict[str, bytes] = {}
    for number, panel in enumerate(report.panels):
        measures = {measure for figures in panel.points.values() for measure in figures}
        accuracy = next((measure for measure in ACCURACY if measure in measures), None)
        if accuracy and "weighted_tokens" in measures:
            name = "cost_accuracy" if len(report.panels) == 1 else f"cost_accuracy_{number + 1}_{_slug(panel.name)}"
            found |= _saved(name, _scatter(panel, accuracy, "weighted_tokens"))
    if report.latency["bars"]:
        found |= _saved("latency", _bars(report.latency, share=False, label="mean seconds a question"))
    if report.mix["bars"]:
        found |= _saved("workflows", _bars(report.mix, share=True, label="share of questions"))
    for number, matrix in enumerate(report.confusions):
        name = "confusion" if len(report.confusions) == 1 else f"confusion_{number + 1}_{_slug(str(matrix['name']))}"
        found |= _saved(name, _confusion(matrix))
    return found


def _saved(name: str, canvas: Canvas) -> dict[str, bytes]:
    files = {}
    for suffix, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        out = io.BytesIO()
        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in letters that the font has not
            _style()
            canvas.savefig(out, format=suffix, dpi=DPI, metadata=metadata)
        files[f"{name}.{suffix}"] = out.getvalue()
    return files


def _canvas(height: float) -> tuple[Canvas, Axes]:
    with matplotlib.rc_context():
        _style()
        canvas = Canvas(figsize=(WIDTH, height), facecolor="white", layout="constrained")
        axis = canvas.subplots()
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_axisbelow(True)
    return canvas, axis


def _style() -> None:
    matplotlib.rcdefaults()  # a style of the user's own must not change the picture
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "okralong",
            "svg.fonttype": "none",
            "font.size": 9,
            "text.color": INK,
            "text.parse_math": False,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "axes.linewidth": 0.6,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )


def _scatter(panel: Panel, accuracy: str, cost: str) -> Canvas:
    canvas, axis = _canvas(4.0)
    places = panel.places(accuracy, cost)
    for number, (name, (x, y)) in enumerate(places.items()):
        axis.errorbar(
            x,
            y,
            xerr=_reach(x, panel.points[name][cost].interval),
            yerr=_reach(y, panel.points[name][accuracy].interval),
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=6,
            elinewidth=0.9,
            clip_on=False,
            linestyle="none",
            label=_short(name),
        )
    line = [places[name] for name in panel.frontier(accuracy, cost)]
    if len(line) > 1:
        axis.plot([x for x, _ in line], [y for _, y in line], color=INK, lw=0.9, ls="--", zorder=1)
    costs = [x for x, _ in places.values()]
    if min(costs) > 0 and max(costs) / min(costs) > 8:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
    axis.set_ylim(bottom=0)
    axis.grid(visible=True, color=FAINT, linewidth=0.5)
    axis.set_xlabel(f"{COST[cost]} a question")
    axis.set_ylabel(ACCURACY[accuracy])
    axis.set_title(_short(panel.name), fontsize=9.5)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return canvas


def _reach(value: float, interval: tuple[float, float] | None) -> list[list[float]] | None:
    if interval is None:
        return None
    return [[max(0.0, value - interval[0])], [max(0.0, interval[1] - value)]]


def _bars(data: Mapping[str, Any], *, share: bool, label: str) -> Canvas:
    bars: Sequence[Mapping[str, Any]] = data["bars"]
    canvas, axis = _canvas(0.9 + 0.34 * len(bars))
    names = [_short(bar["label"]) for bar in bars][::-1]
    left = [0.0] * len(bars)
    for number, part in enumerate(data["parts"]):
        widths = [bar["parts"][number] / ((bar["n"] or 1) if share else 1) for bar in bars][::-1]
        axis.barh(
            range(len(bars)), widths, left=left, height=0.62, color=COLOURS[number % len(COLOURS)], label=_short(part)
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.set_yticks(range(len(bars)), names)
    if not share:
        totals = [(at, bar["total"]) for at, bar in enumerate(reversed(bars)) if bar["total"] is not None]
        for at, total in totals:
            axis.plot([total, total], [at - 0.4, at + 0.4], color=INK, lw=1.6)
    axis.grid(visible=True, axis="x", color=FAINT, linewidth=0.5)
    axis.set_xlabel(label)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return canvas


def _confusion(matrix: Mapping[str, Any]) -> Canvas:
    labels, counts = [_short(label) for label in matrix["labels"]], matrix["counts"]
    canvas, axis = _canvas(1.2 + 0.5 * len(labels))
    shares = [[count / (sum(row) or 1) for count in row] for row in counts]
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for g, row in enumerate(counts):
        for s, count in enumerate(row):
            axis.text(s, g, str(count), ha="center", va="center", color="white" if shares[g][s] > 0.55 else INK)
    axis.set_xticks(range(len(labels)), labels)
    axis.set_yticks(range(len(labels)), labels)
    axis.set_xlabel("the analyzer's type")
    axis.set_ylabel("gold type")
    return canvas


def _short(name: str) -> str:
    """A name as a picture has room for it."""
    text = plain(name)
    return text if len(text) <= NAME_CHARS else f"{text[: NAME_CHARS - 1]}…"


def _slug(name: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in name.lower()).strip("_")[:40] or "set"
