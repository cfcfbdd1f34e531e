"""Detect the languages of documents and questions.

The classifier is py3langid: a naive Bayes model of 4 MB over byte n-grams, restricted here to languages of business
documents. Compared with lingua on 5,317 English questions and 66 short questions in 13 other languages, it was wrong
less often on the English ones (9 against 57), hardly more often on the others (5 against 2), and 14 times faster.
English has the benefit of the doubt, because terms, prompts and rules were measured in English.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from py3langid.langid import MODEL_FILE, LanguageIdentifier

ENGLISH: Final = "en"
UNKNOWN: Final = "und"
"""The code of ISO 639 for a language that could not be determined."""

_DETECTED_TEXT: Final = """
ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id it ja ko lt lv ms nl no pl pt ro ru sk sl sr sv ta te th tr uk
ur vi zh
"""
DETECTED: Final = tuple(_DETECTED_TEXT.split())
"""The languages that can be detected, as codes of ISO 639-1. project default"""

_PIECES: Final = 9
_PIECE_CHARS: Final = 600
"""A document is judged by this many pieces of this many characters, evenly spaced. project default"""
_LEAST_LETTERS: Final = 24
"""The language of a piece with fewer letters is unknown. project default"""
_SURE_PIECE: Final = 0.6
"""Least probability of a language other than English for a piece of a document. project default"""
_SURE_QUESTION: Final = 0.5
"""Least probability of a language other than English for a question. project default"""
_SURE_DESPITE_ENGLISH: Final = 0.95
"""The same if the question has English question words, often beside foreign names, or if all documents in scope are
English. project default"""

_ENGLISH_WORDS_TEXT: Final = """
who whose what which when where how why did does the were has have had is are between according and from with for by of
"""
_ENGLISH_WORDS: Final = frozenset(_ENGLISH_WORDS_TEXT.split())
_ENGLISH_BEGINNINGS_TEXT: Final = "who whose what which when where how why did does"
_ENGLISH_BEGINNINGS: Final = frozenset(_ENGLISH_BEGINNINGS_TEXT.split())
_FUNCTION_WORDS_TEXT: Final = "the of and is was were by with for from that which are"
_FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS_TEXT.split())
_ENGLISH_SHARE: Final = 0.08
"""A piece with this share of English function words is English, whatever its names: "El Cielo is a 1950 film". project
default"""

_WORD: Final = re.compile(r"[^\W\d_]+")
_SPACED: Final = re.compile(r"[\d_|#*=<>{}\[\]\\/]+|https?://\S+|\s+")
_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_SCRIPTS: Final = {
    "ja": re.compile("[\u3041-\u30ff\uff66-\uff9f]"),
    "ko": re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
}
_DENSE: Final = 3
"""Letters of an alphabet that say as much as a letter of these scripts. project default"""
_KANA_SHARE: Final = 0.05
"""Japanese has at least this share of kana among its kana and Chinese characters. project default"""


@lru_cache(1)
def _classifier() -> LanguageIdentifier:
    """Load the classifier, which takes half a second. It has no state between calls, so threads share it."""
    whole = LanguageIdentifier.from_model_file(MODEL_FILE)
    whole.set_languages(DETECTED)
    # The rest of the model is not kept, which takes 20 MB.
    tables = whole.nb_ptc, whole.nb_pc, whole.nb_classes, whole.tk_nextmove, whole.tk_output
    return LanguageIdentifier(*tables, norm_probs=True, tk_row=whole.tk_row)


def _probabilities(text: str) -> dict[str, float]:
    return dict(_classifier().rank(_cleaned(text)))


def has_no_blanks(char: str) -> bool:
    """Return whether a character is of a script without blanks between words: Chinese, Japanese or Thai."""
    return char > "\u0dff" and bool(_HAN.match(char) or _SCRIPTS["ja"].match(char) or _SCRIPTS["th"].match(char))


def is_language(code: str) -> bool:
    """Return whether ``code`` looks like a language code of ISO 639, such as "de"."""
    return re.fullmatch(r"[a-z]{2,3}", code) is not None


def language_code(value: str) -> str:
    """Return the language code in a user's value: "de" for "DE", "de-AT" and "de_CH"; "" for other text."""
    code = re.split(r"[-_]", value.strip().lower(), maxsplit=1)[0]
    return code if is_language(code) else ""


