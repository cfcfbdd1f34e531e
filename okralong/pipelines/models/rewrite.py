"""Rewrite model files: GGUF as a transformers folder, a tokenizer or Q8_0, and models with adapters merged in.

Both are worth doing once: reading GGUF with transformers takes 15 s each time, and llama.cpp reads prompts faster in
Q8_0 than in Q4_1 on AVX2. Run as a module, because it briefly takes gigabytes: ``rewrite (transformers|tokenizer|q8_0)
SOURCE TARGET`` or ``rewrite (merge-q8_0|merge-transformers) BASE ADAPTER TARGET``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np
from gguf import quants
from tokenizers import pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel, Digits

from okralong.pipelines.models.lora import Matrix, read_lora
from okralong.pipelines.models.weights import SAFE, merged

_SKIPPED = ("general.architecture", "general.file_type")
"""Keys that the writer sets itself, or that would become wrong."""

_DIGIT_BY_DIGIT = ("smollm", "starcoder", "refact", "command-r")
"""Values of ``tokenizer.ggml.pre`` for models trained on single digits, split off before GPT-2's pattern; llama.cpp
treats these four alike (llama-vocab.cpp)."""


def convert_to_transformers(source: Path, folder: Path) -> None:
    """Write ``source`` as bfloat16 safetensors with config, tokenizer and chat template into the new ``folder``."""
    import torch
    from transformers import AutoModelForCausalLM

    extract_tokenizer(source, folder)
    model: Any = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32, local_files_only=True, trust_remote_code=False
    )
    # The weights are plain now, but these attributes would make save_pretrained look for a GGUF quantizer.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.is_quantized = False
    model.quantization_method = None
    model.hf_quantizer = None
    model.to(torch.bfloat16).save_pretrained(folder)


def extract_tokenizer(source: Path, folder: Path) -> None:
    """Write the vocabulary and chat template of ``source`` as tokenizer files into the new ``folder``."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(
        source.parent, gguf_file=source.name, local_files_only=True, trust_remote_code=False
    )
    kind = gguf.GGUFReader(source).get_field("tokenizer.ggml.pre")
    if kind is not None and kind.contents() in _DIGIT_BY_DIGIT:
        # transformers treats every byte-level GGUF vocabulary as GPT-2's, which does not split figures.
        bytes_ = ByteLevel(add_prefix_space=False, use_regex=True)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([Digits(individual_digits=True), bytes_])
    tokenizer.save_pretrained(folder)


def rewrite_as_q8(source: Path, target: Path, added: Callable[[str], Matrix | None] | None = None) -> None:
    """Write ``source`` to the GGUF file ``target`` with every matrix in Q8_0 and every vector in float32.

    ``added(tensor name)`` returns what to add to a matrix before it is quantized, or None.
    """
    reader = gguf.GGUFReader(source)
    architecture = reader.get_field("general.architecture")
    if architecture is None:
        raise ValueError(f"{source} names no architecture, so it is not the GGUF file of a language model")
    writer = gguf.GGUFWriter(target, architecture.contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in _SKIPPED:
            continue
        sub_type = field.types[-1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        plain = quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float32)
        if plain.ndim == 1:
            writer.add_tensor(tensor.name, plain)
        else:
            delta = added(tensor.name) if added else None
            if delta is not None:
                plain = plain + delta
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(tensor.name, quants.quantize(plain, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Merging.

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
    """Return the transformers module of a GGUF tensor of Llama's architecture, or None if no adapter changes it."""
    found = _TENSOR.fullmatch(tensor)
    return f"model.layers.{found[1]}.{_NAMES[found[2]]}" if found else None


def shapes_in_gguf(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes (outputs, inputs) of the matrices that an adapter may change, by module."""
    tensors = gguf.GGUFReader(file).tensors
    named = {module_of(tensor.name): tuple(int(size) for size in reversed(tensor.shape)) for tensor in tensors}
    return {name: shape for name, shape in named.items() if name is not None}


def rope_order(rows: Matrix, heads: int) -> Matrix:
    """Return the rows of a query or key matrix in llama.cpp's order.

    transformers rotates the first half of a head against its second half, llama.cpp's "llama" graphs rotate neighbors.
    So the two rows of a pair are half a head apart in the former and adjacent in the latter (``LlamaModel.permute`` in
    convert_hf_to_gguf.py).
    """
    outputs, inputs = rows.shape
    return rows.reshape(heads, 2, outputs // heads // 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


def merge_into_gguf(base: Path, adapter: Path, target: Path) -> None:
    """Write ``base`` with ``adapter`` added to its dequantized weights to the Q8_0 file ``target``."""
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
    """Write the folder ``base`` with ``adapter`` merged in float32 to the new folder ``target``, in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(base, local_files_only=True, trust_remote_code=False).save_pretrained(target)
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, local_files_only=True, **SAFE)
    merged(model, adapter).to(torch.bfloat16).save_pretrained(target)


def _size(reader: gguf.GGUFReader, key: str) -> int:
    field = reader.get_field(key)
    if field is None:
        raise ValueError(f"The GGUF file has no {key}, so it is of another architecture than Llama's.")
    return int(field.contents())


if __name__ == "__main__":
    rewrites: dict[str, Callable[..., None]] = {
        "transformers": convert_to_transformers,
        "tokenizer": extract_tokenizer,
        "q8_0": rewrite_as_q8,
        "merge-q8_0": merge_into_gguf,
        "merge-transformers": merge_into_folder,
    }
    rewrites[sys.argv[1]](*map(Path, sys.argv[2:]))
