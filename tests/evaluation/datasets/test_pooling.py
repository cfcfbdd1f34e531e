"""Pooling moves texts and changes none of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.lab.datasets.base import DataSet, Evidence, GoldCell, Item, Text, make_text
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.pooling import Pooled, Span, own_texts, pool, whole
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import InputError, Question

TEXTS = [
    make_text(f"Page {n}", f"Page {n}\nRow {n} of naïve 表 figures. " + f"word{n} " * (3 + n % 7)) for n in range(40)
]
BY_ID = {text.text_id: text for text in TEXTS}


def _item(query_id: str, texts: Sequence[Text]) -> Item:
    """Asks about the second line of each text; the title line is the header of its one cell."""
    own = tuple(text.text_id for text in texts)
    evidence = tuple(Evidence(t.text_id, t.text.index("Row"), t.text.index(".") + 1) for t in texts)
    cells = tuple(GoldCell(e.text_id, (e.start_char, e.end_char), (0, 4)) for e in evidence)
    return Item(Gold(Question(query_id, "Which?"), "made up"), ("Page",), own, evidence, cells)


def _cut(pooled: Pooled, span: Span) -> str:
    texts = {document.doc_id: document.text for document in pooled.documents}
    return texts[span.doc_id][span.start_char : span.end_char]


CONTEXTS = st.lists(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5, unique=True), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(contexts=CONTEXTS, tokens=st.integers(1, 400), seed=st.integers(0, 3))
def test_pooled_documents_keep_every_promise(
    contexts: list[list[Text]],
    tokens: int,
    seed: int,
) -> None:
    items = [_item(f"q{n}", context) for n, context in enumerate(contexts)]
    pooled = pool(items, BY_ID, tokens, seed, spare=TEXTS)
    assert pooled == pool(items, BY_ID, tokens, seed, spare=TEXTS)
    assert [question.item for question in pooled.questions] == items
    by_id = {document.doc_id: document for document in pooled.documents}
    assert len(by_id) == len(pooled.documents)
    for document in pooled.documents:
        assert count_tokens(document.text) >= tokens
        in_order = sorted(document.placed, key=lambda text_id: document.placed[text_id])
        assert document.text == "\n\n".join(BY_ID[text_id].text for text_id in in_order)
    for question in pooled.questions:
        (doc_id,) = question.doc_ids
        assert set(own_texts(question.item)) <= by_id[doc_id].placed.keys()
        for span, piece in zip(question.evidence, question.item.evidence, strict=True):
            assert span.doc_id == doc_id
            assert _cut(pooled, span) == BY_ID[piece.text_id].text[piece.start_char : piece.end_char]
        for cell, gold in zip(question.cells, question.item.cells, strict=True):
            assert _cut(pooled, cell.row) == BY_ID[gold.text_id].text[slice(*gold.row)]
            assert _cut(pooled, cell.header) == "Page"


def test_the_order_given_does_not_matter_and_the_seed_does() -> None:
    items = [_item(f"q{n}", [TEXTS[n], TEXTS[n + 1]]) for n in range(20)]
    first = pool(items, BY_ID, 120, seed=1)
    assert first.documents == pool(items[::-1], BY_ID, 120, seed=1).documents
    assert first.documents != pool(items, BY_ID, 120, seed=2).documents


def test_items_with_the_same_texts_stay_together() -> None:
    items = [_item(f"q{n}", [TEXTS[n % 8]]) for n in range(32)]
    pooled = pool(items, BY_ID, 40, seed=0)
    homes: dict[str, set[str]] = {}
    for question in pooled.questions:
        homes.setdefault(question.item.text_ids[0], set()).update(question.doc_ids)
    assert len(pooled.documents) > 1
    assert all(len(documents) == 1 for documents in homes.values())


def test_too_little_text_is_said_with_its_amount() -> None:
    items = [_item("q", TEXTS[:2])]
    have = sum(count_tokens(text.text) for text in TEXTS[:2])
    with pytest.raises(InputError, match=f"2 texts of {have} tokens in all.* documents of 5,000 tokens"):
        pool(items, BY_ID, 5000, seed=0, spare=TEXTS[:2])


def test_an_item_without_texts_is_named() -> None:
    items = [_item("q", TEXTS[:1]), Item(Gold(Question("bare", "Which?"), "made up"), ("a report",))]
    assert pool(items, BY_ID, 10, seed=0).left_out == ("bare",)
    assert pool(items[1:], BY_ID, 10, seed=0) == Pooled((), (), ("bare",))


def test_whole_texts_have_safe_ids_of_their_own() -> None:
    names = ["AB/2009*", "ab 2009", "Café [x]?", "表", "never asked"]
    texts = [make_text(name, f"Row {n}. The end.") for n, name in enumerate(names)]
    dataset = DataSet("made up", "dev", {text.text_id: text for text in texts}, (_item("q", texts[:4]),))
    pooled = whole(dataset)
    shared = [f"AB_2009-{texts[0].text_id}", f"ab_2009-{texts[1].text_id}"]
    assert [document.doc_id for document in pooled.documents] == [*shared, "Cafe_x", "text"]
    assert pooled.questions[0].doc_ids == tuple(document.doc_id for document in pooled.documents)
    assert [_cut(pooled, span) for span in pooled.questions[0].evidence] == [f"Row {n}." for n in range(4)]
