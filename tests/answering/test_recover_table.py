from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.answering.context import recover_tables
from okralong.pipelines.core.types import Document, Passage, TableSpan
from okralong.pipelines.indexing.tables import find_tables
from tests.indexing.table_samples import CELL_PER_LINE, TABLES, embedded


def count_words(text: str) -> int:
    return len(text.split())


def passage_of(document: Document, start: int, end: int) -> Passage:
    text = document.text[start:end]
    return Passage(document.doc_id, start, end, text, count_words(text), 0.5, ("c1", "c2"))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("name", TABLES)
def test_a_cut_table_is_shown_whole(name: str, share: float) -> None:
    text, start, end = embedded(TABLES[name])
    document = Document("d", text, table_spans=find_tables(text, "d"))
    cut = start + int(share * (end - start))
    before = recover_tables(passage_of(document, start - 40, cut), document, 1000, count_words)
    after = recover_tables(passage_of(document, cut, end + 40), document, 1000, count_words)
    inside = recover_tables(passage_of(document, cut, cut + 3), document, 1000, count_words)
    assert (before.start_char, before.end_char) == (start - 40, end)
    assert (after.start_char, after.end_char) == (start, end + 40)
    assert inside.text == TABLES[name]
    for shown in (before, after, inside):
        assert shown.text == text[shown.start_char : shown.end_char]
        assert shown.n_tokens == count_words(shown.text)
        assert (shown.origin, shown.score, shown.chunk_ids) == ("table", 0.5, ("c1", "c2"))


def test_a_passage_that_cuts_no_table_is_returned_as_it_is() -> None:
    text, start, end = embedded(CELL_PER_LINE)
    document = Document("d", text, table_spans=find_tables(text, "d"))
    for low, high in ((0, start), (start, end), (end, len(text)), (0, len(text)), (5, start - 5)):
        passage = passage_of(document, low, high)
        assert recover_tables(passage, document, 1000, count_words) is passage


def test_over_the_bound_the_column_heads_come_first_then_the_rows_below() -> None:
    rows = [f"Mill {i:02d} {i},000 {i},500" for i in range(1, 61)]
    text = "\n".join(["Output by mill", "(in tonnes)", "2031 2030", *rows])
    document = Document("d", text, table_spans=(TableSpan("d:t0", 0, len(text)),))
    start = text.index("Mill 10")
    shown = recover_tables(passage_of(document, start, text.index("Mill 12")), document, 80, count_words)
    assert shown.start_char == 0
    assert shown.n_tokens <= 80
    assert text[shown.end_char] == "\n"
    assert shown.text.endswith("Mill 18 18,000 18,500")


def test_far_from_the_heads_the_passage_grows_upwards_as_far_as_the_bound_allows() -> None:
    text = "\n".join(f"Mill {i:02d} {i},000 {i},500" for i in range(1, 61))
    document = Document("d", text, table_spans=(TableSpan("d:t0", 0, len(text)),))
    start = text.index("Mill 50")
    shown = recover_tables(passage_of(document, start, start + 10), document, 22, count_words)
    assert shown.text.startswith("Mill 46")
    assert shown.end_char >= start + 10
    assert shown.n_tokens <= 22


def test_a_passage_over_the_bound_is_left_alone() -> None:
    text, start, _ = embedded(CELL_PER_LINE)
    document = Document("d", text, table_spans=find_tables(text, "d"))
    passage = passage_of(document, 0, start + 60)
    assert recover_tables(passage, document, 10, count_words) is passage


def test_two_tables_may_be_cut_at_once() -> None:
    text = "aa 1\naa 2\n\nbetween\n\nbb 1\nbb 2"
    first, second = TableSpan("d:t0", 0, 9), TableSpan("d:t1", 20, 29)
    document = Document("d", text, table_spans=(first, second))
    shown = recover_tables(passage_of(document, 6, 23), document, 100, count_words)
    assert shown.text == text


@given(st.data())
def test_the_original_range_is_never_lost(data: st.DataObject) -> None:
    text = data.draw(st.text(alphabet="a1 \n", min_size=1, max_size=200))
    offsets = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    tables = tuple(
        TableSpan(f"d:t{i}", a, b) for i, (a, b) in enumerate(zip(offsets[::2], offsets[1::2], strict=False))
    )
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    bound = data.draw(st.integers(0, 60))
    document = Document("d", text, table_spans=tables)
    passage = passage_of(document, start, end)
    shown = recover_tables(passage, document, bound, count_words)
    assert shown.start_char <= start <= end <= shown.end_char
    assert shown.text == text[shown.start_char : shown.end_char]
    assert shown is passage or (shown.origin == "table" and shown.n_tokens <= bound)
