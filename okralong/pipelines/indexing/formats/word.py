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

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Blocks, ParserOutput, Source, decode
from okralong.pipelines.indexing.formats import symbols
from okralong.pipelines.indexing.formats.drawing import (
    MOST_REPEATED_CHARS,
    STRUCK,
    GridCell,
    aligned,
    chart_text,
    count_object,
    diagram_at,
    drawn_text,
    equation,
    is_decoration,
)
from okralong.pipelines.indexing.formats.html import decode_html, page_of_html
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

_WORD: Final = OfficeFormat(".docx", ".doc", "word processor", "Word document", f"{W}document")
_PIC: Final = "{http://schemas.openxmlformats.org/drawingml/2006/picture}"
_WP: Final = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_V: Final = "{urn:schemas-microsoft-com:vml}"
_O: Final = "{urn:schemas-microsoft-com:office:office}"
_VAL: Final = f"{W}val"

_MOST_PARTS_DEPTH: Final = 3
"""Nesting depth of Word files imported into Word files. # project default"""
_MOST_INLINE_CHARS: Final = 200
"""A nested table up to this length stays within the row of its cell. # project default"""
_MOST_CODE_CHARS: Final = 300
_PAGE_MARK: Final = "\ue0c7"
"""Stands for a page number in a header or footer until the words around it are dropped."""
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


@dataclass(slots=True)
class _Block:
    """A paragraph, or a table or chart with its ``rows``."""

    text: str
    heading: bool = False
    rows: list[list[str]] | None = None

    def in_line(self) -> str:
        """Return the text for a cell of a table."""
        if self.rows is None:
            return self.text
        return "; ".join(" / ".join(filter(None, row)) for row in self.rows if any(row))


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

    def blocks(self, root: Any) -> Iterator[_Block]:
        """Yield the blocks of the document: headers and footers, then the body with its notes and comments."""
        yield from self._headers(root)
        body = root.find(f"{W}body")
        if body is not None:
            yield from _Story(self, self.main).read(body)
        if self.numbering.unknown:
            self.losses.add("automatic number", "automatic numbers", self.numbering.unknown)

    def _root(self, kind: str) -> Any:
        part = next(self.main.of_kind(kind), None)
        return None if part is None else self.package.root_once(part)

    def _headers(self, root: Any) -> Iterator[_Block]:
        """Yield each header and footer that is shown, once."""
        settings = self._root("settings")
        shown = {"default"} | (
            {"even"} if settings is not None and is_on(settings.find(f"{W}evenAndOddHeaders")) else set()
        )
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
                    for block in _Story(self, part, on_each_page=True).read(story):
                        rows = [[_without_page_numbers(cell) for cell in row] for row in block.rows or ()]
                        text = pipe_table(rows) if rows else _without_page_numbers(block.text)
                        if text and text not in said:
                            said.add(text)
                            yield _Block(f"{name.capitalize()}: {text}")

    def refer(self, kind: str, key: str, marked: bool = True) -> str:
        """Queue a note or comment at its first reference, and return its mark in the text."""
        if kind not in self._notes:
            part = next(self.main.of_kind(f"{kind}s"), None)
            root = None if part is None else self.package.root_once(part)
            found = (
                None if root is None else {each.get(f"{W}id") or "": each for each in root.iterchildren(f"{W}{kind}")}
            )
            self._notes[kind] = (found, part) if found is not None and part is not None else None
        notes = self._notes[kind]
        element = notes[0].pop(key, None) if notes is not None else None
        if notes is None or element is None:
            return ""
        if kind == "comment":
            author = " ".join((element.get(f"{W}author") or "").split())[:_MOST_CODE_CHARS]
            self.waiting.append((f"Comment ({author}): " if author else "Comment: ", element, notes[1]))
            return ""
        if not marked:
            self.waiting.append((f"{kind.capitalize()}: ", element, notes[1]))
            return ""
        self._numbers[kind] += 1
        self.waiting.append((f"{kind.capitalize()} {self._numbers[kind]}: ", element, notes[1]))
        return f"[{kind} {self._numbers[kind]}]"

    def due(self) -> Iterator[_Block]:
        """Yield the notes and comments of the blocks before, and those within them."""
        while self.waiting:
            before, element, part = self.waiting.popleft()
            text = "\n".join(block.text for block in _Story(self, part, is_note=True).read(element)).strip()
            if text:
                yield _Block(f"{before}{text}")

    def count_picture(self, part: Part | None) -> None:
        """Count a picture, once however often it is shown."""
        if part is None or part.name not in self._pictures:
            self.losses.add("picture", "pictures")
        if part is not None:
            self._pictures.add(part.name)

    def imported(self, part: Part | None) -> list[_Block]:
        """Return the blocks of a file that is imported into the document as a whole."""
        if part is None or not self.package.is_first_use(part):
            return []
        try:
            data = part.data()
            if part.name.endswith((".htm", ".html", ".xhtml")):
                page = page_of_html(decode_html(data, part.name), part.name)
                self.losses.include(page.losses)
                return [_Block(page.text)]
            if part.name.endswith(".txt"):
                return [_Block(decode(data, part.name))]
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
    kept = ["" if _PAGE_MARK in each and len(each) <= _MOST_PAGE_WORDS else each for each in pieces]
    return "".join(kept).replace(_PAGE_MARK, "").strip()


