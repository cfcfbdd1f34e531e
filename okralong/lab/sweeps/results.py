"""The results of a sweep: scores as arrays, means and paired differences with intervals, and the files of them all.

Documents are drawn, and not questions; see ``reporting/statistics.py``. Two runs are compared by the same means, and a
tune chooses its values by them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from okralong.lab.sweeps.config import DEFAULT, CellName, Tune
from okralong.lab.sweeps.metrics import METRICS
from okralong.lab.sweeps.run import CELL_FILE, GoldQuestion, read_gold_questions, score_rows
from okralong.lab.sweeps.schemas import PAIRED, SCORES, SUMMARY
from okralong.lab.sweeps.significance import holm, sign_flip_p
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.reporting.statistics import (
    Estimate,
    Floats,
    cluster_index,
    cluster_sums,
    estimate,
    mean,
    mean_over_sets,
    resample,
)
from okralong.pipelines.reporting.tables import NONE, csv_file, markdown_table
from okralong.pipelines.run.rows import BEGUN

NAMES: Final = tuple(METRICS)
"""The order of the metrics in arrays."""

System = tuple[str, str]
"""A method and its variant."""

ResultRow = Mapping[str, Any]

SCORES_FOLDER: Final = "scores"
PART: Final = "part-000000001.parquet"


def write_results(
    folder: Folder,
    title: str,
    words: str,
    rows: Sequence[ResultRow],
    against: Sequence[System],
    seed: int = 7,
    indexing: Sequence[ResultRow] = (),
) -> list[str]:
    """Write ``scores`` as Parquet, summary and differences as Parquet, CSV and Markdown, and ``indexing`` (rows of
    ``indexing_row``) as CSV and below the summary.

    ``words`` stand above the means. Returns the names of the files, as they lie in ``folder``.
    """
    folder.at(SCORES_FOLDER).write_table(PART, pa.Table.from_pylist(list(rows), schema=SCORES))
    cells = cells_of(rows)
    summaries = summary_rows(cells, seed)
    differences = paired_rows(cells, against, seed)
    written = [f"{SCORES_FOLDER}/{PART}"]
    for name, schema, found, page in (
        (
            "summary",
            SUMMARY,
            summaries,
            summary_page(title, words, summaries) + agreement_page(rows) + seeds_page(rows) + indexing_page(indexing),
        ),
        ("paired", PAIRED, differences, paired_page(title, differences)),
    ):
        table = pa.Table.from_pylist(found, schema=schema)
        folder.write_table(f"{name}.parquet", table)
        folder.write_bytes(f"{name}.csv", csv_file(table.to_pydict()))
        folder.write_bytes(f"{name}.md", page.encode())
        written += [f"{name}.parquet", f"{name}.csv", f"{name}.md"]
    if indexing:
        columns = {name: [row[name] for row in indexing] for name in indexing[0]}
        folder.write_bytes("indexing.csv", csv_file(columns))
        written.append("indexing.csv")
    return written


def read_scores(folder: Folder) -> list[dict[str, Any]]:
    """The rows of ``scores`` of a sweep's folder. Raises InputError when there are none yet."""
    rows: list[dict[str, Any]] = folder.at(SCORES_FOLDER).read_tables(SCORES).to_pylist()
    if not rows:
        raise InputError(f"{folder.path} has no scores yet. Let okralong evaluate finish at least one question.")
    return rows


