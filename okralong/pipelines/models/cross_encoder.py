"""A cross-encoder reads a query and a passage together and scores the relevance of the passage.

One class runs two kinds: the cross-encoders that `okralong train` makes, a sentence encoder whose upper blocks were
trained with three heads (relevance, first and last token of the answer, answerability), and any sentence-transformers
cross-encoder (a folder or hub name), which only scores relevance.
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
from okralong.pipelines.models.weights import (
    CROSS_ENCODER,
    INT8,
    SAFE,
    loading,
    quantize,
    resolve_embedding_model,
    settle,
    usable_positions,
)

WEIGHTS: Final = "cross_encoder.safetensors"

LONGEST_QUERY: Final = 96
"""Tokens of a query; longer queries are truncated. # project default"""

LONGEST_ANSWER: Final = 40
"""Tokens of an answer span; longer answers are not extracted. # project default"""

OTHER_SPANS: Final = 3
"""Spans of a passage besides the most probable one, for questions whose kind of answer that one is not.
# project default"""

LEAST_PROBABILITY: Final = 0.001
"""Least probability of such a span. # project default"""


@dataclass(frozen=True, slots=True)
class CrossEncoderShape:
    """Description of a trained cross-encoder.

    ``encoder`` is "embedded", a folder or a hub name, ``sha256`` the hash of its weights. Blocks before ``first_block``
    are unchanged. ``max_tokens`` is the length of query and passage together in training; at inference it is the
    encoder's number of positions. The calibrated probability of ``answerable`` is sigmoid(``scale`` * logit +
    ``shift``).
    """

    encoder: str
    sha256: str | None
    first_block: int
    max_tokens: int
    scale: float = 1.0
    shift: float = 0.0