@dataclass(slots=True)
class _Paragraph:
    style: Style
    label: str = ""
    continues: bool = False
    """Whether the next paragraph continues on its line."""
    parts: list[str] = field(default_factory=list)
    after: list[_Block] = field(default_factory=list)
    struck: bool = False
    hides: bool = False

    def add(self, text: str, struck: bool = False) -> None:
        if struck != self.struck and text.strip():
            self.parts.append(STRUCK)
            self.struck = struck
        self.parts.append(text)

    def text(self) -> str:
        return "".join([*self.parts, STRUCK if self.struck else ""])


@dataclass(slots=True)
class _Container:
    """The body, a cell, a text box or a note: its blocks, and the beginning of the next paragraph."""

    blocks: list[_Block] = field(default_factory=list)
    begun: str = ""

    def flush(self) -> list[_Block]:
        """End a paragraph that nothing continued, and return all blocks."""
        if self.begun.strip():
            self.blocks.append(_Block(self.begun.strip()))
        self.begun = ""
        return self.blocks


@dataclass(slots=True)
class _Cell(_Container):
    element: Any = None
    column: int = 0
    span: int = 1
    continued: bool = False


@dataclass(slots=True)
class _Row:
    column: int
    cells: list[_Cell] = field(default_factory=list)


@dataclass(slots=True)
class _Run:
    hidden: bool = False
    struck: bool = False
    font: str = ""


@dataclass(slots=True)
class _Field:
    """A field: its code, whether its result has begun, whether it shows anything, and its form field's answer."""

    code: str = ""
    in_result: bool = False
    shows: bool = False
    answer: str = ""


_VALUE_FIELDS: Final = """
= author citation comments createdate database date dde ddeauto docproperty docvariable editime filename filesize fillin
formula includepicture includetext info keywords lastsavedby link mergefield numchars numwords printdate quote ref
revnum savedate seq styleref subject time title useraddress userinitials username
"""
_WITH_VALUE: Final = frozenset(_VALUE_FIELDS.split())
"""Fields that show a value, which some programs leave for Word to fill in."""
_PAGES: Final = frozenset({"page", "numpages", "sectionpages"})
_REMEDY: Final = "update the fields in Word and save the file"


