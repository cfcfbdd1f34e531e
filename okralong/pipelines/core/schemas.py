"""The Arrow schema of every table of archives, runs and exports.

Tables are folders of immutable Parquet files (zstd). The metadata of a schema holds its name and version, and a program
refuses versions that it does not know. A table that gains columns gets a new version: its older files stay readable,
with nulls in the new columns, and an older okralong refuses the newer files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 1
"""Version of archives, of runs as a whole, and of every table not listed in ``ADDED_COLUMNS``."""

ADDED_COLUMNS: Final[Mapping[str, Mapping[str, int]]] = {
    "documents": {"sections": 2, "facts": 3, "cover": 5, "language": 6},
    "metadata": {"cover": 2, "language": 3},
    "outcomes": {"reader": 2},
    "sources": {"reader": 2},
    "answers": {
        "carried": 2,
        "confidence": 3,
        "answer_type": 4,
        "value": 4,
        "number": 4,
        "unit": 4,
        "scale": 4,
        "currency": 4,
        "period": 4,
        "escalated": 5,
        "first_confidence": 5,
        "asked_id": 5,
        "replied_by": 6,
        "way": 7,
        "signals": 7,
        "language": 8,
    },
    "scores": {
        "judge_seeds": 2,
        "replied_by": 3,
        "seconds_first_token": 4,
        "seconds_indexing": 4,
        "tokens_per_second": 4,
        "value_mark": 4,
        "page_mark": 4,
    },
    "origins": {"model": 2},
    "ledger": {
        "endpoint": 2,
        "snapshot": 2,
        "system_fingerprint": 2,
        "mode": 3,
        "wave": 3,
        "batch_id": 3,
        "reasoning_tokens": 4,
        "cache_write_tokens": 4,
        "cache_write_usd_per_million": 4,
        "service_tier": 4,
        "first_token_s": 5,
    },
}
"""By table: columns that were added later, with the first version that has them."""


def table_schema(name: str, fields: list[tuple[str, pa.DataType]]) -> pa.Schema:
    """Return a schema that carries the table's name and its newest version in the metadata."""
    version = max([SCHEMA_VERSION, *ADDED_COLUMNS.get(name, {}).values()])
    return pa.schema(fields, metadata={"okralong.table": name, "okralong.schema_version": str(version)})


def _described(name: str, fields: list[tuple[str, pa.DataType, str]]) -> pa.Schema:
    """Return a schema with a sentence about each column."""
    described = [pa.field(column, kind, metadata={"about": about}) for column, kind, about in fields]
    return pa.schema(described, metadata=table_schema(name, []).metadata)


def columns_in(schema: pa.Schema, version: str) -> list[str] | None:
    """Return the columns that files of ``version`` have, or None for an unknown version."""
    held = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    newest = int(held["okralong.schema_version"])
    if version not in {str(known) for known in range(SCHEMA_VERSION, newest + 1)}:
        return None
    added = ADDED_COLUMNS.get(held["okralong.table"], {})
    return [name for name in schema.names if added.get(name, SCHEMA_VERSION) <= int(version)]


def completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``table`` in the column order and types of ``schema``, with nulls in columns that it lacks."""
    found = set(table.column_names)
    columns = [
        table[field.name].cast(field.type) if field.name in found else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


_UTC: Final = pa.timestamp("us", tz="UTC")
SPAN: Final = pa.struct([("doc_id", pa.string()), ("start_char", pa.int64()), ("end_char", pa.int64())])
_SECTION: Final = pa.struct(
    [("kind", pa.string()), ("name", pa.string()), ("start_char", pa.int64()), ("ocr", pa.bool_())]
)
_FACT: Final = pa.struct(
    [
        ("concept", pa.string()),
        ("start_char", pa.int64()),
        ("end_char", pa.int64()),
        ("value", pa.string()),
        ("unit", pa.string()),
        ("scale", pa.int32()),
        ("sign", pa.string()),
        ("decimals", pa.string()),
        ("context", pa.string()),
        ("entity", pa.string()),
        ("period_start", pa.string()),
        ("period_end", pa.string()),
        ("dimensions", pa.map_(pa.string(), pa.string())),
        ("part", pa.int32()),
    ]
)
_TABLE_SPAN: Final = pa.struct([("table_id", pa.string()), ("start_char", pa.int64()), ("end_char", pa.int64())])

DOCUMENTS: Final = table_schema(
    "documents",
    [
        ("doc_id", pa.string()),
        ("source_uri", pa.string()),
        ("sha256", pa.string()),
        ("title", pa.string()),
        ("n_chars", pa.int64()),
        ("n_tokens", pa.int64()),
        ("text", pa.large_string()),
        ("tables", pa.list_(_TABLE_SPAN)),
        ("metadata", pa.map_(pa.string(), pa.string())),
        ("sections", pa.list_(_SECTION)),
        ("facts", pa.list_(_FACT)),
        ("cover", pa.map_(pa.string(), pa.string())),
        ("language", pa.string()),
    ],
)
"""A row per document. ``sha256`` covers id and text; tokens are o200k_base. ``tables`` are the spans of tables found in
``text``; ``sections`` are its pages, sheets, slides, headings and attachments, and ``facts`` what is tagged in XBRL
(see ``core.types.Fact``), sorted by their start; files of versions 4 to 6 may have a column ``outline``, which is
ignored. ``cover`` is what the cover states (see ``archive.cover``), and
``language`` the detected language (see ``core.languages``)."""

_CELL: Final = pa.struct(
    [("column", pa.int32()), ("text", pa.string()), ("start_char", pa.int64()), ("end_char", pa.int64())]
)

TABLES: Final = table_schema(
    "tables",
    [
        ("doc_id", pa.string()),
        ("table", pa.int32()),
        ("page", pa.string()),
        ("title", pa.string()),
        ("unit", pa.string()),
        ("stub", pa.string()),
        ("heads", pa.list_(pa.list_(pa.string()))),
        ("start_char", pa.int64()),
        ("end_char", pa.int64()),
        ("row", pa.int32()),
        ("label", pa.string()),
        ("sections", pa.list_(pa.string())),
        ("row_start_char", pa.int64()),
        ("row_end_char", pa.int64()),
        ("cells", pa.list_(_CELL)),
    ],
)
"""A row per row of the tables that were read from documents (see ``core.tables``). ``table`` numbers the tables of a
document, ``row`` the rows of a table, both from 0. ``page``, ``title``, ``unit``, ``stub`` (the head of the labels),
``heads`` (of each column, from the top to the bottom) and the first two offsets are those of the table; ``cells`` are
below the column with that index. Offsets are into the document's ``text``."""

CHUNKS: Final = table_schema(
    "chunks",
    [
        ("chunk_id", pa.string()),
        ("doc_id", pa.string()),
        ("ordinal", pa.int32()),
        ("start_char", pa.int64()),
        ("end_char", pa.int64()),
        ("n_tokens", pa.int32()),
        ("text", pa.string()),
        ("table_id", pa.string()),
    ],
)
"""A row per chunk, the ``ordinal``-th of its document and size. ``table_id`` names the table that a boundary of the
chunk splits, if any."""


def vectors(dimension: int, precision: str = "float32") -> pa.Schema:
    """Return the schema of one encoder's vectors, a row per distinct text with its hash as ``text_key``.

    ``over_limit`` means that the encoder did not see the end of the text; null if unknown. See ``archive/vectors.py``.
    """
    value = pa.float16() if precision == "float16" else pa.float32()
    return table_schema(
        "vectors", [("text_key", pa.binary(16)), ("vector", pa.list_(value, dimension)), ("over_limit", pa.bool_())]
    )


def compressed(numbers: int | None) -> pa.Schema:
    """Return the schema of a shard's compressed chunks, in the order of its rows.

    ``vector`` holds all vectors of a chunk: ``numbers`` values in total or, with a vector per sentence (None), a list
    as long as the chunk needs. The table is an Arrow file, which is memory-mapped like the rest of the index.
    """
    values = pa.large_list(pa.float16()) if numbers is None else pa.list_(pa.float16(), numbers)
    return table_schema(
        "compressed", [("chunk_id", pa.large_string()), ("doc_id", pa.large_string()), ("vector", values)]
    )


