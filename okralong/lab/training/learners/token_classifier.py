"""Train LLMLingua-2's token classifier, which estimates for each token the probability of keeping its word.

On validation passages, it is compared with keeping the same share of words at random, and of the rarest words.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from okralong.lab.training.learners.blocks import BlocksLearner, encoder_to_learn
from okralong.lab.training.learners.learner import Definition, Learner, Log, evaluations_of
from okralong.lab.training.recipe import ANSWERED, ASKED, UNKNOWN, KeepExample, Recipe
from okralong.pipelines.models.token_classifier import (
    SPECIAL,
    Pieces,
    TokenClassifier,
    TokenClassifierModel,
    TokenClassifierShape,
    padded,
    save_token_classifier,
    words_in,
)
from okralong.pipelines.models.weights import ResolvedModel, resolve_embedding_model

if TYPE_CHECKING:
    from okralong.lab.training.rows.tables import KeepRow

RATES: Final = (0.33, 0.5)
"""The shares of kept words at which the classifier is measured. The first is the authors' on MeetingBank."""


class TokenClassifierDefinition(Definition["KeepRow", KeepExample]):
    """The definition of a token classifier."""

    use = "token_classifier.model: {out} in an answer config"

    def base(self, recipe: Recipe) -> ResolvedModel:
        """See ``Definition``."""
        return resolve_embedding_model(recipe.model)

    def examples(self, rows: Sequence[KeepRow]) -> list[KeepExample]:
        """See ``Definition``."""
        return [KeepExample(row.text, row.labels) for row in rows]

    def learner(
        self, recipe: Recipe, train: Sequence[KeepExample], base: ResolvedModel, device: str, dtype: torch.dtype
    ) -> Learner:
        """See ``Definition``."""
        return TokenClassifierLearner(recipe, base.path, base.sha256, device, dtype)

    def card(
        self, recipe: Recipe, base: str, out: Path, train: Sequence[KeepRow], held: Sequence[KeepRow], log: Log
    ) -> list[str]:
        """See ``Definition``."""
        from okralong.pipelines.reporting.tables import markdown_table

        found = keep_figures(TokenClassifier.load(out, recipe.precision), train, held)
        lines = [
            [f"{rate:.0%}", name, f"{each['f1']:.3f}", f"{each['answers']:.3f}", f"{each['asked']:.3f}"]
            for rate, by_name in found.items()
            for name, each in by_name.items()
        ]
        best = min(evaluations_of(log), key=lambda entry: entry["eval_loss"])
        return [
            "# The token classifier of okralong",
            f"Made by `okralong train`. On {base}: its blocks from {recipe.first_block} on (blocks before them and the "
            f"embeddings are the encoder's own), and one linear head over each token. {recipe.schedule_words()} "
            f"{len(train):,} train rows, {len(held):,} validation rows; loss {best['eval_loss']:.3f} at the best "
            "evaluation.",
            "Its labels follow from data sets and from no model: a word is to be kept where it stands in the gold "
            "evidence of a question and the question or its answers have it.",
            f"## On validation\n\nOf each of {len(held):,} passages a share of the words is kept: the most probable "
            "ones, drawn ones, or those that stand in the fewest train passages. F1 is that of the labels; then the "
            "share of the words that answers name and of those that questions name which stay.\n\n"
            + markdown_table(["words kept", "by", "F1", "answer words kept", "question words kept"], lines),
        ]