# --------
# The table ``scores`` as arrays: each method under a variant on each set, question by question.


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions of one set under one system: ``values`` (questions, metrics) is nan where a metric is not defined.

    Of a question that the budget did not reach no metric is: its 0 tokens are none that the method got by with.
    """

    query_ids: tuple[str, ...]
    clusters: tuple[str, ...]
    types: tuple[str, ...]
    values: Floats

    def at(self, numbers: Sequence[int]) -> Questions:
        """The questions of these numbers, in this order."""
        query_ids, clusters, types = (
            tuple(each[number] for number in numbers) for each in (self.query_ids, self.clusters, self.types)
        )
        return Questions(query_ids, clusters, types, self.values[list(numbers)])

    def of_type(self, wanted: str) -> Questions:
        """Those of a type; "" is all."""
        return self.at([number for number, each in enumerate(self.types) if wanted in ("", each)])


@dataclass(frozen=True)
class Cell:
    """A cell of a sweep with its questions."""

    name: str
    system: System
    set: str
    seed: int
    questions: Questions


def cells_of(rows: Iterable[ResultRow]) -> list[Cell]:
    """The cells of rows of ``scores``, in the order in which they come."""
    by_cell: dict[str, list[ResultRow]] = defaultdict(list)
    for row in rows:
        by_cell[row["cell"]].append(row)
    return [
        Cell(name, (own[0]["method"], own[0]["variant"]), own[0]["set"], own[0]["seed"], _questions(own))
        for name, own in by_cell.items()
    ]


def _questions(rows: Sequence[ResultRow]) -> Questions:
    query_ids, clusters, types = (tuple(str(row[name]) for row in rows) for name in ("query_id", "cluster", "type"))
    values = [[np.nan if row["status"] == "over_budget" else row[name] for name in NAMES] for row in rows]
    return Questions(query_ids, clusters, types, np.array(values, dtype=np.float64).reshape(len(rows), len(NAMES)))


def _over_seeds(cells: Iterable[Cell]) -> dict[System, dict[str, Questions]]:
    """By system and set: each question with the mean of its values over the seeds."""
    grouped: dict[System, dict[str, list[Questions]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        grouped[cell.system][cell.set].append(cell.questions)
    return {
        system: {name: _averaged(several) for name, several in by_set.items()} for system, by_set in grouped.items()
    }


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
    return Questions(tuple(first), clusters, types, np.array([mean(np.array(v).T, None)[0] for v in values.values()]))


def _types(sets: Iterable[Questions]) -> tuple[str, ...]:
    """ "" for all questions, then each type that one of them has."""
    return ("", *sorted({kind for questions in sets for kind in questions.types if kind}))


def _of_type(sets: Iterable[Questions], kind: str) -> list[Questions]:
    return [own for questions in sets if (own := questions.of_type(kind)).query_ids]


def _metrics(sets: Sequence[Questions], seed: int) -> Iterator[tuple[int, Estimate, int]]:
    """Of each metric that a question has: its number, its mean over the sets, which weigh alike and are drawn each by
    itself, and how many clusters it is over."""
    found = [mean(questions.values.T, resample(questions.clusters, seed + at)) for at, questions in enumerate(sets)]
    values, draws = mean_over_sets(found, skip_undefined=True)
    for number in range(len(NAMES)):
        clusters: set[tuple[int, str]] = set()
        n = 0
        for at, questions in enumerate(sets):
            known = np.flatnonzero(~np.isnan(questions.values[:, number]))
            clusters |= {(at, questions.clusters[each]) for each in known}
            n += len(known)
        if n:
            yield number, estimate(values[number], None if draws is None else draws[:, number], n), len(clusters)


# --------
# Means: of each cell, as a whole and by type, and of each system over the sets.


def summary_rows(cells: Sequence[Cell], seed: int = 7) -> list[dict[str, Any]]:
    """Rows of the table ``summary``: those of each cell, then the mean over the sets for systems that had several.

    A metric that is defined for no question has no row.
    """
    rows: list[dict[str, Any]] = []
    for cell in cells:
        scope = {"cell": cell.name, "set": cell.set, "seed": cell.seed}
        rows += _summarized(cell.system, scope, [cell.questions], seed)
    for system, by_set in _over_seeds(cells).items():
        if len(by_set) > 1:
            rows += _summarized(system, {"cell": "", "set": "", "seed": None}, list(by_set.values()), seed)
    return rows


def _summarized(
    system: System, scope: Mapping[str, Any], sets: Sequence[Questions], seed: int
) -> Iterator[dict[str, Any]]:
    named = {"method": system[0], "variant": system[1], **scope}
    for kind in _types(sets):
        for number, found, clusters in _metrics(_of_type(sets, kind), seed):
            figures = {"value": found.value, "low": found.low, "high": found.high, "n": found.n, "clusters": clusters}
            yield {**named, "type": kind, "metric": NAMES[number], **figures}


# --------
# Paired differences: the same questions under two systems, with interval, p-value and Holm's correction.


def paired_rows(cells: Sequence[Cell], against: Sequence[System], seed: int = 7) -> list[dict[str, Any]]:
    """Rows of the table ``paired``: every other system less each one of ``against``.

    On each set, and as the mean over the sets as a whole and by type. Systems are compared on the questions that both
    have. Holm's families: all rows of one metric on single sets, all over the sets, all by type.
    """
    systems = _over_seeds(cells)
    rows: list[dict[str, Any]] = []
    for other in against:
        for system, by_set in systems.items():
            if system != other and other in systems:
                rows += _compared(system, other, by_set, systems[other], seed)
    _correct(rows)
    return rows


def _compared(
    system: System, other: System, mine: Mapping[str, Questions], theirs: Mapping[str, Questions], seed: int
) -> Iterator[dict[str, Any]]:
    named = {"method": system[0], "variant": system[1], "against_method": other[0], "against_variant": other[1]}
    pairs = {name: _difference(mine[name], theirs[name]) for name in mine if name in theirs}
    differences = {name: questions for name, questions in pairs.items() if questions.query_ids}
    for name, questions in differences.items():
        yield from _tested({**named, "set": name, "type": ""}, [questions], seed)
    for kind in _types(differences.values()) if differences else ():
        yield from _tested({**named, "set": "", "type": kind}, _of_type(differences.values(), kind), seed)


def _difference(one: Questions, other: Questions) -> Questions:
    """The questions that both have, with the values of ``one`` less those of ``other``."""
    at = {query_id: number for number, query_id in enumerate(other.query_ids)}
    shared = one.at([number for number, query_id in enumerate(one.query_ids) if query_id in at])
    return replace(shared, values=shared.values - other.values[[at[query_id] for query_id in shared.query_ids]])


def _tested(scope: Mapping[str, Any], sets: Sequence[Questions], seed: int) -> Iterator[dict[str, Any]]:
    defined = np.sum([~np.isnan(mean(questions.values.T, None)[0]) for questions in sets], axis=0)
    p_values = sign_flip_p(np.concatenate([_contributions(questions, defined) for questions in sets]), seed)
    for number, found, clusters in _metrics(sets, seed):
        p = None if clusters < 2 or np.isnan(p_values[number]) else float(p_values[number])
        figures = {"difference": found.value, "low": found.low, "high": found.high, "p": p, "n": found.n}
        yield {**scope, "metric": NAMES[number], **figures, "clusters": clusters}


def _contributions(questions: Questions, sets: Floats) -> Floats:
    """What each cluster of a set adds to the mean over ``sets`` sets (by metric): (clusters, metrics)."""
    known = ~np.isnan(questions.values)
    sums = cluster_sums(np.where(known, questions.values, 0.0).T, cluster_index(questions.clusters))
    return np.asarray(sums / np.maximum(known.sum(axis=0), 1) / np.maximum(sets, 1))


def _correct(rows: Sequence[dict[str, Any]]) -> None:
    """Write ``p_holm`` into the rows, family by family. A less B and B less A are one test."""
    families: dict[tuple[str, bool, bool], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        families[row["metric"], bool(row["set"]), bool(row["type"])].append(row)
    for family in families.values():
        tests = {_test(row): np.nan if row["p"] is None else row["p"] for row in family}
        raised = dict(zip(tests, holm(list(tests.values())), strict=True))
        for row in family:
            row["p_holm"] = None if row["p"] is None else raised[_test(row)]


def _test(row: ResultRow) -> tuple[frozenset[System], str, str]:
    systems = frozenset({(row["method"], row["variant"]), (row["against_method"], row["against_variant"])})
    return systems, row["set"], row["type"]


# --------
# Summaries and differences as Markdown: a table a set, a row a system or cell, a column a metric.

SHOWN: Final[Mapping[str, str]] = {
    "f1": "F1",
    "em": "EM",
    "rouge_l": "ROUGE-L",
    "numeric": "number",
    "judge": "judge",
    "judge_relevance": "relevance",
    "judge_correctness": "correctness",
    "judge_similarity": "similarity",
    "judge_faithfulness": "faithfulness",
    "answer_recall": "answer recall",
    "evidence_recall": "evidence recall",
    "citation_precision": "citation precision",
    "weighted_tokens": "tokens",
    "alone_usd": "dollars alone",
    "seconds_total": "seconds",
}
"""The metrics on the page, by their heads; the Parquet and CSV files have all."""

_WORDS: Final = (
    "Means over questions with 95 % intervals from a bootstrap over documents. Tokens are input + 4 x output, of a "
    "question; dollars alone are what the method costs when it shares no replies. A dash: not defined, or too few "
    "documents to tell."
)
_PAIRED_WORDS: Final = (
    "Means of differences on the same questions, with 95 % intervals from a bootstrap over documents; in brackets the "
    "p-value of a sign-flip test over documents after Holm's correction. Its families are all single sets, the mean "
    "over the sets, and the types, each for one metric. A dash: not defined, or too few documents to tell."
)


def summary_page(title: str, words: str, rows: Sequence[ResultRow]) -> str:
    """The page of rows of ``summary``."""
    parts = [f"# {title}", *([words.strip()] if words.strip() else []), _WORDS]
    for name in _order(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name and not row["type"]]
        parts += [f"## {name or 'Mean over the sets'}", _grid(own, _system, _valued)]
        by_type = [row for row in rows if row["set"] == name and row["type"]]
        if by_type:
            parts += ["By type:", _grid(by_type, lambda row: f"{_system(row)}: {row['type']}", _valued)]
    return "\n\n".join(parts) + "\n"


_AGREEMENT_WORDS: Final = (
    "Questions that the judge has marked, all methods together. Agree: its yes is an exact match, its no is none; "
    "kappa is Cohen's, which takes out what would agree by chance. Beside F1: the correlation (Pearson's r) of the "
    "verdict, and of the mark for correctness where there is one."
)


def agreement_page(rows: Sequence[ResultRow]) -> str:
    """How the judge's verdicts lie beside exact match and F1, set by set, below the summary; "" without a judge."""
    lines = []
    for name in _order(row["set"] for row in rows):
        judged = [row for row in rows if row["set"] == name and row["judge"] is not None]
        if not judged:
            continue
        verdict, em, f1 = (np.array([float(row[column]) for row in judged]) for column in ("judge", "em", "f1"))
        marked = [row for row in judged if row["judge_correctness"] is not None]
        correct = np.array([row["judge_correctness"] for row in marked])
        beside = np.array([float(row["f1"]) for row in marked])
        right = (verdict > 0.5).astype(float)  # of several seeds what most say
        agree = float((right == (em == 1)).mean())
        figures = (verdict.mean(), em.mean(), agree, kappa(right, em == 1), r_of(verdict, f1), r_of(correct, beside))
        lines.append([name, f"{len(judged):,}", *(shown_number(None if f is None else float(f)) for f in figures)])
    if not lines:
        return ""
    head = ["", "marked", "judge", "EM", "agree", "kappa", "r of judge and F1", "r of correctness and F1"]
    table = markdown_table(head, lines, range(1, len(head)))
    return f"\n## The judge beside exact match and F1\n\n{_AGREEMENT_WORDS}\n\n{table}\n"


