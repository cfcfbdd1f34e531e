"""Words and rules of real PDF pages: as a reader sees them, at their places in the page's final text."""

from __future__ import annotations

import pypdfium2
import pytest

from okralong.pipelines.indexing.formats.page_lines import Rule, Word
from okralong.pipelines.indexing.formats.pdf_page import Form, read_page
from okralong.pipelines.indexing.formats.pdf_words import words_and_rules
from okralong.pipelines.indexing.formats.tables_of_pages import TableReader
from tests.indexing.pdf_files import STANDARD, RawPdf, line


def read(content: str, more: str = "", pdf: RawPdf | None = None, **page: dict[str, str]) -> tuple[
    str, list[Word], list[Rule]
]:  # fmt: skip
    """Return the text, words and rules of a page with this content."""
    pdf = pdf or RawPdf()
    pdf.page(content, more=more, **page)  # type: ignore[arg-type]
    file = pypdfium2.PdfDocument(pdf.write())
    text = read_page(file, 0, Form(file), TableReader()).text
    words, rules = words_and_rules(file[0], file[0].get_textpage(), text)
    for word in words:
        assert word.start == word.end or "".join(text[word.start : word.end].split()) == word.text
    return text, words, rules


def box(word: Word) -> tuple[str, int, int, int]:
    """Return the text and place of a word in whole points."""
    return word.text, round(word.x0), round(word.x1), round(word.y)


def test_words_have_their_boxes_and_places() -> None:
    text, words, _ = read(line("Net sales", 72, 720) + line("1,204", 300, 720))
    assert text == "Net sales 1,204"
    assert [box(word) for word in words] == [("Net", 72, 91, 72), ("sales", 94, 122, 72), ("1,204", 300, 330, 72)]
    assert [(word.start, word.end) for word in words] == [(0, 3), (4, 9), (10, 15)]
    assert {round(word.height) for word in words} == {14}


TURNED = {
    0: ("", "1 0 0 1 {x} {y} Tm", lambda x, y: (x, y)),
    1: ("/Rotate 270", "0 -1 1 0 {x} {y} Tm", lambda x, y: (y, 792 - x)),
    2: ("/Rotate 180", "-1 0 0 -1 {x} {y} Tm", lambda x, y: (612 - x, 792 - y)),
    3: ("/Rotate 90", "0 1 -1 0 {x} {y} Tm", lambda x, y: (612 - y, x)),
}


@pytest.mark.parametrize("turn", TURNED)
@pytest.mark.parametrize("is_rotated", [True, False])
def test_turned_pages_are_read_as_they_are_shown(turn: int, is_rotated: bool) -> None:
    """A page may be turned, or its text: a wide table often lies on an upright page."""
    rotate, matrix, place = TURNED[turn]
    content = ""
    for said, x, y in (("Sales", 100, 500), ("1,204", 300, 500), ("Costs", 100, 480), ("980", 300, 480)):
        at = place(x, y)
        content += f"BT /F1 12 Tf {matrix.format(x=at[0], y=at[1])} ({said}) Tj ET\n"
    one, other = place(90, 490), place(340, 490)
    content += f"{one[0]} {one[1]} m {other[0]} {other[1]} l S\n"
    _, words, rules = read(content, rotate if is_rotated else "")
    found = sorted((round(word.y), box(word)) for word in words)
    (_, first), (_, second), (_, third), (_, fourth) = found
    high = first[3]
    assert [first, second] == [("1,204", 300, 330, high), ("Sales", 100, 130, high)]
    assert [third, fourth] == [("980", 300, 320, high + 20), ("Costs", 100, 131, high + 20)]
    (rule,) = rules
    assert (round(rule.x0), round(rule.x1), round(rule.y)) == (90, 340, high + 10) or (
        abs(rule.x0 - 90) <= 1 and abs(rule.x1 - 340) <= 1 and round(rule.y) == high + 10
    )


def test_text_in_another_direction_is_left_out() -> None:
    watermark = "BT /F1 40 Tf 0.7 0.7 -0.7 0.7 200 300 Tm (DRAFT) Tj ET BT /F1 8 Tf 0 1 -1 0 20 300 Tm (14) Tj ET "
    text, words, _ = read(watermark + line("Net sales", 72, 720) + line("1,204", 300, 720))
    assert "DRAFT" in text
    assert [word.text for word in words] == ["Net", "sales", "1,204"]


def test_places_follow_what_is_changed_in_the_text() -> None:
    """A raised mark gets brackets, a line's last hyphen is kept, and a word outside of the page is not in the text."""
    mark = "BT /F1 12 Tf 72 720 Td (Sales 1,204) Tj /F1 7 Tf 5 Ts (1) Tj 0 Ts ET "
    text, words, _ = read(mark + line("(a)", 72, 700) + line("cut off", 700, 690) + line("more", 72, 680))
    assert text == "Sales 1,204 (1)\n(a)\nmore"
    assert [(word.text, text[word.start : word.end]) for word in words] == [
        ("Sales", "Sales"), ("1,204", "1,204"), ("1", "1"), ("(a)", "(a)"), ("more", "more"),
    ]  # fmt: skip
    assert words[2].y < words[1].y


def test_letters_without_blanks_are_words_where_they_stand_apart() -> None:
    _, words, _ = read("BT /F1 12 Tf 72 720 Td [(2024) -1200 (2023)] TJ ET")
    assert [box(word)[:3] for word in words] == [("2024", 72, 99), ("2023", 113, 140)]


def test_rules_are_lines_and_thin_fills() -> None:
    pdf = RawPdf()
    form = pdf.add("/Type /XObject /Subtype /Form /BBox [0 0 200 200] /Matrix [1 0 0 1 100 100]", b"10 50 100 0.8 re f")
    content = (
        "72 650 100 0.5 re f 72 640 m 300 640 l S "  # a thin fill, a line
        "72 600 400 20 re f 72 500 0.5 300 re f "  # shading, an upright line
        "50 400 m 150 400 l 200 400 m 300 400 l 50 300 m 50 400 l S "  # a grid in one path
        "72 560 5 0.5 re f "  # a dash
        "72 540 50 0.5 re f 122 540 50 0.5 re f "  # a line in two parts
        "q 2 0 0 2 20 0 cm /X1 Do Q"
    )
    _, _, rules = read(line("Net sales 1,204", 72, 700) + content, pdf=pdf, images={"X1": form})
    found = [(round(rule.x0), round(rule.x1), round(rule.y)) for rule in rules]
    assert found == [(72, 172, 142), (71, 301, 152), (72, 172, 252), (50, 150, 392), (200, 300, 392), (240, 440, 491)]


def test_a_font_with_codes_that_unicode_does_not_have() -> None:
    pdf = RawPdf()
    lone = pdf.to_unicode([(0x41, 0xD800), (0x42, 0x42)])
    _, words, _ = read(
        line("BAB", font="F2") + line("1,204", 300), pdf=pdf, fonts={"F2": f"{STANDARD[:-2]} /ToUnicode {lone} >>"}
    )
    assert [word.text.encode() for word in words][-1] == b"1,204"
