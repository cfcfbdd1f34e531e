"""What a machine with little but PyTorch is given: the recipe and the examples as JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, Literal, Self, cast

import torch
from pydantic import Field, model_validator

from okralong.pipelines.answering.analysis import FIELDS, AnalysisInput, Analyzer, Temperatures, write_temperatures
from okralong.pipelines.answering.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.core.config import Settings
from okralong.pipelines.lab.training.analyzer import (
    FieldFigures,
    LabelLearner,
    best_temperature,
    field_figures,
    learned_words,
    model_card,
    probabilities,
)
from okralong.pipelines.lab.training.analyzer_data import (
    UNKNOWN,
    AnyExample,
    Example,
    ReadingExample,
    TrainingRow,
    example,
    read_examples,
    write_examples,
)
from okralong.pipelines.lab.training.fit import Kind, Learner, Lora, Recipe, Say, draw_curves, fit, quiet
from okralong.pipelines.lab.training.reader import ReaderLearner
from okralong.pipelines.lab.training.reader_data import ReadingRow
from okralong.pipelines.models.loading import settle
from okralong.pipelines.models.merged_model import ASKED, ReaderFile
from okralong.pipelines.models.weights import (
    EMBEDDED,
    SHIPPED,
    available_cores,
    causal_model,
    chat_ids,
    resolve_embedding_model,
    text_ids,
)


def export_files(
    recipe: Recipe, train: Sequence[AnyExample], validation: Sequence[AnyExample], out: Path
) -> list[Path]:
    """RECIPE.json, TRAIN.jsonl and VALIDATION.jsonl, for ``training.run`` on another machine."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "recipe.json", out / "train.jsonl", out / "validation.jsonl"]
    paths[0].write_text(json.dumps(asdict(recipe), indent=1), encoding="utf-8")
    write_examples(paths[1], train)
    write_examples(paths[2], validation)
    return paths


# --------
# One training from a recipe and examples; PyTorch, transformers and PEFT are all it needs, and Ray is not there.
#
# On a machine that has no more than those, from a bare checkout:
#
# python -m okralong.pipelines.lab.training.run RECIPE.json TRAIN.jsonl VALIDATION.jsonl MODEL_FOLDER SHA256 OUT
#
# SHA256 is that of the encoder's weights, for heads; "" for a label scorer. OUT then holds the weights and the
# history; temperatures, card and curves are made by `okralong train` alone.


def fit_recipe(
    recipe: Recipe,
    train: Sequence[AnyExample],
    validation: Sequence[AnyExample],
    model: str,
    sha256: str | None,
    out: Path,
    say: Say = quiet,
) -> list[dict[str, float]]:
    """Train as ``recipe`` says and write the result to ``out``; the history of losses and accuracies.

    ``model`` is the folder or hub name that ``recipe.model`` stands for, ``sha256`` that of its weights. At most
    ``recipe.rows`` examples are used, the first ones, which the rows' own order has balanced.
    """
    # Ray gives a task one thread unless told otherwise.
    device, dtype = settle("auto", "auto", available_cores())
    some, held = list(train)[: recipe.rows], list(validation)[: recipe.validation_rows]
    return fit(_learner(recipe, some, model, sha256, device, dtype), recipe, some, held, out, device, say)


def _learner(
    recipe: Recipe, train: Sequence[AnyExample], model: str, sha256: str | None, device: str, dtype: torch.dtype
) -> Learner:
    if recipe.kind == "heads":
        # Imported here: what the heads read needs a stemmer, which a bare machine need not have for a label scorer.
        from okralong.pipelines.lab.training.analyzer import HeadsLearner

        return HeadsLearner(recipe, model, sha256, [each for each in train if isinstance(each, Example)], device)
    if recipe.kind == "reader":
        return ReaderLearner(recipe, model, device, dtype)
    return LabelLearner(recipe, model, device, dtype)


def main(arguments: Sequence[str]) -> int:
    """See above; prints the last evaluation."""
    said, rows, held, model, sha256, out = arguments
    recipe = Recipe.of(json.loads(Path(said).read_text(encoding="utf-8")))
    history = fit_recipe(recipe, read_examples(Path(rows)), read_examples(Path(held)), model, sha256 or None, Path(out))
    print(json.dumps([each for each in history if "eval_loss" in each][-1:], indent=1))
    return 0


# --------
# What a training config may say (``configs/training/*.yaml``); it becomes a ``Recipe``.

Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


_PLAIN: Final = Recipe("heads")
_LORA: Final = Lora(())
"""Where the defaults stand."""


class LoraConfig(Settings):
    """See ``Lora``."""

    targets: list[str] = Field(min_length=1)
    rank: Count = _LORA.rank
    alpha: Count = _LORA.alpha
    dropout: Share = _LORA.dropout
    first_block: Annotated[int, Field(ge=0)] = _LORA.first_block


