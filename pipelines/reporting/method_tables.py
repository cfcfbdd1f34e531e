"""Tables with a line for each method, shaped as papers print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.reporting.charts import Panel
from okralong.pipelines.reporting.rows import ACCURACY, COST, Row, figures
from okralong.pipelines.reporting.sweep_tables import Summary
from okralong.pipelines.reporting.tables import Better, Cell, Column, Table, kind_of

INTERVALS = "Means over questions with 95 % intervals, documents drawn; over sets every set weighs alike."


def main_accuracy(panels: Sequence[Panel]) -> str:
    """The measure that tables and pictures begin with: the first of ``ACCURACY`` that any point has."""
    held = {measure for panel in panels for point in panel.points.values() for measure in point}
    return next((measure for measure in ACCURACY if measure in held), "f1")


def paper_table(panels: Sequence[Panel]) -> Table:
    """Accuracy and tokens of each method on each set and over all: the main table of a paper. The last column counts
    the pictures in which it stands on the Pareto frontier."""
    accuracy, cost = main_accuracy(panels), "weighted_tokens"
    columns = [Column("method", "Method")]
    for panel in panels:
        columns += [
            Column(f"{panel.name} {accuracy}", f"{panel.name}: {ACCURACY[accuracy]}", "share", "more"),
            Column(f"{panel.name} tokens", f"{panel.name}: tokens", "tokens", "less"),
        ]
    columns.append(Column("frontier", "On frontier"))
    rows: list[list[Cell]] = []
    for label in _labels(panels):
        line: list[Cell] = [label]
        for panel in panels:
            found = panel.points.get(label, {})
            line += [found.get(accuracy), found.get(cost)]
        on = sum(label in panel.frontier(accuracy, cost) for panel in panels)
        rows.append([*line, f"{on} of {len(panels)}"])
    return Table("methods", "Methods", f"{INTERVALS} Tokens are input + 4 x output.", columns, rows)


def measure_tables(panels: Sequence[Panel]) -> list[Table]:
    """One table for each measure: methods down, sets across."""
    held = {measure for panel in panels for point in panel.points.values() for measure in point}
    tables = []
    for measure, name in {**ACCURACY, **COST}.items():
        if measure not in held:
            continue
        better: Better = "more" if measure in ACCURACY else "less"
        columns = [Column("method", "Method")]
        columns += [Column(panel.name, panel.name, kind_of(measure), better) for panel in panels]
        rows = [[label, *(panel.points.get(label, {}).get(measure) for panel in panels)] for label in _labels(panels)]
        tables.append(Table(measure, name, INTERVALS, columns, rows))
    return tables


def type_table(by_method: Mapping[str, Sequence[Row]], sets: Sequence[str], summary: Summary) -> list[Table]:
    """Accuracy of each method by question type; none where no type is known."""
    held = {row.type for rows in by_method.values() for row in rows if row.type}
    kinds = [kind for kind in TYPES if kind in held] + sorted(held - set(TYPES))
    measures = [m for m in ACCURACY if any(m in row.measures for rows in by_method.values() for row in rows)]
    if not kinds or not measures:
        return []
    measure = measures[0]
    rows: list[list[Cell]] = []
    for label, all_rows in by_method.items():
        line: list[Cell] = [label]
        for kind in kinds:
            known = summary.figure(label, sets[0], measure, kind) if len(sets) == 1 else None
            own = [row for row in all_rows if row.type == kind]
            line.append(known or figures(own, [measure]).get(measure))
        rows.append(line)
    columns = [Column("method", "Method"), *(Column(kind, kind, "share", "more") for kind in kinds)]
    note = "Means over all questions of a type, whatever set they come from, with 95 % intervals, documents drawn."
    return [Table("by_type", f"{ACCURACY[measure]} by question type", note, columns, rows)]


def paired_table(rows: Sequence[Mapping[str, Any]], labels: Mapping[tuple[str, str], str]) -> Table | None:
    """The sweep's paired differences over all types, as it wrote them; None where it wrote none."""
    lines: list[list[Cell]] = []
    for row in rows:
        if row.get("type") or row["metric"] not in {**ACCURACY, **COST}:
            continue
        one = labels.get((row["method"], row.get("variant") or ""), str(row["method"]))
        other = labels.get((row["against_method"], row.get("against_variant") or ""), str(row["against_method"]))
        name = {**ACCURACY, **COST}[row["metric"]]
        figures_of = [row.get(key) for key in ("difference", "low", "high", "p", "p_holm")]
        lines.append([one, other, row.get("set") or "mean over sets", name, *figures_of, row.get("n")])
    columns = [
        Column("method", "Method"),
        Column("against", "Against"),
        Column("set", "Set"),
        Column("metric", "Measure"),
        Column("difference", "Difference", "number"),
        Column("low", "2.5 %", "number"),
        Column("high", "97.5 %", "number"),
        Column("p", "p", "share"),
        Column("p_holm", "p, Holm", "share"),
        Column("questions", "Questions", "count"),
    ]
    note = "A method less the other on the same questions; p with Holm's correction over the comparisons of a table."
    return Table("paired", "Paired differences", note, columns, lines) if lines else None


def _labels(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(label for panel in panels for label in panel.points))
