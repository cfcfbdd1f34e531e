"""Training a token classifier for real: rows by evidence, it learns, and what is written reads as what was trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import TrainingArguments

from okralong.lab.datasets.base import DataSet, Evidence, Item, make_text
from okralong.lab.datasets.gold import Gold
from okralong.lab.training.learners.fit import HISTORY, HeadsTrainer, definition_of, train_session
from okralong.lab.training.recipe import KeepExample, Recipe, export_files, read_examples
from okralong.lab.training.rows.tables import KEEP, KeepRow
from okralong.lab.training.rows.token_classifier_rows import KeepConfig, rows_of
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, Question
from okralong.pipelines.models.token_classifier import TokenClassifier, words_in

RECIPE = Recipe(
    kind="token_classifier",
    first_block=5,
    learning_rate=0.001,
    heads_learning_rate=0.01,
    epochs=6,
    batch_size=4,
    accumulation=1,
    dropout=0.0,
    max_tokens=128,
    patience=20,
)
FIRMS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel")
CONFIG = KeepConfig.model_validate({"sets": [{"name": "made up", "part": "all"}], "least_words": 8})


def bakery(number: int) -> tuple[str, Question]:
    firm, crowns = FIRMS[number % len(FIRMS)], f"{number + 3},{number * 37 % 900 + 100}"
    text = f"It is said that {firm} in the end sold bread for {crowns} crowns. Of this and that there is no more."
    return text, Question(f"q{number}", f"How much bread was sold by {firm}?", answers=(f"{crowns} crowns", "unknown"))


def dataset(numbers: range) -> DataSet:
    texts, items = {}, []
    for number in numbers:
        said, question = bakery(number)
        text = make_text(f"d{number}", said)
        texts[text.text_id] = text
        evidence = Evidence(text.text_id, 0, said.index(" Of this"))
        items.append(Item(Gold(question, "made up"), (text.document,), (text.text_id,), (evidence,)))
    return DataSet("made up", "all", texts, tuple(items))


def rows(numbers: range) -> list[KeepRow]:
    return rows_of(dataset(numbers), CONFIG, set())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("token-classifier")
    train_session(RECIPE, rows(range(40)), rows(range(40, 48)), out)
    return out


def test_a_word_is_kept_where_the_evidence_of_a_question_has_it() -> None:
    (row,) = rows(range(1))
    words = [row.text[start:end] for start, end in words_in(row.text)]
    named = {word: label for word, label in zip(words, row.labels, strict=True) if label}
    assert named == {"Alder": 1, "sold": 1, "bread": 1, "3,100": 2, "crowns": 2}
    assert (row.source, row.documents) == ("made up all", ("d0",))


def test_a_text_counts_once_and_outside_evidence_nothing_is_named() -> None:
    seen: set[str] = set()
    assert [len(rows_of(dataset(range(3)), CONFIG, seen)) for _ in range(2)] == [3, 0]
    short = CONFIG.model_copy(update={"least_words": 40})
    assert rows_of(dataset(range(3)), short, set()) == []


def test_heads_learn_at_their_own_rate(tmp_path: Path) -> None:
    """Found by themselves: the same parameters also stand below the net, by another name."""
    definition = definition_of(RECIPE)
    examples = definition.examples(rows(range(2)))
    learner = definition.learner(RECIPE, examples, definition.base(RECIPE), "cpu", torch.float32)
    trainer = HeadsTrainer(model=learner, args=TrainingArguments(output_dir=str(tmp_path), use_cpu=True))
    trainer.heads_learning_rate = 0.01
    groups = trainer.create_optimizer().param_groups
    rates = {id(value): group["lr"] for group in groups for value in group["params"]}
    heads = {id(value) for value in learner.heads.parameters()}
    assert {rates[each] for each in heads} == {0.01}
    assert set(rates) - heads
    assert {rates[each] for each in set(rates) - heads} == {trainer.args.learning_rate}


def test_rows_and_examples_travel(tmp_path: Path) -> None:
    KEEP.write(Folder.of(tmp_path), "train", rows(range(3)))
    assert KEEP.read(Folder.of(tmp_path), "train") == rows(range(3))
    assert "answers" in KEEP.card({"train": rows(range(3))})
    example = KeepExample("a b", (0, 2))
    _, train, _ = export_files(RECIPE, [example], [], tmp_path / "files")
    assert read_examples(train) == [example]


def test_it_learns_what_is_asked_about_and_says_how_well(trained: Path) -> None:
    text, _ = bakery(52)
    words = TokenClassifier.load(trained, precision="float32").keep([text])[0]
    best = sorted(words, key=lambda word: -word.probability)[:5]
    assert {text[word.start : word.end] for word in best} == {"Elm", "sold", "bread", "55,224", "crowns"}
    last = [each for each in json.loads((trained / HISTORY).read_text())["history"] if "eval_loss" in each][-1]
    assert last["eval_answers_kept"] == 1.0
    card = (trained / "README.md").read_text()
    line = next(line for line in card.splitlines() if line.startswith("| 33% | classifier"))
    assert [cell.strip() for cell in line.strip("|").split("|")][3:] == ["1.000", "1.000"]
    assert "| 50% | chance" in card


def test_what_such_a_recipe_may_not_say(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="start from scratch"):
        RECIPE.changed(start="shipped")
    with pytest.raises(ValueError, match="has no heads: leave heads_learning_rate out"):
        RECIPE.changed(kind="reader", lora={"targets": ["q_proj"]}, heads_learning_rate=0.01)
    with pytest.raises(ValueError, match="leave lora out"):
        RECIPE.changed(lora={"targets": ["query"]})
    with pytest.raises(ConfigError, match="token_classifier"):
        train_session(Recipe(kind="sara"), [], [], tmp_path)
