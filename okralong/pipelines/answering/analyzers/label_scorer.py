"""An analyzer that computes the likelihood of each allowed label with a causal language model.

Thus replies cannot be malformed, and the probabilities need no further computation. A batch takes one pass over the
prompts (without the instructions, which are read once when the model is loaded) and the labels of the first field, and
a short pass for each of the other two fields. Training builds replies from the same tokens (``reply_fields``), so that
labels are scored with the tokens that were trained.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from okralong.pipelines.answering.analyzers.analysis import (
    FIELDS,
    UNCALIBRATED,
    AnalysisInput,
    Temperatures,
    analysis_for,
    analyzer_prompt,
    best,
    by_length,
    read_temperatures,
)
from okralong.pipelines.core.types import Analysis
from okralong.pipelines.models.weights import SAFE, chat_ids, loading, merged, settle, text_ids

Ids = list[int]

REPLY_TOKENS = 96  # project default: three times the longest reply in the vocabularies that were tried
"""Positions of the window that are kept free for the reply."""


class LabelScorer:
    """Scores labels with a causal language model; create it with ``load``. Not thread-safe."""

    def __init__(
        self, model: Any, tokenizer: Any, name: str, max_batch: int, temperatures: Temperatures = UNCALIBRATED
    ) -> None:
        self.name = name
        self._temperatures = temperatures
        self.max_batch = max_batch
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._fields = reply_fields(tokenizer)
        self._limit = int(model.config.max_position_embeddings) - REPLY_TOKENS
        with torch.inference_mode():
            self._opening = Opening.read(self._model, opening_ids(tokenizer))

    @classmethod
    def load(
        cls,
        model: str,
        adapter: str | None = None,
        max_batch: int = 16,
        precision: str = "auto",
        device: str = "auto",
        label: str | None = None,
        threads: int | None = None,
    ) -> LabelScorer:
        """Load ``model`` (folder or hub name) and merge the LoRA ``adapter``, if given, into it.

        Only safetensors are read. An adapter's folder may contain temperatures measured in training
        (``calibration.json``).

        Args:
            model: Folder or hub name.
            adapter: Folder or hub name of a LoRA adapter.
            max_batch: The most prompts per pass.
            precision: Number format; "auto" chooses it by the processor.
            device: "auto" uses a GPU if there is one.
            label: Name of the model in ``Analysis.analyzer``.
            threads: CPU threads of torch for the whole process; None leaves them unchanged.

        Raises:
            ConfigError: Model or adapter cannot be loaded.
        """
        target, dtype = settle(device, precision, threads)
        with loading(
            f"The analyzer's model {model!r} with adapter {adapter!r}",
            "Give folders that hold safetensors, or hub names that this machine can reach, or set analyzer.kind to "
            "rules.",
        ):
            tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
            # The adapter is merged in float32, because in bfloat16 its small changes would be lost to rounding.
            loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32 if adapter else dtype, **SAFE)
            if adapter is not None:
                loaded = merged(loaded, adapter)
        name = f"label-scorer:{label or Path(model).name}"
        temperatures = UNCALIBRATED if adapter is None else read_temperatures(Path(adapter))
        return cls(loaded.to(device=target, dtype=dtype), tokenizer, name, max_batch, temperatures)

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """Return one analysis for each input, in their order. Prompts of similar length share a pass.

        A last field that no input wants is not scored, which saves its pass.
        """
        prompts = [(prompt_ids(self._tokenizer, asked, self._limit), asked) for asked in batch]
        return by_length(prompts, lambda prompt: len(prompt[0]), self.max_batch, self._analyze_part)

    def _analyze_part(self, batch: list[tuple[Ids, AnalysisInput]]) -> list[Analysis]:
        asked = [each for _, each in batch]
        fields = 3 if any(each.evidence for each in asked) else 2 if any(each.pattern for each in asked) else 1
        rows = self.scores([ids for ids, _ in batch], fields)
        return [analysis_for(each, self.name, *row) for each, row in zip(asked, rows, strict=True)]

    def scores(self, prompts: list[Ids], fields: int) -> list[list[dict[str, float]]]:
        """Return the labels' probabilities for the first ``fields`` fields of prompts that are read as one batch."""
        scored: list[list[dict[str, float]]] = [[] for _ in prompts]
        with torch.inference_mode():
            # A prompt that was truncated to the model's window may lack the common opening.
            opening = self._opening if self._opening.opens(prompts) else None
            prefix = Prefix(self._model, len(prompts), opening)
            following = [ids[len(opening.ids) :] for ids in prompts] if opening else prompts
            for field, temperature in list(zip(self._fields, self._temperatures, strict=True))[:fields]:
                rows = [ids + field.scaffold for ids in following]
                following = []
                for row, scores in zip(scored, _probabilities(prefix, rows, field, temperature), strict=True):
                    row.append(scores)
                    # Later fields are scored after the label that is chosen here.
                    following.append(field.labels[best(scores)])
        return scored


