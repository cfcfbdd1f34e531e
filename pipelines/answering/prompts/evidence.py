"""Reading the evidence lines of a reply: ``[2] "words of passage 2"``, and what small models make of that form.

Understood: several entries in a line, ``[1, 3]``, ``passage 2:``, straight and curly quote marks, words without quote
marks, words without a number, a number without words, quote marks inside the words. What is named here is only a
claim; ``citations.py`` looks whether it is true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """A claim of the reply: the passage's number from 1 (0: not said), and the words quoted ("": none)."""

    passage: int
    quote: str


_OPEN, _CLOSE = '["“„«]', '["”“»]'
_NEXT_ENTRY = rf"\[\s*\d{{1,4}}\s*\]\s*:?\s*{_OPEN}"


def _reference(name: str) -> str:
    """Pattern of "[2]", "[1, 3]", "[passage 2]" or "passage 2"; the numbers are in group ``name`` or ``name_w``."""
    numbers = r"\d{1,4}(?:\s*[,;]\s*\d{1,4})*"
    return rf"(?:\[\s*(?:passage\s*|id\s*=\s*)?(?P<{name}>{numbers})\s*\]|passage\s*#?(?P<{name}_w>\d{{1,4}}))"


_ENTRY = re.compile(
    # Words in quote marks, with or without a number. They end at a quote mark that has only punctuation or another
    # entry after it, or where the reply was cut short; they never run on into the next entry.
    rf"(?:{_reference('quoted')}\s*[:,\u2013\u2014-]?\s*)?{_OPEN}(?P<quote>(?:(?!{_NEXT_ENTRY}).)+?)"
    rf"(?:{_CLOSE}(?=\s*(?:$|\n|\[\s*\d|passage\s*\d|[;,.]|and\b|{_OPEN}|\())|\Z)"
    # A number, with or without bare words.
    rf"|{_reference('bare')}\s*[:\u2013\u2014-]?[ \t]*(?P<words>[^\n\[\"“„«]*)",
    re.DOTALL | re.IGNORECASE,
)
_INLINE = re.compile(r"\s*\[\s*(\d{1,3}(?:\s*,\s*\d{1,3})*)\s*\]")


def parse_evidence(text: str) -> tuple[Evidence, ...]:
    """The claims in an evidence section, in the order of the reply, each once."""
    found: list[Evidence] = []
    for match in _ENTRY.finditer(text):
        groups = ("quoted", "quoted_w", "bare", "bare_w")
        numbers = next((match[group] for group in groups if match[group]), "0")
        quote = (match["quote"] or match["words"] or "").strip().strip(".,;:").strip()
        found += [Evidence(int(number), quote) for number in re.findall(r"\d+", numbers)]
    if not found and text.strip():
        # Neither number nor quote marks: each line may still hold words of a passage.
        found = [Evidence(0, line.strip(" \t-*•")) for line in text.splitlines() if line.strip(" \t-*•")]
    return tuple(dict.fromkeys(found))


def take_references(answer: str) -> tuple[str, tuple[Evidence, ...]]:
    """``answer`` without bracketed numbers such as "[2]", and the passages that they named.

    An answer that is nothing but such a number stays as it is.
    """
    bare = _INLINE.sub("", answer).strip()
    if not bare:
        return answer.strip(), ()
    numbers = [number for match in _INLINE.finditer(answer) for number in re.findall(r"\d+", match.group(1))]
    return bare, tuple(dict.fromkeys(Evidence(int(number), "") for number in numbers))
