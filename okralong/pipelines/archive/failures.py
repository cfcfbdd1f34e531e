"""A version's table ``failures``: documents that could not be read, and warnings of those that were read in part."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from okralong.pipelines.archive.metadata import DocumentFacts
from okralong.pipelines.archive.versions import write_once
from okralong.pipelines.core.schemas import FAILURES, READ_IN_PART
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import NOT_READ

FAILURES_FOLDER: Final = "failures"

_MOST_WARNINGS_OF_FILE: Final = 100
"""Documents of one file of rows that are reported one by one as read in part. project default"""


def write_failures(archive: Folder, failures: Sequence[tuple[str, str]], facts: Sequence[DocumentFacts]) -> str:
    """Write the table unless it exists and return its file name.

    ``failures`` are pairs of doc_id and message; the warnings follow from the documents' metadata in ``facts``.
    """
    warnings, now = _warnings(facts), datetime.now(UTC)
    kinds = [("DocumentError", pair) for pair in sorted(failures)] + [(READ_IN_PART, pair) for pair in warnings]
    rows = [
        {"id": doc_id, "stage": "read", "error_type": kind, "message": message, "at": now}
        for kind, (doc_id, message) in kinds
    ]
    content = [*sorted(failures), *(["warnings", *warnings] if warnings else [])]  # hashed for the file's name
    return write_once(archive.at(FAILURES_FOLDER), content, rows, FAILURES)


def read_failures(archive: Folder, name: str) -> list[dict[str, Any]]:
    """Return the rows of a version's table; a warning has the ``error_type`` ``READ_IN_PART``."""
    return list(archive.at(FAILURES_FOLDER).read_table(name).to_pylist())


def _warnings(facts: Sequence[DocumentFacts]) -> list[tuple[str, str]]:
    """Return (doc_id, message) of each document that was read in part; a file of many such rows has one."""
    of_file: dict[str, list[DocumentFacts]] = {}
    for each in facts:
        if NOT_READ in each.own:
            of_file.setdefault(each.source_uri, []).append(each)
    found = []
    for uri, those in of_file.items():
        if len(those) > _MOST_WARNINGS_OF_FILE:
            first = f"{those[0].doc_id}: {those[0].own[NOT_READ]}"
            found.append((those[0].source_name, f"{uri}: {len(those):,} rows were read in part. Not read of {first}."))
        else:
            found += [(each.doc_id, f"{uri} was read in part. Not read: {each.own[NOT_READ]}.") for each in those]
    return sorted(found)
