"""Image files of every kind that scanners, phones and screenshots make, read by OCR."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from PIL import Image

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import RawDocument, Source
from okralong.pipelines.indexing.formats.ocr import Ocr, is_scan, read_image
from tests.indexing.test_ocr import LINES, TABLE, scan

pytestmark = pytest.mark.slow
TEXT = "\n".join(LINES) + "\n\n" + "\n".join("   ".join(row) for row in TABLE)


@pytest.fixture(scope="module")
def ocr() -> Ocr:
    return Ocr(why_not="", most_pages=10)


def read(data: bytes, ocr: Ocr, name: str = "a.tiff") -> RawDocument:
    class Held(Source):
        def read_bytes(self) -> bytes:
            return data

    (found,) = read_image(Held(name, "a"), ocr)
    assert isinstance(found, RawDocument)
    return found


def saved(image: Image.Image, kind: str, more: Sequence[Image.Image] = (), **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options, **({"save_all": True, "append_images": more} if more else {}))
    return out.getvalue()


@pytest.mark.documented(".png", "printed text in Latin or Chinese script")
@pytest.mark.documented(".png", "rotation in the file's EXIF data")
def test_a_photograph_held_sideways(ocr: Ocr) -> None:
    turned = scan().transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to the right
    found = read(saved(turned, "JPEG", quality=95, exif=exif), ocr, "a.jpg")
    assert found.text == TEXT
    assert found.metadata == {"pages": "1", "ocr_pages": "1"}


@pytest.mark.documented(".png", "CMYK, grey with more than 8 bits, transparent backgrounds")
def test_kinds_of_pixels(ocr: Ocr) -> None:
    grey = np.asarray(scan().convert("L"))
    assert read(saved(scan().convert("CMYK"), "JPEG", quality=95), ocr).text == TEXT
    dark = Image.fromarray((grey.astype(np.uint16) // 2 + 60) * 40)  # neither black nor white in 16 bits
    assert read(saved(dark, "TIFF"), ocr).text == TEXT
    assert read(saved(dark, "PNG"), ocr, "a.png").text == TEXT
    assert read(saved(Image.fromarray(grey.astype(np.float32) / 255), "TIFF"), ocr).text == TEXT
    clear = Image.new("RGBA", scan().size, (0, 0, 0, 0))
    clear.paste((0, 0, 0, 255), mask=Image.fromarray(255 - grey))
    assert read(saved(clear, "PNG"), ocr, "a.png").text == TEXT


@pytest.mark.documented(".png", "pages of a TIFF")
@pytest.mark.documented(".png", "previews in a TIFF, further pictures of a PNG or JPEG")
def test_pages(ocr: Ocr) -> None:
    found = read(saved(scan(), "TIFF", [scan()]), ocr)
    assert found.text == f"{TEXT}\n\n{TEXT}"
    assert [(each.name, each.ocr) for each in found.sections] == [("1", True), ("2", True)]
    preview = scan()
    preview.encoderinfo = {"tiffinfo": {254: 1}}
    found = read(saved(scan(), "TIFF", [preview]), ocr)
    assert (found.text, found.metadata["pages"]) == (TEXT, "1")
    assert read(saved(scan(), "PNG", [scan()]), ocr, "a.png").text == TEXT
    assert read(saved(scan(), "MPO", [scan()]), ocr, "a.jpg").text == TEXT


@pytest.mark.documented(".png", "damaged pages of a TIFF")
def test_damaged_pages(ocr: Ocr) -> None:
    data = saved(scan(), "TIFF", [scan(), scan()], compression="tiff_deflate")
    with Image.open(io.BytesIO(data)) as file:
        file.seek(1)
        strips = file.tag_v2[273]  # type: ignore[attr-defined]
    broken = bytearray(data)
    for at in strips:
        broken[at : at + 40] = b"\xff" * 40
    found = read(bytes(broken), ocr)
    assert found.text == f"{TEXT}\n\n{TEXT}"
    assert found.metadata["not_read"] == "1 page with damage: 2 (fetch the file anew)"
    with pytest.raises(DocumentError, match="is not a readable image"):
        read(saved(scan(), "TIFF", compression="tiff_deflate")[:-2000], ocr)


@pytest.mark.documented(".png", "photographs, drawings")
def test_a_picture_without_words(ocr: Ocr) -> None:
    picture = np.tile(np.linspace(0, 120, 400, dtype=np.uint8), (300, 1))
    assert read(saved(Image.fromarray(picture), "PNG"), ocr, "a.png").text == ""
    assert not is_scan(np.stack([picture] * 3, axis=2))
    assert is_scan(np.asarray(scan()))
