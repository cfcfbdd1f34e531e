"""Read what Office files share: drawn text, charts and embedded objects."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from okralong.pipelines.core.number_formats import shown
from okralong.pipelines.core.raised import RaisedText
from okralong.pipelines.indexing.documents import Losses
from okralong.pipelines.indexing.formats.ooxml import CX, MC, A, C, M, Part, chosen, is_on, number_of
from okralong.pipelines.indexing.formats.text import PLACES_A_CELL, pipe_table
from okralong.pipelines.indexing.tables import is_year

EQUATION: Final = ("equation", "equations")
SMART_ART: Final = ("SmartArt drawing", "SmartArt drawings")
"""What Office files hold and is counted, not read, in the singular and in the plural."""
STRUCK: Final = "~~"
"""Stands before and after struck-out text, as in Markdown."""
_ICON: Final = 360_000
"""Pictures less than 1 cm wide or high (in EMU) are icons and lines. # project default"""
_DECORATIVE: Final = "{http://schemas.microsoft.com/office/drawing/2017/decorative}decorative"


def drawn_text(paragraph: Any, losses: Losses) -> str:
    """Return the text of an a:p, without slide numbers and equations, which are counted."""
    whole = RaisedText()
    struck = False
    stack = list(reversed(paragraph))
    while stack:
        each = stack.pop()
        if each.tag in (f"{A}r", f"{A}fld"):
            if each.get("type") == "slidenum":
                continue
            text = "".join(text.text or "" for text in each.iterchildren(f"{A}t"))
            properties = each.find(f"{A}rPr")
            strike = properties is not None and properties.get("strike", "noStrike") != "noStrike"
            raised = properties is not None and number_of(properties, "baseline") > 0
            if text and strike != struck and not raised:
                whole.add(STRUCK)
                struck = strike
            whole.add(text, raised)
        elif each.tag == f"{A}br":
            whole.add("\n")
        elif each.tag == f"{M}oMath":
            losses.add(*EQUATION)
        elif each.tag == f"{MC}AlternateContent":
            if (branch := chosen(each)) is not None:
                stack.extend(reversed(branch))
        elif each.tag not in (f"{A}pPr", f"{A}endParaRPr"):
            stack.extend(reversed(each))
    return (whole.text() + (STRUCK if struck else "")).replace("\v", "\n")


def is_decoration(properties: Any, extent: Any) -> bool:
    """Return whether a picture is marked as decoration, or is smaller than 1 cm; ``extent`` has its size."""
    if properties is not None and any(is_on(each, "val") for each in properties.iter(_DECORATIVE)):
        return True
    return extent is not None and 0 < min(number_of(extent, "cx"), number_of(extent, "cy")) < _ICON


_OBJECTS: Final = (
    ("excel", "embedded workbook", "embedded workbooks"),
    ("word", "embedded document", "embedded documents"),
    ("powerpoint", "embedded presentation", "embedded presentations"),
    ("equation", "equation that is an object", "equations that are objects"),
    ("acro", "embedded document", "embedded documents"),
)


def count_object(losses: Losses, program: str) -> None:
    """Count an embedded object, named by its ``program`` such as "Excel.Sheet.12"."""
    one, many = "embedded object", "embedded objects"
    for word, *names in _OBJECTS:
        if word in program.lower():
            one, many = names
            break
    losses.add(one, many)


# Tables.

MOST_REPEATED_CHARS: Final = 200
"""The text of a merged cell is repeated up to this length. # project default"""


@dataclass(slots=True)
class GridCell:
    """A cell with its first column and the number of columns that it spans."""

    column: int
    span: int
    text: str


