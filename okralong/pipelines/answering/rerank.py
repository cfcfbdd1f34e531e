"""Rank chunks by a cross-encoder, which reads query and chunk together. Not in the paper, which only fuses.

The evidence is far more often among the retrievers' first twenty to forty chunks than among the five shown. Reordering
these candidates costs milliseconds of processor time instead of paid tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from okralong.pipelines.answering.tools import Retriever
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.sentences import SHORT_LINE_CHARS, lines_of
from okralong.pipelines.core.types import Chunk, Hit
from okralong.pipelines.models.weights import CROSS_ENCODER, SHIPPED, adapter_digest, available_cores, shipped_adapter

if TYPE_CHECKING:
    from okralong.pipelines.models.cross_encoder import CrossEncoder


class RerankerConfig(Settings):
    """The section ``reranker`` of a run's config: the cross-encoder, which ranks, answers and judges answers.

    ``model`` is "shipped", a folder that `okralong train` wrote, or the folder or hub name of a sentence-transformers
    cross-encoder (BAAI/bge-reranker-v2-m3), which only ranks. ``precision`` is auto (bfloat16 on GPUs and on CPUs that
    support it, else float32), float32, bfloat16, or int8 for CPUs. Up to ``max_batch`` pairs of query and passage share
    a pass, and queries that arrive within ``batch_wait_s`` seconds are read together. The model runs in ``replicas``
    processes with ``gpus_per_replica`` GPUs each. ``answers`` says whether the model answers the questions that
    ``policy.read`` lists: "always", "never", or "auto", which means only instead of the embedded generator.
    """

    model: str = Field(default=SHIPPED, min_length=1)
    precision: Literal["auto", "bfloat16", "float32", "int8"] = "auto"
    max_batch: Annotated[int, Field(ge=1, le=4096)] = 64
    batch_wait_s: Annotated[float, Field(ge=0, le=10)] = 0.005
    answers: Literal["auto", "always", "never"] = "auto"
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0

    def folder(self) -> Path:
        """Return the model's folder; a hub name stays as it is. Raises ConfigError if the shipped model is missing."""
        return shipped_adapter("cross_encoder") if self.model == SHIPPED else Path(self.model).expanduser()

    @property
    def reads_spans(self) -> bool:
        """Return whether the model predicts an answer's span, as models that `okralong train` wrote do."""
        return (self.folder() / CROSS_ENCODER).is_file()

    @property
    def name(self) -> str:
        """Return the model's name in ``replied_by``: folder name and first digits of the digest, or the hub name."""
        digest = adapter_digest(self.folder())
        return f"{self.folder().name}@{digest[:12]}" if digest else self.model

    def may_answer(self, embedded: bool) -> bool:
        """Return whether the model may answer questions; ``embedded`` is true if the generator is the embedded one."""
        return self.answers == "always" or (self.answers == "auto" and embedded)

    def identity(self) -> dict[str, Any]:
        """Return everything that a reading depends on: the model's content, the precision, and whether it answers."""
        return {
            "model": adapter_digest(self.folder()) or self.model,
            "precision": self.precision,
            "answers": self.answers,
        }


def load_reranker(config: RerankerConfig) -> CrossEncoder:
    """Load the model into this process. Raises ConfigError if it cannot be loaded."""
    # Imported here, because importing torch and transformers takes seconds.
    from okralong.pipelines.models.cross_encoder import CrossEncoder

    folder = config.folder()
    # The number of threads is given, because Ray's default for an actor is one.
    return CrossEncoder.load(folder if folder.is_dir() else config.model, config.precision, threads=available_cores())


