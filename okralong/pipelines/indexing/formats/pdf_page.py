"""Read one page of a PDF: its text, what its fonts hide, its notes and form fields, and its pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ctypes import byref, c_float, c_ushort
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from typing import Any, Final, Literal

import pypdfium2
import pypdfium2.raw as pdfium

from okralong.pipelines.indexing.documents import newlines
from okralong.pipelines.indexing.formats.legible import is_legible, without_turned_words
from okralong.pipelines.indexing.formats.page_lines import PageTable
from okralong.pipelines.indexing.formats.pdf_layers import without_what_is_off
from okralong.pipelines.indexing.formats.pdf_raised import characters, with_marks_apart
from okralong.pipelines.indexing.formats.pdf_words import words_and_rules
from okralong.pipelines.indexing.formats.tables_of_pages import TableReader, may_have_tables

_HYPHEN: Final = re.compile("[\x02\ufffe\uffff]")
"""PDFium's replacements for a hyphen at the end of a line."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

State = Literal["text", "blank", "image", "illegible", "partly", "picture", "damaged", "ocr"]
"""A page has text, nothing, or only images; illegible text, as a whole or in part; little text beside a large picture;
it cannot be read; or it was read by OCR."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page. ``notes`` are the lines of its notes and form fields, ``files`` the names of files attached to it."""

    text: str
    state: State
    notes: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    pictures: int = 0
    media: int = 0
    doubtful: bool = False
    """Whether OCR could hardly read it."""
    tables: tuple[PageTable, ...] = ()
    """With offsets into ``text``."""
    hides_text: bool = False
    """Whether layers that are off have text."""
    hidden_notes: int = 0

    def with_notes(self) -> str:
        """Return the text, and below it the notes and form fields."""
        return "\n\n".join(filter(None, (self.text, "\n".join(self.notes))))


def read_page(
    pdf: pypdfium2.PdfDocument, number: int, form: Form, reader: TableReader, *, layered: bool = False
) -> Page:
    """Read the page with this index, from 0; in a ``layered`` file what is off is marked."""
    try:
        page = pdf[number]
        hides_text = layered and without_what_is_off(page)
        textpage = page.get_textpage()
    except pypdfium2.PdfiumError:
        return Page("", "damaged")
    text, state = _checked(textpage, with_marks_apart(textpage, str(textpage.get_text_bounded())))
    objects = _Objects.of(page)
    share = objects.picture_share(page.get_bbox()) if objects.pictures else 0.0
    if state == "blank" and objects.show_something:
        state = "image"
    if state == "text" and share >= _PAGE_PICTURE and len(text) < _LITTLE_TEXT:
        state = "picture"
    pictures = int(state == "text" and share >= _LARGE_PICTURE)
    noted = _Annotations(page, form)
    noted.read()
    tables = _tables(page, textpage, text, reader, number + 1) if state in ("text", "partly") else ()
    textpage.close()
    page.close()
    return Page(
        text, state, noted.lines, noted.files, pictures, noted.media,
        tables=tables, hides_text=hides_text, hidden_notes=noted.hidden,
    )  # fmt: skip


_MOST_CHARS: Final = 50_000
"""Characters of a page whose tables are read; a page of a newspaper has 30,000. # project default"""


def _tables(page: Any, textpage: Any, text: str, reader: TableReader, number: int) -> tuple[PageTable, ...]:
    if not may_have_tables(text):
        return ()
    if pdfium.FPDFText_CountChars(textpage.raw) > _MOST_CHARS:
        reader.unread.append(number)
        return ()
    return reader.of_words(number, *words_and_rules(page, textpage, text))


def tidy(raw: str) -> str:
    """Return a page's text without PDFium's marks for line ends and hyphens, control characters and trailing blanks."""
    text = _CONTROL.sub("", _HYPHEN.sub("-", newlines(raw))).encode("utf-8", "replace").decode()
    # Line by line: a regular expression for trailing blanks takes quadratic time on blanks within a line.
    return "\n".join(line.rstrip(" \t") for line in text.split("\n")).strip()


