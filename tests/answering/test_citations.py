"""Citations: only what the reply names and the passages hold, with offsets into the document."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.prompt_text import Evidence, neutralise
from okralong.pipelines.core.types import Document, Passage

ALDER = Document(
    "alder", "x" * 40 + " Revenue rose to 41.5 million\n  crowns in “2021” \u2013 a record. Costs: 2015 units."
)
BIRCH = Document("birch", "Birch is a maker of boats. Revenue fell to 7 million.")


def passage(document: Document, start: int = 0) -> Passage:
    return Passage(document.doc_id, start, len(document.text), document.text[start:], 1, 1.0)


SHOWN = [passage(ALDER, 30), passage(BIRCH)]


def cite(*claims: tuple[int, str]) -> list[tuple[str, str]]:
    found = find_citations([Evidence(*claim) for claim in claims], SHOWN)
    for citation in found:
        document = ALDER if citation.doc_id == "alder" else BIRCH
        assert citation.quote == document.text[citation.start_char : citation.end_char]
    return [(citation.doc_id, citation.quote) for citation in found]


def test_exact_words() -> None:
    assert cite((2, "maker of boats")) == [("birch", "maker of boats")]


def test_spacing_quote_marks_dashes_and_case_may_differ() -> None:
    wanted = [("alder", "41.5 million\n  crowns in “2021” \u2013 a record")]
    assert cite((1, '41.5 MILLION crowns in "2021" - a record')) == wanted


def test_words_without_a_number_are_looked_for_everywhere() -> None:
    assert cite((0, "Revenue fell to 7")) == [("birch", "Revenue fell to 7")]


def test_a_long_quote_with_a_wrong_number_is_still_found_a_short_one_is_not() -> None:
    assert cite((1, "Birch is a maker of boats")) == [("birch", "Birch is a maker of boats")]
    assert cite((9, "Birch is a maker of boats")) == [("birch", "Birch is a maker of boats")]
    assert cite((1, "boats")) == []


def test_a_bare_number_cites_the_whole_passage() -> None:
    assert cite((2, "")) == [("birch", BIRCH.text)]


def test_what_is_not_there_is_dropped() -> None:
    assert cite((1, "Revenue rose to 99 million"), (3, ""), (0, ""), (1, "..."), (1, '""')) == []


def test_a_number_is_not_found_inside_another() -> None:
    assert cite((1, "15")) == []
    assert cite((1, "2015")) == [("alder", "2015")]


def test_a_reply_cut_short_may_end_inside_a_word() -> None:
    assert cite((1, "Revenue rose to 41.5 mill")) == [("alder", "Revenue rose to 41.5 mill")]


def test_each_span_once() -> None:
    assert len(cite((2, "maker of boats"), (2, "Maker of  boats"), (0, "maker of boats"))) == 1


@given(st.text(alphabet="aB1 \n\t\r\x00“”\"'\u2019\u2013-<|>ßﬁİ漢[", max_size=60), st.data())
@settings(deadline=None)
def test_any_copied_stretch_is_found_as_itself_or_as_shown(text: str, data: st.DataObject) -> None:
    document = Document("d", "Start " + text + " end of it all")
    start = data.draw(st.integers(0, 6))
    shown = [Passage("d", start, len(document.text), document.text[start:], 1, 1.0)]
    end = data.draw(st.integers(start, len(document.text)))
    stretch = document.text[start:end]
    for quote in (stretch, neutralise(document.text[start:])[: end - start], " ".join(stretch.split())):
        found = find_citations([Evidence(1, quote.strip())], shown)
        assert all(one.quote == document.text[one.start_char : one.end_char] for one in found)
        assert all(start <= one.start_char < one.end_char <= len(document.text) for one in found)
        ends_between_words = end == len(document.text) or not (stretch[-1:].isalnum() and document.text[end].isalnum())
        if quote.strip() and any(char.isalnum() for char in stretch) and ends_between_words:
            assert len(found) == 1
