"""The number format follows the device and the processor."""

from __future__ import annotations

import pytest
import torch

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
