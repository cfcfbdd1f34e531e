"""Texts and vectors in one prompt: how they become the input embeddings of a causal language model.

A prompt is a row of pieces. Texts are cut into tokens piece by piece; each vector stands where one token would stand,
and counts as one. A batch of unlike rows is padded: on the left for generation, so that all rows end together, on the
right for training. Positions count from each row's own beginning, so padding changes nothing that a row says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from okralong.pipelines.core.types import VECTORS_PLACE as PLACE
from okralong.pipelines.models.weights import PLAIN_REPLY_MARK, TEMPLATE_DATE, text_ids
from okralong.pipelines.sara.pieces import MixedMessage, Piece, Text, Vectors, plain

__all__ = [
    "IGNORED",
    "PLACE",
    "Batch",
    "MixedMessage",
    "Piece",
    "Row",
    "Text",
    "Vectors",
    "chat_pieces",
    "padded",
    "row_of",
]

IGNORED: Final = -100
"""The label of a place that is not in the loss: PyTorch's own sign."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A prompt as a model reads it, and the tokens that are to follow it.

    ``ids`` has one entry a token, and any id where a vector stands: at ``places``, one for each row of ``vectors``
    (places, hidden); None where there are none. The last ``targets`` entries of ``ids`` are in the loss.
    """

    ids: tuple[int, ...]
    vectors: Tensor | None = None
    places: tuple[int, ...] = ()
    targets: int = 0

    @property
    def usage(self) -> int:
        """Prompt tokens, a vector counted as one."""
        return len(self.ids) - self.targets


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What a transformers model takes: ``inputs_embeds`` (n, width, hidden); the others (n, width), integers."""

    inputs_embeds: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    labels: Tensor

    def inputs(self) -> dict[str, Tensor]:
        """The keyword arguments of a forward pass or of ``generate``, without labels."""
        return {
            "inputs_embeds": self.inputs_embeds,
            "attention_mask": self.attention_mask,
            "position_ids": self.position_ids,
        }


def chat_pieces(tokenizer: Any, messages: Sequence[MixedMessage]) -> list[Piece]:
    """``messages`` in the tokenizer's chat template up to where the reply begins; vectors keep their places."""
    found: list[Vectors] = [piece for each in messages for piece in each.content if isinstance(piece, Vectors)]
    texts = ["".join(PLACE if isinstance(p, Vectors) else plain(p.text) for p in each.content) for each in messages]
    if tokenizer.chat_template is None:
        filled = (tokenizer.bos_token or "") + "\n\n".join(texts) + PLAIN_REPLY_MARK
    else:
        chat = [{"role": each.role, "content": text} for each, text in zip(messages, texts, strict=True)]
        filled = str(
            tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, date_string=TEMPLATE_DATE)
        )
    parts = filled.split(PLACE)
    if len(parts) != len(found) + 1:
        raise ValueError(f"The chat template kept {len(parts) - 1} of {len(found)} places for vectors.")
    pieces: list[Piece] = [Text(parts[0])]
    for vectors, text in zip(found, parts[1:], strict=True):
        pieces += [vectors, Text(text)]
    return [piece for piece in pieces if isinstance(piece, Vectors) or piece.text]


def row_of(tokenizer: Any, pieces: Sequence[Piece], reply: Sequence[int] = ()) -> Row:
    """The row of a prompt, with the tokens ``reply`` to be learned after it. Raises ValueError for vectors of no 2-D
    shape or of unlike length."""
    ids: list[int] = []
    places: list[int] = []
    vectors: list[Tensor] = []
    for piece in pieces:
        if isinstance(piece, Text):
            ids += text_ids(tokenizer, piece.text)
            continue
        if piece.rows.ndim != 2:
            raise ValueError(f"Vectors have the shape {tuple(piece.rows.shape)}; (rows, hidden) is wanted.")
        places += range(len(ids), len(ids) + len(piece.rows))
        ids += [0] * len(piece.rows)
        vectors.append(piece.rows)
    if len({each.shape[1] for each in vectors}) > 1:
        raise ValueError("The vectors of a prompt are of unlike length.")
    return Row((*ids, *reply), torch.cat(vectors) if vectors else None, tuple(places), len(reply))


def padded(rows: Sequence[Row], embedding: nn.Embedding, side: Literal["left", "right"]) -> Batch:
    """The rows as one batch, in the dtype and on the device of the generator's ``embedding``.

    Gradients flow back to the vectors. Raises ValueError for vectors that are not of the generator's length.
    """
    width, hidden, device = max(len(row.ids) for row in rows), embedding.embedding_dim, embedding.weight.device
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    labels = torch.full((len(rows), width), IGNORED, dtype=torch.long)
    numbers: list[int] = []
    places: list[int] = []
    for number, row in enumerate(rows):
        start = width - len(row.ids) if side == "left" else 0
        end = start + len(row.ids)
        ids[number, start:end] = torch.tensor(row.ids, dtype=torch.long)
        mask[number, start:end] = 1
        if row.targets:
            labels[number, end - row.targets : end] = ids[number, end - row.targets : end]
        numbers += [number] * len(row.places)
        places += [start + place for place in row.places]
    embeds: Tensor = embedding(ids.to(device))
    given = [row.vectors for row in rows if row.vectors is not None]
    if any(each.shape[1] != hidden for each in given):
        raise ValueError(f"The generator's token embeddings have {hidden} numbers, the vectors have not.")
    if given:
        where = (torch.tensor(numbers, device=device), torch.tensor(places, device=device))
        embeds = embeds.index_put(where, torch.cat([each.to(device, embeds.dtype) for each in given]))
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    return Batch(embeds, mask.to(device), positions.to(device), labels.to(device))
