"""Merging a LoRA adapter into a base model: into a GGUF file of Llama's architecture, or into a transformers folder.

Run as a module: ``merging (q8_0|transformers) BASE ADAPTER TARGET``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import gguf

from okralong.pipelines.models.gguf import rewrite_as_q8
from okralong.pipelines.models.lora import Matrix, read_lora

_NAMES: Final = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TENSOR: Final = re.compile(rf"blk\.(\d+)\.({'|'.join(_NAMES)})\.weight")


def module_of(tensor: str) -> str | None:
    """The transformers module of a GGUF tensor of Llama's architecture; None for one that no adapter changes."""
    found = _TENSOR.fullmatch(tensor)
    return f"model.layers.{found[1]}.{_NAMES[found[2]]}" if found else None


def shapes_in_gguf(file: Path) -> dict[str, tuple[int, ...]]:
    """The matrices that an adapter may change, by module, as (outputs, inputs)."""
    tensors = gguf.GGUFReader(file).tensors
    named = {module_of(tensor.name): tuple(int(size) for size in reversed(tensor.shape)) for tensor in tensors}
    return {name: shape for name, shape in named.items() if name is not None}


def rope_order(rows: Matrix, heads: int) -> Matrix:
    """The rows of a query or key matrix in llama.cpp's order.

    transformers rotates the first half of a head against its second half, llama.cpp's "llama" graphs rotate neighbours:
    the two rows of a pair are a half apart here and side by side there (``LlamaModel.permute`` in
    convert_hf_to_gguf.py).
    """
    outputs, inputs = rows.shape
    return rows.reshape(heads, 2, outputs // heads // 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


def merge_into_gguf(base: Path, adapter: Path, target: Path) -> None:
    """Write ``base`` with ``adapter`` added to its dequantised weights as the Q8_0 file ``target``."""
    parts = read_lora(adapter)
    reader = gguf.GGUFReader(base)
    heads = {
        "self_attn.q_proj": _size(reader, "llama.attention.head_count"),
        "self_attn.k_proj": _size(reader, "llama.attention.head_count_kv"),
    }

    def added(tensor: str) -> Matrix | None:
        name = module_of(tensor)
        if name is None or name not in parts:
            return None
        turned = heads.get(name.split(".", 3)[-1])
        delta = parts[name].delta()
        return delta if turned is None else rope_order(delta, turned)

    rewrite_as_q8(base, target, added)


def merge_into_folder(base: Path, adapter: Path, target: Path) -> None:
    """Write the folder ``base`` with ``adapter`` merged in float32 as bfloat16 into the new folder ``target``."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(base, local_files_only=True).save_pretrained(target)
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, local_files_only=True)
    merged: Any = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    merged.to(torch.bfloat16).save_pretrained(target)


def _size(reader: gguf.GGUFReader, key: str) -> int:
    field = reader.get_field(key)
    if field is None:
        raise ValueError(f"The GGUF file has no {key}, so it is of another architecture than Llama's.")
    return int(field.contents())


if __name__ == "__main__":
    merges = {"q8_0": merge_into_gguf, "transformers": merge_into_folder}
    merges[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
