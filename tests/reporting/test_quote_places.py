"""Where a quote stands: its pages in the document's text, and its characters in what PDFium says of a page."""

from __future__ import annotations

from okralong.pipelines.core.types import Document, Section
from okralong.pipelines.reporting.cited import number_of, parts_of
from okralong.pipelines.reporting.page_process import folded, quote_ranges

PAGE = (
    "Net sales\r\n2019 2018\r\nProducts 1,544 1,321\r\nServices 12 1,544\r\nThe chair re\x02\r\nsigned of\ufb01cially "
    "in May.\r\nThe chair was paid 1,544.\r\n"
)


def found(quote: str, before: int = 0) -> list[str]:
    return [PAGE[start:end] for start, end in quote_ranges(PAGE, quote, before)]


def test_line_ends_hyphens_and_ligatures_do_not_hide_a_quote() -> None:
    assert found("The chair re-\nsigned officially in May.") == ["The chair re\x02\r\nsigned of\ufb01cially in May"]


def test_of_several_places_the_expected_one_is_taken() -> None:
    starts = [quote_ranges(PAGE, "1,544", before)[0][0] for before in (20, 40, 200)]
    assert starts == [at for at in range(len(PAGE)) if PAGE.startswith("1,544", at)]


def test_a_row_that_the_reader_wrote_as_a_table_is_found_by_its_cells() -> None:
    # Columns first, as no line of the page has them.
    assert found("| Products | Services |\n| 1,544 | 12 |") == ["Products", "Services", "1,544", "12"]


def test_words_of_another_page_are_not_marked_by_chance() -> None:
    assert found("The auditors of the company refused to sign in 2019") == []
    assert found("— … —") == []


def test_folding_keeps_places() -> None:
    letters, places = folded("a-\ufb01 b")
    assert letters == "afib"
    assert places == [0, 2, 2, 4]


def test_a_span_is_cut_where_pages_begin_and_blank_parts_are_left_out() -> None:
    text = "first page\n\nsecond page\n\nthird page"
    second, third = text.index("second"), text.index("third")
    pages = tuple(Section("page", str(n), at) for n, at in enumerate((0, second, third), start=1))
    document = Document("d", text, sections=pages)
    assert [(number_of(page), text[a:b]) for page, a, b in parts_of(document, 6, third + 5)] == [
        (1, "page\n\n"),
        (2, "second page\n\n"),
        (3, "third"),
    ]
    assert [number_of(page) for page, _, _ in parts_of(document, second, third)] == [2]
    assert [number_of(page) for page, _, _ in parts_of(document, second - 1, third)] == [2]
    assert [part for part, _, _ in parts_of(Document("d", text), 0, 5)] == [None]
