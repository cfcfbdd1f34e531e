"""What follows a training: temperatures measured on validation, the figures, the card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from okralong.pipelines.answering.analysis import FIELDS, AnalysisInput, Analyzer, Temperatures, write_temperatures
from okralong.pipelines.answering.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.training.calibrate import best_temperature
from okralong.pipelines.training.examples import UNKNOWN, Example, example
from okralong.pipelines.training.figures import FieldFigures, field_figures, probabilities
from okralong.pipelines.training.recipe import Recipe
from okralong.pipelines.training.rows import TrainingRow


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
