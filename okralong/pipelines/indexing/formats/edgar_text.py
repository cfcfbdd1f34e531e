"""Read a plain text document of a submission to EDGAR: its pages, and its tables without their layout marks."""

from __future__ import annotations

import re
from typing import Final

from okralong.pipelines.indexing.documents import Blocks, RawDocument, Source, newlines

_PAGE: Final = re.compile(r"^[ \t]*<PAGE>[ \t]*(\d{0,6})[^\n]*$", re.MULTILINE)
_MARK: Final = re.compile(r"</?(?:TABLE|CAPTION|FN|R|S|C|P|B|I|U|TEXT)>")
_ONLY_MARKS: Final = re.compile(rf"^(?>(?:[ \t]*{_MARK.pattern})+)[ \t]*\n?", re.MULTILINE)
_NOTE: Final = re.compile(r"</?F(\d{1,3})>")
_ENTITY: Final = re.compile(r"&(amp|lt|gt|quot|apos|nbsp|#\d{1,7});")
_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " "}
_SCHEDULE: Final = "EX-27"
_SCHEDULE_LINE: Final = re.compile(r"^([ \t]*)<([A-Z][A-Z0-9-]*)>(?=[ \t]+\S)", re.MULTILINE)
"""A figure of a financial data schedule: ``<TOTAL-REVENUES>    305,000``."""


def document_of_text(content: bytes, kind: str, source: Source) -> RawDocument:
    """Return the document of plain text, with its pages as sections if it has several."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", "replace")
    text = newlines(text.replace("\x00", " "))
    blocks = Blocks()
    pages = list(_pages(text))
    for number, page in pages:
        if len(pages) > 1:
            blocks.begin("page", number)
        blocks.add(_plain(page, kind))
    return blocks.document(source)


def _pages(text: str) -> list[tuple[str, str]]:
    """Return the pages with their numbers: those of the marks above them, otherwise counted."""
    found: list[tuple[str, str]] = []
    number, at = "", 0
    for match in [*_PAGE.finditer(text), None]:
        page = text[at : match.start() if match else len(text)]
        if page.strip():
            found.append((number or str(len(found) + 1), page))
        if match:
            number, at = match[1], match.end()
    return found


def _plain(text: str, kind: str) -> str:
    """Return text without marks; those before columns of a table become blanks, so that the columns stay aligned."""
    text = _ONLY_MARKS.sub("", text)
    text = _MARK.sub(lambda match: " " * len(match[0]) if match[0] in ("<S>", "<C>") else "", text)
    text = _NOTE.sub(lambda match: "" if match[0].startswith("</") else f" ({match[1]})", text)
    if kind.startswith(_SCHEDULE):
        text = _SCHEDULE_LINE.sub(lambda match: f"{match[1]}{match[2]}  ", text)
    return _ENTITY.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    said = match[1]
    if not said.startswith("#"):
        return _ENTITIES[said]
    number = int(said[1:])
    return chr(number) if 32 <= number < 0xD800 else " " if number < 32 else match[0]
