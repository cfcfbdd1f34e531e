"""The words of the made-up world by language: goods, names, events, and templates of sentences.

They are in ``words.yaml`` for English and in ``words_de.yaml`` and ``words_zh.yaml``.

The lists are long enough for hundreds of different companies. In templates ``[a|b]`` is a choice and ``{slot}`` is
filled by ``expand`` in ``report.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from importlib import resources
from typing import Any, Final

import yaml
from babel import Locale

from okralong.pipelines.core.types import InputError


@dataclass(frozen=True, slots=True)
class Metric:
    """A yearly figure. ``ask`` names it in a question; templates may use {now}, {then}, {year} and {last}.

    ``form`` is its printed form ("${} million"), ``places`` its decimals, ``low`` and ``high`` its range in the first
    year. ``term`` is the word that a text without this figure does not contain.
    """

    key: str
    term: str
    ask: str
    form: str
    places: int
    low: int
    high: int
    templates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trade:
    """A line of business: last names of firms, divisions with two goods each, materials bought, and customers."""

    key: str
    surnames: tuple[str, ...]
    divisions: tuple[tuple[str, str, str], ...]
    materials: tuple[str, ...]
    customers: tuple[str, ...]


def _tuples(value: Any) -> Any:
    """Return YAML content with tuples in place of its lists."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The words of one language.

    Attributes:
        language: Its code of ISO 639-1.
        metrics: The yearly figures.
        trades: The lines of business.
        first_names: First names by pronoun, "she" or "he".
        sections: Templates by the title of the section that grows with the length of a report.
        phrases: The sentences of reports and questions by key, with slots as in ``str.format``, or lists of them.
        labels: What tables and texts show for our English keys, such as labels of rows; English has none.
    """

    language: str
    metrics: tuple[Metric, ...]
    trades: tuple[Trade, ...]
    first_names: Mapping[str, tuple[str, ...]]
    last_names: tuple[str, ...]
    houses: tuple[str, ...]
    towns: tuple[str, ...]
    stems: tuple[str, ...]
    pastimes: tuple[str, ...]
    former_posts: tuple[str, ...]
    subjects: tuple[str, ...]
    landmarks: tuple[str, ...]
    months: tuple[str, ...]
    regions: tuple[str, ...]
    rises: tuple[str, ...]
    falls: tuple[str, ...]
    projects: tuple[tuple[str, str], ...]
    faults: tuple[tuple[str, str], ...]
    storms: tuple[tuple[str, str, str], ...]
    recoveries: tuple[str, ...]
    risks: tuple[tuple[str, str, str], ...]
    sections: Mapping[str, tuple[str, ...]]
    phrases: Mapping[str, Any]
    labels: Mapping[str, str]

    def say(self, key: str, **slots: object) -> str:
        """Return a sentence with its slots filled."""
        return str(self.phrases[key]).format(**slots)

    def label(self, key: str) -> str:
        """Return what the language shows for one of our keys."""
        return self.labels.get(key, key)

    @cached_property
    def _separators(self) -> dict[int, str]:
        symbols = Locale.parse(self.language).number_symbols["latn"]
        return str.maketrans({",": str(symbols["group"]), ".": str(symbols["decimal"])})

    def number(self, value: int | Decimal) -> str:
        """Return a number with thousands separated."""
        return f"{value:,}".translate(self._separators)

    def amount(self, value: int) -> str:
        """Return a whole number as accounts print it; English puts negative ones in parentheses."""
        if value >= 0 or self.language != ENGLISH:
            return self.number(value)
        return f"({self.number(-value)})"

    def show(self, metric: Metric, value: Decimal) -> str:
        """Return a yearly figure as the report prints it."""
        return metric.form.format(self.number(value))

    def joined(self, sentences: Iterable[str]) -> str:
        """Return sentences as a paragraph: with blanks between them, where the language writes any."""
        return ("" if self.language == CHINESE else " ").join(sentences)


ENGLISH: Final = "en"
CHINESE: Final = "zh"
LANGUAGES: Final = (ENGLISH, "de", CHINESE)
"""The languages of reports."""


@cache
def lexicon(language: str = ENGLISH) -> Lexicon:
    """Return the words of a language. Raises InputError if there are none."""
    if language not in LANGUAGES:
        raise InputError(f"The sample has no reports in {language!r}; choose from {', '.join(LANGUAGES)}.")
    name = "words.yaml" if language == ENGLISH else f"words_{language}.yaml"
    text = resources.files("okralong.pipelines.samples").joinpath(name).read_text(encoding="utf-8")
    found: dict[str, Any] = _tuples(yaml.safe_load(text))
    found["metrics"] = tuple(Metric(**each) for each in found["metrics"])
    found["trades"] = tuple(Trade(**each) for each in found["trades"])
    return Lexicon(language=language, **found)
