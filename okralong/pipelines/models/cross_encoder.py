"""A cross-encoder: it reads a query and a passage together and says how relevant the passage is.

Two kinds, behind one class. Ours, which `okralong train` makes: a sentence encoder whose upper blocks were trained,
with three heads: relevance, where the answer stands (its first and last token), and whether the passage holds the
answer. And any sentence-transformers cross-encoder (a folder or hub name), which knows relevance alone. Runs without
Ray.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from okralong.pipelines.core.types import ConfigError, Reading
from okralong.pipelines.models.weights import CROSS_ENCODER, INT8, quantize, resolve_embedding_model, settle

WEIGHTS: Final = "cross_encoder.safetensors"

LONGEST_QUERY: Final = 96
"""Tokens of a query that are read; ours. Longer ones are cut at their end."""

LONGEST_ANSWER: Final = 40
"""Tokens of a span that is taken for an answer; ours. Longer answers are nobody's look-up."""


@dataclass(frozen=True, slots=True)
class CrossEncoderShape:
    """What a trained cross-encoder is built on: ``encoder`` is "embedded", a folder or a hub name, ``sha256`` that of
    its weights. Blocks before ``first_block`` are the encoder's own. ``max_tokens`` are those of query and passage
    together that it learned on; it reads as many as the encoder has positions. The calibrated probability of
    ``answerable`` is sigmoid(``scale`` * logit + ``shift``).
    """

    encoder: str
    sha256: str | None
    first_block: int
    max_tokens: int
    scale: float = 1.0
    shift: float = 0.0