def detect(text: str) -> str:
    """Return the language of a document as a code of ISO 639-1, or ``UNKNOWN``.

    Tables of numbers, code and very short texts are unknown. A text in several languages has that of most of its
    pieces.
    """
    votes = Counter(language for piece in _pieces(text) if (language := _language_of_piece(piece)))
    if not votes:
        return UNKNOWN
    (best, count), *_ = votes.most_common()
    return best if 2 * count > votes.total() else ENGLISH if votes[ENGLISH] == count else UNKNOWN


def question_language(text: str, languages: Collection[str] = ()) -> str:
    """Return the language of a question as a code of ISO 639-1, or ``UNKNOWN``.

    Args:
        text: The question.
        languages: Languages of the documents in scope; they decide if the words do not, as in "Umsatz 2022".
    """
    scope = {language for language in languages if language != UNKNOWN}
    sure_of_other = _SURE_DESPITE_ENGLISH if scope == {ENGLISH} else _SURE_QUESTION
    if script := _by_script(text):
        return "ja" if script == "zh" and "ja" in scope and "zh" not in scope else script
    words = _WORD.findall(text.lower())
    if not words:
        return UNKNOWN
    if words[0] in _ENGLISH_BEGINNINGS and not scope - {ENGLISH}:
        return ENGLISH  # without loading the classifier, which most runs never need
    probabilities = _probabilities(text)
    best = max(probabilities, key=lambda language: probabilities[language])
    english = sum(word in _ENGLISH_WORDS for word in words)
    if best == ENGLISH or english:
        sure = english and probabilities[best] < _SURE_DESPITE_ENGLISH
        likely = best == ENGLISH and (english or ENGLISH in scope or not scope or probabilities[best] >= _SURE_QUESTION)
        if sure or likely:
            return ENGLISH
    elif probabilities[best] >= sure_of_other and (not scope or best in scope or len(words) > _FEW_WORDS):
        return best
    if scope:
        nearest = max(scope, key=lambda each: (probabilities.get(each, 0.0), each == ENGLISH, each))
        doubtful = probabilities.get(nearest, 0.0) < _TIMES_ENGLISH * probabilities[ENGLISH]
        return ENGLISH if ENGLISH in scope and doubtful else nearest
    return best if probabilities[best] >= _SURE_QUESTION else UNKNOWN


_FEW_WORDS: Final = 3
"""A question of at most this many words is taken to be in a language of its documents. project default"""

_TIMES_ENGLISH: Final = 2.0
"""If the words of a question are ambiguous and some documents are English, another of their languages must be this many
times as probable as English. Chosen on truncated tuning questions of ``benchmarks/results/languages.md`` and truncated
English ones, of which it takes 1 % to 2 % for another language instead of 3 % to 6 %."""


def _pieces(text: str) -> list[str]:
    if len(text) <= _PIECES * _PIECE_CHARS:
        return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]
    step = (len(text) - _PIECE_CHARS) / (_PIECES - 1)
    return [text[int(number * step) : int(number * step) + _PIECE_CHARS] for number in range(_PIECES)]


def _language_of_piece(piece: str) -> str:
    """Return the language of a piece, English in doubt, or "" if it has too few letters."""
    if script := _by_script(piece):
        return script
    words = _WORD.findall(piece)
    if sum(map(len, words)) < _LEAST_LETTERS:
        return ""
    if sum(word in _FUNCTION_WORDS for word in piece.lower().split()) >= _ENGLISH_SHARE * len(words):
        return ENGLISH
    probabilities = _probabilities(piece)
    best = max(probabilities, key=lambda language: probabilities[language])
    return best if probabilities[best] >= _SURE_PIECE else ENGLISH


def _by_script(text: str) -> str:
    """Return ja, ko, th or zh for a text mostly in their scripts, else ""."""
    counts = {language: len(pattern.findall(text)) for language, pattern in _SCRIPTS.items()}
    han = len(_HAN.findall(text))
    dense = han + sum(counts.values())
    letters = sum(map(len, _WORD.findall(text))) - dense
    if dense < 2 or dense * _DENSE <= letters:
        return ""
    if counts["ja"] and counts["ja"] >= _KANA_SHARE * (han + counts["ja"]):
        counts["ja"] += han
    else:
        counts["zh"] = han
    return max(counts, key=lambda language: counts[language])


def _cleaned(text: str) -> str:
    return _SPACED.sub(" ", unicodedata.normalize("NFC", text)).strip()
