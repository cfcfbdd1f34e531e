"""Tell text from the gibberish of fonts without a Unicode map.

Words of a real language take few tokens of o200k_base: a token stands for 3 to 7 characters of an unknown English page,
2.4 and more in the other Latin languages tried, and for 1.6 to 2.1 of words whose letters were exchanged. The method
needs no model of its own. ``benchmarks/results/pdf_legible.md`` has the rates of hits and of false alarms.
"""

from __future__ import annotations

import re
from typing import Final

from okralong.pipelines.core.tokens import count_tokens

_FREQUENT_WORDS: Final = (
    "the of and in to for is on as with by or that from at our we are be not it an this was has total net year ended "
    "december income tax cash assets share shares company inc page financial statements notes other per million "
    "der die das und den von zu mit ist des auf für im nicht ein eine le la les de et du un une pour que est dans "
    "el los las del por con se una il di che della da non het een van en op te met dat os do em para não com na nie"
)
_FREQUENT: Final = frozenset(_FREQUENT_WORDS.split())
"""A page that has many needs no closer look, so that the tokenizer is seldom loaded (0.6 s, 140 MB)."""
_FREQUENT_SHARE: Final = 0.08
"""Share of frequent words that proves a text; garbled pages had 0.01, all but 4 % of real ones more. # measured"""

_LATIN: Final = re.compile(r"(?<!\w)[A-Za-z\u00c0-\u024f]{4,40}(?!\w)")
_OTHER: Final = re.compile(r"(?<!\w)[\u0370-\u06ff\u0900-\u0fff\u10a0-\u10ff]{4,40}(?!\w)")
"""Words of scripts with letters. Chinese, Japanese and Korean have too few characters per token in any text."""
_LONGEST_ACRONYM: Final = 5
"""Upper-case words up to this length are tickers and codes as often as words."""
_MOST_WORDS: Final = 300
_LEAST_WORDS: Final = 20
"""A page with fewer distinct words is never called illegible without a sign of another kind."""
_PROOF_SHARE: Final = 0.2
_PROOF_CHARS: Final = 1000
"""Share of a text, or of this much, that its distinct words must be to prove it. # project default"""
_LATIN_PER_TOKEN: Final = 2.15
_OTHER_PER_TOKEN: Final = 1.25
"""Characters per token below which words are gibberish. # measured on half of the files"""

_CP1252_TAIL: Final = "".join(bytes([code]).decode("cp1252", "replace") for code in range(0x80, 0xC0))
_MOJIBAKE: Final = re.compile(f"[\u00c2-\u00df][{_CP1252_TAIL}]|[\u00e0-\u00ef][{_CP1252_TAIL}]{{2}}")
"""A character in UTF-8 that was read as cp1252."""
_MOJIBAKE_SHARE: Final = 0.2
"""Share of a text that is mojibake if its language is not written in Latin letters. # project default"""


def is_legible(text: str, proof: bool = False) -> bool:
    """Return whether a text may be in a language; with ``proof``, whether its words show that it is."""
    words = text.lower().split()
    if sum(map(_FREQUENT.__contains__, words)) > max(1, _FREQUENT_SHARE * len(words)):
        return True
    if sum(len(found[0]) for found in _MOJIBAKE.finditer(text)) > _MOJIBAKE_SHARE * len(text):
        return False
    latin, other = _distinct(_LATIN, text), _distinct(_OTHER, text)
    chars = sum(map(len, latin + other))
    if proof and (not chars or chars < _PROOF_SHARE * min(sum(map(len, words)), _PROOF_CHARS)):
        return False
    if not proof and len(latin) + len(other) < _LEAST_WORDS:
        return True
    tokens = count_tokens(" ".join(["", *latin, *other]))
    return tokens <= sum(map(len, latin)) / _LATIN_PER_TOKEN + sum(map(len, other)) / _OTHER_PER_TOKEN


def _distinct(kind: re.Pattern[str], text: str) -> list[str]:
    """Return distinct words in lower case, evenly chosen if there are many."""
    found = (word for word in kind.findall(text) if len(word) > _LONGEST_ACRONYM or not word.isupper())
    words = list(dict.fromkeys(word.lower() for word in found))
    return words[:: len(words) // _MOST_WORDS + 1]


_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff]{2,40}")
_LEAST_RIGHT_TO_LEFT: Final = 10
_TURNED_SHARE: Final = 0.25
"""Share of words that read better backwards on a page with turned words: 0.5 and 0.6 in pages that Chrome printed, 0.11
and less in texts of six languages. # measured"""


def without_turned_words(text: str) -> str:
    """Return a text with the words turned round whose letters stand in the reverse order.

    PDFium turns words from right to left that already are in their order, where a file says so (``/ReversedChars``).
    """
    words = set(_RIGHT_TO_LEFT.findall(text))
    if len(words) < _LEAST_RIGHT_TO_LEFT:
        return text
    turned = {word for word in words if count_tokens(f" {word[::-1]}") < count_tokens(f" {word}")}
    if len(turned) < _TURNED_SHARE * len(words):
        return text
    return _RIGHT_TO_LEFT.sub(lambda found: found[0][::-1] if found[0] in turned else found[0], text)
