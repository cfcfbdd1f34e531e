"""The table ``scores`` as arrays: each method under a variant on each set, question by question."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.schemas import PAIRED, SCORES, SUMMARY
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.lab.metrics import METRICS
from okralong.pipelines.lab.sweeps.config import CellName
from okralong.pipelines.lab.sweeps.pages import paired_page, summary_page
from okralong.pipelines.lab.sweeps.run import CELL_FILE, GoldQuestion, read_gold_questions, score_rows
from okralong.pipelines.reporting.statistics import Floats, Resample, estimate, holm, resample, sign_flip_p
from okralong.pipelines.reporting.tables import safe_cell
from okralong.pipelines.run.rows import BEGUN

NAMES: Final = tuple(METRICS)
"""The order of the metrics in arrays."""

System = tuple[str, str]
"""A method and its variant."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions of one set under one system: ``values`` (questions, metrics) is nan where a metric is not defined.

    Of a question that the budget did not reach no metric is: its 0 tokens are none that the method got by with.
    """

    query_ids: tuple[str, ...]
    clusters: tuple[str, ...]
    types: tuple[str, ...]
    values: Floats

    def only(self, kept: Sequence[bool]) -> Questions:
        """Those questions that ``kept`` says."""
        at = [number for number, keep in enumerate(kept) if keep]
        query_ids, clusters, types = (
            tuple(each[number] for number in at) for each in (self.query_ids, self.clusters, self.types)
        )
        return Questions(query_ids, clusters, types, self.values[at])

    def of_type(self, wanted: str) -> Questions:
        """Those of a type; "" is all."""
        return self if not wanted else self.only([each == wanted for each in self.types])


@dataclass(frozen=True)
class Cell:
    """A cell of a sweep with its questions."""

    name: str
    system: System
    set: str
    seed: int
    questions: Questions


def cells_of(rows: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """The cells of rows of ``scores``, in the order in which they come."""
    by_cell: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_cell[row["cell"]].append(row)
    return [
        Cell(name, (own[0]["method"], own[0]["variant"]), own[0]["set"], own[0]["seed"], _questions(own))
        for name, own in by_cell.items()
    ]


def over_seeds(cells: Iterable[Cell]) -> dict[System, dict[str, Questions]]:
    """By system and set: each question with the mean of its values over the seeds."""
    grouped: dict[System, dict[str, list[Questions]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        grouped[cell.system][cell.set].append(cell.questions)
    return {
        system: {name: _averaged(several) for name, several in by_set.items()} for system, by_set in grouped.items()
    }


def shared(one: Questions, other: Questions) -> tuple[Questions, Questions]:
    """The questions that both have, in one order."""
    at = {query_id: number for number, query_id in enumerate(other.query_ids)}
    first = one.only([query_id in at for query_id in one.query_ids])
    order = [at[query_id] for query_id in first.query_ids]
    return first, Questions(first.query_ids, first.clusters, first.types, other.values[order])


def means(values: Floats, drawn: Resample | None) -> tuple[Floats, Floats | None]:
    """The mean of each column over the questions where it is defined, and the same in each draw of clusters.

    (questions, metrics) becomes (metrics,) and (draws, metrics); nan where no question has a value. Without ``drawn``
    there are no draws.
    """
    defined = ~np.isnan(values)
    known = np.where(defined, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = known.sum(axis=0) / defined.sum(axis=0)
        if drawn is None:
            return mean, None
        sums, counts = by_cluster(known, drawn.index), by_cluster(defined.astype(np.float64), drawn.index)
        return mean, (drawn.weights @ sums) / (drawn.weights @ counts)


def by_cluster(values: Floats, index: np.ndarray[Any, np.dtype[np.intp]]) -> Floats:
    """Sums over the questions of each cluster: (questions, metrics) becomes (clusters, metrics)."""
    sums = np.zeros((int(index.max()) + 1 if len(index) else 0, values.shape[1]))
    np.add.at(sums, index, values)
    return sums


def drawn_for(questions: Questions, seed: int) -> Resample | None:
    """Draws of the questions' clusters. The same clusters and seed give the same draws, so that figures are paired."""
    return resample(questions.clusters, seed)


def _questions(rows: Sequence[Mapping[str, Any]]) -> Questions:
    values = [[np.nan if row[name] is None or _unasked(row) else float(row[name]) for name in NAMES] for row in rows]
    query_ids, clusters, types = (tuple(str(row[name]) for row in rows) for name in ("query_id", "cluster", "type"))
    matrix = np.array(values, dtype=np.float64).reshape(len(rows), len(NAMES))
    return Questions(query_ids, clusters, types, matrix)


