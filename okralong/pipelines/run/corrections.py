"""Corrections of answers by people: an append-only table beside the answers of a run or of a nightly's ``current``.

A correction marks an answer and never overwrites it. It is reopened when the page that the answer rests on changes.
Those that are not open are gold answers, in ``corrections/gold.jsonl``.
"""

from __future__ import annotations

import getpass
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.answering.answer_types import AnswerType, typed_value
from okralong.pipelines.core.schemas import CORRECTIONS, FLAT_CORRECTIONS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Document, Question, QuestionError
from okralong.pipelines.run.questions import question_row
from okralong.pipelines.statements.values import Context

if TYPE_CHECKING:
    from okralong.pipelines.archive.archive import Archive

FOLDER: Final = "corrections"
"""The folder of a run that holds the table and the gold answers."""
GOLD: Final = "gold.jsonl"
CORRECTED, WITHDRAWN, REOPENED, PURGED = "corrected", "withdrawn", "reopened", "purged"
UNANSWERABLE: Final = "unanswerable"
"""The corrected value of a question that the documents do not answer, whatever its type."""
NIGHTLY: Final = "okralong nightly"
"""``by`` of a reopened correction."""


@dataclass(frozen=True, slots=True)
class RestsOn:
    """A document, or a page, sheet or section of it, that an answer rests on. See ``CORRECTIONS``."""

    doc_id: str
    section: str = ""
    document_sha256: str | None = None
    passage_sha256: str | None = None
    begins: str = ""
    n_chars: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table ``CORRECTIONS``."""

    query_id: str
    event: str
    at: datetime
    by: str
    previous: str = ""
    corrected: str = ""
    note: str = ""
    reason: str = ""
    question: str = ""
    answer_type: str = ""
    doc_ids: tuple[str, ...] = ()
    asked_id: str = ""
    night: str = ""
    sources: tuple[RestsOn, ...] = ()


@dataclass(frozen=True, slots=True)
class Correction:
    """The correction that stands for a cell. ``reopened`` says why a person has to look at it again, or is ""."""

    entry: Entry
    reopened: str = ""

    @property
    def state(self) -> str:
        """The state in words."""
        return f"reopened: {self.reopened}" if self.reopened else CORRECTED

    def __str__(self) -> str:
        """Return the correction on one line."""
        return correction_line(self.columns())

    def columns(self) -> dict[str, Any]:
        """Return the columns of ``FLAT_ANSWERS`` about the correction."""
        entry = self.entry
        said = {"corrected": entry.corrected, "note": entry.note or None, "correction": self.state}
        return said | {"corrected_by": entry.by, "corrected_at": entry.at.replace(tzinfo=None)}


def correction_line(row: Mapping[str, Any]) -> str:
    """Return the correction in a row of the flat answers on one line, or ""."""
    if not row.get("correction"):
        return ""
    note = f": {row['note']}" if row["note"] else ""
    again = "" if row["correction"] == CORRECTED else f" ({row['correction']})"
    at = f"{row['corrected_at']:%Y-%m-%d %H:%M} UTC"
    return f"corrected to {row['corrected']} by {row['corrected_by']}, {at}{note}{again}"


NO_CORRECTION: Final = dict.fromkeys(("corrected", "note", "correction", "corrected_by", "corrected_at"))


def read_entries(run: Folder) -> list[Entry]:
    """Return all entries of a run's table, oldest first."""
    rows = run.at(FOLDER).read_tables(CORRECTIONS).to_pylist()
    return [
        Entry(**row | {"doc_ids": tuple(row["doc_ids"]), "sources": tuple(RestsOn(**each) for each in row["sources"])})
        for row in rows
    ]


def append_entries(run: Folder, entries: Sequence[Entry]) -> None:
    """Append entries in a new file, and write the gold answers again. A no-op without entries."""
    if not entries:
        return
    rows = [{name: getattr(entry, name) for name in _NAMES} for entry in entries]
    for row in rows:
        row["sources"] = [asdict(each) for each in row["sources"]]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=CORRECTIONS), out, compression="zstd")
    folder = run.at(FOLDER)
    while True:  # a night may append at the same time
        number = 1 + max((int(name.partition(".")[0]) for name in folder.names(".parquet")), default=0)
        with suppress(FileExistsError):
            folder.create_bytes(f"{number:09d}.parquet", out.getvalue())
            break
    write_gold(run)


_NAMES: Final = [each.name for each in fields(Entry)]


def standing(entries: Iterable[Entry]) -> dict[str, Correction]:
    """Return the corrections that stand, by query_id, oldest first."""
    found: dict[str, Correction] = {}
    for entry in entries:
        held = found.pop(entry.query_id, None)
        if entry.event == CORRECTED:
            found[entry.query_id] = Correction(entry)
        elif entry.event == REOPENED and held is not None:
            found[entry.query_id] = replace(held, reopened=entry.reason)
    return found


