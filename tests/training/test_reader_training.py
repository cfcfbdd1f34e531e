"""Training a reader for real, on a tiny language model: the loss is on the replies, what is written can be merged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.reader.session import train_reader
from okralong.pipelines.training.examples import ReadingExample
from okralong.pipelines.training.reader_learner import QUOTATION_WEIGHT, ReaderLearner
from okralong.pipelines.training.recipe import Lora, Recipe
from tests.fakes.tiny_llama import write_tiny_llama

RECIPE = Recipe(
    "reader",
    lora=Lora(("q_proj", "v_proj", "up_proj", "down_proj"), rank=16, dropout=0.0),
    learning_rate=0.02,
    epochs=4,
    batch_size=4,
    accumulation=1,
    evaluations=2,
    patience=9,
)
TOWNS = ("Alder", "Birch", "Cedar", "Elder", "Hazel", "Maple", "Rowan", "Willow")


def example(number: int) -> ReadingExample:
    town = TOWNS[number % len(TOWNS)]
    passage = f'<passage id="1" doc="d">\nThe head office is in {town}, as it was in {1900 + number}.\n</passage>'
    reply = f'Answer: {town}\nEvidence: [1] "The head office is in {town}"'
    return ReadingExample("Reply in this form:\nAnswer: the shortest complete answer", f"{passage}\n\nWhere?", reply)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"), window=2048, spread=0.3)


def test_targets_are_the_reply_and_its_end_and_quotations_count_less(model: Path) -> None:
    learner = ReaderLearner(RECIPE, str(model), "cpu", torch.float32)
    batch = learner.collate([example(0), example(1)])
    assert len(batch["shared"]) > 20
    tokenizer = learner._tokenizer
    for row, each in enumerate((example(0), example(1))):
        ids, weights = batch["input_ids"][row], batch["weights"][row]
        assert tokenizer.decode(ids[weights > 0]) == each.reply + tokenizer.eos_token
        quoted = tokenizer.decode(ids[torch.isclose(weights, torch.tensor(QUOTATION_WEIGHT))])
        assert quoted == each.reply.partition("\n")[2]
    with torch.no_grad():
        out = learner(**batch)
    assert out["right"][:, 1].tolist() == (batch["weights"] > 0).sum(dim=1).tolist()
    assert float(out["loss"]) > 0


def test_instructions_read_once_for_a_batch_teach_the_same(model: Path) -> None:
    learner = ReaderLearner(RECIPE, str(model), "cpu", torch.float32)
    shared = learner.collate([example(0), example(1)])
    apart = dict(shared)
    apart["shared"] = torch.tensor([], dtype=torch.long)
    size = len(shared["shared"])
    front = shared["shared"].repeat(2, 1)
    apart["input_ids"] = torch.cat([front, shared["input_ids"]], dim=1)
    apart["attention_mask"] = torch.cat([torch.ones_like(front), shared["attention_mask"]], dim=1)
    apart["weights"] = torch.cat([torch.zeros(2, size), shared["weights"]], dim=1)
    found = []
    for batch in (shared, apart):
        learner.zero_grad()
        loss = learner(**batch)["loss"]
        loss.backward()
        found.append((loss.detach(), [each.grad.clone() for each in learner.parameters() if each.grad is not None]))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-3, atol=1e-5)


def test_a_training_foretells_more_of_the_replies_and_writes_what_is_served(model: Path, tmp_path: Path) -> None:
    rows = [row_of(number) for number in range(24)]
    recipe = replace(RECIPE, model=str(model))
    train_reader(recipe, rows, [row_of(number) for number in range(24, 32)], tmp_path)
    history = json.loads((tmp_path / "history.json").read_text())["history"]
    measured = [entry["eval_token_accuracy"] for entry in history if "eval_token_accuracy" in entry]
    assert measured[-1] > measured[0] + 0.1
    asked = {"demonstrations": False, "calculator": True, "rows": 24}
    assert json.loads((tmp_path / "reader.json").read_text()) == asked
    weights = load_file(tmp_path / "adapter_model.safetensors")
    assert any("down_proj.lora_B" in name and bool(value.any()) for name, value in weights.items())
    card = (tmp_path / "README.md").read_text()
    assert "24 train rows (generate 24)" in card
    assert str(model.parent) not in (tmp_path / "adapter_config.json").read_text() or str(model) in card
    assert (tmp_path / "curves.svg").is_file()


def row_of(number: int) -> ReadingRow:
    each = example(number)
    return ReadingRow(
        query_id=f"q{number}",
        source="made up",
        documents=(f"d{number}",),
        role="generate",
        type="extractive",
        question="Where?",
        system=each.instructions,
        user=each.user,
        reply=each.reply,
        answers=(TOWNS[number % len(TOWNS)],),
        answerable=True,
        calculator=number % 2 == 0,
    )