def _probabilities(prefix: Prefix, rows: list[Ids], field: Field, temperature: float) -> list[dict[str, float]]:
    likelihoods = prefix.extend(rows, list(field.labels.values()))
    scaled = torch.softmax(likelihoods.double() / temperature, dim=1).tolist()
    return [dict(zip(field.labels, row, strict=True)) for row in scaled]


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the reply: the tokens before its label, and the tokens of each allowed label."""

    key: str
    scaffold: Ids
    labels: dict[str, Ids]


def reply_fields(tokenizer: Any) -> list[Field]:
    """Return the reply's three keys in order, as tokens of ``tokenizer``."""
    fields = []
    opening = "{"
    for key, labels in FIELDS:
        scaffold = text_ids(tokenizer, f'{opening}"{key}": "')
        fields.append(Field(key, scaffold, {label: text_ids(tokenizer, label) for label in labels}))
        opening = '", '
    return fields


def reply_ids(tokenizer: Any, labels: dict[str, str]) -> Ids:
    """Return a whole reply as tokens, including the end-of-turn token, as the target in training.

    ``labels`` maps each key to its label.
    """
    ids: Ids = []
    for field in reply_fields(tokenizer):
        ids += field.scaffold + field.labels[labels[field.key]]
    return [*ids, *text_ids(tokenizer, '"}'), int(tokenizer.eos_token_id)]