async def rerank(tools: Retriever, step: str, query: str, hits: Sequence[Hit]) -> list[Hit]:
    """Move the first candidates to the front, ordered by the cross-encoder's and the fused score (``RerankPolicy``).

    Their new scores are 1 to 2, those of the others below 1, so that a threshold relative to the best score keeps every
    candidate. If the policy does not rerank, ``hits`` are returned unchanged. Step: ``step``.
    """
    policy = tools.policy.rerank
    pool = list(hits[: policy.candidates])
    if not pool:
        return list(hits)
    new = stretched([each.relevance for each in await tools.read(step, query, [hit.chunk.text for hit in pool])])
    old = stretched([hit.score for hit in pool])
    mixed = [policy.weight * mine + (1 - policy.weight) * fused for mine, fused in zip(new, old, strict=True)]
    ranked = [Hit(hit.chunk, 1 + score) for hit, score in zip(pool, mixed, strict=True)]
    behind = hits[policy.candidates :]
    kept = [Hit(hit.chunk, score / 2) for hit, score in zip(behind, stretched([h.score for h in behind]), strict=True)]
    found = sorted([*ranked, *kept], key=lambda hit: (-hit.score, hit.chunk.chunk_id))
    return followed(query, found, policy.follow)


def followed(query: str, hits: Sequence[Hit], count: int) -> list[Hit]:
    """After the first ``count`` chunks, insert up to as many chunks about things that these name.

    "Where was the director of Alder Hill born?" finds the film's passage, which names the director, but the answer is
    in the director's own passage. A chunk is moved if its heading is a name that the first chunks contain and the query
    does not. A chunk of another document is moved only if it begins that document: a heading such as "Note 7" is only
    mentioned in the same report, while a page's title may be mentioned anywhere.
    """
    if not count:
        return list(hits)
    first, rest = list(hits[:count]), hits[count:]
    asked = query.lower()

    def is_named(chunk: Chunk) -> bool:
        told = [hit.chunk.text for hit in first if hit.chunk.doc_id == chunk.doc_id or chunk.start_char == 0]
        return bool(told) and _heads_a_name(chunk.text, "\n".join(told), asked)

    named = list(islice((hit for hit in rest if is_named(hit.chunk)), count))
    if not named:
        return list(hits)
    moved = {hit.chunk.chunk_id for hit in named}
    found = first
    for hit in [*named, *(hit for hit in rest if hit.chunk.chunk_id not in moved)]:
        # Strictly below the previous score, so that later sorting keeps this order.
        below = math.nextafter(found[-1].score, -math.inf)
        found.append(replace(hit, score=below) if hit.score > below or hit.chunk.chunk_id in moved else hit)
    return found


def _heads_a_name(text: str, told: str, asked: str) -> bool:
    """Return whether a heading of ``text`` is a name that ``told`` mentions within a sentence and ``asked`` does not.

    ``asked`` is in lower case. A mention at the beginning of a line is a heading or a row label and does not count.
    """
    names = (name for name in heading_names(text) if name in told and name.lower() not in asked)
    return any(re.search(rf"(?<=[a-z,(] ){re.escape(name)}(?!\w)", told) for name in names)


def heading_names(text: str) -> list[str]:
    """Return the headings of a text that are names.

    A name has two or more words. All except short ones have a capital or a digit, and at least one has a capital. A
    remark in brackets at the end ("Alder Hill (film)") is not part of the name.
    """
    names = (_REMARK.sub("", line.strip()) for line in lines_of(text) if len(line.strip()) <= SHORT_LINE_CHARS)
    return [name for name in names if _is_name(name)]


_REMARK: Final = re.compile(r"\s*\([^()]*\)$")
_NO_END: Final = ".!?,;:"
_FIGURES: Final = frozenset("|$%")
"""Characters that show that a line is a table row."""
MOST_WORDS: Final = 9  # project default
"""The most words of a name."""
_SHORT: Final = 4  # project default
"""The most characters of a word in a name that may lack a capital ("of", "and", "with")."""


def _is_name(line: str) -> bool:
    words = line.split()
    if not 2 <= len(words) <= MOST_WORDS or line[-1] in _NO_END or not _FIGURES.isdisjoint(line):
        return False
    capital = [word for word in words if word[0].isupper()]
    large = [*capital, *(word for word in words if word[0].isdigit())]
    return bool(capital) and len(large) >= 2 and all(len(word) <= _SHORT for word in words if word not in large)


def stretched(scores: Sequence[float]) -> list[float]:
    """Stretch scores to 0..1; all 1 if they are equal."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if not high > low:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]
