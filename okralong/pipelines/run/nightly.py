"""The nights of ``okralong nightly``: what its config says, what a night has to ask, what its answers become part of,
and which nights may go. Pure but for the folders; the job that does the work is ``jobs/nightly.py``.

A nightly's folder has ``nights/DATE`` for each night (``night.json``, the copy of its questions, its run, its
differences) and ``current``, a run folder with one row for each question. ``current`` holds answers, journal, ledger
and failures itself, so no answer in it rests on the folder of a night.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import active, read_catalogue
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.schemas import ANSWERS, KNOWN_DOCUMENTS, ORIGINS, RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.journal import NAME, Fragment, read_run_table
from okralong.pipelines.run.config import fingerprint
from okralong.pipelines.run.prepare import Prepared, Scoped
from okralong.pipelines.run.rows import BEGUN, ORIGINS_FOLDER

NIGHTS: Final = "nights"
CURRENT: Final = "current"
NIGHT: Final = "night.json"
RUN: Final = "run"
DIFFERENCES: Final = "differences"
"""Of a night: the table and the page, with their endings."""
DOCUMENTS_FOLDER: Final = "documents"
"""Of ``current``: the documents over which its answers hold, with their hashes."""


Ending = Literal["failed", "unanswerable", "invalid_output"]
_FAILED: Final[tuple[Ending, ...]] = ("failed",)


class Keep(Settings):
    """How long things stay: the newest ``versions`` of the archive; nights that are among the newest ``nights`` or at
    most ``days`` old (null: that rule keeps none; both null: all stay). What ``current`` rests on always stays.
    """

    versions: Annotated[int, Field(ge=1)] = 7
    nights: Annotated[int, Field(ge=1)] | None = 30
    days: Annotated[int, Field(ge=1)] | None = None


class NightlyConfig(Settings):
    """A night, every night.

    Paths are relative to this file. ``folder`` is where nights and answers go; ``archive`` is brought to what stands at
    ``sources``; ``questions`` is the questions file; ``index`` and ``answer`` are the configs of the two jobs, each a
    file or the keys that differ from the shipped one; ``budget_usd`` is a night's hard cap (null: that of ``answer``),
    which is held against the estimate before anything is spent; ``retry`` are ends with which a question is asked again
    every night; ``on_change`` is a command, word by word, that is called with the path of the table of differences when
    an answer changed in a way that matters; ``exit_on_change`` says that the exit code tells of it too; ``export`` are
    files to which ``current`` is written every night; ``keep`` says what stays.
    """

    folder: str
    archive: str
    sources: list[str] = Field(min_length=1)
    questions: str
    index: str | dict[str, Any] = "index.yaml"
    answer: str | dict[str, Any] = "answer.yaml"
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    retry: list[Ending] = Field(default_factory=lambda: list(_FAILED))
    on_change: list[str] = Field(default_factory=list)
    exit_on_change: bool = True
    export: list[str] = Field(default_factory=list)
    keep: Keep = Keep()


# --------
# A night and how far it is.

Phase = Literal["index", "estimate", "answer", "diff", "merge", "tell", "keep", "done"]
PHASES: Final[tuple[Phase, ...]] = ("index", "estimate", "answer", "diff", "merge", "tell", "keep", "done")
"""What a night does, in this order. A phase that is done is not done again, and one that was killed is done as if it
had not begun; up to ``estimate`` nothing is spent, and a night that did not come further begins anew."""


@dataclass(frozen=True)
class Night:
    """A night as its ``night.json`` has it. ``phase`` is what it has to do next. ``due`` are the questions that it asks
    and ``why`` how many for which reason; ``notes`` is whatever else is known of it, for people.
    """

    name: str
    phase: Phase = "index"
    begun_at: str = ""
    questions: str = ""
    archive_version: int | None = None
    due: tuple[str, ...] = ()
    why: Mapping[str, int] = field(default_factory=dict)
    exit_code: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def day(self) -> date:
        """When it began, UTC."""
        return date.fromisoformat(self.name.partition(".")[0])

    @property
    def order(self) -> tuple[date, int]:
        """Sorts nights by when they began."""
        return self.day, int(self.name.partition(".")[2] or 1)

    @property
    def spends(self) -> bool:
        """Whether it may have asked something already."""
        return PHASES.index(self.phase) >= PHASES.index("answer")

    @classmethod
    def read(cls, place: Folder) -> Self | None:
        """The night of a folder; None where none was begun."""
        if not place.exists(NIGHT):
            return None
        known = json.loads(place.read_bytes(NIGHT))
        return cls(**known | {"due": tuple(known["due"])})

    def write(self, place: Folder) -> None:
        """Make it known."""
        place.write_bytes(NIGHT, json.dumps(self.__dict__, indent=1, ensure_ascii=False).encode())

    def after(self, phase: Phase, **news: Any) -> Self:
        """The night when ``phase`` is done."""
        notes = dict(self.notes) | news.pop("notes", {})
        return replace(self, phase=PHASES[PHASES.index(phase) + 1], notes=notes, **news)


def nights(folder: Folder) -> list[Night]:
    """The nights of a nightly's folder in their order."""
    place = folder.at(NIGHTS)
    found = (Night.read(place.at(name)) for name in place.names() if not name.startswith("."))
    return sorted((night for night in found if night is not None), key=lambda night: night.order)


