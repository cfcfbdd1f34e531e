"""Decide which dollar "$" is in a document: that of its statements as the document names it, or that of its country."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from okralong.pipelines.statements.amounts import UNKNOWN

DOLLARS: Final = ("USD", "CAD", "AUD", "NZD", "HKD", "SGD", "TWD")


def own_dollar(text: str) -> str:
    """Return the code of the dollar that a document's amounts in "$" are in.

    It is "unknown" if nothing tells, and "" if the document is a short text without any hint.
    """
    said = Counter(_code(match["name"]) for match in _DOLLAR.finditer(text) if _is_said(text, match))
    home = _FORM.search(text, 0, _COVER) is not None
    usual = sum(text.count(word) for word in _AMERICAN)
    abroad = max(sum(text.count(word) for word in words) for words in _ABROAD)
    if said:
        if home or usual > abroad:
            said["USD"] += 1 + home
        (best, times), *rest = said.most_common(2)
        return best if not rest or times >= _CLEARLY * rest[0][1] else UNKNOWN
    if home or usual > abroad:
        return "USD"
    return UNKNOWN if abroad or len(text) > _SHORT else ""


_CLEARLY: Final = 2
"""A document's dollar is the one that it names at least this many times as often as any other. project default"""
_COVER: Final = 20_000
"""Characters in which a report for the SEC names its form. project default"""
_SHORT: Final = 50_000
"""Characters of a text that need not tell its country: an extract of an American report. project default"""
_NAMES: Final = {
    "USD": r"U\.?\s?S\.?A?\.?|United\s+States|American",
    "CAD": "Canadian",
    "AUD": "Australian",
    "NZD": r"New\s+Zealand",
    "HKD": r"Hong\s+Kong|H\.?K\.?",
    "SGD": "Singapore",
    "TWD": r"(?:New\s+)?Taiwan",
}
_CODES: Final = {"C$": "CAD", "CA$": "CAD", "A$": "AUD", "NZ$": "NZD", "HK$": "HKD", "S$": "SGD", "NT$": "TWD"}
_DOLLAR: Final = re.compile(
    rf"(?<![A-Za-z])(?P<name>(?i:{'|'.join(_NAMES.values())})(?=\s*(?i:dollars?)\b)|(?:{'|'.join(DOLLARS)})(?![A-Za-z])"
    r"|(?:US|C|CA|A|NZ|HK|S|NT)\$(?![\s(]{0,3}\d))"
)


def _code(name: str) -> str:
    """Return the code of the dollar that a name, a code or a sign means."""
    if name in DOLLARS:
        return name
    if name.endswith("$"):
        return _CODES.get(name, "USD")
    return next(code for code, pattern in _NAMES.items() if re.fullmatch(pattern, name, re.IGNORECASE))


def _is_said(text: str, match: re.Match[str]) -> bool:
    """Return whether a dollar is named as what amounts are in: "(in thousands of Canadian dollars)"."""
    before = text[max(0, match.start() - _BEFORE) : match.start()]
    return _SAID.search(before) is not None and _NOT_SAID.search(before) is None


_BEFORE: Final = 90
"""Characters before the name of a dollar that may say that amounts are in it. project default"""
_SAID: Final = re.compile(
    r"(?:thousands|millions|billions|000s?)\s+(?:of\s+)?$|(?:thousand|million)s?\sof\s$"
    r"|\b(?:expressed|presented|stated|reported|prepared|shown|figures|amounts?|tabular|quoted)\b[^.;]{0,60}\bin\s+(?:the\s+)?$"
    r"|\b(?:presentation|reporting)\s+currency\b[^.;]{0,50}\b(?:is|as|of|be|in|being|was|the)\s+(?:the\s+)?$"
    r"|[\"\u201c\u201d(]\s?\$\s?[\"\u201c\u201d)][^.;]{0,50}\b(?:are|is|to|mean|means|denotes?|represents?|in)\s+(?:the\s+)?$"
    r"|\(in\s$",
    re.IGNORECASE,
)
_NOT_SAID: Final = re.compile(
    r"\b(?:denominated|payable|settled|exchange|converted|translated|borrowings?|notes|bonds|subsidiar\w+)\b",
    re.IGNORECASE,
)
_FORM: Final = re.compile(r"\bform\s{0,3}(?:10-[kq]|8-k)\b|\bsecurities\s+and\s+exchange\s+commission\b", re.IGNORECASE)
_AMERICAN: Final = ("United States", "U.S.", "US GAAP", "Form 10-", "Delaware", "Internal Revenue", "401(k)", "NYSE")
_ABROAD: Final = (
    ("Canada", "Canadian", "TSX", "Toronto", "Ontario"),
    ("Australia", "ASX", "ABN ", "Pty"),
    ("New Zealand", "NZX"),
    ("Hong Kong", "HKEX"),
    ("Singapore", "SGX"),
    ("Taiwan",),
    ("Jamaica", "Namibia", "Fiji", "Barbados", "Trinidad"),
)
