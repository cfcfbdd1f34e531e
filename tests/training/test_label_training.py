"""Training a label scorer for real, on a tiny language model: the loss is on the labels, what is written is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from okralong.lab.training.learners.analyzer import LabelLearner
from okralong.lab.training.learners.fit import fit_recipe
from okralong.lab.training.recipe import UNKNOWN, Lora, Recipe, read_examples, write_examples
from okralong.pipelines.answering.analyzers.analysis import FIELDS, read_temperatures, write_temperatures
from okralong.pipelines.answering.analyzers.label_scorer import LabelScorer
from okralong.pipelines.core.types import Analysis, ConfigError
from okralong.pipelines.models.weights import ResolvedModel
from tests.fakes.tiny_llama import write_tiny_llama
from tests.training.questions import invented_examples

RECIPE = Recipe(
    kind="label_scorer",
    lora=Lora(targets=["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"], rank=16, dropout=0.0),
    learning_rate=0.01,
    epochs=6,
    batch_size=6,
    accumulation=1,
    patience=6,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"), window=2048, spread=0.3)


def test_targets_are_the_labels_tokens_and_nothing_else(model: Path) -> None:
    learner = LabelLearner(RECIPE, str(model), "cpu", torch.float32)
    examples = invented_examples(0, 2)
    batch = learner.collate(examples)
    for row, each in enumerate(examples):
        said: dict[int, list[int]] = {}
        for place, field in enumerate(batch["marks"][row].int().tolist()):
            if field:
                said.setdefault(field - 1, []).append(int(batch["input_ids"][row, place]))
        wanted = {n: FIELDS[n][1][label] for n, label in enumerate(each.labels) if label != UNKNOWN}
        assert {n: learner.tokenizer.decode(ids) for n, ids in said.items()} == wanted
    with torch.no_grad():
        out = learner(**batch)
    assert out["right"].shape == (len(examples), 3)
    assert set(out["right"][:, 1].tolist()) == {UNKNOWN}
    assert float(out["loss"]) > 0


def test_instructions_read_once_for_a_batch_teach_the_same(model: Path) -> None:
    recipe = RECIPE.changed(lora=Lora(targets=["q_proj"], dropout=0.0))
    learner = LabelLearner(recipe, str(model), "cpu", torch.float32)
    examples = [replace(each, labels=(each.labels[0], 0, each.labels[2])) for each in invented_examples(0, 2)]
    together, alone = learner.collate(examples), [learner.collate([each]) for each in examples]
    assert len(together["shared"]) > 100
    assert not any(len(each["shared"]) for each in alone)
    steps = []
    for batches in ([together], alone):
        learner.zero_grad()
        losses = [learner(**batch)["loss"] for batch in batches]
        loss = torch.stack(losses).mean()
        loss.backward()
        steps.append((loss.detach(), [each.grad.clone() for each in learner.parameters() if each.grad is not None]))
    (shared, gradients), (apart, whole_gradients) = steps
    torch.testing.assert_close(shared, apart, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients, whole_gradients, rtol=1e-3, atol=1e-5)


def test_a_question_asked_twice_keeps_its_targets(model: Path) -> None:
    learner = LabelLearner(RECIPE, str(model), "cpu", torch.float32)
    batch = learner.collate([invented_examples(0, 1)[0]] * 2)
    assert (batch["marks"] > 0).any(dim=1).all()


def test_blocks_before_the_first_that_learns_are_left_alone(model: Path) -> None:
    upper = RECIPE.changed(lora=Lora(targets=["q_proj", "up_proj"], first_block=1))
    learner = LabelLearner(upper, str(model), "cpu", torch.float32)
    learned = [name for name, value in learner.named_parameters() if value.requires_grad]
    assert learned
    assert all(".layers.0." not in name for name in learned)
    with pytest.raises(ConfigError, match="first_block is 99"):
        LabelLearner(RECIPE.changed(lora=Lora(targets=["q_proj"], first_block=99)), str(model), "cpu", torch.float32)


def test_padding_and_company_do_not_change_the_loss(model: Path) -> None:
    learner = LabelLearner(
        RECIPE.changed(lora=Lora(targets=["q_proj"], dropout=0.0)), str(model), "cpu", torch.float32
    ).eval()
    known = [replace(each, labels=(each.labels[0], 0, each.labels[2])) for each in invented_examples(0, 2)]
    with torch.no_grad():
        together = float(learner(**learner.collate(known))["loss"])
        alone = [float(learner(**learner.collate([each]))["loss"]) for each in known]
    assert together == pytest.approx(sum(alone) / len(alone), rel=1e-3)


def test_a_tiny_model_learns_and_its_adapter_is_read(tmp_path: Path, model: Path) -> None:
    rows, held = invented_examples(0, 5), invented_examples(5)
    write_examples(tmp_path / "rows.jsonl", rows)
    assert read_examples(tmp_path / "rows.jsonl") == rows
    history = fit_recipe(RECIPE, rows, held, ResolvedModel(str(model), "tiny", None), tmp_path / "out")
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert min(losses) < losses[0] * 0.8
    asked = [each.asked for each in held]
    before = LabelScorer.load(str(model)).analyze(asked)
    after = LabelScorer.load(str(model), str(tmp_path / "out")).analyze(asked)

    def mass(analyses: list[Analysis]) -> float:
        names = FIELDS[0][1]
        return sum(a.type_probabilities[names[row.labels[0]]] for a, row in zip(analyses, held, strict=True))

    assert mass(after) > mass(before) * 1.2
    write_temperatures(tmp_path / "out", (4.0, 1.0, 1.0))
    cooled = LabelScorer.load(str(model), str(tmp_path / "out")).analyze(asked)
    assert max(cooled[0].type_probabilities.values()) < max(after[0].type_probabilities.values())


def test_damaged_temperatures_are_told(tmp_path: Path) -> None:
    assert read_temperatures(tmp_path) == (1.0, 1.0, 1.0)
    write_temperatures(tmp_path, (0.5, 1.0, 2.0))
    assert read_temperatures(tmp_path) == (0.5, 1.0, 2.0)
    (tmp_path / "calibration.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds no temperatures"):
        read_temperatures(tmp_path)