def kappa(one: Floats, other: Any) -> float | None:
    """Cohen's kappa of two lists of 0 and 1; None where both are the same value throughout."""
    agree = float((one == other).mean())
    yes, also = float(one.mean()), float(np.asarray(other, dtype=float).mean())
    chance = yes * also + (1 - yes) * (1 - also)
    return None if chance == 1 else (agree - chance) / (1 - chance)


def r_of(one: Floats, other: Floats) -> float | None:
    """Pearson's correlation; None where fewer than three pairs, or one side never differs."""
    if len(one) < 3 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


_SEEDS_WORDS: Final = (
    "What the judge said with each of its seeds: the mean over the sets, each of its answers; in brackets the position "
    "of the system among the others by that mark. Then the sample variance of these means over the seeds, and the mean "
    "of the sample variances of single answers."
)


def seeds_page(rows: Sequence[ResultRow]) -> str:
    """How far the judge's marks lie apart over its seeds, mark by mark, below the summary; "" for a single seed."""
    spoken = [row | {"by_seed": dict(row["judge_seeds"])} for row in map(dict, rows) if row.get("judge_seeds")]
    parts = []
    for mark in _order(name for row in spoken for name in row["by_seed"]):
        held = [row for row in spoken if mark in row["by_seed"]]
        count = min(len(row["by_seed"][mark]) for row in held)
        systems = _order((row["method"], row["variant"]) for row in held)
        means, apart = {}, {}
        for system in systems:
            own = [row for row in held if (row["method"], row["variant"]) == system]
            given = [
                np.array([row["by_seed"][mark][:count] for row in own if row["set"] == name])
                for name in _order(row["set"] for row in own)
            ]
            means[system] = np.mean([each.mean(axis=0) for each in given], axis=0)
            apart[system] = float(np.mean([each.var(axis=1, ddof=1).mean() for each in given]))
        lines = []
        for system in systems:
            positions = [1 + sum(other[at] > means[system][at] for other in means.values()) for at in range(count)]
            cells = (f"{shown_number(float(v))} ({p})" for v, p in zip(means[system], positions, strict=True))
            spread = float(means[system].var(ddof=1))
            lines.append([_name(*system), *cells, f"{spread:.6f}", f"{apart[system]:.6f}"])
        head = ["", *(f"seed {number}" for number in range(1, count + 1)), "variance of the mean", "of an answer"]
        parts.append(f"{mark}:\n\n{markdown_table(head, lines, range(1, len(head)))}")
    if not parts:
        return ""
    return f"\n## The judge over its seeds\n\n{_SEEDS_WORDS}\n\n" + "\n\n".join(parts) + "\n"


