"""Whose questions are asked over ever longer documents, and by which methods."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from okralong.lab.datasets.pooling import Pooled
from okralong.lab.evidence.config import PlainMethod, PolicyMethod, SetChoice

SEED: Final = 7

LENGTHS: Final = (10_000, 50_000, 100_000, 200_000)
"""o200k tokens that a document has at least; the first is what the others are compared with."""

SETS: Final[dict[str, tuple[SetChoice, SetChoice | None]]] = {
    "hotpotqa": (
        SetChoice(name="hotpotqa", part="dev", pool_tokens=LENGTHS[0], limit=40, fill=["hotpotqa train"]),
        SetChoice(name="2wikimultihopqa", part="dev", pool_tokens=20_000, fill=["2wikimultihopqa train"]),
    ),
    "qmsum": (SetChoice(name="qmsum", part="train", pool_tokens=LENGTHS[0], limit=30), None),
}
"""By a name for the command line: a set over the shortest documents, and one whose documents fill up the longest."""

_LINEAR: Final[dict[str, Any]] = {"workflow.multi-source": "linear", "workflow.multi-bridge": "linear"}

POLICIES: Final = {
    "ours": PolicyMethod(policy="policy/default.yaml", analyzer="heads"),
    "ours linear": PolicyMethod(policy="policy/default.yaml", analyzer="heads", overrides=_LINEAR),
}
"""Under the shipped analyzer, given the sets' own queries; and with no query but the question."""

STD_RAG: Final = PlainMethod(retriever="semantic", granularity=512, count=5, counts=[5])


def some_questions(pooled: Pooled, most: int) -> Pooled:
    """At most so many questions, drawn by their ids: the same ones at every length."""
    order = sorted(pooled.questions, key=lambda question: question.item.gold.question.query_id)
    drawn = random.Random(SEED).sample(order, min(most, len(order)))
    return replace(pooled, questions=tuple(sorted(drawn, key=lambda question: question.doc_ids)))
