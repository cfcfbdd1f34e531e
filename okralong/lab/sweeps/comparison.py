"""Compare two runs over the same questions, and detect whether the second is worse by more than a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from okralong.lab.sweeps.config import CellName
from okralong.lab.sweeps.gold_questions import GoldQuestion, read_gold_questions
from okralong.lab.sweeps.material import CELL_FILE
from okralong.lab.sweeps.metrics import METRICS
from okralong.lab.sweeps.scores import score_rows
from okralong.lab.sweeps.statistics import System, cells_of, paired_rows, summary_rows
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.run.rows import BEGUN

FIRST: Final[System] = ("A", "default")
SECOND: Final[System] = ("B", "default")


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric: the means of both runs, second minus first with interval and p-value, and the number of questions."""

    metric: str
    first: float | None
    second: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int

    def worse_by(self) -> float:
        """Return the amount by which the second run is worse; negative if it is better, 0 if it is unknown."""
        if self.difference is None:
            return 0.0
        return -self.difference if METRICS[self.metric] == "more" else self.difference


def compare_runs(first: str, second: str, questions: str | None = None) -> list[Compared]:
    """Compare every metric that both runs have. ``questions`` is the gold file; cells of a sweep need none.

    Raises InputError if there are no gold answers, a folder is not a run, or the two runs have different questions.
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
    """Return the comparison of ``metric`` if the second run's mean is worse by more than ``bound``, else None.

    Raises ConfigError for an unknown metric, or one that the two runs do not have.
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
    """Return the file of gold questions that cells of a sweep name.

    Raises InputError for runs that name none, or that name different files.
    """
    found = set()
    for run in runs:
        folder = Folder.of(run)
        if not folder.exists(CELL_FILE):
            raise InputError(
                f"{run} does not say which questions file has its gold answers, as cells of a sweep do. Give it with "
                "--questions."
            )
        questions = folder.read_json(CELL_FILE)["questions"]
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
            f"{place} holds no {BEGUN}: it is not a run folder. Give one that okralong answer --run has written."
        )
    begun: Mapping[str, Any] = run.read_json(BEGUN)
    archive = Archive.open(begun["archive"])
    text = cache(lambda doc_id: archive.document(doc_id).text)
    named = CellName(system[0], system[0], "questions", system[1], 0)
    known = set(archive.doc_ids())
    # Evidence in a document that is not in the archive cannot be located, so it is dropped.
    fitting = [g if {s.doc_id for s in g.evidence} <= known else replace(g, evidence=()) for g in golds]
    return score_rows(run, named, fitting, text)
