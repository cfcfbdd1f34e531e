"""The made-up companies behind the reports: people, sites, goods, yearly figures and events.

Each company has its own seed, ``"{seed}/{index}"``, so its people, goods and figures are the same in small and large
samples (only its peers depend on the other companies). The 2022 figures in its 2023 report are those of the 2022
report.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from okralong.pipelines.samples.words import Lexicon, Metric, Trade

_SEGMENTS, _SITES, _DISCLOSED = 4, 5, 13  # enough distractors for 1,500 words; project default
_FIRST_YEAR_RANGE = (2019, 2023)


@dataclass(frozen=True, slots=True)
class Person:
    """A person with a past. ``former_firm`` may be another company of the archive."""

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
    """A company with everything that its reports need. ``years`` are the years that it reports on."""

    words: Lexicon
    name: str
    slug: str
    trade: Trade
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
        """Return the id of the report on that year, e.g. "tidewater-instruments-2023"."""
        return f"{self.slug}-{year}"


def company_names(count: int, seed: int, words: Lexicon) -> tuple[tuple[str, Trade], ...]:
    """Draw distinct names with trades; two houses are joined ("Merrow & Larkhill Clocks") when single ones run out."""
    rng = random.Random(f"{seed}/names")
    chosen: dict[str, Trade] = {}
    single = len(words.houses) * len(words.trades) // 2
    while len(chosen) < count:
        trade = words.trades[len(chosen) % len(words.trades)]
        joined = rng.sample(words.houses, k=1 if len(chosen) < single else 2 + len(chosen) // 40_000)
        house = words.label(" & ").join(joined)
        chosen.setdefault(words.say("company", house=house, surname=rng.choice(trade.surnames)), trade)
    return tuple(chosen.items())


def draw_company(index: int, names: tuple[tuple[str, Trade], ...], seed: int, words: Lexicon) -> Company:
    """Draw the company at ``index`` of ``names``, with two years to report on."""
    rng = random.Random(f"{seed}/{index}")
    name, trade = names[index]
    slug = name.lower().replace(" & ", "-").replace(" ", "-")
    last_names = rng.sample(words.last_names, k=2 + _SEGMENTS + _SITES + 1)
    towns = rng.sample(words.towns, k=_SITES + 1)
    acquaintance = random.Random(f"{seed}/{index}/peers")
    peers = tuple(other for other, _ in acquaintance.sample(names, k=min(4, len(names))) if other != name)
    first_year = rng.randint(*_FIRST_YEAR_RANGE)
    founded = rng.randint(1841, 1968)

    def full_name(last: str) -> tuple[str, str]:
        pronoun = rng.choice(("she", "he"))
        return words.say("person", first=rng.choice(words.first_names[pronoun]), last=last), words.label(pronoun)

    firms = [*peers, *(words.say("firm", house=house) for house in acquaintance.sample(words.houses, k=6))]
    schools = rng.sample([town for town in words.towns if town not in towns], k=2 + _SEGMENTS)
    joined = rng.sample(range(first_year - 30, first_year - 1), k=2 + _SEGMENTS)
    pastimes = rng.sample(words.pastimes, k=2 + _SEGMENTS)

    def person(place: int) -> Person:
        known, pronoun = full_name(last_names.pop())
        post, firm, subject = rng.choice(words.former_posts), acquaintance.choice(firms), rng.choice(words.subjects)
        return Person(known, pronoun, joined[place], post, firm, subject, schools[place], pastimes[place])

    landmarks = rng.sample(words.landmarks, k=_SITES)
    opened = rng.sample(range(max(founded + 2, 1890), first_year - 3), k=_SITES)
    sites = tuple(
        Site(town, full_name(last_names.pop())[0], year, landmark)
        for town, year, landmark in zip(towns[1:], opened, landmarks, strict=True)
    )
    divisions = rng.sample(trade.divisions, k=_SEGMENTS)
    stems = rng.sample(words.stems, k=2 * _SEGMENTS)
    placed = [sites[number % _SITES] for number in range(2 * _SEGMENTS)]
    rng.shuffle(placed)
    segments = []
    for place, (division, *nouns) in enumerate(divisions):
        goods = [
            Product(words.say("product", stem=stems[2 * place + at], noun=noun), noun, division, placed[2 * place + at])
            for at, noun in enumerate(nouns)
        ]
        segments.append(Segment(division, person(2 + place), (goods[0], goods[1])))
    metrics = rng.sample(words.metrics, k=len(words.metrics))
    years = (first_year, first_year + 1)
    figures = _draw_figures(rng, first_year - 1, words)
    accounts = draw_accounts(rng, first_year - 2, [s.name for s in segments], [s.town for s in sites], words.regions)
    return Company(
        words, name, slug, trade, towns[0], founded, full_name(last_names.pop())[0], person(0), person(1),
        tuple(segments), sites, years, tuple(metrics[:_DISCLOSED]), tuple(metrics[_DISCLOSED:]), figures, accounts,
        peers,
    )  # fmt: skip


def _draw_figures(rng: random.Random, first_year: int, words: Lexicon) -> dict[tuple[str, int], Decimal]:
    """Draw each metric for three years, with changes of 3 to 24 % per year."""
    figures = {}
    for metric in words.metrics:
        value = Decimal(str(round(rng.uniform(metric.low, metric.high), metric.places + 2)))
        for year in range(first_year, first_year + 3):
            figures[metric.key, year] = round(value, metric.places) if metric.places else Decimal(round(value))
            change = Decimal(str(round(rng.choice((-1, 1, 1)) * rng.uniform(0.1, 0.24), 3)))
            value *= 1 + change
    return figures


# A company's accounts by year, in whole thousands of dollars and consistent: revenue is the same by segment, quarter
# and region, the balance sheet balances, and the cash flow ends at the cash of the balance sheet.

_YEARS = 4


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of a year. Expenses and outflows are negative; ``employees`` are numbers by site town."""

    segments: Mapping[str, int]
    other: int
    quarters: Sequence[int]
    regions: Mapping[str, int]
    income: Mapping[str, int]
    balance: Mapping[str, int]
    cash_flow: Mapping[str, int]
    employees: Mapping[str, int]

    @property
    def revenue(self) -> int:
        """Total revenue: segments and other."""
        return sum(self.segments.values()) + self.other


