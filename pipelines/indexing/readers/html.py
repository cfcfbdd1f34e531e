"""HTML: visible text in reading order, one line a block, tables as pipe lines. Scripts and styles are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.readers.pipes import pipe_table
from okralong.pipelines.indexing.readers.raw import RawDocument, Reading, Source, decode

_DROPPED: Final = ["script", "style", "noscript", "template", "svg", "head"]
_PARAGRAPHS: Final = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "blockquote", "pre"})
_LINE_TAGS: Final = """
address article aside body dd div dl dt fieldset figcaption figure footer form header hr li main nav ol section tr ul
"""
_LINES: Final = frozenset(_LINE_TAGS.split())
_SPACE: Final = re.compile(r"[ \t\n\f\r\u00a0]+")
_MANY_NEWLINES: Final = re.compile(r"\n{3,}")


def read(source: Source) -> Iterator[Reading]:
    """The one document of an .html file. Raises DocumentError when the bytes are not text or hold no element."""
    tree = LexborHTMLParser(decode(source.read_bytes(), source.uri))
    if tree.body is None:
        raise DocumentError(
            f"{source.uri} holds no HTML element. Check that the page was saved whole, then index again."
        )
    title = tree.css_first("title")
    name = _SPACE.sub(" ", title.text()).strip() if title is not None else ""
    tree.strip_tags(_DROPPED)
    parts: list[str] = []
    _walk(tree.body, parts)
    # Line by line: an expression for blanks around a newline takes quadratic time where they stand without one.
    lines = "\n".join(line.strip(" \t") for line in "".join(parts).split("\n"))
    text = _MANY_NEWLINES.sub("\n\n", lines).strip()
    yield RawDocument(source.doc_id, text, source.uri, title=name)


def _walk(top: LexborNode, parts: list[str]) -> None:
    # An own stack, because saved pages nest deeper than Python recurses. A string on it is text to write.
    stack: list[LexborNode | str] = [top]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.tag == "-text":
            parts.append(_SPACE.sub(" ", node.text_content or ""))
        elif node.tag == "br":
            parts.append("\n")
        elif node.tag == "table" and node.css_first("table table") is None:
            parts.append(f"\n\n{pipe_table(_rows(node))}\n\n")
        elif node.tag and not node.tag.startswith(("-", "_", "!")):
            gap = "\n\n" if node.tag in _PARAGRAPHS else "\n" if node.tag in _LINES else ""
            gap = gap or (" " if node.tag in ("td", "th") else "")
            children: list[LexborNode | str] = list(node.iter(include_text=True))
            stack.extend([gap, *reversed(children), gap])


def _rows(table: LexborNode) -> list[list[str]]:
    rows = []
    for row in table.css("tr"):
        cells = [cell for cell in row.iter() if cell.tag in ("td", "th")]
        rows.append([_SPACE.sub(" ", cell.text(separator=" ")).strip() for cell in cells])
    return rows