_INDEXING_WORDS: Final = (
    "What a method has the generator write once for all questions of a cell, such as summaries of the documents, in "
    "calls of the ledger that no question's tokens and dollars above hold. Dollars alone: if no reply came from "
    "another run."
)


def indexing_page(rows: Sequence[ResultRow]) -> str:
    """What stands below the summary where something was written once; else nothing."""
    if not rows:
        return ""
    head = ["", "set", "written", "calls", "prompt tokens", "completion tokens", "dollars alone"]
    counted = ("artifacts", "calls", "prompt_tokens", "completion_tokens")
    lines = [
        [_system(row), row["set"], *(f"{row[name]:,}" for name in counted), shown_number(row["alone_usd"])]
        for row in rows
    ]
    table = markdown_table(head, lines, range(2, len(head)))
    return f"\n## Written once for the documents\n\n{_INDEXING_WORDS}\n\n{table}\n"


def paired_page(title: str, rows: Sequence[ResultRow]) -> str:
    """The page of rows of ``paired``."""
    parts = [f"# {title}: paired differences", _PAIRED_WORDS]
    if not rows:
        parts.append("There is nothing to compare.")
    for other in _order((row["against_method"], row["against_variant"]) for row in rows):
        against = [row for row in rows if (row["against_method"], row["against_variant"]) == other]
        parts.append(f"## Less {_name(*other)}")
        for name, typed in _order((row["set"], bool(row["type"])) for row in against):
            own = [row for row in against if (row["set"], bool(row["type"])) == (name, typed)]
            head = name or ("Mean over the sets, by type" if typed else "Mean over the sets")
            named = (lambda row: f"{_system(row)}: {row['type']}") if typed else _system
            parts += [f"### {head}", _grid(own, named, _differing)]
    return "\n\n".join(parts) + "\n"


