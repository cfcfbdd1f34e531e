"""A text is embedded once, whatever call, batch, order or process it comes in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from okralong.lab.datasets import encoder as vector_cache
from okralong.lab.datasets.encoder import CachedEncoder
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.models.weights import resolve_embedding_model

Embed = Callable[[list[str]], npt.NDArray[np.float32]]

TEXTS = ["A long text about apples and pears in the valley of the Wend.", "Lamps.", "Two boats cross the sound."]


def opened(folder: Path, embed: Embed) -> CachedEncoder:
    return CachedEncoder(Folder.of(folder), resolve_embedding_model("embedded"), lambda: embed)


def test_the_second_time_embeds_nothing_and_reopening_neither(minilm: Embed, tmp_path: Path) -> None:
    encoder = opened(tmp_path, minilm)
    first = encoder.encode(TEXTS)
    np.testing.assert_allclose(first, minilm(TEXTS), atol=1e-5)
    assert encoder.embedded == 3
    np.testing.assert_array_equal(encoder.encode(TEXTS[::-1]), first[::-1])
    assert encoder.embedded == 3
    again = opened(tmp_path, minilm)
    np.testing.assert_array_equal(again.encode([TEXTS[2], TEXTS[0]]), first[[2, 0]])
    assert again.embedded == 0
    mixed = again.encode(["A new one.", TEXTS[1]])
    np.testing.assert_allclose(mixed, minilm(["A new one.", TEXTS[1]]), atol=1e-5)
    assert again.embedded == 1


def test_the_model_is_loaded_only_for_a_new_text(minilm: Embed, tmp_path: Path) -> None:
    opened(tmp_path, minilm).encode(TEXTS)
    loads: list[str] = []

    def load() -> Embed:
        loads.append("loaded")
        return minilm

    encoder = CachedEncoder(Folder.of(tmp_path), resolve_embedding_model("embedded"), load)
    encoder.encode(TEXTS)
    assert loads == []
    encoder.encode(["new"])
    encoder.encode(["newer"])
    assert loads == ["loaded"]


def test_a_text_that_stands_twice_is_embedded_once(minilm: Embed, tmp_path: Path) -> None:
    encoder = opened(tmp_path, minilm)
    vectors = encoder.encode([TEXTS[1], TEXTS[0], TEXTS[1]])
    assert encoder.embedded == 2
    np.testing.assert_array_equal(vectors[0], vectors[2])
    assert float(vectors[0] @ vectors[1]) < 0.9


def test_batches_keep_the_order(minilm: Embed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_cache, "BATCH", 2)
    found = opened(tmp_path, minilm).encode([*TEXTS, "Pears.", "Apples and a cat."])
    np.testing.assert_allclose(found, minilm([*TEXTS, "Pears.", "Apples and a cat."]), atol=1e-5)
    assert len(list(tmp_path.glob("*.parquet"))) == 3
    np.testing.assert_array_equal(opened(tmp_path, minilm).encode(TEXTS), found[:3])


def test_another_model_has_vectors_of_its_own(minilm: Embed, tmp_path: Path) -> None:
    opened(tmp_path, minilm).encode(TEXTS)
    other = CachedEncoder(
        Folder.of(tmp_path), replace(resolve_embedding_model("embedded"), name="other"), lambda: lambda t: -minilm(t)
    )
    np.testing.assert_allclose(other.encode(TEXTS[:1]), -minilm(TEXTS[:1]), atol=1e-5)
    assert other.embedded == 1


def test_no_text_at_all_is_refused(minilm: Embed, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        opened(tmp_path, minilm).encode([])
