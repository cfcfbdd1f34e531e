"""The generator that reads text and vectors: a transformers model with SARA's adapter merged in.

At temperature 0 a reply does not depend on the other prompts of its batch, apart from rounding. At higher temperatures
each reply is sampled with the request's own seed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.core.types import VECTORS_PLACE as PLACE
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import PLAIN_REPLY_MARK, SAFE, TEMPLATE_DATE, loading, settle, text_ids
from okralong.pipelines.sara.artifact import generator_folder, read_shape
from okralong.pipelines.sara.prompts import Asked, MixedMessage, Piece, RefusedError, Text, Vectors, Written, plain


class MixedGenerator:
    """A causal language model that reads texts and vectors, made with ``load``. Not thread-safe."""

    def __init__(self, model: Any, tokenizer: Any, window: int) -> None:
        """Limit prompt plus reply to ``window`` tokens, or to the model's own limit if that is lower."""
        self._model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self._embedding = model.get_input_embeddings()
        self.window = min(window, int(model.config.max_position_embeddings))

    @classmethod
    def load(
        cls,
        compressor: Path,
        model: str,
        window: int,
        precision: str = "auto",
        device: str = "auto",
        threads: int | None = None,
    ) -> MixedGenerator:
        """Load the generator ``model`` with the adapter of the compressor's folder merged in.

        ``threads`` is the number of torch's CPU threads in this process.

        Raises:
            ConfigError: The generator cannot be loaded, or its token embeddings and the compressor's vectors differ in
                length.
        """
        target, dtype = settle(device, precision, threads)
        folder = generator_folder(compressor, model)
        with loading(
            f"The generator {folder} of the compressor {compressor}",
            "Give its folder as the compressor's description names it, or train a compressor for another with "
            "`okralong train-sara`.",
        ):
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            causal: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **SAFE)
        made = cls(causal.to(device=target), tokenizer, window)
        shape, _ = read_shape(compressor)
        if made.hidden != shape.hidden:
            raise ConfigError(
                f"The compressor {compressor} makes vectors of length {shape.hidden}, and the token embeddings "
                f"of {folder} have length {made.hidden}. Train one for this generator with `okralong train-sara`."
            )
        return made

    @property
    def hidden(self) -> int:
        """The length of a token embedding."""
        return int(self._embedding.embedding_dim)

    def answer(self, asked: Sequence[Asked]) -> list[Written | RefusedError]:
        """Return a reply per request, in order, or the error of a request that is invalid or exceeds the window."""
        done: dict[int, Written | RefusedError] = {}
        together: list[tuple[int, Row]] = []
        for place, each in enumerate(asked):
            try:
                row = self.row_for(each)
            except Exception as error:  # an error of the template or tokenizer in one request must not fail the others
                done[place] = RefusedError(f"The messages cannot be put into this model's template: {error}.")
                continue
            if row.usage + each.max_tokens > self.window:
                done[place] = RefusedError(
                    f"The prompt has {row.usage} tokens and the reply may have {each.max_tokens}, and this "
                    f"model's window holds {self.window} in total. Shorten the messages, or lower max_tokens."
                )
            elif each.temperature > 0:
                done[place] = self._write([each], [row])[0]
            else:
                together.append((place, row))
        for group in self.batches_that_fit(asked, together):
            written = self._write([asked[place] for place, _ in group], [row for _, row in group])
            done |= {place: each for (place, _), each in zip(group, written, strict=True)}
        return [done[place] for place in range(len(asked))]

    def batches_that_fit(self, asked: Sequence[Asked], rows: Sequence[tuple[int, Row]]) -> list[list[tuple[int, Row]]]:
        """Split the rows into batches, in each of which the longest prompt plus the longest reply fit the window."""
        groups: list[list[tuple[int, Row]]] = []
        for place, row in rows:
            joined = [*groups[-1], (place, row)] if groups else []
            width = max((each.usage for _, each in joined), default=0)
            if joined and width + max(asked[number].max_tokens for number, _ in joined) <= self.window:
                groups[-1] = joined
            else:
                groups.append([(place, row)])
        return groups

    def row_for(self, asked: Asked) -> Row:
        """Return a request's prompt as a row of a batch."""
        messages = [MixedMessage(each.role, tuple(map(_as_tensors, each.content))) for each in asked.messages]
        return row_of(self.tokenizer, chat_pieces(self.tokenizer, messages))

    @torch.inference_mode()
    def _write(self, asked: Sequence[Asked], rows: Sequence[Row]) -> list[Written]:
        first = asked[0]
        how: dict[str, Any] = {"do_sample": False}
        if first.temperature > 0:
            torch.manual_seed(first.seed)
            how = {"do_sample": True, "temperature": first.temperature, "top_p": first.top_p, "top_k": 0}
        end = self.tokenizer.eos_token_id
        batch = padded(rows, self._embedding, "left")
        first_token = _FirstToken()
        written = self._model.generate(
            inputs_embeds=batch.inputs_embeds,
            attention_mask=batch.attention_mask,
            max_new_tokens=max(each.max_tokens for each in asked),
            eos_token_id=end,
            pad_token_id=end,
            logits_processor=[first_token],
            **how,
        )
        pairs = zip(asked, rows, written.tolist(), strict=True)
        replies = [self.read_reply(each, row, [int(token) for token in tokens]) for each, row, tokens in pairs]
        return [replace(reply, prompt_ms=first_token.after_ms) for reply in replies]

    def read_reply(self, asked: Asked, row: Row, tokens: list[int]) -> Written:
        """Return the reply in the new ``tokens`` of a row, up to its end token."""
        end = self.tokenizer.eos_token_id
        stopped = end in tokens[: asked.max_tokens]
        # The end token counts as a completion token, as on other servers.
        counted = tokens.index(end) + 1 if stopped else min(asked.max_tokens, len(tokens))
        text = str(self.tokenizer.decode(tokens[: counted - stopped], skip_special_tokens=True))
        cut = min((at for word in asked.stop if (at := text.find(word)) >= 0), default=None)
        if cut is not None:
            return Written(text[:cut], row.usage, counted, "stop")
        return Written(text, row.usage, counted, "stop" if stopped else "length")


