"""``Needs``, which the function ``needs(policy)`` in a method's file returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run must provide for a method. A run that lacks any of it is refused before it spends anything.

    Attributes:
        granularities: Chunk sizes, in tokens, that the archive must have.
        vectors: Dense vectors in the archive. A method needs them that retrieves only by vectors, or calls
            ``tools.embed`` or ``tools.vectors``.
        scorer: A local language model, for ``tools.score``.
        token_classifier: A token classifier, for ``tools.keep``.
        compressor: SARA's compressor, for ``tools.compress``.
        reranker: A cross-encoder.
        logprobs: A generator that returns the log-probabilities of its tokens.
        sara_generator: SARA's generator, the only one that reads the vectors of ``tools.compressed``.
        escalates: The method retries answers whose confidence is below the threshold in ``policy.escalate``.
        unforeseen: The reason why the cost cannot be estimated before the run, or None.
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
