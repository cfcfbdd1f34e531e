"""Parse Word files: their accepted state, in the order in which a person reads it."""

from __future__ import annotations

import io
import re
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lxml import etree

from okralong.pipelines.core.raised import RaisedText
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Blocks, ParserOutput, Source, decode
from okralong.pipelines.indexing.formats import symbols
from okralong.pipelines.indexing.formats.drawing import (
    EQUATION,
    SMART_ART,
    STRUCK,
    chart_text,
    count_object,
    drawn_text,
    is_decoration,
)
from okralong.pipelines.indexing.formats.html import page_of_html
from okralong.pipelines.indexing.formats.html_markup import decode_html
from okralong.pipelines.indexing.formats.numbering import Numbering, Style, Styles, paragraph_style
from okralong.pipelines.indexing.formats.ooxml import (
    CX,
    DGM,
    MC,
    A,
    C,
    DamagedPart,
    M,
    OfficeFormat,
    Package,
    Part,
    R,
    W,
    chosen,
    is_on,
    number_of,
    open_office,
)
from okralong.pipelines.indexing.formats.text import heading_name, pipe_table
from okralong.pipelines.indexing.formats.word_blocks import Block, Cell, Container, Row, table_blocks
from okralong.pipelines.indexing.formats.word_fields import PAGE_MARK, Fields

_WORD: Final = OfficeFormat(".docx", ".doc", "word processor", "Word document", f"{W}document")
_PIC: Final = "{http://schemas.openxmlformats.org/drawingml/2006/picture}"
_WP: Final = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_V: Final = "{urn:schemas-microsoft-com:vml}"
_O: Final = "{urn:schemas-microsoft-com:office:office}"
_VAL: Final = f"{W}val"

_MOST_PARTS_DEPTH: Final = 3
"""Nesting depth of Word files imported into Word files. # project default"""
_MOST_AUTHOR_CHARS: Final = 100
_MOST_PAGE_WORDS: Final = 40


