"""Markdown: kept as written, since a language model reads it as it is; the first heading is the title."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from okralong.pipelines.indexing.readers.raw import RawDocument, Reading, Source, decode

_HEADING: Final = re.compile(r"^#{1,6}[ \t]++([^ \t\n].*+)", re.MULTILINE)
"""Possessive, and the marks behind the words are stripped later: a heading of a million blanks stays linear."""


def read(source: Source) -> Iterator[Reading]:
    """The one document of a .md file. Raises DocumentError when the bytes are not text."""
    text = decode(source.read_bytes(), source.uri)
    heading = _HEADING.search(text)
    title = heading[1].rstrip(" \t#") if heading else ""
    yield RawDocument(source.doc_id, text, source.uri, title=title)
