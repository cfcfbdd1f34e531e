"""JSON lines: one document a line, read line by line so that a large file never stands in memory whole."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

from okralong.pipelines.errors import DocumentError
from okralong.pipelines.indexing.readers.raw import BadRow, Reading, Source, decode
from okralong.pipelines.indexing.readers.rows import document_of_row


def read(source: Source) -> Iterator[Reading]:
    """Each row's document, or a BadRow for a line that is not one; blank lines are passed over."""
    with source.open() as stream:
        for number, line in enumerate(io.BufferedReader(stream), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(decode(line, source.uri))
            except (ValueError, RecursionError) as error:
                place = f"{source.uri} row {number}"
                yield BadRow(
                    place, f"{source.uri}, row {number}, is not JSON ({error}). Mend the line and index again."
                )
            except DocumentError as error:
                yield BadRow(f"{source.uri} row {number}", f"Row {number} of {error}")
            else:
                yield document_of_row(row, source.uri, number)
