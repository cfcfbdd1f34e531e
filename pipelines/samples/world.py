"""The invented companies behind the reports: who works there, what is made where, and every yearly figure.

A company is drawn from a seed of its own, ``"{seed}/{index}"``, so that its people, goods and figures are the same in
a small sample and in a large one (only the other firms that it knows depend on who else is there), and its 2022
figures in the 2023 report are those of the 2022 report.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from okralong.pipelines.samples import vocabulary as words
from okralong.pipelines.samples.accounts import Accounts, draw_accounts
from okralong.pipelines.samples.metrics import METRICS, Metric

_SEGMENTS, _SITES, _DISCLOSED = 4, 5, 13  # ours: enough for distractors, few enough for a report of 1,500 words
_FIRST_YEAR_RANGE = (2019, 2023)


@dataclass(frozen=True, slots=True)
class Person:
    """Someone with a name and a past. ``former_firm`` may be another company of the archive."""

    name: str
    pronoun: str
    joined: int
    former_post: str
    former_firm: str
    subject: str
    school_town: str
    pastime: str


@dataclass(frozen=True, slots=True)
class Site:
    """A works: one town, one manager, one opening year."""

    town: str
    manager: str
    opened: int
    landmark: str


@dataclass(frozen=True, slots=True)
class Product:
    """Something made at one site for one segment, e.g. "Heron barometer"."""

    name: str
    noun: str
    segment: str
    site: Site


@dataclass(frozen=True, slots=True)
class Segment:
    """A division with its head and its two products."""

    name: str
    head: Person
    products: tuple[Product, Product]


@dataclass(frozen=True, slots=True)
class Company:
    """A firm with everything that its reports draw on. ``years`` are the years it reports on."""

    name: str
    slug: str
    trade: words.Trade
    town: str
    founded: int
    founder: str
    chief: Person
    treasurer: Person
    segments: tuple[Segment, ...]
    sites: tuple[Site, ...]
    years: tuple[int, ...]
    disclosed: tuple[Metric, ...]
    withheld: tuple[Metric, ...]
    figures: Mapping[tuple[str, int], Decimal]
    accounts: Mapping[int, Accounts]
    peers: tuple[str, ...]

    @property
    def products(self) -> tuple[Product, ...]:
        """All products, segment by segment."""
        return tuple(product for segment in self.segments for product in segment.products)

    @property
    def officers(self) -> tuple[Person, ...]:
        """The chief executive, the treasurer and the heads of the segments: everyone with a biography."""
        return (self.chief, self.treasurer, *(segment.head for segment in self.segments))

    def doc_id(self, year: int) -> str:
        """The id of the report on that year, e.g. "tidewater-instruments-2023"."""
        return f"{self.slug}-{year}"


def company_names(count: int, seed: int) -> tuple[tuple[str, words.Trade], ...]:
    """Distinct names with their trades; two houses join ("Merrow & Larkhill Clocks") once the single ones run out."""
    rng = random.Random(f"{seed}/names")
    chosen: dict[str, words.Trade] = {}
    single = len(words.HOUSES) * len(words.TRADES) // 2
    while len(chosen) < count:
        trade = words.TRADES[len(chosen) % len(words.TRADES)]
        house = " & ".join(rng.sample(words.HOUSES, k=1 if len(chosen) < single else 2 + len(chosen) // 40_000))
        chosen.setdefault(f"{house} {rng.choice(trade.surnames)}", trade)
    return tuple(chosen.items())


def draw_company(index: int, names: tuple[tuple[str, words.Trade], ...], seed: int) -> Company:
    """The company at ``index`` of ``names``, with two years to report on."""
    rng = random.Random(f"{seed}/{index}")
    name, trade = names[index]
    slug = name.lower().replace(" & ", "-").replace(" ", "-")
    last_names = rng.sample(words.LAST_NAMES, k=2 + _SEGMENTS + _SITES + 1)
    towns = rng.sample(words.TOWNS, k=_SITES + 1)
    acquaintance = random.Random(f"{seed}/{index}/peers")
    peers = tuple(other for other, _ in acquaintance.sample(names, k=min(4, len(names))) if other != name)
    first_year = rng.randint(*_FIRST_YEAR_RANGE)
    founded = rng.randint(1841, 1968)

    def full_name(last: str) -> tuple[str, str]:
        pronoun = rng.choice(("she", "he"))
        return f"{rng.choice(words.FIRST_NAMES[pronoun])} {last}", pronoun

    firms = [*peers, *(f"{house} & Daughters" for house in acquaintance.sample(words.HOUSES, k=6))]
    schools = rng.sample([town for town in words.TOWNS if town not in towns], k=2 + _SEGMENTS)
    joined = rng.sample(range(first_year - 30, first_year - 1), k=2 + _SEGMENTS)
    pastimes = rng.sample(words.PASTIMES, k=2 + _SEGMENTS)

    def person(place: int) -> Person:
        known, pronoun = full_name(last_names.pop())
        post, firm, subject = rng.choice(words.FORMER_POSTS), acquaintance.choice(firms), rng.choice(words.SUBJECTS)
        return Person(known, pronoun, joined[place], post, firm, subject, schools[place], pastimes[place])

    landmarks = rng.sample(words.LANDMARKS, k=_SITES)
    opened = rng.sample(range(max(founded + 2, 1890), first_year - 3), k=_SITES)
    sites = tuple(
        Site(town, full_name(last_names.pop())[0], year, landmark)
        for town, year, landmark in zip(towns[1:], opened, landmarks, strict=True)
    )
    divisions = rng.sample(trade.divisions, k=_SEGMENTS)
    stems = rng.sample(words.STEMS, k=2 * _SEGMENTS)
    placed = [sites[number % _SITES] for number in range(2 * _SEGMENTS)]
    rng.shuffle(placed)
    segments = []
    for place, (division, *nouns) in enumerate(divisions):
        goods = [
            Product(f"{stems[2 * place + at]} {noun}", noun, division, placed[2 * place + at])
            for at, noun in enumerate(nouns)
        ]
        segments.append(Segment(division, person(2 + place), (goods[0], goods[1])))
    metrics = rng.sample(METRICS, k=len(METRICS))
    years = (first_year, first_year + 1)
    figures = _draw_figures(rng, first_year - 1)
    accounts = draw_accounts(rng, first_year - 2, [s.name for s in segments], [s.town for s in sites])
    return Company(
        name, slug, trade, towns[0], founded, full_name(last_names.pop())[0], person(0), person(1), tuple(segments),
        sites, years, tuple(metrics[:_DISCLOSED]), tuple(metrics[_DISCLOSED:]), figures, accounts, peers,
    )  # fmt: skip


def _draw_figures(rng: random.Random, first_year: int) -> dict[tuple[str, int], Decimal]:
    """Each metric for three years; every year differs from the one before by 3 to 24 %."""
    figures = {}
    for metric in METRICS:
        value = Decimal(str(round(rng.uniform(metric.low, metric.high), metric.places + 2)))
        for year in range(first_year, first_year + 3):
            figures[metric.key, year] = round(value, metric.places) if metric.places else Decimal(round(value))
            change = Decimal(str(round(rng.choice((-1, 1, 1)) * rng.uniform(0.1, 0.24), 3)))
            value *= 1 + change
    return figures
