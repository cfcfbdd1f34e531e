"""Bad files: one clear paragraph each, with the file and the remedy, and never an exception."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pypdf
import pytest

from okralong.pipelines.core.types import InputError
from okralong.pipelines.indexing.documents import BadRow, RawDocument, Source
from okralong.pipelines.indexing.listing import list_sources, with_hashes
from okralong.pipelines.indexing.parsers import read_source
from tests.indexing import hostile
from tests.indexing.tiny_pdf import tiny_pdf


def encrypted_pdf() -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(tiny_pdf(["secret"])))
    writer.encrypt("password")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def empty_zip() -> bytes:
    out = io.BytesIO()
    zipfile.ZipFile(out, "w").close()
    return out.getvalue()


def other_parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"name": ["a"], "body": ["b"]}), out)
    return out.getvalue()


BAD_FILES = {
    "empty.txt": (b"", "is empty (0 bytes)", "Fetch it anew"),
    "empty.pptx": (b"", "is empty (0 bytes)", "Fetch it anew"),
    "cut.docx": (empty_zip().replace(b"PK", b"PK\x03\x04")[:9], "is cut off", "Fetch it anew"),
    "blank.md": (b" \n\t\n", "holds no text", "Check the file"),
    "wide.txt": ("text".encode("utf-16-le"), "NUL bytes", "save it as UTF-8"),
    "bytes.txt": (b"caf\xe9 \x81\x8d", "neither UTF-8 nor cp1252", "Convert it to UTF-8"),
    "broken.pdf": (b"%PDF-1.4 nothing more", "not a readable PDF", "fetch it anew"),
    "locked.pdf": (encrypted_pdf(), "needs a password", "without password"),
    "scan.pdf": (tiny_pdf(["", ""]), "2 pages and no text layer", "OCR"),
    "old.docx": (b"\xd0\xcf\x11\xe0 not a zip", "not a .docx file", "save it as .docx"),
    "hollow.docx": (empty_zip(), "not a complete Word document", "save it again as .docx"),
    "none.jsonl": (b"\n\n", "holds no rows", "Put documents into it"),
    "not.parquet": (b"PAR1 no", "not a readable Parquet file", "Write it again"),
    "other.parquet": (other_parquet(), "no column doc_id", "Rename the columns"),
    "picture.html": (b"<html><body><img src=a.png></body></html>", "holds no text", "Check the file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_failure_with_file_and_remedy(tmp_path: Path, name: str) -> None:
    data, reason, remedy = BAD_FILES[name]
    file = tmp_path / name
    file.write_bytes(data)
    (bad,) = read_source(Source(str(file), file.stem, len(data)), 10**6)
    assert isinstance(bad, BadRow)
    assert bad.doc_id == file.stem
    for part in (str(file), reason, remedy):
        assert part in bad.message
    assert "\n" not in bad.message


def test_missing_and_too_large_files_are_failures(tmp_path: Path) -> None:
    (missing,) = read_source(Source(str(tmp_path / "gone.txt"), "gone"), 10)
    assert isinstance(missing, BadRow)
    assert "gone.txt is missing" in missing.message
    file = tmp_path / "big.txt"
    file.write_text("eleven char", encoding="utf-8")
    (big,) = read_source(Source(str(file), "big", 11), 10)
    assert isinstance(big, BadRow)
    assert "max_file_megabytes" in big.message


def test_a_missing_folder_stops_before_anything(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        list_sources([str(tmp_path / "nowhere")])


def test_a_folder_of_unknown_suffixes_only_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_bytes(b"x")
    with pytest.raises(InputError, match=r"1 file was found"):
        list_sources([str(tmp_path)])


def test_listing_orders_skips_and_settles_shared_ids(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    for name in ("b.txt", "a.txt", "a.md", "sub/c.txt", "x.bin", ".hidden.txt", "archive/documents/part-00000.parquet"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("text", encoding="utf-8")
    listing = list_sources([str(tmp_path), str(tmp_path / "b.txt")], outside=str(archive))
    assert [source.doc_id for source in listing.sources] == ["a", "b", "sub/c"]
    assert listing.sources[0].uri.endswith("a.md")
    assert [Path(uri).name for uri in listing.skipped] == ["x.bin"]
    bad, unread = listing.bad[::-1]
    assert f"{tmp_path}/x.bin has an unsupported format" in unread.message
    assert "a.md is kept" in bad.message
    assert "a.txt is left out" in bad.message
    hashed = with_hashes(listing.sources)
    assert len({source.sha256 for source in hashed}) == 1
    assert len(hashed[0].sha256) == 64


def test_a_stray_nul_byte_is_a_space(tmp_path: Path) -> None:
    file = tmp_path / "paper.txt"
    file.write_bytes(b"A formula\x00 stood here. " + b"The rest of the paper is text. " * 100)
    (document,) = read_source(Source(str(file), "paper", file.stat().st_size), 1_000_000)
    assert isinstance(document, RawDocument)
    assert document.text.startswith("A formula  stood here.")


def test_a_word_file_reads_no_other_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2", encoding="utf-8")
    file = tmp_path / "a.docx"
    hostile.word_with(file, f'<!DOCTYPE x [<!ENTITY e SYSTEM "{secret.as_uri()}">]>', "text &e;")
    (document,) = read_source(Source(str(file), "a", file.stat().st_size), 10**6)
    assert isinstance(document, RawDocument)
    assert document.text == "plain text"


def test_a_word_file_of_entities_within_entities_is_a_failure(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    file = tmp_path / "a.docx"
    hostile.word_with(file, f'<!DOCTYPE x [<!ENTITY e0 "a billion times ">{entities}]>', "&e9;")
    (bad,) = read_source(Source(str(file), "a", file.stat().st_size), 10**6)
    assert isinstance(bad, BadRow)
    assert "not a complete Word document" in bad.message


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.txt", b"%PDF-1.7\n1 0 obj", "a PDF: give it the suffix .pdf"),
        ("a.txt", b"{\\rtf1\\ansi Rent is 5 \\par }", "Rich Text"),
        ("a.md", b"PK\x03\x04\x14\x00", "a zip file"),
        ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office file"),
        ("a.eml", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office file or an Outlook message"),
        ("a.xlsx", b"<html><table><tr><td>5", "a web page"),
        ("a.docx", b"%PDF-1.7\n1 0 obj", "a PDF"),
        ("a.docx", b"{\\rtf1\\ansi Rent is 5 \\par }", "Rich Text"),
        ("a.pdf", b"<!DOCTYPE html><p>Please log in", "a web page, such as an error message"),
        (
            "a.htm",
            b"From: <Saved>\nMIME-Version: 1.0\nContent-Type: multipart/related;\n boundary=b\n\n--b\n",
            "a mail or a web archive (MHTML)",
        ),
    ],
)
def test_a_file_of_another_format_than_its_suffix_is_named(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(data)
    (found,) = read_source(Source(str(tmp_path / name), "a", len(data)), 10**9)
    assert isinstance(found, BadRow)
    assert found.message.startswith(f"{tmp_path / name} is not what its suffix says, but {words}")


def test_a_web_page_named_txt_is_read_as_a_page(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("<!DOCTYPE html>\n<html><p>Sales were 5.<p hidden>Old</html>", encoding="utf-8")
    (tmp_path / "b.txt").write_text("Write <html> first, then the body.", encoding="utf-8")
    texts = [next(iter(read_source(Source(str(tmp_path / n), n, 9), 10**9))) for n in ("a.txt", "b.txt")]
    assert [getattr(each, "text", "") for each in texts] == ["Sales were 5.", "Write <html> first, then the body."]
