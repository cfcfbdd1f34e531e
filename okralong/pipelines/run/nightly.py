"""The logic of ``okralong nightly``: config, questions that are due, merging of answers, expiry of nights.

The job itself is ``jobs/night.py``. Its folder has a subfolder ``nights/DATE`` for each night (``night.json``, a copy
of its questions, its run and its differences) and ``current``, a run folder with one row per question. ``current`` has
its own answers, journal, ledger and failures, so it does not need the nights' folders.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import active, read_catalogue
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.schemas import ANSWERS, KNOWN_DOCUMENTS, ORIGINS, RUN_TABLES
from okralong.pipelines.core.spans import TelemetryConfig
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.journal import NAME, Fragment, read_run_table
from okralong.pipelines.run.canaries import Canaries
from okralong.pipelines.run.config import fingerprint
from okralong.pipelines.run.notify import Rule, check_targets
from okralong.pipelines.run.prepare import Prepared, Scoped
from okralong.pipelines.run.rows import BEGUN, DOCUMENTS_FOLDER, ORIGINS_FOLDER

NIGHTS: Final = "nights"
CURRENT: Final = "current"
NIGHT: Final = "night.json"
RUN: Final = "run"
DIFFERENCES: Final = "differences"
"""The file name, without suffix, of a night's differences, which are written as a table and as a page."""
CANARIES: Final = "canaries"
"""The folder of a night with a copy of its canaries and their run; ``second`` is that at the second endpoint."""
NOTIFICATIONS: Final = "notifications.json"
"""The file with the cells that match a night's rules of ``notify``."""

Ending = Literal["failed", "unanswerable", "invalid_output"]
_FAILED: Final[tuple[Ending, ...]] = ("failed",)


Rehash = Literal["never", "weekly", "always"]
REHASH_DAYS: Final = 7


class Keep(Settings):
    """How long archive versions and nights are kept.

    - ``versions``: how many of the archive's newest versions are kept.
    - ``nights``, ``days``: a night is kept if it is among the newest ``nights`` or at most ``days`` old. null turns a
      rule off; if both are null, all nights are kept.

    Whatever ``current`` depends on is always kept.
    """

    versions: Annotated[int, Field(ge=1)] = 7
    nights: Annotated[int, Field(ge=1)] | None = 30
    days: Annotated[int, Field(ge=1)] | None = None


class NightlyConfig(Settings):
    """The config of ``okralong nightly``. Paths are relative to the config file.

    - ``folder``: the folder for nights and answers.
    - ``archive``, ``sources``: the archive is updated from the sources every night.
    - ``rehash``: when every file is opened and hashed, also those of unchanged size and modification time: "never",
      "weekly" or "always".
    - ``questions``: the questions file.
    - ``index``, ``answer``: the configs of the two jobs, each a file, or the keys that differ from the shipped one.
    - ``budget_usd``: a night's hard cap (null: that of ``answer``). The estimate is compared with it before anything is
      spent.
    - ``retry``: statuses of questions to ask again every night.
    - ``on_change``: a command as a list of words, called when an answer changed materially; the path of the table of
      differences is appended.
    - ``canaries``: questions with known answers that are asked first, to find out whether the endpoint can be trusted.
    - ``notify``: rules that say which changes are sent to whom, by e-mail, chat or webhook.
    - ``exit_on_change``: whether the exit code also reports such changes.
    - ``export``: files to which ``current`` is exported every night.
    - ``keep``: how long versions and nights are kept.
    - ``telemetry``: where traces and metrics go, also those of ``index`` and ``answer`` (null: as each of these says).
    """

    folder: str
    archive: str
    sources: list[str] = Field(min_length=1)
    rehash: Rehash = "weekly"
    questions: str
    index: str | dict[str, Any] = "index.yaml"
    answer: str | dict[str, Any] = "answer.yaml"
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    retry: list[Ending] = Field(default_factory=lambda: list(_FAILED))
    on_change: list[str] = Field(default_factory=list)
    canaries: Canaries | None = None
    notify: list[Rule] = Field(default_factory=list)
    exit_on_change: bool = True
    export: list[str] = Field(default_factory=list)
    keep: Keep = Keep()
    telemetry: TelemetryConfig | None = None

    _no_secrets = field_validator("notify", mode="before")(check_targets)


