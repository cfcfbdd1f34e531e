"""Words of names, compared without blanks, case, accents, punctuation and legal forms."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

PIECE: Final = re.compile(r"[^\W_]+")
_DOTTED: Final = re.compile(r"\b(?:[^\W\d_]\.){2,}")
_POSSESSIVE: Final = re.compile(r"['\u2019](?:s\b|(?=\s|$))", re.IGNORECASE)
LEGAL_FORMS: Final = frozenset(
    [
        "inc",
        "incorporated",
        "corp",
        "corporation",
        "company",
        "companies",
        "co",
        "ltd",
        "limited",
        "llc",
        "llp",
        "lp",
        "plc",
        "ag",
        "sa",
        "se",
        "nv",
        "ab",
        "asa",
        "oyj",
        "gmbh",
        "kgaa",
        "spa",
        "berhad",
        "bhd",
        "pty",
        "group",
        "holdings",
        "holding",
        "com",
    ]
)
"""Words at the end of companies' names that other spellings of the name omit."""
_UNSPACED_FORMS: Final = re.compile(
    "株式会社|有限会社|合同会社|주식회사|(?:集团|集團)?(?:股份|控股)?有限(?:责任|責任)?公司|股份公司"
)
"""Legal forms of Chinese, Japanese and Korean names, before or after the name."""
UNSPACED: Final = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")
"""Letters of scripts in which a name stands in a question without blanks around it, or with a particle."""
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_CONNECTORS_TEXT: Final = "the of and for a an de"
CONNECTORS: Final = frozenset(_CONNECTORS_TEXT.split())


def plain(word: str) -> str:
    """Return a word in lower case without accents."""
    folded = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in folded if not unicodedata.combining(char))


def unspaced_names(name: str) -> set[str]:
    """Return a name of Chinese, Japanese or Korean letters without its legal form; an empty set for other names."""
    if not UNSPACED.search(name):
        return set()
    short = plain("".join(PIECE.findall(_UNSPACED_FORMS.sub("", unicodedata.normalize("NFKC", name)))))
    return {short} if len(short) > 1 else set()


def with_umlauts_spelled(name: str) -> str:
    """Return a name with German umlauts in two letters: "Mueller" for "Müller"."""
    return unicodedata.normalize("NFC", name).translate(_UMLAUTS)


def undotted(text: str) -> str:
    """Return a text with "S.A." and "J.P." as "SA" and "JP", of the same length."""
    return _DOTTED.sub(lambda match: match[0].replace(".", "").ljust(len(match[0])), text)


def pieces_of(text: str) -> list[str]:
    """Return the plain words of a text, without possessive 's."""
    joined = undotted(_POSSESSIVE.sub(" ", text))
    return [plain(piece) for piece in PIECE.findall(joined)]


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a company's name without legal forms at its end, connectors, case and accents."""
    words = [word for word in pieces_of(re.sub(r"[\\/][A-Z]{2,3}[\\/]?\s*$", "", name)) if word not in CONNECTORS]
    while len(words) > 1 and words[-1] in LEGAL_FORMS:
        words.pop()
    return tuple(words)


def company_key(name: str) -> str:
    """Return a company's name for comparisons: "Activision Blizzard, Inc." and ACTIVISIONBLIZZARD give the same."""
    return "".join(name_words(name))
