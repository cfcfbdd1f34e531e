"""The metrics of a sweep, and those that only experiments compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from okralong.lab.datasets.pooling import Span

Better = Literal["more", "less"]

METRICS: Final[Mapping[str, Better]] = {
    "f1": "more",
    "em": "more",
    "rouge_l": "more",
    "numeric": "more",
    "judge": "more",
    "judge_relevance": "more",
    "judge_correctness": "more",
    "judge_similarity": "more",
    "judge_faithfulness": "more",
    "answer_recall": "more",
    "evidence_recall": "more",
    "citation_precision": "more",
    "value_mark": "more",
    "page_mark": "more",
    "prompt_tokens": "less",
    "completion_tokens": "less",
    "weighted_tokens": "less",
    "billed_usd": "less",
    "alone_usd": "less",
    "seconds_analysis": "less",
    "seconds_retrieval": "less",
    "seconds_generation": "less",
    "seconds_total": "less",
    "seconds_first_token": "less",
    "seconds_indexing": "less",
    "tokens_per_second": "more",
}
"""Whether more or less is better, for each metric (a column of the table ``scores``).

Marks and recalls are 0 to 1; most others are sums over a question. ``seconds_first_token`` is the time from the
question to the first token of its last call. ``tokens_per_second`` divides its completion tokens by ``seconds_total``.
Both are columns of SARA's table 11. ``seconds_indexing`` is the time to index the question's documents
with the chunk sizes of its method; it is not part of ``seconds_total``."""


def citation_precision(
    citations: Sequence[Span], evidence: Sequence[Span], documents: Mapping[str, str]
) -> float | None:
    """Return the share of citations that overlap a piece of evidence in at least one character other than white space.

    Returns None if there are no citations, or if the set marks no evidence. The result is a lower bound, since a
    citation of another place with the same content counts as wrong.
    """
    if not citations or not evidence:
        return None
    return sum(any(_touch(cited, gold, documents) for gold in evidence) for cited in citations) / len(citations)


def _touch(one: Span, other: Span, documents: Mapping[str, str]) -> bool:
    if one.doc_id != other.doc_id:
        return False
    shared = documents[one.doc_id][max(one.start_char, other.start_char) : min(one.end_char, other.end_char)]
    return bool(shared.strip())