def draw_accounts(
    rng: random.Random, first_year: int, segments: Sequence[str], towns: Sequence[str], regions: Sequence[str]
) -> dict[int, Accounts]:
    """Draw four years of accounts from ``first_year`` on; the first year only appears as a comparison."""
    sales = {name: rng.randint(18_000, 190_000) for name in segments}
    heads = {town: rng.randint(90, 900) for town in towns}
    cash = rng.randint(9_000, 60_000)
    accounts = {}
    for year in range(first_year, first_year + _YEARS):
        sales = {name: int(amount * _step(rng, 0.02, 0.19)) for name, amount in sales.items()}
        heads = {town: int(count * _step(rng, 0.01, 0.12)) + 1 for town, count in heads.items()}
        other = -rng.randint(400, 3_000)
        revenue = sum(sales.values()) + other
        income = _income(rng, revenue)
        opening, cash = cash, int(cash * _step(rng, 0.03, 0.3))
        accounts[year] = Accounts(
            dict(sales),
            other,
            _split(rng, revenue, 4),
            dict(zip(regions, _split(rng, revenue, 4), strict=True)),
            income,
            _balance(rng, cash, revenue),
            _cash_flow(rng, sum(income.values()), opening, cash, revenue),
            dict(heads),
        )
    return accounts


def _split(rng: random.Random, total: int, parts: int) -> list[int]:
    """Split ``total`` into uneven whole parts."""
    weights = [rng.uniform(0.7, 1.3) for _ in range(parts)]
    amounts = [int(total * weight / sum(weights)) for weight in weights[1:]]
    return [total - sum(amounts), *amounts]


def _step(rng: random.Random, low: float, high: float) -> float:
    """Draw a factor of change: up twice as often as down, by ``low`` to ``high``."""
    return 1 + rng.choice((1, 1, -1)) * rng.uniform(low, high)


def _income(rng: random.Random, revenue: int) -> dict[str, int]:
    shares = {
        "Cost of goods sold": rng.uniform(0.52, 0.62),
        "Selling and administration": rng.uniform(0.14, 0.19),
        "Research and development": rng.uniform(0.03, 0.08),
        "Interest expense": rng.uniform(0.005, 0.02),
        "Income tax": rng.uniform(0.015, 0.03),
    }
    return {"Revenue": revenue} | {label: -int(revenue * share) for label, share in shares.items()}


def _cash_flow(rng: random.Random, earned: int, opening: int, closing: int, revenue: int) -> dict[str, int]:
    flow = {
        "Net income": earned,
        "Depreciation": int(revenue * rng.uniform(0.03, 0.05)),
        "Purchase of machines": -int(revenue * rng.uniform(0.03, 0.06)),
        "Loans repaid": -int(revenue * rng.uniform(0.005, 0.02)),
        "Paid to shareholders": -int(revenue * rng.uniform(0.005, 0.02)),
    }
    flow["Change in working capital"] = closing - opening - sum(flow.values())
    return flow | {"Cash at the start": opening, "Cash at the end": closing}


