"""Metadata of an archive's documents: date, title, and columns that filters can use.

Each version names its metadata table, so metadata can change without reading or embedding documents again. Values are
stored as strings. The type of a column is inferred from the values of all documents when the table is requested.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa

from okralong.pipelines.archive.cover import read_cover
from okralong.pipelines.archive.terms import terms_language
from okralong.pipelines.archive.versions import DocumentEntry, write_once
from okralong.pipelines.core.languages import ENGLISH, detect, language_code
from okralong.pipelines.core.schemas import METADATA, completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Fact

METADATA_FOLDER: Final = "metadata"

_TEXTS_AT_A_TIME: Final = 16
"""Documents whose texts are in memory together. project default"""

LANGUAGE: Final = "language"
"""The key and column with a document's language."""

FIXED_COLUMNS: Final = ("doc_id", "title", "source_uri", "source_name", "date")
"""The first columns of every metadata table."""

MOST_COLUMNS: Final = 500
"""Most keys that become columns, the most frequent ones. Some sources use values as keys, so there may be many. project
default"""


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """The metadata of a document: ``own`` is from its file or row, ``given`` from a metadata file.

    ``cover`` is what its cover states (see ``archive.cover``), None if an earlier release indexed it. ``part`` is the
    part of the archive that has the document. ``file_date`` is the day of its file's last change, in ISO 8601, or "" if
    unknown. ``language`` is the language that was detected, None if an earlier release indexed it.
    """

    doc_id: str
    part: str
    title: str = ""
    source_uri: str = ""
    source_name: str = ""
    file_date: str = ""
    own: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    cover: Mapping[str, str] | None = None
    language: str | None = None

    @property
    def terms_language(self) -> str:
        """The language whose terms the index has of the document: that of its metadata, or the detected one.

        Earlier releases indexed all documents with English terms.
        """
        if self.language is None:
            return ENGLISH
        told = (language_code(value) for known in (self.given, self.own) if (value := _language_in(known)))
        return terms_language(next(filter(None, told), self.language))


def _language_in(known: Mapping[str, str]) -> str:
    return next((value for key, value in known.items() if key.strip().lower() == LANGUAGE), "")


def write_facts(archive: Folder, facts: Iterable[DocumentFacts]) -> str:
    """Write a version's table unless it exists; return its file name."""
    rows = [
        asdict(each)
        | {name: sorted(held.items()) for name, held in (("own", each.own), ("given", each.given))}
        | {"cover": None if each.cover is None else sorted(each.cover.items())}
        for each in sorted(facts, key=lambda each: each.doc_id)
    ]
    return write_once(archive.at(METADATA_FOLDER), rows, rows, METADATA)


def read_facts(archive: Folder, name: str) -> dict[str, DocumentFacts]:
    """Return a version's metadata by doc_id."""
    rows = completed(archive.at(METADATA_FOLDER).read_table(name), METADATA).to_pylist()
    maps = ("own", "given", "cover")
    return {
        row["doc_id"]: DocumentFacts(**row | {key: None if row[key] is None else dict(row[key]) for key in maps})
        for row in rows
    }


def is_complete(archive: Folder, name: str | None) -> bool:
    """Return whether a version's table has all covers and languages.

    Earlier releases wrote none, or no table (``name`` None).
    """
    if name is None:
        return False
    table = archive.at(METADATA_FOLDER).read_table(name)
    return all(column in table.column_names and table.column(column).null_count == 0 for column in ("cover", LANGUAGE))