def corrections_of(run: Folder) -> dict[str, Correction]:
    """Return the corrections that stand in a run, by query_id."""
    return standing(read_entries(run))


def corrections_table(run: Folder) -> pa.Table:
    """Return all entries as ``FLAT_CORRECTIONS``."""
    rows = []
    for entry in read_entries(run):
        row = {name: getattr(entry, name) for name in _NAMES if name in FLAT_CORRECTIONS.names}
        places = (", ".join(filter(None, (each.doc_id, each.section))) for each in entry.sources)
        rows.append(row | {"at": entry.at.replace(tzinfo=None), "rests_on": "; ".join(places)})
    return pa.Table.from_pylist(rows, schema=FLAT_CORRECTIONS)


# --------
# Recording.


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cell to correct. An empty ``corrected`` withdraws the correction that stands."""

    query_id: str
    corrected: str
    note: str = ""


def entries_of(
    wanted: Iterable[Wanted],
    answers: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Correction],
    archive: Archive | None,
    by: str,
    night: str = "",
) -> list[Entry]:
    """Return the entries that record what a person wants.

    Args:
        wanted: The cells; each must have an answer, or a correction to withdraw.
        answers: Rows of the table ``answers`` by query_id.
        known: The corrections that stand.
        archive: The run's archive; without it the entries have no hashes.
        by: Who corrects.
        night: The night of the answers, by which a reader finds them.
    """
    now = datetime.now(UTC)
    found = []
    order = {query_id: sorted(row["doc_ids"] or ()) for query_id, row in answers.items()}  # reads documents once
    for one in sorted(wanted, key=lambda each: order.get(each.query_id, [])):
        before = known.get(one.query_id)
        if one.query_id not in answers and before is not None:  # its question is no longer asked
            entry = replace(before.entry, event=WITHDRAWN, at=now, by=by, night=night)
            found.append(replace(entry, previous=entry.corrected, corrected="", note=""))
            continue
        row = answers[one.query_id]
        found.append(
            Entry(
                query_id=one.query_id,
                event=CORRECTED if one.corrected else WITHDRAWN,
                at=now,
                by=by,
                previous=before.entry.corrected if before else answer_of(row),
                corrected=one.corrected,
                note=one.note,
                question=row["question"],
                answer_type=row["answer_type"] or "",
                doc_ids=tuple(row["doc_ids"] or ()),
                asked_id=row["asked_id"] or "",
                night=night,
                sources=rests_on(archive, row),
            )
        )
    return found


def answer_of(row: Mapping[str, Any]) -> str:
    """Return the answer of a row, or its status if it has none."""
    return str(row["answer"] or "") if row["status"] == "answered" else str(row["status"])


def value_read(answer_type: str, words: str) -> str:
    """Return how a corrected value is read by its type; "" for text, lists and objects.

    Raises:
        ValueError: The words do not fit the type; the message says why.
    """
    wanted = AnswerType.of(answer_type)
    if words.casefold() == UNANSWERABLE:
        return ""
    parts = [part.strip() for part in words.replace("\n", ";").split(";") if part.strip()] if wanted.many else [words]
    value = typed_value(wanted, [(part, "", Context()) for part in parts])
    if wanted.many or wanted.kind in ("text", "schema"):
        return ""
    if value.number is None:
        return value.value
    figure = f"{value.number:,.10f}".rstrip("0").rstrip(".")
    return " ".join(filter(None, (figure, value.currency, value.unit)))


def whoever() -> str:
    """Return the name of the user, or its number if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# --------
# The pages that a correction rests on.

AROUND_CHARS: Final = 1_500  # project default
"""Characters before and after a citation that count as its page in documents without sections."""
BEGINS_CHARS: Final = 40  # project default
"""Characters by which these are found in a later version of the document."""


def rests_on(archive: Archive | None, row: Mapping[str, Any]) -> tuple[RestsOn, ...]:
    """Return the cited pages of an answer with their hashes; without citations, the documents of its scope."""
    found: dict[RestsOn, None] = {}
    spans = [(each["doc_id"], int(each["start_char"]), int(each["end_char"])) for each in row["citations"] or ()]
    for doc_id, start, end in spans or [(doc_id, -1, -1) for doc_id in row["doc_ids"] or ()]:
        document = _document(archive, doc_id)
        if document is None:
            found[RestsOn(doc_id)] = None
        elif start < 0:
            found[RestsOn(doc_id, "", document.sha256)] = None
        elif not document.sections:
            words = document.text[max(start - AROUND_CHARS, 0) : end + AROUND_CHARS]
            around = (_digest(words), words[:BEGINS_CHARS], len(words))
            found[RestsOn(doc_id, "", document.sha256, *around)] = None
        else:
            section, text = next(
                ((place, text) for place, first, last, text in _sections(document) if first <= start < last),
                ("", document.text),
            )
            found[RestsOn(doc_id, section, document.sha256, _digest(text))] = None
    return tuple(found)


