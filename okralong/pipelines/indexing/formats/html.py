"""Parse web pages: the text that a viewer shows, with its headings, its tables as lines, and the facts tagged in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from okralong.pipelines.core.types import DocumentError, Fact, Section
from okralong.pipelines.indexing.documents import Losses, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats.flow import SPACE, Flow, Place
from okralong.pipelines.indexing.formats.html_markup import as_html, decode_html
from okralong.pipelines.indexing.formats.html_style import NOTHING, Effect, Styles
from okralong.pipelines.indexing.formats.html_table import Table
from okralong.pipelines.indexing.formats.ixbrl import Tags
from okralong.pipelines.indexing.formats.text import heading_name


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page: its title, what a viewer shows of it, the facts tagged in that, and what is no text."""

    title: str
    text: str
    sections: tuple[Section, ...] = ()
    facts: tuple[Fact, ...] = ()
    losses: Losses = field(default_factory=Losses)


def read_html(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of an .html file. Raises DocumentError if the bytes are not text or hold no element."""
    losses = Losses()
    page = page_of_html(decode_html(source.read_bytes(), source.uri, losses), source.uri)
    losses.include(page.losses)
    metadata = losses.metadata()
    yield RawDocument(source.doc_id, page.text, source.uri, page.title, "", metadata, page.sections, page.facts)


def page_of_html(markup: str, uri: str) -> Page:
    """Return the page that ``markup`` describes. Raises DocumentError if it holds no element."""
    markup = as_html(markup)
    tree = LexborHTMLParser(markup)
    top = tree.body if tree.body is not None else tree.css_first("frameset")
    if top is None:
        raise DocumentError(f"{uri} holds no HTML element. Check that the page was saved completely, then index again.")
    title = tree.css_first("head title")
    name = SPACE.sub(" ", title.text()).strip() if title is not None else ""
    reader = _Reader(Styles(_sheets(tree), tree.css_first("link[rel~=stylesheet]") is None), Tags.of(tree, markup))
    reader.read(top)
    return reader.page(name)


def _sheets(tree: LexborHTMLParser) -> Iterator[str]:
    for node in tree.css("style"):
        media = (node.attributes.get("media") or "").lower()
        if not media or "screen" in media or "all" in media:
            yield node.text()


# The walk over the page.

_NO_TEXT_TAGS: Final = """
annotation annotation-xml area clippath col colgroup datalist defs desc head map mask metadata noembed noscript param rp
script source style symbol template title track
"""
_NO_TEXT: Final = frozenset(_NO_TEXT_TAGS.split())
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_PARAGRAPHS: Final = _HEADINGS | {"p", "blockquote", "pre", "listing", "xmp"}
_LINES: Final = frozenset({"li", "dt", "dd", "tr", "caption"})
_BLOCK_TAGS: Final = """
address article aside center details dialog dir div dl fieldset figcaption figure footer form header hgroup legend main
menu nav ol optgroup search section summary table ul
"""
_BLOCKS: Final = frozenset(_BLOCK_TAGS.split())
_APART: Final = frozenset({"td", "th", "option", "button", "text"})
_PREFORMATTED: Final = frozenset({"pre", "listing", "xmp", "textarea", "plaintext"})
_STRUCK: Final = frozenset({"del", "s", "strike"})
_LISTS: Final = frozenset({"ol", "ul", "menu", "dir"})
_SIGNS: Final = {
    "mfrac": ("", "/"),
    "msup": ("", "^"),
    "msub": ("", "_"),
    "msubsup": ("", "_", "^"),
    "munderover": ("", "_", "^"),
}
"""Elements of MathML whose parts are no text in a row, and what stands before each part."""
_GROUPS: Final = {"thead": 0, "tbody": 1, "tfoot": 2}
_HEADING: Final = "heading"
_MOST_NESTED_TABLES: Final = 8
"""Tables within tables that are written as such; of deeper ones the text is kept. # project default"""

_INVISIBLE, _TINY, _PRE, _SVG, _STRIKE, _RAISED, _FLEX, _PALE, _BACKED = (1 << bit for bit in range(9))
"""What an element inherits; ``_FLEX`` from its parent only."""

_Then = Callable[[], None]
_Step = tuple[LexborNode, int] | _Then


class _Reader:
    """Writes the text of a page."""

    def __init__(self, styles: Styles, tags: Tags | None) -> None:
        self._styles = styles
        self._tags = tags
        self._flow = Flow()
        self._tables: list[Table | None] = []  # None for the inside of a cell, and for tables nested too deeply
        self._depth = 0
        self._lists: list[_List] = []
        self._inner: list[LexborHTMLParser] = []
        self._losses = Losses()

    def page(self, title: str) -> Page:
        """Return the finished page."""
        text = self._flow.finished()
        sections = (
            Section("heading", name, place.start)
            for place in self._flow.places
            if place.what is _HEADING and (name := heading_name(text[place.start : place.end]))
        )
        facts = self._tags.facts(self._flow.places, text, self._losses) if self._tags is not None else ()
        return Page(title, text, tuple(sections), facts, self._losses)

    def read(self, top: LexborNode) -> None:
        """Write everything below ``top``."""
        # An explicit stack, because saved pages nest deeper than Python's recursion limit.
        outer = top.parent
        around = self._styles.effect("html", outer.attributes) if outer is not None and outer.tag == "html" else NOTHING
        stack: list[_Step] = [(top, _BACKED if around.backed else 0)]
        while stack:
            step = stack.pop()
            if not isinstance(step, tuple):
                step()
                continue
            node, state = step
            tag = node.tag or "-"
            if tag == "-text":
                self._text(node.text_content or "", state)
            elif not tag.startswith(("-", "_", "!")) and tag not in _NO_TEXT:
                self._element(node, tag, state, stack)

    def _text(self, said: str, state: int) -> None:
        is_between_cells = bool(self._tables) and self._tables[-1] is not None
        if _is_unseen(state) or state & _SVG or (is_between_cells and not said.strip()):
            return
        if state & _PRE:
            self._flow.preformatted(said)
        else:
            self._flow.text(said)

    def _element(self, node: LexborNode, tag: str, state: int, stack: list[_Step]) -> None:
        attributes = node.attributes
        effect = self._styles.effect(tag, attributes)
        if tag == "body":  # where it is hidden, a script shows it when the page is loaded
            effect = NOTHING if effect.gone else replace(effect, hidden=None, tiny=None)
        if effect.gone or (tag == "dialog" and "open" not in attributes):
            return
        if self._tags is not None and self._tags.hides(tag):
            return
        within = _inherited(tag, effect, state)
        if tag in _REPLACED:
            children = self._replaced(node, tag, attributes, within)
            stack.extend([(child, within) for child in children])
            return
        if tag in _SIGNS:
            stack.extend(reversed(self._formula(node, tag, within)))
            return
        then = self._begin(node, tag, effect, state, within)
        stack.extend(reversed(then))
        if effect.flex:
            within |= _FLEX
        children = _chosen(node) if tag == "select" else list(node.iter(include_text=True))
        stack.extend([(child, within) for child in reversed(children)])

    def _begin(self, node: LexborNode, tag: str, effect: Effect, state: int, within: int) -> list[_Then]:
        """Write what precedes an element's content; return what to do after it, in order."""
        kind = effect.display or tag
        table = self._tables[-1] if self._tables else None
        if kind == "table":
            return self._begin_table()
        if table is not None:
            if kind in ("tr", "row"):
                table.row()
                return []
            if kind in ("td", "th", "cell"):
                return [self._enter_cell(table.cell(*map(node.attributes.get, ("colspan", "rowspan"))))]
            if kind == "caption":
                return [self._enter_cell(table.caption)]
            table.group = _GROUPS.get(tag, table.group)
        then: list[_Then] = []
        flow = self._flow
        if effect.apart or state & _FLEX or tag in _APART:
            then.append(_apart(flow, effect.wide))
        if effect.display != "inline":
            is_block = effect.display == "block" and tag not in _LINES | _PARAGRAPHS
            is_inner_list = bool(self._lists) and tag in _LISTS
            then += _gaps(flow, "li" if is_inner_list else "div" if is_block else tag)
        if self._tags is not None and not _is_unseen(within):
            if (what := self._tags.tag(tag, node.attributes)) is not None:
                then.insert(0, _noted(flow, what))
            elif self._tags.excludes(tag):
                then += _gaps(flow, "li")
        if tag in _HEADINGS:
            then.insert(0, _noted(flow, _HEADING))
        elif tag in _LISTS:
            self._lists.append(_List.of(node, tag, effect))
            then.insert(0, self._end_list)
        elif tag == "li" and self._lists:
            flow.lead = self._lists[-1].mark(node.attributes.get("value"))
        elif tag == "rt":
            flow.write("(")
            then.insert(0, lambda: flow.write(")"))
        elif tag == "q":
            flow.write("\u201c")
            then.insert(0, lambda: flow.write("\u201d"))
        if within & _RAISED and not state & _RAISED:
            following = node.next
            begins = (following.text_content or "")[:1] if following is not None and following.is_text_node else ""
            then.insert(0, self._capture(lambda mark: _write_mark(flow, mark, begins)))
        elif within & _STRIKE and not state & _STRIKE:
            then.insert(0, self._capture(lambda struck: _write_struck(flow, struck)))
        return then

    def _formula(self, node: LexborNode, tag: str, state: int) -> list[_Step]:
        """Return how to write a part of a formula in MathML on a line, such as ``(a+b)/c``."""
        steps: list[_Step] = []
        for number, part in enumerate(node.iter()):
            is_wide = tag == "msqrt" or len(list(part.iter())) > 1
            before = _SIGNS[tag][min(number, len(_SIGNS[tag]) - 1)] + ("(" if is_wide else "")
            steps.append(partial(self._flow.write, before))
            steps.append((part, state))
            steps.append(partial(self._flow.write, ")" if is_wide else ""))
        return steps

    def _begin_table(self) -> list[_Then]:
        flow, within = self._flow, self._depth > 0
        if self._depth == _MOST_NESTED_TABLES:
            self._tables.append(None)
            return [self._end_table, *_gaps(flow, "table")]
        table = Table()
        self._tables.append(table)

        def end() -> None:
            self._tables.pop()
            table.write(flow, within)

        return [end]

    def _end_table(self) -> None:
        self._tables.pop()

    def _end_list(self) -> None:
        self._lists.pop()

    def _enter_cell(self, cell: Flow) -> _Then:
        outer, lists = self._flow, self._lists
        self._flow, self._lists = cell, []
        self._tables.append(None)
        self._depth += 1

        def leave() -> None:
            self._flow, self._lists = outer, lists
            self._tables.pop()
            self._depth -= 1

        return leave

    def _capture(self, write: Callable[[Flow], None]) -> _Then:
        """Collect what follows in a flow of its own, and give it to ``write`` afterwards."""
        outer, inner = self._flow, Flow()
        self._flow = inner

        def leave() -> None:
            self._flow = outer
            write(inner)

        return leave

    # Elements that stand for something else than the text in them.

    def _replaced(self, node: LexborNode, tag: str, said: dict[str, str | None], state: int) -> list[LexborNode]:
        """Write or count such an element; return nodes to read in its place."""
        flow, seen = self._flow, not _is_unseen(state)
        if tag == "br":
            flow.newline()
        elif tag == "hr":
            flow.newline(2)
        elif tag == "input":
            if seen and (shown := _shown_value(said)):
                flow.blank()
                flow.text(shown)
                flow.blank()
        elif tag in ("img", "image"):
            if seen and not _is_small(said):
                self._picture(said)
        elif tag == "noframes" or (tag == "iframe" and said.get("srcdoc")):
            return self._page_within(said.get("srcdoc") or node.text())
        elif seen and not _is_small(said) and (tag not in ("iframe", "frame", "embed") or said.get("src")):
            self._losses.add(*_COUNTED[tag])
        return []

    def _picture(self, said: dict[str, str | None]) -> None:
        alt = SPACE.sub(" ", said.get("alt") or "").strip()[:_MOST_ALT_CHARS]
        if alt and not _FILE_NAME.search(alt):
            self._flow.blank()
            self._flow.write(f"[{alt}]")
            self._flow.blank()
        source = (said.get("src") or said.get("href") or said.get("xlink:href") or "")[-_MOST_NAME_CHARS:]
        names = (source.rpartition("/")[2], alt, said.get("class") or "", said.get("id") or "")
        about = " ".join(name[:_MOST_NAME_CHARS] for name in names)
        if ("alt" not in said or alt) and not _DECORATION.search(about):
            self._losses.add("picture", "pictures")

    def _page_within(self, markup: str) -> list[LexborNode]:
        tree = LexborHTMLParser(markup)
        self._inner.append(tree)  # the nodes live as long as their tree
        return [tree.body] if tree.body is not None else []


def _is_unseen(state: int) -> bool:
    return bool(state & (_INVISIBLE | _TINY)) or state & (_PALE | _BACKED) == _PALE


def _inherited(tag: str, effect: Effect, state: int) -> int:
    state &= ~_FLEX
    if effect.hidden is not None:
        state = state | _INVISIBLE if effect.hidden else state & ~_INVISIBLE
    if effect.tiny is not None:
        state = state | _TINY if effect.tiny else state & ~_TINY
    if effect.pale is not None:
        state = state | _PALE if effect.pale else state & ~_PALE
    if effect.backed is not None:
        state = state | _BACKED if effect.backed else state & ~_BACKED
    if effect.pre is not None or tag in _PREFORMATTED:
        state = state | _PRE if effect.pre or effect.pre is None else state & ~_PRE
    if tag == "svg":
        state |= _SVG
    elif state & _SVG and tag in ("text", "foreignobject"):
        state &= ~_SVG
    if tag in _STRUCK or effect.struck:
        state |= _STRIKE
    if tag == "sup" or effect.raised:
        state |= _RAISED
    return state


def _gaps(flow: Flow, tag: str) -> list[_Then]:
    """Set off a block from what precedes it; return what sets it off from what follows."""
    if tag in _PARAGRAPHS:
        flow.newline(2)
        return [lambda: flow.newline(2)]
    if tag in _LINES:
        flow.fresh_line()
        return [flow.fresh_line]
    if tag in _BLOCKS:
        flow.newline()
        return [flow.newline]
    return []


def _apart(flow: Flow, is_wide: bool) -> _Then:
    """Set off an element by blanks, unless it turns out to be empty."""
    before = flow.begin_apart()
    return lambda: flow.end_apart(before, is_wide)


def _noted(flow: Flow, what: object) -> _Then:
    """Note where something begins; return what notes where it ends."""
    place = flow.open(what)
    return lambda: flow.close(place)


def _chosen(select: LexborNode) -> list[LexborNode]:
    """Return the options of a list that are chosen: the first one where nothing else is said."""
    options = select.css("option")
    chosen = [option for option in options if "selected" in option.attributes]
    return chosen or (options if "multiple" in select.attributes else options[:1])


# Lists.


@dataclass(slots=True)
class _List:
    """A list of kind 1, a, A, i or I, "-" without numbers, "" without marks, and its next number."""

    kind: str
    number: int = 1

    @classmethod
    def of(cls, node: LexborNode, tag: str, effect: Effect) -> _List:
        """Return the list that an element begins."""
        if effect.unmarked:
            return cls("")
        if tag != "ol":
            return cls("-")
        kind = node.attributes.get("type") or "1"
        return cls(kind if kind in ("a", "A", "i", "I") else "1", _whole(node.attributes.get("start"), 1))

    def mark(self, value: str | None) -> str:
        """Return what precedes the next item, whose number may be given."""
        if self.kind in ("", "-"):
            return f"{self.kind} ".lstrip()
        number = _whole(value, self.number)
        self.number = number + 1
        return f"{_numeral(number, self.kind)}. "


def _whole(said: str | None, otherwise: int) -> int:
    try:
        return int((said or "")[:9])
    except ValueError:
        return otherwise


_ROMAN: Final = ((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


def _numeral(number: int, kind: str) -> str:
    if kind in "aA" and 1 <= number <= 26:
        letter = chr(ord("a") + number - 1)
        return letter.upper() if kind == "A" else letter
    if kind in "iI" and 1 <= number < 40:
        said, left = "", number
        for value, sign in _ROMAN:
            said += sign * (left // value)
            left %= value
        return said.upper() if kind == "I" else said
    return str(number)


# Marks of footnotes, exponents, and struck-through text.

_MOST_MARK_CHARS: Final = 12
_JOINED_MARK: Final = re.compile(
    r"[A-Za-z]{2,}|[\u2122\u00ae\u00a9\u2120\u00b0\u00ba\u00aa*\u2020\u2021\u00a7\u00b6#.]+"
)
_BARE_MARK: Final = re.compile(r"[A-Za-z\d](?:[A-Za-z\d,\s]*[A-Za-z\d])?")
_POWER: Final = re.compile(r"[+\u2212\u2013-]?\d{1,3}")
_BASE: Final = re.compile(r"(?:(?<![\d.,$\u20ac\u00a3])10|(?<![A-Za-z])(?:[A-Za-z]|km|cm|mm|ft|mi|yd|in|sq))$")


def _write_mark(flow: Flow, raised: Flow, begins: str) -> None:
    """Write raised text so that it does not run into a number: a power as ``10^6``, a footnote's mark as ``1,204 (1)``.

    ``begins`` is the character that follows.
    """
    said, before = raised.finished(), flow.tail()
    if not said:
        return
    is_short = len(said) <= _MOST_MARK_CHARS and "\n" not in said
    if not is_short or (before[-1:].isalnum() and _JOINED_MARK.fullmatch(said)):
        flow.add(said, raised.places, raised.has_table)
    elif before and begins in ("/", "\u2044") and said.isdigit():
        flow.blank()
        flow.add(said, raised.places)
    elif before and _POWER.fullmatch(said) and _BASE.search(before):
        flow.write("^")
        flow.add(said, raised.places)
    else:
        flow.blank()
        is_bare = bool(_BARE_MARK.fullmatch(said))
        flow.mark(f"({said})" if is_bare else said)
        for place in raised.places:
            flow.places.append(Place(place.what, flow.size - len(said) - is_bare, flow.size - is_bare))


def _write_struck(flow: Flow, struck: Flow) -> None:
    said = struck.finished()
    if not said or "\n" in said:
        flow.add(said, struck.places, struck.has_table)
        return
    if flow.tail()[-1:].isalnum():
        flow.blank()
    flow.write("~~")
    flow.add(said, struck.places)
    flow.mark("~~")


# Pictures, forms, and pages within the page.

_COUNTED: Final = {
    "iframe": ("embedded page", "embedded pages"),
    "frame": ("embedded page", "embedded pages"),
    "object": ("embedded object", "embedded objects"),
    "embed": ("embedded object", "embedded objects"),
    "applet": ("embedded object", "embedded objects"),
    "video": ("video", "videos"),
    "audio": ("audio recording", "audio recordings"),
    "canvas": ("drawing made by a script", "drawings made by scripts"),
}
_REPLACED: Final = frozenset({"br", "hr", "input", "img", "image", "noframes", *_COUNTED})
_MOST_ALT_CHARS: Final = 500
_MOST_NAME_CHARS: Final = 200
_SMALL_PX: Final = 40
"""Pictures of less height or width are icons, lines and counters. # project default"""
_FILE_NAME: Final = re.compile(r"^\S+\.(?:jpe?g|gif|png|svg|webp|bmp|tiff?)$", re.IGNORECASE)
_DECORATION: Final = re.compile(
    r"logo|icon|spacer|pixel|bullet|avatar|badge|arrow|blank|transparent|beacon|track|emoji|banner", re.IGNORECASE
)


def _is_small(said: dict[str, str | None]) -> bool:
    sizes = [said.get("width"), said.get("height")]
    sizes += [match[1] for match in _STYLE_SIZE.finditer((said.get("style") or "")[:1_000])]
    return any(
        0 <= _whole((size or "").strip().removesuffix("px").partition(".")[0], _SMALL_PX) < _SMALL_PX for size in sizes
    )


_STYLE_SIZE: Final = re.compile(r"(?<![\w-])(?:width|height)\s*:\s*(\d{1,5}(?:\.\d{1,5})?px)", re.IGNORECASE)
_NO_VALUE: Final = frozenset({"hidden", "password", "file", "reset", "color", "range"})


def _shown_value(said: dict[str, str | None]) -> str:
    """Return what an input field shows."""
    kind = (said.get("type") or "text").lower()
    if kind in ("checkbox", "radio"):
        return "[x]" if "checked" in said else "[ ]"
    if kind == "image":
        return said.get("alt") or ""
    return "" if kind in _NO_VALUE else said.get("value") or ""
