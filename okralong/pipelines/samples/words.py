"""The words of the made-up world, from ``words.yaml``: goods, names, events, and templates of sentences.

The lists are long enough for hundreds of different companies. In templates ``[a|b]`` is a choice and ``{slot}`` is
filled by ``expand`` in ``report.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from typing import Any, Final

import yaml


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

    def show(self, value: Decimal) -> str:
        """Return the value as the report prints it."""
        return self.form.format(f"{value:,}")


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


_WORDS: Final[Mapping[str, Any]] = _tuples(
    yaml.safe_load(resources.files("okralong.pipelines.samples").joinpath("words.yaml").read_text(encoding="utf-8"))
)

METRICS: Final = tuple(Metric(**each) for each in _WORDS["metrics"])
TRADES: Final = tuple(Trade(**each) for each in _WORDS["trades"])

FIRST_NAMES: Final[Mapping[str, tuple[str, ...]]] = _WORDS["first_names"]
"""By pronoun."""
LAST_NAMES: Final[tuple[str, ...]] = _WORDS["last_names"]
HOUSES: Final[tuple[str, ...]] = _WORDS["houses"]
TOWNS: Final[tuple[str, ...]] = _WORDS["towns"]
STEMS: Final[tuple[str, ...]] = _WORDS["stems"]
PASTIMES: Final[tuple[str, ...]] = _WORDS["pastimes"]
FORMER_POSTS: Final[tuple[str, ...]] = _WORDS["former_posts"]
SUBJECTS: Final[tuple[str, ...]] = _WORDS["subjects"]
LANDMARKS: Final[tuple[str, ...]] = _WORDS["landmarks"]
MONTHS: Final[tuple[str, ...]] = _WORDS["months"]
REGIONS: Final[tuple[str, ...]] = _WORDS["regions"]

RISES: Final[tuple[str, ...]] = _WORDS["rises"]
FALLS: Final[tuple[str, ...]] = _WORDS["falls"]
PROJECTS: Final[tuple[tuple[str, str], ...]] = _WORDS["projects"]
FAULTS: Final[tuple[tuple[str, str], ...]] = _WORDS["faults"]
STORMS: Final[tuple[tuple[str, str, str], ...]] = _WORDS["storms"]
RECOVERIES: Final[tuple[str, ...]] = _WORDS["recoveries"]
RISKS: Final[tuple[tuple[str, str, str], ...]] = _WORDS["risks"]

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = _WORDS["sections"]
"""Templates by the title of the section that grows with the length of a report."""