# --------
# A night and its progress.

Phase = Literal["index", "estimate", "canaries", "answer", "diff", "merge", "tell", "keep", "done"]
PHASES: Final[tuple[Phase, ...]] = (
    *("index", "estimate", "canaries", "answer"),
    *("diff", "merge", "tell", "keep", "done"),
)
"""The phases of a night, in order. A finished phase is never repeated; a killed one starts over. Nothing is spent
before "canaries", so a night that was killed before that phase starts over as a whole."""


@dataclass(frozen=True)
class Night:
    """A night, as stored in its ``night.json``.

    ``phase`` is the next phase to execute. ``due`` has the query_ids of the questions to ask, ``why`` their number by
    reason; ``notes`` has further information for people.
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
        """The date on which the night began, UTC."""
        return date.fromisoformat(self.name.partition(".")[0])

    @property
    def order(self) -> tuple[date, int]:
        """The key that sorts nights by when they began."""
        return self.day, int(self.name.partition(".")[2] or 1)

    @property
    def spends(self) -> bool:
        """True if the night may have spent money already."""
        return PHASES.index(self.phase) >= PHASES.index("canaries")

    @classmethod
    def read(cls, place: Folder) -> Self | None:
        """Read the night in ``place``; None if it has none."""
        if not place.exists(NIGHT):
            return None
        known = place.read_json(NIGHT)
        return cls(**known | {"due": tuple(known["due"])})

    def write(self, place: Folder) -> None:
        """Write ``night.json``."""
        place.write_bytes(NIGHT, json.dumps(self.__dict__, indent=1, ensure_ascii=False).encode())

    def after(self, phase: Phase, **news: Any) -> Self:
        """Return the night with ``phase`` finished and the fields in ``news`` changed."""
        notes = dict(self.notes) | news.pop("notes", {})
        return replace(self, phase=PHASES[PHASES.index(phase) + 1], notes=notes, **news)


def nights(folder: Folder) -> list[Night]:
    """Return the nights in a nightly's folder, oldest first."""
    place = folder.at(NIGHTS)
    found = (Night.read(place.at(name)) for name in place.names() if not name.startswith("."))
    return sorted((night for night in found if night is not None), key=lambda night: night.order)


def next_night(known: Sequence[Night], now: datetime) -> Night:
    """Return a night that begins ``now``, named after the UTC date: 2026-11-25, or 2026-11-25.2 for the second."""
    today = now.astimezone(UTC).date()
    number = max((night.order[1] for night in known if night.day == today), default=0) + 1
    name = today.isoformat() if number == 1 else f"{today.isoformat()}.{number}"
    return Night(name, begun_at=now.astimezone(UTC).isoformat(timespec="seconds"))


def rehash_due(rehash: Rehash, last: str, day: date) -> bool:
    """Return whether a night of ``day`` hashes every file; ``last`` is the day when a night last did, or ""."""
    if rehash == "weekly" and last:  # a clock that was wrong may have named a later day
        return not 0 <= (day - date.fromisoformat(last)).days < REHASH_DAYS
    return rehash != "never"


def expired(known: Sequence[Night], keep: Keep, now: datetime) -> list[str]:
    """Return the names of the nights to delete, never the newest one or an unfinished one."""
    if keep.nights is None and keep.days is None:
        return []
    newest = {night.name for night in known[-(keep.nights or 1) :]}
    since = now.astimezone(UTC).date() - timedelta(days=keep.days or 0)
    young = {night.name for night in known if keep.days is not None and night.day >= since}
    return [night.name for night in known if night.phase == "done" and night.name not in newest | young]


# --------
# The questions of a night.