class _Story:
    """Reads a story of the document (its body, a header, a note or a comment) in one walk over its elements.

    Elements without a handler, such as content controls, hyperlinks, smart tags and insertions, are read through.
    """

    def __init__(self, word: _Word, part: Part, on_each_page: bool = False, is_note: bool = False) -> None:
        self._word, self._part = word, part
        self._on_each_page, self._is_note = on_each_page, is_note
        self._containers: list[_Container] = [_Container()]
        self._paragraphs: list[_Paragraph] = []
        self._tables: list[list[_Row]] = []
        self._runs: list[_Run] = []
        self._fields: list[_Field] = []
        self._codes = 0
        self._drawings: list[Any] = []
        self._open: set[Any] = set()

    def read(self, root: Any) -> Iterator[_Block]:
        """Yield the blocks below ``root``."""
        self._open = _unclosed_fields(root)
        top = self._containers[0]
        walker = etree.iterwalk(root, events=("start", "end"))
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

    def _taken(self, top: _Container) -> Iterator[_Block]:
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
            container.blocks.append(_Block(text, bool(paragraph.style.heading)))
        container.blocks.extend(paragraph.after)

    def _begin_run(self, element: Any) -> bool:
        properties = element.find(f"{W}rPr")
        hidden = self._paragraphs[-1].style.hidden if self._paragraphs else False
        run = _Run(bool(hidden))
        if properties is not None:
            if (named := properties.find(f"{W}rStyle")) is not None:
                own = self._word.styles.of(named.get(_VAL)).hidden
                run.hidden = run.hidden if own is None else own
            if (vanish := properties.find(f"{W}vanish")) is not None:
                run.hidden = is_on(vanish)
            run.struck = is_on(properties.find(f"{W}strike")) or is_on(properties.find(f"{W}dstrike"))
            if (fonts := properties.find(f"{W}rFonts")) is not None:
                run.font = fonts.get(f"{W}ascii") or ""
        self._runs.append(run)
        return False

    def _end_run(self, element: Any) -> None:
        self._runs.pop()

    def _add(self, text: str) -> None:
        """Add text to the current paragraph, unless it is hidden or part of a field's code."""
        if not text or self._codes or not self._paragraphs:
            return
        paragraph, run = self._paragraphs[-1], self._runs[-1] if self._runs else _Run()
        if self._fields:
            self._fields[-1].shows = True
        if run.hidden:
            paragraph.hides = paragraph.hides or bool(text.strip())
            return
        if self._fields and self._on_each_page and self._name(self._fields[-1]) in _PAGES:
            text = _PAGE_MARK
        paragraph.add(text, run.struck)

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
        if found == symbols.UNKNOWN and not self._codes:
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
        self._add(equation(element))
        return True

    # Fields.

    def _field_mark(self, element: Any) -> bool:
        kind = element.get(f"{W}fldCharType")
        if kind == "begin" and element not in self._open:
            self._fields.append(_Field(answer=_answer(element)))
            self._codes += 1
        elif kind == "separate" and self._fields and not self._fields[-1].in_result:
            self._fields[-1].in_result = True
            self._codes -= 1
        elif kind == "end" and self._fields:
            self._end_field()
        return True

    def _field_code(self, element: Any) -> bool:
        if self._fields and not self._fields[-1].in_result:
            code = self._fields[-1].code + (element.text or "")[:_MOST_CODE_CHARS]
            self._fields[-1].code = code[:_MOST_CODE_CHARS]
        return True

    def _begin_simple_field(self, element: Any) -> bool:
        self._fields.append(_Field((element.get(f"{W}instr") or "")[:_MOST_CODE_CHARS], in_result=True))
        return False

    def _end_simple_field(self, element: Any) -> None:
        if self._fields:
            self._end_field()

    @staticmethod
    def _name(found: _Field) -> str:
        words = found.code.split(None, 1)
        return "=" if found.code.lstrip().startswith("=") else words[0].lower() if words else ""

    def _end_field(self) -> None:
        ended = self._fields.pop()
        self._codes -= not ended.in_result
        if self._codes:
            return
        name = self._name(ended)
        if not ended.shows:
            self._add(ended.answer or _from_code(name, ended.code))
            if name in _PAGES and self._on_each_page:
                self._add(_PAGE_MARK)
            elif name == "eq":
                self._word.losses.add("equation that is a field", "equations that are fields")
            elif name in ("autonum", "autonumlgl", "autonumout", "listnum"):
                self._word.losses.add("automatic number", "automatic numbers")
            elif name in _WITH_VALUE:
                self._word.losses.add("field without a saved value", "fields without a saved value", remedy=_REMEDY)
        if self._fields and ended.shows:
            self._fields[-1].shows = True

    # Notes and comments.

    def _note(self, element: Any) -> bool:
        if not self._codes:
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
            self._tables[-1].append(_Row(max(number_of(before, _VAL), 0)))
        return False

    def _begin_cell(self, element: Any) -> bool:
        properties = element.find(f"{W}tcPr")
        if not self._tables or not self._tables[-1]:
            return False
        row = self._tables[-1][-1]
        cell = _Cell(element=element, column=row.column)
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
        if isinstance(top, _Cell) and top.element is element:
            self._containers.pop().flush()

    def _end_table(self, element: Any) -> None:
        self._containers[-1].blocks.extend(_table_blocks(self._tables.pop()))

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
        self._containers.append(_Container())
        return False

    def _end_box(self, element: Any) -> None:
        self._place(self._containers.pop().flush())

    def _place(self, blocks: Sequence[_Block]) -> None:
        """Place blocks after the current paragraph."""
        if self._fields:
            self._fields[-1].shows = True
        if not self._codes:
            (self._paragraphs[-1].after if self._paragraphs else self._containers[-1].blocks).extend(blocks)

    def _drawn(self, element: Any) -> bool:
        if text := drawn_text(element).strip():
            self._place([_Block(text)])
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

    def _count_picture(self, key: str | None) -> None:
        if self._fields:
            self._fields[-1].shows = True
        if not self._on_each_page and not self._codes:
            self._word.count_picture(self._part.related(key))

    def _text_path(self, element: Any) -> bool:
        if text := (element.get("string") or "").strip():
            self._place([_Block(text)])
        return True

    def _chart(self, element: Any) -> bool:
        if key := element.get(f"{R}id"):
            self._place_text(chart_text(self._part.related(key), self._word.losses, self._word.package))
        return True

    def _diagram(self, element: Any) -> bool:
        self._place_text(diagram_at(element, self._part))
        return True

    def _place_text(self, text: str) -> None:
        rows = [[line] for line in text.split("\n") if line]
        self._place([_Block(text, rows=rows)] if text else [])

    def _object(self, element: Any) -> bool:
        inner = next(element.iter(f"{_O}OLEObject", f"{W}control"), None)
        if self._fields:
            self._fields[-1].shows = True
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


