"""Templates that become sentences: ``[a|b]`` is a choice, ``{slot}`` is filled from a context, choices may nest.

A ``Writer`` remembers what a report has already said and rolls again rather than repeat itself.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Final

_CHOICE: Final = re.compile(r"\[([^\[\]]*)\]")
_ARTICLE: Final = re.compile(r"\b([Aa]) (?=[\ue000-\ue002]?(?!one|uni|use|eu|ewe)[aeiou])", re.IGNORECASE)
_ATTEMPTS: Final = 12  # ours: enough that a repeat is rare and an exhausted template list still ends

Context = Mapping[str, str | Sequence[str]]


def expand(template: str, rng: random.Random, context: Context) -> str:
    """The template with its choices made and its slots filled, "a" turned into "an" where speech asks for it."""
    text = template
    while match := _CHOICE.search(text):
        text = text[: match.start()] + rng.choice(match.group(1).split("|")) + text[match.end() :]
    filled = {name: value if isinstance(value, str) else rng.choice(value) for name, value in context.items()}
    filled["n"], filled["m"] = str(rng.randint(3, 19)), str(rng.randint(21, 97))
    filled["day"] = str(rng.randint(1, 28))
    text = _ARTICLE.sub(r"\1n ", text.format_map(filled))
    return text[0].upper() + text[1:]


class Writer:
    """Writes sentences for one report. Not shared between reports: each remembers only its own words."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._said: set[str] = set()
        self._decks: dict[tuple[str, ...], list[str]] = {}

    def sentence(self, templates: Sequence[str], context: Context) -> str:
        """A sentence from one of the templates, new to this report wherever the templates allow it."""
        for _ in range(_ATTEMPTS):
            text = expand(self.rng.choice(templates), self.rng, context)
            if text not in self._said:
                break
        self._said.add(text)
        return text

    def paragraph(self, templates: tuple[str, ...], context: Context, sentences: int) -> str:
        """Several sentences from different templates, dealt from a shuffled deck so that each comes equally often."""
        chosen: list[str] = []
        while len(chosen) < min(sentences, len(templates)):
            deck = self._decks.setdefault(templates, [])
            if not deck:
                deck += self.rng.sample(templates, k=len(templates))
            card = deck.pop()
            if card not in chosen:
                chosen.append(card)
        return " ".join(self.sentence((template,), context) for template in chosen)