@dataclass(frozen=True)
class Current:
    """The content of ``current``, empty before the first night has ended.

    ``answers`` and ``origins`` map query_ids to rows; ``documents`` maps the doc_ids that the answers are based on to
    hashes.
    """

    folder: Folder
    begun: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]]
    origins: Mapping[str, Mapping[str, Any]]
    documents: Mapping[str, str]

    @classmethod
    def read(cls, folder: Folder) -> Self:
        """Read ``folder``, which may not exist."""
        begun = folder.read_json(BEGUN) if folder.exists(BEGUN) else {}
        documents = folder.at(DOCUMENTS_FOLDER).read_tables(KNOWN_DOCUMENTS)
        return cls(
            folder,
            begun,
            {row["query_id"]: row for row in read_run_table(folder, "answers").to_pylist()},
            {row["query_id"]: row for row in folder.at(ORIGINS_FOLDER).read_tables(ORIGINS).to_pylist()},
            dict(zip(documents["doc_id"].to_pylist(), documents["sha256"].to_pylist(), strict=True)),
        )


def setup_of(prepared: Prepared) -> str:
    """Return a hash of everything that determines answers, except the archive."""
    return fingerprint(prepared.config, prepared.policy, prepared.strategy, {})


def known_documents(archive: Archive) -> dict[str, str]:
    """Return the hash of each document of an archive version, by doc_id."""
    entries = active(read_catalogue(archive.folder, archive.manifest["files"]["catalogue"]))
    return {doc_id: entry.sha256 for doc_id, entry in entries.items()}


def due(prepared: Prepared, current: Current, documents: Mapping[str, str], retry: Collection[str]) -> dict[str, str]:
    """Return the query_ids of the questions to ask, each with its reason.

    A question is due if it or its config is new or changed, if its answer has a status in ``retry``, or if documents in
    its scope have changed since. ``documents`` has the hashes of the archive's current documents.
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
    """Return the run restricted to some of its questions."""
    wanted = set(query_ids)
    questions: list[Scoped] = [each for each in prepared.questions if each.question.query_id in wanted]
    unscoped = [(question, why) for question, why in prepared.unscoped if question.query_id in wanted]
    return replace(prepared, questions=questions, unscoped=unscoped)


# --------
# Merging the answers of a night.


@dataclass(frozen=True)
class Merged:
    """The new content of ``current``: its ``run.json``, its answers by query_id, their origins, and their order."""

    begun: Mapping[str, Any]
    answers: Sequence[Mapping[str, Any]]
    origins: Sequence[Mapping[str, Any]]
    order: Sequence[str] = ()

    def is_in(self, current: Current) -> bool:
        """Return whether ``current`` has the same archive, columns, checks and answers."""
        same = all(current.begun.get(name) == self.begun[name] for name in ("archive", "columns", "checks"))
        return same and [current.answers[query_id] for query_id in sorted(current.answers)] == list(self.answers)


def merged(prepared: Prepared, current: Current, run: Folder | None, night: Night) -> Merged:
    """Merge the answers of a night's ``run`` (None if no question was due) into those of ``current``.

    Answers to questions that are no longer in the questions file are dropped. Carried columns are taken from the
    questions file.
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
        # This matches no run's fingerprint, so that okralong answer refuses to resume in this folder.
        "fingerprint": f"nightly {night.name}",
        "run_id": current.begun.get("run_id") or uuid.uuid4().hex,
        "archive": str(prepared.archive.location),
        "archive_fingerprint": prepared.manifest.get("fingerprint"),
        "config": prepared.config.model_dump(mode="json"),
        "night": night.name,
        "columns": prepared.columns,
        "checks": list(prepared.checks or ()),
    }
    return Merged(begun, rows, origins, prepared.order)


def write_current(
    folder: Folder, new: Merged, run: Folder | None, documents: Mapping[str, str], manifest: dict[str, Any]
) -> None:
    """Write ``new`` to ``current``.

    Each table is replaced atomically; if the process is killed in between, the next call replaces all of them again.
    For the questions that the night's ``run`` asked, its journal, ledger and failures replace the old ones. The journal
    of a question that failed there is dropped, so that its calls are repeated.
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
    """Replace a table's files by a single one, named like a merged fragment of them all."""
    there = {name: match for name in folder.names(".parquet") if (match := NAME.fullmatch(name))}
    last = max((int(match[2] or match[1]) for match in there.values()), default=0)
    folder.write_table(Fragment(1, last + 1).name, table)
    for name in there:
        folder.remove(name)
