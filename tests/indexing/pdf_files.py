"""PDF files of raw objects, for what a PDF writer does not make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

STANDARD = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


@dataclass
class RawPdf:
    """A PDF whose objects are given as text; ``add`` returns the reference of an object."""

    catalog: str = ""
    objects: list[bytes] = field(default_factory=lambda: [b"", b""])
    pages: list[str] = field(default_factory=list)

    def add(self, body: str, stream: bytes | None = None) -> str:
        """Add an object, a stream with ``stream`` as its content."""
        if stream is None:
            self.objects.append(body.encode("latin-1"))
        else:
            head = f"<< {body} /Length {len(stream)} >>\nstream\n".encode("latin-1")
            self.objects.append(head + stream + b"\nendstream")
        return f"{len(self.objects)} 0 R"

    def page(
        self,
        content: str | bytes,
        fonts: dict[str, str] | None = None,
        more: str = "",
        images: dict[str, str] | None = None,
        layers: dict[str, str] | None = None,
    ) -> str:
        """Add a page with the given content, fonts (F1 is Helvetica), images or forms, layers and further entries."""
        fonts = {"F1": STANDARD} | (fonts or {})
        named = " ".join(f"/{name} {body}" for name, body in fonts.items())
        pictures = " ".join(f"/{name} {at}" for name, at in (images or {}).items())
        properties = " ".join(f"/{name} {at}" for name, at in (layers or {}).items())
        stream = self.add("", content if isinstance(content, bytes) else content.encode("latin-1"))
        page = self.add(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {stream} "
            f"/Resources << /Font << {named} >> /XObject << {pictures} >> "
            f"/Properties << {properties} >> >> {more} >>"
        )
        self.pages.append(page)
        return page

    def image(self, width: int, height: int, pixels: bytes, more: str = "") -> str:
        """Add a grey image."""
        about = f"/Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceGray"
        return self.add(f"{about} /BitsPerComponent 8 {more}", pixels)

    def to_unicode(self, pairs: Sequence[tuple[int, int]]) -> str:
        """Add the Unicode map of a font whose codes have one byte, from pairs of code and character."""
        rows = "".join(f"<{code:02x}> <{char:04x}>\n" for code, char in pairs)
        return self.add(
            "",
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
            f"1 begincodespacerange <00> <ff> endcodespacerange\n{len(pairs)} beginbfchar\n{rows}endbfchar\n"
            "endcmap end end".encode(),
        )

    def write(self) -> bytes:
        """Return the bytes of the file."""
        self.objects[0] = f"<< /Type /Catalog /Pages 2 0 R {self.catalog} >>".encode("latin-1")
        kids = " ".join(self.pages)
        self.objects[1] = f"<< /Type /Pages /Kids [{kids}] /Count {len(self.pages)} >>".encode("latin-1")
        data, offsets = b"%PDF-1.7\n", []
        for number, body in enumerate(self.objects, start=1):
            offsets.append(len(data))
            data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
        table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
        size = len(self.objects) + 1
        end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
        return data + f"{end}startxref\n{len(data)}\n%%EOF\n".encode()


def line(text: str, x: int = 72, y: int = 720, size: int = 12, font: str = "F1") -> str:
    """Return the operators that show a line."""
    return f"BT /{font} {size} Tf {x} {y} Td ({text}) Tj ET\n"