def read_docx(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .docx file. Raises DocumentError if it is not a zip-based Word file."""
    package, main, root = open_office(source, _WORD)
    blocks = Blocks()
    for block in _Word(package, main).blocks(root):
        if block.heading:
            blocks.begin("heading", heading_name(block.text))
        blocks.add(block.text)
    title, metadata = package.properties()
    yield blocks.document(source, title, metadata | package.losses.metadata())


class _Word:
    """A document with what its parts share: styles, counters, notes and losses."""

    def __init__(self, package: Package, main: Part, depth: int = 0) -> None:
        self.package, self.main, self.depth = package, main, depth
        self.losses = package.losses
        self.styles = Styles(self._root("styles"))
        self.numbering = Numbering(self._root("numbering"), self.styles)
        self.waiting: deque[tuple[str, Any, Part]] = deque()
        """Notes and comments that follow the current block: what stands before each, its element and its part."""
        self._notes: dict[str, tuple[dict[str, Any], Part] | None] = {}
        self._numbers = {"footnote": 0, "endnote": 0}
        self._pictures: set[str] = set()

    def blocks(self, root: Any) -> Iterator[Block]:
        """Yield the blocks of the document: headers and footers, then the body with its notes and comments."""
        yield from self._headers(root)
        body = root.find(f"{W}body")
        if body is not None:
            yield from _Story(self, self.main, body).read()
        if self.numbering.unknown:
            self.losses.add("automatic number", "automatic numbers", self.numbering.unknown)

    def _root(self, kind: str) -> Any:
        part = next(self.main.of_kind(kind), None)
        return None if part is None else self.package.root_once(part)

    def _headers(self, root: Any) -> Iterator[Block]:
        """Yield each header and footer that is shown, once."""
        settings = self._root("settings")
        shown = {"default"}
        if settings is not None and is_on(settings.find(f"{W}evenAndOddHeaders")):
            shown.add("even")
        said: set[str] = set()
        for section in root.iter(f"{W}sectPr"):
            if section.getparent().tag == f"{W}sectPrChange":
                continue
            kinds = shown | ({"first"} if is_on(section.find(f"{W}titlePg")) else set())
            for name in ("header", "footer"):
                for link in section.iterchildren(f"{W}{name}Reference"):
                    part = self.main.related(link.get(f"{R}id"))
                    if link.get(f"{W}type", "default") not in kinds or part is None:
                        continue
                    story = self.package.root_once(part) if part.name not in said else None
                    said.add(part.name)
                    if story is None:
                        continue
                    for block in _Story(self, part, story, on_each_page=True).read():
                        rows = [[_without_page_numbers(cell) for cell in row] for row in block.rows or ()]
                        text = pipe_table(rows) if rows else _without_page_numbers(block.text)
                        if text and text not in said:
                            said.add(text)
                            yield Block(f"{name.capitalize()}: {text}")

    def refer(self, kind: str, key: str, marked: bool = True) -> str:
        """Queue a note or comment at its first reference, and return its mark in the text."""
        if kind not in self._notes:
            part = next(self.main.of_kind(f"{kind}s"), None)
            root = None if part is None else self.package.root_once(part)
            self._notes[kind] = None
            if root is not None and part is not None:
                found = {each.get(f"{W}id") or "": each for each in root.iterchildren(f"{W}{kind}")}
                self._notes[kind] = (found, part)
        notes = self._notes[kind]
        element = notes[0].pop(key, None) if notes is not None else None
        if notes is None or element is None:
            return ""
        if kind == "comment":
            author = " ".join((element.get(f"{W}author") or "").split())[:_MOST_AUTHOR_CHARS]
            self.waiting.append((f"Comment ({author}): " if author else "Comment: ", element, notes[1]))
            return ""
        if not marked:
            self.waiting.append((f"{kind.capitalize()}: ", element, notes[1]))
            return ""
        self._numbers[kind] += 1
        self.waiting.append((f"{kind.capitalize()} {self._numbers[kind]}: ", element, notes[1]))
        return f"[{kind} {self._numbers[kind]}]"

    def due(self) -> Iterator[Block]:
        """Yield the notes and comments of the blocks before, and those within them."""
        while self.waiting:
            before, element, part = self.waiting.popleft()
            text = "\n".join(block.text for block in _Story(self, part, element, is_note=True).read()).strip()
            if text:
                yield Block(f"{before}{text}")

    def count_picture(self, part: Part | None) -> None:
        """Count a picture, once however often it is shown."""
        if part is None or part.name not in self._pictures:
            self.losses.add("picture", "pictures")
        if part is not None:
            self._pictures.add(part.name)

    def imported(self, part: Part | None) -> list[Block]:
        """Return the blocks of a file that is imported into the document as a whole."""
        if part is None:
            self.losses.add("missing or damaged part", "missing or damaged parts")
            return []
        if not self.package.is_first_use(part):
            return []
        try:
            data = part.data()
            if part.name.endswith((".htm", ".html", ".xhtml")):
                page = page_of_html(decode_html(data, part.name, self.losses), part.name)
                self.losses.include(page.losses)
                return [Block(page.text)]
            if part.name.endswith(".txt"):
                return [Block(decode(data, part.name))]
            if zipfile.is_zipfile(io.BytesIO(data)) and self.depth < _MOST_PARTS_DEPTH:
                package = Package.of(data, self.losses)
                main = package.main()
                return list(_Word(package, main, self.depth + 1).blocks(main.root()))
        except (DamagedPart, DocumentError, zipfile.BadZipFile):
            pass
        self.losses.add("imported document", "imported documents", remedy="open the file in Word and save it")
        return []


def _without_page_numbers(text: str) -> str:
    """Return the text of a header without the short pieces, such as "Page 1 of 9", that hold a page number."""
    pieces = re.split(r"([\t\n])", text)
    kept = ["" if PAGE_MARK in each and len(each) <= _MOST_PAGE_WORDS else each for each in pieces]
    return "".join(kept).replace(PAGE_MARK, "").strip()


@dataclass(slots=True)
class _Paragraph:
    style: Style
    label: str = ""
    continues: bool = False
    """Whether the next paragraph continues on its line."""
    whole: RaisedText = field(default_factory=RaisedText)
    after: list[Block] = field(default_factory=list)
    struck: bool = False
    hides: bool = False

    def add(self, text: str, struck: bool = False, raised: bool = False) -> None:
        if struck != self.struck and text.strip() and not raised:
            self.whole.add(STRUCK)
            self.struck = struck
        self.whole.add(text, raised)

    def text(self) -> str:
        return self.whole.text() + (STRUCK if self.struck else "")


@dataclass(slots=True)
class _Run:
    hidden: bool = False
    struck: bool = False
    raised: bool = False
    font: str = ""


class _Story:
    """Reads a story of the document (its body, a header, a note or a comment) in one walk over its elements.

    Elements without a handler, such as content controls, hyperlinks, smart tags and insertions, are read through.
    """

    def __init__(self, word: _Word, part: Part, root: Any, on_each_page: bool = False, is_note: bool = False) -> None:
        self._word, self._part = word, part
        self._on_each_page, self._is_note = on_each_page, is_note
        self._containers: list[Container] = [Container()]
        self._paragraphs: list[_Paragraph] = []
        self._tables: list[list[Row]] = []
        self._runs: list[_Run] = []
        self._drawings: list[Any] = []
        self._fields = Fields(root, word.losses, on_each_page)
        self._root = root

    def read(self) -> Iterator[Block]:
        """Yield the blocks."""
        top = self._containers[0]
        walker = etree.iterwalk(self._root, events=("start", "end"))
        skipped = None
        for event, element in walker:
            if event == "start":
                if element.tag in _SKIPPED or (
                    (start := _STARTS.get(element.tag)) is not None and start(self, element)
                ):
                    walker.skip_subtree()
                    skipped = element
            elif element is skipped:
                skipped = None
            elif (end := _ENDS.get(element.tag)) is not None:
                end(self, element)
                if top.blocks and len(self._containers) == 1 and not self._paragraphs:
                    yield from self._taken(top)
        top.flush()
        yield from self._taken(top)

    def _taken(self, top: Container) -> Iterator[Block]:
        yield from top.blocks
        top.blocks.clear()
        if not self._is_note:
            yield from self._word.due()

    # Paragraphs and text.

    def _begin_paragraph(self, element: Any) -> bool:
        properties = element.find(f"{W}pPr")
        key, marks = None, None
        if properties is not None:
            named = properties.find(f"{W}pStyle")
            key = None if named is None else named.get(_VAL)
            marks = properties.find(f"{W}rPr")
        style = paragraph_style(properties, self._word.styles.of(key))
        continues = marks is not None and (marks.find(f"{W}del") is not None or marks.find(f"{W}moveFrom") is not None)
        if properties is not None and (frame := properties.find(f"{W}framePr")) is not None:
            continues = continues or frame.get(f"{W}dropCap", "none") != "none"
        label = "" if continues else self._word.numbering.label(style, key, properties)
        self._paragraphs.append(_Paragraph(style, label, continues))
        return False

    def _end_paragraph(self, element: Any) -> None:
        paragraph = self._paragraphs.pop()
        container = self._containers[-1]
        text = container.begun + paragraph.text()
        container.begun = ""
        if paragraph.hides:
            self._word.losses.add("paragraph with hidden text", "paragraphs with hidden text")
        if paragraph.continues:
            container.begun = text
        elif text := text.strip():
            text = f"{paragraph.label} {text}" if paragraph.label else text
            container.blocks.append(Block(text, bool(paragraph.style.heading)))
        container.blocks.extend(paragraph.after)

    def _begin_run(self, element: Any) -> bool:
        properties = element.find(f"{W}rPr")
        hidden = self._paragraphs[-1].style.hidden if self._paragraphs else False
        run = _Run(bool(hidden))
        if properties is not None:
            if (named := properties.find(f"{W}rStyle")) is not None:
                style = self._word.styles.of(named.get(_VAL))
                run.hidden = run.hidden if style.hidden is None else style.hidden
                run.raised = bool(style.raised)
            if (vanish := properties.find(f"{W}vanish")) is not None:
                run.hidden = is_on(vanish)
            run.struck = is_on(properties.find(f"{W}strike")) or is_on(properties.find(f"{W}dstrike"))
            if (align := properties.find(f"{W}vertAlign")) is not None:
                run.raised = align.get(_VAL) == "superscript"
            if (fonts := properties.find(f"{W}rFonts")) is not None:
                run.font = fonts.get(f"{W}ascii") or ""
        self._runs.append(run)
        return False

    def _end_run(self, element: Any) -> None:
        self._runs.pop()

    def _add(self, text: str) -> None:
        """Add text to the current paragraph, unless it is hidden or part of a field's code."""
        if not text or self._fields.in_code or not self._paragraphs:
            return
        paragraph, run = self._paragraphs[-1], self._runs[-1] if self._runs else _Run()
        text = self._fields.show(text)
        if run.hidden:
            paragraph.hides = paragraph.hides or bool(text.strip())
            return
        paragraph.add(text, run.struck, run.raised)

    def _text(self, element: Any) -> bool:
        font = self._runs[-1].font if self._runs else ""
        self._add(symbols.in_symbol_font(element.text or "", font))
        return True

    def _tab(self, element: Any) -> bool:
        self._add("\t")
        return True

    def _break(self, element: Any) -> bool:
        self._add("\n")
        return True

    def _hyphen(self, element: Any) -> bool:
        self._add("-")
        return True

    def _symbol(self, element: Any) -> bool:
        try:
            code = int(element.get(f"{W}char") or "", 16)
        except ValueError:
            return True
        found = symbols.character(code, element.get(f"{W}font") or "")
        if found == symbols.UNKNOWN and not self._fields.in_code:
            self._word.losses.add("character of a symbol font", "characters of symbol fonts")
        self._add(found)
        return True

    def _ruby(self, element: Any) -> bool:
        above, base = (
            "".join(text.text or "" for part in element.iterchildren(f"{W}{name}") for text in part.iter(f"{W}t"))
            for name in ("rt", "rubyBase")
        )
        self._add(f"{base}({above})" if above.strip() else base)
        return True

    def _equation(self, element: Any) -> bool:
        self._count(*EQUATION)
        return True

    def _field_mark(self, element: Any) -> bool:
        self._add(self._fields.mark(element))
        return True

    def _field_code(self, element: Any) -> bool:
        self._fields.code(element.text or "")
        return True

    def _begin_simple_field(self, element: Any) -> bool:
        self._fields.begin_simple(element.get(f"{W}instr") or "")
        return False

    def _end_simple_field(self, element: Any) -> None:
        self._add(self._fields.end())

    def _note(self, element: Any) -> bool:
        if not self._fields.in_code:
            kind = element.tag.removeprefix(W).removesuffix("Reference")
            marked = not is_on(element, f"{W}customMarkFollows") or element.get(f"{W}customMarkFollows") is None
            self._add(self._word.refer(kind, element.get(f"{W}id") or "", marked))
        return True

    # Tables.

    def _begin_table(self, element: Any) -> bool:
        self._containers[-1].flush()
        self._tables.append([])
        return False

    def _begin_row(self, element: Any) -> bool:
        properties = element.find(f"{W}trPr")
        before = None
        if properties is not None:
            if properties.find(f"{W}del") is not None:
                return True
            before = properties.find(f"{W}gridBefore")
        if self._tables:
            self._tables[-1].append(Row(max(number_of(before, _VAL), 0)))
        return False

    def _begin_cell(self, element: Any) -> bool:
        properties = element.find(f"{W}tcPr")
        if not self._tables or not self._tables[-1]:
            return False
        row = self._tables[-1][-1]
        cell = Cell(element=element, column=row.column)
        if properties is not None:
            if properties.find(f"{W}cellDel") is not None:
                return True
            cell.span = max(number_of(properties.find(f"{W}gridSpan"), _VAL, 1), 1)
            merge = properties.find(f"{W}vMerge")
            cell.continued = merge is not None and merge.get(_VAL, "continue") == "continue"
        row.column += cell.span
        row.cells.append(cell)
        self._containers.append(cell)
        return False

    def _end_cell(self, element: Any) -> None:
        top = self._containers[-1]
        if isinstance(top, Cell) and top.element is element:
            self._containers.pop().flush()

    def _end_table(self, element: Any) -> None:
        self._containers[-1].blocks.extend(table_blocks(self._tables.pop()))

    # Drawings and embedded parts.

    def _alternate(self, element: Any) -> bool:
        """Leave the branch that a current program shows in the tree."""
        branch = chosen(element)
        for each in list(element):
            if each is not branch:
                element.remove(each)
        return False

    def _begin_drawing(self, element: Any) -> bool:
        properties = element.find(f"*/{_WP}docPr")
        if properties is not None and is_on(properties, "hidden") and properties.get("hidden"):
            self._word.losses.add("hidden drawing", "hidden drawings")
            return True
        self._drawings.append(element)
        return False

    def _end_drawing(self, element: Any) -> None:
        self._drawings.pop()

    def _begin_box(self, element: Any) -> bool:
        self._containers.append(Container())
        return False

    def _end_box(self, element: Any) -> None:
        self._place(self._containers.pop().flush())

    def _place(self, blocks: Sequence[Block]) -> None:
        """Place blocks after the current paragraph."""
        self._fields.show()
        if not self._fields.in_code:
            (self._paragraphs[-1].after if self._paragraphs else self._containers[-1].blocks).extend(blocks)

    def _drawn(self, element: Any) -> bool:
        if text := drawn_text(element, self._word.losses).strip():
            self._place([Block(text)])
        return True

    def _picture(self, element: Any) -> bool:
        properties = extent = None
        if self._drawings and (outer := next(self._drawings[-1].iterchildren(), None)) is not None:
            properties, extent = outer.find(f"{_WP}docPr"), outer.find(f"{_WP}extent")
        if not is_decoration(properties, extent):
            blip = next(element.iter(f"{A}blip"), None)
            self._count_picture(None if blip is None else blip.get(f"{R}embed"))
        return True

    def _old_picture(self, element: Any) -> bool:
        shape = element.getparent()
        if shape is None or not shape.get(f"{_O}hr"):
            self._count_picture(element.get(f"{R}id"))
        return True

    def _count(self, one: str, many: str) -> None:
        self._fields.show()
        if not self._fields.in_code:
            self._word.losses.add(one, many)

    def _count_picture(self, key: str | None) -> None:
        self._fields.show()
        if not self._on_each_page and not self._fields.in_code:
            self._word.count_picture(self._part.related(key))

    def _text_path(self, element: Any) -> bool:
        if text := (element.get("string") or "").strip():
            self._place([Block(text)])
        return True

    def _chart(self, element: Any) -> bool:
        if key := element.get(f"{R}id"):
            self._place_text(chart_text(self._part.related(key), self._word.losses, self._word.package))
        return True

    def _diagram(self, element: Any) -> bool:
        self._count(*SMART_ART)
        return True

    def _place_text(self, text: str) -> None:
        rows = [[line] for line in text.split("\n") if line]
        self._place([Block(text, rows=rows)] if text else [])

    def _object(self, element: Any) -> bool:
        inner = next(element.iter(f"{_O}OLEObject", f"{W}control"), None)
        self._fields.show()
        if inner is not None and inner.tag == f"{W}control":
            self._word.losses.add("form control", "form controls")
        else:
            count_object(self._word.losses, "" if inner is None else inner.get("ProgID") or "")
        return True

    def _imported(self, element: Any) -> bool:
        self._place(self._word.imported(self._part.related(element.get(f"{R}id"))))
        return True

    def _linked(self, element: Any) -> bool:
        self._word.losses.add("linked document", "linked documents", remedy="index the file itself")
        return True


_SKIPPED_NAMES: Final = """
pPr rPr sectPr tblPr tblPrEx tblGrid trPr tcPr sdtPr sdtEndPr del moveFrom delText delInstrText pgNum footnoteRef
endnoteRef annotationRef separator continuationSeparator fldData
"""
_SKIPPED: Final = frozenset(f"{W}{name}" for name in _SKIPPED_NAMES.split())
"""Properties, deleted text, and marks without text."""
_STARTS: Final[dict[str, Callable[[_Story, Any], bool]]] = {
    f"{W}p": _Story._begin_paragraph,
    f"{W}r": _Story._begin_run,
    f"{W}t": _Story._text,
    f"{W}tab": _Story._tab,
    f"{W}ptab": _Story._tab,
    f"{W}br": _Story._break,
    f"{W}cr": _Story._break,
    f"{W}noBreakHyphen": _Story._hyphen,
    f"{W}sym": _Story._symbol,
    f"{W}ruby": _Story._ruby,
    f"{M}oMath": _Story._equation,
    f"{W}fldChar": _Story._field_mark,
    f"{W}instrText": _Story._field_code,
    f"{W}fldSimple": _Story._begin_simple_field,
    f"{W}footnoteReference": _Story._note,
    f"{W}endnoteReference": _Story._note,
    f"{W}commentReference": _Story._note,
    f"{W}tbl": _Story._begin_table,
    f"{W}tr": _Story._begin_row,
    f"{W}tc": _Story._begin_cell,
    f"{MC}AlternateContent": _Story._alternate,
    f"{W}drawing": _Story._begin_drawing,
    f"{W}txbxContent": _Story._begin_box,
    f"{A}p": _Story._drawn,
    f"{_PIC}pic": _Story._picture,
    f"{_V}imagedata": _Story._old_picture,
    f"{_V}textpath": _Story._text_path,
    f"{C}chart": _Story._chart,
    f"{CX}chart": _Story._chart,
    f"{DGM}relIds": _Story._diagram,
    f"{W}object": _Story._object,
    f"{W}altChunk": _Story._imported,
    f"{W}subDoc": _Story._linked,
}
"""What begins an element; True skips what is within it."""
_ENDS: Final[dict[str, Callable[[_Story, Any], None]]] = {
    f"{W}p": _Story._end_paragraph,
    f"{W}r": _Story._end_run,
    f"{W}fldSimple": _Story._end_simple_field,
    f"{W}tbl": _Story._end_table,
    f"{W}tc": _Story._end_cell,
    f"{W}drawing": _Story._end_drawing,
    f"{W}txbxContent": _Story._end_box,
}