def _unasked(row: Mapping[str, Any]) -> bool:
    return bool(row["status"] == "over_budget")


def _averaged(several: Sequence[Questions]) -> Questions:
    if len(several) == 1:
        return several[0]
    first: dict[str, tuple[str, str]] = {}
    values: dict[str, list[Floats]] = defaultdict(list)
    for questions in several:
        for number, query_id in enumerate(questions.query_ids):
            first.setdefault(query_id, (questions.clusters[number], questions.types[number]))
            values[query_id].append(questions.values[number])
    clusters, types = zip(*first.values(), strict=True)
    return Questions(tuple(first), clusters, types, np.array([means(np.array(v), None)[0] for v in values.values()]))


# --------
# Means with document-clustered 95 % intervals: each cell, as a whole and by type, and each system over the sets.


def summary_rows(cells: Sequence[Cell], seed: int = 7) -> list[dict[str, Any]]:
    """Rows of the table ``summary``: those of each cell, then the mean over the sets for systems that had several.

    Over sets every set weighs alike, and each set's documents are drawn by themselves. A metric that is defined for no
    question has no row.
    """
    rows: list[dict[str, Any]] = []
    for cell in cells:
        for kind in ("", *sorted({each for each in cell.questions.types if each})):
            scope = {"cell": cell.name, "set": cell.set, "seed": cell.seed, "type": kind}
            rows += _rows_summary(cell.system, scope, [cell.questions.of_type(kind)], seed)
    for system, by_set in over_seeds(cells).items():
        if len(by_set) < 2:
            continue
        for kind in ("", *sorted({each for questions in by_set.values() for each in questions.types if each})):
            several = [own for questions in by_set.values() if (own := questions.of_type(kind)).query_ids]
            rows += _rows_summary(system, {"cell": "", "set": "", "seed": None, "type": kind}, several, seed)
    return rows


def _rows_summary(
    system: tuple[str, str], scope: dict[str, Any], sets: Sequence[Questions], seed: int
) -> list[dict[str, Any]]:
    found = [means(questions.values, drawn_for(questions, seed + at)) for at, questions in enumerate(sets)]
    values, draws = over_sets([mean for mean, _ in found], [drawn for _, drawn in found])
    rows = []
    for number, metric in enumerate(NAMES):
        defined = [questions.only([not np.isnan(value) for value in questions.values[:, number]]) for questions in sets]
        n = sum(len(each.query_ids) for each in defined)
        if not n:
            continue
        known = estimate(float(values[number]), None if draws is None else draws[:, number])
        rows.append(
            {
                "method": system[0],
                "variant": system[1],
                **scope,
                "metric": metric,
                "value": known.value,
                "low": known.low,
                "high": known.high,
                "n": n,
                "clusters": sum(len(set(each.clusters)) for each in defined),
            }
        )
    return rows


def over_sets(found: Sequence[Floats], draws: Sequence[Floats | None]) -> tuple[Floats, Floats | None]:
    """The mean of each metric over the sets that define it, and the same in each draw.

    There are no draws where one of the sets has none: an interval that left it out would be too narrow.
    """
    matrix = np.stack(found)
    held = ~np.isnan(matrix)
    with np.errstate(invalid="ignore"):
        value = np.where(held, matrix, 0.0).sum(axis=0) / held.sum(axis=0)
        known = [drawn for drawn in draws if drawn is not None]
        if len(known) < len(draws):
            return value, None
        # A set without the metric leaves it out in every draw; one that has it makes a draw without it undefined.
        parts = np.stack([np.where(mask, drawn, 0.0) for mask, drawn in zip(held, known, strict=True)])
        return value, parts.sum(axis=0) / held.sum(axis=0)


# --------
# Paired differences: the same questions under two systems, with interval, p-value and Holm's correction.


def paired_rows(cells: Sequence[Cell], against: Sequence[System], seed: int = 7) -> list[dict[str, Any]]:
    """Rows of the table ``paired``: every other system less each one of ``against``.

    On each set, and as the mean over the sets as a whole and by type. Systems are compared on the questions that both
    have. Holm's families: all rows of one metric on single sets, all over the sets, all by type.
    """
    systems = over_seeds(cells)
    rows: list[dict[str, Any]] = []
    for other in against:
        for system, by_set in systems.items():
            if system != other and other in systems:
                rows += _compared(system, other, by_set, systems[other], seed)
    _corrected(rows)
    return rows


