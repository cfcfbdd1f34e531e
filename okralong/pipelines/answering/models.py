"""Interfaces to a run's archive, local models and generator, which the tools of questions use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import ShardClient
from okralong.pipelines.core.types import Analysis, Message, Reading, Reply, WordKept

Vectors = np.ndarray[Any, np.dtype[np.float32]]

Part = Literal["embedder", "analyzer", "reranker", "scorer", "token_classifier", "compressor"]
"""The optional local models of a run. The docstring of a method of ``Models`` names the one that it needs."""
PARTS: Final[tuple[Part, ...]] = get_args(Part)


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """What the run's cross-encoder can do in addition to ranking.

    Attributes:
        name: Its name if it reads spans, else "".
        reads_spans: Whether it returns the span of an answer.
        reads_answers: Whether it may answer questions itself.
        reads_english: Whether it was trained on English alone, so that its readings of other questions are not used.
    """

    name: str = ""
    reads_spans: bool = False
    reads_answers: bool = False
    reads_english: bool = False


RANKS_ONLY: Final = CrossEncoder()


class Models(ABC):
    """The shards of a run's archive, and its local models; ``parts`` names those that the run has.

    If there is no analyzer, the generator analyzes; if there is no embedder, the archive has no vectors. A method must
    not be called if the run lacks its part. ``analyzes_english`` and ``generates_english`` mean that the
    analyzer and the run's generator know English alone.
    """

    archive: Archive
    parts: frozenset[Part]
    cross_encoder: CrossEncoder = RANKS_ONLY
    analyzes_english: bool = False
    generates_english: bool = False

    @abstractmethod
    def shards(self, granularity: int) -> Sequence[ShardClient]:
        """Return all shards of a chunk size, in order."""

    async def embed(self, texts: list[str]) -> Vectors:
        """Return unit vectors of queries, shape (texts, dimension). Part: embedder."""
        raise NotImplementedError("embedder")

    async def analyze(self, asked: AnalysisInput) -> Analysis:
        """Analyze a question and its primary passages. Part: analyzer."""
        raise NotImplementedError("analyzer")

    async def read(self, query: str, passages: list[str]) -> list[Reading]:
        """Return the cross-encoder's readings of passages for a query, in their order. Part: reranker."""
        raise NotImplementedError("reranker")

    async def score(self, prefix: str, texts: list[str]) -> list[list[float]]:
        """Return the log-likelihood of each text's tokens after ``prefix``. Part: scorer."""
        raise NotImplementedError("scorer")

    async def token_ends(self, texts: list[str]) -> list[list[int]]:
        """Return the ends of the tokens that ``score`` measures. Part: scorer."""
        raise NotImplementedError("scorer")

    async def keep(self, texts: list[str]) -> list[list[WordKept]]:
        """Return the words of each text, each with the probability of keeping it. Part: token_classifier."""
        raise NotImplementedError("token_classifier")

    async def compress(self, vectors: Vectors) -> Vectors:
        """Map the encoder's vectors to unit vectors in the compressor's space, shape (n, hidden). Part: compressor."""
        raise NotImplementedError("compressor")


@dataclass(frozen=True, slots=True)
class GeneratorCall:
    """A call of the generator at a step of a question; for the fields see ``Tools.complete``."""

    query_id: str
    path: str
    role: str
    messages: Sequence[Message]
    logprobs: bool = False
    answer_type: str = ""
    longer: bool = False


class Generator(ABC):
    """The generator that tools call: the run's, or ``OfflineGenerator``, which has no endpoint."""

    @abstractmethod
    async def complete(self, call: GeneratorCall) -> Reply:
        """Return the reply to a call. Raises as ``Tools.complete`` does."""


class FunctionModels(Models):
    """``Models`` made from functions, for benchmarks and tests. A part whose functions are not given is absent."""

    def __init__(
        self, archive: Archive, *, cross_encoder: CrossEncoder = RANKS_ONLY, **functions: Callable[..., Any] | None
    ) -> None:
        """Take functions by the names of ``Models``' methods; None means not given."""
        self.archive, self.cross_encoder = archive, cross_encoder
        self._functions = {name: function for name, function in functions.items() if function is not None}
        self.parts = frozenset(_PART_OF[name] for name in self._functions if name in _PART_OF)
        for name, function in self._functions.items():
            setattr(self, name, function)

    def shards(self, granularity: int) -> Sequence[ShardClient]:
        """See ``Models``."""
        return self.archive.clients(granularity)

    def having(
        self, cross_encoder: CrossEncoder | None = None, **functions: Callable[..., Any] | None
    ) -> FunctionModels:
        """Return a copy in which some functions are replaced; None removes one."""
        return FunctionModels(
            self.archive, cross_encoder=cross_encoder or self.cross_encoder, **(self._functions | functions)
        )


_PART_OF: Final[dict[str, Part]] = {
    "embed": "embedder",
    "analyze": "analyzer",
    "read": "reranker",
    "score": "scorer",
    "token_ends": "scorer",
    "keep": "token_classifier",
    "compress": "compressor",
}
