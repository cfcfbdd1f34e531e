"""Open the packages of Word and PowerPoint files: parts, relationships and document properties.

Transitional and Strict Open XML look the same to the caller. A part that is missing or damaged never hides the others.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final
from urllib.parse import unquote

from lxml import etree

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Losses, Source

_SCHEMAS: Final = "http://schemas.openxmlformats.org"
R: Final = f"{{{_SCHEMAS}/officeDocument/2006/relationships}}"
W: Final = f"{{{_SCHEMAS}/wordprocessingml/2006/main}}"
P: Final = f"{{{_SCHEMAS}/presentationml/2006/main}}"
A: Final = f"{{{_SCHEMAS}/drawingml/2006/main}}"
M: Final = f"{{{_SCHEMAS}/officeDocument/2006/math}}"
C: Final = f"{{{_SCHEMAS}/drawingml/2006/chart}}"
DGM: Final = f"{{{_SCHEMAS}/drawingml/2006/diagram}}"
MC: Final = f"{{{_SCHEMAS}/markup-compatibility/2006}}"
CX: Final = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
"""Namespaces as prefixes of tags."""

_STRICT: Final = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_OUT_OF_MEMORY: Final = ("unknown error", "out of memory", "Memory allocation")
"""Beginnings of the XML parser's messages after a failed allocation; other errors have their own."""
_UNDERSTOOD: Final = re.compile(r"(?:wps|wpg|wpc|wp14|wp15|w1\d\w*|a14|a16|p1[45]|cx\d*|c1[46]\w*|dgm\w*|v2?|o)(?: |$)")


class DamagedPart(Exception):
    """A part that cannot be unpacked or is not well-formed XML."""


@dataclass(frozen=True, slots=True)
class OfficeFormat:
    """How messages name a format, and the root element of its main part."""

    suffix: str
    old_suffix: str
    program: str
    name: str
    root: str


@dataclass(slots=True)
class Part:
    """A file within the package."""

    name: str
    package: Package
    _links: dict[str, tuple[str, str]] | None = None

    def data(self) -> bytes:
        """Return the unpacked bytes. Raises DamagedPart."""
        return self.package.read(self.name)

    def root(self) -> Any:
        """Parse the part as XML. Raises DamagedPart."""
        return _parsed(self.data())

    def related(self, key: str | None) -> Part | None:
        """Return the part with this relationship id, or None if it is missing or outside of the package."""
        return self.package.part(self._relationships().get(key or "", ("", ""))[1])

    def of_kind(self, kind: str) -> Iterator[Part]:
        """Yield related parts of a kind, the last word of the relationship's type such as "comments"."""
        for name, target in self._relationships().values():
            if name == kind and (part := self.package.part(target)) is not None:
                yield part

    def _relationships(self) -> dict[str, tuple[str, str]]:
        """Return kind and target of each internal relationship by id."""
        if self._links is None:
            self._links = {}
            folder, name = posixpath.split(self.name)
            links = self.package.part(posixpath.join(folder, "_rels", f"{name}.rels"))
            try:
                found = links.root() if links is not None else ()
            except DamagedPart:
                found = ()
                self.package.losses.add("missing or damaged part", "missing or damaged parts")
            for link in found:
                target = link.get("Target") if etree.iselement(link) and isinstance(link.tag, str) else None
                if target and link.get("TargetMode") != "External":
                    kind = (link.get("Type") or "").rsplit("/", 1)[-1]
                    self._links[link.get("Id") or ""] = (kind, posixpath.normpath(posixpath.join(folder, target)))
        return self._links


