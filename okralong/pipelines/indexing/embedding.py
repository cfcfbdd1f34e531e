"""Embed texts as unit vectors with a sentence encoder.

The encoder is any sentence-transformers folder or hub name. Its length limit is raised to the number of its positions,
because the usual default of 256 would silently drop the tail of a 400-token chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer

from okralong.pipelines.models.weights import INT8, loading, quantize, settle, usable_positions

Vectors = npt.NDArray[np.float32]

_PASSAGE_PROMPTS: Final = ("document", "passage", "corpus")
"""Names under which sentence-transformers stores the prompt for passages."""

CPU_TOKENS: Final = 2048
"""Tokens per pass on a CPU, including padding: with all-MiniLM-L6-v2 in float32, passes of 1,000 to 3,000 tokens were
10 to 15 % faster than those of 5,000 to 12,000, whose states exceed a core's caches. # project default"""


@dataclass(frozen=True, slots=True)
class Embedded:
    """``vectors`` are unit vectors, shape (n, dimension), float32; ``over_limit`` marks truncated texts."""

    vectors: Vectors
    over_limit: list[bool]


class SentenceEmbedder:
    """A loaded sentence encoder. ``dimension`` is the length of its vectors.

    ``limit`` is the number of tokens of a text, including special tokens, that the encoder sees: ``max_seq_length`` or
    the number of its positions, whichever is smaller.
    """

    def __init__(
        self,
        path: str,
        max_seq_length: int = 512,
        precision: str = "auto",
        batch_size: int = 32,
        device: str = "auto",
        threads: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
    ) -> None:
        """Load the model from a local folder or by hub name.

        Args:
            path: Folder or hub name.
            max_seq_length: Longest text in tokens.
            precision: "auto" is bfloat16 on a GPU and on a CPU that multiplies it, otherwise float32; "int8" is float32
                with int8 linear layers on a CPU, even if a GPU is visible.
            batch_size: Texts per pass.
            device: "auto", "cpu" or "cuda".
            threads: torch's CPU threads; None keeps them.
            query_prefix: Text before queries; None is the model's own prompt, if it has one.
            passage_prefix: Text before passages; None as above.

        Raises:
            ConfigError: The model cannot be loaded: there is no such name, no network, or no safetensors.
            ValueError: The precision is unknown, or int8 on a device other than a CPU.
        """
        quantized = precision == INT8
        if quantized and device not in ("auto", "cpu"):
            raise ValueError(f"precision int8 runs on a CPU, not on {device}")
        self.device, dtype = settle("cpu", "float32", threads) if quantized else settle(device, precision, threads)
        self.batch_size = batch_size
        self.precision = INT8 if quantized else str(dtype).removeprefix("torch.")
        with loading(
            f"The encoder {path}",
            "Give the folder of a model that was saved with save_pretrained (only safetensors are read), a name of the "
            "Hugging Face hub where it can be reached, or embedded.",
        ):
            self._model = SentenceTransformer(
                path,
                device=self.device,
                trust_remote_code=False,
                model_kwargs={"dtype": dtype, "use_safetensors": True},
            )
        if quantized:
            quantize(self._model)
        first_module: Any = self._model[0]
        self.limit = min(max_seq_length, usable_positions(first_module.auto_model.config, max_seq_length))
        self._model.max_seq_length = self.limit
        self.dimension = int(self._model.get_embedding_dimension() or 0)
        self._query_prefix = self._own_prompt("query") if query_prefix is None else query_prefix
        self._passage_prefix = self._own_prompt(*_PASSAGE_PROMPTS) if passage_prefix is None else passage_prefix
        self._most_tokens = CPU_TOKENS if self.device == "cpu" else batch_size * self.limit
        self.beside_tokens = self._plain_features()

    def encode(self, texts: list[str]) -> Vectors:
        """Return unit vectors of passages, shape (n, dimension), float32, in the given order.

        Text beyond ``limit`` does not affect its vector; see ``over_limit``.
        """
        return self.embed(texts).vectors

    def embed(self, texts: list[str], told: Callable[[Sequence[int]], None] = lambda _: None) -> Embedded:
        """Return the vectors of passages, and which texts exceed ``limit``.

        ``told`` gets the places in ``texts`` of each finished batch. Texts run in batches of similar length, which
        wastes little on padding, and are tokenized in parallel.
        """
        if self.beside_tokens is None:
            vectors = self._unit(self._model.encode_document, texts, self._passage_prefix)
            told(range(len(texts)))
            return Embedded(vectors, self.over_limit(texts))
        found = torch.empty((len(texts), self.dimension), dtype=torch.float32, device=self.device)
        over_limit = [False] * len(texts)
        with torch.inference_mode():
            for each in batches(texts, self._tokens, self.batch_size, self._most_tokens):
                padded = self._model.tokenizer.pad({"input_ids": [one.ids for one in each.tokens]}, return_tensors="pt")
                tensors = {name: tensor.to(self.device, non_blocking=True) for name, tensor in padded.items()}
                said = self._model({**self.beside_tokens, **tensors})["sentence_embedding"].to(torch.float32)
                found[each.places] = torch.nn.functional.normalize(said, dim=1)
                for place, one in zip(each.places, each.tokens, strict=True):
                    over_limit[place] = one.over_limit
                told(each.places)
        return Embedded(found.cpu().numpy(), over_limit)

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Return unit vectors of queries, which some encoders prompt differently."""
        return self._unit(self._model.encode_query, texts, self._query_prefix)

    def over_limit(self, texts: list[str]) -> list[bool]:
        """Return which texts exceed ``limit``, so that their vectors miss the tail."""
        if not texts:
            return []
        tokenizer: Any = self._model.tokenizer
        read = [self._passage_prefix + text for text in texts]
        found = tokenizer(read, truncation=False, padding=False, verbose=False, return_attention_mask=False)
        return [len(ids) > self.limit for ids in found["input_ids"]]

    def _unit(self, encode: Callable[..., Any], texts: list[str], prefix: str) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with torch.inference_mode():
            found = encode(
                texts, prompt=prefix, batch_size=self.batch_size, show_progress_bar=False, convert_to_tensor=True
            )
        unit = torch.nn.functional.normalize(found.to(torch.float32), dim=1)
        vectors: Vectors = unit.cpu().numpy().astype(np.float32, copy=False)
        return vectors

    def _tokens(self, texts: list[str]) -> list[Tokens]:
        """Tokenize texts."""
        read = [self._passage_prefix + text for text in texts]
        found = self._model.tokenizer(read, truncation=True, max_length=self.limit, verbose=False)
        return [
            Tokens(ids, bool(encoding.overflowing))
            for ids, encoding in zip(found["input_ids"], found.encodings, strict=True)
        ]

    def _plain_features(self) -> dict[str, Any] | None:
        """Return the encoder's inputs for this prefix in addition to tokens and mask, or None.

        None means that tokens do not determine the input (several input types, a special tokenizer); such a model
        embeds through its own ``encode``.
        """
        probe = ["A first text.", "Another, slightly longer one."]
        given = self._model.preprocess(probe, prompt=self._passage_prefix or None, task="document")
        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        own_length = getattr(self._model[0], "document_length", None) is not None
        if own_length or not getattr(self._model.tokenizer, "is_fast", False) or "input_ids" not in tensors:
            return None
        ours = self._model.tokenizer.pad({"input_ids": [cut.ids for cut in self._tokens(probe)]}, return_tensors="pt")
        extra = {"token_type_ids": torch.zeros_like(ours["input_ids"])} if "token_type_ids" in tensors else {}
        same = {**ours, **extra}
        if same.keys() != tensors.keys() or any(not torch.equal(same[name], tensors[name]) for name in tensors):
            return None
        return {name: value for name, value in given.items() if name not in tensors}

    def _own_prompt(self, *names: str) -> str:
        prompts = (self._model.prompts.get(name) for name in names)
        return next((prompt for prompt in prompts if prompt), "")


# Batches of similar length, so that the encoder never waits and pads little. Texts are tokenized block by block in a
# parallel thread and sorted by tokens within a block; characters are a poor measure for tables.

FIRST_BLOCK: Final = 256
"""Texts tokenized before the first batch: some hundredths of a second. # project default"""

