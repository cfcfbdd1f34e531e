"""The baselines' sections of the policy: what their papers leave to choose. ``configs/policy/paper.yaml`` says whence.

Each has defaults, which are its authors' values as far as there are any, so that a policy file need not name it. How
far each baseline follows its paper stands in its strategy file and in ``docs/methods.md``.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings

Tokens = Annotated[int, Field(ge=16, le=8192)]
Count = Annotated[int, Field(ge=1, le=1000)]
Rounds = Annotated[int, Field(ge=1, le=64)]
Share = Annotated[float, Field(ge=0, le=1)]


class AdaptiveRagPolicy(Settings):
    """Adaptive-RAG: ``count`` chunks for each look-up; the iterative way takes at most ``max_steps`` sentences of
    reasoning and gathers at most ``max_chunks``.
    """

    granularity: Tokens = 512
    count: Count = 5
    max_steps: Rounds = 10
    max_chunks: Count = 15


class FlarePolicy(Settings):
    """FLARE: a look-ahead sentence with a token less likely than ``threshold`` is looked up, without its tokens less
    likely than ``mask_below``; at most ``max_sentences`` are written.
    """

    granularity: Tokens = 512
    count: Count = 5
    threshold: Share = 0.8
    mask_below: Share = 0.4
    max_sentences: Rounds = 8


class LongLlmLinguaPolicy(Settings):
    """LongLLMLingua: of the ``candidates`` best chunks the most telling ones are kept, ``coarse_factor`` times
    ``target_tokens`` together, and then cut token by token to ``target_tokens``; the best of them keep ``spread`` more
    than the mean share of their tokens, the last ``spread`` less.
    """

    granularity: Tokens = 512
    candidates: Count = 30
    target_tokens: Annotated[int, Field(ge=16, le=1_000_000)] = 2000
    coarse_factor: Annotated[float, Field(ge=1, le=100)] = 2.0
    spread: Share = 0.3


class RaptorPolicy(Settings):
    """RAPTOR: leaves of ``granularity`` tokens, summaries of clusters of at most ``cluster_tokens``, in at most
    ``layers`` layers. The best nodes up to ``max_tokens`` are shown, of the ``candidates`` best leaves and of the
    summaries of the ``max_documents`` documents that have the best ones.
    """

    granularity: Tokens = 150
    layers: Rounds = 5
    cluster_tokens: Annotated[int, Field(ge=64, le=1_000_000)] = 3500
    max_tokens: Annotated[int, Field(ge=16, le=1_000_000)] = 2000
    candidates: Count = 100
    max_documents: Count = 8


class CompactPolicy(Settings):
    """CompAct: the ``candidates`` best chunks are read ``segment`` at a time, the best first."""

    granularity: Tokens = 512
    candidates: Count = 30
    segment: Count = 5


class SaraPolicy(Settings):
    """SARA: of the ``candidates`` best chunks by BM25, ``text`` are shown as text and the others as vectors.

    ``selection`` chooses the text: the best by BM25 (none), or one by one for what each adds (novelty, csi); ``space``
    is where novelty is measured. ``trade_off`` is as in ``SelectionPolicy``. With ``max_tokens`` texts and vectors
    together take no more (a vector counts as one); a chunk whose text does not fit stands as vectors. ``compression``
    false leaves the other chunks out.
    """

    granularity: Tokens = 256
    candidates: Count = 10
    text: Annotated[int, Field(ge=0, le=1000)] = 5
    selection: Literal["none", "novelty", "csi"] = "novelty"
    space: Literal["compressor", "encoder"] = "compressor"
    trade_off: Share = 0.0
    max_tokens: Annotated[int, Field(ge=16, le=1_000_000)] | None = None
    compression: bool = True

    @model_validator(mode="after")
    def _something_to_show(self) -> Self:
        if not self.compression and not self.text:
            raise ValueError("text is 0 and compression is false, so nothing would be shown")
        return self


class BudgetRagPolicy(Settings):
    """Plain RAG under a budget: the best of ``candidates`` chunks by ``retriever`` (exact is BM25), up to
    ``max_tokens`` together; the last one is cut where it does not fit whole.
    """

    granularity: Tokens = 256
    candidates: Count = 10
    retriever: Literal["exact", "semantic"] = "exact"
    max_tokens: Annotated[int, Field(ge=16, le=1_000_000)] = 512
