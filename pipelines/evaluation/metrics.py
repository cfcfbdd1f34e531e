"""Token F1 and exact match, as SQuAD defined them and LongBench and UDA took them over.

A text is lower-cased, loses its ASCII punctuation, then the articles "a", "an" and "the", and is split at white space.
An answer is held against each gold answer and keeps its best mark.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """The text as the two metrics see it: words with one space between them."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(prediction: str, gold: str) -> float:
    """Harmonic mean of the precision and recall of words, each counted as often as it stands there; 0 to 1.

    Where one of the two has no word left, it is 1 if both have none and else 0 (the rule of SQuAD 2.0).
    """
    found, wanted = normalise(prediction).split(), normalise(gold).split()
    if not found or not wanted:
        return float(found == wanted)
    shared = (Counter(found) & Counter(wanted)).total()
    return 2 * shared / (len(found) + len(wanted))


def exact_match(prediction: str, gold: str) -> float:
    """1 when the normalised texts are the same, else 0."""
    return float(normalise(prediction) == normalise(gold))


def best(metric: Callable[[str, str], float], prediction: str, golds: Iterable[str]) -> float:
    """The best mark of a prediction against any of the gold answers. Raises ValueError when there is none."""
    return max(metric(prediction, gold) for gold in golds)
