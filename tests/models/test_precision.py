"""The number format follows the device and the processor."""

from __future__ import annotations

import pytest
import torch

from okralong.pipelines.models.serving import choose
from okralong.pipelines.models.weights import available_cores, cpu_precision, device, dtype_for, multiplies_bfloat16


def test_processor_decides() -> None:
    assert cpu_precision() == ("bfloat16" if multiplies_bfloat16() else "float32")
    assert dtype_for("cpu") == (torch.bfloat16 if multiplies_bfloat16() else torch.float32)
    assert device() == ("cuda" if torch.cuda.is_available() else "cpu")
    assert available_cores() >= 1


def test_named_precision_wins() -> None:
    assert dtype_for("cuda") == torch.bfloat16
    assert dtype_for("cuda", "float32") == torch.float32
    with pytest.raises(ValueError, match="int8"):
        dtype_for("cpu", "int8")


@pytest.mark.parametrize(
    ("instructions", "engine"),
    [
        (set(), "llama.cpp"),
        ({"avx512_vnni"}, "llama.cpp"),
        ({"avx512_bf16"}, "transformers"),
        ({"amx_bf16"}, "transformers"),
    ],
)
def test_the_embedded_generator_runs_in_bfloat16_where_the_processor_multiplies_it(
    instructions: set[str], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = torch.cpu.get_capabilities()
    changed = {**seen, "avx512_bf16": False, "amx_bf16": False, **dict.fromkeys(instructions, True)}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: changed)
    served = choose("embedded", "auto", parallel=1, window=512)
    assert served.engine == engine
    assert served.identity.endswith(":q8_0" if engine == "llama.cpp" else ":bfloat16")
    assert multiplies_bfloat16() == (engine == "transformers")