def shown_number(value: float | None) -> str:
    """Three digits behind the point for shares, four significant ones for the rest, none for large figures."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.2g}"


def _grid(rows: Sequence[ResultRow], named: Callable[[ResultRow], str], shown: Callable[[ResultRow], str]) -> str:
    metrics = [metric for metric in SHOWN if any(row["metric"] == metric for row in rows)]
    cells: dict[str, dict[str, ResultRow]] = {}
    for row in rows:
        cells.setdefault(named(row), {})[row["metric"]] = row
    lines = []
    for name, by_metric in cells.items():
        n = max(row["n"] for row in by_metric.values())
        lines.append([name, f"{n:,}", *(shown(by_metric[m]) if m in by_metric else NONE for m in metrics)])
    head = ["", "questions", *(SHOWN[metric] for metric in metrics)]
    return markdown_table(head, lines, range(1, len(head)))


def _valued(row: ResultRow) -> str:
    return f"{shown_number(row['value'])}{_interval(row)}"


def _differing(row: ResultRow) -> str:
    difference = row["difference"]
    sign = "+" if difference is not None and difference > 0 else ""
    p = "" if row["p_holm"] is None else f" ({shown_number(row['p_holm'])})"
    return f"{sign}{shown_number(difference)}{_interval(row)}{p}"


def _interval(row: ResultRow) -> str:
    if row["low"] is None and row["high"] is None:
        return ""
    return f" [{shown_number(row['low'])}, {shown_number(row['high'])}]"


def _system(row: ResultRow) -> str:
    name, seed = _name(row["method"], row["variant"]), row.get("seed")
    return name if seed is None else f"{name}, seed {seed}"


def _name(method: str, variant: str) -> str:
    return method if variant == DEFAULT else f"{method} ({variant})"


def _order(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


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
    return score_rows(run, named, fitting, text)


# --------
# Choosing values of a policy from the search of a tune.


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of the grid with its means over the sets. ``fits`` says whether it keeps to the bounds."""

    name: str
    values: Mapping[str, Any]
    means: Mapping[str, float]
    fits: bool


