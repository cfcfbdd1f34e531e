"""Train the cross-encoder with three losses; a query and all its passages are in the same batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from okralong.lab.training.learners.blocks import BlocksLearner, encoder_to_learn
from okralong.lab.training.learners.learner import Definition, Learner, Log, evaluations_of
from okralong.lab.training.recipe import UNKNOWN, RankingExample, Recipe
from okralong.pipelines.models.cross_encoder import (
    WEIGHTS,
    CrossEncoder,
    CrossEncoderModel,
    CrossEncoderShape,
    load_learned,
    passage_mask,
    read_shape,
    save_cross_encoder,
    tokens_of,
    write_shape,
)
from okralong.pipelines.models.weights import (
    SHIPPED,
    ResolvedModel,
    resolve_embedding_model,
    sha256_of,
    shipped_adapter,
)

if TYPE_CHECKING:
    from okralong.lab.training.rows.tables import RankingRow

SPAN_WEIGHT: Final = 0.5  # project default
"""Weight of the loss of spans. Those of relevance and answerable have the weight 1."""

RELEVANT: Final = 0.5  # project default
"""Share of a piece of evidence that a passage must contain to count as relevant in the figures."""


class CrossEncoderDefinition(Definition["RankingRow", RankingExample]):
    """The definition of a cross-encoder."""

    use = "reranker.model: {out} in an answer config"

    def base(self, recipe: Recipe) -> ResolvedModel:
        """See ``Definition``."""
        return resolve_embedding_model(recipe.model)

    def examples(self, rows: Sequence[RankingRow]) -> list[RankingExample]:
        """See ``Definition``."""
        return [
            RankingExample(row.question, row.passages, row.relevance, row.answerable, row.starts, row.ends)
            for row in rows
        ]

    def learner(
        self, recipe: Recipe, train: Sequence[RankingExample], base: ResolvedModel, device: str, dtype: torch.dtype
    ) -> Learner:
        """See ``Definition``."""
        return CrossEncoderLearner(recipe, base.path, base.sha256, device, dtype)

    def card(
        self, recipe: Recipe, base: str, out: Path, train: Sequence[RankingRow], held: Sequence[RankingRow], log: Log
    ) -> list[str]:
        """Calibrate ``answerable`` on ``held``, and return the card's sections."""
        shape = calibrate(out, held, recipe.precision)
        pairs = sum(len(row.passages) for row in train)
        last = evaluations_of(log)[-1]
        figures = ", ".join(f"{name.removeprefix('eval_')} {last[name]:.3f}" for name in _FIGURES if name in last)
        return [
            "# The cross-encoder of okralong",
            f"Made by `okralong train`. On {base}: its blocks from {shape.first_block} on (blocks before them and the "
            f"embeddings are the encoder's own), and heads for relevance, the answer's place, and whether the passage "
            f"holds it. {recipe.schedule_words()} {len(train):,} train rows of {pairs:,} passages, {len(held):,} "
            "validation rows.",
            f"Answerable = sigmoid({shape.scale:.2f} x logit + {shape.shift:.2f}), measured on validation.",
            f"## On validation\n\nAt the end: {figures}.",
        ]


_FIGURES: Final = ("eval_reciprocal_rank", "eval_first_relevant", "eval_answerable_accuracy", "eval_span_ends")


