"""CSV files: what becomes of each kind of content, as ``docs/documents.md`` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.table_files import decoded_table, mended_rows
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import RawDocument, Source
from okralong.pipelines.indexing.parsers import read_source
from tests.indexing.growth import LINEAR, growth


def read(path: Path, data: bytes) -> RawDocument:
    path.write_bytes(data)
    (found,) = read_source(Source(str(path), path.stem, len(data)), 10**9)
    assert isinstance(found, RawDocument), found
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.csv"


@pytest.mark.documented(".csv", "cells between commas, semicolons, tabs or bars")
@pytest.mark.documented(".csv", 'text kept as text (`="007"`)')
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(file: Path, delimiter: str) -> None:
    lines = f'Branch{delimiter} "Loans, EUR"\nLinz{delimiter}="007"\nWels{delimiter}9\n'
    table = "| Branch | Loans, EUR |\n| Linz | 007 |\n| Wels | 9 |"
    assert read(file, lines.encode()).text == table
    declared = f"sep={delimiter}\r\n{lines}".encode("utf-16")
    assert read(file, declared).text == table


@pytest.mark.documented(".csv", "quoted cells with delimiters and line breaks")
@pytest.mark.documented(".csv", "titles above the table, rows of unequal length")
def test_rows_of_every_shape(file: Path) -> None:
    data = b'Report of 2024\r\n\r\nName,Note\r\nLinz,"first, second\r\nthird ""x"""\r\nWels,1,extra\r\nGraz\r\n'
    found = read(file, data)
    assert found.text == (
        '| Report of 2024 |  |  |\n| Name | Note |  |\n| Linz | first, second third "x" |  |\n| Wels | 1 | extra |\n'
        "| Graz |  |  |"
    )
    assert "not_read" not in found.metadata


@pytest.mark.documented(".csv", "text in UTF-8, UTF-16 or cp1252")
@pytest.mark.documented(".csv", "text in another encoding")
def test_encodings(file: Path) -> None:
    words = "Name,Betrag in €\nMüller,5\n"
    table = "| Name | Betrag in € |\n| Müller | 5 |"
    for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be"):
        found = read(file, words.encode(encoding))
        assert (found.text, "not_read" in found.metadata) == (table, False)
    mixed = read(file, "Müller,Köln,Linz\n".encode() + b"Gr\xfcn,1,2\n")
    assert mixed.text == "| Müller | Köln | Linz |\n| Grün | 1 | 2 |"
    foreign = read(file, "Лимит,Остаток\n".encode("cp1251"))
    assert foreign.metadata["not_read"] == "1 text in an unknown encoding (save it as UTF-8)"
    with pytest.raises(DocumentError, match="is not text in UTF-8"):
        decoded_table(b"a,\x81\x8d\n", "a.csv")


@pytest.mark.documented(".csv", "a quotation mark without its end")
def test_a_quotation_mark_that_never_ends_does_not_join_the_rest_of_the_file(file: Path) -> None:
    found = read(file, b'Size,Price\n"5 inch pipe,3\n"a, b",4\nx,5\n')
    assert found.text == '| Size | Price |\n| "5 inch pipe | 3 |\n| a, b | 4 |\n| x | 5 |'
    assert found.metadata["not_read"] == "1 quotation mark without its end"
    assert read(file, b'Size,Price\n5" pipe,3\nx,5').metadata == {}


def test_csv_takes_linear_time() -> None:
    assert growth(lambda size: mended_rows('"a,1\n' * size, ","), 5_000) < LINEAR
    assert growth(lambda size: mended_rows('a,"' + "x\n" * size, ","), 5_000) < LINEAR
