"""Rows of a run's tables: answers rows, artifacts taken from the archive, and purging a document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.archive.artifacts import Expense
from okralong.pipelines.core.codec import encode
from okralong.pipelines.core.schemas import RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Answer, InputError, Question, TypedValue
from okralong.pipelines.llm.bill import ARTIFACT
from okralong.pipelines.llm.journal import absorb_log, read_run_table
from okralong.pipelines.llm.records import models_named
from okralong.pipelines.run.corrections import purge_corrections


def answer_row(
    question: Question, doc_ids: tuple[str, ...], answer: Answer, strategy: str, seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Return the answers row of a question; the ledger fills in calls, tokens, cost and a missing ``replied_by``."""
    return {
        "query_id": question.query_id,
        "question": question.question,
        "doc_ids": list(doc_ids),
        "status": answer.status,
        "answer": answer.answer,
        "cited": bool(answer.citations),
        "citations": [_span(each) for each in answer.citations],
        "analysis": encode(answer.analysis) if answer.analysis else None,
        "plan": encode(answer.plan) if answer.plan else None,
        "context": [_span(each) for each in answer.context],
        "context_tokens": sum(passage.n_tokens for passage in answer.context),
        "strategy": strategy,
        "seconds": sorted(seconds.items()),
        "error": answer.error,
        "carried": sorted(question.carried.items()),
        "confidence": answer.confidence,
        "answer_type": question.answer_type,
        **(asdict(answer.value) if answer.value else dict.fromkeys(VALUE_COLUMNS)),
        "escalated": answer.escalated or None,
        "first_confidence": answer.first_confidence,
        "asked_id": question.asked_id or None,
        "way": answer.way or None,
        "signals": sorted(answer.signals.items()) or None,
        "language": question.language or None,
        **({"replied_by": models_named(answer.replied_by)} if any(answer.replied_by) else {}),
    }


