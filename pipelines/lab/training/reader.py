"""Learning to read: LoRA on a causal language model, with the loss on the reply's tokens alone.

What prompts of a batch share (the passages, or the instructions alone) is read once; the loss of every row flows back
through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from okralong.pipelines.core.types import Message
from okralong.pipelines.lab.training.analyzer_data import ReadingExample
from okralong.pipelines.lab.training.fit import Learner, Recipe, causal_to_adapt, save_adapter, states_after
from okralong.pipelines.models.weights import chat_ids

QUOTATION_WEIGHT: Final = 0.3
"""Of a token of an Evidence line in the loss, against 1 for any other. Copying is learned soon, and quotations have
more tokens than the answers for which they stand. Ours."""

Row = tuple[list[int], list[float]]
"""The tokens of a prompt with its reply, and the weight of each as a target."""

LEAST_SHARED: Final = 16
"""Tokens that a batch must share to be worth a pass of their own; ours."""


class ReaderLearner(Learner):
    """A ``Learner`` over ``ReadingExample``. The base stays in the dtype given, the adapter learns in float32.

    ``right`` is (n, 2): of each reply the tokens foretold, and all of them, in the order of the families.
    """

    def __init__(self, recipe: Recipe, model: str, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self._tokenizer = causal_to_adapt(recipe, model, device, dtype)
        self._base = recipe.model

    def collate(self, examples: Sequence[ReadingExample]) -> dict[str, Any]:
        """See ``Learner``. ``labels`` are there for the trainer; ``families`` are rows that are read together.

        Of each, ``shared`` are the tokens with which all its rows begin, taken off them, and ``weights`` (n, length)
        says how much a token counts as a target; 0: not at all.
        """
        by_context: dict[tuple[str, str], list[Row]] = {}
        for each in examples:
            by_context.setdefault((each.instructions, each.context), []).append(self._row(each))
        return {
            "labels": torch.zeros(len(examples), dtype=torch.long),
            "families": [self._family(rows) for rows in _families(list(by_context.values()))],
        }

    def forward(self, labels: Tensor, families: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """See ``Learner``. The vocabulary is read at the reply's places only."""
        found = [self._losses(**family) for family in families]
        weights = torch.cat([weight for _, weight, _ in found])
        losses = torch.cat([losses for losses, _, _ in found])
        return {"loss": (losses * weights).sum() / weights.sum(), "right": torch.cat([counts for *_, counts in found])}

    def _losses(
        self, shared: Tensor, input_ids: Tensor, attention_mask: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss and weight of each target, and of each row the targets foretold and all of them."""
        causal: Any = self.model.get_base_model()
        states = states_after(causal, shared.tolist(), input_ids, attention_mask)
        row, at = weights[:, 1:].nonzero(as_tuple=True)
        # A contiguous 2-D tensor: sliced states would make the head copy its whole matrix.
        logits = causal.lm_head(states[row, at].contiguous()).float()
        wanted = input_ids[row, at + 1]
        losses = nn.functional.cross_entropy(logits, wanted, reduction="none")
        counts = torch.zeros((len(input_ids), 2), dtype=torch.long, device=input_ids.device)
        counts[:, 0].index_add_(0, row, (logits.argmax(dim=1) == wanted).long())
        counts[:, 1].index_add_(0, row, torch.ones_like(wanted))
        return losses, weights[row, at + 1], counts

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """See ``Learner``: the share of reply tokens foretold."""
        foretold, tokens = right.sum(dim=0).tolist()
        return {"token_accuracy": foretold / tokens}

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_adapter(self.model, self._base, folder)

    def _row(self, each: ReadingExample) -> Row:
        prompt = chat_ids(self._tokenizer, [Message("system", each.instructions), Message("user", each.user)])
        said = self._tokenizer(each.reply, add_special_tokens=False, return_offsets_mapping=True)
        quoted = _quoted(each.reply)
        weights = [QUOTATION_WEIGHT if quoted[start] else 1.0 for start, _ in said["offset_mapping"]]
        ids = [*prompt, *said["input_ids"], int(self._tokenizer.eos_token_id)]
        return ids, [*[0.0] * len(prompt), *weights, 1.0]

    def _family(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        size = _shared([ids for ids, _ in rows])
        shared = rows[0][0][:size]
        rows = [(ids[size:], weights[size:]) for ids, weights in rows]
        width = max(len(ids) for ids, _ in rows)
        pad = int(self._tokenizer.eos_token_id)
        return {
            "shared": torch.tensor(shared, dtype=torch.long),
            "input_ids": torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]),
            "weights": torch.tensor([weights + [0.0] * (width - len(weights)) for _, weights in rows]),
        }


def _families(contexts: Sequence[list[Row]]) -> list[list[Row]]:
    """Rows to be read together: those of one context, and all that stand alone if that saves more than it pads."""
    families = [rows for rows in contexts if len(rows) > 1]
    single = [rows[0] for rows in contexts if len(rows) == 1]
    if not single:
        return families
    lengths = [len(ids) for ids, _ in single]
    padding = max(lengths) * len(single) - sum(lengths)
    together = _shared([ids for ids, _ in single]) * (len(single) - 1) >= padding
    return families + ([single] if together else [[row] for row in single])


def _quoted(reply: str) -> list[bool]:
    """For each character whether it stands in an Evidence line."""
    marks: list[bool] = []
    for line in reply.splitlines(keepends=True):
        marks += [line.startswith("Evidence:")] * len(line)
    return marks


def _shared(rows: Sequence[list[int]]) -> int:
    """With how many tokens all rows begin, none of them wholly; 0 where it is not worth a pass, or is one row's."""
    shortest = min(map(len, rows)) - 1
    size = next((at for at in range(shortest) if len({ids[at] for ids in rows}) > 1), shortest)
    return size if size >= LEAST_SHARED and len(rows) > 1 else 0
