"""Training SARA for real, on a tiny generator: true vectors come to help, and a killed training ends like another."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from okralong.lab.training.learners.fit import CHECKPOINTS
from okralong.lab.training.sara.config import SaraConfig
from okralong.lab.training.sara.examples import MixedExample, prompt_of
from okralong.lab.training.sara.report import measured, report_sara
from okralong.lab.training.sara.train import DONE, SaraLearner, train_sara
from okralong.pipelines.core.child_process import module_command, module_environment
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.sara.artifact import LORA, WEIGHTS, Shape, generator_folder, read_shape
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.prompts import Text

LAMP = "A lamp burns for nine years before its cell is changed."
ADAPTER = "adapter_model.safetensors"


CONFIG = """
chunk_tokens: 48
width: 128
texts: {sample: {reports: 4, questions: 24, words: 1500}}
alignment:
  {examples: 240, validation: 16, batch_size: 16, epochs: 6, learning_rate: 0.02, reply_tokens: 16, evaluations: 1}
reconstruction:
  {examples: 32, validation: 8, learning_rate: 0.001, reply_tokens: 40, chunks: 2, evaluations: 2}
instruction:
  {examples: 8, validation: 4, batch_size: 4, learning_rate: 0.01, reply_tokens: 12, retrieved: 4,
   as_text: {0: 1, 1: 1, 2: 1}, pool_tokens: 800, evaluations: 2}
figures: {examples: 60, questions: 6, questions_without_text: 8, replies: 4, as_text: [0, 4], batch_size: 16}
"""
"""On the generated sample; everything is small."""

XRAG = """
chunk_tokens: 48
width: 128
curriculum: false
texts: {sample: {reports: 4, questions: 24, words: 1500}}
alignment: {examples: 16, validation: 8, batch_size: 16, learning_rate: 0.01, reply_tokens: 8}
instruction:
  {examples: 16, validation: 8, batch_size: 8, epochs: 4, learning_rate: 0.02, reply_tokens: 8, retrieved: 1,
   as_text: {0: 1}, pool_tokens: 800, evaluations: 1, lora: null}
figures: {examples: 8, questions: 4, questions_without_text: 4, replies: 0, as_text: [0], batch_size: 8}
"""

SENTENCES = """
chunk_tokens: 48
width: 64
unit: sentence
vectors_per_chunk: 4
texts: {sample: {reports: 4, questions: 24, words: 1500}}
alignment:
  {examples: 32, validation: 8, batch_size: 16, epochs: 4, learning_rate: 0.02, reply_tokens: 12, evaluations: 1}
reconstruction:
  {examples: 8, validation: 4, learning_rate: 0.001, reply_tokens: 24, chunks: 1, evaluations: 1}
instruction:
  {examples: 8, validation: 4, batch_size: 4, learning_rate: 0.01, reply_tokens: 8, retrieved: 4, as_text: {0: 1, 1: 1},
   pool_tokens: 800, evaluations: 1}
figures: {examples: 16, questions: 4, questions_without_text: 4, replies: 2, as_text: [0, 4], batch_size: 8}
"""

ABLATION = """
chunk_tokens: 48
width: 128
curriculum: false
texts: {sample: {reports: 4, questions: 24, words: 1500}}
alignment: {examples: 16, validation: 16, batch_size: 16, learning_rate: 0.01, reply_tokens: 20}
"""


def config_file(folder: Path, model: Path, text: str = CONFIG) -> Path:
    file = folder / "sara.yaml"
    file.write_text(f"model: {model}\n{text}", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``sara.yaml``, the result in ``out`` and the embeddings in ``work``."""
    folder = tmp_path_factory.mktemp("sara")
    train_sara(load_config(SaraConfig, config_file(folder, tiny)), None, folder / "work", folder / "out")
    return folder


