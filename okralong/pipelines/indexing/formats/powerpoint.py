"""Parse PowerPoint files: the texts of each visible slide with its tables, charts, notes and comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from okralong.pipelines.indexing.documents import Blocks, Losses, ParserOutput, Source
from okralong.pipelines.indexing.formats.drawing import (
    MOST_REPEATED_CHARS,
    SMART_ART,
    GridCell,
    aligned,
    chart_text,
    count_object,
    drawn_text,
    is_decoration,
)
from okralong.pipelines.indexing.formats.numbering import written
from okralong.pipelines.indexing.formats.ooxml import (
    CX,
    DGM,
    MC,
    A,
    C,
    DamagedPart,
    OfficeFormat,
    P,
    Package,
    Part,
    R,
    chosen,
    number_of,
    open_office,
)
from okralong.pipelines.indexing.formats.text import pipe_table

_POWERPOINT: Final = OfficeFormat(
    ".pptx", ".ppt", "presentation program", "PowerPoint presentation", f"{P}presentation"
)
_MOST_AUTHOR_CHARS: Final = 100


def read_pptx(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .pptx file. Raises DocumentError if it is not a zip-based PowerPoint file."""
    package, main, root = open_office(source, _POWERPOINT)
    deck = _Deck(package, main)
    links = root.findall(f"{P}sldIdLst/{P}sldId")
    for number, link in enumerate(links, start=1):
        deck.read(number, main.related(link.get(f"{R}id")))
    title, metadata = package.properties()
    metadata = {"slides": str(len(links))} | metadata
    if deck.hidden:
        metadata["hidden_slides"] = str(deck.hidden)
        package.losses.add("hidden slide", "hidden slides", deck.hidden)
    yield deck.blocks.document(source, title, metadata | package.losses.metadata())


class _Deck:
    """Collects the text of a presentation slide by slide."""

    def __init__(self, package: Package, main: Part) -> None:
        self._package, self._main = package, main
        self._losses: Losses = package.losses
        self.blocks = Blocks()
        self.hidden = 0
        self._pictures: set[str] = set()
        self._repeated: set[str] = set()
        """Texts of masters, layouts and footers, which are read once."""
        self._authors = self._people()

    def read(self, number: int, slide: Part | None) -> None:
        """Add slide ``number``, unless it is hidden."""
        root = self._package.root_once(slide)
        if root is None or slide is None:
            return
        if root.get("show") in ("0", "false"):
            self.hidden += 1
            return
        self.blocks.begin("slide", str(number))
        self._tree(root, slide)
        for blip in root.iterfind(f"{P}cSld/{P}bg//{A}blip"):  # some programs save each slide as a picture
            self.count_picture(slide.related(blip.get(f"{R}embed")))
        if root.get("showMasterSp") not in ("0", "false"):
            self._behind(slide)
        for notes in slide.of_kind("notesSlide"):
            read = self._package.root_once(notes)
            said = "" if read is None else "\n".join(_Shapes(self, notes, pages=False).read(read))
            if said:
                self.blocks.add(f"Notes: {said}")
        for comments in slide.of_kind("comments"):
            self._comments(self._package.root_once(comments))

    def _tree(self, root: Any, part: Part) -> None:
        for text in _Shapes(self, part).read(root):
            self.blocks.add(text)

    def _behind(self, slide: Part) -> None:
        """Add what layout and master show on all of their slides, on the first of these."""
        for layout in slide.of_kind("slideLayout"):
            if not self._package.is_first_use(layout):
                return
            try:
                root = layout.root()
                self._background(root, layout)
                if root.get("showMasterSp") not in ("0", "false"):
                    for master in layout.of_kind("slideMaster"):
                        if self._package.is_first_use(master):
                            self._background(master.root(), master)
            except DamagedPart:
                self._losses.add("missing or damaged part", "missing or damaged parts")

    def _background(self, root: Any, part: Part) -> None:
        for text in _Shapes(self, part, background=True).read(root):
            if not self.is_repeated(text):
                self.blocks.add(text)

    def is_repeated(self, text: str) -> bool:
        """Return whether the text of a footer was read before."""
        seen = text in self._repeated
        self._repeated.add(text)
        return seen

    def count_picture(self, part: Part | None) -> None:
        """Count a picture, once however often it is shown."""
        if part is None or part.name not in self._pictures:
            self._losses.add("picture", "pictures")
        if part is not None:
            self._pictures.add(part.name)

    def _people(self) -> dict[str, str]:
        """Return the names of the authors of comments by id."""
        found: dict[str, str] = {}
        for kind in ("commentAuthors", "authors"):
            for part in self._main.of_kind(kind):
                root = self._package.root_once(part)
                for each in () if root is None else root.iterchildren("*"):
                    found[each.get("id") or ""] = " ".join((each.get("name") or "").split())[:_MOST_AUTHOR_CHARS]
        return found

    def _comments(self, root: Any) -> None:
        """Add the comments of a slide, old ones (p:cm) and threads with their replies."""
        for each in () if root is None else root.iter("{*}cm", "{*}reply"):
            name = self._authors.get(each.get("authorId") or "", "")
            body = each.find("{*}txBody")
            if body is None:
                text = each.findtext(f"{P}text") or ""
            else:
                text = "\n".join(drawn_text(paragraph, self._losses) for paragraph in body.iterchildren(f"{A}p"))
            if text.strip():
                self.blocks.add(f"Comment ({name}): {text.strip()}" if name else f"Comment: {text.strip()}")