def table(run: Folder, name: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a run's table as it is now (see ``read_run_table``)."""
    rows: list[dict[str, Any]] = read_run_table(run, name, columns).to_pylist()
    return rows


ORDER: Final = "order.json"
"""The query_ids of a run in the order of its questions file, then those of earlier starts."""


def write_order(run: Folder, query_ids: Iterable[str], *, keep: bool = True) -> None:
    """Record the order of a run's questions, followed by those of earlier starts unless ``keep`` is false."""
    before = _order(run)
    now = list(dict.fromkeys((*query_ids, *(before if keep else ()))))
    if now != before:
        run.write_bytes(ORDER, json.dumps(now).encode())


def in_question_order(run: Folder, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows as the run's questions were given; in runs of earlier releases, by query_id."""
    places = {query_id: place for place, query_id in enumerate(_order(run))}
    return sorted(rows, key=lambda row: (places.get(row["query_id"], len(places)), str(row["query_id"])))


def _order(run: Folder) -> list[str]:
    return [str(each) for each in run.read_json(ORDER)] if run.exists(ORDER) else []


def _span(each: Any) -> dict[str, Any]:
    return {"doc_id": each.doc_id, "start_char": each.start_char, "end_char": each.end_char}


# Artifacts that an archive keeps (``archive/artifacts.py``), as recorded in the journal of a run that used them.

TAKEN: Final = "archive/taken"
"""The step path of looking up an artifact in the archive. Its body has the artifact and its cost, or null."""
KEPT: Final = "archive/kept"
"""The step path of storing an artifact in the archive. Its body has "", or the reason why it was not stored."""


@dataclass(frozen=True, slots=True)
class TakenArtifact:
    """An artifact found in the archive, with its query_id and its cost in the run that made it."""

    query_id: str
    expense: Expense


def artifacts_taken(run: Folder) -> tuple[list[TakenArtifact], list[str]]:
    """Return the artifacts that a run took from its archive, and the reasons why others could not be stored there."""
    steps = read_run_table(run, "journal", ["path"])["path"]
    if not pc.any(pc.is_in(steps, pa.array([TAKEN, KEPT]))).as_py():  # most runs have no artifacts: skip reading bodies
        return [], []
    journal = read_run_table(run, "journal", ["query_id", "path", "body"])
    found: dict[str, TakenArtifact] = {}
    unkept: dict[str, str] = {}
    for row in journal.filter(pc.is_in(journal["path"], pa.array([TAKEN, KEPT]))).to_pylist():
        said = json.loads(row["body"])["found"]
        if row["path"] == KEPT:
            unkept |= {row["query_id"]: said} if said else {}
        elif said is not None:
            found[row["query_id"]] = TakenArtifact(row["query_id"], Expense(**said["expense"]))
    return list(found.values()), list(unkept.values())


# Purging a document from a run's tables: prompts and replies quote documents verbatim.

VALUE_COLUMNS: Final = tuple(field.name for field in fields(TypedValue))
"""The columns of an answers row that hold the typed value."""
BEGUN: Final = "run.json"
"""The first file of a run. It records the config and fingerprint, so that a rerun with different ones is refused."""
ORIGINS_FOLDER: Final = "origins"
"""The folder in a nightly's ``current`` with the origin of each answer."""
DOCUMENTS_FOLDER: Final = "documents"
"""The folder in ``current`` with the ids and hashes of the documents that its answers are based on."""
JUDGE: Final = "judge"
"""The folder in a sweep's cell with the judge's own journal and ledger."""


def purge_run(run: Folder, doc_id: str) -> list[str]:
    """Remove everything that depends on a document from a run; return the affected query_ids, sorted.

    The steps of these questions are removed from the journal, so that they cannot be replayed, and from the judge's
    journal, which quotes answers. Their answers become failures that state the reason. Their messages in ``failures``,
    their corrections and the run's report, which quote documents, are removed as well. Their cost stays in the ledger,
    which has no text.
    Raises InputError for a folder that is not a run, LockedError while the run is being written.
    """
    if not run.exists(BEGUN):
        raise InputError(f"{run.path} is not a run folder (it has no {BEGUN}), so nothing was purged.")
    with run.locked("okralong archive purge"):
        touched = questions_on(run, doc_id)
        why = (
            f"The document {doc_id!r} was purged from this run on {datetime.now(UTC):%Y-%m-%d}, and the answer with it."
        )
        blank = {"answer": "", "cited": False, "citations": [], "context": [], "analysis": "", "plan": ""}
        blank |= dict.fromkeys(VALUE_COLUMNS)
        blank |= {"status": "failed", "error": f"{why} --retry failed asks again."}
        for written in (run, run.at(JUDGE)):  # a killed run may have rows that were not written to Parquet yet
            absorb_log(written)
        _rewrite(run.at("journal"), "query_id", touched, None)
        _rewrite(run.at(JUDGE, "journal"), "query_id", touched, None)
        _rewrite(run.at("answers"), "query_id", touched, lambda row: row | blank)
        _rewrite(run.at("failures"), "id", touched, lambda row: row | {"message": why})
        purge_corrections(run, doc_id, touched)
        if touched:
            _remove_report(run)
    return sorted(touched)


def _remove_report(run: Folder) -> None:
    """Remove the page that ``okralong report`` wrote, with its tables and pictures."""
    run.remove("report.html")
    for beside in (run.at("report", "tables"), run.at("report", "pictures")):
        for name in beside.names():
            beside.remove(name)


def questions_on(run: Folder, doc_id: str) -> set[str]:
    """Return the query_ids that depend on a document: its scope, context or citations, and its artifacts.

    Every step of the journal is searched for the doc_id as a whole word. This may find a question too many but misses
    none.
    """
    word = re.compile(rf"(?<![\w/.-]){re.escape(json.dumps(doc_id)[1:-1])}(?![\w/-])")
    plain = re.compile(rf"(?<![\w/.-]){re.escape(doc_id)}(?![\w/-])")
    touched = set()
    for row in read_run_table(run, "journal", ["query_id", "body"]).to_pylist():
        query_id = row["query_id"]
        if query_id and (_is_about(query_id, doc_id) or word.search(row["body"]) or plain.search(row["body"])):
            touched.add(query_id)
    for row in read_run_table(run, "answers", ["query_id", "doc_ids", "citations", "context"]).to_pylist():
        spans = [*(row["citations"] or ()), *(row["context"] or ())]
        if doc_id in (row["doc_ids"] or ()) or any(span["doc_id"] == doc_id for span in spans):
            touched.add(row["query_id"])
    return touched


def _is_about(query_id: str, doc_id: str) -> bool:
    # An artifact taken from the archive has a single step, whose body may lack the doc_id.
    return query_id.startswith(ARTIFACT) and query_id.removeprefix(ARTIFACT).partition("/")[2] == doc_id


def _rewrite(
    folder: Folder, key: str, touched: set[str], change: Callable[[dict[str, Any]], dict[str, Any]] | None
) -> None:
    """Apply ``change`` to the rows of the questions ``touched``, or drop the rows if it is None."""
    schema = RUN_TABLES[folder.path.rsplit("/", 1)[1]]
    wanted = pa.array(sorted(touched), pa.string())
    for name in folder.names(".parquet"):
        table = folder.read_table(name)
        mine = pc.is_in(table[key], value_set=wanted)
        if not pc.any(mine).as_py():
            continue
        kept = table.filter(pc.invert(mine))
        if change is not None:
            rows = [change(row) for row in table.filter(mine).to_pylist()]
            changed = pa.Table.from_pylist(rows, schema=table.schema)
            kept = pa.concat_tables([kept, changed])
        folder.write_table(name, kept.replace_schema_metadata(schema.metadata))