BLOCK: Final = 4096
"""Texts per further block; larger blocks sort no better and take memory for tokens. # project default"""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as token ids, truncated to the encoder's limit; ``over_limit`` means that it was truncated."""

    ids: list[int]
    over_limit: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts of one forward pass, longest first. ``places`` are their positions among all texts."""

    places: list[int]
    tokens: list[Tokens]


def batches(
    texts: Sequence[str], tokenize: Callable[[list[str]], list[Tokens]], most_texts: int, most_tokens: int
) -> Iterator[Batch]:
    """Yield all texts in batches of at most ``most_texts`` texts and ``most_tokens`` padded tokens, or one text."""
    for start, block in _tokenized_ahead(texts, tokenize):
        for places in grouped([len(each.ids) for each in block], most_texts, most_tokens):
            yield Batch([start + place for place in places], [block[place] for place in places])


def grouped(lengths: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of ``lengths`` in groups that fit, longest first, so that lack of memory shows at once."""
    group: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        if group and (len(group) == most_texts or (len(group) + 1) * lengths[group[0]] > most_tokens):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _tokenized_ahead(
    texts: Sequence[str], tokenize: Callable[[list[str]], list[Tokens]]
) -> Iterator[tuple[int, list[Tokens]]]:
    """Yield the start of each block and its tokens, while the next block is tokenized."""
    if not texts:
        return
    starts = [0, *range(FIRST_BLOCK, len(texts), BLOCK)]
    blocks = [list(texts[start:end]) for start, end in zip(starts, [*starts[1:], len(texts)], strict=True)]
    with ThreadPoolExecutor(1) as thread:
        ahead = [thread.submit(tokenize, block) for block in blocks[:1]]
        for number, start in enumerate(starts):
            tokens = ahead.pop().result()
            ahead = [thread.submit(tokenize, block) for block in blocks[number + 1 : number + 2]]
            yield start, tokens