class CrossEncoderLearner(BlocksLearner[CrossEncoderModel]):
    """Trains the encoder's last blocks and the heads. ``model`` is its folder, ``sha256`` the hash of its weights."""

    def __init__(self, recipe: Recipe, model: str, sha256: str | None, device: str, dtype: torch.dtype) -> None:
        super().__init__(recipe, model, CrossEncoderModel(encoder_to_learn(model), recipe.dropout), device, dtype)
        self._shape = CrossEncoderShape(recipe.model, sha256, recipe.first_block, recipe.max_tokens)
        if recipe.start is not None:
            start = shipped_adapter("cross_encoder") if recipe.start == SHIPPED else Path(recipe.start)
            # Blocks that an earlier training changed must be written, too.
            kept = min(read_shape(start).first_block, recipe.first_block)
            self._shape = replace(self._shape, first_block=kept)
            load_learned(start, self.net, sha256)
            self.made_from = sha256_of(start / WEIGHTS)
        self._start_weight = recipe.start_weight
        self._begun = {name: value.clone() for name, value in self._learned().items()} if recipe.start_weight else {}

    def _learned(self) -> dict[str, Tensor]:
        return {name: value.detach() for name, value in self.net.named_parameters() if value.requires_grad}

    def finish(self) -> bool:
        """Average the weights with those that training started from."""
        learned = self._learned()
        for name, begun in self._begun.items():
            learned[name].lerp_(begun.to(learned[name].device), self._start_weight)
        return bool(self._begun)

    def collate(self, examples: Sequence[RankingExample]) -> dict[str, Any]:
        """Make a batch of all pairs of query and passage, query by query."""
        counts = [len(each.passages) for each in examples]
        queries = [each.question for each in examples for _ in each.passages]
        passages = [passage for each in examples for passage in each.passages]
        encoded = tokens_of(self.tokenizer, queries, passages, self._shape.max_tokens, offsets=True)
        offsets = encoded.pop("offset_mapping")
        inside = passage_mask(encoded, len(passages))
        starts = [start for each in examples for start in each.starts]
        ends = [end for each in examples for end in each.ends]
        places = [_tokens_at(offsets[n], inside[n], starts[n], ends[n]) for n in range(len(passages))]
        held = [value for each in examples for value in each.answerable]
        # If truncation removed the answer, it is unknown whether the passage is answerable.
        lost = [start >= 0 and place[0] < 0 for start, place in zip(starts, places, strict=True)]
        return {
            "labels": torch.tensor(counts),
            "tokens": dict(encoded.items()),
            "inside": inside,
            "relevance": torch.tensor([value for each in examples for value in each.relevance]),
            "answerable": torch.tensor([UNKNOWN if cut else value for value, cut in zip(held, lost, strict=True)]),
            "spans": torch.tensor(places),
        }

    def forward(
        self,
        labels: Tensor,
        tokens: dict[str, Tensor],
        inside: Tensor,
        relevance: Tensor,
        answerable: Tensor,
        spans: Tensor,
    ) -> dict[str, Tensor]:
        """Return the loss, and ``right``, shape (queries, 7).

        The columns are: 0. the reciprocal rank of the first relevant passage; 1. whether its rank is 1; 2. whether
        there is one (0 or 1); 3. and 4. the number of correct answerable labels and of all; 5. and 6. the number of
        correct span ends (start and end together) and of all.
        """
        with self.amp():
            score, held, ends = self.net(tokens)
        counts = labels.tolist()
        wanted, said = _padded(relevance, counts, 0.0), _padded(score, counts, float("-inf"))
        some = wanted.sum(dim=1) > 0
        target = wanted[some] / wanted[some].sum(dim=1, keepdim=True)
        listwise = -(target * said[some].log_softmax(dim=1).masked_fill(target == 0, 0.0)).sum(dim=1)
        known = answerable != UNKNOWN
        binary = nn.functional.binary_cross_entropy_with_logits(held[known], answerable[known].float())
        masked = ends.masked_fill(~inside.unsqueeze(-1), -1e4)
        placed = spans[:, 0] >= 0
        losses = [binary] if known.any() else []
        if some.any():
            losses.append(listwise.mean())
        if placed.any():
            start, end = masked[placed].unbind(dim=-1)
            span = nn.functional.cross_entropy(start, spans[placed, 0]) + nn.functional.cross_entropy(
                end, spans[placed, 1]
            )
            losses.append(SPAN_WEIGHT * span / 2)
        loss = torch.stack(losses).sum() if losses else score.sum() * 0.0
        with torch.no_grad():
            right = self._right(wanted, said, counts, (held > 0).long() == answerable, known, masked, spans, placed)
        return {"loss": loss, "right": right}

    def _right(
        self,
        wanted: Tensor,
        said: Tensor,
        counts: Sequence[int],
        sure: Tensor,
        known: Tensor,
        ends: Tensor,
        spans: Tensor,
        placed: Tensor,
    ) -> Tensor:
        order = said.argsort(dim=1, descending=True)
        found = wanted.gather(1, order) >= RELEVANT
        some = found.any(dim=1)
        rank = found.long().argmax(dim=1) + 1.0
        reciprocal = torch.where(some, 1.0 / rank, torch.zeros_like(rank))
        hit = ends.argmax(dim=1) == spans
        columns = [
            reciprocal,
            (reciprocal == 1.0).float(),
            some.float(),
            _padded((sure & known).float(), counts, 0.0).sum(dim=1),
            _padded(known.float(), counts, 0.0).sum(dim=1),
            _padded((hit.float().sum(dim=1) / 2 * placed), counts, 0.0).sum(dim=1),
            _padded(placed.float(), counts, 0.0).sum(dim=1),
        ]
        return torch.stack(columns, dim=1)

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """See ``Learner``."""
        total = right.sum(dim=0).clamp(min=1e-9).tolist()
        return {
            "reciprocal_rank": total[0] / total[2],
            "first_relevant": total[1] / total[2],
            "answerable_accuracy": total[3] / total[4],
            "span_ends": total[5] / total[6],
        }

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_cross_encoder(folder, self.net, self._shape)


def _padded(values: Tensor, counts: Sequence[int], fill: float) -> Tensor:
    """Return the values of all pairs as a row per query, shape (queries, most passages)."""
    return nn.utils.rnn.pad_sequence(list(torch.split(values, list(counts))), batch_first=True, padding_value=fill)


def _tokens_at(offsets: Tensor, inside: Tensor, start: int, end: int) -> tuple[int, int]:
    """Return the first and last token of characters [start, end) of the passage, or (-1, -1) if they were truncated."""
    if start < 0:
        return -1, -1
    touched = inside & (offsets[:, 1] > start) & (offsets[:, 0] < end)
    places = touched.nonzero().flatten().tolist()
    return (places[0], places[-1]) if places and int(offsets[places[-1], 1]) >= end else (-1, -1)


def calibrate(folder: Path, held: Sequence[RankingRow], precision: str = "float32") -> CrossEncoderShape:
    """Fit the scale and shift of ``answerable`` on validation rows (Platt 1999), and write them next to the weights."""
    shape = replace(read_shape(folder), scale=1.0, shift=0.0)
    write_shape(folder, shape)
    model = CrossEncoder.load(folder, precision)
    queries = [row.question for row in held for _ in row.passages]
    readings = model.read(queries, [passage for row in held for passage in row.passages])
    truth = np.array([value for row in held for value in row.answerable])
    said = np.clip(np.array([each.answerable for each in readings], dtype=np.float64), 1e-6, 1 - 1e-6)
    known = truth != UNKNOWN
    if len(set(truth[known].tolist())) == 2:
        from sklearn.linear_model import LogisticRegression

        logits = np.log(said / (1 - said))[known].reshape(-1, 1)
        fitted = LogisticRegression(C=1e6).fit(logits, truth[known])
        shape = replace(shape, scale=float(fitted.coef_[0, 0]), shift=float(fitted.intercept_[0]))
        write_shape(folder, shape)
    return shape
