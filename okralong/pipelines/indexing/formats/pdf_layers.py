"""Leave out the optional content ("layers") of a PDF that a viewer does not show.

PDFium honours it when it draws a page, but its text has all layers, and it does not tell which are on. ``with_marks``
therefore marks what is off in the file, and PDFium shows the marks to ``without_what_is_off``. Other files stay as they
are.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from ctypes import byref, c_int
from itertools import pairwise, repeat
from typing import Any, Final

import pypdfium2
import pypdfium2.raw as pdfium

_LAYERS: Final = b"/OCProperties"
_PACKED: Final = re.compile(rb"/ObjStm\b[^\x00]{0,400}?stream\r?\n")
_MARK: Final = b"OkralongOff"
"""Key that the dictionary of what is off gets."""
_MOST_DEPTH: Final = 30
"""Levels of objects, of forms and of expressions that are looked at. # project default"""
_MOST_LOOKUPS: Final = 200_000
"""Layers that the rules of a file may name: each rule may name all of them. # project default"""


def with_marks(pdf: pypdfium2.PdfDocument, data: bytes) -> bytes:
    """Return the file ``data``, which is open as ``pdf``, with marks on the layers that are off; b"" if none is.

    Raises:
        ValueError: What is off cannot be found out.
    """
    if not _may_have_layers(data):
        return b""
    copy = io.BytesIO()
    pdf.save(copy, flags=pdfium.FPDF_NO_INCREMENTAL | pdfium.FPDF_REMOVE_SECURITY)
    plain = copy.getvalue()  # no object of it is packed or encrypted
    if _LAYERS not in plain:
        return b""
    try:
        return _Marker(plain).marked()
    except MemoryError:
        raise
    except Exception as error:  # a library may fail in any way on a damaged file
        raise ValueError(str(error)) from error


def _may_have_layers(data: bytes) -> bool:
    """Return whether a file has layers, or packs its objects so that nobody can see it quickly."""
    if _LAYERS in data:
        return True
    for stream in _PACKED.finditer(data):
        if b"/Predictor" in stream[0]:
            return True
        try:
            if _LAYERS in zlib.decompressobj().decompress(data[stream.end() : data.find(b"endstream", stream.end())]):
                return True
        except zlib.error:  # encrypted, or packed in another way
            return True
    return False


class _Marker:
    """Finds what is off in a file without packed objects, and marks it."""

    def __init__(self, data: bytes) -> None:
        from pypdf import PdfReader

        self._data, self._looked_up = data, 0
        self._reader: Any = PdfReader(io.BytesIO(data))
        properties = _resolved(self._reader.root_object.get("/OCProperties"))
        self._off = frozenset(_layers_off(properties)) if isinstance(properties, dict) else frozenset[int]()

    def marked(self) -> bytes:
        """Return the file with an update of all objects that are off, b"" if there are none."""
        from pypdf.generic import IndirectObject

        if not self._off:
            return b""
        out = io.BytesIO(self._data)
        places: dict[int, tuple[int, int]] = {}
        listed = [
            (at, number, generation) for generation, all in self._reader.xref.items() for number, at in all.items()
        ]
        for (start, number, generation), (end, *_) in pairwise([*sorted(listed), (len(self._data), 0, 0)]):
            if b"/OC" not in self._data[start:end]:
                continue
            found = self._reader.get_object(IndirectObject(number, generation, self._reader))
            if self._mark(found, number, 0):
                places[number] = out.seek(0, io.SEEK_END), generation
                out.write(b"%d %d obj\n" % (number, generation))
                found.write_to_stream(out)
                out.write(b"\nendobj\n")
        return self._updated(out, places) if places else b""

    def _mark(self, thing: Any, number: int, depth: int) -> bool:
        """Mark what is off in an object, and return whether something is; ``number`` is 0 within an object."""
        from pypdf.generic import NameObject, NumberObject, StreamObject

        if depth > _MOST_DEPTH:
            return False
        changed = False
        for each in thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list) else ():
            changed |= isinstance(each, dict | list) and self._mark(each, 0, depth + 1)
        if not isinstance(thing, dict):
            return changed
        if thing.get("/Type") in ("/OCG", "/OCMD") and not self._is_on(thing, number):
            thing[NameObject(f"/{_MARK.decode()}")] = NumberObject(1)
            return True
        layer = thing.get("/OC")
        if layer is None or self._is_on(_resolved(layer), _number(layer)):
            return changed
        if isinstance(thing, StreamObject) and thing.get("/Subtype") == "/Form":
            thing._data = b"/OC <</%b 1>> BDC\n%b\nEMC" % (_MARK, thing.get_data())
            for key in ("/Filter", "/DecodeParms"):
                thing.pop(key, None)
        elif "/Rect" in thing:  # an annotation
            flags = int(_resolved(thing.get("/F", 0)) or 0)
            thing[NameObject("/F")] = NumberObject(flags | pdfium.FPDF_ANNOT_FLAG_HIDDEN)
        return True

    def _is_on(self, layer: Any, number: int) -> bool:
        """Return whether a layer, or a rule over several ones, is on."""
        if not isinstance(layer, dict):
            return True
        if layer.get("/Type") != "/OCMD":
            self._looked_up += 1
            if self._looked_up > _MOST_LOOKUPS:
                raise ValueError("its rules name too many layers")
            return number not in self._off
        rule = _resolved(layer.get("/VE"))
        if isinstance(rule, list):
            return self._holds(rule, 0)
        given = layer.get("/OCGs")
        named = _resolved(given) if isinstance(_resolved(given), list) else [given]
        layers = [(_resolved(each), _number(each)) for each in named]
        states = [self._is_on(each, number) for each, number in layers if isinstance(each, dict)]
        policy = layer.get("/P", "/AnyOn")
        wanted = policy in ("/AnyOn", "/AllOn")
        quantified = all if policy in ("/AllOn", "/AllOff") else any
        return not states or quantified(state is wanted for state in states)

    def _holds(self, rule: Any, depth: int) -> bool:
        """Return whether an expression over layers holds: ``[/And A [/Not B]]``."""
        number, rule = _number(rule), _resolved(rule)
        if not isinstance(rule, list) or not rule or depth > _MOST_DEPTH:
            return self._is_on(rule, number)
        held = [self._holds(each, depth + 1) for each in rule[1:]]
        if rule[0] == "/Not":
            return not all(held)
        return any(held) if rule[0] == "/Or" else all(held)

    def _updated(self, out: io.BytesIO, places: dict[int, tuple[int, int]]) -> bytes:
        """Append the table of the objects that were written anew."""
        from pypdf.generic import DictionaryObject, NameObject, NumberObject

        start = out.seek(0, io.SEEK_END)
        out.write(b"xref\n")
        for number, (at, generation) in sorted(places.items()):
            out.write(b"%d 1\n%010d %05d n \n" % (number, at, generation))
        old, kept = self._reader.trailer, ("/Root", "/Info", "/ID", "/Size")
        trailer = DictionaryObject({NameObject(key): old.raw_get(key) for key in kept if key in old})
        trailer[NameObject("/Prev")] = NumberObject(int(self._data[self._data.rindex(b"startxref") :].split()[1]))
        out.write(b"trailer\n")
        trailer.write_to_stream(out)
        out.write(b"\nstartxref\n%d\n%%%%EOF\n" % start)
        return out.getvalue()