def test_a_training_leaves_what_is_served_and_what_it_says_of_itself(trained: Path) -> None:
    out = trained / "out"
    compressor = Compressor.load(out)
    assert compressor.shape.hidden == 32
    assert compressor.fingerprint == read_shape(out / "reconstruction")[1]  # stage 3 leaves it as it is
    assert compressor.fingerprint != read_shape(out / "alignment")[1]
    adapter = load_file(out / LORA / ADAPTER)
    assert any("q_proj.lora_B" in name and bool(value.any()) for name, value in adapter.items())
    assert not any("layers" in name and "lora" not in name for name in adapter)
    card = (out / "README.md").read_text()
    for said in (compressor.fingerprint, "**Alignment**", "**Reconstruction**", "**Instruction**", "all-MiniLM-L6-v2"):
        assert str(said) in card
    assert str(trained) not in card + (out / "history.json").read_text()
    assert (out / "curves.svg").stat().st_size > 1000
    assert not list(out.rglob(CHECKPOINTS))


def test_xrag_tunes_its_projector_and_leaves_the_generator_as_it_is(tiny: Path, tmp_path: Path) -> None:
    config, out = load_config(SaraConfig, config_file(tmp_path, tiny, XRAG)), tmp_path / "out"
    train_sara(config, None, tmp_path / "work", out)
    assert not (out / LORA).exists()
    assert read_shape(out)[1] == read_shape(out / "instruction")[1] != read_shape(out / "alignment")[1]
    assert generator_folder(out, str(tiny)) == str(tiny), "what answers is the model itself"
    history = json.loads((out / "history.json").read_text())["instruction"]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert min(losses[1:]) < losses[0]
    card = (out / "README.md").read_text()
    assert card.count("the compressor, below the frozen generator") == 2
    assert card.startswith("# A trained xRAG of okralong")
    assert "Without" not in card, "SARA's ablations say nothing of it"
    found = json.loads(report_sara(config, None, tmp_path / "work", out)[1].read_text())
    answers = found["The gold answer, by how many of 1 retrieved chunks stand as text"]
    assert answers["0 as text, before tuning"]["nll"]["true"] != answers["0 as text"]["nll"]["true"]
    assert list(found["The text of alignment, by what was learned"]) == ["untrained", "alignment", "instruction"]


def test_by_sentence_prompts_have_a_vector_for_each_sentence(tiny: Path, tmp_path: Path) -> None:
    config, out = load_config(SaraConfig, config_file(tmp_path, tiny, SENTENCES)), tmp_path / "out"
    train_sara(config, None, tmp_path / "work", out)
    shape, _ = read_shape(out)
    assert isinstance(shape, Shape)
    assert (shape.unit, shape.vectors_per_chunk, shape.vectors_per_embedding) == ("sentence", 4, 1)
    assert load_file(out / WEIGHTS)["outer.weight"].shape == (32, 64)
    card = (out / "README.md").read_text()
    assert "for each sentence, at most 4 per chunk, fingerprint" in card
    history = json.loads((out / "history.json").read_text())["alignment"]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    assert losses[-1] < losses[0]
    page, data = report_sara(config, None, tmp_path / "work", out)
    found = json.loads(data.read_text())
    assert found["The text of alignment, by what was learned"]["alignment"]["vectors"] == 1
    assert 1 < found["The text of reconstruction, by what was learned"]["reconstruction"]["vectors"] <= 4
    answers = found["The gold answer, by how many of 4 retrieved chunks stand as text"]
    assert 4 < answers["0 as text"]["vectors"] <= 16
    assert answers["0 as text"]["prompt_tokens"] > answers["0 as text"]["vectors"]
    assert answers["4 as text"]["vectors"] == 0
    assert "Shuffled: the vectors of other documents' sentences." in page.read_text()


