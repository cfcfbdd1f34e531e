"""Texts and vectors in one batch: padding and unlike rows change nothing that a row says."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from okralong.pipelines.core.types import VECTORS_PLACE, Message, Passage
from okralong.pipelines.models.weights import chat_ids, text_ids
from okralong.pipelines.sara.generator import IGNORED, Row, chat_pieces, padded, row_of
from okralong.pipelines.sara.prompts import (
    MixedMessage,
    Piece,
    Text,
    Vectors,
    alignment_prompt,
    answer_prompt,
    reconstruction_prompt,
)

HIDDEN = 32


def vectors(count: int, seed: int = 1) -> Tensor:
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed))


def unlike_rows(tokenizer: Any) -> list[Row]:
    passage = Passage("d", 0, 29, "The Petrel was built in 1998.", 8, 1.0)
    prompts: list[tuple[list[MixedMessage], str]] = [
        (answer_prompt("Who?", [passage], [Vectors(vectors(1, 2)), Vectors(vectors(2, 3))]), "Mara Calder"),
        (answer_prompt("When was the Petrel built, and by whom?", [], [Vectors(vectors(1, 4))]), "1998"),
        (answer_prompt("Who?", [passage], []), "unanswerable"),
        (alignment_prompt(Vectors(vectors(1, 5))), "A boat crosses the sound in the morning."),
        (reconstruction_prompt([Vectors(vectors(1, 6))] * 3), "Two boats."),
    ]
    return [row_of(tokenizer, chat_pieces(tokenizer, said), text_ids(tokenizer, reply)) for said, reply in prompts]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_batch_gives_the_logits_of_its_single_rows(
    generator: tuple[Any, Any], side: Literal["left", "right"]
) -> None:
    model, tokenizer = generator
    rows = unlike_rows(tokenizer)
    assert len({len(row.ids) for row in rows}) > 3
    embedding = model.get_input_embeddings()
    with torch.no_grad():
        batch = padded(rows, embedding, side)
        together = model(**batch.inputs()).logits
        for number, row in enumerate(rows):
            alone = padded([row], embedding, side)
            assert bool(alone.attention_mask.all())
            expected = model(inputs_embeds=alone.inputs_embeds).logits[0]
            torch.testing.assert_close(
                together[number][batch.attention_mask[number] == 1], expected, rtol=1e-4, atol=1e-4
            )


def test_a_batch_goes_on_alike_when_it_generates(generator: tuple[Any, Any]) -> None:
    model, tokenizer = generator
    rows = [Row(row.ids[: row.usage], row.vectors, row.places) for row in unlike_rows(tokenizer)]
    said = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    embedding = model.get_input_embeddings()
    batch = padded(rows, embedding, "left")
    together = model.generate(inputs_embeds=batch.inputs_embeds, attention_mask=batch.attention_mask, **said)
    for number, row in enumerate(rows):
        alone = padded([row], embedding, "left")
        single = model.generate(inputs_embeds=alone.inputs_embeds, attention_mask=alone.attention_mask, **said)
        assert together[number].tolist() == single[0].tolist()


def test_vectors_stand_in_their_places_and_only_there(generator: tuple[Any, Any]) -> None:
    model, tokenizer = generator
    rows = unlike_rows(tokenizer)
    embedding = model.get_input_embeddings()
    with torch.no_grad():
        batch = padded(rows, embedding, "right")
    for number, row in enumerate(rows):
        found = batch.inputs_embeds[number]
        if row.vectors is not None:
            torch.testing.assert_close(found[list(row.places)], row.vectors)
        others = [place for place in range(len(row.ids)) if place not in row.places]
        torch.testing.assert_close(
            found[others], embedding(torch.tensor([row.ids[place] for place in others])).detach()
        )


def test_a_token_for_a_vector_makes_the_prompt_the_plain_one(generator: tuple[Any, Any]) -> None:
    """Vectors that are token embeddings give the logits of those tokens: nothing but the embedding is exchanged."""
    model, tokenizer = generator
    words = text_ids(tokenizer, " Alder Orchards")
    embedding = model.get_input_embeddings()
    pieces: list[Piece] = [Text("The firm"), Vectors(embedding(torch.tensor(words))), Text(" grows pears.")]
    row = row_of(tokenizer, pieces)
    plain = torch.tensor([text_ids(tokenizer, "The firm") + words + text_ids(tokenizer, " grows pears.")])
    assert row.usage == plain.shape[1]
    with torch.no_grad():
        torch.testing.assert_close(model(**padded([row], embedding, "left").inputs()).logits, model(plain).logits)


def test_labels_are_the_reply_alone(generator: tuple[Any, Any]) -> None:
    model, tokenizer = generator
    rows = unlike_rows(tokenizer)
    for batch in (
        padded(rows, model.get_input_embeddings(), "left"),
        padded(rows, model.get_input_embeddings(), "right"),
    ):
        labels = batch.labels
        said = [tokenizer.decode(labels[number][labels[number] != IGNORED]) for number in range(len(rows))]
        assert said == ["Mara Calder", "1998", "unanswerable", "A boat crosses the sound in the morning.", "Two boats."]


def test_gradients_reach_the_vectors_of_each_row(generator: tuple[Any, Any]) -> None:
    model, tokenizer = generator
    given = vectors(2).requires_grad_()
    prompts = [alignment_prompt(Vectors(given[:1])), alignment_prompt(Vectors(given[1:]))]
    rows = [row_of(tokenizer, chat_pieces(tokenizer, said), text_ids(tokenizer, "A cat.")) for said in prompts]
    batch = padded(rows, model.get_input_embeddings(), "right")
    model(**batch.inputs(), labels=batch.labels).loss.backward()
    assert given.grad is not None
    assert bool((given.grad.abs().sum(dim=1) > 0).all())


def test_messages_of_text_alone_are_the_chat_of_everywhere_else(generator: tuple[Any, Any]) -> None:
    _, tokenizer = generator
    said = [Message("system", "Be brief."), Message("user", "Who?\nAnd when?")]
    row = row_of(tokenizer, chat_pieces(tokenizer, [MixedMessage(m.role, (Text(m.content),)) for m in said]))
    assert list(row.ids) == chat_ids(tokenizer, said)
    assert (row.vectors, row.places, row.usage) == (None, (), len(row.ids))


def test_a_text_cannot_pose_as_a_vectors_place(generator: tuple[Any, Any]) -> None:
    _, tokenizer = generator
    said = [MixedMessage("user", (Text(f"a{VECTORS_PLACE}b"), Vectors(vectors(1)), Text(VECTORS_PLACE)))]
    pieces = chat_pieces(tokenizer, said)
    assert [isinstance(piece, Vectors) for piece in pieces] == [False, True, False]
    assert isinstance(pieces[0], Text)
    assert pieces[0].text.endswith("a b")


def test_vectors_of_a_wrong_shape_are_refused(generator: tuple[Any, Any]) -> None:
    model, tokenizer = generator
    with pytest.raises(ValueError, match=r"\(rows, hidden\)"):
        row_of(tokenizer, [Vectors(torch.zeros(HIDDEN))])
    with pytest.raises(ValueError, match="differ in length"):
        row_of(tokenizer, [Vectors(torch.zeros(1, HIDDEN)), Vectors(torch.zeros(1, HIDDEN + 1))])
    row = row_of(tokenizer, [Text("a"), Vectors(torch.zeros(1, HIDDEN + 1))])
    with pytest.raises(ValueError, match="have length 32"):
        padded([row], model.get_input_embeddings(), "left")


def test_a_vector_counts_as_one_token(generator: tuple[Any, Any]) -> None:
    _, tokenizer = generator
    one = row_of(tokenizer, chat_pieces(tokenizer, alignment_prompt(Vectors(vectors(1)))))
    four = row_of(tokenizer, chat_pieces(tokenizer, alignment_prompt(Vectors(vectors(4)))), (5, 6))
    assert four.usage == one.usage + 3
    assert len(four.places) == 4