def next_night(known: Sequence[Night], now: datetime) -> Night:
    """A night that begins ``now``: 2026-11-25, and 2026-11-25.2 for a second one of that date (UTC)."""
    today = now.astimezone(UTC).date()
    number = max((night.order[1] for night in known if night.day == today), default=0) + 1
    name = today.isoformat() if number == 1 else f"{today.isoformat()}.{number}"
    return Night(name, begun_at=now.astimezone(UTC).isoformat(timespec="seconds"))


def expired(known: Sequence[Night], keep: Keep, now: datetime) -> list[str]:
    """The names of the nights that may go. One that is not done stays, and so does the newest."""
    if keep.nights is None and keep.days is None:
        return []
    newest = {night.name for night in known[-(keep.nights or 1) :]}
    since = now.astimezone(UTC).date() - timedelta(days=keep.days or 0)
    young = {night.name for night in known if keep.days is not None and night.day >= since}
    return [night.name for night in known if night.phase == "done" and night.name not in newest | young]


# --------
# What a night asks.


@dataclass(frozen=True)
class Current:
    """What ``current`` holds: the answers by query_id, where each comes from, and the hashes of the documents over
    which they hold, by doc_id. Empty before the first night has ended.
    """

    folder: Folder
    begun: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]]
    origins: Mapping[str, Mapping[str, Any]]
    documents: Mapping[str, str]

    @classmethod
    def read(cls, folder: Folder) -> Self:
        """``folder`` as it is, whole or not there."""
        begun = json.loads(folder.read_bytes(BEGUN)) if folder.exists(BEGUN) else {}
        documents = folder.at(DOCUMENTS_FOLDER).read_tables(KNOWN_DOCUMENTS)
        return cls(
            folder,
            begun,
            {row["query_id"]: row for row in read_run_table(folder, "answers").to_pylist()},
            {row["query_id"]: row for row in folder.at(ORIGINS_FOLDER).read_tables(ORIGINS).to_pylist()},
            dict(zip(documents["doc_id"].to_pylist(), documents["sha256"].to_pylist(), strict=True)),
        )


def setup_of(prepared: Prepared) -> str:
    """The hash of all that decides an answer but the archive."""
    return fingerprint(prepared.config, prepared.policy, prepared.strategy, {})


def known_documents(archive: Archive) -> dict[str, str]:
    """The hashes of the documents of a version, by doc_id."""
    entries = active(read_catalogue(archive.folder, archive.manifest["files"]["catalogue"]))
    return {doc_id: entry.sha256 for doc_id, entry in entries.items()}


def due(prepared: Prepared, current: Current, documents: Mapping[str, str], retry: Collection[str]) -> dict[str, str]:
    """Why which questions have to be asked, by query_id: what is new, was changed, ended in a way that ``retry`` names,
    or rests on documents that are others than when it was answered.

    A question over the whole archive rests on every document, one with a scope on those that its scope names.
    ``documents`` are those of the archive now, with their hashes.
    """
    held = current.documents
    others = {doc_id for doc_id in {*held, *documents} if held.get(doc_id) != documents.get(doc_id)}
    setup = setup_of(prepared)
    found: dict[str, str] = {}

    def look(question: Question, doc_ids: tuple[str, ...], scoped: bool) -> None:
        query_id = question.query_id
        before = current.answers.get(query_id)
        origin = current.origins.get(query_id, {})
        if before is None:
            found[query_id] = "new questions"
        elif before["question"] != question.question:
            found[query_id] = "in other words"
        elif (before["answer_type"] or "") != question.answer_type:
            found[query_id] = "with another answer type"
        elif origin.get("setup") != setup:
            found[query_id] = "another config"
        elif scoped and before["status"] in {*retry, "over_budget"}:
            found[query_id] = "no answer before"
        elif tuple(before["doc_ids"] or ()) != doc_ids:
            found[query_id] = "another scope"
        elif scoped and (others if not doc_ids else not others.isdisjoint(doc_ids)):
            found[query_id] = "on changed documents"

    for each in prepared.questions:
        look(each.question, each.doc_ids, True)
    for question, _ in prepared.unscoped:
        look(question, question.doc_ids, False)
    return found