def test_true_vectors_raise_the_likelihood_of_held_out_texts(trained: Path) -> None:
    """Against vectors of other documents, paired, with the interval over documents clear of zero."""
    config = load_config(SaraConfig, trained / "sara.yaml")
    page, data = report_sara(config, None, trained / "work", trained / "out")
    found = json.loads(data.read_text())
    rows = found["The text of alignment, by what was learned"]
    before, after = rows["untrained"], rows["alignment"]
    assert after["less_shuffled"]["high"] < 0
    assert after["less_shuffled"]["value"] < before["less_shuffled"]["value"]
    assert after["nll"]["true"]["value"] < before["nll"]["true"]["value"]
    assert before["less_before"] is None
    learned = after["nll"]["true"]["value"] - before["nll"]["true"]["value"]
    assert after["less_before"]["value"] == pytest.approx(learned)
    assert after["less_before"]["high"] < 0
    answers = found["The gold answer, by how many of 4 retrieved chunks stand as text"]
    assert answers["4 as text"]["less_shuffled"]["value"] == 0  # nothing is compressed any more
    assert answers["4 as text"]["replies"] == 4
    assert 0 <= answers["0 as text"]["f1"]["value"] <= 1
    more = "0 as text, 8 questions"
    assert list(answers) == ["0 as text, before tuning", f"{more}, before tuning", "0 as text", more, "4 as text"]
    assert answers["0 as text, before tuning"]["f1"] is None
    assert answers["0 as text, before tuning"]["nll"] != answers["0 as text"]["nll"]
    assert [answers[name]["examples"] for name in ("0 as text", more, "4 as text")] == [6, 8, 6]
    assert answers[more]["f1"] is None
    assert "| untrained | 60 (4) |" in page.read_text()


