"""Merging and extension: whatever is done to passages, their text is the document's text in their range."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.answering.context import extend, merge, passage_of
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Hit, Passage
from okralong.pipelines.indexing.chunking import chunk_document

TEXT = st.text(alphabet="ab.? \n\t|9Zé漢", min_size=1, max_size=300)
SPANS = st.lists(st.tuples(st.integers(0, 299), st.integers(1, 80), st.floats(0, 5)), min_size=1, max_size=12)


def passage(document: Document, start: int, end: int, score: float = 1.0) -> Passage:
    text = document.text[start:end]
    return Passage(document.doc_id, start, end, text, count_tokens(text), score, (f"{document.doc_id}:{start}",))


def cut(document: Document, spans: list[tuple[int, int, float]]) -> list[Passage]:
    size = len(document.text)
    pieces = [(start % size, min(size, start % size + length), score) for start, length, score in spans]
    return [passage(document, start, end, score) for start, end, score in pieces]


@given(TEXT, SPANS, SPANS)
@settings(max_examples=60, deadline=None)
def test_merge_keeps_the_text_covers_the_same_and_leaves_no_neighbours(
    text: str, spans: list[tuple[int, int, float]], other_spans: list[tuple[int, int, float]]
) -> None:
    documents = {"a": Document("a", text), "b": Document("b", text[::-1])}
    before = cut(documents["a"], spans) + cut(documents["b"], other_spans)
    after = merge(before)
    for one in after:
        assert one.text == documents[one.doc_id].text[one.start_char : one.end_char]
    for doc_id in documents:
        covered = {i for one in before if one.doc_id == doc_id for i in range(one.start_char, one.end_char)}
        ranges = sorted((one.start_char, one.end_char) for one in after if one.doc_id == doc_id)
        assert covered == {i for start, end in ranges for i in range(start, end)}
        assert all(end < start for (_, end), (start, _) in pairwise(ranges))
    assert {name for one in before for name in one.chunk_ids} == {name for one in after for name in one.chunk_ids}
    assert max(one.score for one in before) == max(one.score for one in after)
    assert merge(after) == after


def test_all_chunks_of_a_document_merge_into_its_text() -> None:
    document = Document("d", "One sentence about a harbour. " * 120, sha256="d")
    chunks = chunk_document(document, 150)
    random.Random(7).shuffle(chunks)
    hits = [Hit(chunk, float(rank)) for rank, chunk in enumerate(chunks)]
    (whole,) = merge(map(passage_of, hits))
    assert whole.text == document.text
    assert whole.origin == "merged"
    assert whole.chunk_ids[0] == chunks[-1].chunk_id  # best first


def test_reading_order_is_documents_by_best_score_then_position() -> None:
    a, b = Document("a", "x" * 100), Document("b", "y" * 100)
    shown = merge([passage(a, 50, 60, 0.5), passage(b, 80, 90, 0.1), passage(a, 0, 10, 0.2), passage(b, 0, 10, 0.9)])
    assert [(one.doc_id, one.start_char) for one in shown] == [("b", 0), ("b", 80), ("a", 0), ("a", 50)]


@given(TEXT, st.integers(0, 299), st.integers(1, 80), st.integers(0, 40))
@settings(max_examples=100, deadline=None)
def test_extension_grows_within_the_document_and_the_bound(text: str, start: int, length: int, tokens: int) -> None:
    document = Document("d", text)
    (before,) = cut(document, [(start, length, 1.0)])
    after = extend(before, document, tokens, count_tokens)
    assert 0 <= after.start_char <= before.start_char
    assert before.end_char <= after.end_char <= len(text)
    assert after.text == text[after.start_char : after.end_char]
    assert count_tokens(text[after.start_char : before.start_char]) <= tokens
    assert count_tokens(text[before.end_char : after.end_char]) <= tokens
    assert after.chunk_ids == before.chunk_ids


def test_extension_ends_where_sentences_end() -> None:
    document = Document("d", "First one here. Second one here. Third one here. Fourth one here. Fifth one here.")
    start = document.text.index("Third")
    before = passage(document, start, start + len("Third one here. "))
    after = extend(before, document, 6, count_tokens)
    assert after.text == "Second one here. Third one here. Fourth one here. "
    assert after.origin == "extended"


def test_extension_falls_back_to_words_and_reaches_the_ends() -> None:
    document = Document("d", "alpha beta gamma delta epsilon zeta eta theta iota kappa")
    start = document.text.index("epsilon")
    before = passage(document, start, start + len("epsilon"))
    narrow = extend(before, document, 2, count_tokens)
    assert len(before.text) < len(narrow.text) < len(document.text)
    assert document.text[narrow.start_char - 1].isspace()
    assert extend(before, document, 100, count_tokens).text == document.text
