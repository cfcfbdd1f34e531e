"""The names of signals, with their meanings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from okralong.pipelines.core.types import QuestionType

SIGNALS: Final[Mapping[str, str]] = {
    # The question and its scope.
    "typed": "1 if the question has an answer type",
    "amount": "1 if that is one amount",
    "question_words": "logarithm of the question's words",
    "question_years": "1 if the question names a year",
    "asks_number": "1 if the words ask for a number",
    "asks_date": "1 if they ask for a time",
    "asks_person": "1 if they ask who",
    "asks_yes_no": "1 if they can be answered by yes or no",
    "asks_reason": "1 if they ask why or how",
    "documents": "logarithm of the documents in scope",
    "named": "share of the name of the document that the question names best; 1 if the scope is one document",
    **{f"type_{name}": f"the analyzer's probability of the type {name}" for name in get_args(QuestionType)},
    "evidence": "the analyzer's probability that the first passages hold the evidence",
    # What was found.
    "bm25": "logarithm of the best BM25 score",
    "bm25_gap": "share by which it exceeds the fifth",
    "cosine": "best cosine of the dense vectors",
    "cosine_gap": "difference between it and the fifth",
    "passages": "logarithm of the passages shown",
    "tokens": "logarithm of their tokens",
    "names_shown": "share of the names in the question that occur in the passages or in their documents' names",
    "years_shown": "share of the question's years that do",
    "topic_shown": "share of the question's words in the passage that has most of them",
    # What the cross-encoder reads in the passages.
    "answerable": "highest probability that a passage holds an answer",
    "answerable_second": "the second highest",
    "answerable_mean": "their mean",
    "answerable_cited": "the highest of the cited passages",
    "relevance": "highest relevance of a passage",
    "relevance_gap": "difference between it and the second",
    "span": "probability of the span read in the passage that is judged, given that it holds an answer",
    "agreement": "how much the answer and that span agree",
    "support": "probability that a passage holds an answer and that it is not another one",
    # The answer.
    "words": "logarithm of the answer's words",
    "numbers": "1 if it has an amount",
    "kind_fits": "1 if it has what the words ask for (a number, a time, yes or no), 0 if not",
    "open": "1 if it has no word or number that a text could contain",
    "rare": "1 if a text can hardly contain it by chance",
    "citations": "logarithm of the citations",
    "held_cited": "share of the answer that the cited text contains",
    "held_shown": "share of it in the passage that contains most of it",
    "topic_cited": "share of the question's words in the cited text",
    "years_cited": "share of the question's years in the cited text, its passage or the document's name",
    "named_cited": "share of the cited document's name in the question, relative to the best named one",
    "escalated": "1 if it replaced an answer of low confidence",
    # The cell of a table, or the one that fits worst of a calculation's operands.
    "cell_label": "how well the row's label fits, 1 for the words of the question",
    "cell_table": "rank of the table: statements 1 and above, others below",
    "cell_doubt": "words of owners and sections that the question does not have",
    "cell_item": "1 if the question names a known line item",
    "cell_substitute": "1 if another line item stands in for it",
    "cell_owner": "1 if the question names a part of the company or another owner",
    "cell_alike": "logarithm of other cells that fit and have the same value",
    "cell_rivals": "logarithm of other cells that fit less well and have another value",
    "cell_scale": "1 if the table's scale is known",
    "cell_currency": "1 if the table's currency is known",
    "cell_asked_time": "1 if the question names a time",
    "cell_time": "1 if the column states its year",
    "cell_near": "1 if only rows in the retrieved passages were considered",
    # Parts.
    "operands": "operands of a calculation",
    "look_ups": "look-ups of a bridge question",
    "look_up_product": "product of the probabilities that each look-up's passage holds an answer",
    "value_in_span": "1 if the span has the value itself, 0 if its line has",
    "span_probability": "probability of the passage and span from which a reader took the answer",
}
"""The signals with their meanings. Logarithms are of 1 plus the count. Others are refused (``known``)."""

Signals = Mapping[str, float]


def known(signals: Signals) -> dict[str, float]:
    """Return the signals, sorted by name. Raises ValueError for an unknown name."""
    unknown = sorted(signals.keys() - SIGNALS.keys())
    if unknown:
        raise ValueError(f"Unknown signals: {', '.join(unknown)}. Add them to SIGNALS.")
    return {name: float(signals[name]) for name in sorted(signals)}
