"""Rewrites of a GGUF file: as a transformers folder, as a tokenizer alone, and as the same weights in Q8_0.

Reading GGUF with transformers takes a quarter of a minute each time, and llama.cpp reads Q8_0 prompts faster than Q4_1
ones on AVX2; each is worth doing once. Run as a module: ``gguf_files (transformers|tokenizer|q8_0) SOURCE TARGET``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import quants
from tokenizers import pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel, Digits

from okralong.pipelines.models.lora import Matrix

_SKIPPED = ("general.architecture", "general.file_type")
"""Keys that the writer sets itself, or that would no longer be true."""

_DIGIT_BY_DIGIT = ("smollm", "starcoder", "refact", "command-r")
"""What ``tokenizer.ggml.pre`` says of models that were trained on single digits, split off before GPT-2's pattern:
llama.cpp reads these four alike (llama-vocab.cpp)."""


def convert_to_transformers(source: Path, folder: Path) -> None:
    """Write ``source`` as bfloat16 safetensors with config, tokenizer and chat template into the new ``folder``."""
    import torch
    from transformers import AutoModelForCausalLM

    extract_tokenizer(source, folder)
    model: Any = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32, local_files_only=True
    )
    # The weights are plain now; left in place, these marks make save_pretrained look for a GGUF quantizer.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.is_quantized = False
    model.quantization_method = None
    model.hf_quantizer = None
    model.to(torch.bfloat16).save_pretrained(folder)


def extract_tokenizer(source: Path, folder: Path) -> None:
    """Write the vocabulary and chat template of ``source`` as tokenizer files into the new ``folder``."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
    kind = gguf.GGUFReader(source).get_field("tokenizer.ggml.pre")
    if kind is not None and kind.contents() in _DIGIT_BY_DIGIT:
        # transformers reads every GGUF of a byte-level vocabulary as GPT-2's, which keeps figures together.
        bytes_ = ByteLevel(add_prefix_space=False, use_regex=True)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([Digits(individual_digits=True), bytes_])
    tokenizer.save_pretrained(folder)


def rewrite_as_q8(source: Path, target: Path, added: Callable[[str], Matrix | None] | None = None) -> None:
    """Write ``source`` as the GGUF file ``target`` with every matrix in Q8_0 and every vector in float32.

    ``added(tensor name)`` is what is added to a matrix before it is quantised, None: nothing.
    """
    reader = gguf.GGUFReader(source)
    architecture = reader.get_field("general.architecture")
    if architecture is None:
        raise ValueError(f"{source} names no architecture, so it is no GGUF file of a language model")
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


if __name__ == "__main__":
    rewrites: dict[str, Callable[[Path, Path], None]] = {
        "transformers": convert_to_transformers,
        "tokenizer": extract_tokenizer,
        "q8_0": rewrite_as_q8,
    }
    rewrites[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