def _compared(
    system: System, other: System, mine: Mapping[str, Questions], theirs: Mapping[str, Questions], seed: int
) -> list[dict[str, Any]]:
    pairs = {name: shared(mine[name], theirs[name]) for name in mine if name in theirs}
    differences = {
        name: Questions(one.query_ids, one.clusters, one.types, one.values - two.values)
        for name, (one, two) in pairs.items()
        if one.query_ids
    }
    named = {"method": system[0], "variant": system[1], "against_method": other[0], "against_variant": other[1]}
    rows: list[dict[str, Any]] = []
    for name, questions in differences.items():
        rows += _rows_paired({**named, "set": name, "type": ""}, [questions], seed)
    kinds = sorted({kind for questions in differences.values() for kind in questions.types if kind})
    for kind in ("", *kinds) if differences else ():
        several = [own for questions in differences.values() if (own := questions.of_type(kind)).query_ids]
        rows += _rows_paired({**named, "set": "", "type": kind}, several, seed)
    return rows


def _rows_paired(scope: dict[str, Any], sets: Sequence[Questions], seed: int) -> list[dict[str, Any]]:
    drawn = [resample(questions.clusters, seed + at) for at, questions in enumerate(sets)]
    found = [means(questions.values, draws) for questions, draws in zip(sets, drawn, strict=True)]
    values, draws = over_sets([mean for mean, _ in found], [each for _, each in found])
    defined = np.stack([~np.isnan(mean) for mean, _ in found])
    p_values = sign_flip_p(np.concatenate([_contributions(q, defined.sum(axis=0)) for q in sets]), seed)
    rows = []
    for number, metric in enumerate(NAMES):
        n = sum(int((~np.isnan(questions.values[:, number])).sum()) for questions in sets)
        if not n:
            continue
        known = estimate(float(values[number]), None if draws is None else draws[:, number])
        clusters = {c for q in sets for c, v in zip(q.clusters, q.values[:, number], strict=True) if not np.isnan(v)}
        p = float(p_values[number])
        rows.append(
            {
                **scope,
                "metric": metric,
                "difference": known.value,
                "low": known.low,
                "high": known.high,
                "p": None if np.isnan(p) or len(clusters) < 2 else p,
                "n": n,
                "clusters": len(clusters),
            }
        )
    return rows


def _contributions(questions: Questions, sets: Floats) -> Floats:
    """What each cluster of a set adds to the mean over ``sets`` sets (by metric): (clusters, metrics)."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(questions.clusters))}
    index = np.array([numbers[name] for name in questions.clusters], dtype=np.intp)
    defined = ~np.isnan(questions.values)
    sums = by_cluster(np.where(defined, questions.values, 0.0), index)
    return np.asarray(sums / np.maximum(defined.sum(axis=0), 1) / np.maximum(sets, 1))


def _corrected(rows: list[dict[str, Any]]) -> None:
    """Write ``p_holm`` into the rows, family by family. A less B and B less A are one test."""
    families: dict[tuple[str, bool, bool], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        families[row["metric"], bool(row["set"]), bool(row["type"])].append(row)
    for family in families.values():
        tests = {_test(row): np.nan if row["p"] is None else float(row["p"]) for row in family}
        raised = dict(zip(tests, holm(list(tests.values())), strict=True))
        for row in family:
            p = raised[_test(row)]
            row["p_holm"] = None if np.isnan(p) else p


def _test(row: Mapping[str, Any]) -> tuple[frozenset[System], str, str]:
    systems = frozenset({(row["method"], row["variant"]), (row["against_method"], row["against_variant"])})
    return systems, row["set"], row["type"]


# --------
# Two runs over the same questions: what the second does better or worse, and whether that is beyond a bound.

FIRST: Final[System] = ("A", "default")
SECOND: Final[System] = ("B", "default")


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric: both means, the second less the first with interval and p-value, and how many questions have it."""

    metric: str
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int

    def worse_by(self) -> float:
        """By how much the second run is worse; below 0 when it is better, and 0 where nothing is known."""
        if self.difference is None:
            return 0.0
        return -self.difference if METRICS[self.metric] == "more" else self.difference


def compare_runs(first: str, second: str, questions: str | None = None) -> list[Compared]:
    """Every metric that both runs have. ``questions`` is the file with the gold answers; cells of a sweep know theirs.

    Raises InputError when there is no gold, when a run is no run folder, and when the two were not asked the same.
    """
    golds = read_gold_questions(questions or gold_of(first, second))
    rows: list[dict[str, Any]] = []
    asked = []
    for system, place in ((FIRST, first), (SECOND, second)):
        own = _rows(place, system, golds)
        asked.append({row["query_id"] for row in own if row["status"] != "over_budget"})
        rows += own
    if asked[0] != asked[1] or not asked[0]:
        only = sorted(asked[0] ^ asked[1])
        some = f" ({', '.join(only[:3])}, ...)" if only else ""
        raise InputError(
            f"{first} has finished {len(asked[0])} questions of the file and {second} {len(asked[1])}, of which "
            f"{len(only)} are not the same{some}. Runs are compared over the same questions: finish both, or give "
            "--questions with those that both were asked."
        )
    cells = cells_of(rows)
    means = {(r["method"], r["metric"]): r["value"] for r in summary_rows(cells) if not r["type"] and r["cell"]}
    return [
        Compared(
            row["metric"],
            means.get((FIRST[0], row["metric"])),
            means.get((SECOND[0], row["metric"])),
            *(row[key] for key in ("difference", "low", "high", "p", "n")),
        )
        for row in paired_rows(cells, [FIRST])
        if row["set"] and not row["type"]
    ]


