"""Counts and durations in messages: "1 document", "2,000 documents", "3 min"."""

from __future__ import annotations

from typing import Final

_IRREGULAR: Final = {"has": "have", "is": "are", "was": "were", "does": "do", "its": "their", "this": "these"}
_SIBILANTS: Final = ("s", "x", "z", "ch", "sh")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun: "1 document", "2,000 documents", "0 replies".

    ``noun`` may be several words, of which the last one changes; ``plural`` replaces a plural that is not regular.
    """
    return f"{number:,} {noun if number == 1 else plural or plural_of(noun)}"


def agreeing(number: int, verb: str) -> str:
    """Return a verb that is given in the singular ("is", "matches") or "its" or "this" as it agrees with ``number``."""
    if number == 1:
        return verb
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    return verb.removesuffix("es") if verb.endswith(tuple(f"{end}es" for end in _SIBILANTS)) else verb.removesuffix("s")


def shortened(words: str, limit: int) -> str:
    """Return at most ``limit`` characters of a text, followed by dots if there are more."""
    return words if len(words) <= limit else f"{words[:limit]} ..."


def plural_of(noun: str) -> str:
    """Return the regular plural of a noun."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_SIBILANTS) else f"{noun}s"