def aligned(rows: Sequence[Sequence[GridCell]]) -> list[list[str]]:
    """Return the texts of a table's rows with each cell below its head.

    A label or year that is merged over several columns repeats in each, except that of a title.
    """
    starts = sorted({cell.column for row in rows for cell in row})
    places = sum(bisect_left(starts, row[-1].column + row[-1].span) for row in rows if row)
    if places > PLACES_A_CELL * sum(map(len, rows)):
        return [[cell.text for cell in row] for row in rows]
    lines = []
    for row in rows:
        line: list[str] = []
        is_alone = sum(bool(cell.text) for cell in row) == 1
        for cell in row:
            line += [""] * (bisect_left(starts, cell.column) - len(line))
            line.append(cell.text)
            is_title = is_alone and cell.column == starts[0]
            repeats = not is_title and len(cell.text) <= MOST_REPEATED_CHARS and _is_label(cell.text)
            more = bisect_left(starts, cell.column + cell.span) - len(line)
            line += [cell.text if repeats else ""] * more
        lines.append(line)
    return lines


def _is_label(text: str) -> bool:
    return is_year(text) or any(character.isalpha() for character in text)


# Charts.

_MOST_CELLS_A_VALUE: Final = 16
"""Series become one table unless most of its cells would then be empty. # project default"""
_DATE: Final = re.compile(r"[ymd]", re.IGNORECASE)
_LITERAL: Final = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|General', re.IGNORECASE)
_EPOCH: Final = datetime(1899, 12, 30)
_MAC_EPOCH: Final = datetime(1904, 1, 1)

_Values = Mapping[int, str]
_Series = tuple[str, _Values, _Values]
"""Name, categories and values."""


def chart_text(
    part: Part | None, losses: Losses, package: Any, needs_data: Callable[[Any], bool] = lambda root: True
) -> str:
    """Return a chart as its titles and tables of its saved data; "" if it was read before or cannot be read.

    ``needs_data`` says by the root of a chart whether its data stand nowhere else.
    """
    root = package.root_once(part)
    if root is None or part is None:
        return ""
    series: list[_Series] = []
    if needs_data(root):
        series = list(_extended_series(root) if root.tag.startswith(CX) else _series(root, losses))
        if not series:
            losses.add("chart without saved data", "charts without saved data")
    titles = [_title(each, losses) for each in root.iter(f"{C}title", f"{CX}title")]
    labels = [" ".join(_words(each, losses)) for each in root.iter(f"{C}dLbl")]
    drawn = [" ".join(_words(package.root_once(shapes), losses)) for shapes in part.of_kind("chartUserShapes")]
    lines = [*titles, "; ".join(filter(None, labels)), *drawn]
    return "\n\n".join(filter(None, ["\n".join(filter(None, lines)), *_chart_tables(series)]))


def _title(title: Any, losses: Losses) -> str:
    words = " ".join(_words(title, losses))
    return words or " ".join(each.text or "" for each in title.iter(f"{C}v", f"{CX}v")).strip()


def _words(root: Any, losses: Losses) -> Iterator[str]:
    """Yield the drawn paragraphs below an element."""
    for paragraph in root.iter(f"{A}p") if root is not None else ():
        if text := drawn_text(paragraph, losses).strip():
            yield text


def _series(root: Any, losses: Losses) -> Iterator[_Series]:
    area = root.find(f"{C}chart/{C}plotArea")
    epoch = _MAC_EPOCH if is_on(root.find(f"{C}date1904"), "val") else _EPOCH
    plots = () if area is None else (each for each in area if str(each.tag).endswith("Chart"))
    for element in (each for plot in plots for each in plot.iterchildren(f"{C}ser")):
        name = " ".join(each.text or "" for each in element.iterfind(f"{C}tx//{C}v")).strip()
        categories = _first(element, epoch, "cat", "xVal")
        values = _first(element, epoch, "val", "yVal")
        if not values:
            losses.add("chart series without saved values", "chart series without saved values")
            continue
        yield name, categories, values
        if sizes := _first(element, epoch, "bubbleSize"):
            yield f"{name} (size)".strip(), categories, sizes
        if labels := _points(next(element.iter(_LABELS), None)):
            yield f"{name} (labels)".strip(), categories, labels


_LABELS: Final = "{http://schemas.microsoft.com/office/drawing/2012/chart}dlblRangeCache"


