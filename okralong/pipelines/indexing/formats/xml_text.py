"""Write an XML form as lines ``name: value``, indented like its elements."""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from okralong.pipelines.indexing.documents import decode

_MOST_INDENTED: Final = 20
_TAGS: Final = re.compile(r"<[^<>]*+>")


def text_of_xml(data: bytes, uri: str) -> str:
    """Return the text of an XML form; of one that is not well-formed or has entities, what is between its tags."""
    try:
        if b"<!ENTITY" not in data:
            return _Lines().of(data.strip())
    except (expat.ExpatError, LookupError, ValueError):  # the last two for an encoding that expat does not know
        pass
    return "\n".join(filter(None, map(str.strip, _TAGS.sub("\n", decode(data, uri)).split("\n"))))


class _Lines:
    """Collects the lines of a form."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open: list[int] = []  # the line of each open element
        self._said: list[str] = []

    def of(self, data: bytes) -> str:
        """Return the lines of a form. Raises expat.ExpatError if it is not well-formed."""
        parser = expat.ParserCreate(namespace_separator="}")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._said.append
        parser.Parse(data, True)
        return "\n".join(self._lines)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._flush()
        name = name.rpartition("}")[2]
        marks = [f"{key}={value}" for key, value in attributes.items() if "}" not in key]
        if name == "value" and self._open:  # the value of the element around it, whose line takes it
            self._open.append(self._open[-1])
            return
        self._open.append(len(self._lines))
        self._lines.append(self._indent(" ".join([name, *marks]), len(self._open) - 1))

    def _end(self, _name: str) -> None:
        self._flush()
        self._open.pop()

    def _flush(self) -> None:
        said = " ".join("".join(self._said).split())
        self._said.clear()
        if said and self._open[-1] == len(self._lines) - 1 and ": " not in self._lines[-1]:
            self._lines[-1] += f": {said}"
        elif said:
            self._lines.append(self._indent(said, len(self._open)))

    @staticmethod
    def _indent(said: str, depth: int) -> str:
        return "  " * min(depth, _MOST_INDENTED) + said