_MEDIA: Final = {
    "video": (f"{A}videoFile", f"{A}quickTimeFile"),
    "sound": (f"{A}audioFile", f"{A}wavAudioFile", f"{A}audioCd"),
}


class _Shapes:
    """Reads the shapes of a slide in their order in the file, which is also that of screen readers."""

    def __init__(self, deck: _Deck, part: Part, background: bool = False, pages: bool = True) -> None:
        self._deck, self._part = deck, part
        self._package, self._losses = part.package, part.package.losses
        self._background, self._pages = background, pages

    def read(self, root: Any) -> Iterator[str]:
        """Yield the texts of all shapes below ``root``."""
        tree = root.find(f"{P}cSld/{P}spTree")
        stack = [] if tree is None else [tree]
        while stack:
            element = stack.pop()
            if element.tag in (f"{P}spTree", f"{P}grpSp", f"{MC}Choice", f"{MC}Fallback"):
                if not self._is_hidden(element):
                    stack.extend(reversed(element))
            elif element.tag == f"{MC}AlternateContent":
                if (branch := chosen(element)) is not None:
                    stack.append(branch)
            elif (read := _KINDS.get(element.tag)) is not None and not self._is_hidden(element):
                yield from filter(None, [read(self, element).strip()])

    def _is_hidden(self, element: Any) -> bool:
        properties = element.find(f"*/{P}cNvPr")
        hidden = properties is not None and properties.get("hidden") in ("1", "true")
        if hidden:
            self._losses.add("hidden shape", "hidden shapes")
        return hidden

    def _shape(self, element: Any) -> str:
        holder = element.find(f"{P}nvSpPr/{P}nvPr/{P}ph")
        kind = None if holder is None else holder.get("type", "obj")
        if (self._background and kind is not None) or kind in ("sldNum", "sldImg", "hdr"):
            return ""
        if not self._pages and kind in ("dt", "ftr"):
            return ""
        body = element.find(f"{P}txBody")
        text = "" if body is None else _body_text(body, self._losses)
        if kind in ("dt", "ftr") and self._deck.is_repeated(text.strip()):
            return ""
        if not text.strip() and self._pages and not self._background:
            filled = element.find(f"{P}spPr/{A}blipFill/{A}blip")
            if filled is not None and not is_decoration(element.find(f"{P}nvSpPr/{P}cNvPr"), _extent(element)):
                self._deck.count_picture(self._part.related(filled.get(f"{R}embed")))
        return text

    def _picture(self, element: Any) -> str:
        for media in element.iterfind(f"{P}nvPicPr/{P}nvPr/*"):
            for kind in ("video", "sound"):
                if media.tag in _MEDIA[kind]:
                    self._losses.add(kind, f"{kind}s")
                    return ""
        decoration = is_decoration(element.find(f"{P}nvPicPr/{P}cNvPr"), _extent(element))
        if self._pages and not self._background and not decoration:
            blip = element.find(f"{P}blipFill/{A}blip")
            self._deck.count_picture(None if blip is None else self._part.related(blip.get(f"{R}embed")))
        return ""

    def _frame(self, element: Any) -> str:
        """Return the text of a table or chart, and count an embedded object or SmartArt drawing."""
        data = element.find(f"{A}graphic/{A}graphicData")
        parts = []
        for each in (
            () if data is None else data.iter(f"{A}tbl", f"{C}chart", f"{CX}chart", f"{DGM}relIds", f"{P}oleObj")
        ):
            if each.tag == f"{A}tbl":
                parts.append(_table(each, self._losses))
            elif each.tag == f"{DGM}relIds":
                self._losses.add(*SMART_ART)
            elif each.tag != f"{P}oleObj":
                key = each.get(f"{R}id")
                parts.append(chart_text(self._part.related(key), self._losses, self._package) if key else "")
            else:
                count_object(self._losses, each.get("progId") or "")
                break  # its fallback is the same object
        return "\n\n".join(filter(None, parts))

    def _content(self, element: Any) -> str:
        self._losses.add("drawing in ink", "drawings in ink")
        return ""


