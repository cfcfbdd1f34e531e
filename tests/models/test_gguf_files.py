"""Rewriting a GGUF file keeps its weights and its keys."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, quants

from okralong.pipelines.models.rewrite import rewrite_as_q8

WORDS = ["<unk>", "revenue", "rose", "é"]


def small_gguf(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    random = np.random.default_rng(5)
    weights = {
        "token_embd.weight": random.normal(size=(4, 64)).astype(np.float32),
        "blk.0.attn_q.weight": random.normal(size=(64, 96)).astype(np.float32),
    }
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_token_list(WORDS)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    for name, matrix in weights.items():
        kind = GGMLQuantizationType.Q4_1
        writer.add_tensor(name, quants.quantize(matrix, kind), raw_dtype=kind)
    weights["output_norm.weight"] = random.normal(size=64).astype(np.float32)
    writer.add_tensor("output_norm.weight", weights["output_norm.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def test_q8_holds_the_same_weights_and_keys(tmp_path: Path) -> None:
    weights = small_gguf(tmp_path / "old.gguf")
    rewrite_as_q8(tmp_path / "old.gguf", tmp_path / "new.gguf")
    old, new = gguf.GGUFReader(tmp_path / "old.gguf"), gguf.GGUFReader(tmp_path / "new.gguf")
    assert new.get_field("llama.context_length").contents() == 128
    assert new.get_field("tokenizer.ggml.tokens").contents() == WORDS
    assert new.get_field("general.file_type").contents() == gguf.LlamaFileType.MOSTLY_Q8_0
    assert [tensor.name for tensor in new.tensors] == [tensor.name for tensor in old.tensors]
    for before, after in zip(old.tensors, new.tensors, strict=True):
        was = quants.dequantize(before.data, before.tensor_type).reshape(weights[before.name].shape)
        now = quants.dequantize(after.data, after.tensor_type).reshape(weights[after.name].shape)
        matrix = after.name != "output_norm.weight"
        assert after.tensor_type == (GGMLQuantizationType.Q8_0 if matrix else GGMLQuantizationType.F32)
        # Q8_0 keeps 127 steps of the largest weight in a block of 32; vectors stay as they are.
        assert np.abs(was - now).max() <= (np.abs(was).max() / 127 if matrix else 0)
