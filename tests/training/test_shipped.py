"""The adapters that ship, on made-up questions that they did not learn from (``make_generated.py``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from okralong.lab.training.learners.calibration import FieldFigures, field_figures, probabilities
from okralong.lab.training.recipe import Example, read_examples
from okralong.pipelines.answering.analyzers.analysis import CALIBRATION, FIELDS
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.core.types import Analysis, ConfigError
from okralong.pipelines.models.weights import adapter_digest, shipped_adapter
from tests.training.make_generated import FILE

MOST_BYTES = 15_000_000


@cache
def examples() -> list[Example]:
    return read_examples(FILE)


def figures(said: list[Analysis], count: int | None = None) -> list[FieldFigures]:
    some = examples()[:count]
    return field_figures(some, [(str(number),) for number in range(len(some))], probabilities(said))


def accuracies(said: list[Analysis], count: int | None = None) -> list[float]:
    return [each.accuracy.value or 0.0 for each in figures(said, count)]


@pytest.mark.parametrize("kind", ["heads", "label_scorer"])
def test_adapters_are_small_safetensors_with_a_card_and_temperatures(kind: str) -> None:
    folder = shipped_adapter(f"analyzer/{kind}")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".md", ".svg"}
    assert {CALIBRATION, "README.md", "curves.svg"} <= {path.name for path in files}
    configs = [json.loads(path.read_text(encoding="utf-8")) for path in files if path.name == "adapter_config.json"]
    assert [config["base_model_name_or_path"] for config in configs] == ["embedded"]
    assert "seed" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_default_is_what_its_figures_say() -> None:
    analyzer = load_analyzer(AnalyzerConfig())
    assert analyzer.name == "heads:shipped"
    asked = [each.asked for each in examples()]
    kind, pattern, evidence = accuracies(analyzer.analyze(asked))
    rules, _, _ = accuracies(KeywordRules().analyze(asked))
    assert kind >= 0.95
    assert kind >= rules
    assert pattern >= 0.65
    assert evidence >= 0.8


def test_the_label_scorer_tells_types_apart() -> None:
    """It learned from 2,200 rows; without its adapter it calls made-up questions all extractive."""
    few = 6
    trained = load_analyzer(AnalyzerConfig(kind="label_scorer"))
    assert trained.name == "label-scorer:embedded+shipped"
    said = trained.analyze([each.asked for each in examples()[:few]])
    assert {"extractive", "arithmetic"} <= {each.type for each in said}
    for each in said:
        assert sum(each.type_probabilities.values()) == pytest.approx(1.0)


def test_an_adapters_identity_is_its_content(tmp_path: Path) -> None:
    config = AnalyzerConfig()
    folder = shipped_adapter("analyzer/heads")
    assert config.identity()["adapter"] == adapter_digest(folder)
    for path in folder.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert adapter_digest(tmp_path) not in (None, adapter_digest(folder))
    assert AnalyzerConfig(kind="rules").identity()["adapter"] is None
    hub = AnalyzerConfig(kind="label_scorer", model="org/model", adapter="org/adapter")
    assert hub.identity()["adapter"] == "org/adapter"


def test_a_shipped_adapter_that_is_missing_is_told() -> None:
    with pytest.raises(ConfigError, match=r"lacks the adapter 'analyzer/none'.*okralong train"):
        shipped_adapter("analyzer/none")


def test_generated_questions_hold_all_types_and_labels() -> None:
    for number, (_, labels) in enumerate(FIELDS):
        seen = {each.labels[number] for each in examples()}
        assert len(seen) == len(labels), FIELDS[number]
