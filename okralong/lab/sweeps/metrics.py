"""The metrics of an evaluation by name, and those that only experiments compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from okralong.lab.datasets.pooling import Span
from okralong.pipelines.reporting.metrics import best, exact_match, gold_quantity, numeric_match, token_f1

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
    "prompt_tokens": "less",
    "completion_tokens": "less",
    "weighted_tokens": "less",
    "billed_usd": "less",
    "alone_usd": "less",
    "seconds_analysis": "less",
    "seconds_retrieval": "less",
    "seconds_generation": "less",
    "seconds_total": "less",
}
"""Which way each is better, by its column of the table ``scores``. Marks and recalls are 0 to 1, all others a
question's sum."""


def scores(answer: str, golds: Sequence[str]) -> tuple[float, float, bool | None]:
    """``(F1, exact match, numeric match)`` of an answer against the best of ``golds``; the last is None where none of
    them is a number.

    UDA and FinQA score numbers by value: an answer that is nothing but the right number has F1 and exact match 1. A
    sentence around it is scored by its words. Raises ValueError without golds.
    """
    numeric = numeric_match(answer, golds)
    if numeric and gold_quantity(answer) is not None:
        return 1.0, 1.0, True
    return best(token_f1, answer, golds), best(exact_match, answer, golds), numeric


def citation_precision(
    citations: Sequence[Span], evidence: Sequence[Span], documents: Mapping[str, str]
) -> float | None:
    """The share of citations that have at least one character, white space aside, in common with a piece of evidence.

    None without citations, and where the set marks no evidence: then nobody knows. A citation beside the marked place
    that says the same counts as wrong, so it is a lower bound.
    """
    if not citations or not evidence:
        return None
    return sum(any(_touch(cited, gold, documents) for gold in evidence) for cited in citations) / len(citations)


def _touch(one: Span, other: Span, documents: Mapping[str, str]) -> bool:
    if one.doc_id != other.doc_id:
        return False
    shared = documents[one.doc_id][max(one.start_char, other.start_char) : min(one.end_char, other.end_char)]
    return bool(shared.strip())
