"""What an archive knows of its documents beside their texts: date, title, and columns that a filter can ask for.

The table stands beside the documents and a version names it, so that it changes without a document being read or
embedded again. Values are kept as strings; which are numbers and dates is seen when the table is asked for, over all
documents of the version.

A chunk says neither company nor year, so over a whole archive the same row is found in every filing. What a document is
called does say it: its id, title, file name, and what its metadata give. ``DocumentNames`` tells which documents of a
scope a query names ("the operating margin of Amazon in Q2 2024" names one filing of seventy).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.bm25 import analyze_query
from okralong.pipelines.archive.versions import DocumentEntry, write_once
from okralong.pipelines.core.schemas import METADATA
from okralong.pipelines.core.storage import Folder

METADATA_FOLDER: Final = "metadata"

FIXED_COLUMNS: Final = ("doc_id", "title", "source_uri", "source_name", "date")
"""The columns that every table of metadata has, first and in this order."""

MOST_COLUMNS: Final = 500
"""Keys that become columns, the most frequent ones first. Ours: rows may carry names that are values in truth."""


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What is known of a document. ``own`` is what the file or its row says, ``given`` what a file of metadata does.

    ``part`` is the part of the archive that it was read into, ``file_date`` the day on which its file was last changed
    (ISO 8601, "" where it is not known).
    """

    doc_id: str
    part: str
    title: str = ""
    source_uri: str = ""
    source_name: str = ""
    file_date: str = ""
    own: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)


def write_facts(archive: Folder, facts: Iterable[DocumentFacts]) -> str:
    """Write the table of a version unless it is there; its file name."""
    rows = [
        asdict(each) | {"own": sorted(each.own.items()), "given": sorted(each.given.items())}
        for each in sorted(facts, key=lambda each: each.doc_id)
    ]
    return write_once(archive.at(METADATA_FOLDER), rows, rows, METADATA)


def read_facts(archive: Folder, name: str) -> dict[str, DocumentFacts]:
    """What a version knows, by doc_id."""
    rows = archive.at(METADATA_FOLDER).read_table(name).to_pylist()
    return {
        row["doc_id"]: DocumentFacts(**row | {"own": dict(row["own"]), "given": dict(row["given"])}) for row in rows
    }


def facts_of_documents(
    archive: Folder, entries: Iterable[DocumentEntry], file_dates: Mapping[str, str]
) -> list[DocumentFacts]:
    """What the documents say of themselves, from the files that they are in. ``file_dates`` are by source_uri."""
    by_part: dict[str, dict[str, DocumentEntry]] = {}
    for entry in entries:
        by_part.setdefault(entry.part, {})[entry.doc_id] = entry
    found = []
    for part, wanted in by_part.items():
        with archive.at("documents").open(f"{part}.parquet") as file:
            for batch in pq.ParquetFile(file).iter_batches(1024, columns=["doc_id", "title", "metadata"]):
                for row in batch.to_pylist():
                    if (mine := wanted.get(row["doc_id"])) is not None:
                        about = (row["title"] or "", mine.source_uri, mine.source_name)
                        day = file_dates.get(mine.source_uri, "")
                        found.append(DocumentFacts(mine.doc_id, part, *about, day, dict(row["metadata"] or ())))
    return found


def metadata_table(facts: Iterable[DocumentFacts]) -> pa.Table:
    """A row a document, in order of doc_id: the fixed columns, and one for each key that any document has.

    What a file of metadata gives wins over what the document says, also for ``title`` and ``date``, which is else the
    document's own date, and else its file's. A column is of whole numbers, numbers, truth values or dates where all its
    values are, else of strings; missing values are null. Keys that differ in case alone are one column.
    """
    rows = [_values(each) for each in sorted(facts, key=lambda each: each.doc_id)]
    names = _column_names(rows)
    columns: dict[str, list[str | None]] = {name: [None] * len(rows) for name in names.values()}
    for number, row in enumerate(rows):
        for key, value in row.items():
            if (name := names.get(key)) is not None:
                columns[name][number] = value
    text = ("doc_id", "title", "source_uri", "source_name")
    return pa.table({n: pa.array(v, pa.string()) if n in text else typed(v) for n, v in columns.items()})


def _values(facts: DocumentFacts) -> dict[str, str]:
    """By key in lower case and by spelling; the fixed ones win but for title and date."""
    said = {key.strip(): value for key, value in facts.own.items() if key.strip()}
    given = {key.strip(): value for key, value in facts.given.items() if key.strip()}
    folded = {key.lower() for key in given}
    row = {key: value for key, value in said.items() if key.lower() not in folded} | given
    lower = {key.lower(): value for key, value in row.items()}
    row = {key: value for key, value in row.items() if key.lower() not in FIXED_COLUMNS}
    own_date = lower.get("date", "").strip() or facts.file_date
    fixed = {"doc_id": facts.doc_id, "title": _title(facts), "source_uri": facts.source_uri}
    fixed |= {"source_name": facts.source_name} | ({"date": own_date} if own_date else {})
    return fixed | row