@dataclass(slots=True)
class Package:
    """The parts of a file, and what could not be read of it."""

    losses: Losses
    _zip: zipfile.ZipFile
    _names: dict[str, str]
    _parts: dict[str, Part] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, data: bytes, losses: Losses) -> Package:
        """Open a package. Raises zipfile.BadZipFile."""
        packed = zipfile.ZipFile(io.BytesIO(data))
        return cls(losses, packed, {name.replace("\\", "/").lstrip("/").lower(): name for name in packed.namelist()})

    def main(self) -> Part:
        """Return the part of the document itself. Raises DamagedPart if there is none."""
        for part in self.top().of_kind("officeDocument"):
            return part
        raise DamagedPart("it has no main part")

    def top(self) -> Part:
        """Return the package itself as the source of relationships."""
        return Part("", self)

    def part(self, name: str) -> Part | None:
        """Return the part of this name, or None."""
        key = name.lstrip("/").lower()
        key = key if key in self._names else unquote(key)
        if key not in self._names:
            return None
        return self._parts.setdefault(key, Part(key, self))

    def read(self, name: str) -> bytes:
        """Unpack a part. Raises DamagedPart."""
        try:
            return self._zip.read(self._names[name])
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError) as error:
            raise DamagedPart(str(error)) from error

    def root_once(self, part: Part | None) -> Any:
        """Parse a part on its first use, else return None; a missing or damaged part is counted.

        A file may refer to one large part a million times.
        """
        if part is not None and part.name in self._read:
            return None
        try:
            if part is None:
                raise DamagedPart
            self._read.add(part.name)
            return part.root()
        except DamagedPart:
            self.losses.add("missing or damaged part", "missing or damaged parts")
            return None

    def is_first_use(self, part: Part) -> bool:
        """Return whether a part is used for the first time."""
        first = part.name not in self._read
        self._read.add(part.name)
        return first

    def properties(self) -> tuple[str, dict[str, str]]:
        """Return the title, and as metadata the day of the last change."""
        for part in self.top().of_kind("core-properties"):
            try:
                words = {
                    etree.QName(each).localname: (each.text or "").strip() for each in part.root().iterchildren("*")
                }
            except DamagedPart:
                continue
            for day in (words.get("modified", ""), words.get("created", "")):
                try:
                    return words.get("title", ""), {"date": date.fromisoformat(day[:10]).isoformat()}
                except ValueError:
                    pass
            return words.get("title", ""), {}
        return "", {}


def open_office(source: Source, form: OfficeFormat) -> tuple[Package, Part, Any]:
    """Open a file and return its package, its main part and the root element of that part.

    Raises:
        DocumentError: The file is not a zip-based file of this format.
    """
    data = source.read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise DocumentError(
            f"{source.uri} is not a {form.suffix} file (no zip inside): it may be an old {form.old_suffix}, or be "
            f"protected by a password. Open it in a {form.program} and save it as {form.suffix} without password."
        )
    try:
        package = Package.of(data, Losses())
        main = package.main()
        root = main.root()
        if root.tag != form.root:
            raise DamagedPart(f"its main part is {etree.QName(root).localname}")
    except (DamagedPart, zipfile.BadZipFile, ValueError) as error:
        raise DocumentError(
            f"{source.uri} is a zip file, but not a complete {form.name} ({error}). Open it in a {form.program} and "
            f"save it again as {form.suffix}."
        ) from error
    return package, main, root


def _parsed(data: bytes) -> Any:
    if b"purl.oclc.org/ooxml" in data:
        data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        if str(error).startswith(_OUT_OF_MEMORY):
            raise MemoryError from error
        raise DamagedPart(str(error)) from error


def chosen(alternate: Any) -> Any:
    """Return the branch of an mc:AlternateContent that a current program shows, or None."""
    fallback = alternate.find(f"{MC}Fallback")
    for choice in alternate.iterchildren(f"{MC}Choice"):
        if fallback is None or _UNDERSTOOD.match(choice.get("Requires") or ""):
            return choice
    return fallback


def is_on(element: Any, attribute: str = f"{W}val") -> bool:
    """Return whether a switch such as <w:strike/> is present and not set to off."""
    return element is not None and element.get(attribute) not in ("0", "false", "off", "none", "noStrike")


def number_of(element: Any, attribute: str, default: int = 0) -> int:
    """Return an attribute as a number, or ``default``."""
    try:
        return int(element.get(attribute))
    except (AttributeError, TypeError, ValueError):
        return default