class CrossEncoderModel(nn.Module):
    """The encoder with three heads: over each pair's vector relevance and answerable, over each token start and end."""

    def __init__(self, encoder: Any, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        width = int(encoder.config.hidden_size)
        self.heads = nn.ModuleDict(
            {
                "pooled": nn.Sequential(nn.Dropout(dropout), nn.Linear(2 * width, width), nn.GELU()),
                "pair": nn.Linear(width, 2),
                "span": nn.Linear(width, 2),
            }
        )

    def forward(self, tokens: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Relevance (n,), answerable (n,) and the logits of start and end (n, tokens, 2), in float32."""
        states = self.encoder(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
        pair = self.heads["pair"](self.heads["pooled"](torch.cat([states[:, 0], mean], dim=1))).float()
        return pair[:, 0], pair[:, 1], self.heads["span"](states).float()

    def learned(self, first_block: int) -> dict[str, Tensor]:
        """The parameters that a training changes: the encoder's blocks from ``first_block`` on, and the heads."""
        return learned_of(self, first_block)


def learned_of(model: nn.Module, first_block: int) -> dict[str, Tensor]:
    """Of an encoder with ``heads`` the parameters of its blocks from ``first_block`` on, and the heads'."""
    return {
        name: value
        for name, value in model.named_parameters()
        if name.startswith("heads.") or (".layer." in name and _block(name) >= first_block)
    }


def _block(name: str) -> int:
    return int(name.split(".layer.")[1].split(".")[0])


def write_learned(file: Path, learned: Mapping[str, Tensor]) -> None:
    """Write parameters in float16, to halve their size."""
    save_file({name: v.detach().cpu().to(torch.float16).contiguous() for name, v in learned.items()}, file)


def read_learned(file: Path, model: nn.Module, learned: Collection[str]) -> None:
    """Put what ``write_learned`` wrote into ``model``, whose parameters ``learned`` they must be.

    Raises ConfigError when the file cannot be read or is of another model.
    """
    try:
        kept = {name: value.float() for name, value in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{file} cannot be read: {error}. Train it again or copy it again.") from error
    if missing := set(learned) ^ kept.keys():
        raise ConfigError(f"{file} is not of this model: {sorted(missing)[:3]} ... do not fit.")
    model.load_state_dict(kept, strict=False)


def tokens_of(
    tokenizer: Any, queries: Sequence[str], passages: Sequence[str], max_tokens: int, offsets: bool = False
) -> Any:
    """Pairs as tokens, padded to the longest: the query cut to ``LONGEST_QUERY``, the passage to what is left.

    The result is the tokenizer's own; with ``sequence_ids`` and ``token_to_chars`` spans are found in the passage, and
    with ``offset_mapping`` too, which takes the tokenizer longer and is there with ``offsets`` alone.
    """
    asked = list(dict.fromkeys(queries))  # candidates share their query
    cut = tokenizer(
        asked,
        add_special_tokens=False,
        truncation=True,
        max_length=LONGEST_QUERY,
        return_offsets_mapping=True,
        verbose=False,
    )
    places = zip(asked, cut["offset_mapping"], strict=True)
    short = {query: query[: found[-1][1]] if found else query for query, found in places}
    return tokenizer(
        [short[query] for query in queries],
        list(passages),
        padding=True,
        truncation="only_second",
        max_length=max_tokens,
        return_offsets_mapping=offsets,
        return_tensors="pt",
    )


def save_cross_encoder(folder: Path, model: CrossEncoderModel, shape: CrossEncoderShape) -> None:
    """Write description and learned weights."""
    folder.mkdir(parents=True, exist_ok=True)
    write_learned(folder / WEIGHTS, model.learned(shape.first_block))
    write_shape(folder, shape)


def write_shape(folder: Path, shape: CrossEncoderShape) -> None:
    """Write the description alone, when only the calibration is new."""
    (folder / CROSS_ENCODER).write_text(json.dumps(asdict(shape), indent=2) + "\n", encoding="utf-8")


def read_shape(folder: Path) -> CrossEncoderShape:
    """What ``write_shape`` wrote. Raises ConfigError when there is none, or one of another okralong."""
    try:
        return CrossEncoderShape(**json.loads((folder / CROSS_ENCODER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{folder} holds no cross-encoder that this okralong can read: {error}. Name a folder that `okralong "
            "train` wrote, or a sentence-transformers cross-encoder, under reranker.model."
        ) from error


def load_learned(folder: Path, model: CrossEncoderModel, sha256: str | None) -> None:
    """Put what ``save_cross_encoder`` wrote into ``model``, whose encoder's weights are those of ``sha256``.

    Raises ConfigError when they are of another model, or cannot be read.
    """
    shape = read_shape(folder)
    if sha256 and shape.sha256 and sha256 != shape.sha256:
        raise ConfigError(
            f"The cross-encoder in {folder} was trained on other weights of {shape.encoder!r} (sha256 "
            f"{shape.sha256}) than those at hand ({sha256}). Train it again with `okralong train`."
        )
    read_learned(folder / WEIGHTS, model, model.learned(shape.first_block).keys())


class CrossEncoder:
    """Make one with ``load``. Not safe for use by two threads at once."""

    def __init__(self, name: str, model: Any, tokenizer: Any, max_tokens: int, shape: CrossEncoderShape | None) -> None:
        self.name = name
        self._model = model
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._shape = shape

    @classmethod
    def load(
        cls, folder: str | Path, precision: str = "auto", device: str = "auto", threads: int | None = None
    ) -> CrossEncoder:
        """Ours from the folder that `okralong train` wrote, or a sentence-transformers one from a folder or hub name.

        ``precision`` is auto, bfloat16, float32 or int8. Raises ConfigError when it cannot be loaded or its encoder's
        weights are others than those it was trained on.
        """
        # PyTorch has kernels for int8 on processors alone.
        quantized = precision == INT8
        target, dtype = settle("cpu" if quantized else device, "float32" if quantized else precision, threads)
        own = (Path(folder) / CROSS_ENCODER).is_file()
        loaded = cls._own(Path(folder), target) if own else cls._foreign(str(folder), target)
        if quantized:
            quantize(loaded._model)
        else:
            loaded._model.to(dtype)
        return loaded

    @classmethod
    def _own(cls, folder: Path, target: str) -> CrossEncoder:
        shape = read_shape(folder)
        base = resolve_embedding_model(shape.encoder)
        model = CrossEncoderModel(AutoModel.from_pretrained(base.path, dtype=torch.float32, use_safetensors=True))
        load_learned(folder, model, base.sha256)
        tokenizer: Any = AutoTokenizer.from_pretrained(base.path)
        positions = int(model.encoder.config.max_position_embeddings)
        return cls(f"cross-encoder:{folder.name}", model.to(target).eval(), tokenizer, positions, shape)

    @classmethod
    def _foreign(cls, name: str, target: str) -> CrossEncoder:
        try:
            model: Any = AutoModelForSequenceClassification.from_pretrained(
                name, dtype=torch.float32, use_safetensors=True
            )
            tokenizer: Any = AutoTokenizer.from_pretrained(name)
            config: Any = AutoConfig.from_pretrained(name)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The reranker {name!r} cannot be loaded: {error}. Give a folder that `okralong train` wrote, the "
                "folder or hub name of a sentence-transformers cross-encoder, or shipped."
            ) from error
        if config.num_labels != 1:
            raise ConfigError(
                f"The model {name!r} has {config.num_labels} outputs, and a reranker has one: the relevance of a "
                "passage. Give a sentence-transformers cross-encoder with num_labels 1."
            )
        # RoBERTa counts positions from its padding's number on, and has two more than it can use.
        positions = int(getattr(config, "max_position_embeddings", 512))
        usable = positions - (2 if config.model_type in ("roberta", "xlm-roberta", "camembert") else 0)
        longest = min(usable, int(tokenizer.model_max_length), 1024)
        return cls(f"cross-encoder:{Path(name).name}", model.to(target).eval(), tokenizer, longest, None)

    @property
    def reads_spans(self) -> bool:
        """Whether it says where the answer stands and whether it is there."""
        return self._shape is not None

    def read_each(self, asked: Sequence[tuple[str, list[str]]], max_batch: int = 64) -> list[list[Reading]]:
        """The readings of several queries, each with its passages.

        On a processor each query is read by itself: its candidates fill it, and a reading in bfloat16 depends on what
        shares its pass, so that the same question would be ranked otherwise beside others. On a GPU all are read
        together.
        """
        if next(self._model.parameters()).device.type == "cpu":
            return [self.read([query] * len(passages), passages, max_batch) for query, passages in asked]
        queries = [query for query, passages in asked for _ in passages]
        found = iter(self.read(queries, [passage for _, passages in asked for passage in passages], max_batch))
        return [[next(found) for _ in passages] for _, passages in asked]

    def read(self, queries: Sequence[str], passages: Sequence[str], max_batch: int = 64) -> list[Reading]:
        """A reading of each pair, in the order given; pairs of like length share a pass."""
        order = sorted(range(len(passages)), key=lambda n: len(queries[n]) + len(passages[n]))
        found: dict[int, Reading] = {}
        for at in range(0, len(order), max_batch):
            part = order[at : at + max_batch]
            read = self._pass([queries[n] for n in part], [passages[n] for n in part])
            found.update(zip(part, read, strict=True))
        return [found[n] for n in range(len(passages))]

    def _pass(self, queries: list[str], passages: list[str]) -> list[Reading]:
        encoded = tokens_of(self._tokenizer, queries, passages, self._max_tokens)
        with torch.inference_mode():
            device = next(iter(self._model.parameters())).device
            tokens = {name: values.to(device) for name, values in encoded.items()}
            if self._shape is None:
                logits = self._model(**tokens).logits.float()[:, 0]
                return [Reading(float(value)) for value in logits]
            relevance, answerable, spans = self._model(tokens)
            sure = torch.sigmoid(answerable * self._shape.scale + self._shape.shift)
            inside = passage_mask(encoded, len(passages)).to(device)
            starts, ends, share = best_spans(spans, inside)
        rows = zip(relevance.tolist(), sure.tolist(), starts.tolist(), ends.tolist(), share.tolist(), strict=True)
        return [
            Reading(score, held, *_characters(encoded, n, first, last), span)
            for n, (score, held, first, last, span) in enumerate(rows)
        ]


def _characters(encoded: Any, row: int, first: int, last: int) -> tuple[int, int]:
    """Where the tokens ``first`` to ``last`` of a row stand in its passage; (0, 0) for one without tokens."""
    start, end = encoded.token_to_chars(row, first), encoded.token_to_chars(row, last)
    return (start.start, end.end) if start is not None and end is not None else (0, 0)


def passage_mask(encoded: Any, count: int) -> Tensor:
    """Which tokens belong to the passage, (n, tokens); where a passage has none, the first token stands for it."""
    mask = torch.zeros(encoded["input_ids"].shape, dtype=torch.bool)
    for row in range(count):
        ids = encoded.sequence_ids(row)
        # A passage's tokens stand together.
        size = ids.count(1)
        first = ids.index(1) if size else 0
        mask[row, first : first + max(size, 1)] = True
    return mask


def best_spans(logits: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First and last token of the most probable span of each row and its probability; all (n,).

    ``logits`` is (n, tokens, 2), ``inside`` (n, tokens) says which tokens may be part of one.
    """
    masked = logits.masked_fill(~inside.unsqueeze(-1), float("-inf"))
    start, end = masked.log_softmax(dim=1).unbind(dim=-1)
    # (n, tokens, LONGEST_ANSWER): each first token with the last ones that a span may have.
    ends = nn.functional.pad(end, (0, LONGEST_ANSWER - 1), value=float("-inf")).unfold(1, LONGEST_ANSWER, 1)
    joint = (start.unsqueeze(2) + ends).flatten(1)
    best, place = joint.max(dim=1)
    first = place // LONGEST_ANSWER
    # Among all spans that may be one, so that the share is that of a choice.
    return first, first + place % LONGEST_ANSWER, (best - joint.logsumexp(dim=1)).exp()
