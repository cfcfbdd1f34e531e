"""The generator that reads vectors: a transformers model, SARA's adapter merged in, and batches of unlike prompts.

Runs without Ray. Replies at temperature 0 do not depend on the batch but for rounding; above it each is drawn by
itself, by its own seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.loading import settle
from okralong.pipelines.sara.description import read_shape
from okralong.pipelines.sara.mixed_input import Row, chat_pieces, padded, row_of
from okralong.pipelines.sara.pieces import MixedMessage, Piece, Text, Vectors
from okralong.pipelines.sara.protocol import Asked, RefusedError, Written
from okralong.pipelines.sara.served import generator_folder


class MixedGenerator:
    """A causal language model over texts and vectors. Make one with ``load``. Not safe for two threads at once."""

    def __init__(self, model: Any, tokenizer: Any, window: int) -> None:
        """``window`` is the most tokens, prompt and reply together, where the model itself does not have fewer."""
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
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
        """The generator ``model``, for which the compressor in a folder was trained, with the adapter there merged in.

        ``threads`` become torch's CPU threads in this process. Raises ConfigError when it cannot be loaded, or its
        token embeddings are of another length than the compressor's vectors.
        """
        target, dtype = settle(device, precision, threads)
        folder = generator_folder(compressor, model)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            causal: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The generator {folder} of the compressor {compressor} cannot be loaded: {error}. Give its folder as "
                "the compressor's description names it, or train a compressor for another with `okralong train-sara`."
            ) from error
        made = cls(causal.to(device=target), tokenizer, window)
        shape, _ = read_shape(compressor)
        if made.hidden != shape.hidden:
            raise ConfigError(
                f"The compressor {compressor} makes vectors of {shape.hidden} numbers, and the token embeddings of "
                f"{folder} have {made.hidden}. Train one for this generator with `okralong train-sara`."
            )
        return made

    @property
    def hidden(self) -> int:
        """The length of a token embedding."""
        return int(self._embedding.embedding_dim)

    def answer(self, asked: Sequence[Asked]) -> list[Written | RefusedError]:
        """A reply to each, in order; what does not fit the window is refused, and costs the others nothing."""
        done: dict[int, Written | RefusedError] = {}
        together: list[tuple[int, Row]] = []
        for place, each in enumerate(asked):
            try:
                row = self._row(each)
            except Exception as error:  # whatever a template or a tokenizer raises for one is not the others' fault
                done[place] = RefusedError(f"The messages cannot be put into this model's template: {error}.")
                continue
            if row.usage + each.max_tokens > self.window:
                done[place] = RefusedError(
                    f"The prompt has {row.usage} tokens and the reply may have {each.max_tokens}, and this model's "
                    f"window holds {self.window} together. Shorten the messages, or lower max_tokens."
                )
            elif each.temperature > 0:
                done[place] = self._write([each], [row])[0]
            else:
                together.append((place, row))
        for group in self._that_fit(asked, together):
            written = self._write([asked[place] for place, _ in group], [row for _, row in group])
            done |= {place: each for (place, _), each in zip(group, written, strict=True)}
        return [done[place] for place in range(len(asked))]

    def _that_fit(self, asked: Sequence[Asked], rows: Sequence[tuple[int, Row]]) -> list[list[tuple[int, Row]]]:
        """The rows in batches: one's long prompt and another's long reply must not pass the window together."""
        groups: list[list[tuple[int, Row]]] = []
        for place, row in rows:
            joined = [*groups[-1], (place, row)] if groups else []
            width = max((each.usage for _, each in joined), default=0)
            if joined and width + max(asked[number].max_tokens for number, _ in joined) <= self.window:
                groups[-1] = joined
            else:
                groups.append([(place, row)])
        return groups

    def _row(self, asked: Asked) -> Row:
        messages = [MixedMessage(each.role, tuple(map(_as_tensors, each.content))) for each in asked.messages]
        return row_of(self._tokenizer, chat_pieces(self._tokenizer, messages))

    @torch.inference_mode()
    def _write(self, asked: Sequence[Asked], rows: Sequence[Row]) -> list[Written]:
        first = asked[0]
        how: dict[str, Any] = {"do_sample": False}
        if first.temperature > 0:
            torch.manual_seed(first.seed)
            how = {"do_sample": True, "temperature": first.temperature, "top_p": first.top_p, "top_k": 0}
        end = self._tokenizer.eos_token_id
        batch = padded(rows, self._embedding, "left")
        written = self._model.generate(
            inputs_embeds=batch.inputs_embeds,
            attention_mask=batch.attention_mask,
            max_new_tokens=max(each.max_tokens for each in asked),
            eos_token_id=end,
            pad_token_id=end,
            **how,
        )
        pairs = zip(asked, rows, written.tolist(), strict=True)
        return [self._read(each, row, [int(token) for token in tokens]) for each, row, tokens in pairs]

    def _read(self, asked: Asked, row: Row, tokens: list[int]) -> Written:
        """What one of a batch wrote, up to its own end."""
        end = self._tokenizer.eos_token_id
        stopped = end in tokens[: asked.max_tokens]
        # The end is a token that was written, and is counted as other servers count it.
        counted = tokens.index(end) + 1 if stopped else min(asked.max_tokens, len(tokens))
        text = str(self._tokenizer.decode(tokens[: counted - stopped], skip_special_tokens=True))
        cut = min((at for word in asked.stop if (at := text.find(word)) >= 0), default=None)
        if cut is not None:
            return Written(text[:cut], row.usage, counted, "stop")
        return Written(text, row.usage, counted, "stop" if stopped else "length")


def _as_tensors(piece: Piece) -> Piece:
    return piece if isinstance(piece, Text) else Vectors(torch.from_numpy(piece.rows))