@pytest.mark.soak  # three whole trainings
def test_a_killed_training_ends_like_one_that_was_not(trained: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "out", trained / "sara.yaml"
    said = module_command("okralong.jobs.cli", "train-sara", str(config), "--here", "--out", str(out))
    child = subprocess.Popen([*said, "--work", str(trained / "work")], env=module_environment())
    saved = out / "alignment" / CHECKPOINTS
    while not list(saved.glob("checkpoint-*/trainer_state.json")):
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert not (out / "alignment" / DONE).exists()
    train_sara(load_config(SaraConfig, config), None, trained / "work", out)
    for file in (WEIGHTS, f"{LORA}/{ADAPTER}", f"alignment/{WEIGHTS}"):
        again, first = load_file(out / file), load_file(trained / "out" / file)
        assert again.keys() == first.keys()
        for name, value in first.items():
            assert torch.equal(again[name], value), (file, name)


def test_a_finished_training_is_not_done_again_and_another_config_is(trained: Path, tiny: Path, tmp_path: Path) -> None:
    config = load_config(SaraConfig, trained / "sara.yaml")
    marks = {path: path.stat().st_mtime_ns for path in (trained / "out").rglob(DONE)}
    train_sara(config, None, trained / "work", trained / "out")
    assert {path: path.stat().st_mtime_ns for path in (trained / "out").rglob(DONE)} == marks
    ablation = load_config(SaraConfig, config_file(tmp_path, tiny, ABLATION))
    train_sara(ablation, None, trained / "work", tmp_path / "out")
    assert sorted(path.parent.name for path in (tmp_path / "out").rglob(DONE)) == ["alignment"]
    assert not (tmp_path / "out" / LORA).exists()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Without reconstruction (SARA-P), curriculum (SARA-L), instruction tuning (SARA-I)." in card
    with pytest.raises(ConfigError, match="no finished stage reconstruction"):
        report_sara(config, None, trained / "work", tmp_path / "out")


def test_figures_are_of_the_config_that_trained(trained: Path) -> None:
    config = load_config(SaraConfig, trained / "sara.yaml", {"alignment.learning_rate": 0.5})
    with pytest.raises(ConfigError, match="trained by another config"):
        report_sara(config, None, trained / "work", trained / "out")


@pytest.mark.soak  # two more trainings
def test_without_compression_and_without_tuning_answers_are_measured_too(
    trained: Path, tiny: Path, tmp_path: Path
) -> None:
    title = "The gold answer, by how many of 4 retrieved chunks stand as text"
    few = {"figures.as_text": [2], "instruction.epochs": 1, "alignment.epochs": 1, "alignment.examples": 16}
    plain = load_config(SaraConfig, trained / "sara.yaml", few | {"compression": False})
    train_sara(plain, None, trained / "work", tmp_path / "plain")
    found = json.loads(report_sara(plain, None, trained / "work", tmp_path / "plain")[1].read_text())
    assert found.keys() == {"about", title}
    assert found[title]["2 as text"]["less_none"]["value"] == 0
    untuned = load_config(SaraConfig, trained / "sara.yaml", few | {"instruction.learned": False})
    train_sara(untuned, None, trained / "work", tmp_path / "untuned")
    assert not (tmp_path / "untuned" / LORA).exists()
    found = json.loads(report_sara(untuned, None, trained / "work", tmp_path / "untuned")[1].read_text())
    assert found[title]["2 as text"]["less_none"]["value"] != 0


def test_passages_do_not_tell_which_document_holds_the_answer() -> None:
    example = MixedExample("instruction", "V-Day", (), "V-Day", np.zeros((0, 6), np.float32), "Which?", ("A film.",))
    said = "".join(p.text for m in prompt_of(example, []) for p in m.content if isinstance(p, Text))
    assert "A film." in said
    assert "V-Day" not in said


def test_what_rows_share_is_read_once_and_teaches_the_same(generator: tuple[Any, Any]) -> None:
    """Losses and gradients of a batch are those of its rows one by one, which share nothing."""
    model, tokenizer = generator
    torch.manual_seed(2)
    compressor = Compressor(Shape(inputs=6, width=16, hidden=32, vectors_per_chunk=2))
    learner = SaraLearner(model.requires_grad_(False), tokenizer, compressor, "tiny", 12)
    drawn = torch.randn(9, 6).numpy()
    examples = [
        MixedExample("reconstruction", "a", ("x", "y"), "Two boats cross the sound.", drawn[:2]),
        MixedExample("reconstruction", "b", ("x", "y", "z"), LAMP, drawn[2:5]),
        MixedExample("alignment", "c", ("x",), "Short.", drawn[5:6]),
        MixedExample("instruction", "d", ("x", "y"), "1998", drawn[6:8], "When?", ("The Petrel was built in 1998.",)),
        MixedExample("instruction", "e", ("x",), "Mara", drawn[8:9], "Who leads it?", ()),
    ]
    for some in (examples[:2], examples[3:], examples):
        losses, _, row = learner.token_losses(some)
        losses.sum().backward()
        together = gradients(compressor)
        alone = [learner.token_losses([each]) for each in some]
        torch.cat([each for each, _, _ in alone]).sum().backward()
        apart = gradients(compressor)
        torch.testing.assert_close(losses, torch.cat([each for each, _, _ in alone]), rtol=1e-4, atol=1e-4)
        assert torch.bincount(row).tolist() == [len(each) for each, _, _ in alone]
        assert together.keys() == apart.keys()
        for name, value in apart.items():
            torch.testing.assert_close(together[name], value, rtol=1e-3, atol=1e-4)
    whole = measured(learner, examples, batch_size=3)
    single = [measured(learner, [each], batch_size=1).nll[0] for each in examples]
    assert whole.nll.tolist() == pytest.approx(single, rel=1e-4)


def test_replies_end_where_the_text_ends_and_are_cut_where_told(generator: tuple[Any, Any]) -> None:
    model, tokenizer = generator
    compressor = Compressor(Shape(inputs=6, width=16, hidden=32))
    learner = SaraLearner(model, tokenizer, compressor, "tiny", 5)
    given = torch.randn(1, 6).numpy()
    short, long = learner.rows(
        [
            MixedExample("alignment", "a", ("x",), "Mara", given),
            MixedExample("alignment", "a", ("x",), LAMP, given),
        ]
    )
    assert tokenizer.decode(short.ids[short.usage :]) == "Mara" + tokenizer.eos_token
    assert tokenizer.decode(long.ids[long.usage :]) == "A lamp burns for nine"


def test_replies_are_the_same_in_a_batch_and_alone(generator: tuple[Any, Any]) -> None:
    model, tokenizer = generator
    torch.manual_seed(3)
    learner = SaraLearner(model, tokenizer, Compressor(Shape(inputs=6, width=16, hidden=32)), "tiny", 6)
    drawn = torch.randn(3, 6).numpy()
    examples = [
        MixedExample("instruction", "a", ("x", "y"), "1998", drawn[:2], "When?", ("The Petrel was built in 1998.",)),
        MixedExample("instruction", "b", ("x",), "Mara", drawn[2:], "Who leads it?", ()),
    ]
    written = learner.write(examples)
    assert written == [reply for each in examples for reply in learner.write([each])]
    assert all(written)


def gradients(compressor: Compressor) -> dict[str, torch.Tensor]:
    found = {name: value.grad.clone() for name, value in compressor.named_parameters() if value.grad is not None}
    compressor.zero_grad()
    return found
