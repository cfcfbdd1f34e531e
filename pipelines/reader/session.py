"""A whole training of the reader: the fit, how it is to be asked, the card and the curves. As a Ray task or alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from okralong.pipelines.models.merged_model import ASKED, ReaderFile
from okralong.pipelines.models.weights import EMBEDDED, causal_model, chat_ids, text_ids
from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.training.curves import draw_curves
from okralong.pipelines.training.examples import ReadingExample
from okralong.pipelines.training.model_card import learned_words
from okralong.pipelines.training.recipe import Recipe
from okralong.pipelines.training.say import Say, quiet
from okralong.pipelines.training.session import CARD, CURVES


def train_reader(
    recipe: Recipe,
    train: Sequence[ReadingRow],
    validation: Sequence[ReadingRow],
    out: Path,
    say: Say = quiet,
) -> None:
    """Train by ``recipe`` and write everything to ``out``; ``say`` is told of each evaluation.

    Raises ConfigError when the model cannot be found.
    """
    from okralong.pipelines.training.run import train as fit_examples  # brings torch and transformers: seconds

    learned = rows_to_learn(recipe, train)[: recipe.rows]
    held = rows_to_learn(recipe, validation)[: recipe.validation_rows]
    model = causal_model(recipe.model)
    history = fit_examples(recipe, reading_examples(learned), reading_examples(held), model, None, out, say)
    write_asked(out, learned)
    draw_curves({"": history}, out / CURVES)
    (out / CARD).write_text(reader_card(recipe, learned, held, history), encoding="utf-8")


def write_asked(out: Path, learned: Sequence[ReadingRow]) -> Path:
    """Write how the reader wants to be asked: without worked examples, and for formulas where its rows were."""
    asked = ReaderFile(demonstrations=False, calculator=any(row.calculator for row in learned), rows=len(learned))
    (out / ASKED).write_text(asked.model_dump_json(indent=1), encoding="utf-8")
    return out / ASKED


def rows_to_learn(recipe: Recipe, rows: Sequence[ReadingRow]) -> list[ReadingRow]:
    """The rows of which prompt and reply have at most ``recipe.max_tokens``, in the model's own."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(causal_model(recipe.model))

    def size(row: ReadingRow) -> int:
        return len(chat_ids(tokenizer, row.messages)) + len(text_ids(tokenizer, row.reply))

    return [row for row in rows if size(row) <= recipe.max_tokens]


def reading_examples(rows: Sequence[ReadingRow]) -> list[ReadingExample]:
    """Rows as what a learner reads."""
    return [ReadingExample(row.system, row.user, row.reply) for row in rows]


def reader_card(
    recipe: Recipe,
    train: Sequence[ReadingRow],
    validation: Sequence[ReadingRow],
    history: Sequence[Mapping[str, float]],
) -> str:
    """The card as Markdown: what it is, what it learned from, what validation said. Answers are scored elsewhere."""
    base = "SmolLM2-135M-Instruct" if recipe.model == EMBEDDED else recipe.model
    evaluations = [entry for entry in history if "eval_loss" in entry]
    best = min(evaluations, key=lambda entry: entry["eval_loss"], default=None)
    sections = [
        "# A trained reader of okralong",
        f"Made by `okralong train`: {base} with {learned_words(recipe)}. Learning rate {recipe.learning_rate:g}, at "
        f"most {recipe.epochs:g} epochs, batches of {recipe.batch_size} x {recipe.accumulation}, seed {recipe.seed}; "
        f"the state of the least loss on validation was kept. {len(train):,} train rows ({_roles(train)}), "
        f"{len(validation):,} validation rows, of at most {recipe.max_tokens:,} tokens. The loss is on the replies "
        "alone.",
        "Rows of train, by source: " + _counted(row.source for row in train) + ".",
    ]
    if best is not None:
        sections.append(
            f"On validation: loss {best['eval_loss']:.3f} a token, {best['eval_token_accuracy']:.1%} of the replies' "
            f"tokens foretold, after {best['epoch']:.2f} epochs."
        )
    return "\n\n".join(sections) + "\n"


def _roles(rows: Sequence[ReadingRow]) -> str:
    return _counted(row.role if row.answerable or row.role == "step" else "held back" for row in rows)


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
