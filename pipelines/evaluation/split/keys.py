"""What the split knows things by: short hashes that follow from the words alone, so no text is committed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from okralong.pipelines.evaluation.datasets.values import Item, text_id
from okralong.pipelines.reporting.metrics import plain_words

Side: TypeAlias = Literal["train", "validation", "tune", "test"]

SIDES: Final[tuple[Side, ...]] = ("train", "validation", "tune", "test")
"""From the freest to the strictest. Models are trained on train; validation chooses temperatures and thresholds, tune
the policy's values; figures come from test."""

KEY_DIGITS: Final = 10
"""Hex digits of a key, 5 bytes: among 40,000 keys two are equal by chance once in 1,400 manifests."""


def question_hash(question: str) -> str:
    """The key of a question's text: case, punctuation and spacing do not count."""
    return text_id(question)[:KEY_DIGITS]


def document_hash(document: str) -> str:
    """The key of a document's name. A name without letters and digits counts as it is written."""
    words = " ".join(plain_words(document)) or document
    return hashlib.sha256(f"document {words}".encode()).hexdigest()[:KEY_DIGITS]


def text_hash(identity: str) -> str:
    """The key of a text by its ``text_id``."""
    return identity[:KEY_DIGITS]


def strictest(sides: Iterable[Side]) -> Side:
    """The strictest of ``sides``, which must not be empty."""
    return max(sides, key=SIDES.index)


def gold_texts(item: Item) -> tuple[str, ...]:
    """The text_ids that hold an item's evidence or its cells, each once."""
    return tuple(dict.fromkeys([*(e.text_id for e in item.evidence), *(c.text_id for c in item.cells)]))