def _title(facts: DocumentFacts) -> str:
    return next((value for key, value in facts.given.items() if key.lower() == "title"), facts.title)


def _column_names(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The column of each key that has one: the most frequent spelling of it."""
    counts = Counter(key for row in rows for key in row if key not in FIXED_COLUMNS)
    spellings: dict[str, list[str]] = {}
    for key, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        spellings.setdefault(key.lower(), []).append(key)
    kept = sorted(list(spellings.values())[:MOST_COLUMNS], key=lambda same: same[0].lower())
    fixed = {name: name for name in FIXED_COLUMNS}
    return fixed | {key: same[0] for same in kept for key in same}


_WHOLE: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
"""No leading zeros: "007" is the name of something."""
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,30})?(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.{0,30})?")


def typed(values: Sequence[str | None]) -> pa.Array:
    """A column of ``values``: int64, double, bool or date32 where all that are there are such, else strings."""
    there = [value.strip() for value in values if value is not None and value.strip()]
    if not there:
        return pa.nulls(len(values), pa.string())
    blank_is_none = [value.strip() if value is not None and value.strip() else None for value in values]
    if all(map(_WHOLE.fullmatch, there)):
        return pa.array([None if value is None else int(value) for value in blank_is_none], pa.int64())
    if all(_is_number(value) for value in there):
        return pa.array([None if value is None else float(value) for value in blank_is_none], pa.float64())
    if all(value.lower() in ("true", "false") for value in there):
        return pa.array([None if value is None else value.lower() == "true" for value in blank_is_none], pa.bool_())
    days = [None if value is None else day_of(value) for value in blank_is_none]
    if sum(day is not None for day in days) == len(there):
        return pa.array(days, pa.date32())
    return pa.array(list(values), pa.string())


def _is_number(value: str) -> bool:
    return bool(_NUMBER.fullmatch(value)) and any(char.isdigit() for char in value.lower().partition("e")[0])


def day_of(value: str) -> date | None:
    """The day of an ISO 8601 date or time, or None for what is neither."""
    if not _DAY.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value).date()
    except ValueError:
        return None


# What documents are called.

LONGEST_VALUE: Final = 80
"""Characters of a metadata value that may be part of a name; ours. Longer ones are descriptions."""

_BETWEEN: Final = re.compile(r"[_\W]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=(?:19|20)\d\d)")
"""Where the words of a name end: "Coca-Cola_Q2_2024", "annualReport2023"."""

_QUARTERS: Final = {"first": "q1", "second": "q2", "third": "q3", "fourth": "q4"}
_QUARTER: Final = re.compile(rf"\b({'|'.join(_QUARTERS)})[\s-]+quarter\b", re.IGNORECASE)


class DocumentNames:
    """The names of an archive's documents, ``names`` by doc_id."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._count = len(names)
        self._holding: dict[str, set[str]] = {}
        for doc_id, name in names.items():
            for term in _terms(name):
                self._holding.setdefault(term, set()).add(doc_id)

    @classmethod
    def of(cls, facts: Iterable[DocumentFacts]) -> DocumentNames:
        """Of what an archive knows of its documents."""
        return cls({each.doc_id: name_of(each) for each in facts})

    def named(self, query: str, doc_ids: Sequence[str] = ()) -> dict[str, float]:
        """The documents of the scope (none given: all) that share a word of their names with the query, each with a
        share of 0 to 1.

        A word counts by how few documents of the scope have it, ln(documents / those), and 1 where one alone has it; a
        word that all have counts nothing. The sums are divided by the largest where that is more than 1.
        """
        scope = frozenset(doc_ids)
        size = len(scope) or self._count
        if size < 2:
            return {}
        found: dict[str, float] = {}
        for term in _terms(query):
            holding = self._holding.get(term, set())
            here = holding & scope if scope else holding
            if here and len(here) < size:
                for doc_id in here:
                    found[doc_id] = found.get(doc_id, 0.0) + math.log(size / len(here)) / math.log(size)
        most = max(found.values(), default=0.0)
        return {doc_id: share / max(1.0, most) for doc_id, share in found.items()}


def name_of(facts: DocumentFacts) -> str:
    """All that a document is called, in one line."""
    values = [value for known in (facts.given, facts.own) for value in known.values() if len(value) <= LONGEST_VALUE]
    return " ".join(filter(None, dict.fromkeys([facts.title, facts.doc_id, facts.source_name, *values])))


def _terms(text: str) -> set[str]:
    text = _QUARTER.sub(lambda match: _QUARTERS[match[1].lower()], text)
    return set(analyze_query(_BETWEEN.sub(" ", text)))
