"""From text to search terms: lower case, words of two letters or more, no stop words, English stems.

The rule is that of ``bm25s.tokenize`` with its English stop words and PyStemmer, which the tests hold us to. It stands
here on its own because bm25s numbers its terms anew with each call, while an index needs one vocabulary.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN
from numpy.typing import NDArray

_WORD = re.compile(r"\b\w\w+\b")
_STOP_WORDS = frozenset(STOPWORDS_EN)


class _EnglishStemmer(threading.local):
    """One stemmer a thread: the C object keeps a buffer between calls."""

    def __init__(self) -> None:
        self.stemmer = Stemmer.Stemmer("english")


_english = _EnglishStemmer()


def analyze_query(text: str) -> list[str]:
    """The terms of a query in the order of its words; a term that is said twice stands twice and counts twice."""
    words = [word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]
    return list(_english.stemmer.stemWords(words))


@dataclass(frozen=True, slots=True)
class TermTable:
    """Texts as numbers. ``vocabulary`` is sorted by code point.

    ``terms`` holds the vocabulary index of every term of every text, text after text; ``lengths`` the number of terms
    of each text.
    """

    vocabulary: list[str]
    terms: NDArray[np.int64]
    lengths: NDArray[np.int32]


def analyze_texts(texts: Iterable[str]) -> TermTable:
    """``analyze_query`` of many texts; each distinct word is stemmed once."""
    number_of_stem: dict[str, int] = {}
    number_of_word: dict[str, int] = {}
    flat = array("q")
    lengths = array("i")
    stem = _english.stemmer.stemWord
    for text in texts:
        before = len(flat)
        for word in _WORD.findall(text.lower()):
            number = number_of_word.get(word)
            if number is None:
                if word in _STOP_WORDS:
                    continue
                number = number_of_stem.setdefault(stem(word), len(number_of_stem))
                number_of_word[word] = number
            flat.append(number)
        lengths.append(len(flat) - before)
    vocabulary = sorted(number_of_stem)
    rank = np.empty(len(vocabulary), dtype=np.int64)
    rank[[number_of_stem[term] for term in vocabulary]] = np.arange(len(vocabulary))
    return TermTable(vocabulary, rank[np.frombuffer(flat, dtype=np.int64)], np.array(lengths, dtype=np.int32))
