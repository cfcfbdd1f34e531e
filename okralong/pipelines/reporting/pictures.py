"""Draw a report's charts as PNG and SVG files with matplotlib, which belongs to the extra ``lab``.

The page does not need this module: it draws its charts in the browser. Equal data give equal bytes, regardless of the
user's matplotlib settings.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.extras import needs_extra
from okralong.pipelines.reporting.charts import Panel
from okralong.pipelines.reporting.page import Report
from okralong.pipelines.reporting.rows import ACCURACY, COST, plain
from okralong.pipelines.reporting.statistics import Estimate

with needs_extra("lab"):
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444", "#8c564b")
"""The palette of Okabe and Ito, which color-blind people can read, with black and yellow softened."""
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")
INK: Final = "#24292f"
FAINT: Final = "#d0d7de"
DPI: Final = 160
NAME_CHARS: Final = 36  # project default
"""Maximum length of the name of a method, set or type."""


@contextmanager
def style(size: float = 9.0) -> Iterator[None]:
    """Use the project's style in the block. ``size`` is the font size in points."""
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = dict.fromkeys(inked, INK)
    style |= {"svg.hashsalt": "okralong", "svg.fonttype": "none", "text.parse_math": False, "font.size": size}
    style |= {"axes.linewidth": 0.6, "axes.axisbelow": True, "grid.color": FAINT, "grid.linewidth": 0.5}
    style |= {"axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may have letters that the font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style)
        yield


def write_svg(figure: Figure, path: Path) -> None:
    """Write the figure without a date, so that equal figures give equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def look(number: int, **more: Any) -> dict[str, Any]:
    """Return the color and marker of series ``number`` as matplotlib options, with ``more``."""
    return {**more, "color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


# --------
# A report's charts as PNG and SVG, for papers and slides.

WIDTH: Final = 7.0
"""Width in inches: two columns of a paper."""


def report_pictures(report: Report) -> dict[str, bytes]:
    """Draw all non-empty charts of a report; the files by name."""
    drawn: dict[str, Figure] = {}
    with style():
        for number, panel in enumerate(report.panels):
            measures = {measure for figures in panel.points.values() for measure in figures}
            accuracy = next((measure for measure in ACCURACY if measure in measures), None)
            if accuracy and "weighted_tokens" in measures:
                name = _numbered("cost_accuracy", number, len(report.panels), panel.name)
                drawn[name] = _scatter(panel, accuracy, "weighted_tokens")
        if report.latency["bars"]:
            drawn["latency"] = _bars(report.latency, share=False, label="mean seconds per question")
        if report.mix["bars"]:
            drawn["workflows"] = _bars(report.mix, share=True, label="share of questions")
        for number, matrix in enumerate(report.confusions):
            name = _numbered("confusion", number, len(report.confusions), str(matrix["name"]))
            drawn[name] = _confusion(matrix)
        return {file: body for name, figure in drawn.items() for file, body in _saved(name, figure)}


def _numbered(kind: str, number: int, of: int, name: str) -> str:
    slug = "".join(char if char.isascii() and char.isalnum() else "_" for char in name.lower()).strip("_")[:40]
    return kind if of == 1 else f"{kind}_{number + 1}_{slug or 'set'}"


def _saved(name: str, figure: Figure) -> Iterator[tuple[str, bytes]]:
    for suffix, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        out = io.BytesIO()
        figure.savefig(out, format=suffix, dpi=DPI, metadata=metadata)
        yield f"{name}.{suffix}", out.getvalue()


def _canvas(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height), facecolor="white", layout="constrained")
    return figure, figure.subplots()


def _legend(axis: Axes) -> None:
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _scatter(panel: Panel, accuracy: str, cost: str) -> Figure:
    figure, axis = _canvas(4.0)
    places = panel.places(accuracy, cost)
    for number, (name, (x, y)) in enumerate(places.items()):
        found = panel.points[name]
        reach: dict[str, Any] = {"xerr": _reach(x, found[cost]), "yerr": _reach(y, found[accuracy])}
        shown = look(number, markersize=6, elinewidth=0.9, clip_on=False, linestyle="none", label=_short(name))
        axis.errorbar(x, y, **shown, **reach)
    line = [places[name] for name in panel.frontier(accuracy, cost)]
    if len(line) > 1:
        axis.plot(*zip(*line, strict=True), color=INK, lw=0.9, ls="--", zorder=1)
    costs = [x for x, _ in places.values()]
    if min(costs) > 0 and max(costs) / min(costs) > 8:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
    axis.set_ylim(bottom=0)
    axis.grid(visible=True)
    axis.set_xlabel(f"{COST[cost]} per question")
    axis.set_ylabel(ACCURACY[accuracy])
    axis.set_title(_short(panel.name), fontsize=9.5)
    _legend(axis)
    return figure


def _reach(value: float, found: Estimate) -> list[list[float]] | None:
    """Return the interval as error bars for matplotlib."""
    if found.interval is None:
        return None
    low, high = found.interval
    return [[max(0.0, value - low)], [max(0.0, high - value)]]


def _bars(data: Mapping[str, Any], *, share: bool, label: str) -> Figure:
    bars: Sequence[Mapping[str, Any]] = data["bars"][::-1]
    figure, axis = _canvas(0.9 + 0.34 * len(bars))
    left = [0.0] * len(bars)
    for number, part in enumerate(data["parts"]):
        widths = [bar["parts"][number] / ((bar["n"] or 1) if share else 1) for bar in bars]
        colour = COLOURS[number % len(COLOURS)]
        axis.barh(range(len(bars)), widths, left=left, height=0.62, color=colour, label=_short(part))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.set_yticks(range(len(bars)), [_short(bar["label"]) for bar in bars])
    for at, bar in enumerate(bars):
        if not share and bar["total"] is not None:
            axis.plot([bar["total"]] * 2, [at - 0.4, at + 0.4], color=INK, lw=1.6)
    axis.grid(visible=True, axis="x")
    axis.set_xlabel(label)
    _legend(axis)
    return figure


def _confusion(matrix: Mapping[str, Any]) -> Figure:
    labels, counts = [_short(label) for label in matrix["labels"]], matrix["counts"]
    figure, axis = _canvas(1.2 + 0.5 * len(labels))
    shares = [[count / (sum(row) or 1) for count in row] for row in counts]
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for g, row in enumerate(counts):
        for s, count in enumerate(row):
            axis.text(s, g, str(count), ha="center", va="center", color="white" if shares[g][s] > 0.55 else INK)
    axis.set_xticks(range(len(labels)), labels)
    axis.set_yticks(range(len(labels)), labels)
    axis.set_xlabel("the analyzer's type")
    axis.set_ylabel("gold type")
    return figure


def _short(name: str) -> str:
    """Shorten a name to ``NAME_CHARS``."""
    text = plain(name)
    return text if len(text) <= NAME_CHARS else f"{text[: NAME_CHARS - 1]}…"