def _balance(rng: random.Random, cash: int, revenue: int) -> dict[str, int]:
    """Draw a balance sheet whose sides agree, with equity as the remainder."""

    def share(low: float, high: float) -> int:
        return int(revenue * rng.uniform(low, high))

    sheet = {
        "Cash": cash,
        "Receivables": share(0.11, 0.18),
        "Inventories": share(0.1, 0.2),
        "Land and buildings": share(0.2, 0.35),
        "Machines": share(0.12, 0.25),
        "Goodwill": share(0.02, 0.09),
    }
    owed = {
        "Payables": share(0.07, 0.12),
        "Short-term loans": share(0.02, 0.08),
        "Long-term loans": share(0.1, 0.2),
        "Pensions": share(0.03, 0.08),
    }
    return sheet | owed | {"Equity": sum(sheet.values()) - sum(owed.values())}


# The events of a company's year: reasons for the growth of segments, three projects, a recall, a storm, and risks.


@dataclass(frozen=True, slots=True)
class Project:
    """An improvement with its leader, its works and its yearly saving in millions of dollars."""

    name: str
    purpose: str
    leader: Person
    site: Site
    saving: Decimal


@dataclass(frozen=True, slots=True)
class Recall:
    """A recalled product: when, for what fault, and with what remedy."""

    product: Product
    month: str
    fault: str
    remedy: str
    pieces: int


@dataclass(frozen=True, slots=True)
class Storm:
    """A mishap at a works: what happened, the first help, the recovery."""

    kind: str
    site: Site
    month: str
    damage: str
    first_help: str
    recovery: str


@dataclass(frozen=True, slots=True)
class Risk:
    """A risk with the two measures taken against it."""

    name: str
    measures: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Events:
    """A company's year. ``causes`` holds two reasons for each segment's rise or fall."""

    causes: Mapping[str, tuple[str, str]]
    projects: tuple[Project, ...]
    recall: Recall
    storm: Storm
    risks: tuple[Risk, ...]


def rose(company: Company, segment: str, year: int) -> bool:
    """Return whether the segment sold more than in the previous year."""
    return company.accounts[year].segments[segment] > company.accounts[year - 1].segments[segment]


def draw_events(company: Company, year: int, seed: int) -> Events:
    """Draw the year's events, always the same for a company and year."""
    rng = random.Random(f"{seed}/{company.slug}/{year}")
    words = company.words
    used: set[str] = set()

    def fill(template: str, product: Product | None = None) -> str:
        item = product or rng.choice(company.products)
        material, customers = rng.choice(company.trade.materials), rng.choice(company.trade.customers)
        return template.format(
            customers=customers, material=material, town=rng.choice(company.sites).town, product=item.name,
            n=rng.randint(3, 19),
        )  # fmt: skip

    causes = {}
    for segment in company.segments:
        pool = [
            each for each in (words.rises if rose(company, segment.name, year) else words.falls) if each not in used
        ]
        first, second = rng.sample(pool, k=2)
        used |= {first, second}
        causes[segment.name] = (fill(first, segment.products[0]), fill(second, segment.products[1]))
    leaders = rng.sample([segment.head for segment in company.segments] + [company.treasurer], k=3)
    # Even and odd years share no project names, so the two reports of a company never mention the same project.
    projects = tuple(
        Project(name, purpose, leader, rng.choice(company.sites), Decimal(rng.randint(3, 48)).scaleb(-1))
        for (name, purpose), leader in zip(rng.sample(words.projects[year % 2 :: 2], k=3), leaders, strict=True)
    )
    fault, remedy = rng.choice(words.faults)
    recall = Recall(rng.choice(company.products), rng.choice(words.months), fault, remedy, rng.randint(120, 4_800))
    kind, damage, first_help = rng.choice(words.storms)
    site = rng.choice(company.sites)
    elsewhere = rng.choice([each.town for each in company.sites if each is not site])
    recovery = rng.choice(words.recoveries).format(town=elsewhere)
    storm = Storm(kind, site, rng.choice(words.months), fill(damage), first_help, recovery)
    risks = tuple(Risk(fill(name), (fill(first), fill(second))) for name, first, second in rng.sample(words.risks, k=3))
    return Events(causes, projects, recall, storm, risks)
