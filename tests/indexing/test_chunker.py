"""The chunker's promises: chunks tile the text, never pass their size, mark cut tables, and come out the same again."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Section, TableSpan
from okralong.pipelines.indexing import chunking as chunker
from okralong.pipelines.indexing import chunking as units
from okralong.pipelines.indexing.chunking import MIN_GRANULARITY, chunk_document
from tests.indexing.growth import LINEAR, growth

PIECES = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "The firm grew. ",
            "Sales rose 4.5 % in 2023, e.g. in Mr. Venn's shop. ",
            "\n\n",
            "\n",
            "Apples   12,400   13,150\n",
            "\n\nA short heading\n",
            "It grew.The rest fell.",
            "x" * 120,
            "." * 60,
            " " * 50,
            "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 4,
            "e\u0301" * 30,
        ]
    ),
)
TEXTS = st.lists(PIECES, max_size=25).map("".join)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(TEXTS)
    marks = sorted(set(draw(st.lists(st.integers(0, len(text)), max_size=6))))
    spans = zip(marks[::2], marks[1::2], strict=False)
    tables = tuple(TableSpan(f"t{number}", start, end) for number, (start, end) in enumerate(spans))
    return Document("d", text, sha256="0123456789abcdef" * 4, table_spans=tables)


@settings(max_examples=150, deadline=None)
@given(documents(), st.integers(MIN_GRANULARITY, 120))
def test_chunks_tile_fit_mark_tables_and_repeat(doc: Document, granularity: int) -> None:
    chunks = chunk_document(doc, granularity)
    assert "".join(chunk.text for chunk in chunks) == doc.text
    place = 0
    for ordinal, chunk in enumerate(chunks):
        assert (chunk.start_char, chunk.ordinal) == (place, ordinal)
        assert chunk.text == doc.text[chunk.start_char : chunk.end_char]
        assert chunk.chunk_id == f"0123456789abcdef-{granularity}-{ordinal:06d}"
        assert 0 < chunk.n_tokens == count_tokens(chunk.text) <= granularity
        edges = (chunk.start_char, chunk.end_char)
        cut = {t.table_id for t in doc.table_spans if any(t.start_char < edge < t.end_char for edge in edges)}
        assert (chunk.table_id in cut) if cut else (chunk.table_id is None)
        place = chunk.end_char
    assert chunks == chunk_document(doc, granularity)


def test_chunks_end_at_sentences_and_not_at_abbreviations_or_decimals() -> None:
    text = "Mr. Venn sold 4.5 lamps in the U.S. Market of no. 5 Port Street, approx. Half of all. " * 30
    chunks = chunk_document(Document("d", text, sha256="a" * 64), 60)
    assert len(chunks) > 5
    assert {chunk.text[-8:] for chunk in chunks} == {"of all. "}


def test_a_sentence_ends_with_its_line_also_in_small_letters() -> None:
    text = "the mill in the valley of the wend sold all of its flour to the bakers of marrow bay .\n" * 30
    chunks = chunk_document(Document("d", text, sha256="a" * 64), 60)
    assert {chunk.text[-7:] for chunk in chunks} == {" bay .\n"}
    wrapped = "it sold to al.\nfernhill and to others who paid as well as they could for what was brought to them.\n"
    assert {chunk.text[-6:] for chunk in chunk_document(Document("d", wrapped * 30, sha256="a" * 64), 60)} == {
        "them.\n"
    }


def test_a_wrapped_sentence_is_kept_whole() -> None:
    sentence = (
        "A long sentence that was wrapped by its writer after about seventy\nCharacters goes on in the next line.\n"
    )
    chunks = chunk_document(Document("d", sentence * 20, sha256="a" * 64), 50)
    assert all(chunk.text.endswith("next line.\n") for chunk in chunks)


def test_a_chunk_that_is_half_full_ends_before_a_table() -> None:
    prose = "The orchard lies in the valley of the Wend. " * 8 + "\n"
    table = "Division  2022  2023\n" + "Apples  12,400  13,150\n" * 9
    text = prose + table + "After the table. " * 10
    span = TableSpan("t0", len(prose), len(prose) + len(table) - 1)
    doc = Document("d", text, sha256="a" * 64, table_spans=(span,))
    chunks = chunk_document(doc, 150)
    assert chunks[0].text == prose
    assert chunks[1].text.startswith(table)
    assert all(chunk.table_id is None for chunk in chunks)
    small = chunk_document(doc, 60)
    assert any(chunk.table_id == "t0" for chunk in small)
    rows = [chunk for chunk in small if chunk.table_id]
    assert all(chunk.text.startswith(("Division", "Apples", "The orchard")) for chunk in rows)


def test_a_heading_stands_with_the_text_that_it_heads() -> None:
    article = "\n\nWendmill Station\n" + "The station was built by the mill in spring. " * 8
    text = ("The orchard lies in the valley of the Wend. " * 11 + article).strip()
    chunks = chunk_document(Document("d", text, sha256="a" * 64), 120)
    assert chunks[0].text.endswith("the Wend. \n\n")
    assert chunks[1].text.startswith("Wendmill Station\nThe station")
    # The last line of a document heads nothing, and a sentence's end or a speaker's line is no heading.
    for last in ("It closed.\n", "Anna: it closed\n"):
        plain = text.replace("\nWendmill Station\n", last)
        assert chunk_document(Document("d", plain, sha256="a" * 64), 120)[0].text.endswith(last)


def test_headings_that_the_document_names_may_be_long_and_follow_a_line() -> None:
    heading = "Of the mill at the bridge over the Wend, its owners, its tenants, and what it ground, 1870 to 1931\n"
    text = "The Wend\n" + "The orchard lies in the valley of the Wend. " * 9 + "\n" + heading + "It ground flour. " * 20
    named = tuple(Section("heading", words.strip(), text.index(words)) for words in ("The Wend\n", heading))
    for sections, first in (((), True), (named[1:], True), (named, False)):
        chunks = chunk_document(Document("d", text, sha256="a" * 64, sections=sections), 130)
        assert (heading in chunks[0].text) is first  # one alone is the title of the document


def test_a_heading_with_a_full_stop_in_it_is_one() -> None:
    for heading in ("1. Introduction", "ITEM 7. Management's Discussion", "What happened next?", "Note 3: Revenue"):
        for words in range(60, 100):
            text = "The mill grinds flour and " + "more " * words + f"flour.\n\n{heading}\n" + "It was built. " * 40
            for chunk in chunk_document(Document("d", text, sha256="a" * 64), 90):
                assert heading not in chunk.text or f"{heading}\nIt was built." in chunk.text


def test_a_heading_stays_with_the_table_that_it_heads() -> None:
    table = "Division  2022  2023\n" + "Apples  12,400  13,150\n" * 12
    for words in range(20, 90):
        before = "The mill grinds " + "more " * words + "flour.\n\nProduction of the mill\n"
        span = TableSpan("t0", len(before), len(before) + len(table) - 1)
        doc = Document("d", before + table + "\nThe end.", sha256="a" * 64, table_spans=(span,))
        assert not any(chunk.text.endswith("of the mill\n") for chunk in chunk_document(doc, 100))


def test_lists_and_rows_of_tables_are_no_headings() -> None:
    items = "".join(f"Item of a list, number {n}\n\n" for n in range(100))
    assert all(chunk.n_tokens > 135 for chunk in chunk_document(Document("d", items, sha256="a" * 64), 150)[:-1])
    text = "The mill grinds flour. " * 17 + "\n\nDivision  2022  2023\nApples  12,400  13,150\n" + "It was built. " * 60
    start = text.index("Division")
    doc = Document("d", text, sha256="a" * 64, table_spans=(TableSpan("t0", start, text.index("\nIt was")),))
    assert "13,150" in chunk_document(doc, 150)[0].text


def test_many_headings_leave_a_chunk_half_full() -> None:
    chunks = chunk_document(Document("d", "\n\n".join(f"Part {n}" for n in range(200)), sha256="a" * 64), 60)
    assert all(chunk.n_tokens >= 30 for chunk in chunks[:-1])


def test_a_chunk_that_is_half_full_ends_before_a_section_that_would_not_fit() -> None:
    parts = [f"Part {n}\n" + f"The mill number {n} grinds the flour of its valley. " * 7 + "\n\n" for n in range(9)]
    doc = Document("d", "".join(parts), sha256="a" * 64)
    assert [chunk.text for chunk in chunk_document(doc, 120)] == parts
    # Where the next section fits whole it is taken.
    assert chunk_document(doc, 256)[0].text == "".join(parts[:2])


def test_the_head_of_every_page_is_no_heading() -> None:
    page = "\n\nAnnual Report\n" + "The mill grinds the flour of its valley. " * 6
    with_heads = chunk_document(Document("d", page * 9, sha256="a" * 64), 120)
    assert all(chunk.n_tokens > 100 for chunk in with_heads[:-1])


def test_sentences_end_without_a_blank_where_line_breaks_were_lost() -> None:
    glued = "Sales rose by 3.5% in 2023.The rate was 21%.Other income (Note 4).We expect more."
    ends = [0, *boundaries(glued, ())]
    assert [glued[start:end] for start, end in pairwise(ends)] == [
        "Sales rose by 3.5% in 2023.",
        "The rate was 21%.",
        "Other income (Note 4).",
        "We expect more.",
    ]
    for name in ("https://host.example/a-very-long-path-that-goes-on-and-on-for-ever-yes.Html", "java.util.List"):
        one = f"See {name} of Tesla, Inc.Consolidated, pd.DataFrame or Exhibit 10.A in the U.S.The rest, and more. "
        assert list(boundaries(one * 2, ())) == [len(one), 2 * len(one)]
    wrapped = "Write to Amazon.Com or use\nSystem.Linq for it."
    assert list(boundaries(wrapped, ())) == [wrapped.index("System"), len(wrapped)]
    assert list(boundaries("It ends.\u00a0It begins.", ())) == [9, 19]


def test_an_emoji_family_is_not_torn() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    chunks = chunk_document(Document("d", family * 60, sha256="a" * 64), 64)
    assert len(chunks) > 1
    assert all(len(chunk.text) % len(family) == 0 for chunk in chunks)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [".", "a", " ", "\n", "a. b\n", "a ", "1 ", "e\u0301"])
def test_hostile_texts_take_linear_time(unit: str) -> None:
    def work(size: int) -> None:
        text = unit * (size // len(unit))
        chunks = chunk_document(Document("d", text, sha256="a" * 64), 32)
        assert "".join(chunk.text for chunk in chunks) == text

    assert growth(work, 12_000) < LINEAR


def test_many_small_tables_take_linear_time() -> None:
    part = "Apples  12,400\nPears  4,310\n\nThe orchard lies in the valley of the Wend.\n\n"

    def work(size: int) -> None:
        starts = range(0, size * len(part), len(part))
        tables = tuple(TableSpan(f"t{start}", start, start + part.index("\n\n")) for start in starts)
        chunk_document(Document("d", part * size, sha256="a" * 64, table_spans=tables), MIN_GRANULARITY)

    assert growth(work, 500) < LINEAR


@pytest.mark.parametrize("granularity", [32, 512])
def test_no_character_is_counted_often(granularity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return count_tokens(text)

    for module in (chunker, units):
        monkeypatch.setattr(module, "count_tokens", count)
    text = "1 " * 20_000  # the blank behind a figure is a token of its own, which the estimate does not foresee
    chunk_document(Document("d", text, sha256="a" * 64), granularity)
    assert counted < 25 * len(text)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a. ", "1 ", "x", "\n"])
def test_the_units_of_a_long_line_never_stand_in_memory_together(unit: str) -> None:
    doc = Document("d", unit * (200_000 // len(unit)), sha256="a" * 64)
    count_tokens("the tokenizer is loaded")
    tracemalloc.start()
    try:
        for _ in units.fitting_units(doc, 150):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000  # most of it one stretch of 50,000 characters being counted; a list takes 12 MB and more


def test_a_size_below_the_least_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        chunk_document(Document("d", "text"), MIN_GRANULARITY - 1)


def test_texts_beyond_the_tokenizers_limit_are_counted_exactly() -> None:
    text = "Sales of no. 5 rose to 1,234 in 2023.\n/ See note (4).\n\n  Next line, " * 2_000
    import bpe_openai

    assert count_tokens(text) == len(bpe_openai.get_encoding("o200k_base").encode_ordinary(text))
    assert count_tokens(text * 10) > 200_000