def facts_of_documents(
    archive: Folder, entries: Iterable[DocumentEntry], file_dates: Mapping[str, str], *, covers: bool = True
) -> list[DocumentFacts]:
    """Return the documents' own metadata from the files that hold them; ``file_dates`` maps a source_uri to a day.

    Files of earlier releases have no covers or languages. With ``covers`` these are read from the documents' texts,
    which takes about as long as reading the files.
    """
    by_part: dict[str, dict[str, DocumentEntry]] = {}
    for entry in entries:
        by_part.setdefault(entry.part, {})[entry.doc_id] = entry
    found = []
    for part, wanted in by_part.items():
        with archive.at("documents").parquet(f"{part}.parquet") as parquet:
            held = set(parquet.schema_arrow.names)
            texts = {"text", "facts"} & held if covers and not {"cover", LANGUAGE} <= held else set()
            names = ("doc_id", "title", "metadata", "cover", LANGUAGE, *sorted(texts))
            columns = [name for name in names if name in held]
            for batch in parquet.iter_batches(_TEXTS_AT_A_TIME if texts else 1024, columns=columns):
                for row in batch.to_pylist():
                    if (mine := wanted.get(row["doc_id"])) is not None:
                        about = (row["title"] or "", mine.source_uri, mine.source_name)
                        day = file_dates.get(mine.source_uri, "")
                        own = dict(row["metadata"] or ())
                        cover, language = _cover(row), _language(row)
                        found.append(DocumentFacts(mine.doc_id, part, *about, day, own, cover=cover, language=language))
    return found


def _language(row: Mapping[str, Any]) -> str | None:
    """Return the language in a row of the table ``documents``, detected if the row has none but a text."""
    if row.get(LANGUAGE) is not None:
        return str(row[LANGUAGE])
    return None if row.get("text") is None else detect(row["text"])


def _cover(row: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the cover in a row of the table ``documents``, read from its text if the row has no cover but a text."""
    if row.get("cover") is not None:
        return dict(row["cover"])
    if row.get("text") is None:
        return None
    facts = (Fact(**fact | {"dimensions": tuple(fact["dimensions"])}) for fact in row.get("facts") or ())
    return read_cover(row["text"], row["title"] or "", facts).metadata()


def metadata_table(facts: Iterable[DocumentFacts]) -> pa.Table:
    """Return a table with a row per document, sorted by doc_id. It has the fixed columns and one for each key.

    Values from a metadata file override the document's own, including ``title`` and ``date``, and these override what
    its cover states and the detected ``language``; a missing ``date`` is the file's date. A column is int64, double,
    bool or date32 if all its values fit, else string; missing values are null.
    Keys that differ only in case share a column.
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
    """Return a document's values by key. Keys cannot override fixed columns, except title and date."""
    own = {key.strip(): value for key, value in facts.own.items() if key.strip()}
    known = {key.lower() for key in own}
    said = {key: value for key, value in (facts.cover or {}).items() if key not in known} | own
    given = {key.strip(): value for key, value in facts.given.items() if key.strip()}
    folded = {key.lower() for key in given}
    row = {key: value for key, value in said.items() if key.lower() not in folded} | given
    if facts.language is not None and not _language_in(row):
        row |= {LANGUAGE: facts.language}
    lower = {key.lower(): value for key, value in row.items()}
    row = {key: value for key, value in row.items() if key.lower() not in FIXED_COLUMNS}
    own_date = lower.get("date", "").strip() or facts.file_date
    fixed = {"doc_id": facts.doc_id, "title": _title(facts), "source_uri": facts.source_uri}
    fixed |= {"source_name": facts.source_name} | ({"date": own_date} if own_date else {})
    return fixed | row


def _title(facts: DocumentFacts) -> str:
    return next((value for key, value in facts.given.items() if key.lower() == "title"), facts.title)


def _column_names(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Map each key that gets a column to the column's name, the key's most frequent spelling."""
    counts = Counter(key for row in rows for key in row if key not in FIXED_COLUMNS)
    spellings: dict[str, list[str]] = {}
    for key, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        spellings.setdefault(key.lower(), []).append(key)
    kept = sorted(list(spellings.values())[:MOST_COLUMNS], key=lambda same: same[0].lower())
    fixed = {name: name for name in FIXED_COLUMNS}
    return fixed | {key: same[0] for same in kept for key in same}


_WHOLE: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
"""A whole number. Leading zeros are excluded, because "007" is a name."""
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,30})?(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.{0,30})?")


def typed(values: Sequence[str | None]) -> pa.Array:
    """Return a column of int64, double, bool or date32 if all present values fit, otherwise of strings."""
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
    """Return the day of an ISO 8601 date or time, None for other text."""
    if not _DAY.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value).date()
    except ValueError:
        return None