def _resolved(thing: Any) -> Any:
    return thing.get_object() if hasattr(thing, "get_object") else thing


def _layers_off(properties: Any) -> Iterator[int]:
    """Yield the numbers of the layers that are off when the document is opened."""
    config = _resolved(properties.get("/D"))
    config = config if isinstance(config, dict) else {}
    listed = {key: _numbers(config.get(key)) for key in ("/ON", "/OFF")}
    viewed: set[int] = set()
    for each in _resolved(config.get("/AS")) or ():
        usage = _resolved(each)
        if isinstance(usage, dict) and usage.get("/Event", "/View") == "/View":
            viewed |= _numbers(usage.get("/OCGs"))
    for each in _resolved(properties.get("/OCGs")) or ():
        number, layer = _number(each), _resolved(each)
        off = config.get("/BaseState") == "/OFF" and number not in listed["/ON"]
        off |= number in listed["/OFF"]
        if number in viewed and isinstance(layer, dict):
            view = _resolved((_resolved(layer.get("/Usage")) or {}).get("/View")) or {}
            off = view.get("/ViewState", "/OFF" if off else "/ON") == "/OFF"
        if off:
            yield number


def _number(reference: Any) -> int:
    """Return the number of the object that is referred to, 0 for an object itself."""
    return getattr(reference, "idnum", 0)


def _numbers(array: Any) -> set[int]:
    array = _resolved(array)
    return set(map(_number, array)) if isinstance(array, list) else set()


def without_what_is_off(page: Any) -> bool:
    """Remove the content of a page that is marked as off, and return whether it had text."""
    has_text = False
    waiting = [(page.raw, False, 0)]
    while waiting:
        holder, is_form, depth = waiting.pop()
        remove = pdfium.FPDFFormObj_RemoveObject if is_form else pdfium.FPDFPage_RemoveObject
        for each in list(_objects(holder, is_form=is_form)):
            if _is_off(each):
                has_text = has_text or _has_text(each, depth)
                if remove(holder, each):
                    pdfium.FPDFPageObj_Destroy(each)
            elif depth < _MOST_DEPTH and pdfium.FPDFPageObj_GetType(each) == pdfium.FPDF_PAGEOBJ_FORM:
                waiting.append((each, True, depth + 1))
    return has_text


def _objects(holder: Any, *, is_form: bool) -> Iterator[Any]:
    if is_form:
        return map(pdfium.FPDFFormObj_GetObject, repeat(holder), range(pdfium.FPDFFormObj_CountObjects(holder)))
    return map(pdfium.FPDFPage_GetObject, repeat(holder), range(pdfium.FPDFPage_CountObjects(holder)))


def _has_text(thing: Any, depth: int) -> bool:
    kind = pdfium.FPDFPageObj_GetType(thing)
    if kind != pdfium.FPDF_PAGEOBJ_FORM or depth > _MOST_DEPTH:
        return bool(kind == pdfium.FPDF_PAGEOBJ_TEXT)
    return any(_has_text(each, depth + 1) for each in _objects(thing, is_form=True))


def _is_off(thing: Any) -> bool:
    value = c_int()
    marks = map(pdfium.FPDFPageObj_GetMark, repeat(thing), range(pdfium.FPDFPageObj_CountMarks(thing)))
    return any(pdfium.FPDFPageObjMark_GetParamIntValue(mark, _MARK, byref(value)) for mark in marks)