class CrossEncoderModel(nn.Module):
    """The encoder with four heads: relevance and answerability of a pair, start and end of the answer per token."""

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
        """Return relevance (n,), answerable (n,) and the logits of start and end (n, tokens, 2), in float32."""
        states = self.encoder(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
        pair = self.heads["pair"](self.heads["pooled"](torch.cat([states[:, 0], mean], dim=1))).float()
        return pair[:, 0], pair[:, 1], self.heads["span"](states).float()

    def learned(self, first_block: int) -> dict[str, Tensor]:
        """Return the trainable parameters: the encoder's blocks from ``first_block`` on, and the heads."""
        return learned_of(self, first_block)


def learned_of(model: nn.Module, first_block: int) -> dict[str, Tensor]:
    """Return the parameters of the heads and of the encoder's blocks from ``first_block`` on."""
    return {
        name: value
        for name, value in model.named_parameters()
        if name.startswith("heads.") or (".layer." in name and _block(name) >= first_block)
    }


def _block(name: str) -> int:
    return int(name.split(".layer.")[1].split(".")[0])


def write_learned(file: Path, learned: Mapping[str, Tensor]) -> None:
    """Write parameters in float16, which halves their size."""
    save_file({name: v.detach().cpu().to(torch.float16).contiguous() for name, v in learned.items()}, file)


def read_learned(file: Path, model: nn.Module, learned: Collection[str]) -> None:
    """Load the file of ``write_learned`` into the parameters ``learned`` of ``model``.

    Raises:
        ConfigError: The file is unreadable or belongs to another model.
    """
    try:
        kept = {name: value.float() for name, value in load_file(file).items()}
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{file} cannot be read: {error}. Train it again or copy it again.") from error
    if missing := set(learned) ^ kept.keys():
        raise ConfigError(f"{file} does not belong to this model: {sorted(missing)[:3]} ... do not fit.")
    model.load_state_dict(kept, strict=False)


def tokens_of(
    tokenizer: Any, queries: Sequence[str], passages: Sequence[str], max_tokens: int, offsets: bool = False
) -> Any:
    """Tokenize pairs, truncating the query to ``LONGEST_QUERY`` and the passage to the rest; pad to the longest.

    The result is the tokenizer's, so that ``sequence_ids`` and ``token_to_chars`` locate spans in the passage. It has
    an ``offset_mapping`` only with ``offsets``, which is slower.
    """
    asked = list(dict.fromkeys(queries))  # all candidates share the query
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
    """Write only the description, for a new calibration."""
    (folder / CROSS_ENCODER).write_text(json.dumps(asdict(shape), indent=2) + "\n", encoding="utf-8")


def read_shape(folder: Path) -> CrossEncoderShape:
    """Read the description. Raises ConfigError if it is missing or from another okralong."""
    try:
        return CrossEncoderShape(**json.loads((folder / CROSS_ENCODER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{folder} holds no cross-encoder that this okralong can read: {error}. Name a folder that `okralong "
            "train` wrote, or a sentence-transformers cross-encoder, under reranker.model."
        ) from error


def load_learned(folder: Path, model: CrossEncoderModel, sha256: str | None) -> None:
    """Load the learned weights into ``model``, whose encoder has the hash ``sha256``.

    Raises:
        ConfigError: The weights are unreadable or belong to another model.
    """
    shape = read_shape(folder)
    if sha256 and shape.sha256 and sha256 != shape.sha256:
        raise ConfigError(
            f"The cross-encoder in {folder} was trained on other weights of {shape.encoder!r} (sha256 "
            f"{shape.sha256}) than those available ({sha256}). Train it again with `okralong train`."
        )
    read_learned(folder / WEIGHTS, model, model.learned(shape.first_block).keys())


class CrossEncoder:
    """A loaded cross-encoder, from ``load``. Not thread-safe."""

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
        """Load a cross-encoder of `okralong train` from its folder, or a sentence-transformers one.

        ``folder`` may be a hub name for the latter. ``precision`` is auto, bfloat16, float32 or int8.

        Raises:
            ConfigError: It cannot be loaded, or was trained on other weights of its encoder.
        """
        # PyTorch has int8 kernels for CPUs only.
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
        with loading(f"The encoder {base.path} of the reranker {folder}", "Give a folder with safetensors."):
            model = CrossEncoderModel(AutoModel.from_pretrained(base.path, dtype=torch.float32, **SAFE))
            tokenizer: Any = AutoTokenizer.from_pretrained(base.path, trust_remote_code=False)
        load_learned(folder, model, base.sha256)
        positions = int(model.encoder.config.max_position_embeddings)
        return cls(f"cross-encoder:{folder.name}", model.to(target).eval(), tokenizer, positions, shape)

    @classmethod
    def _foreign(cls, name: str, target: str) -> CrossEncoder:
        with loading(
            f"The reranker {name!r}",
            "Give a folder that `okralong train` wrote, the folder or hub name of a sentence-transformers "
            "cross-encoder, or shipped.",
        ):
            model: Any = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32, **SAFE)
            tokenizer: Any = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
            config: Any = AutoConfig.from_pretrained(name, trust_remote_code=False)
        if config.num_labels != 1:
            raise ConfigError(
                f"The model {name!r} has {config.num_labels} outputs, but a reranker has one: the relevance of a "
                "passage. Give a sentence-transformers cross-encoder with num_labels 1."
            )
        longest = min(usable_positions(config, 512), int(tokenizer.model_max_length), 1024)
        return cls(f"cross-encoder:{Path(name).name}", model.to(target).eval(), tokenizer, longest, None)

    @property
    def reads_spans(self) -> bool:
        """True if the model locates the answer and estimates whether it exists."""
        return self._shape is not None

    def read_each(self, asked: Sequence[tuple[str, list[str]]], max_batch: int = 64) -> list[list[Reading]]:
        """Return the readings of several queries, each with its passages.

        On a CPU, queries run one by one: the candidates of one query fill a pass, and a bfloat16 result depends on the
        other pairs in its pass, so rankings must not depend on neighboring queries. On a GPU all run together.
        """
        if next(self._model.parameters()).device.type == "cpu":
            return [self.read([query] * len(passages), passages, max_batch) for query, passages in asked]
        queries = [query for query, passages in asked for _ in passages]
        found = iter(self.read(queries, [passage for _, passages in asked for passage in passages], max_batch))
        return [[next(found) for _ in passages] for _, passages in asked]

    def read(self, queries: Sequence[str], passages: Sequence[str], max_batch: int = 64) -> list[Reading]:
        """Return a reading of each pair, in the given order; pairs of similar length share a pass."""
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
            found = [each.tolist() for each in best_spans(spans, inside, 1 + OTHER_SPANS)]
        rows = zip(relevance.tolist(), sure.tolist(), *found, strict=True)
        return [
            Reading(
                score,
                held,
                *_characters(encoded, n, first[0], last[0]),
                share[0],
                _others(encoded, n, first, last, share),
            )
            for n, (score, held, first, last, share) in enumerate(rows)
        ]


def _others(
    encoded: Any, row: int, first: Sequence[int], last: Sequence[int], share: Sequence[float]
) -> tuple[tuple[int, int, float], ...]:
    likely = [n for n in range(1, len(share)) if share[n] >= LEAST_PROBABILITY]
    return tuple((*_characters(encoded, row, first[n], last[n]), share[n]) for n in likely)


def _characters(encoded: Any, row: int, first: int, last: int) -> tuple[int, int]:
    """Return the range of tokens ``first`` to ``last`` of a row in its passage; (0, 0) for a passage without tokens."""
    start, end = encoded.token_to_chars(row, first), encoded.token_to_chars(row, last)
    return (start.start, end.end) if start is not None and end is not None else (0, 0)


def passage_mask(encoded: Any, count: int) -> Tensor:
    """Return which tokens belong to the passage, (n, tokens); for a passage without tokens, the first token."""
    mask = torch.zeros(encoded["input_ids"].shape, dtype=torch.bool)
    for row in range(count):
        ids = encoded.sequence_ids(row)
        # A passage's tokens are contiguous.
        size = ids.count(1)
        first = ids.index(1) if size else 0
        mask[row, first : first + max(size, 1)] = True
    return mask


def best_spans(logits: Tensor, inside: Tensor, count: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return first token, last token and probability of the most probable spans of each row; all (n, count).

    They do not overlap, and the most probable is first. A span that does not exist has the probability 0.

    Args:
        logits: Start and end, (n, tokens, 2).
        inside: The tokens that a span may use, (n, tokens).
        count: Number of spans.
    """
    masked = logits.masked_fill(~inside.unsqueeze(-1), float("-inf"))
    start, end = masked.log_softmax(dim=1).unbind(dim=-1)
    # (n, tokens, LONGEST_ANSWER): each first token with its possible last tokens.
    ends = nn.functional.pad(end, (0, LONGEST_ANSWER - 1), value=float("-inf")).unfold(1, LONGEST_ANSWER, 1)
    joint = (start.unsqueeze(2) + ends).flatten(1)
    total = joint.logsumexp(dim=1)  # normalized over all allowed spans
    firsts = torch.arange(joint.shape[1], device=joint.device) // LONGEST_ANSWER
    lasts = firsts + torch.arange(joint.shape[1], device=joint.device) % LONGEST_ANSWER
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(count):
        best, place = joint.max(dim=1)
        first, last = firsts[place], lasts[place]
        found.append((first, last, (best - total).exp()))
        joint = joint.masked_fill((firsts <= last.unsqueeze(1)) & (lasts >= first.unsqueeze(1)), float("-inf"))
    one, two, share = (torch.stack(each, dim=1) for each in zip(*found, strict=True))
    return one, two, share