def _sections(document: Document) -> list[tuple[str, int, int, str]]:
    """Return name, beginning, end and text of each section; the text before the first has no name."""
    starts = [0, *(each.start_char for each in document.sections)]
    ends = [*starts[1:], len(document.text) + 1]
    names = ["", *map(str, document.sections)]
    return [
        (name, first, last, document.text[first:last])
        for name, first, last in zip(names, starts, ends, strict=True)
        if first < last
    ]


def _document(archive: Archive | None, doc_id: str) -> Document | None:
    try:
        return archive.document(doc_id) if archive is not None else None
    except QuestionError:
        return None


def _digest(text: str) -> str:
    """Return the hash of a text, ignoring blanks."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()


def reopened_by(
    known: Mapping[str, Correction],
    archive: Archive,
    documents: Mapping[str, str],
    questions: Mapping[str, tuple[str, str]],
    night: str,
) -> list[Entry]:
    """Return an entry for each correction whose page or question has changed.

    Args:
        known: The corrections that stand.
        archive: The archive now.
        documents: The hash of each of its documents.
        questions: Words and answer type of the questions that are still asked, by query_id.
        night: The night's name.
    """
    found = []
    for correction in known.values():
        entry = correction.entry
        if correction.reopened:
            continue
        asked = questions.get(entry.query_id, (entry.question, entry.answer_type))
        why = "the question changed" if asked != (entry.question, entry.answer_type) else ""
        if reason := why or next(filter(None, (_changed(each, archive, documents) for each in entry.sources)), ""):
            at = datetime.now(UTC)
            found.append(replace(entry, event=REOPENED, at=at, by=NIGHTLY, reason=reason, night=night))
    return found


def _changed(source: RestsOn, archive: Archive, documents: Mapping[str, str]) -> str:
    """Return what changed about a source, or ""."""
    if source.doc_id not in documents:
        return "the document is gone"
    if documents[source.doc_id] == source.document_sha256 or source.document_sha256 is None:
        return ""
    if source.passage_sha256 is None:
        return "the document changed"
    document = _document(archive, source.doc_id)
    if document is None:
        return "the document is gone"
    if not source.n_chars:
        held = {_digest(text) for *_, text in _sections(document)}
        return "" if source.passage_sha256 in held else "the page changed"
    places = (match.start() for match in re.finditer(f"(?={re.escape(source.begins)})", document.text))
    passages = (document.text[at : at + source.n_chars] for at in places)
    return "" if source.passage_sha256 in map(_digest, passages) else "the passage changed"


# --------
# Gold answers, and purging.


def gold_rows(known: Mapping[str, Correction]) -> list[dict[str, Any]]:
    """Return the corrections that are not open as rows of a questions file with gold answers."""
    return [
        question_row(
            Question(
                entry.query_id,
                entry.question,
                entry.doc_ids,
                (UNANSWERABLE if entry.corrected.casefold() == UNANSWERABLE else entry.corrected,),
                answer_type=entry.answer_type,
            )
        )
        for correction in known.values()
        for entry in (correction.entry,)
        if not correction.reopened
    ]


def gold_bytes(known: Mapping[str, Correction]) -> bytes:
    """Return ``gold_rows`` as JSON lines."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in gold_rows(known)).encode("utf-8", "replace")


def write_gold(run: Folder) -> None:
    """Write the gold answers of a run's corrections beside their table."""
    run.at(FOLDER).write_bytes(GOLD, gold_bytes(corrections_of(run)))


def purge_corrections(run: Folder, doc_id: str, touched: set[str]) -> None:
    """Remove what the corrections say of a document: their entries keep id, person and time, as "purged".

    ``touched`` are the query_ids of the run that depend on the document.
    """
    folder, any_purged = run.at(FOLDER), False
    for name in folder.names(".parquet"):
        rows = folder.read_table(name).to_pylist()
        mine = [
            row
            for row in rows
            if row["query_id"] in touched
            or doc_id in (row["doc_ids"] or ())
            or any(each["doc_id"] == doc_id for each in row["sources"] or ())
        ]
        for row in mine:
            row |= {"event": PURGED, "previous": "", "corrected": "", "note": "", "question": "", "sources": []}
        if mine:
            any_purged = True
            folder.write_table(name, pa.Table.from_pylist(rows, schema=CORRECTIONS))
    if any_purged:
        write_gold(run)