def _answer(mark: Any) -> str:
    """Return what an old form field shows without a result: a check box, or an entry of a list."""
    box, choices = mark.find(f"{W}ffData/{W}checkBox"), mark.find(f"{W}ffData/{W}ddList")
    if box is not None:
        checked = box.find(f"{W}checked")
        return "☒" if is_on(box.find(f"{W}default") if checked is None else checked) else "☐"
    if choices is not None:
        entries = [each.get(_VAL) or "" for each in choices.iterchildren(f"{W}listEntry")]
        number = number_of(choices.find(f"{W}result"), _VAL)
        return entries[number] if 0 <= number < len(entries) else ""
    return ""


_SYMBOL: Final = re.compile(r'symbol\s+(\d+|0x[0-9a-f]+)(?:.*\\f\s+"?([^"\\]*))?', re.IGNORECASE | re.DOTALL)


def _from_code(name: str, code: str) -> str:
    """Return what a field shows that has its words in its code."""
    if name == "symbol" and (match := _SYMBOL.match(code.strip())):
        return symbols.character(int(match[1], 0 if match[1].startswith("0x") else 10), (match[2] or "").strip())
    if name in ("macrobutton", "gotobutton"):
        return " ".join(code.split(None, 2)[2:])
    return ""


def _unclosed_fields(root: Any) -> set[Any]:
    """Return the marks that begin a field which never ends; all text after them would be its code."""
    begun: list[Any] = []
    for mark in root.iter(f"{W}fldChar"):
        run = mark.getparent()
        if run.getparent() is not None and run.getparent().tag in (f"{W}del", f"{W}moveFrom"):
            continue
        if mark.get(f"{W}fldCharType") == "begin":
            begun.append(mark)
        elif mark.get(f"{W}fldCharType") == "end" and begun:
            begun.pop()
    return set(begun)


def _table_blocks(rows: Sequence[_Row]) -> Iterator[_Block]:
    """Yield a table as one block, with the rows that hold large tables unpacked."""
    cells = [cell for row in rows for cell in row.cells]
    if len(cells) == 1 and len(cells[0].blocks) > 1:  # a frame around a text
        yield from cells[0].blocks
        return
    lines: list[list[GridCell]] = []
    above: dict[int, str] = {}
    for row in rows:
        nested = [block for cell in row.cells for block in cell.blocks if block.rows is not None]
        filled = sum(any(block.text for block in cell.blocks) for cell in row.cells)
        if nested and (filled == 1 or sum(len(block.text) for block in nested) > _MOST_INLINE_CHARS):
            yield from _table_block(lines)
            lines, above = [], {}
            for cell in row.cells:
                yield from cell.blocks
            continue
        texts: dict[int, str] = {}
        for cell in row.cells:
            text = "\n".join(block.in_line() for block in cell.blocks)
            if cell.continued and not text and len(above.get(cell.column, "")) <= MOST_REPEATED_CHARS:
                text = above.get(cell.column, "")
            texts[cell.column] = text
        lines.append([GridCell(cell.column, cell.span, texts[cell.column]) for cell in row.cells])
        above = texts
    yield from _table_block(lines)


def _table_block(lines: Sequence[Sequence[GridCell]]) -> Iterator[_Block]:
    rows = aligned(lines)
    if text := pipe_table(rows):
        yield _Block(text, rows=rows)


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
