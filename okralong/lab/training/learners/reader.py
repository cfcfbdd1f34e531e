"""Train the reader adapter (LoRA). The loss is computed only on the tokens of replies.

The part that the prompts of a batch share (instructions and possibly passages) is read only once. It has gradients, so
that the loss of every row trains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from okralong.lab.training.learners.learner import Definition, Learner, Log, causal_base, evaluations_of
from okralong.lab.training.learners.lora import CausalLearner, Row, reply_counts, shared_size
from okralong.lab.training.recipe import ReadingExample, Recipe
from okralong.pipelines.core.types import Message
from okralong.pipelines.models.merged_model import ASKED, ReaderFile
from okralong.pipelines.models.weights import ResolvedModel, causal_model, chat_ids, text_ids

if TYPE_CHECKING:
    from okralong.lab.training.rows.tables import ReadingRow

QUOTATION_WEIGHT: Final = 0.3  # project default
"""Weight in the loss of a token in an "Evidence" line. Any other has the weight 1.

It is less than 1, because copying is learned soon and quotations have more tokens than the answers."""


class ReaderLearner(CausalLearner):
    """Learns from ``ReadingExample``s. The mark of a target token is its weight in the loss."""

    def collate(self, examples: Sequence[ReadingExample]) -> dict[str, Any]:
        """Make a batch. ``labels`` is only for the trainer; ``families`` has groups of rows with a common beginning."""
        by_context: dict[tuple[str, str], list[Row]] = {}
        for each in examples:
            by_context.setdefault((each.instructions, each.context), []).append(self.row(each))
        return {
            "labels": torch.zeros(len(examples), dtype=torch.long),
            "families": [self.family(rows) for rows in _families(list(by_context.values()))],
        }

    def forward(self, labels: Tensor, families: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return the loss, and ``right`` in the order of the families' rows."""
        losses, weights, right = list[Tensor](), list[Tensor](), list[Tensor]()
        for family in families:
            found, hits, row, marks = self.target_losses(**family)
            losses.append(found)
            weights.append(marks)
            right.append(reply_counts(hits, row, len(family["input_ids"])))
        weight = torch.cat(weights)
        return {"loss": (torch.cat(losses) * weight).sum() / weight.sum(), "right": torch.cat(right)}

    def row(self, each: ReadingExample) -> Row:
        """Return the tokens of an example, and the weights of its reply's tokens."""
        prompt = chat_ids(self.tokenizer, [Message("system", each.instructions), Message("user", each.user)])
        said = self.tokenizer(each.reply, add_special_tokens=False, return_offsets_mapping=True)
        quoted = [line.startswith("Evidence:") for line in each.reply.splitlines(keepends=True) for _ in line]
        weights = [QUOTATION_WEIGHT if quoted[start] else 1.0 for start, _ in said["offset_mapping"]]
        ids = [*prompt, *said["input_ids"], int(self.tokenizer.eos_token_id)]
        return ids, [*[0.0] * len(prompt), *weights, 1.0]


def _families(contexts: Sequence[list[Row]]) -> list[list[Row]]:
    """Group rows into families: those of a context, and the others if that saves more than padding costs."""
    families = [rows for rows in contexts if len(rows) > 1]
    single = [rows[0] for rows in contexts if len(rows) == 1]
    if not single:
        return families
    lengths = [len(ids) for ids, _ in single]
    shared = shared_size([ids for ids, _ in single], min(lengths) - 1)
    together = shared * (len(single) - 1) >= max(lengths) * len(single) - sum(lengths)
    return families + ([single] if together else [[row] for row in single])


class ReaderDefinition(Definition["ReadingRow", ReadingExample]):
    """The definition of a reader adapter. ``reader.json`` next to the weights describes the form of its prompts."""

    use = "llm.reader: {out} in an answer config"

    def base(self, recipe: Recipe) -> ResolvedModel:
        """See ``Definition``."""
        return causal_base(recipe.model)

    def usable(self, recipe: Recipe, rows: Sequence[ReadingRow]) -> list[ReadingRow]:
        """Return the rows whose prompt and reply have at most ``recipe.max_tokens`` of the model's tokens."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(causal_model(recipe.model), trust_remote_code=False)

        def size(row: ReadingRow) -> int:
            return len(chat_ids(tokenizer, row.messages)) + len(text_ids(tokenizer, row.reply))

        return [row for row in rows if size(row) <= recipe.max_tokens]

    def examples(self, rows: Sequence[ReadingRow]) -> list[ReadingExample]:
        """See ``Definition``."""
        return [ReadingExample(row.system, row.user, row.reply) for row in rows]

    def learner(
        self, recipe: Recipe, train: Sequence[ReadingExample], base: ResolvedModel, device: str, dtype: torch.dtype
    ) -> Learner:
        """See ``Definition``."""
        return ReaderLearner(recipe, base.path, device, dtype)

    def beside(self, rows: Sequence[ReadingRow], out: Path) -> list[Path]:
        """Write ``reader.json``, which says: no worked examples, and formulas if the rows have them."""
        asked = ReaderFile(demonstrations=False, calculator=any(row.calculator for row in rows), rows=len(rows))
        (out / ASKED).write_text(asked.model_dump_json(indent=1), encoding="utf-8")
        return [out / ASKED]

    def card(
        self, recipe: Recipe, base: str, out: Path, train: Sequence[ReadingRow], held: Sequence[ReadingRow], log: Log
    ) -> list[str]:
        """Return the card's sections. The quality of answers is in the report."""
        roles = (row.role if row.answerable or row.role == "step" else "held back" for row in train)
        sections = [
            "# A trained reader of okralong",
            f"Made by `okralong train`: {base} with {recipe.learned_words()}. {recipe.schedule_words()} "
            f"{len(train):,} train rows ({_counted(roles)}), {len(held):,} validation rows, of at most "
            f"{recipe.max_tokens:,} tokens. The loss is on the replies alone.",
            f"Rows of train, by source: {_counted(row.source for row in train)}.",
        ]
        best = min(evaluations_of(log), key=lambda entry: entry["eval_loss"], default=None)
        if best is not None:
            sections.append(
                f"On validation: loss {best['eval_loss']:.3f} a token, {best['eval_token_accuracy']:.1%} of the "
                f"replies' tokens foretold, after {best['epoch']:.2f} epochs."
            )
        return sections


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(Counter(names).items()))
