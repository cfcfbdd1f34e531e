"""The number format follows the device and the processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from okralong.lab.training.learners import fit
from okralong.lab.training.recipe import Recipe
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models import serving, weights
from okralong.pipelines.models.weights import ResolvedModel, available_cores, cpu_precision, device, dtype_for


@pytest.mark.parametrize("is_fast", [True, False])
def test_processor_decides(is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "multiplies_bfloat16", lambda: is_fast)
    assert cpu_precision() == ("bfloat16" if is_fast else "float32")
    assert dtype_for("cpu") == (torch.bfloat16 if is_fast else torch.float32)
    assert device() == ("cuda" if torch.cuda.is_available() else "cpu")
    assert available_cores() >= 1


def test_named_precision_wins() -> None:
    assert dtype_for("cuda") == torch.bfloat16
    assert dtype_for("cuda", "float32") == torch.float32
    with pytest.raises(ValueError, match="int8"):
        dtype_for("cpu", "int8")


@pytest.mark.parametrize(
    ("machine", "installed", "engine"),
    [("x86_64", True, "openvino"), ("x86_64", False, "llama.cpp"), ("aarch64", True, "llama.cpp")],
)
def test_the_machine_decides_which_engine_serves_the_embedded_generator(
    machine: str, installed: bool, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving.platform, "machine", lambda: machine)
    monkeypatch.setattr(serving, "find_spec", lambda name: object() if installed else None)
    served = serving.choose("embedded", "auto", parallel=1, window=512)
    assert served.engine == engine
    assert served.identity.startswith(f"{engine}:")
    assert served.identity.endswith(":q8_0")


def test_a_folder_of_safetensors_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"convert_hf_to_gguf\.py, or name your own endpoint"):
        serving.choose(str(tmp_path), "auto", parallel=1, window=512)


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_training_is_in_the_precision_of_its_recipe_on_any_processor(
    is_fast: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken: list[torch.dtype] = []

    class Definition:
        def learner(self, *given: Any) -> Any:
            taken.append(given[-1])

    monkeypatch.setattr(weights, "multiplies_bfloat16", lambda: is_fast)
    monkeypatch.setattr(fit, "definition_of", lambda _: Definition())
    monkeypatch.setattr(fit, "fit", lambda *_: [])
    for given in ({}, {"precision": "float32"}, {"precision": "bfloat16"}):
        recipe = Recipe.model_validate({"kind": "heads"} | given)
        fit.fit_recipe(recipe, [], [], ResolvedModel(str(tmp_path), "model", None), tmp_path)
    assert taken == [torch.float32, torch.float32, torch.bfloat16]
