"""The token classifier: words, stretches, whole words, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from okralong.pipelines.answering.analyzers.analysis import TokenClassifierConfig, load_token_classifier
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.token_classifier import (
    DESCRIPTION,
    WEIGHTS,
    Pieces,
    TokenClassifier,
    TokenClassifierModel,
    TokenClassifierShape,
    save_token_classifier,
    words_in,
)
from okralong.pipelines.models.weights import resolve_embedding_model, shipped_adapter

TEXT = "Alder (Ltd.) spent 1,544.5 crowns. Why?! Nobody-knows...\n\nThe end"
BASE = resolve_embedding_model("embedded")


def written(folder: Path, max_tokens: int = 320) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = TokenClassifierModel(AutoModel.from_pretrained(BASE.path))
    save_token_classifier(folder, model, TokenClassifierShape("embedded", BASE.sha256, 5, max_tokens))
    return folder


def test_words_are_runs_without_blanks_and_the_marks_that_end_them() -> None:
    said = [TEXT[start:end] for start, end in words_in(TEXT)]
    assert " ".join(said) == "Alder (Ltd.) spent 1,544.5 crowns . Why ?! Nobody-knows ... The end"
    assert [words_in(text) for text in ("", " \n", "...")] == [[], [], [(0, 3)]]


def test_a_word_has_the_mean_of_its_tokens_and_other_texts_change_little(tmp_path: Path) -> None:
    model = TokenClassifier.load(written(tmp_path), precision="float32")
    together = model.keep([TEXT, "", "short", "much longer " * 40])
    assert [(word.start, word.end) for word in together[0]] == words_in(TEXT)
    assert [len(each) for each in together] == [12, 0, 1, 80]
    for word, alone in zip(together[0], model.keep([TEXT])[0], strict=True):
        assert word.probability == pytest.approx(alone.probability, abs=1e-4)
        assert 0 < word.probability < 1
    tokenizer = AutoTokenizer.from_pretrained(BASE.path)
    pieces = Pieces.of(tokenizer, TEXT, words_in(TEXT))
    number = tokenizer.convert_ids_to_tokens([i for i, word in zip(pieces.ids, pieces.word, strict=True) if word == 3])
    assert number == ["1", ",", "54", "##4", ".", "5"]


def test_a_long_text_is_read_in_stretches_that_end_with_a_word(tmp_path: Path) -> None:
    text = "unforeseeable circumstances " * 30 + "x" * 400
    tokenizer = AutoTokenizer.from_pretrained(BASE.path)
    pieces = Pieces.of(tokenizer, text, words_in(text))
    parts = list(pieces.stretches(30))
    assert [place for part in parts for place in part] == list(range(len(pieces.ids)))
    assert max(map(len, parts)) <= 30
    inside = [part.stop for part in parts if part.stop < len(pieces.ids)]
    assert all(pieces.word[stop] != pieces.word[stop - 1] for stop in inside if pieces.word[stop] < 60)
    assert len(TokenClassifier.load(written(tmp_path, 32)).keep([text])[0]) == 61


def test_another_encoder_and_missing_files_are_refused(tmp_path: Path) -> None:
    said = json.loads((written(tmp_path) / DESCRIPTION).read_text())
    (tmp_path / DESCRIPTION).write_text(json.dumps(said | {"sha256": "0" * 64}))
    with pytest.raises(ConfigError, match="trained on other weights"):
        TokenClassifier.load(tmp_path)
    (tmp_path / DESCRIPTION).write_text(json.dumps(said))
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        TokenClassifier.load(tmp_path)
    with pytest.raises(ConfigError, match=r"no token classifier.*token_classifier\.model"):
        load_token_classifier(TokenClassifierConfig(model=str(tmp_path / "none")))


def test_the_one_that_ships_keeps_what_carries_meaning() -> None:
    model = load_token_classifier(TokenClassifierConfig())
    (words,) = model.keep(["The company was founded in 1951 by Ines Calder, who planted it behind a railway shed."])
    said = "The company was founded in 1951 by Ines Calder, who planted it behind a railway shed."
    by_word = {said[word.start : word.end]: word.probability for word in words}
    assert min(by_word["1951"], by_word["Ines"], by_word["founded"]) > max(by_word["was"], by_word["The"], by_word["a"])
    folder = shipped_adapter("token_classifier")
    files = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert {WEIGHTS, DESCRIPTION, "README.md", "curves.svg", "history.json"} == set(files)
    assert sum(files.values()) < 5_000_000
