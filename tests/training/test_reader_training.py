"""Training a reader for real, on a tiny language model: the loss is on the replies, what is written can be merged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from okralong.lab.training.learners.fit import train_session
from okralong.lab.training.learners.reader import QUOTATION_WEIGHT, ReaderLearner
from okralong.lab.training.recipe import Lora, ReadingExample, Recipe
from okralong.lab.training.rows.tables import ReadingRow
from okralong.pipelines.core.types import ConfigError
from tests.fakes.tiny_llama import write_tiny_llama

RECIPE = Recipe(
    kind="reader",
    lora=Lora(targets=["q_proj", "v_proj", "up_proj", "down_proj"], rank=16, dropout=0.0),
    learning_rate=0.02,
    epochs=4,
    batch_size=4,
    accumulation=1,
    evaluations=2,
    patience=9,
)
INSTRUCTIONS = "Reply in this form:\nAnswer: the shortest complete answer"
TOWNS = ("Alder", "Birch", "Cedar", "Elder", "Hazel", "Maple", "Rowan", "Willow")


def example(number: int) -> ReadingExample:
    town = TOWNS[number % len(TOWNS)]
    passage = f'<passage id="1" doc="d">\nThe head office is in {town}, as it was in {1900 + number}.\n</passage>'
    reply = f'Evidence: [1] "The head office is in {town}"\nAnswer: {town}'
    return ReadingExample(INSTRUCTIONS, f"{passage}\n\nQuestion: Where?", reply)


def on_one_passage(number: int) -> list[ReadingExample]:
    """The example and two more questions on its passage."""
    first = example(number)
    context = first.user.removesuffix("Where?")
    when = ReadingExample(first.instructions, f"{context}Since when is the office there?", f"Answer: {1900 + number}")
    who = ReadingExample(first.instructions, f"{context}Who leads it?", "Answer: unanswerable")
    return [first, when, who]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"), window=2048, spread=0.3)


def test_targets_are_the_reply_and_its_end_and_quotations_count_less(model: Path) -> None:
    learner = ReaderLearner(RECIPE, str(model), "cpu", torch.float32)
    batch = learner.collate([example(0), example(1)])
    (family,) = batch["families"]  # two contexts of like length
    assert len(family["shared"]) > 20
    tokenizer = learner.tokenizer
    for row, each in enumerate((example(0), example(1))):
        ids, weights = family["input_ids"][row], family["marks"][row]
        assert tokenizer.decode(ids[weights > 0]) == each.reply + tokenizer.eos_token
        quoted = tokenizer.decode(ids[torch.isclose(weights, torch.tensor(QUOTATION_WEIGHT))])
        assert quoted == each.reply.partition("\n")[0] + "\n"
    with torch.no_grad():
        out = learner(**batch)
    assert out["right"][:, 1].tolist() == (family["marks"] > 0).sum(dim=1).tolist()
    assert float(out["loss"]) > 0


def test_rows_of_one_context_are_a_family_and_rows_of_unlike_length_stand_alone(model: Path) -> None:
    learner = ReaderLearner(RECIPE, str(model), "cpu", torch.float32)
    long = replace(example(5), user=f"The beginning is another one. {example(5).user * 9}")
    families = learner.collate([on_one_passage(0)[0], example(1), on_one_passage(0)[1], long, on_one_passage(0)[2]])[
        "families"
    ]
    assert [len(family["input_ids"]) for family in families] == [3, 1, 1]
    shared = learner.tokenizer.decode(families[0]["shared"])
    assert "The head office is in Alder, as it was in 1900.\n</passage>" in shared
    assert [len(family["shared"]) for family in families[1:]] == [0, 0]


def test_what_is_read_once_for_several_rows_teaches_the_same(model: Path) -> None:
    learner = ReaderLearner(RECIPE, str(model), "cpu", torch.float32)
    together = learner.collate([*on_one_passage(0), example(1), *on_one_passage(2)])
    assert len(together["families"]) == 3
    rows = [learner.row(each) for each in (*on_one_passage(0), *on_one_passage(2), example(1))]
    apart = {"labels": together["labels"], "families": [learner.family([row]) for row in rows]}
    found = []
    for batch in (together, apart):
        learner.zero_grad()
        out = learner(**batch)
        out["loss"].backward()
        grads = [each.grad.clone() for each in learner.parameters() if each.grad is not None]
        found.append((out["loss"].detach(), out["right"], grads))
    assert found[0][1].tolist() == found[1][1].tolist()
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[0][2], found[1][2], rtol=1e-3, atol=1e-5)


def test_a_training_foretells_more_of_the_replies_and_writes_what_is_served(model: Path, tmp_path: Path) -> None:
    rows = [row_of(number) for number in range(24)]
    recipe = RECIPE.changed(model=str(model))
    train_session(recipe, rows, [row_of(number) for number in range(24, 32)], tmp_path)
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


def test_a_training_goes_on_from_an_adapter(model: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    recipe = RECIPE.changed(model=str(model))
    train_session(recipe, [row_of(number) for number in range(24)], [row_of(24)], first)
    onwards = recipe.changed(start=str(first), learning_rate=1e-7, epochs=1)
    train_session(onwards, [row_of(number) for number in range(8)], [row_of(24)], second)
    before, after = (load_file(folder / "adapter_model.safetensors") for folder in (first, second))
    assert any(bool(value.any()) for name, value in before.items() if "lora_B" in name)
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-4)
    assert "going on from the adapter `first`" in (second / "README.md").read_text()
    assert str(tmp_path) not in (second / "history.json").read_text()


def test_an_adapter_of_another_shape_or_none_is_no_start(model: Path, tmp_path: Path) -> None:
    assert RECIPE.lora is not None
    smaller = RECIPE.changed(lora=RECIPE.lora.model_copy(update={"rank": 8}))
    ReaderLearner(smaller, str(model), "cpu", torch.float32).save(tmp_path)
    with pytest.raises(ConfigError, match="another shape"):
        ReaderLearner(RECIPE.changed(start=str(tmp_path)), str(model), "cpu", torch.float32)
    with pytest.raises(ConfigError, match=r"adapter_model\.safetensors"):
        ReaderLearner(RECIPE.changed(start=str(tmp_path / "none")), str(model), "cpu", torch.float32)
    with pytest.raises(ConfigError, match="another shape"):
        ReaderLearner(RECIPE.changed(start="shipped"), str(model), "cpu", torch.float32)


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
