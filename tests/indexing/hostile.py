"""Files that explode: small ones that make a parser take minutes or gigabytes. None of them is kept."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_BLOCK = 1 << 24


def word_bomb(file: Path, unit: bytes, unpacked: int) -> None:
    """A .docx of some megabytes whose one part holds ``unit`` again and again, ``unpacked`` bytes of it."""
    block = unit * (_BLOCK // len(unit))
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        _word_frame(packed)
        with packed.open("d.xml", "w", force_zip64=True) as part:
            part.write(f'<w:document xmlns:w="{_WORD}"><w:body>'.encode())
            for _ in range(unpacked // len(block)):
                part.write(block)
            part.write(b"</w:body></w:document>")


def word_with(file: Path, heading: str, text: str) -> None:
    """A .docx whose part begins with ``heading``, XML before its root, and that says "plain" and ``text``, also XML."""
    body = f'<w:document xmlns:w="{_WORD}"><w:body><w:p><w:r><w:t>plain {text}</w:t></w:r></w:p></w:body></w:document>'
    with zipfile.ZipFile(file, "w") as packed:
        _word_frame(packed)
        packed.writestr("d.xml", heading + body)


def _word_frame(packed: zipfile.ZipFile) -> None:
    types = (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/d.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
    )
    links = (
        f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" Type="{_OFFICE}" Target="d.xml"/>'
        "</Relationships>"
    )
    packed.writestr("[Content_Types].xml", types)
    packed.writestr("_rels/.rels", links)


def pdf_of_objects(file: Path, pages: int) -> None:
    """A PDF of ``pages`` pages, each an object of its own, and none of them with any text."""
    kids = " ".join(f"{number} 0 R" for number in range(3, pages + 3))
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {pages}/Kids[{kids}]>>".encode()]
    objects += [b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"] * pages
    write_pdf(file, objects)


def pdf_bomb(file: Path, unpacked: int) -> None:
    """A PDF of one page whose content stream unpacks to ``unpacked`` bytes of text."""
    packer = zlib.compressobj(1)
    block = b"(words and more words) Tj " * 40_000
    data = packer.compress(b"BT /F1 12 Tf ")
    data += b"".join(packer.compress(block) for _ in range(unpacked // len(block))) + packer.flush()
    stream = f"<</Length {len(data)}/Filter/FlateDecode>>stream\n".encode() + data + b"\nendstream"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>"
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    write_pdf(file, [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[3 0 R]>>", page, stream, font])


def write_pdf(file: Path, objects: list[bytes]) -> None:
    """A PDF of ``objects``, numbered from 1, the first of them the catalog."""
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    table = [b"0000000000 65535 f \n"]
    for number, body in enumerate(objects, start=1):
        table.append(b"%010d 00000 n \n" % out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (number, body))
    at = out.tell()
    out.write(b"xref\n0 %d\n%b" % (len(table), b"".join(table)))
    out.write(b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(table), at))
    file.write_bytes(out.getvalue())


def deep_html(file: Path, depth: int) -> None:
    """A page of elements inside one another, each of which makes the parser look at all those around it."""
    file.write_text("<div>" * depth + "bottom", encoding="utf-8")


def one_line(file: Path, size: int) -> None:
    """A text of ``size`` bytes that is a single line, much of it figures as a table has them."""
    unit = b"1,234 flour "
    file.write_bytes((unit * (size // len(unit) + 1))[:size])


def text(file: Path, written: str) -> None:
    """A text file of what is to be written."""
    file.write_text(written, encoding="utf-8")


def parquet_of_nothing(file: Path, rows: int) -> None:
    """A Parquet file of some kilobytes with ``rows`` rows, none of which is a document."""
    with pq.ParquetWriter(file, pa.schema([("doc_id", pa.string()), ("text", pa.string())])) as writer:
        block = pa.table({"doc_id": pa.nulls(1_000_000, pa.string()), "text": pa.nulls(1_000_000, pa.string())})
        for _ in range(rows // len(block)):
            writer.write_table(block)


def parquet_of_one_text(file: Path, rows: int, chars: int) -> None:
    """A Parquet file whose rows have ids of their own and all share one text of ``chars`` characters."""
    ids = pa.array([f"row-{number}" for number in range(rows)])
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["word " * (chars // 5)]))
    pq.write_table(pa.table({"doc_id": ids, "text": text}), file, row_group_size=rows)


def parquet_that_claims(file: Path, size: int) -> None:
    """A Parquet file whose first page says that it unpacks to ``size`` bytes."""
    out = io.BytesIO()
    pq.write_table(pa.table({"doc_id": ["a" * 40], "text": ["b"]}), out, use_dictionary=False, compression="zstd")
    data = out.getvalue()
    # Its header is a Thrift struct: a field of its kind, then from byte 7 on its unpacked size, a varint of one byte.
    file.write_bytes(data[:7] + _varint(2 * size) + data[8:])


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
