"""The card of a trained analyzer: what it is, what it learned from, what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from okralong.pipelines.answering.analysis import FIELDS, Temperatures
from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.training.figures import FieldFigures
from okralong.pipelines.training.recipe import Recipe

NONE = "-"


def model_card(
    recipe: Recipe,
    base: str,
    counts: Mapping[str, int],
    temperatures: Temperatures,
    figures: Mapping[str, Sequence[FieldFigures]],
) -> str:
    """The card as Markdown. ``counts`` are the rows by side, ``figures`` those of each side that was measured."""
    heads = "" if recipe.heads_learning_rate is None else f" (heads {recipe.heads_learning_rate:g})"
    sections = [
        "# A trained analyzer of okralong",
        f"Made by `okralong train`. Kind `{recipe.kind}` on {base}: {learned_words(recipe)}. Learning rate "
        f"{recipe.learning_rate:g}{heads}, at most {recipe.epochs:g} epochs, "
        f"batches of {recipe.batch_size} x {recipe.accumulation}, seed "
        f"{recipe.seed}; "
        "the state of the least loss on validation was kept. "
        + ", ".join(f"{count:,} {side} rows" for side, count in counts.items())
        + ".",
        "Temperatures, measured on validation: "
        + ", ".join(f"{key} {value:.2f}" for (key, _), value in zip(FIELDS, temperatures, strict=True))
        + ".",
    ]
    for side, found in figures.items():
        sections += [f"## On {side}", figure_table({"": found})]
    return "\n\n".join(sections) + "\n"


def learned_words(recipe: Recipe) -> str:
    """What of the model is learned, in words."""
    lora = recipe.lora
    if lora is None:
        return "heads over the frozen encoder"
    learned = f"LoRA on {', '.join(lora.targets)}"
    learned += f" of the blocks from {lora.first_block} on" if lora.first_block else ""
    learned += f" (rank {lora.rank}, alpha {lora.alpha}, dropout {lora.dropout:g})"
    learned += "" if recipe.start is None else f", going on from the adapter `{Path(recipe.start).name}`"
    return learned + (", and heads" if recipe.kind == "heads" else "")


def figure_table(figures: Mapping[str, Sequence[FieldFigures]]) -> str:
    """A line for each analyzer and field; the intervals are 95 %, drawn by document."""
    lines = [["analyzer", "field", "rows", "accuracy", "macro-F1", "calibration error"], ["---"] * 6]
    for name, fields in figures.items():
        for each in fields:
            error = NONE if each.calibration_error is None else f"{each.calibration_error:.3f}"
            numbers = [_estimate(each.accuracy), _estimate(each.macro_f1), error]
            lines.append([name, each.key, f"{each.rows:,}", *numbers])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def confusion_table(figures: FieldFigures, labels: Sequence[str]) -> str:
    """True labels down, said labels across."""
    lines = [["true \\ said", *labels], ["---"] * (len(labels) + 1)]
    lines += [[label, *map(str, row)] for label, row in zip(labels, figures.confusion, strict=True)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _estimate(each: Estimate) -> str:
    if each.value is None:
        return NONE
    low, high = (NONE if end is None else f"{end:.3f}" for end in (each.low, each.high))
    return f"{each.value:.3f} [{low}, {high}]"