def only(prepared: Prepared, query_ids: Collection[str]) -> Prepared:
    """The same run with only these questions."""
    wanted = set(query_ids)
    questions: list[Scoped] = [each for each in prepared.questions if each.question.query_id in wanted]
    unscoped = [(question, why) for question, why in prepared.unscoped if question.query_id in wanted]
    return replace(prepared, questions=questions, unscoped=unscoped)


# --------
# What the answers of a night become part of.


@dataclass(frozen=True)
class Merged:
    """``current`` as it will be: its ``run.json``, its answers in order of query_id, and where each comes from."""

    begun: Mapping[str, Any]
    answers: Sequence[Mapping[str, Any]]
    origins: Sequence[Mapping[str, Any]]


def merged(prepared: Prepared, current: Current, run: Folder | None, night: Night) -> Merged:
    """The answers of ``current`` to the questions that are still asked, with those of the night's ``run`` (None: it
    asked nothing) in the place of theirs. Columns that are carried along are the questions' as they are now.
    """
    asked = {each.question.query_id: each.question for each in prepared.questions}
    asked |= {question.query_id: question for question, _ in prepared.unscoped}
    fresh = {} if run is None else {row["query_id"]: row for row in read_run_table(run, "answers").to_pylist()}
    rows = [
        {**row, "carried": sorted(asked[query_id].carried.items())}
        for query_id, row in sorted({**current.answers, **fresh}.items())
        if query_id in asked
    ]
    mine = {"night": night.name, "archive_version": night.archive_version, "setup": setup_of(prepared)}
    mine["model"] = prepared.config.llm.model
    origins = [
        {"query_id": row["query_id"], **(mine if row["query_id"] in fresh else current.origins[row["query_id"]])}
        for row in rows
    ]
    origins = [{name: each[name] for name in ORIGINS.names} for each in origins]
    begun = {
        # No run is begun so: okralong answer does not go on in this folder.
        "fingerprint": f"nightly {night.name}",
        "archive": str(prepared.archive.location),
        "archive_fingerprint": prepared.manifest.get("fingerprint"),
        "config": prepared.config.model_dump(mode="json"),
        "night": night.name,
        "columns": prepared.columns,
    }
    return Merged(begun, rows, origins)


def write_current(
    folder: Folder, new: Merged, run: Folder | None, documents: Mapping[str, str], manifest: dict[str, Any]
) -> None:
    """Bring ``current`` to ``new``. Each table is replaced in one step; killed between two, it is done again.

    ``run`` is the night's, whose journal, ledger and failures stand in the place of those of the questions it asked;
    of a question that failed there the journal is left out, so that its replies are asked for again.
    """
    fresh = set() if run is None else set(read_run_table(run, "answers", ["query_id"])["query_id"].to_pylist())
    kept = {row["query_id"] for row in new.answers}
    failed = {row["query_id"] for row in new.answers if row["status"] == "failed"}
    for name, key, left_out in (
        ("journal", "query_id", failed),
        ("ledger", "query_id", set()),
        ("failures", "id", set()),
    ):
        pieces = [_rows_of(folder, name, key, kept - fresh)]
        if run is not None:
            pieces.append(_rows_of(run, name, key, (kept & fresh) - left_out))
        table = pa.concat_tables(pieces)
        if name == "journal":
            table = table.set_column(0, table.schema.field("seq"), pa.array(range(table.num_rows), pa.int64()))
        _replace(folder.at(name), table)
    _replace(folder.at("answers"), pa.Table.from_pylist(list(new.answers), schema=ANSWERS))
    folder.at(ORIGINS_FOLDER).write_table("origins.parquet", pa.Table.from_pylist(list(new.origins), schema=ORIGINS))
    known = pa.table([list(documents), list(documents.values())], schema=KNOWN_DOCUMENTS)
    folder.at(DOCUMENTS_FOLDER).write_table("documents.parquet", known)
    folder.write_bytes(BEGUN, json.dumps(new.begun, indent=2, sort_keys=True).encode())
    folder.write_manifest(manifest)


def _rows_of(run: Folder, name: str, key: str, wanted: Iterable[str]) -> pa.Table:
    table = read_run_table(run, name)
    found = table.filter(pc.is_in(table[key], value_set=pa.array(sorted(wanted), pa.string())))
    return found.replace_schema_metadata(RUN_TABLES[name].metadata)


def _replace(folder: Folder, table: pa.Table) -> None:
    """Write a table's rows as a file that takes in all that are there, which is how a merged one is known."""
    there = {name: match for name in folder.names(".parquet") if (match := NAME.fullmatch(name))}
    last = max((int(match[2] or match[1]) for match in there.values()), default=0)
    folder.write_table(Fragment(1, last + 1).name, table)
    for name in there:
        folder.remove(name)