def _first(series: Any, epoch: datetime, *names: str) -> _Values:
    for name in names:
        if (element := series.find(f"{C}{name}")) is not None:
            levels = list(element.iter(f"{C}lvl"))
            if levels:
                return _of_levels([_points(level) for level in levels])
            return next((found for each in element.iter() if (found := _points(each, epoch))), {})
    return {}


def _points(cache: Any, epoch: datetime = _EPOCH) -> _Values:
    """Return the values of a cache by position, as a chart shows them."""
    if cache is None:
        return {}
    usual = cache.findtext(f"{C}formatCode") or "General"
    found: dict[int, str] = {}
    for point in cache.iterchildren(f"{C}pt"):
        text = (point.findtext(f"{C}v") or "").strip()
        numbers = str(cache.tag).startswith(f"{C}num")
        form = point.get("formatCode") or usual
        found[number_of(point, "idx")] = _number(text, form, epoch) if numbers else text
    return found


def _number(text: str, number_format: str, epoch: datetime = _EPOCH) -> str:
    try:
        value = float(text)
        if _DATE.search(_LITERAL.sub("", number_format.split(";")[0])):
            return shown(epoch + timedelta(days=value))
        return shown(int(value) if value.is_integer() and "e" not in text.lower() else value, number_format)
    except (ValueError, OverflowError):
        return text


def _of_levels(levels: Sequence[_Values]) -> _Values:
    """Join the levels of categories, of which the first is the innermost, and an outer one holds until the next."""
    outer = [sorted(level.items()) for level in levels[:0:-1]]
    places = [0] * len(outer)
    found: dict[int, str] = {}
    for index, text in sorted(levels[0].items()):
        words = []
        for number, level in enumerate(outer):
            while places[number] < len(level) and level[places[number]][0] <= index:
                places[number] += 1
            if places[number]:
                words.append(level[places[number] - 1][1])
        found[index] = " / ".join(filter(None, [*words, text]))
    return found


def _extended_series(root: Any) -> Iterator[_Series]:
    """Yield the series of a chart of the newer kind, such as a waterfall."""
    names: dict[str, str] = {}
    for each in root.iter(f"{CX}series"):
        number = each.find(f"{CX}dataId")
        if number is not None:
            words = " ".join(text.text or "" for text in each.iterfind(f"{CX}tx/{CX}txData/{CX}v")).strip()
            names.setdefault(number.get("val") or "", words)
    for data in root.iterfind(f"{CX}chartData/{CX}data"):
        levels = [_extended_points(level) for level in data.iterfind(f"{CX}strDim/{CX}lvl")]
        for dimension in data.iterchildren(f"{CX}numDim"):
            level = dimension.find(f"{CX}lvl")
            if level is not None:
                values = _extended_points(level, level.get("formatCode") or "General")
                yield names.get(data.get("id") or "", ""), _of_levels(levels) if levels else {}, values


def _extended_points(level: Any, number_format: str = "") -> _Values:
    return {
        number_of(point, "idx"): _number(point.text or "", number_format)
        if number_format
        else (point.text or "").strip()
        for point in level.iterchildren(f"{CX}pt")
    }


def _chart_tables(series: Iterable[_Series]) -> Iterator[str]:
    """Yield a table for all series of the same categories."""
    groups: dict[tuple[tuple[int, str], ...], list[tuple[str, _Values]]] = {}
    for name, categories, values in series:
        groups.setdefault(tuple(sorted(categories.items())), []).append((name, values))
    for key, found in groups.items():
        categories = dict(key)
        together = {index for _, values in found for index in values}
        size = sum(len(values) for _, values in found)
        sparse = len(together) * len(found) > _MOST_CELLS_A_VALUE * size
        for part in [[each] for each in found] if sparse else [found]:
            places = sorted({index for _, values in part for index in values})
            rows = ([categories.get(at, ""), *(values.get(at, "") for _, values in part)] for at in places)
            yield pipe_table([["", *(name for name, _ in part)], *rows])
