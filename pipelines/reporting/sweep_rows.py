"""From a sweep's scores and the run folders of its cells to the rows and details of a report."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.rows import ACCURACY, COST, OPEN, STAGES, Row
from okralong.pipelines.reporting.run import BEGUN, archive_texts, run_details
from okralong.pipelines.run.prepare import read_questions

RUNS: Final = ("cells", "runs")
"""Below a sweep, one or the other: the run folders of its cells, by the cell's name."""
QUESTIONS: Final = "questions.jsonl"
"""In ``sets/SET`` below a sweep, where it is there: the questions of a set with their gold."""


def cell_folders(sweep: Folder, scores: Sequence[Mapping[str, Any]]) -> dict[str, Folder]:
    """The run folders that are there, by cell. A cell's name leads to nowhere but below ``runs``."""
    cells = [cell for cell in dict.fromkeys(str(row["cell"]) for row in scores) if ".." not in cell.split("/")]
    places = ((cell, sweep.at(runs, cell)) for cell in cells for runs in RUNS)
    return {cell: place for cell, place in places if place.exists(BEGUN)}


def set_golds(sweep: Folder, names: Sequence[str]) -> dict[str, dict[str, Question]]:
    """Gold questions by set and query_id, of the sets whose questions lie with the sweep."""
    found = {}
    for name in names:
        folder = sweep.at("sets", "-".join(name.split()))  # the sweep's folder names hold no blanks
        if folder.exists(QUESTIONS):
            place = folder.at(QUESTIONS).path
            location = place if sweep.is_local else f"{sweep.filesystem.type_name}://{place}"
            found[name] = {question.query_id: question for question in read_questions(location)[0]}
    return found


def sweep_rows(
    scores: Sequence[Mapping[str, Any]], labels: Mapping[tuple[str, str], str], folders: Mapping[str, Folder]
) -> list[Row]:
    """A row for each row of scores. The first question of every set comes first under all methods, then the second: so
    that a bound on details leaves whole questions, of all sets alike."""
    said = {cell: _said(folder) for cell, folder in folders.items()}
    rank: dict[tuple[str, str], int] = {}
    count: defaultdict[str, int] = defaultdict(int)
    for row in sorted(scores, key=lambda each: str(each["query_id"])):
        if (row["set"], row["query_id"]) not in rank:
            rank[row["set"], row["query_id"]] = count[row["set"]]
            count[row["set"]] += 1
    order = {label: at for at, label in enumerate(labels.values())}
    rows = [_row(row, labels, said.get(row["cell"], {}).get(row["query_id"], {})) for row in scores]
    return sorted(rows, key=lambda r: (rank[r.dataset, r.query_id], r.dataset, r.query_id, order[r.method], r.cell))


def sweep_details(
    rows: Sequence[Row], folders: Mapping[str, Folder], golds: Mapping[str, Mapping[str, Question]]
) -> tuple[list[str], str]:
    """The details of the rows as JSON ("null" for a row without a run folder), and a sentence on archives that are
    missing, or ""."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        if row.cell in folders:
            wanted[row.cell].append(at)
    found = ["null"] * len(rows)
    trouble = ""
    for cell, places in wanted.items():
        text_of, missing = archive_texts(json.loads(folders[cell].read_bytes(BEGUN)))
        trouble = trouble or missing
        held = {answer["query_id"]: answer for answer in read_run_table(folders[cell], "answers").to_pylist()}
        known = [at for at in places if rows[at].query_id in held]
        answers = [held[rows[at].query_id] for at in known]
        gold = golds.get(rows[places[0]].dataset, {})
        for at, detail in zip(known, run_details(folders[cell], answers, gold, text_of), strict=True):
            found[at] = detail
    return found, trouble


def _row(score: Mapping[str, Any], labels: Mapping[tuple[str, str], str], said: Mapping[str, Any]) -> Row:
    # What the budget did not reach has cost what it has cost, and says nothing else of the method.
    asked = score.get("status") != OPEN
    held = (*ACCURACY, *COST) if asked else [name for name in COST if name.endswith("_usd")]
    known = {name: float(score[name]) for name in held if score.get(name) is not None}
    return Row(
        query_id=str(score["query_id"]),
        question=said.get("question") or "",
        status=score.get("status") or said.get("status") or "",
        answer=said.get("answer") or "",
        type=score.get("type") or "",
        analysed=_word(said.get("analysis"), "type"),
        workflow=_word(said.get("plan"), "workflow"),
        cluster=score.get("cluster") or str(score["query_id"]),
        method=labels[score["method"], score.get("variant") or ""],
        dataset=str(score["set"]),
        cell=str(score["cell"]),
        cited=bool(said.get("cited")),
        measures=known,
        stages={stage: float(score[name]) for name, stage in STAGES.items() if asked and score.get(name) is not None},
    )


def _said(run: Folder) -> dict[str, dict[str, Any]]:
    columns = ["query_id", "question", "status", "answer", "cited", "analysis", "plan"]
    return {row["query_id"]: row for row in read_run_table(run, "answers", columns).to_pylist()}


def _word(body: str | None, key: str) -> str:
    return str(json.loads(body).get(key) or "") if body else ""
