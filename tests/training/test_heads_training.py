"""Training heads for real: they learn, a killed training goes on, and what is written is what was trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from okralong.lab.training.learners.analyzer import HeadsLearner
from okralong.lab.training.learners.fit import CHECKPOINTS, HISTORY, fit_recipe
from okralong.lab.training.recipe import UNKNOWN, Lora, Recipe
from okralong.pipelines.answering.analyzers.analysis import EVIDENCE, TYPES
from okralong.pipelines.answering.analyzers.heads import HeadsAnalyzer
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import resolve_embedding_model
from tests.training.questions import invented_examples

FROZEN = Recipe(
    kind="heads", learning_rate=0.01, epochs=12, batch_size=6, accumulation=1, hidden=32, dropout=0.0, patience=12
)
TUNED = FROZEN.changed(lora=Lora(targets=["query", "value"]), learning_rate=0.01, epochs=8)


def trained(recipe: Recipe, out: Path) -> HeadsAnalyzer:
    model = resolve_embedding_model("embedded")
    fit_recipe(recipe, invented_examples(0, 5), invented_examples(5), model, out)
    return HeadsAnalyzer.load(out)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("frozen")
    trained(FROZEN, out)
    return out


@pytest.mark.soak  # half a minute; tests/jobs/test_train.py tunes an encoder, too
def test_a_tuned_encoder_learns_what_the_words_say(tmp_path: Path) -> None:
    analyzer = trained(TUNED, tmp_path)
    unseen = invented_examples(5)
    said = analyzer.analyze([each.asked for each in unseen])
    assert [TYPES.index(each.type) for each in said] == [each.labels[0] for each in unseen]
    sizes = [file.stat().st_size for file in tmp_path.rglob("*.safetensors") if CHECKPOINTS not in str(file)]
    assert sum(sizes) < 2_000_000


def test_frozen_heads_learn_too_and_evidence_follows_the_scores(frozen: Path) -> None:
    unseen = invented_examples(5)
    said = HeadsAnalyzer.load(frozen).analyze([each.asked for each in unseen])
    assert [TYPES.index(each.type) for each in said] == [each.labels[0] for each in unseen]
    assert [EVIDENCE.index("yes" if each.evidence else "no") for each in said] == [each.labels[2] for each in unseen]
    assert said[0].analyzer == f"heads:{frozen.name}"
    assert all(each.labels[1] == UNKNOWN for each in unseen)  # a label that nobody knows is no error
    history = json.loads((frozen / HISTORY).read_text())["history"]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert losses[-1] < losses[0]
    assert any(entry.get("eval_question-type_accuracy") == 1.0 for entry in history)


def test_batches_do_not_change_what_is_said(frozen: Path) -> None:
    asked = [each.asked for each in invented_examples()]
    together = HeadsAnalyzer.load(frozen, max_batch=64).analyze(asked)
    alone = HeadsAnalyzer.load(frozen, max_batch=1).analyze(asked)
    for one, other in zip(together, alone, strict=True):
        assert one.type_probabilities == pytest.approx(other.type_probabilities, abs=1e-4)
        assert one.evidence_probability == pytest.approx(other.evidence_probability, abs=1e-4)


def test_a_training_that_was_stopped_goes_on_from_its_last_checkpoint(tmp_path: Path, frozen: Path) -> None:
    model = resolve_embedding_model("embedded")
    rows, held = invented_examples(0, 5), invented_examples(5)
    fit_recipe(FROZEN.changed(epochs=2), rows, held, model, tmp_path)
    steps = sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir())
    fit_recipe(FROZEN.changed(epochs=4), rows, held, model, tmp_path)
    history = json.loads((tmp_path / HISTORY).read_text())["history"]
    epochs = [entry["epoch"] for entry in history if "eval_loss" in entry]
    assert epochs == sorted(set(epochs))
    assert len(epochs) == 4
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) != steps


def test_the_heads_belong_to_their_encoder(tmp_path: Path, frozen: Path) -> None:
    said = json.loads((frozen / "heads.json").read_text())
    for name in ("heads.json", "heads.safetensors"):
        (tmp_path / name).write_bytes((frozen / name).read_bytes())
    (tmp_path / "heads.json").write_text(json.dumps({**said, "sha256": "0" * 64}))
    with pytest.raises(ConfigError, match="were trained on other weights"):
        HeadsAnalyzer.load(tmp_path)
    (tmp_path / "heads.json").write_text(json.dumps({**said, "reads": "pairs"}))
    with pytest.raises(ConfigError, match="their encoder reads passages"):
        HeadsAnalyzer.load(tmp_path)
    (tmp_path / "heads.json").write_text(json.dumps({**said, "reads": "question"}))
    HeadsAnalyzer.load(tmp_path)
    (tmp_path / "heads.safetensors").write_bytes(b"torn")
    with pytest.raises(ConfigError, match="holds no heads that this okralong can read"):
        HeadsAnalyzer.load(tmp_path)


def test_other_rows_in_the_same_folder_begin_anew(tmp_path: Path) -> None:
    model = resolve_embedding_model("embedded")
    short = FROZEN.changed(epochs=2)
    fit_recipe(short, invented_examples(0, 3), invented_examples(5), model, tmp_path)
    first = (tmp_path / "heads.safetensors").read_bytes()
    history = fit_recipe(short, invented_examples(0, 5), invented_examples(5), model, tmp_path)
    epochs = [entry["epoch"] for entry in history if "eval_loss" in entry]
    assert min(epochs) <= 1.0 < max(epochs)
    assert (tmp_path / "heads.safetensors").read_bytes() != first


def test_a_frozen_encoder_says_in_training_what_it_says_in_use() -> None:
    model = resolve_embedding_model("embedded")
    rows = invented_examples(0, 2)
    learner = HeadsLearner(FROZEN, model.path, model.sha256, rows, "cpu")
    training = learner.train().collate(rows)["vectors"]
    fresh = HeadsLearner(FROZEN, model.path, model.sha256, rows, "cpu").eval()
    torch.testing.assert_close(training, fresh.collate(rows)["vectors"])
    assert learner.heads.training
