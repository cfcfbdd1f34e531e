"""The terms of texts and queries, which BM25 counts, by language.

Documents have the terms of their own language, and a query those of all languages of its scope. In a scope in English,
terms are English stems of lower-case words of two or more letters, without stop words. Tests check that they equal
those of ``bm25s.tokenize`` with its English stop words and PyStemmer. bm25s itself cannot be used: it renumbers the
terms with each call, while an index needs one vocabulary.

Other languages with an alphabet have the Snowball stems of their words, without accents. Chinese, Korean and Thai have
pairs of adjacent characters, which found as much as a segmenter, and Japanese has pairs of Chinese characters and whole
words of katakana. Both were chosen on the tuning questions of ``benchmarks/results/languages.md``.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Final

import numpy as np
import Stemmer
from bm25s import stopwords
from numpy.typing import NDArray

from okralong.pipelines.core.languages import ENGLISH, UNKNOWN

_WORD: Final = re.compile(r"\b\w\w+\b")
_STEMMERS_TEXT: Final = """
ar arabic ca catalan cs czech da danish de german el greek en english es spanish et estonian fa persian fi finnish
fr french hi hindi hu hungarian id indonesian it italian lt lithuanian nl dutch no norwegian pl polish pt portuguese
ro romanian ru russian sr serbian sv swedish ta tamil tr turkish
"""
_STEMMERS: Final = dict(zip(_STEMMERS_TEXT.split()[::2], _STEMMERS_TEXT.split()[1::2], strict=True))
"""The Snowball stemmers by language."""
_STOP_WORDS: Final = {
    "da": stopwords.STOPWORDS_DANISH,
    "de": stopwords.STOPWORDS_GERMAN,
    "en": stopwords.STOPWORDS_EN,
    "es": stopwords.STOPWORDS_SPANISH,
    "fr": stopwords.STOPWORDS_FRENCH,
    "it": stopwords.STOPWORDS_ITALIAN,
    "nl": stopwords.STOPWORDS_DUTCH,
    "no": stopwords.STOPWORDS_NORWEGIAN,
    "pt": stopwords.STOPWORDS_PORTUGUESE,
    "ru": stopwords.STOPWORDS_RUSSIAN,
    "sv": stopwords.STOPWORDS_SWEDISH,
    "tr": stopwords.STOPWORDS_TURKISH,
}
"""Languages without a list have no stop words: frequent words have little weight anyway."""
PAIRED: Final = frozenset({"ja", "ko", "th", "zh"})
"""The languages whose terms are pairs of characters."""
_PAIRED_SCRIPTS: Final = (
    "\u0e00-\u0e7f\u1100-\u11ff\u3005\u3041-\u3096\u3099-\u30fa\u30fc-\u30ff\u3130-\u318f\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_OTHER_WORD: Final = rf"[^\W{_PAIRED_SCRIPTS}]{{2,}}"
_RUN: Final = re.compile(rf"[{_PAIRED_SCRIPTS}]+|{_OTHER_WORD}")
_KATAKANA: Final = "\u30a1-\u30fa\u30fc-\u30ff"
_JAPANESE_RUN: Final = re.compile(
    rf"[{_KATAKANA}]+|[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+|{_OTHER_WORD}"
)
_LONG_VOWEL: Final = "\u30fc"


@dataclass(frozen=True)
class Terms:
    """How the terms of a language are made: split a text into words, and turn each word into a term.

    ``term`` returns "" for a stop word. It keeps the terms of the words it has seen, up to ``_MOST_KNOWN``.
    """

    words: Callable[[str], list[str]]
    make: Callable[[str], str]
    known: dict[str, str] = field(default_factory=dict)

    def term(self, word: str) -> str:
        """Return the term of a word, "" for a stop word."""
        if word not in self.known:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[word] = self.make(word)
        return self.known[word]


_MOST_KNOWN: Final = 100_000
"""Words whose terms are cached per language and thread; they take some 10 MB. project default"""


class _PerThread(threading.local):
    """The languages in use, per thread, because the C object of a stemmer is not thread-safe: it has a buffer."""

    def __init__(self) -> None:
        self.by_language: dict[str, Terms] = {}


_per_thread = _PerThread()


def terms_language(code: str) -> str:
    """Return the language whose terms a document in the language ``code`` has; English if it is unknown."""
    return ENGLISH if code in ("", UNKNOWN) else code


def _terms_of(language: str) -> Terms:
    if language not in _per_thread.by_language:
        _per_thread.by_language[language] = _new_terms(language)
    return _per_thread.by_language[language]


def _new_terms(language: str) -> Terms:
    stop = frozenset(_STOP_WORDS.get(language, ()))
    if language == ENGLISH:
        stem = Stemmer.Stemmer("english").stemWord
        return Terms(lambda text: _WORD.findall(text.lower()), lambda word: "" if word in stop else stem(word))
    if language in PAIRED:
        english, words = Stemmer.Stemmer("english").stemWord, _japanese if language == "ja" else _pairs
        return Terms(words, lambda word: english(word) if word.isascii() else word)
    stem = Stemmer.Stemmer(_STEMMERS[language]).stemWord if language in _STEMMERS else str
    stop = stop | {_without_accents(word) for word in stop}
    return Terms(
        lambda text: _WORD.findall(_normal(text)), lambda word: "" if word in stop else _without_accents(stem(word))
    )


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def _pairs(text: str) -> list[str]:
    """Return the pairs of adjacent characters in each run of Chinese, Japanese, Korean or Thai, and other words."""
    return [word for run in _RUN.findall(_normal(text)) for word in (_paired(run) if _HAS_PAIRS.match(run) else [run])]


def _japanese(text: str) -> list[str]:
    """Return the pairs of Chinese characters, words of katakana, and other words; hiragana is mostly grammar."""
    found: list[str] = []
    for run in _JAPANESE_RUN.findall(_normal(text)):
        if _KATAKANA_RUN.match(run):
            found.append(run.rstrip(_LONG_VOWEL) if len(run) > _SHORT_WORD else run)
        else:
            found.extend(_paired(run) if _HAS_PAIRS.match(run) else [run])
    return found


def _paired(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)] or [run]


_HAS_PAIRS: Final = re.compile(rf"[{_PAIRED_SCRIPTS}]")
_KATAKANA_RUN: Final = re.compile(rf"[{_KATAKANA}]")
_SHORT_WORD: Final = 3
"""Longer words of katakana are also spelled without a long vowel at their end."""
_LATIN: Final = re.compile("[a-z\u00df-\u024f]+")


@lru_cache(1 << 16)
def _without_accents(word: str) -> str:
    """Return a word of Latin letters without accents; in other scripts, marks are letters."""
    if word.isascii() or not _LATIN.fullmatch(word):
        return word
    return "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))


def analyze_query(text: str, languages: Collection[str] = (ENGLISH,), asked: str = ENGLISH) -> list[str]:
    """Return the terms of a query in the order of its words, with repetitions.

    A word with equal terms in several languages counts once. Stop words of the query's own language are left out if
    that is a language of the scope.

    Args:
        text: The query.
        languages: The languages of the documents in the scope.
        asked: The language of the query.
    """
    own = [language for language in (asked,) if language in languages]
    ordered = [*own, *sorted({terms_language(each) for each in languages} - set(own))]
    found: list[str] = []
    silent = frozenset(_STOP_WORDS.get(asked, ())) if own and len(ordered) > 1 else frozenset()
    for language in ordered:
        terms = _terms_of(language)
        mine = [term for word in terms.words(text) if word not in silent and (term := terms.term(word))]
        more = Counter(mine) - Counter(found)
        for term in mine:
            if more[term] > 0:
                more[term] -= 1
                found.append(term)
    return found


@dataclass(frozen=True, slots=True)
class TermTable:
    """The terms of several texts as numbers.

    ``vocabulary`` is sorted by code point. ``terms`` has the vocabulary index of every term, text after text;
    ``lengths`` has the number of terms of each text.
    """

    vocabulary: list[str]
    terms: NDArray[np.int64]
    lengths: NDArray[np.int32]


def analyze_texts(texts: Iterable[str], languages: Sequence[str] | None = None) -> TermTable:
    """Return the terms of many texts, each in its language (default: English)."""
    number_of_stem: dict[str, int] = {}
    number_of_word: dict[str, dict[str, int]] = {}
    flat = array("q")
    lengths = array("i")
    for text, language in zip(texts, repeat(ENGLISH) if languages is None else languages, strict=languages is not None):
        terms, known = _terms_of(language), number_of_word.setdefault(language, {})
        before = len(flat)
        for word in terms.words(text):
            number = known.get(word)
            if number is None:
                term = terms.make(word)
                number = number_of_stem.setdefault(term, len(number_of_stem)) if term else _STOP
                known[word] = number
            if number != _STOP:
                flat.append(number)
        lengths.append(len(flat) - before)
    vocabulary = sorted(number_of_stem)
    rank = np.empty(len(vocabulary), dtype=np.int64)
    rank[[number_of_stem[term] for term in vocabulary]] = np.arange(len(vocabulary))
    return TermTable(vocabulary, rank[np.frombuffer(flat, dtype=np.int64)], np.array(lengths, dtype=np.int32))


_STOP: Final = -1