def prompt_ids(tokenizer: Any, asked: AnalysisInput, limit: int) -> Ids:
    """Return the prompt up to where the reply begins, at most ``limit`` tokens.

    A prompt that is too long loses its last passages, then the end of its question, so that an unusual input does not
    fail the whole batch.
    """
    passages, question = asked.passages, asked.question
    while True:
        ids = _render(tokenizer, AnalysisInput(question, passages))
        if len(ids) <= limit:
            return ids
        if passages:
            passages = passages[:-1]
        elif len(question) > 1:
            question = question[: len(question) // 2]
        else:
            return ids[-limit:]


def opening_ids(tokenizer: Any) -> Ids:
    """Return the tokens that every prompt begins with: the common prefix of two unrelated prompts."""
    one, other = (_render(tokenizer, asked) for asked in (AnalysisInput("?", ("!",)), AnalysisInput("!", ())))
    return one[: next(at for at, (token, another) in enumerate(zip(one, other, strict=False)) if token != another)]


def _render(tokenizer: Any, asked: AnalysisInput) -> Ids:
    return chat_ids(tokenizer, analyzer_prompt(asked))


# The instructions at the start of every prompt are read once, and kept as tokens and key-value cache.


@dataclass(frozen=True)
class Opening:
    """Tokens that all rows of a batch begin with, and the key-value cache of one row that has read them."""

    ids: Ids
    cache: Any

    @classmethod
    def read(cls, model: Any, ids: Ids) -> Opening:
        """Read ``ids`` with a causal language model, with gradients if they are enabled (for training)."""
        tokens = torch.tensor([ids], device=model.device)
        # Only the inner model is called, since no logits are needed. The rows of a DynamicCache can be repeated.
        cache = DynamicCache()
        model.base_model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return cls(ids, cache)

    def opens(self, rows: Sequence[Ids]) -> bool:
        """Return whether every row begins with the opening and is longer."""
        size = len(self.ids)
        return all(len(row) > size and row[:size] == self.ids for row in rows)

    def cache_for(self, rows: int) -> Any:
        """Return a copy of the cache for ``rows`` rows; extending it leaves the original unchanged."""
        grown = copy.copy(self.cache)
        grown.layers = [copy.copy(layer) for layer in self.cache.layers]
        grown.batch_repeat_interleave(rows)
        return grown


# A growing batch of token sequences with its key-value cache, and the likelihood of several continuations at once.
#
# Rows are padded on the left, with explicit positions and masks, so that a row's result does not depend on the other
# rows. New tokens and continuations of all rows go through the model in one pass: the continuations are concatenated,
# and a mask lets each see only its row and itself.


class Prefix:
    """The part of a batch that has been read.

    Attributes:
        model: The model that reads.
        cache: Its key-value cache.
        seen: (rows, columns), true where a cached column is a token and not padding.
        lengths: (rows,), tokens read.
    """

    def __init__(self, model: Any, rows: int, opening: Opening | None = None) -> None:
        read = len(opening.ids) if opening else 0
        self.model = model
        self.cache = opening.cache_for(rows) if opening else DynamicCache()
        self.seen = torch.ones((rows, read), dtype=torch.bool, device=model.device)
        self.lengths = torch.full((rows,), read, dtype=torch.long, device=model.device)

    def extend(self, rows: list[Ids], continuations: list[Ids]) -> Tensor:
        """Read at least one more token of every row, and score the possible continuations.

        Returns:
            The natural-log likelihood of each continuation after each row, shape (rows, continuations), float32. The
            continuations are not added to the cache.
        """
        device, width = self.model.device, max(len(row) for row in rows)
        real = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows], device=device)
        # The last token of a continuation is only predicted, never read.
        inner = [ids[:-1] for ids in continuations]
        packed = [token for ids in inner for token in ids]
        tokens = torch.tensor([[0] * (width - len(row)) + row + packed for row in rows], device=device)
        own = (self.lengths[:, None] + real.cumsum(1) - 1).clamp(min=0)
        self.lengths = self.lengths + real.sum(1)
        owner = torch.tensor([number for number, ids in enumerate(inner) for _ in ids], dtype=torch.long, device=device)
        depth = torch.tensor([step for ids in inner for step in range(len(ids))], dtype=torch.long, device=device)
        positions = torch.cat([own, self.lengths[:, None] + depth[None]], dim=1)
        hidden = self._forward(tokens, positions, _among(real, owner, depth))
        if packed:
            self.cache.crop(-len(packed))
        self.seen = torch.cat([self.seen, real], dim=1)
        return self._likelihoods(hidden[:, width - 1 :], inner, continuations)

    def _forward(self, tokens: Tensor, positions: Tensor, among: Tensor) -> Tensor:
        """Return the hidden states (rows, new, hidden) of new tokens, which see all cached ones.

        ``among``, shape (rows, new, new), is true where one new token sees another. The new columns are added to the
        cache.
        """
        rows, new = tokens.shape
        before = self.seen[:, None, :].expand(rows, new, self.seen.shape[1])
        visible = torch.cat([before, among], dim=2)
        dtype = self.model.dtype
        # An additive mask with finite values: a padding column that sees no tokens then yields an average instead of
        # NaN.
        mask = torch.zeros(visible.shape, dtype=dtype, device=tokens.device)
        mask.masked_fill_(~visible, torch.finfo(dtype).min)
        # Only the inner model is called, since the head would multiply every column by the whole vocabulary.
        output = self.model.base_model(
            input_ids=tokens,
            attention_mask=mask[:, None],
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def _likelihoods(self, states: Tensor, inner: list[Ids], continuations: list[Ids]) -> Tensor:
        """Score continuations from the states of each row's last token (column 0) and of the continuations' tokens."""
        # A contiguous matrix, because for a slice of three dimensions torch may copy the whole vocabulary matrix first.
        flat = states.reshape(-1, states.shape[-1]).contiguous()
        logits = self.model.get_output_embeddings()(flat).float()
        logs = torch.log_softmax(logits, dim=-1).view(states.shape[0], states.shape[1], -1)
        found, at = [], 1
        for ids, read in zip(continuations, inner, strict=True):
            columns = [0, *range(at, at + len(read))]
            found.append(logs[:, columns, ids].sum(1))
            at += len(read)
        return torch.stack(found, dim=1)


def _among(real: Tensor, owner: Tensor, depth: Tensor) -> Tensor:
    """Return the attention mask among new tokens: rows are causal, and a continuation sees its row and itself."""
    rows, width = real.shape
    size = width + owner.numel()
    among = torch.zeros((rows, size, size), dtype=torch.bool, device=real.device)
    among[:, :width, :width] = (
        torch.ones((width, width), dtype=torch.bool, device=real.device).tril() & real[:, None, :]
    )
    among[:, width:, :width] = real[:, None, :]
    among[:, width:, width:] = (owner[:, None] == owner[None]) & (depth[None] <= depth[:, None])
    return among
