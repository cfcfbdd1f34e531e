"""ICAE's memory slots: what they are made of, their two files, and a training in which they come to hold a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from okralong.lab.training.learners.fit import CHECKPOINTS
from okralong.lab.training.sara.config import SaraConfig
from okralong.lab.training.sara.examples import MixedExample, alignment_examples
from okralong.lab.training.sara.report import measured_under_all, report_sara
from okralong.lab.training.sara.train import DONE, Generator, train_sara
from okralong.pipelines.core.config import load_config, parse_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models import weights
from okralong.pipelines.models.weights import Precision
from okralong.pipelines.sara.artifact import DESCRIPTION, LORA, WEIGHTS, ArrayCompressor, generator_folder, read_shape
from okralong.pipelines.sara.compressor import MemoryCompressor, load_compressor
from okralong.pipelines.sara.table import table_compressor
from tests.fakes.tiny_llama import write_tiny_llama
from tests.sara.compressors import random_memory

TEXTS = [
    "A lamp burns for nine years before its cell is changed.",
    "Birch sells lamps.",
    "",
    "Revenue rose by 4 %. " * 30,
]

TASKS = ("alignment", "continuation")

CONFIG = """
chunk_tokens: 48
vectors_per_chunk: 4
memory: {rank: 8, alpha: 16}
curriculum: false
reranking: false
texts: {sample: {reports: 4, questions: 24, words: 1500}}
alignment:
  {examples: 32, validation: 8, batch_size: 16, epochs: 3, learning_rate: 0.02, reply_tokens: 16, evaluations: 1,
   continued: 0.25}
instruction:
  {examples: 16, validation: 8, batch_size: 4, warmup: 0, learning_rate: 0.01, reply_tokens: 8, retrieved: 2,
   as_text: {0: 1}, pool_tokens: 800, evaluations: 1, lora: null}
figures: {examples: 8, questions: 4, questions_without_text: 4, replies: 0, as_text: [0], batch_size: 8}
"""


def memory_of(folder: Path, tiny: Path, precision: Precision = "float32") -> MemoryCompressor:
    made = load_compressor(random_memory(folder, tiny), str(tiny), precision)
    assert isinstance(made, MemoryCompressor)
    return made


@pytest.mark.parametrize(("precision", "rounding"), [("float32", 1e-4), ("bfloat16", 0.05)])
def test_a_chunks_slots_do_not_depend_on_what_is_read_beside_it(
    tiny: Path, tmp_path: Path, precision: Precision, rounding: float
) -> None:
    made = memory_of(tmp_path, tiny, precision)
    together = made.slots(TEXTS)
    assert together.shape == (4, 2, 32)
    for number, text in enumerate(TEXTS):
        assert np.allclose(together[number], made.slots([text])[0], atol=rounding)
    assert len({each.tobytes() for each in together.round(3)}) == 4
    assert made.slots([]).shape == (0, 2, 32)


def test_what_is_written_is_what_is_read(tiny: Path, tmp_path: Path) -> None:
    made = memory_of(tmp_path / "a", tiny)
    assert made.save(tmp_path / "b") == made.fingerprint == read_shape(tmp_path / "b")[1]
    again = load_compressor(tmp_path / "b", str(tiny), "float32")
    assert np.array_equal(made.slots(TEXTS), again.slots(TEXTS))
    table = table_compressor(tmp_path / "b", str(tiny))
    auto = load_compressor(tmp_path / "b", str(tiny))
    assert isinstance(auto, MemoryCompressor)
    assert np.array_equal(table.of_chunks(np.zeros((4, 0), dtype=np.float32), TEXTS), auto.slots(TEXTS))
    assert (tmp_path / "b" / WEIGHTS).stat().st_size < 20_000, "the generator itself is not in it"


def test_files_that_are_not_its_own_are_refused(tiny: Path, tmp_path: Path) -> None:
    folder = random_memory(tmp_path / "c", tiny)
    with pytest.raises(ConfigError, match=r"cannot select chunks\. Set selection\.space"):
        ArrayCompressor.load(folder)
    other = write_tiny_llama(tmp_path / "other", window=512)
    with pytest.raises(ConfigError, match="Set generator in the index config to the model that it was trained with"):
        table_compressor(folder, str(other))
    wider = write_tiny_llama(tmp_path / "wider" / tiny.name, window=512, layers=1)
    with pytest.raises(ConfigError, match="has different matrices"):
        load_compressor(folder, str(wider))
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-2] + b"xx")
    with pytest.raises(ConfigError, match=f"does not have the fingerprint that its {DESCRIPTION} says"):
        load_compressor(folder, str(tiny))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"reranking": True}, "set reranking: false"), ({"instruction.lora": {"targets": ["q_proj"]}}, "lora: null")],
)
def test_a_training_that_memory_slots_cannot_have_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(SaraConfig, CONFIG, "icae.yaml", change)


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_training_is_in_the_precision_of_its_config_on_any_processor(
    tiny: Path, is_fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "multiplies_bfloat16", lambda: is_fast)
    for precision, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        config = parse_config(SaraConfig, f"model: {tiny}\nprecision: {precision}\n{CONFIG}", "icae.yaml")
        generator = Generator.load(config.model, config.precision)
        compressor = generator.new_compressor(config, 0)
        assert isinstance(compressor, MemoryCompressor)
        assert {generator.model.dtype, compressor.reader.base_model.model.dtype} == {dtype}
        assert config.recipe(config.alignment).precision == precision
    assert parse_config(SaraConfig, CONFIG, "icae.yaml").precision == "float32"


def test_slots_come_to_hold_what_they_were_made_of() -> None:
    """The embedded model, overfitted on few texts: a text's own slots foretell it, another's do not."""
    config = parse_config(SaraConfig, CONFIG, "icae.yaml")
    generator = Generator.load(config.model)
    learner = generator.learner(generator.new_compressor(config, 0), 12)
    nothing = np.zeros((1, 0), dtype=np.float32)
    texts = [f"{name} sells {what}." for name, what in (("Alder", "lamps"), ("Birch", "tea"), ("Cedar", "oil"))]
    examples = [MixedExample("alignment", text, (text,), text, nothing) for text in texts]
    frozen = [value.clone() for value in generator.model.parameters()]
    learned = [value for value in learner.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=0.01)
    for _ in range(12):
        optimizer.zero_grad()
        learner(torch.zeros(3), examples)["loss"].backward()
        optimizer.step()
    seen = measured_under_all(learner, examples, 3, 7)
    assert (seen["true"].nll < 1).all()
    assert (seen["shuffled"].nll > 2).all()
    assert all(torch.equal(a, b) for a, b in zip(frozen, generator.model.parameters(), strict=True))


@pytest.fixture(scope="module")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``icae.yaml`` and what was trained by it in ``out``."""
    folder = tmp_path_factory.mktemp("icae")
    (folder / "icae.yaml").write_text(f"model: {tiny}\n{CONFIG}")
    train_sara(load_config(SaraConfig, folder / "icae.yaml"), None, folder / "work", folder / "out")
    return folder


