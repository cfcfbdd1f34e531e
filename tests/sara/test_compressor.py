"""The compressor: its shapes and sizes, and the two files that it is kept in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.sara.artifact import DESCRIPTION, WEIGHTS, Shape, read_shape
from okralong.pipelines.sara.compressor import Compressor, token_scale

SHAPE = Shape(inputs=6, width=16, hidden=8)


def seeded(shape: Shape = SHAPE, scale: float = 1.0) -> Compressor:
    torch.manual_seed(3)
    return Compressor(shape, scale)


@pytest.mark.parametrize("count", [1, 3])
def test_each_chunk_becomes_its_vectors_whatever_stands_before(count: int) -> None:
    compressor = seeded(replace(SHAPE, vectors_per_chunk=count))
    assert compressor(torch.randn(6)).shape == (count, 8)
    many = torch.randn(2, 5, 6)
    found = compressor(many)
    assert found.shape == (2, 5, count, 8)
    torch.testing.assert_close(found[1, 4], compressor(many[1, 4]))
    pooled = compressor.pooled(many)
    assert pooled.shape == (2, 5, 8)
    torch.testing.assert_close(pooled.norm(dim=-1), torch.ones(2, 5))


def test_new_vectors_are_as_large_as_the_generators_tokens() -> None:
    embedding = torch.randn(1000, 8) * 0.13
    scale = token_scale(embedding)
    assert scale == pytest.approx(0.13, rel=0.05)
    found = seeded(scale=scale)(torch.randn(40, 6))
    assert float(found.detach().square().mean().sqrt()) == pytest.approx(scale, rel=1e-3)


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    first = seeded(replace(SHAPE, vectors_per_chunk=2, encoder_sha256="ab"))
    fingerprint = first.save(tmp_path)
    again = Compressor.load(tmp_path)
    assert (again.fingerprint, again.shape) == (fingerprint, first.shape)
    assert read_shape(tmp_path) == (first.shape, fingerprint)
    assert not any(each.requires_grad for each in again.parameters())
    given = torch.randn(4, 6)
    torch.testing.assert_close(again(given), first(given).detach(), rtol=5e-3, atol=5e-3)  # kept in float16
    assert again.save(tmp_path / "copy") == fingerprint
    torch.testing.assert_close(Compressor.load(tmp_path / "copy")(given), again(given), rtol=0, atol=0)


def test_a_fingerprint_is_of_weights_and_purpose(tmp_path: Path) -> None:
    first = seeded()
    prints = {first.save(tmp_path / "a"), first.save(tmp_path / "b")}
    assert len(prints) == 1
    with torch.no_grad():
        first.outer.bias[0] += 0.5
    prints |= {first.save(tmp_path / "c"), seeded(replace(SHAPE, chunk_tokens=128)).save(tmp_path / "d")}
    assert len(prints) == 3


def test_damaged_altered_and_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no compressor\.json.*train-sara"):
        Compressor.load(tmp_path)
    seeded().save(tmp_path)
    whole = (tmp_path / WEIGHTS).read_bytes()
    (tmp_path / WEIGHTS).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ConfigError, match="fingerprint"):
        Compressor.load(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(whole[:40])
    with pytest.raises(ConfigError, match="cannot be read"):
        Compressor.load(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(whole)
    said = json.loads((tmp_path / DESCRIPTION).read_text())
    (tmp_path / DESCRIPTION).write_text(json.dumps({**said, "chunk_tokens": 100}))
    with pytest.raises(ConfigError, match="fingerprint"):
        Compressor.load(tmp_path)
    (tmp_path / DESCRIPTION).write_text(json.dumps({**said, "pickle": "x"}))
    with pytest.raises(ConfigError, match="pickle is not a known key"):
        Compressor.load(tmp_path)
