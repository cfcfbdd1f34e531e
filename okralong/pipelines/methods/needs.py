"""What a method declares about itself: ``needs(policy)`` in its file returns a ``Needs``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a run must provide for a method. Before anything is spent, a run that cannot provide it is refused.

    Attributes:
        granularities: Chunk sizes, in tokens, that the archive must hold.
        vectors: Dense vectors in the archive: the method retrieves by them alone, or calls ``tools.embed`` or
            ``tools.vectors``.
        scorer: A local language model for ``tools.score``.
        token_classifier: The model behind ``tools.keep``.
        compressor: SARA's compressor, for ``tools.compress``.
        reranker: A cross-encoder.
        logprobs: A generator that returns the log-probabilities of its tokens.
        sara_generator: SARA's generator, which alone reads the vectors of ``tools.compressed``.
        escalates: The method retries answers below the confidence that ``policy.escalate`` gives.
        unforeseen: Why the cost cannot be estimated before the run; None if it can.
        packages: Python packages of the extra ``lab`` that the method imports when it is used.
    """

    granularities: tuple[int, ...]
    vectors: bool = False
    scorer: bool = False
    token_classifier: bool = False
    compressor: bool = False
    reranker: bool = False
    logprobs: bool = False
    sara_generator: bool = False
    escalates: bool = False
    unforeseen: str | None = None
    packages: tuple[str, ...] = ()
