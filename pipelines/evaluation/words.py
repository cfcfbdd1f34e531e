"""The words of a text as duplicates are found by: lower-cased, without punctuation."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+")


def plain_words(text: str) -> list[str]:
    """The letters-and-digits words of a text, lower-cased, compatibility characters made plain."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())
