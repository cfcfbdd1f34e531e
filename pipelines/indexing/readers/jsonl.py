"""JSON lines: one document a line, read line by line so that a large file never stands in memory whole."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.readers.raw import BadRow, Reading, Source, decode
from okralong.pipelines.indexing.readers.rows import document_of_row


def read(source: Source) -> Iterator[Reading]:
    """Each row's document, or a BadRow for a line that is not one; blank lines are passed over."""
    with source.open() as stream:
        for number, line in enumerate(io.BufferedReader(stream), start=1):
            if not line.strip():
                continue
            yield _reading(line, source.uri, number)


def _reading(line: bytes, uri: str, number: int) -> Reading:
    place = f"{uri} row {number}"
    try:
        return document_of_row(json.loads(decode(line, uri)), uri, number)
    except (ValueError, RecursionError) as error:
        return BadRow(place, f"{uri}, row {number}, is not JSON ({error}). Mend the line and index again.")
    except DocumentError as error:
        return BadRow(place, f"Row {number} of {error}")
    except MemoryError:  # of this line alone, and given back by now: the rows after it can be read
        return BadRow(
            place,
            f"{uri}, row {number}, has {len(line) / 1e6:.1f} MB, which needed more memory than limits.document_gib. "
            "Split the row, or raise the limit in the index config.",
        )