def points_of(tune: Tune, summary: Sequence[Mapping[str, Any]]) -> list[Point]:
    """The combinations with what the rows of ``summary`` say of each: the mean over sets and seeds."""
    found = []
    for name, values in tune.points().items():
        own = [row for row in summary if row["variant"] == name and not row["type"]]
        over = [row for row in own if not row["cell"]] or own
        sums: dict[str, list[float]] = {}
        for row in over:
            if row["value"] is not None:
                sums.setdefault(row["metric"], []).append(row["value"])
        means = {metric: sum(each) / len(each) for metric, each in sums.items()}
        fits = all(means.get(metric, float("inf")) <= bound for metric, bound in tune.most.items())
        found.append(Point(name, values, means, fits))
    return found


def choose(tune: Tune, points: Sequence[Point]) -> Point:
    """The best point that keeps to the bounds; of equals the one with fewer tokens, then the earlier one.

    Raises InputError when none does, or none has the metric.
    """
    able = [point for point in points if point.fits and tune.metric in point.means]
    if not able:
        bounds = ", ".join(f"{name} <= {bound:g}" for name, bound in tune.most.items()) or "no bound"
        raise InputError(
            f"None of the {len(points)} combinations has {tune.metric} within {bounds}. Raise the bounds under most, "
            "or choose another metric."
        )
    sign = 1.0 if METRICS[tune.metric] == "less" else -1.0
    return min(able, key=lambda point: (sign * point.means[tune.metric], point.means.get("weighted_tokens", 0.0)))