class TrainConfig(Settings):
    """See ``Recipe``, which says what each key means and where its default is from."""

    kind: Kind
    model: str = Field(default=EMBEDDED, min_length=1)
    lora: LoraConfig | None = None
    start: str | None = Field(default=None, min_length=1)
    learning_rate: Rate = _PLAIN.learning_rate
    heads_learning_rate: Rate | None = _PLAIN.heads_learning_rate
    epochs: Annotated[float, Field(gt=0, le=1000)] = _PLAIN.epochs
    batch_size: Count = _PLAIN.batch_size
    accumulation: Count = _PLAIN.accumulation
    warmup: Share = _PLAIN.warmup
    weight_decay: Share = _PLAIN.weight_decay
    evaluations: Count = _PLAIN.evaluations
    patience: Count = _PLAIN.patience
    seed: int = _PLAIN.seed
    reads: Literal["question", "pairs"] = _PLAIN.reads
    hidden: Count = _PLAIN.hidden
    dropout: Share = _PLAIN.dropout
    max_tokens: Annotated[int, Field(ge=128)] = _PLAIN.max_tokens
    rows: Count | None = None
    validation_rows: Count | None = None

    @model_validator(mode="after")
    def _learns_something(self) -> Self:
        if self.kind != "heads" and self.lora is None:
            raise ValueError(f"a {self.kind} learns an adapter: give lora, with the layers that it targets")
        if self.kind == "heads" and self.start is not None:
            raise ValueError("start is the adapter of a label_scorer or a reader; heads begin anew")
        return self

    def recipe(self) -> Recipe:
        """The same as plain values."""
        values = self.model_dump()
        if self.start not in (None, SHIPPED):
            # A task of the cluster stands elsewhere.
            values["start"] = str(Path(str(self.start)).expanduser().resolve())
        return Recipe.of(values)


# --------
# What follows a training: temperatures measured on validation, the figures, the card.


def examples_of(rows: Sequence[TrainingRow]) -> list[Example]:
    """Rows as what a learner reads."""
    return [
        example(
            AnalysisInput(row.question, row.passages, row.scores),
            row.type,
            row.pattern,
            row.evidence,
        )
        for row in rows
    ]


def trained_analyzer(recipe: Recipe, out: Path) -> Analyzer:
    """The analyzer that a training wrote to ``out``. Raises ValueError for the recipe of something else."""
    if recipe.kind not in ("label_scorer", "heads"):
        raise ValueError(f"What a recipe of the kind {recipe.kind} trains is no analyzer.")
    return load_analyzer(AnalyzerConfig(kind=recipe.kind, model=recipe.model, adapter=str(out)))


def calibrate(recipe: Recipe, out: Path, validation: Sequence[Example]) -> Temperatures:
    """Measure each field's temperature on ``validation`` and write them beside the weights."""
    write_temperatures(out, (1.0, 1.0, 1.0))
    said = probabilities(trained_analyzer(recipe, out).analyze([each.asked for each in validation]))
    found = []
    for number in range(len(FIELDS)):
        known = [index for index, each in enumerate(validation) if each.labels[number] != UNKNOWN]
        found.append(best_temperature(said[number][known], [validation[index].labels[number] for index in known]))
    temperatures = cast(Temperatures, tuple(found))
    write_temperatures(out, temperatures)
    return temperatures


def figures_of(analyzer: Analyzer, rows: Sequence[TrainingRow]) -> list[FieldFigures]:
    """An analyzer's figures on rows."""
    examples = examples_of(rows)
    said = probabilities(analyzer.analyze([each.asked for each in examples]))
    return field_figures(examples, [row.documents or (row.query_id,) for row in rows], said)


# --------
# A whole training: examples, the fit, temperatures, card and curves. It may run as a Ray task or alone.

CARD: Final = "README.md"
CURVES: Final = "curves.svg"


def train_session(
    recipe: Recipe,
    train: Sequence[TrainingRow],
    validation: Sequence[TrainingRow],
    out: Path,
    left_out: Sequence[str] = (),
    say: Say = quiet,
) -> None:
    """Train by ``recipe`` and write everything to ``out``; ``left_out`` are the sets that the rows are without,
    ``say`` is told of each evaluation.

    Raises ConfigError when the model cannot be found, InputError when the rows have none to learn from.
    """
    model, name, sha256 = _base(recipe)
    held = examples_of(validation)
    history = fit_recipe(recipe, examples_of(train), held, model, sha256, out, say)
    temperatures = calibrate(recipe, out, held[: recipe.validation_rows])
    figures = {"validation": figures_of(trained_analyzer(recipe, out), validation[: recipe.validation_rows])}
    counts = {"train": len(train[: recipe.rows]), "validation": len(validation[: recipe.validation_rows])}
    if left_out:
        name += f", without the rows of {', '.join(left_out)}"
    (out / CARD).write_text(model_card(recipe, name, counts, temperatures, figures), encoding="utf-8")
    draw_curves({"": history}, out / CURVES)


def _base(recipe: Recipe) -> tuple[str, str, str | None]:
    """Folder or hub name, what it is called, and the sha256 of its weights where known."""
    if recipe.kind == "heads":
        found = resolve_embedding_model(recipe.model)
        return found.path, found.name, found.sha256
    return causal_model(recipe.model), "SmolLM2-135M-Instruct" if recipe.model == EMBEDDED else recipe.model, None


# --------
# A whole training of the reader: the fit, how it is to be asked, the card and the curves. As a Ray task or alone.


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
    learned = rows_to_learn(recipe, train)[: recipe.rows]
    held = rows_to_learn(recipe, validation)[: recipe.validation_rows]
    model = causal_model(recipe.model)
    history = fit_recipe(recipe, reading_examples(learned), reading_examples(held), model, None, out, say)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