def test_a_training_leaves_slots_a_card_and_figures_and_no_adapter_of_the_generator(tiny: Path, trained: Path) -> None:
    config, out = load_config(SaraConfig, trained / "icae.yaml"), trained / "out"
    assert not (out / LORA).exists()
    assert generator_folder(out, str(tiny)) == str(tiny), "what answers is the model itself"
    first, last = (read_shape(out / stage)[1] for stage in ("alignment", "instruction"))
    assert first != last == read_shape(out)[1]
    card = (out / "README.md").read_text()
    assert f"4 memory slots (ICAE), made by {tiny.name} itself" in card
    assert "of 25% of the texts the text that follows" in card
    assert str(trained) not in card
    found = json.loads(report_sara(config, None, trained / "work", out)[1].read_text())
    rows = found["The text of alignment, by what was learned"]
    assert list(rows) == ["untrained", "alignment", "instruction"]
    assert len({row["nll"]["true"]["value"] for row in rows.values()}) == 3, "each stage taught it something"


class Killed(Exception):
    """A training's end from without."""


def test_a_killed_training_goes_on_and_ends_like_one_that_was_not(trained: Path, tmp_path: Path) -> None:
    config, out = load_config(SaraConfig, trained / "icae.yaml", {"instruction": None}), tmp_path / "out"
    steps = []

    def kill_at_the_second(said: str) -> None:
        steps.extend([said] if said.startswith("step") else [])
        if len(steps) == 2:
            raise Killed

    with pytest.raises(Killed):
        train_sara(config, None, tmp_path, out, kill_at_the_second)
    assert list((out / "alignment" / CHECKPOINTS).glob("checkpoint-*")), "what the first evaluation left"
    assert not (out / "alignment" / DONE).exists()
    again: list[str] = []
    train_sara(config, None, tmp_path, out, again.append)
    assert [said.partition(":")[0] for said in again if said.startswith("step")] == ["step 4 of 6", "step 6 of 6"]
    one, other = (load_file(folder / "alignment" / WEIGHTS) for folder in (out, trained / "out"))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    mark = (out / "alignment" / DONE).stat().st_mtime_ns
    train_sara(config, None, tmp_path, out)
    assert (out / "alignment" / DONE).stat().st_mtime_ns == mark, "finished, it is not done again"


def test_some_chunks_are_to_be_continued() -> None:
    documents = {"a": [["one", "two", "three"]], "b": [["four", "five"]]}

    def encode(texts: list[str]) -> Any:
        return np.zeros((len(texts), 0), dtype=np.float32)

    found = alignment_examples(documents, encode, 4, 7, continued=0.5)
    asked = {task: {(*each.compressed, each.reply) for each in found if each.stage == task} for task in TASKS}
    assert {task: len(pairs) for task, pairs in asked.items()} == dict.fromkeys(TASKS, 2)
    assert all(chunk == reply for chunk, reply in asked["alignment"])
    assert asked["continuation"] < {("one", "two"), ("two", "three"), ("four", "five")}
