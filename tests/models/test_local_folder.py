"""A model in a folder of one's own is known by its weights: the name of a folder says nothing of what is in it."""

from __future__ import annotations

from pathlib import Path

from okralong.pipelines.archive.vectors import encoder_key
from okralong.pipelines.models.weights import resolve_embedding_model


def encoder_at(folder: Path, weights: bytes) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    found = resolve_embedding_model(str(folder))
    assert found.name == "model"
    return encoder_key(found.name, found.sha256, 512, None, "float32", "auto")


def test_other_weights_under_one_name_are_another_encoder(tmp_path: Path) -> None:
    first = encoder_at(tmp_path / "one" / "model", b"a")
    assert encoder_at(tmp_path / "two" / "model", b"a") == first
    assert encoder_at(tmp_path / "two" / "model", b"b") != first
    assert encoder_at(tmp_path / "one" / "model", b"b") != first  # trained anew in its place
