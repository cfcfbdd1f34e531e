"""Likelihoods after a shared prefix against plain forward passes, on a small model with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from okralong.pipelines.answering.analyzers.analysis import ScorerConfig, load_scorer
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.likelihood import LikelihoodModel, passes
from tests.fakes.tiny_llama import write_tiny_llama

WINDOW = 256
PREFIX = "Alder Orchards grows apples and pears.\n\n"
TEXTS = ["Revenue rose in 2023. " * 4, "A cat called Fresnel.", "", "x", "The board met, and met again, in the valley."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny-llama"), WINDOW)


@pytest.fixture(scope="module")
def model(folder: Path) -> LikelihoodModel:
    return LikelihoodModel.load(str(folder), precision="float32", device="cpu")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def by_forward_passes(plain: Any, folder: Path, prefix: str, text: str) -> list[float]:
    """Each text by a pass of its own over prefix and text together."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    before = [tokenizer.bos_token_id, *tokenizer(prefix, add_special_tokens=False)["input_ids"]]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        logs = plain(torch.tensor([before + ids])).logits[0].log_softmax(-1)
    return [float(logs[len(before) - 1 + at, token]) for at, token in enumerate(ids)]


@pytest.mark.parametrize("prefix", [PREFIX, ""])
def test_scores_equal_plain_forward_passes(model: LikelihoodModel, plain: Any, folder: Path, prefix: str) -> None:
    scored = model.score(prefix, TEXTS)
    assert len(scored) == len(TEXTS)
    assert scored[2] == []
    for text, logs in zip(TEXTS, scored, strict=True):
        assert logs == pytest.approx(by_forward_passes(plain, folder, prefix, text), abs=1e-4)


def test_the_prefix_is_read_once_and_counts(model: LikelihoodModel, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    hidden = model.hidden_states

    def counted(rows: list[list[int]], cache: Any) -> Any:
        lengths.append((len(rows), len(rows[0])))
        return hidden(rows, cache)

    monkeypatch.setattr(model, "hidden_states", counted)
    scored = model.score(PREFIX * 6, TEXTS)
    # One pass over the prefix, then one over all four texts side by side.
    assert [rows for rows, _ in lengths] == [1, 4]
    assert lengths[0][1] > lengths[1][1]
    assert scored[1] != pytest.approx(model.score("", TEXTS)[1], abs=1e-3)


def test_what_does_not_fit_the_window_is_cut(model: LikelihoodModel, plain: Any, folder: Path) -> None:
    (logs,) = model.score(PREFIX, ["pear " * 400])
    assert len(logs) == WINDOW - 1
    # Of a long prefix the end is what a text is read after.
    text = "A cat called Fresnel."
    assert model.score("plum " * 400 + PREFIX, [text]) == model.score(
        "quince plum " * 200 + "plum " * 300 + PREFIX, [text]
    )
    assert model.score(PREFIX, []) == []
    assert model.score(PREFIX, ["", ""]) == [[], []]


def test_passes_hold_every_text_once_within_the_limit() -> None:
    lengths = [5, 0, 900, 30, 7, 30, 2, 4000]
    groups = passes(lengths, prefix=50, limit=200)
    assert sorted(number for group in groups for number in group) == [0, 2, 3, 4, 5, 6, 7]
    for group in groups:
        assert len(group) == 1 or len(group) * (50 + max(lengths[number] for number in group)) <= 200


def test_a_model_that_is_not_there_is_explained(folder: Path) -> None:
    assert load_scorer(ScorerConfig(model=str(folder))).score("", ["x"])[0][0] < 0
    with pytest.raises(ConfigError, match=r"no/such/folder.*embedded"):
        load_scorer(ScorerConfig(model="/no/such/folder"))


def test_token_ends_are_those_of_the_tokens_that_are_scored(model: LikelihoodModel) -> None:
    texts = [*TEXTS, "Zürich 🏔 1,204.5"]
    for text, ends, logs in zip(texts, model.token_ends(texts), model.score("", texts), strict=True):
        assert len(ends) == len(logs)
        assert ends == sorted(ends)
        assert not text or ends[-1] == len(text)