_KINDS: Final[dict[str, Callable[[_Shapes, Any], str]]] = {
    f"{P}sp": _Shapes._shape,
    f"{P}pic": _Shapes._picture,
    f"{P}graphicFrame": _Shapes._frame,
    f"{P}contentPart": _Shapes._content,
}


def _extent(element: Any) -> Any:
    return element.find(f"{P}spPr/{A}xfrm/{A}ext")


_AUTO: Final = {"arabic": "decimal", "alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman"} | {
    "romanUc": "upperRoman"
}


def _body_text(body: Any, losses: Losses) -> str:
    """Return the paragraphs of a text body with their automatic numbers."""
    lines = []
    counts: dict[int, tuple[str, int]] = {}
    for paragraph in body.iterchildren(f"{A}p"):
        text = drawn_text(paragraph, losses)
        properties = paragraph.find(f"{A}pPr")
        level = number_of(properties, "lvl")
        auto = None if properties is None else properties.find(f"{A}buAutoNum")
        if text.strip():
            counts = {at: count for at, count in counts.items() if at <= level}
            if auto is None:
                counts.pop(level, None)
            else:
                kind = f"{auto.get('type')} {auto.get('startAt')}"
                before, count = counts.get(level, ("", 0))
                counts[level] = (kind, count + 1 if before == kind else number_of(auto, "startAt", 1))
                text = f"{_automatic(auto.get('type') or '', counts[level][1])}{text}"
        lines.append(text)
    return "\n".join(lines)


def _automatic(kind: str, number: int) -> str:
    """Return an automatic number such as "2. " or "(b) "; "" for kinds that are not known."""
    for name, form in _AUTO.items():
        if kind.startswith(name):
            around = {"Period": "{}. ", "ParenR": "{}) ", "ParenBoth": "({}) ", "Plain": "{} "}
            return around.get(kind.removeprefix(name), "{}. ").format(written(number, form))
    return ""


def _table(table: Any, losses: Losses) -> str:
    """Return a table; the labels of merged cells repeat in each row and column that they span."""
    rows: list[list[GridCell]] = []
    above: dict[int, str] = {}
    for row in table.iterchildren(f"{A}tr"):
        cells: list[GridCell] = []
        for column, cell in enumerate(row.iterchildren(f"{A}tc")):
            if cell.get("hMerge") in ("1", "true"):
                continue
            body = cell.find(f"{A}txBody")
            text = "" if body is None else _body_text(body, losses).strip()
            if cell.get("vMerge") in ("1", "true") and not text and len(above.get(column, "")) <= MOST_REPEATED_CHARS:
                text = above.get(column, "")
            cells.append(GridCell(column, max(number_of(cell, "gridSpan", 1), 1), text))
        rows.append(cells)
        above = {cell.column: cell.text for cell in cells}
    return pipe_table(aligned(rows))
