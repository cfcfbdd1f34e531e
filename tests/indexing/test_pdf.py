"""What a PDF holds besides plain text: each kind is read, or counted, or the file is a failure that says why."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import pypdf
import pypdfium2
import pytest
from PIL import Image, ImageDraw, ImageFont

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import RawDocument, Source
from okralong.pipelines.indexing.formats.ocr import NO_OCR, WHY_NOT, Ocr
from okralong.pipelines.indexing.formats.pdf import PAGES_WITHOUT_TEXT, read_pdf
from tests.indexing.growth import LINEAR, growth
from tests.indexing.pdf_files import STANDARD, RawPdf, line
from tests.indexing.test_legible import TEXTS
from tests.indexing.tiny_pdf import tiny_pdf

PROSE = (
    "Revenue rose because the harbour reopened and ferries crossed twice every weekday morning",
    "while costs of diesel, insurance and mooring fell slightly below those budgeted last autumn",
    "by the owners; depreciation remained unchanged, deferred taxes and provisions increased.",
)
OFF = Ocr(WHY_NOT["off"])


def read(tmp_path: Path, data: bytes | RawPdf, ocr: Ocr = NO_OCR) -> RawDocument:
    file = tmp_path / "a.pdf"
    file.write_bytes(data.write() if isinstance(data, RawPdf) else data)
    (found,) = read_pdf(Source(str(file), "a"), ocr)
    assert isinstance(found, RawDocument)
    return found


def text_of(tmp_path: Path, content: str, **page: object) -> str:
    pdf = RawPdf()
    pdf.page(content, **page)  # type: ignore[arg-type]
    return read(tmp_path, pdf).text


def paragraph(lines: tuple[str, ...] = PROSE, font: str = "F1") -> str:
    return "".join(line(each, y=720 - 16 * row, font=font) for row, each in enumerate(lines))


def on_ocr(pages: int = 10) -> Ocr:
    return Ocr(why_not="", most_pages=pages)


# Text.


@pytest.mark.documented(".pdf", "text")
def test_pages_are_cited(tmp_path: Path) -> None:
    found = read(tmp_path, tiny_pdf(["First page.", "Second page."]))
    assert found.text == "First page.\n\nSecond page."
    assert [(each.kind, each.name, each.start_char) for each in found.sections] == [("page", "1", 0), ("page", "2", 13)]
    assert found.metadata == {"pages": "2"}


@pytest.mark.documented(".pdf", "rotated pages, text from right to left or from top to bottom")
def test_directions(tmp_path: Path) -> None:
    turned = "BT /F1 12 Tf 0 1 -1 0 300 300 Tm (First line) Tj ET BT /F1 12 Tf 0 1 -1 0 316 300 Tm (Second line) Tj ET"
    assert text_of(tmp_path, turned, more="/Rotate 90") == "First line\nSecond line"
    assert text_of(tmp_path, turned) == "First line\nSecond line"
    down = "".join(line(char, y=700 - 14 * row) for row, char in enumerate("DOWN"))
    assert text_of(tmp_path, down) == "DOWN"
    pdf = RawPdf()
    hebrew = pdf.to_unicode([(0x41 + n, 0x5D0 + n) for n in range(10)])
    pdf.page(line("CBA FED", font="F2"), {"F2": f"{STANDARD[:-2]} /ToUnicode {hebrew} >>"})
    assert read(tmp_path, pdf).text == "דהו אבג"


def test_arabic_words_as_chrome_prints_them(tmp_path: Path) -> None:
    words = TEXTS["Arabic"].split()
    content = ""
    for row, word in enumerate(words):
        spans = "".join(f"/Span << /ActualText <FEFF{ord(char):04X}> >> BDC (x) Tj EMC " for char in reversed(word))
        content += f"BT /ReversedChars BMC /F1 12 Tf 72 {760 - 15 * row} Td {spans} EMC ET\n"
    read_back = text_of(tmp_path, content).split()
    assert sum(map(str.__eq__, words, read_back)) > 0.75 * len(words)


@pytest.mark.documented(".pdf", "raised digits behind figures")
def test_raised_digits_stand_apart_from_figures(tmp_path: Path) -> None:
    def shown(base: str, mark: str, rest: str, y: int, rise: int = 5, size: int = 7) -> str:
        begin = f"BT /F1 12 Tf 72 {y} Td ({base}) Tj "
        return f"{begin}/F1 {size} Tf {rise} Ts ({mark}) Tj /F1 12 Tf 0 Ts ({rest}) Tj ET\n"

    content = shown("Sales were 1,204", "1", "", 720) + shown("and 10", "6", " units, 2021", 700)
    content += shown("Year 2022", "5", " 2021", 680) + shown("Level 20", "21", " low", 660, rise=-3)
    content += shown("Large 20", "21", " type", 640, size=12)
    assert text_of(tmp_path, content) == (
        "Sales were 1,204 (1)\nand 10^6 units, 2021\nYear 2022 (5) 2021\nLevel 2021 low\nLarge 2021 type"
    )


def test_a_page_of_raised_digits_takes_linear_time(tmp_path: Path) -> None:
    def work(size: int) -> None:
        marked = "/F1 12 Tf 0 Ts (1,204) Tj /F1 7 Tf 5 Ts (1) Tj /F1 12 Tf 0 Ts ( ) Tj "
        text_of(tmp_path, f"BT 1 0 0 1 9 720 Tm {marked * size} ET\n")

    assert growth(work, 500) < LINEAR


@pytest.mark.documented(".pdf", "ligatures")
@pytest.mark.documented(".pdf", "hyphens at the end of a line")
def test_ligatures_and_hyphens(tmp_path: Path) -> None:
    pdf = RawPdf()
    ligatures = pdf.to_unicode([(1, 0xFB01), (2, 0xFB03)])
    pdf.page(line("\\001nancial o\\002ce", font="F2"), {"F2": f"{STANDARD[:-2]} /ToUnicode {ligatures} >>"})
    assert read(tmp_path, pdf).text == "financial office"
    assert text_of(tmp_path, line("long-") + line("term debt", y=706)) == "long-term debt"


@pytest.mark.documented(".pdf", "bold text that is drawn twice")
def test_text_drawn_twice(tmp_path: Path) -> None:
    twice = "".join(f"BT /F1 12 Tf {x} 720 Td (Total 1,234) Tj ET\n" for x in (72, 72.3, 72.6))
    assert text_of(tmp_path, twice) == "Total 1,234"


@pytest.mark.documented(".pdf", "white or tiny text")
def test_text_that_is_hard_to_see(tmp_path: Path) -> None:
    white = "1 1 1 rg " + line("white") + line("tiny", y=600, size=1) + "/OC /L BDC " + line("layer", y=500) + "EMC"
    assert text_of(tmp_path, white) == "white\ntiny\nlayer"


@pytest.mark.documented(".pdf", "text outside the page or its crop box")
def test_text_outside_the_page(tmp_path: Path) -> None:
    outside = line("inside") + line("below", y=20) + line("beside", x=900)
    assert text_of(tmp_path, outside, more="/CropBox [0 100 612 792]") == "inside"


@pytest.mark.documented(".pdf", "links, bookmarks, alternative texts")
def test_what_is_beside_the_text(tmp_path: Path) -> None:
    pdf = RawPdf("/Outlines 3 0 R")
    pdf.add("<< /Type /Outlines /Count 1 >>")
    link = pdf.add("<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI (https://example.org) >> >>")
    pdf.page("/Figure << /Alt (A chart) >> BDC 0 0 9 9 re f EMC " + line("shown"), more=f"/Annots [{link}]")
    found = read(tmp_path, pdf)
    assert (found.text, found.metadata) == ("shown", {"pages": "1"})


# Fonts without a Unicode map.

GLYPHS = tuple("".join(chr(ord(c) - 29) if c != " " else "\3" for c in each) for each in PROSE)


def font_of_glyphs(pdf: RawPdf) -> str:
    """A font as Chrome embeds it, with glyph numbers as codes, but without its map to Unicode."""
    descriptor = pdf.add(
        "<< /Type /FontDescriptor /FontName /ABCDEF+Gone /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 /Ascent 800 "
        "/Descent -200 /CapHeight 700 /StemV 80 >>"
    )
    descendant = pdf.add(
        f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /ABCDEF+Gone /FontDescriptor {descriptor} /DW 500 "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> /CIDToGIDMap /Identity >>"
    )
    return (
        "<< /Type /Font /Subtype /Type0 /BaseFont /ABCDEF+Gone /Encoding /Identity-H "
        f"/DescendantFonts [{descendant}] >>"
    )


def glyphs(lines: tuple[str, ...], font: str = "F2", y: int = 720) -> str:
    """Lines of two-byte glyph numbers."""
    rows = ("".join(f"{ord(char):04x}" for char in each) for each in lines)
    return "".join(f"BT /{font} 12 Tf 72 {y - 16 * row} Td <{each}> Tj ET\n" for row, each in enumerate(rows))


@pytest.mark.documented(".pdf", "pages whose fonts have no map to Unicode, or a wrong one")
def test_pages_of_glyph_numbers_are_named_instead_of_read(tmp_path: Path) -> None:
    pdf = RawPdf()
    font = font_of_glyphs(pdf)
    pdf.page(line("Typed words."))
    for _ in range(3):
        pdf.page(glyphs(GLYPHS), {"F2": font})
    pdf.page(paragraph())
    pdf.page(glyphs(GLYPHS[:1]), {"F2": font})
    found = read(tmp_path, pdf)
    assert found.text == "Typed words.\n\n" + "\n".join(PROSE)
    assert found.metadata == {
        "pages": "6", PAGES_WITHOUT_TEXT: "4", "not_read": "4 pages without readable text: 2-4, 6 (install OCR)",
    }  # fmt: skip
    assert read(tmp_path, pdf, OFF).metadata["not_read"].endswith("(set ocr: auto)")

    wrong = RawPdf()
    by_one = wrong.to_unicode([(code, code + 1) for code in range(33, 126)])
    wrong.page(paragraph(font="F2"), {"F2": f"{STANDARD[:-2]} /ToUnicode {by_one} >>"})
    private = wrong.to_unicode([(code, 0xF000 + code) for code in range(33, 126)])
    wrong.page(paragraph(font="F2"), {"F2": f"{STANDARD[:-2]} /ToUnicode {private} >>"})
    with pytest.raises(DocumentError, match=r"has 2 pages and no readable text: its fonts .* Install OCR"):
        read(tmp_path, wrong)


@pytest.mark.documented(".pdf", "parts of pages whose fonts have no map to Unicode")
def test_words_of_glyph_numbers_on_a_page_of_text(tmp_path: Path) -> None:
    pdf = RawPdf()
    font = font_of_glyphs(pdf)
    pdf.page(paragraph() + glyphs((GLYPHS[0][:40],), y=500), {"F2": font})
    found = read(tmp_path, pdf)
    assert found.text == "\n".join(PROSE)
    assert found.metadata["not_read"] == "1 page with partly unreadable text: 1 (install OCR)"

    wrong = RawPdf()
    by_one = wrong.to_unicode([(code, code + 1) for code in range(33, 126)])
    lines = "".join(line(each, y=400 - 16 * row, font="F2") for row, each in enumerate(PROSE * 3))
    wrong.page(paragraph(PROSE * 4) + lines, {"F2": f"{STANDARD[:-2]} /ToUnicode {by_one} >>"})
    found = read(tmp_path, wrong)
    assert found.text.startswith("\n".join(PROSE))
    assert found.text.count("Sfwfovf") <= 1 < found.text.count("Revenue")  # of three; lines are judged by the dozen
    assert found.metadata["not_read"] == "1 page with partly unreadable text: 1 (install OCR)"


@pytest.mark.documented(".pdf", "fonts without a map whose codes are letters")
def test_fonts_without_a_map_whose_codes_are_letters(tmp_path: Path) -> None:
    codes = sorted({ord(char) for each in PROSE for char in each})
    names = " ".join(f"{code} /g{code}" for code in codes)
    font = f"<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+Old /Encoding << /Differences [{names}] >> >>"
    assert text_of(tmp_path, paragraph(font="F2"), fonts={"F2": font}) == "\n".join(PROSE)


# Scans and pictures.


def drawing(words: str = "", shade: str = "white") -> Image.Image:
    image = Image.new("RGB", (1000, 1300), shade)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(36)
    for row, each in enumerate(filter(None, words.split("\n"))):
        draw.text((100, 150 + 60 * row), each, "black", font)
    return image


def with_picture(image: Image.Image, content: str, share: float = 1.0) -> RawPdf:
    """A page with a picture over that share of its height, below other content."""
    pdf = RawPdf()
    grey = image.convert("L")
    at = pdf.image(grey.width, grey.height, zlib.compress(grey.tobytes()), "/Filter /FlateDecode")
    pdf.page(f"q 612 0 0 {792 * share} 0 0 cm /Im1 Do Q\n{content}", images={"Im1": at})
    return pdf


SCANNED = "The Petrel was sold for 61,500 crowns\nto the owners of the harbour\nin the spring of the year"


@pytest.mark.documented(".pdf", "scanned pages")
def test_scans_without_ocr(tmp_path: Path) -> None:
    pdf = with_picture(drawing(SCANNED), "")
    pdf.page(line("Typed words."))
    pdf.page("")
    found = read(tmp_path, pdf)
    assert found.text == "Typed words."
    assert found.metadata == {
        "pages": "3", PAGES_WITHOUT_TEXT: "1", "not_read": "1 page without readable text: 1 (install OCR)",
    }  # fmt: skip


@pytest.mark.documented(".pdf", "scanned pages with a running head or a stamp")
def test_a_stamp_does_not_make_a_scan_a_page_of_text(tmp_path: Path) -> None:
    found = read(tmp_path, with_picture(drawing(SCANNED), line("Page 7", y=20)))
    assert found.text == "Page 7"
    assert found.metadata["not_read"] == "1 page with little text beside a picture: 1 (install OCR)"
    assert found.metadata[PAGES_WITHOUT_TEXT] == "1"


@pytest.mark.slow
def test_ocr_reads_what_has_no_legible_text(tmp_path: Path) -> None:
    pdf = with_picture(drawing(SCANNED), line("Page 7", y=20))
    font = font_of_glyphs(pdf)
    pdf.page(glyphs(GLYPHS), {"F2": font})  # PDFium draws it in another font: boxes, or wrong letters
    photo = drawing("", "grey")
    ImageDraw.Draw(photo).ellipse((200, 200, 800, 900), "black")
    grey = photo.convert("L")
    at = pdf.image(grey.width, grey.height, zlib.compress(grey.tobytes()), "/Filter /FlateDecode")
    pdf.page("q 612 0 0 792 0 0 cm /Im1 Do Q\n1 g " + line("Our ferries"), images={"Im1": at})
    found = read(tmp_path, pdf, on_ocr())
    assert "The Petrel was sold for 61,500 crowns" in found.text
    assert found.text.endswith("Our ferries")
    assert "1 picture" in found.metadata["not_read"].split("; ")
    assert [each.ocr for each in found.sections if each.name in "13"] == [True, False]
    with pytest.raises(DocumentError, match=r"more than limits\.ocr_pages = 0 pages"):
        read(tmp_path, pdf, on_ocr(0))


@pytest.mark.documented(".pdf", "text that a scanner's program laid over a scan")
def test_invisible_text_over_a_scan_is_its_text(tmp_path: Path) -> None:
    found = read(tmp_path, with_picture(drawing(SCANNED), "3 Tr " + line("The Petrel was sold")))
    assert (found.text, found.metadata) == ("The Petrel was sold", {"pages": "1"})


@pytest.mark.documented(".pdf", "pictures that cover a quarter of the page or more")
@pytest.mark.documented(".pdf", "smaller pictures, drawings")
def test_pictures(tmp_path: Path) -> None:
    assert read(tmp_path, with_picture(drawing(), paragraph(), 0.4)).metadata["not_read"] == "1 picture"
    found = read(tmp_path, with_picture(drawing(), paragraph() + "10 10 100 100 re f", 0.2))
    assert found.metadata == {"pages": "1"}


# Layers.

RULES = {
    "/OCGs [{on} {off}]": True,
    "/OCGs {off}": False,
    "/OCGs [{off}] /P /AnyOn": False,
    "/OCGs [{on} {off}] /P /AllOn": False,
    "/OCGs [{on} {off}] /P /AnyOff": True,
    "/OCGs [{on} {off}] /P /AllOff": False,
    "/OCGs [{off}] /P /AllOff": True,
    "/OCGs [null]": True,
    "": True,
    "/OCGs [{on}] /VE [/Not {on}]": False,
    "/VE [/Or [/And {on} {off}] [/Not {off}]]": True,
    "/VE [/And {on} [/Or {off} [/Not {on}]]]": False,
}
"""Rules over a layer that is on and one that is off, and whether their content is shown."""


def in_layer(name: str, words: str, y: int = 700) -> str:
    return f"/OC /{name} BDC {line(words, y=y)} EMC "


def layered(config: str = "/OFF [{off}]", usage: str = "") -> tuple[RawPdf, dict[str, str]]:
    """A file of two layers, the second of which is off."""
    pdf = RawPdf()
    at = {"on": pdf.add("<< /Type /OCG /Name (Layer) >>"), "off": pdf.add(f"<< /Type /OCG /Name (Layer) {usage} >>")}
    pdf.catalog = f"/OCProperties << /OCGs [{at['on']} {at['off']}] /D << {config.format(**at)} >> >>"
    return pdf, at


@pytest.mark.documented(".pdf", "layers that are on")
@pytest.mark.documented(".pdf", "text of layers that are off")
@pytest.mark.parametrize(
    ("config", "usage"),
    [
        ("/OFF [{off}]", ""),
        ("/BaseState /OFF /ON [{on}]", ""),
        ("/BaseState /ON /ON [{on} {off}] /OFF [{off}]", ""),
        ("/AS [<< /Event /View /OCGs [{on} {off}] /Category [/View] >>]", "/Usage << /View << /ViewState /OFF >> >>"),
    ],
)
def test_layers_that_are_off_are_counted(tmp_path: Path, config: str, usage: str) -> None:
    pdf, at = layered(config, usage)
    pdf.page(
        in_layer("L1", "Profit 512", 720) + line("Profit 655") + in_layer("L0", "in pounds", 680),
        layers={"L0": at["on"], "L1": at["off"]},
    )
    pdf.page(line("Twelve pence"))
    found = read(tmp_path, pdf)
    assert found.text == "Profit 655\nin pounds\n\nTwelve pence"
    assert found.metadata["not_read"] == "1 page with text in layers that are off: 1"


@pytest.mark.parametrize("rule", RULES)
def test_rules_over_layers(tmp_path: Path, rule: str) -> None:
    pdf, at = layered()
    member = f"<< /Type /OCMD {rule.format(**at)} >>"
    for layer in (member, pdf.add(member)):
        pdf.page(in_layer("L", "Profit 512") + line("Profit 655", y=680), layers={"L": layer})
    text = "Profit 512\nProfit 655" if RULES[rule] else "Profit 655"
    assert read(tmp_path, pdf).text == f"{text}\n\n{text}"


def test_layers_of_forms_and_within_each_other(tmp_path: Path) -> None:
    pdf, at = layered()
    fonts = f"/Font << /F1 {STANDARD} >>"
    box = "/Type /XObject /Subtype /Form /BBox [0 0 612 792]"
    inside = in_layer("L", "Inside", 620).encode()
    parts = {
        "Whole": pdf.add(f"{box} /OC {at['off']} /Resources << {fonts} >>", line("Whole form", y=600).encode()),
        "Packed": pdf.add(
            f"{box} /OC << /Type /OCMD /OCGs {at['off']} >> /Filter /FlateDecode /Resources << {fonts} >>",
            zlib.compress(line("Packed form", y=590).encode()),
        ),
        "Part": pdf.add(
            f"{box} /Resources << {fonts} /Properties << /L {at['off']} >> >>", inside + line("Beside", y=580).encode()
        ),
    }
    parts["Outer"] = pdf.add(f"{box} /Resources << /XObject << /Part {parts['Part']} >> >>", b"/Part Do")
    nested = f"/OC /On BDC {in_layer('Off', 'Nested', 560)} {line('Around', y=550)} EMC "
    content = f"/OC /Off BDC /Outer Do EMC {nested} /Whole Do /Packed Do /Outer Do"
    pdf.page(content, images=parts, layers={"On": at["on"], "Off": at["off"]})
    found = read(tmp_path, pdf)
    assert sorted(found.text.split("\n")) == ["Around", "Beside"]
    assert found.metadata["not_read"] == "1 page with text in layers that are off: 1"


def test_a_page_of_nothing_but_a_layer_that_is_off(tmp_path: Path) -> None:
    pdf, at = layered()
    pdf.page(in_layer("L", "Draft"), layers={"L": at["off"]})
    with pytest.raises(DocumentError, match="all of its text is in layers that are off"):
        read(tmp_path, pdf)
    note = pdf.add(f"<< /Type /Annot /Subtype /Text /Rect [9 9 19 19] /Contents (Draft) /OC {at['off']} >>")
    pdf.page(line("Final"), more=f"/Annots [{note}]")
    found = read(tmp_path, pdf)
    assert (found.text, PAGES_WITHOUT_TEXT in found.metadata) == ("Final", False)
    assert found.metadata["not_read"] == "1 page with text in layers that are off: 1; 1 hidden note or form field"


def test_rules_that_multiply_are_given_up(tmp_path: Path) -> None:
    pdf, at = layered()
    rule = at["off"]
    for _ in range(8):
        rule = pdf.add(f"[/And {' '.join([rule] * 9)}]")
    pdf.page(in_layer("L", "Profit 512"), layers={"L": f"<< /Type /OCMD /VE {rule} >>"})
    found = read(tmp_path, pdf)
    assert (found.text, found.metadata["not_read"]) == ("Profit 512", "1 file whose layers may be off")


def test_layers_in_files_that_are_packed_or_encrypted(tmp_path: Path) -> None:
    pdf, at = layered()
    pdf.page(in_layer("L", "Profit 512") + line("Profit 655", y=680), layers={"L": at["off"]})
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf.write()))
    writer.encrypt("", "owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    assert read(tmp_path, out.getvalue()).text == "Profit 655"
    assert read(tmp_path, packed(pdf)).text == "Profit 655"
    assert read(tmp_path, packed(pdf, "/DecodeParms << /Predictor 1 >>")).text == "Profit 655"
    damaged = pdf.write().replace(b"startxref", b"startxxxx")
    found = read(tmp_path, damaged)
    assert found.text == "Profit 655"


def packed(pdf: RawPdf, more: str = "") -> bytes:
    """The bytes of a file whose objects without streams are packed."""
    pdf.write()
    bodies = dict(enumerate(pdf.objects, start=1))
    inside = {number: body for number, body in bodies.items() if not body.rstrip().endswith(b"endstream")}
    places, start = [], 0
    for number, body in inside.items():
        places.append(f"{number} {start}")
        start += len(body) + 1
    head = " ".join(places).encode() + b"\n"
    content = zlib.compress(head + b"\n".join(inside.values()))
    about = f"/Type /ObjStm /N {len(inside)} /First {len(head)} /Filter /FlateDecode {more}"
    holder, table = len(bodies) + 1, len(bodies) + 2
    bodies[holder] = f"<< {about} /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"
    data, rows = b"%PDF-1.7\n", {0: (0, 0, 65535)}
    for number, body in bodies.items():
        if number in inside:
            rows[number] = 2, holder, list(inside).index(number)
        else:
            rows[number] = 1, len(data), 0
            data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows[table] = 1, len(data), 0
    listed = b"".join(
        bytes([kind]) + at.to_bytes(4) + index.to_bytes(2) for _, (kind, at, index) in sorted(rows.items())
    )
    stream = f"<< /Type /XRef /Size {table + 1} /W [1 4 2] /Root 1 0 R /Length {len(listed)} >>\nstream\n".encode()
    end = b"\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n" % len(data)
    return data + b"%d 0 obj\n" % table + stream + listed + end


def test_only_files_with_layers_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypdfium2.PdfDocument, "save", None)
    pdf = RawPdf()
    pdf.page(line("Profit 655"))
    assert read(tmp_path, pdf).text == read(tmp_path, packed(pdf)).text == "Profit 655"


# Forms, notes and files.


@pytest.mark.documented(".pdf", "form fields")
def test_form_fields(tmp_path: Path) -> None:
    fields = (
        "/FT /Tx /T (income) /TU (Total income) /V (61,500)",
        "/FT /Tx /T (empty)",
        "/FT /Btn /T (resident) /V /Yes /AS /Yes",
        "/FT /Btn /T (married) /V /Off /AS /Off",
        "/FT /Ch /T (currency) /Opt [(crowns) (marks)] /V (marks)",
        "/FT /Tx /T (secret) /Ff 8192 /V (hunter2)",
        "/FT /Tx /T (hidden) /F 2 /V (nothing)",
    )
    pdf = RawPdf()
    widgets = [
        pdf.add(f"<< /Type /Annot /Subtype /Widget /Rect [72 {700 - 20 * n} 200 {715 - 20 * n}] {each} >>")
        for n, each in enumerate(fields)
    ]
    parent = pdf.add(f"<< /FT /Tx /T (seller) /V (A. Quillfeather) /Kids [{len(pdf.objects) + 2} 0 R] >>")
    child = pdf.add(f"<< /Type /Annot /Subtype /Widget /Rect [72 300 200 315] /Parent {parent} >>")
    pdf.catalog = f"/AcroForm << /Fields [{' '.join([*widgets, parent])}] >>"
    pdf.page(line("Declaration"), more=f"/Annots [{' '.join([*widgets, child])}]")
    found = read(tmp_path, pdf)
    assert found.text.split("\n") == [
        "Declaration", "", "Total income: 61,500", "resident: Yes", "currency: marks", "seller: A. Quillfeather",
    ]  # fmt: skip
    assert found.metadata == {"pages": "1", "not_read": "1 hidden note or form field"}


@pytest.mark.documented(".pdf", "comments")
@pytest.mark.documented(".pdf", "text boxes")
@pytest.mark.documented(".pdf", "hidden comments and form fields")
def test_notes(tmp_path: Path) -> None:
    notes = (
        "/Subtype /Text /T (Ann) /Contents (Is this \\(net\\) right?)",
        "/Subtype /Highlight /Contents (Check)",
        "/Subtype /FreeText /Contents (Superseded in 2024)",
        "/Subtype /Text /F 2 /Contents (secret)",
        "/Subtype /FreeText /F 32 /Contents (not on screen)",
        "/Subtype /Text /F 2",
        "/Subtype /Popup /Contents (Check)",
    )
    pdf = RawPdf()
    at = " ".join(pdf.add(f"<< /Type /Annot /Rect [10 10 20 20] {each} >>") for each in notes)
    pdf.page(line("Net sales"), more=f"/Annots [{at}]")
    found = read(tmp_path, pdf)
    assert found.text == "Net sales\n\nComment (Ann): Is this (net) right?\nComment: Check\nSuperseded in 2024"
    assert found.metadata["not_read"] == "2 hidden notes or form fields"
    only = RawPdf()
    note = only.add("<< /Type /Annot /Subtype /FreeText /Rect [10 10 20 20] /Contents (All there is) >>")
    only.page("", more=f"/Annots [{note}]")
    assert read(tmp_path, only).text == "All there is"


@pytest.mark.documented(".pdf", "attached files, the files of a portfolio")
@pytest.mark.documented(".pdf", "sound, film, 3D models")
def test_files_and_media(tmp_path: Path) -> None:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(tiny_pdf(["See the attached files."])))
    writer.add_attachment("figures.xlsx", b"x")
    writer.add_attachment("terms.docx", b"x")
    writer.add_attachment("Standard.joboptions", b"x")
    out = io.BytesIO()
    writer.write(out)
    found = read(tmp_path, out.getvalue())
    assert found.metadata["not_read"] == "2 attached files: figures.xlsx, terms.docx (save attachments beside the file)"

    pdf = RawPdf()
    file = pdf.add("<< /Type /Filespec /F (plan.dwg) /UF (plan.dwg) >>")
    pin = pdf.add(f"<< /Type /Annot /Subtype /FileAttachment /Rect [9 9 19 19] /FS {file} /Contents (The plan) >>")
    film = pdf.add("<< /Type /Annot /Subtype /RichMedia /Rect [9 9 19 19] >>")
    pdf.page(line("A plan."), more=f"/Annots [{pin} {film}]")
    found = read(tmp_path, pdf)
    assert found.text == "A plan.\n\nComment: The plan"
    assert found.metadata["not_read"].split("; ") == [
        "1 sound, film or 3D model", "1 attached file: plan.dwg (save attachments beside the file)",
    ]  # fmt: skip


# Files that cannot be read as a whole.


@pytest.mark.documented(".pdf", "damaged pages")
def test_one_damaged_page_does_not_cost_the_others(tmp_path: Path) -> None:
    pdf = RawPdf()
    pdf.page(line("First."))
    pdf.pages.append(pdf.add("<< /Type /Catalog >>"))
    pdf.page(line("Third."))
    found = read(tmp_path, pdf)
    assert found.text == "First.\n\nThird."
    assert [each.name for each in found.sections] == ["1", "3"]
    assert found.metadata["not_read"] == "1 page with damage: 2 (save the file again with a PDF program)"
    none = RawPdf()
    none.pages.append(none.add("<< /Type /Catalog >>"))
    with pytest.raises(DocumentError, match="has 1 page, all of them damaged"):
        read(tmp_path, none)


def test_characters_that_unicode_does_not_have_cost_no_other_page(tmp_path: Path) -> None:
    pdf = RawPdf()
    pdf.page(line("Sales in 2024 were 512."))
    codes = "/Encoding << /Type /Encoding /Differences [65 /u110000 /uFFFFFF] >>"
    pdf.page(
        line("AB" * 40 + " 2024", font="F2"), {"F2": f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {codes} >>"}
    )
    found = read(tmp_path, pdf)
    assert found.text.startswith("Sales in 2024 were 512.")
    assert "page without readable text: 2" in found.metadata["not_read"]


@pytest.mark.documented(".pdf", "files that are cut off")
def test_files_that_are_cut_off(tmp_path: Path) -> None:
    data = tiny_pdf(["First page.", "Second page."])
    with pytest.raises(DocumentError, match="its end is missing: it is cut off"):
        read(tmp_path, data[: len(data) // 3])
    pdf = RawPdf()
    pdf.page(line("Whole."))
    pdf.page(line("Whole too."))
    last = pdf.add("", b"")
    pdf.page(line("Lost."))
    whole = pdf.write()
    cut = whole[: whole.index(f"\n{last[:-4]} 0 obj".encode()) + 1]
    with_trailer = cut + b"trailer\n<< /Size 20 /Root 1 0 R >>\n"  # as linearized files have one near the beginning
    found = read(tmp_path, with_trailer)
    assert found.text == "Whole.\n\nWhole too."
    lost = found.metadata["not_read"]
    assert "1 missing part at the end, where the file is cut off (fetch the file anew)" in lost
    assert "3" in lost.split("missing")[0]


@pytest.mark.documented(".pdf", "files with a password")
@pytest.mark.documented(".pdf", "files that only may not be copied or printed")
def test_passwords(tmp_path: Path) -> None:
    for password, owner in (("secret", "other"), ("", "other")):
        writer = pypdf.PdfWriter(clone_from=io.BytesIO(tiny_pdf(["Locked words."])))
        writer.encrypt(password, owner, algorithm="AES-128", permissions_flag=pypdf.constants.UserAccessPermissions(0))
        out = io.BytesIO()
        writer.write(out)
        if password:
            with pytest.raises(DocumentError, match="is encrypted and needs a password"):
                read(tmp_path, out.getvalue())
        else:
            assert read(tmp_path, out.getvalue()).text == "Locked words."


@pytest.mark.documented(".pdf", "XFA forms")
def test_xfa_forms(tmp_path: Path) -> None:
    pdf = RawPdf()
    xfa = pdf.add("", b"<xdp:xdp xmlns:xdp='http://ns.adobe.com/xdp/'></xdp:xdp>")
    pdf.catalog = f"/NeedsRendering true /AcroForm << /Fields [] /XFA {xfa} >>"
    pdf.page(line("Please wait... If this message is not eventually replaced"))
    with pytest.raises(DocumentError, match="is an XFA form, which only Adobe's programs show"):
        read(tmp_path, pdf)


def test_a_file_of_another_format_is_named_so(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="does not begin with %PDF"):
        read(tmp_path, b"<html><body>404 Not found</body></html>" * 200)


# Time.


def test_time_is_linear_in_notes_and_files(tmp_path: Path) -> None:
    def work(size: int) -> None:
        pdf = RawPdf()
        notes = [pdf.add(f"<< /Subtype /Text /Rect [0 0 9 9] /Contents (Note {n}) >>") for n in range(size)]
        files = " ".join(f"(f{n:05}) << /F (f{n}) >>" for n in range(size))
        pdf.catalog = f"/Names << /EmbeddedFiles << /Names [{files}] >> >>"
        pdf.page(line("Page"), more=f"/Annots [{' '.join(notes)}]")
        assert f"{size:,} attached files: f0" in read(tmp_path, pdf).metadata["not_read"]

    assert growth(work, 1_000) < LINEAR


@pytest.mark.documented(".pdf", "form fields after the first 2,000")
def test_fields_beyond_a_limit_are_counted(tmp_path: Path) -> None:
    pdf = RawPdf()
    fields = [pdf.add(f"<< /Subtype /Widget /Rect [0 0 9 9] /FT /Tx /T (f{n}) /V (value {n}) >>") for n in range(4_000)]
    pdf.catalog = f"/AcroForm << /Fields [{' '.join(fields)}] >>"
    pdf.page(line("Page"), more=f"/Annots [{' '.join(fields)}]")
    found = read(tmp_path, pdf)
    assert found.text.endswith("f1999: value 1999")
    assert found.metadata["not_read"] == "2,000 form fields"


def test_time_is_linear_in_glyph_numbers(tmp_path: Path) -> None:
    def work(size: int) -> None:
        pdf = RawPdf()
        pdf.page(line("Page"))
        pdf.page(paragraph() + glyphs(GLYPHS * size), {"F2": font_of_glyphs(pdf)})
        read(tmp_path, pdf)

    assert growth(work, 5) < LINEAR