class TokenClassifierLearner(BlocksLearner[TokenClassifierModel]):
    """Trains the encoder's last blocks and the head. ``model`` is its folder, ``sha256`` the hash of its weights."""

    def __init__(self, recipe: Recipe, model: str, sha256: str | None, device: str, dtype: torch.dtype) -> None:
        super().__init__(recipe, model, TokenClassifierModel(encoder_to_learn(model), recipe.dropout), device, dtype)
        self._shape = TokenClassifierShape(recipe.model, sha256, recipe.first_block, recipe.max_tokens)

    def collate(self, examples: Sequence[KeepExample]) -> dict[str, Any]:
        """Make a batch of passages, truncated to ``max_tokens``.

        ``labels``, shape (n, tokens), has the labels of the words, and UNKNOWN for special tokens and padding.
        """
        rows, said = list[list[int]](), list[list[int]]()
        for each in examples:
            pieces = Pieces.of(self.tokenizer, each.text, words_in(each.text))
            most = self._shape.max_tokens - SPECIAL
            rows.append(pieces.ids[:most])
            said.append([each.labels[word] for word in pieces.word[:most]])
        tokens = padded(self.tokenizer, rows)
        labels = torch.full(tokens["input_ids"].shape, UNKNOWN)
        for number, row in enumerate(said):
            labels[number, 1 : 1 + len(row)] = torch.tensor(row, dtype=torch.long)
        return {"labels": labels, "tokens": tokens}

    def forward(self, labels: Tensor, tokens: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the loss, and ``right``, shape (n, 4).

        The first two columns count, among the third of the tokens with the highest probabilities, those to be kept and
        those that answers name. The other two columns count them among all tokens.
        """
        with self.amp():
            logits = self.net(tokens)
        known = labels != UNKNOWN
        wanted = (labels > 0).float()
        loss = nn.functional.binary_cross_entropy_with_logits(logits[known], wanted[known])
        with torch.no_grad():
            counts = (RATES[0] * known.sum(dim=1)).round().long()
            order = logits.masked_fill(~known, -torch.inf).argsort(dim=1, descending=True).argsort(dim=1)
            kept = order < counts[:, None]
            columns = [(kept & (labels > 0)), (kept & (labels == ANSWERED)), labels > 0, labels == ANSWERED]
            right = torch.stack([column.sum(dim=1).float() for column in columns], dim=1)
        return {"loss": loss, "right": right}

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """Return what share of the tokens to be kept, and of those that answers name, is in the most probable third."""
        kept, answers, wanted, answered = right.sum(dim=0).tolist()
        return {"labels_kept": kept / max(1.0, wanted), "answers_kept": answers / max(1.0, answered)}

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_token_classifier(folder, self.net, self._shape)


def keep_figures(
    model: TokenClassifier, train: Sequence[KeepRow], held: Sequence[KeepRow]
) -> dict[float, dict[str, dict[str, float]]]:
    """Measure each way of choosing words, on the ``held`` rows and at each of ``RATES``.

    The figures are the F1 of the labels, and the kept shares of the words that answers name and that questions name.
    The rarity of words is that in the passages of ``train``.
    """
    seen = Counter(word for row in train for word in set(_spoken(row.text)))
    drawn = random.Random(7)
    said = model.keep([row.text for row in held])
    ways: dict[str, Callable[[int], list[float]]] = {
        "classifier": lambda number: [word.probability for word in said[number]],
        "rarity": lambda number: [-math.log1p(seen[word]) for word in _spoken(held[number].text)],
        "chance": lambda number: [drawn.random() for _ in held[number].labels],
    }
    values = {name: [way(number) for number in range(len(held))] for name, way in ways.items()}
    return {
        rate: {name: _figures([row.labels for row in held], each, rate) for name, each in values.items()}
        for rate in RATES
    }


def _spoken(text: str) -> list[str]:
    return [text[start:end].strip("()[]\"',;:").lower() for start, end in words_in(text)]


def _figures(labels: Sequence[Sequence[int]], values: Sequence[Sequence[float]], rate: float) -> dict[str, float]:
    kept, named = Counter[int](), Counter[int]()
    for own, each in zip(labels, values, strict=True):
        order = sorted(range(len(own)), key=lambda place: (-each[place], place))
        kept.update(own[place] for place in order[: max(1, round(rate * len(own)))])
        named.update(own)
    hits, wanted = kept[ASKED] + kept[ANSWERED], named[ASKED] + named[ANSWERED]
    return {
        "f1": 2 * hits / max(1, kept.total() + wanted),
        "answers": kept[ANSWERED] / max(1, named[ANSWERED]),
        "asked": kept[ASKED] / max(1, named[ASKED]),
    }