class _FirstToken:
    """A logits processor that changes nothing: ``after_ms`` is the time from its creation to the first token."""

    def __init__(self) -> None:
        self._created = time.perf_counter()
        self.after_ms: float | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self.after_ms is None:
            self.after_ms = 1000 * (time.perf_counter() - self._created)
        return scores


def _as_tensors(piece: Piece) -> Piece:
    return piece if isinstance(piece, Text) else Vectors(torch.from_numpy(piece.rows))


# A prompt is a sequence of pieces, which the model gets as input embeddings. Each text is tokenized on its own; each
# vector replaces one token. Batches are padded on the left for generation and on the right for training. Positions are
# counted from each row's beginning, so padding has no effect.

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
"""The label of tokens that PyTorch excludes from the loss."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A prompt as token ids and vectors; in training also the reply's tokens after it.

    ``ids`` has one entry per token, with arbitrary ids at the ``places`` of vectors; ``vectors`` has the shape (places,
    hidden) or is None. The last ``targets`` entries of ``ids`` are the reply, for which the loss is computed.
    """

    ids: tuple[int, ...]
    vectors: Tensor | None = None
    places: tuple[int, ...] = ()
    targets: int = 0

    @property
    def usage(self) -> int:
        """The number of prompt tokens; a vector counts as one."""
        return len(self.ids) - self.targets


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The input of a transformers model: ``inputs_embeds`` (n, width, hidden); the others (n, width), integers."""

    inputs_embeds: Tensor
    attention_mask: Tensor
    position_ids: Tensor
    labels: Tensor

    def inputs(self) -> dict[str, Tensor]:
        """Return the keyword arguments of a forward pass or of ``generate``, without labels."""
        return {
            "inputs_embeds": self.inputs_embeds,
            "attention_mask": self.attention_mask,
            "position_ids": self.position_ids,
        }


def chat_pieces(tokenizer: Any, messages: Sequence[MixedMessage]) -> list[Piece]:
    """Apply the tokenizer's chat template to ``messages``, up to where the reply begins; vectors keep their places."""
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
    """Return the row of a prompt; in training, ``reply`` has the tokens to be learned after it.

    Raises:
        ValueError: Vectors are not two-dimensional or differ in length.
    """
    ids: list[int] = []
    places: list[int] = []
    vectors: list[Tensor] = []
    for piece in pieces:
        if isinstance(piece, Text):
            ids += text_ids(tokenizer, piece.text)
            continue
        if piece.rows.ndim != 2:
            raise ValueError(f"Vectors have the shape {tuple(piece.rows.shape)}; expected (rows, hidden).")
        places += range(len(ids), len(ids) + len(piece.rows))
        ids += [0] * len(piece.rows)
        vectors.append(piece.rows)
    if len({each.shape[1] for each in vectors}) > 1:
        raise ValueError("The vectors of a prompt differ in length.")
    return Row((*ids, *reply), torch.cat(vectors) if vectors else None, tuple(places), len(reply))


def padded(rows: Sequence[Row], embedding: nn.Embedding, side: Literal["left", "right"]) -> Batch:
    """Return the rows as one batch, in the dtype and on the device of the generator's ``embedding``.

    Gradients flow back to the vectors.

    Raises:
        ValueError: The vectors and the generator's embeddings differ in length.
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
        raise ValueError(f"The generator's token embeddings have length {hidden}, the vectors do not.")
    if given:
        where = (torch.tensor(numbers, device=device), torch.tensor(places, device=device))
        embeds = embeds.index_put(where, torch.cat([each.to(device, embeds.dtype) for each in given]))
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    return Batch(embeds, mask.to(device), positions.to(device), labels.to(device))
