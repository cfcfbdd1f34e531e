"""Answer recall: does what must be known for the answer stand in the context that the generator was shown?

It judges the retrieval and not the reply. What must be found comes as *parts*, all of which are needed; each part has
one or more wordings, any of which will do. A short answer is one part, a list is one part for each item, a calculation
is one part for each operand. A question without parts (long free answers, yes or no, a calculation whose operands
nobody wrote down) has no recall.

Finding is by words: case, punctuation, currency, signs, thousands separators and line breaks do not count. A short
number may therefore be found by chance; a rephrased answer is not found at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

Parts = tuple[tuple[str, ...], ...]

MOST_WORDS: Final = 12
"""A gold answer of more words is not looked for: nobody would expect a text to hold it word for word. Ours."""

_NO_FACTS: Final = frozenset({"yes", "no", "true", "false", "unanswerable", "none", "n a", ""})
_SEPARATOR: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PERCENT: Final = re.compile(r"\bper\s?cent\b")
_WORD: Final = re.compile(r"\d+\.\d+|(?<![\d\w])\.\d+|\d+|%|[^\W\d_]+")


def words(text: str) -> list[str]:
    """The words and numbers of a text as they are compared: "$ (1,544.50) Percent" is ["1544.5", "%"]."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return [_number(word) for word in _WORD.findall(_PERCENT.sub("%", _SEPARATOR.sub("", plain)))]


def findable(answers: Iterable[str]) -> tuple[str, ...]:
    """Those of the answers that can be looked for: 1 to ``MOST_WORDS`` words that are more than yes or no."""
    return tuple(a for a in answers if len(a.split()) <= MOST_WORDS and " ".join(words(a)) not in _NO_FACTS)


def answer_recall(parts: Parts, shown: Sequence[str]) -> float | None:
    """The share of ``parts`` that stand in one of the texts shown, 0 to 1; None when there are no parts."""
    if not parts:
        return None
    texts = [_prepared(text) for text in shown]
    found = sum(any(_stands(wording, texts) for wording in part) for part in parts)
    return found / len(parts)


@lru_cache(maxsize=64)  # whole documents come again for each question on them
def _prepared(text: str) -> str:
    return f" {' '.join(words(text))} "


def _stands(wording: str, texts: Sequence[str]) -> bool:
    wanted = " ".join(words(wording))
    return bool(wanted) and any(f" {wanted} " in text for text in texts)


def _number(word: str) -> str:
    if "." not in word:
        return word
    trimmed = word.rstrip("0").rstrip(".")
    return f"0{trimmed}" if trimmed.startswith(".") else trimmed or "0"