# Text that a font gives no Unicode characters for: PDFium then returns the codes of its glyphs.

_ODD: Final = re.compile("[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")
"""Characters that text does not have: control codes other than PDFium's hyphen, and the private use area."""
_SAMPLE: Final = 100
"""Characters of a page whose map is looked up, evenly spaced; all of them take as long as reading the text."""
_LEAST_ODD: Final = 0.05
"""Share of odd characters that is looked at; bullets and symbols stay below. # project default"""
_LEAST_BAD: Final = 30
"""Characters without a map that can be judged, a line of text; bullets are fewer. # project default"""
_BLOCK_CHARS: Final = 600
"""Least characters of the lines that are judged together where no map is known to be missing. # measured"""
_MOST_BAD: Final = 0.5
"""Share of illegible characters from which a page counts as illegible. # project default"""


def _checked(textpage: Any, raw: str) -> tuple[str, State]:
    """Return the legible text of a page, and whether that is all of it."""
    text = tidy(raw)
    if not text and not raw.strip():
        return "", "blank"
    count = pdfium.FPDFText_CountChars(textpage.raw)
    sample = _map_errors(textpage, range(0, count, max(1, count // _SAMPLE)))
    if 1 not in sample and len(raw) - len(_ODD.sub("", raw)) < _LEAST_ODD * len(raw):
        return _legible_blocks(text)
    chars = list(characters(textpage, count))
    bad = [
        error == 1 or bool(_ODD.match(char))
        for error, char in zip(_map_errors(textpage, range(count)), chars, strict=True)
    ]
    seen = [not char.isspace() for char in chars]
    wrongs = sum(compress(bad, seen))
    share = wrongs / max(1, sum(seen))
    without_map = "".join(char if wrong else " " for char, wrong in zip(chars, bad, strict=True))
    if (wrongs < _LEAST_BAD and share < _MOST_BAD) or is_legible(without_map, proof=True):
        return _legible_blocks(text)
    if share >= _MOST_BAD:
        return "", "illegible"
    return tidy("".join(char for char, wrong in zip(chars, bad, strict=True) if not wrong)), "partly"


def _legible_blocks(text: str) -> tuple[str, State]:
    """Return the lines of a page that are legible, and whether that is all of it, by the words alone."""
    blocks, start = [], 0
    while start < len(text):
        end = text.find("\n", start + _BLOCK_CHARS)
        blocks.append(text[start : end if end >= 0 else len(text)])
        start += len(blocks[-1]) + 1
    kept = "\n".join(filter(is_legible, blocks))
    if len(kept) == len(text):
        return without_turned_words(text), "text"
    return (kept, "partly") if len(kept) > _MOST_BAD * len(text) else ("", "illegible")


def _map_errors(textpage: Any, places: range) -> Iterator[int]:
    return map(pdfium.FPDFText_HasUnicodeMapError, repeat(textpage.raw), places)


# Pictures.

_LITTLE_TEXT: Final = 200
"""Characters of a running head or a stamp, beside which the picture is the page. # project default"""
_PAGE_PICTURE: Final = 0.5
"""Share of the page from which a picture beside little text counts as the page. # project default"""
_LARGE_PICTURE: Final = 0.25
"""Share of the page from which a picture may hold figures or text; logos are smaller. # project default"""
_MOST_OBJECTS: Final = 100
"""First and last objects looked at for pictures: some programs write each letter as one, 4,000 a page. # project
default"""
_LEAST_SHAPES: Final = 100
"""Shapes that may be letters; a page without text that has fewer, and no picture, is blank. # project default"""
_INVISIBLE: Final = 3
"""Render mode of the text that OCR programs lay over a scan."""


@dataclass(frozen=True, slots=True)
class _Objects:
    """What a page is made of, with the number of all objects."""

    texts: list[Any]
    pictures: list[Any]
    forms: int
    count: int

    @classmethod
    def of(cls, page: Any) -> _Objects:
        count = pdfium.FPDFPage_CountObjects(page.raw)
        places = chain(range(min(count, _MOST_OBJECTS)), range(max(_MOST_OBJECTS, count - _MOST_OBJECTS), count))
        objects = list(map(pdfium.FPDFPage_GetObject, repeat(page.raw), places))
        kinds = list(map(pdfium.FPDFPageObj_GetType, objects))
        texts, pictures = (
            list(compress(objects, map(kind.__eq__, kinds)))
            for kind in (pdfium.FPDF_PAGEOBJ_TEXT, pdfium.FPDF_PAGEOBJ_IMAGE)
        )
        return cls(texts, pictures, kinds.count(pdfium.FPDF_PAGEOBJ_FORM), count)

    @property
    def show_something(self) -> bool:
        """Whether a page without text is more than a background."""
        return bool(self.pictures or self.forms or self.count >= _LEAST_SHAPES)

    def picture_share(self, box: tuple[float, float, float, float]) -> float:
        """Return the share of the page that its largest picture covers, 0 if the picture has a text layer."""
        left, bottom, right, top = box
        share = 0.0
        for picture in self.pictures:
            x0, y0, x1, y1 = c_float(), c_float(), c_float(), c_float()
            if pdfium.FPDFPageObj_GetBounds(picture, byref(x0), byref(y0), byref(x1), byref(y1)):
                width = min(x1.value, right) - max(x0.value, left)
                height = min(y1.value, top) - max(y0.value, bottom)
                share = max(share, max(width, 0.0) * max(height, 0.0) / max((right - left) * (top - bottom), 1.0))
        if share >= _LARGE_PICTURE:
            modes = list(map(pdfium.FPDFTextObj_GetTextRenderMode, self.texts))
            if modes.count(_INVISIBLE) > len(modes) / 2:
                return 0.0
        return share


# Notes and form fields.

_COMMENTS: Final = (
    pdfium.FPDF_ANNOT_TEXT, pdfium.FPDF_ANNOT_LINE, pdfium.FPDF_ANNOT_SQUARE, pdfium.FPDF_ANNOT_CIRCLE,
    pdfium.FPDF_ANNOT_POLYGON, pdfium.FPDF_ANNOT_POLYLINE, pdfium.FPDF_ANNOT_HIGHLIGHT, pdfium.FPDF_ANNOT_UNDERLINE,
    pdfium.FPDF_ANNOT_SQUIGGLY, pdfium.FPDF_ANNOT_STRIKEOUT, pdfium.FPDF_ANNOT_STAMP, pdfium.FPDF_ANNOT_CARET,
    pdfium.FPDF_ANNOT_INK, pdfium.FPDF_ANNOT_FILEATTACHMENT,
)  # fmt: skip
_MEDIA: Final = (
    pdfium.FPDF_ANNOT_SOUND, pdfium.FPDF_ANNOT_MOVIE, pdfium.FPDF_ANNOT_SCREEN,
    pdfium.FPDF_ANNOT_THREED, pdfium.FPDF_ANNOT_RICHMEDIA,
)  # fmt: skip
_NOT_SHOWN: Final = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_TICKED: Final = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_TYPED: Final = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_PASSWORD: Final = 1 << 13
_MOST_FIELDS: Final = 2000
"""Fields of a document that are read: PDFium searches each among all. # project default"""


class Form:
    """The form of a document, with the number of fields that are too many to be read (``unread``)."""

    def __init__(self, pdf: pypdfium2.PdfDocument) -> None:
        self._pdf = pdf
        self._there = pdf.get_formtype() != pdfium.FORMTYPE_NONE
        # Not by ``pdf.init_forms``: each page would then take time in the square of its fields.
        self._config = pdfium.FPDF_FORMFILLINFO(version=2)
        self._handle: Any = None
        self._read = 0
        self.unread = 0

    def handle(self) -> Any:
        """Return PDFium's handle for one more field, None if there is no form or if too many were read."""
        if not self._there:
            return None
        self._read += 1
        if self._read > _MOST_FIELDS:
            self.unread += 1
            return None
        if self._handle is None:
            self._handle = pdfium.FPDFDOC_InitFormFillEnvironment(self._pdf.raw, self._config)
        return self._handle

    def close(self) -> None:
        """Free the handle; before the document is closed."""
        if self._handle:
            pdfium.FPDFDOC_ExitFormFillEnvironment(self._handle)


class _Annotations:
    """Reads what is laid over a page."""

    def __init__(self, page: Any, form: Form) -> None:
        self._page, self._form = page, form
        self._shown: dict[str, None] = {}
        self._hidden: dict[str, None] = {}
        self.files: list[str] = []
        self.media = 0

    @property
    def lines(self) -> list[str]:
        """Distinct lines in the order of the page; a field may have several boxes."""
        return list(self._shown)

    @property
    def hidden(self) -> int:
        """The number of lines that a viewer does not show."""
        return len(self._hidden.keys() - self._shown.keys())

    def read(self) -> None:
        """Read all annotations of the page."""
        for number in range(pdfium.FPDFPage_GetAnnotCount(self._page.raw)):
            annotation = pdfium.FPDFPage_GetAnnot(self._page.raw, number)
            if not annotation:
                continue
            kind = pdfium.FPDFAnnot_GetSubtype(annotation)
            is_shown = not pdfium.FPDFAnnot_GetFlags(annotation) & _NOT_SHOWN
            if line := self._line(annotation, kind):
                (self._shown if is_shown else self._hidden)[line] = None
            if is_shown:
                self._count(annotation, kind)
            pdfium.FPDFPage_CloseAnnot(annotation)

    def _line(self, annotation: Any, kind: int) -> str:
        """Return what an annotation says, "" for nothing."""
        if kind == pdfium.FPDF_ANNOT_WIDGET:
            return self._field(annotation)
        if kind == pdfium.FPDF_ANNOT_FREETEXT:
            return _value(annotation, b"Contents")
        if kind not in _COMMENTS:
            return ""
        author, said = _value(annotation, b"T"), _value(annotation, b"Contents")
        return said and (f"Comment ({author}): {said}" if author else f"Comment: {said}")

    def _count(self, annotation: Any, kind: int) -> None:
        if kind == pdfium.FPDF_ANNOT_FILEATTACHMENT:
            self.files.append(attachment_name(pdfium.FPDFAnnot_GetFileAttachment(annotation)))
        self.media += kind in _MEDIA

    def _field(self, widget: Any) -> str:
        form = self._form.handle()
        if not form:
            return ""
        kind = pdfium.FPDFAnnot_GetFormFieldType(form, widget)
        flags = pdfium.FPDFAnnot_GetFormFieldFlags(form, widget)
        if kind not in (*_TICKED, *_TYPED) or (kind == pdfium.FPDF_FORMFIELD_TEXTFIELD and flags & _PASSWORD):
            return ""
        state = _value(widget, b"AS") if kind in _TICKED else ""  # PDFium knows only ticks that it can draw
        value = state or _string(pdfium.FPDFAnnot_GetFormFieldValue, form, widget)
        if not value or (kind in _TICKED and value == "Off"):
            return ""
        name = _string(pdfium.FPDFAnnot_GetFormFieldAlternateName, form, widget)
        name = name or _string(pdfium.FPDFAnnot_GetFormFieldName, form, widget)
        return f"{name}: {value}" if name else value


def _value(annotation: Any, key: bytes) -> str:
    return _string(pdfium.FPDFAnnot_GetStringValue, annotation, key)


def attachment_name(attachment: Any) -> str:
    """Return the name of an attached file."""
    return _string(pdfium.FPDFAttachment_GetName, attachment) if attachment else ""


def _string(call: Callable[..., Any], *args: Any) -> str:
    """Return the text that a function of PDFium writes in UTF-16 into a buffer."""
    size = int(call(*args, None, 0))
    if size <= 2:  # the final NUL
        return ""
    buffer = (c_ushort * (size // 2))()
    call(*args, buffer, size)
    return tidy(bytes(buffer).decode("utf-16-le", "replace").rstrip("\0"))
