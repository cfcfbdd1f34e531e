"""Which reader takes which file, and the one way to use them: whatever goes wrong with a file stays with that file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.readers import docx, html, jsonl, markdown, parquet, pdf, plain
from okralong.pipelines.indexing.readers.raw import BadRow, RawDocument, Read, Reading, Source

READERS: Final[Mapping[str, Read]] = {
    ".txt": plain.read,
    ".text": plain.read,
    ".md": markdown.read,
    ".markdown": markdown.read,
    ".html": html.read,
    ".htm": html.read,
    ".pdf": pdf.read,
    ".docx": docx.read,
    ".jsonl": jsonl.read,
    ".parquet": parquet.read,
}
"""Reader by suffix in lower case."""


def reader_for(name: str) -> Read | None:
    """The reader of a file by its suffix, or None when no reader knows it."""
    return READERS.get(PurePosixPath(name).suffix.lower())


def read_source(source: Source, max_bytes: int) -> Iterator[Reading]:
    """Every document of ``source``, and a BadRow for each one that cannot be had. Raises MemoryError only."""
    try:
        reader = reader_for(source.uri)
        if reader is None:
            raise DocumentError(f"{source.uri} has a suffix that no reader knows. Known are {', '.join(READERS)}.")
        if source.size > max_bytes:
            raise DocumentError(
                f"{source.uri} has {source.size / 1e6:.1f} MB, more than max_file_megabytes = {max_bytes / 1e6:g}. "
                "Raise it in the index config, or split the file."
            )
        found = False
        for reading in reader(source):
            found = True
            yield _checked(reading)
        if not found:
            raise DocumentError(f"{source.uri} holds no rows. Put documents into it, or leave it out of the folder.")
    except MemoryError:
        raise  # the process is full, whatever the file is
    except DocumentError as error:
        yield BadRow(source.doc_id, str(error))
    except Exception as error:  # a parser may fail in any way on a damaged file, and must not take the others along
        yield BadRow(
            source.doc_id,
            f"{source.uri} made its reader fail ({type(error).__name__}: {error}). "
            "Open and save it again with the program that made it, or leave it out of the folder.",
        )


def _checked(reading: Reading) -> Reading:
    if isinstance(reading, RawDocument) and not reading.text.strip():
        place = f"{reading.source_uri}, {reading.where}," if reading.where else reading.source_uri
        return BadRow(reading.doc_id, f"{place} holds no text. Check the file, or leave it out of the folder.")
    return reading