def regression(found: Sequence[Compared], metric: str, bound: float) -> Compared | None:
    """The metric when the second run is worse in it by more than ``bound`` in the mean, else None.

    Raises ConfigError for a metric that there is not, or that the two runs do not have.
    """
    if metric not in METRICS:
        raise ConfigError(f"--metric takes {', '.join(METRICS)}, not {metric!r}.")
    named = [each for each in found if each.metric == metric]
    if not named:
        raise ConfigError(
            f"The runs have no {metric}: their questions have no gold for it. Choose one of "
            f"{', '.join(each.metric for each in found)}."
        )
    return named[0] if named[0].worse_by() > bound else None


def gold_of(*runs: str) -> str:
    """Where the gold questions of cells of a sweep lie. Raises InputError for runs that know of none, or of several."""
    found = set()
    for run in runs:
        folder = Folder.of(run)
        if not folder.exists(CELL_FILE):
            raise InputError(
                f"{run} does not say which questions file has its gold answers, as cells of a sweep do. Give it with "
                "--questions."
            )
        questions = json.loads(folder.read_bytes(CELL_FILE))["questions"]
        found.add(str((Path(folder.path) / questions).resolve()))
    contents = {Path(file).read_bytes() for file in found if Path(file).is_file()}
    if len(contents) != 1:
        raise InputError(
            f"The runs were asked different questions files ({', '.join(sorted(found))}), or they are gone. Give the "
            "one to compare over with --questions."
        )
    return min(found)


def _rows(place: str, system: System, golds: Sequence[GoldQuestion]) -> list[dict[str, Any]]:
    run = Folder.of(place)
    if not run.exists(BEGUN):
        raise InputError(
            f"{place} holds no {BEGUN}: it is no run folder. Give one that okralong answer --run has written."
        )
    begun: Mapping[str, Any] = json.loads(run.read_bytes(BEGUN))
    archive = Archive.open(begun["archive"])
    text = cache(lambda doc_id: archive.document(doc_id).text)
    named = CellName(system[0], system[0], "questions", system[1], 0)
    known = set(archive.doc_ids())
    # Evidence of a document that the archive does not hold has no place in it.
    fitting = [g if {s.doc_id for s in g.evidence} <= known else replace(g, evidence=()) for g in golds]
    return score_rows(run, named, fitting, text).rows


# --------
# The result tables below a sweep's folder: scores as Parquet, summaries and differences also as CSV and Markdown.

SCORES_FOLDER: Final = "scores"
PART: Final = "part-000000001.parquet"


def write_results(
    folder: Folder, title: str, rows: Sequence[Mapping[str, Any]], against: Sequence[System], seed: int = 7
) -> list[str]:
    """Write all tables of the rows of ``scores``; the names of the files, as they lie in ``folder``."""
    folder.at(SCORES_FOLDER).write_table(PART, pa.Table.from_pylist(list(rows), schema=SCORES))
    cells = cells_of(rows)
    summaries = summary_rows(cells, seed)
    differences = paired_rows(cells, against, seed)
    written = [f"{SCORES_FOLDER}/{PART}"]
    for name, schema, found, page in (
        ("summary", SUMMARY, summaries, summary_page(title, summaries)),
        ("paired", PAIRED, differences, paired_page(title, differences)),
    ):
        table = pa.Table.from_pylist(found, schema=schema)
        folder.write_table(f"{name}.parquet", table)
        folder.write_bytes(f"{name}.csv", _csv(table))
        folder.write_bytes(f"{name}.md", page.encode())
        written += [f"{name}.parquet", f"{name}.csv", f"{name}.md"]
    return written


def read_scores(folder: Folder) -> list[dict[str, Any]]:
    """The rows of ``scores`` of a sweep's folder; none when it has no such table yet."""
    rows: list[dict[str, Any]] = folder.at(SCORES_FOLDER).read_tables(SCORES).to_pylist()
    return rows


def _csv(table: pa.Table) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([safe_cell(cell) for cell in row.values()] for row in table.to_pylist())
    return out.getvalue().encode()
