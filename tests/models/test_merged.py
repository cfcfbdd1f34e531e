"""Merging: PEFT's own sum for a folder, and a clear word for an adapter that cannot be merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.lora import read_lora
from okralong.pipelines.models.merged_model import merged_gguf, merged_model
from tests.fakes.random_reader import write_random_reader
from tests.fakes.tiny_llama import write_tiny_llama


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"), 64)


@pytest.fixture
def adapter(tiny: Path, tmp_path: Path) -> Path:
    return write_random_reader(tmp_path / "adapter", tiny, layers=[1])


def altered(adapter: Path, **change: Any) -> Path:
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return adapter


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model.eval()(torch.arange(5, 25)[None]).logits
        return found


@pytest.mark.parametrize("rslora", [False, True])
def test_parts_are_what_peft_adds(tiny: Path, tmp_path: Path, rslora: bool) -> None:
    folder = write_random_reader(tmp_path / "adapter", tiny, layers=[1], use_rslora=rslora)
    parts = read_lora(folder)
    assert len(parts) == 7
    base: Any = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    before = {name: base.get_submodule(name).weight.detach().clone() for name in parts}
    merged: Any = PeftModel.from_pretrained(base, str(folder)).merge_and_unload()
    for name, part in parts.items():
        added = merged.get_submodule(name).weight.detach() - before[name]
        assert part.shape == tuple(added.shape)
        torch.testing.assert_close(torch.from_numpy(part.delta()), added, atol=1e-5, rtol=1e-4)


def test_a_folder_is_merged_once_with_its_tokenizer(
    tiny: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKRALONG_CACHE", str(tmp_path / "cache"))
    made = merged_model(adapter, str(tiny))
    assert merged_model(adapter, str(tiny)) == made
    assert AutoTokenizer.from_pretrained(made).chat_template
    base: Any = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    bare = logits(base)
    wanted = logits(PeftModel.from_pretrained(base, str(adapter)).merge_and_unload())
    kept: Any = AutoModelForCausalLM.from_pretrained(made)
    assert kept.dtype == torch.bfloat16
    seen = logits(kept.float())
    assert (seen - wanted).abs().mean() < 0.05 * (bare - wanted).abs().mean()
    altered(adapter, lora_alpha=16)
    assert merged_model(adapter, str(tiny)) != made


def test_an_adapter_of_another_model_is_refused(tiny: Path, adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"adapter changes model\.layers\.1\.\S+ of .* and the embedded model has"):
        merged_gguf(adapter)
    shallow = write_tiny_llama(tmp_path / "shallow", 64, layers=1)
    with pytest.raises(ConfigError, match="has no such matrix, so it cannot be merged"):
        merged_model(adapter, str(shallow))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"use_dora": True}, "more than plain LoRA .*use_dora: True"),
        ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        ({"r": 8}, "no two matrices of rank 8"),
    ],
)
def test_what_a_merge_would_get_wrong_is_refused(adapter: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_lora(altered(adapter, **change))


def test_a_broken_file_is_named(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").write_bytes(b"half a file")
    with pytest.raises(ConfigError, match=r"The adapter \S+ cannot be read: .*Copy it again completely"):
        read_lora(adapter)