_ENTRY: Final[list[tuple[str, pa.DataType]]] = [
    ("doc_id", pa.string()),
    ("sha256", pa.string()),
    ("n_tokens", pa.int64()),
    ("part", pa.string()),
    ("origin", pa.string()),
    ("source_uri", pa.string()),
    ("source_name", pa.string()),
]

CATALOGUE: Final = table_schema("catalogue", [*_ENTRY, ("shadowed", pa.bool_())])
"""The content of a version, a row per document. ``part`` names the files that hold it; a ``shadowed`` document has an
id that another document took, and is hidden."""

ARTIFACTS: Final = table_schema(
    "artifacts",
    [
        ("doc_id", pa.string()),
        ("document_sha256", pa.string()),
        ("method", pa.string()),
        ("version", pa.int32()),
        ("model", pa.string()),
        ("about", pa.string()),
        ("made", pa.large_string()),
        ("calls", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("written_at", _UTC),
    ],
)
"""A result about a document that a method obtained from the generator (``archive/artifacts.py``), one row per file:
``made`` is the result as JSON, ``about`` everything that its key covers; the counts and dollars are the cost of the run
that made it."""

OUTCOMES: Final = table_schema(
    "outcomes",
    [
        *_ENTRY,
        ("source_sha256", pa.string()),
        ("message", pa.string()),
        ("limits", pa.string()),
        ("reader", pa.string()),
    ],
)
"""The outcome of each document of a part. A ``message`` means that it could not be read, under limits with the hash
``limits``. ``reader`` is the version of the parser (see ``indexing/parsers.py``)."""

METADATA: Final = table_schema(
    "metadata",
    [
        ("doc_id", pa.string()),
        ("part", pa.string()),
        ("title", pa.string()),
        ("source_uri", pa.string()),
        ("source_name", pa.string()),
        ("file_date", pa.string()),
        ("own", pa.map_(pa.string(), pa.string())),
        ("given", pa.map_(pa.string(), pa.string())),
        ("cover", pa.map_(pa.string(), pa.string())),
        ("language", pa.string()),
    ],
)
"""Metadata of a version's documents: ``own`` comes from the document or its row, ``given`` from a metadata file,
``cover`` from the cover; ``file_date`` is the day of the file's last change, ``language`` the detected language."""

_FAILED: Final = pa.struct([("doc_id", pa.string()), ("message", pa.string())])

SOURCES: Final = table_schema(
    "sources",
    [
        ("uri", pa.string()),
        ("name", pa.string()),
        ("sha256", pa.string()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("failed", pa.list_(_FAILED)),
        ("reader", pa.string()),
    ],
)
"""The source files of a version, with the documents of each that could not be read. ``reader`` is the version of the
parser."""

ANSWERS: Final = table_schema(
    "answers",
    [
        ("query_id", pa.string()),
        ("question", pa.string()),
        ("doc_ids", pa.list_(pa.string())),
        ("status", pa.string()),
        ("answer", pa.string()),
        ("cited", pa.bool_()),
        ("citations", pa.list_(SPAN)),
        ("analysis", pa.string()),
        ("plan", pa.string()),
        ("context", pa.list_(SPAN)),
        ("context_tokens", pa.int64()),
        ("strategy", pa.string()),
        ("calls", pa.int32()),
        ("prompt_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("weighted_tokens", pa.int64()),
        ("seconds", pa.map_(pa.string(), pa.float64())),
        ("error", pa.string()),
        ("finished_at", _UTC),
        ("carried", pa.map_(pa.string(), pa.string())),
        ("confidence", pa.float32()),
        ("answer_type", pa.string()),
        ("value", pa.string()),
        ("number", pa.float64()),
        ("unit", pa.string()),
        ("scale", pa.string()),
        ("currency", pa.string()),
        ("period", pa.string()),
        ("escalated", pa.string()),
        ("first_confidence", pa.float32()),
        ("asked_id", pa.string()),
        ("replied_by", pa.string()),
        ("way", pa.string()),
        ("signals", pa.map_(pa.string(), pa.float32())),
        ("language", pa.string()),
    ],
)
"""``analysis`` and ``plan`` are JSON (``core/codec.py``). ``seconds`` is wall time by stage, ``context`` the spans in
the last prompt, ``carried`` the columns copied from the question's row. ``confidence`` is the probability that the
answer is right, null without a cross-encoder that can estimate it.

``answer_type`` is that of the question, "" for text; ``value`` to ``period`` are those of ``TypedValue``, null for text
and for questions without an answer. For an answer that replaced one under the policy's ``escalate.under``,
``escalated`` is "precise" or the model that answered and ``first_confidence`` the confidence of the first answer;
otherwise null. In a cell, ``asked_id`` is the question asked of each document and ``doc_ids`` the cell's document.

``replied_by`` is the model that gave the answer, as its reply names it (several are separated by "; "), or the
cross-encoder or rules that extracted it from a passage. Without an answer it is the model of the last reply, null if
there was none.

``way`` is how the answer was found (``core.types.Way``), null for methods that do not say. ``signals`` is what the run
knew about the answer, by the names in ``answering/signals.py``: a confidence model is fitted on them. ``language`` is
that of the question, a code of ISO 639-1, or "und" if nothing tells it.
"""

JOURNAL: Final = table_schema(
    "journal",
    [
        ("seq", pa.int64()),
        ("query_id", pa.string()),
        ("path", pa.string()),
        ("sample", pa.int32()),
        ("kind", pa.string()),
        ("request_hash", pa.string()),
        ("body", pa.large_string()),
        ("written_at", _UTC),
    ],
)
"""``kind`` is analysis, plan, retrieval, selection, found, request or reply, ``body`` is JSON, and ``seq`` orders a
run's rows. Rows of kind batch have the ``query_id`` "": a batch's number and the endpoint's name for it."""

LEDGER: Final = table_schema(
    "ledger",
    [
        ("call_id", pa.string()),
        ("query_id", pa.string()),
        ("path", pa.string()),
        ("role", pa.string()),
        ("model", pa.string()),
        ("request_hash", pa.string()),
        ("attempt", pa.int32()),
        ("status", pa.string()),
        ("http_status", pa.int32()),
        ("prompt_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("input_usd_per_million", pa.float64()),
        ("cached_usd_per_million", pa.float64()),
        ("output_usd_per_million", pa.float64()),
        ("reserved_usd", pa.float64()),
        ("cost_usd", pa.float64()),
        ("queue_s", pa.float64()),
        ("latency_s", pa.float64()),
        ("provider_request_id", pa.string()),
        ("started_at", _UTC),
        ("error", pa.string()),
        ("tags", pa.map_(pa.string(), pa.string())),
        ("endpoint", pa.string()),
        ("snapshot", pa.string()),
        ("system_fingerprint", pa.string()),
        ("mode", pa.string()),
        ("wave", pa.int32()),
        ("batch_id", pa.string()),
        ("reasoning_tokens", pa.int64()),
        ("cache_write_tokens", pa.int64()),
        ("cache_write_usd_per_million", pa.float64()),
        ("service_tier", pa.string()),
        ("first_token_s", pa.float64()),
    ],
)
"""A row per attempt. ``status`` is ok, failed, cached or unknown. An unknown attempt costs its reserve; a cached one
costs nothing, and its tokens were paid for by another run.

``endpoint`` is the base URL called and ``model`` the model or deployment there (before the first call, "" and the first
endpoint's model). ``snapshot`` and ``system_fingerprint`` are as reported in the reply.

``mode`` is realtime or batch. For a batch, ``wave`` is its number in the run and ``batch_id`` its name at the endpoint,
"" until it has one. Unit prices are those charged, including the discount of a batch or of the reply's ``service_tier``
("" if the reply names none) and the price tier of the prompt's length.

``reasoning_tokens`` are part of the completion tokens, ``cached_tokens`` and ``cache_write_tokens`` of the prompt
tokens. ``first_token_s`` is the part of ``latency_s`` before the first token, null if the reply does not tell.
"""

FAILURES: Final = table_schema(
    "failures",
    [
        ("id", pa.string()),
        ("stage", pa.string()),
        ("error_type", pa.string()),
        ("message", pa.string()),
        ("at", _UTC),
    ],
)
"""A document or question (``id``) that failed: at which ``stage``, and why.

A row of an archive with the ``error_type`` ``READ_IN_PART`` is a warning: the document was read, but for what the
message names.
"""

READ_IN_PART: Final = "PartialRead"
"""The ``error_type`` of a document that was read in part."""

RUN_TABLES: Final = {"answers": ANSWERS, "journal": JOURNAL, "ledger": LEDGER, "failures": FAILURES}
"""The tables of a run by folder name."""

# Exports of a run for people and their tools (``reporting/export.py``, ``reporting/diff.py``). Times are UTC without a
# zone, because spreadsheets have no time zones.

_TIME: Final = pa.timestamp("ms")

_CITED: Final[list[tuple[str, pa.DataType, str]]] = [
    ("section", pa.string(), "page, sheet, slide, heading or attachment in which the quote begins: page 12"),
    ("page", pa.int64(), "number of the page or slide, from 1; null where there is none"),
    ("quote", pa.string(), "the cited words"),
    ("link", pa.string(), "opens the source, a PDF at its page"),
    ("source_uri", pa.string(), "file of the document"),
    ("doc_id", pa.string(), "document"),
    ("title", pa.string(), "its title"),
    ("document_sha256", pa.string(), "hash of its id and text"),
    ("ocr", pa.bool_(), "whether the words were read from an image"),
]

_CORRECTED: Final[list[tuple[str, pa.DataType, str]]] = [
    ("corrected", pa.string(), "the right answer, by a person: fill it in, then run okralong corrections"),
    ("note", pa.string(), "that person's note"),
    ("correction", pa.string(), "state: corrected, or reopened and why; null where nobody corrected the answer"),
    ("corrected_by", pa.string(), "who corrected it"),
    ("corrected_at", _TIME, "when, UTC"),
]

FLAT_ANSWERS: Final = _described(
    "flat_answers",
    [
        ("query_id", pa.string(), "id of the question"),
        ("question", pa.string(), "its words"),
        ("answer", pa.string(), "the answer; empty unless answered"),
        ("status", pa.string(), "answered, unanswerable, invalid_output, over_budget or failed"),
        ("answer_type", pa.string(), "type that the question asks for; empty for text"),
        ("value", pa.string(), "the answer as a value of its type, in one written form; null of text"),
        ("number", pa.float64(), "the amount in full, percent per hundred; null without a number or its scale"),
        ("unit", pa.string(), "% or what is counted"),
        ("scale", pa.string(), "thousand, million ...: by what the source multiplies; number has it in; or unknown"),
        ("currency", pa.string(), "code of ISO 4217"),
        ("period", pa.string(), "time that the amount belongs to"),
        ("confidence", pa.float64(), "probability that the answer is right; null where nothing could judge it"),
        ("escalated", pa.string(), "of an answer asked for again: precise, or the stronger model; else null"),
        ("first_confidence", pa.float64(), "confidence of the answer that it took the place of; else null"),
        *((name, kind, f"of the first citation: {about}") for name, kind, about in _CITED),
        ("citations", pa.int64(), "how many passages are cited"),
        ("more_citations", pa.string(), "the others, a line each: document, page, words"),
        ("error", pa.string(), "why there is no answer"),
        ("type", pa.string(), "question type, as analysed"),
        ("workflow", pa.string(), "linear, extend, split, step or documents"),
        ("strategy", pa.string(), "the method"),
        ("model", pa.string(), "the generator, as the config names it: the stronger one where that answered"),
        (
            "replied_by",
            pa.string(),
            "what gave the answer: the model as its reply names it, or the cross-encoder or rules",
        ),
        ("calls", pa.int64(), "calls to the generator"),
        ("prompt_tokens", pa.int64(), "input tokens, cached ones included"),
        ("cached_tokens", pa.int64(), "input tokens that the endpoint had cached"),
        ("completion_tokens", pa.int64(), "output tokens"),
        ("cost_usd", pa.float64(), "US dollars"),
        ("seconds", pa.float64(), "from question to answer, waiting included"),
        ("scope", pa.string(), "documents asked, with ; between them; empty for the whole archive"),
        ("asked_id", pa.string(), "id of the question asked of each document, of which this is a cell; else null"),
        ("language", pa.string(), "language of the question: de, en ...; und where its words do not tell it"),
        ("archive", pa.string(), "the archive"),
        ("archive_version", pa.int64(), "version of the archive over which it was answered"),
        ("night", pa.string(), "the night that it comes from; null outside okralong nightly"),
        ("finished_at", _TIME, "end of the answer, UTC"),
        *_CORRECTED,
    ],
)
"""A row per question of a run, as ``okralong export`` writes it. Carried columns follow under their own names
(``carried_NAME`` if the name is taken)."""

FLAT_CITATIONS: Final = _described(
    "flat_citations",
    [
        ("query_id", pa.string(), "id of the question"),
        ("number", pa.int64(), "place among the question's citations, from 1"),
        *_CITED,
        ("start_char", pa.int64(), "where the words begin in the document's text"),
        ("end_char", pa.int64(), "where they end"),
    ],
)
"""A row per citation of a run, as ``okralong export`` writes it."""

FLAT_SEARCHED: Final = _described(
    "flat_searched",
    [
        ("query_id", pa.string(), "id of the question"),
        ("question", pa.string(), "its words"),
        ("scope", pa.string(), "documents asked, with ; between them; empty for the whole archive"),
        ("queries", pa.string(), "the searches"),
        ("terms", pa.string(), "stems that BM25 looked for"),
        ("synonyms", pa.string(), "names of the line items that the question names, looked for in tables"),
        ("sections", pa.string(), "pages, sheets or sections of the passages that were read"),
        ("found", pa.int64(), "passages that the searches found"),
        ("number", pa.int64(), "place of the passage, the nearest first, those read before others"),
        ("doc_id", pa.string(), "its document"),
        ("section", pa.string(), "its page, sheet or section"),
        ("bm25", pa.float64(), "its score by words; null where they did not find it"),
        ("cosine", pa.float64(), "its similarity by vectors; null where they did not find it"),
        ("answerable", pa.float64(), "probability that it holds the answer, by the cross-encoder; null if unread"),
        ("read", pa.bool_(), "whether it was read: in the prompt, or by the cross-encoder or rules"),
        ("text", pa.string(), "its first words"),
        ("link", pa.string(), "opens the source, a PDF at its page"),
        ("start_char", pa.int64(), "where it begins in the document's text"),
        ("end_char", pa.int64(), "where it ends"),
    ],
)
"""What was searched for the questions without an answer (``unanswerable``), a row per nearest passage, as ``okralong
export`` writes it."""

_SIDE: Final[list[tuple[str, pa.DataType, str]]] = [
    ("answer", pa.string(), "answer"),
    ("status", pa.string(), "status; null where the question was not asked"),
    ("number", pa.float64(), "the amount in full, percent per hundred; null without a number or its scale"),
    ("source", pa.string(), "documents and pages that were cited"),
    ("quote", pa.string(), "first cited words"),
    ("link", pa.string(), "opens the first source, a PDF at its page"),
    ("night", pa.string(), "night of the answer"),
    ("replied_by", pa.string(), "model that gave the answer, as its reply names it"),
    ("correction", pa.string(), "what a person corrected it to, who and when, and whether it was reopened"),
]

CELLS: Final = _described(
    "cells",
    [
        ("doc_id", pa.string(), "document"),
        ("page", pa.string(), "page, sheet or slide on which the table begins"),
        ("table", pa.int32(), "number of the table in the document, from 0"),
        ("title", pa.string(), "its title"),
        ("unit_line", pa.string(), "its unit line"),
        ("section", pa.string(), "headings in the table above the row"),
        ("label", pa.string(), "label of the row"),
        ("head", pa.string(), "heads of the column, from the top to the bottom"),
        ("text", pa.string(), "the cell as printed"),
        ("number", pa.float64(), "the amount in full, percent per hundred; null without a number or its scale"),
        ("scale", pa.string(), "thousand, million ...: by what the table multiplies; number has it in; or unknown"),
        ("currency", pa.string(), "code of ISO 4217"),
        ("unit", pa.string(), "% or what is counted"),
        ("start_char", pa.int64(), "place of the cell in the document's text"),
        ("end_char", pa.int64(), "its end"),
    ],
)
"""A row per cell of the tables of documents, for people (``okralong archive tables``)."""

DIFFERENCES: Final = _described(
    "differences",
    [
        ("query_id", pa.string(), "id of the question"),
        ("question", pa.string(), "its words"),
        ("change", pa.string(), "kind of change: changed, newly_answered, corrected, moved ... (see okralong diff)"),
        ("matters", pa.bool_(), "whether it counts for the exit code and on_change: all but corrected, moved, gone"),
        ("what", pa.string(), "what is another now: answer, question, document (its hash), page, quote, correction"),
        ("cause", pa.string(), "document, retrieval, config, model, correction, failure, question or unknown"),
        ("because", pa.string(), "what caused it, in words"),
        *((f"{when}_{name}", kind, f"{about}, {when}") for name, kind, about in _SIDE for when in ("before", "after")),
        ("similarity", pa.float64(), "token F1 of the two answers, 0 to 1; null where one is missing"),
        ("error", pa.string(), "why there is no answer now"),
    ],
)
"""A row per question whose answer differs in the second of two runs, as ``okralong diff`` and ``okralong nightly``
write it. Carried columns follow."""

ORIGINS: Final = table_schema(
    "origins",
    [
        ("query_id", pa.string()),
        ("night", pa.string()),
        ("archive_version", pa.int64()),
        ("setup", pa.string()),
        ("model", pa.string()),
    ],
)
"""The origin of each answer in a nightly's ``current``: its night, the archive version, the hash of the config, and the
generator as that night's config names it."""

KNOWN_DOCUMENTS: Final = table_schema("known_documents", [("doc_id", pa.string()), ("sha256", pa.string())])
"""The documents for which the answers of a nightly's ``current`` are valid, with the hashes of their ids and texts."""

_RESTS_ON: Final = pa.struct(
    [(name, pa.string()) for name in ("doc_id", "section", "document_sha256", "passage_sha256", "begins")]
    + [("n_chars", pa.int64())]
)

CORRECTIONS: Final = table_schema(
    "corrections",
    [
        ("query_id", pa.string()),
        ("event", pa.string()),
        ("at", _UTC),
        ("by", pa.string()),
        ("previous", pa.string()),
        ("corrected", pa.string()),
        ("note", pa.string()),
        ("reason", pa.string()),
        ("question", pa.string()),
        ("answer_type", pa.string()),
        ("doc_ids", pa.list_(pa.string())),
        ("asked_id", pa.string()),
        ("night", pa.string()),
        ("sources", pa.list_(_RESTS_ON)),
    ],
)
"""What people corrected in a run or in a nightly's ``current``; rows are only appended. ``event`` is corrected,
withdrawn, reopened or purged; ``reason`` says why a correction was reopened. ``previous`` is what was there before: the
answer, or the correction before. ``question`` to ``asked_id`` are those of the answer. ``sources`` are what it rests
on, with the hash of the document and of the page, sheet or section (null: of the document as a whole). In documents
without sections the hash is that of the ``n_chars`` characters around the citation, which ``begins`` starts."""

FLAT_CORRECTIONS: Final = _described(
    "flat_corrections",
    [
        ("query_id", pa.string(), "id of the question"),
        ("event", pa.string(), "corrected, withdrawn, reopened or purged"),
        ("at", _TIME, "when, UTC"),
        ("by", pa.string(), "who; okralong nightly reopens"),
        ("previous", pa.string(), "what was there before: the answer, or the correction before"),
        ("corrected", pa.string(), "the right answer, by that person"),
        ("note", pa.string(), "that person's note"),
        ("reason", pa.string(), "why it was reopened"),
        ("question", pa.string(), "words of the question"),
        ("rests_on", pa.string(), "documents and pages that were cited"),
        ("night", pa.string(), "night of the answer that was corrected"),
    ],
)
"""A row per event of the corrections, oldest first, as ``okralong export`` writes it."""
