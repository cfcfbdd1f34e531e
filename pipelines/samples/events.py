"""What befell a company in one year: why its segments grew or shrank, three projects, a recall, a storm, its risks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from okralong.pipelines.samples.vocabulary import MONTHS
from okralong.pipelines.samples.world import Company, Person, Product, Site

_RISES: Final = (
    "two long contracts with {customers} began in spring", "a competitor gave up its works and sent its customers on",
    "the price list was raised for the first time in four years", "a second shift was added at {town}",
    "the {product} was redesigned so that one person can carry it", "repairs were brought back into the house",
    "a wet summer kept buyers indoors and reading catalogues", "exhibitions abroad brought new dealers",
    "stocks of {material} had been bought before its price went up", "spare parts were sold by telephone",
)  # fmt: skip
_FALLS: Final = (
    "a strike of the carters held up deliveries for five weeks", "{customers} put off their purchases to next year",
    "{material} was scarce from the summer on", "the move to a new hall at {town} took a month longer than planned",
    "a cheaper imitation of the {product} came on the market", "two dealers closed their shops",
    "the old {product} was taken off the list before its successor was ready", "freight rates doubled by autumn",
    "the largest tender of the year was lost by a narrow margin", "a mild winter left the shelves full",
)  # fmt: skip
_PROJECTS: Final = (
    ("Warm Roof", "insulating the halls"), ("Quiet Floor", "setting the presses on cork"),
    ("Second Kettle", "using waste heat twice"), ("Short Road", "moving stores next to the benches"),
    ("Blue Thread", "marking each part with its maker's initials"), ("Open Drawer", "sharing tools between works"),
    ("Night Owl", "running the long jobs after dark"), ("Paper Boat", "replacing printed orders"),
    ("Green Lane", "a towpath for cargo bicycles"), ("Small Hammer", "mending machines before they break"),
    ("Clear Water", "filtering the rinsing baths"), ("Long Table", "one planning meeting for all works"),
)  # fmt: skip
_FAULTS: Final = (
    ("a seal that shrank in frost", "fitted a thicker seal free of charge"),
    ("a batch of screws with the wrong thread", "sent every owner a packet of new screws and a screwdriver"),
    ("a varnish that turned sticky in the sun", "stripped and revarnished each piece"),
    ("a label that gave the load in the wrong unit", "printed new labels in both units"),
    ("a spring that lost its temper", "replaced the spring and now tests each one for a week"),
    ("a hinge that squeaked at the pitch of a fire alarm", "greased, and later replaced, every hinge"),
)  # fmt: skip
_STORMS: Final = (
    ("flood", "The river stood {n} inches deep in the packing hall", "carried the drawings upstairs in bakers' trays"),
    ("gale", "Half of the north roof was found in the next parish", "stretched sailcloth over the machines"),
    ("snowfall", "No lorry passed the hill for {n} days", "took finished goods to the station on sledges"),
    ("lightning strike", "The transformer burned for {n} hours", "borrowed a generator from a travelling circus"),
)  # fmt: skip
_RECOVERIES: Final = (
    "moved urgent orders to {town}", "paid everyone full wages while the works stood still",
    "dried the motors in a laundry", "opened an office in the chapel hall", "asked pensioners back to help",
)  # fmt: skip
_RISKS: Final = (
    ("the price of {material}", "buys half of its needs a year ahead", "keeps three months of stock at {town}"),
    ("the loss of skilled hands", "pays for evening classes", "lets retiring foremen stay on two days a week"),
    ("dependence on {customers}", "sells no more than a fifth of any product to one buyer", "visits fairs abroad"),
    ("foreign currency", "bills in its own currency where it can", "sells the rest forward for six months"),
    ("fire in the works", "has sprinklers in all halls", "stores copies of all drawings in another town"),
    ("breaches of its computers", "keeps its machines off the public network", "rehearses a day without screens"),
    ("rising water", "has raised the switch rooms by a metre", "insures the works at {town} against floods"),
    ("late payment", "checks new buyers with two banks", "stops deliveries after sixty days"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Project:
    """An improvement with its leader, its works and what it saves each year (millions of dollars)."""

    name: str
    purpose: str
    leader: Person
    site: Site
    saving: Decimal


@dataclass(frozen=True, slots=True)
class Recall:
    """A product called back: when, for what fault, and what was done."""

    product: Product
    month: str
    fault: str
    remedy: str
    pieces: int


@dataclass(frozen=True, slots=True)
class Storm:
    """A mishap at a works in three beats: what happened, the first help, the recovery."""

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
    """Whether the segment sold more than the year before."""
    return company.accounts[year].segments[segment] > company.accounts[year - 1].segments[segment]


def draw_events(company: Company, year: int, seed: int) -> Events:
    """The year's events, the same whenever the same company and year are asked for."""
    rng = random.Random(f"{seed}/{company.slug}/{year}")
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
        pool = [each for each in (_RISES if rose(company, segment.name, year) else _FALLS) if each not in used]
        first, second = rng.sample(pool, k=2)
        used |= {first, second}
        causes[segment.name] = (fill(first, segment.products[0]), fill(second, segment.products[1]))
    leaders = rng.sample([segment.head for segment in company.segments] + [company.treasurer], k=3)
    # Even and odd years share no project name, so the two reports of a company never tell of the same project.
    projects = tuple(
        Project(name, purpose, leader, rng.choice(company.sites), Decimal(rng.randint(3, 48)).scaleb(-1))
        for (name, purpose), leader in zip(rng.sample(_PROJECTS[year % 2 :: 2], k=3), leaders, strict=True)
    )
    fault, remedy = rng.choice(_FAULTS)
    recall = Recall(rng.choice(company.products), rng.choice(MONTHS), fault, remedy, rng.randint(120, 4_800))
    kind, damage, first_help = rng.choice(_STORMS)
    site = rng.choice(company.sites)
    elsewhere = rng.choice([each.town for each in company.sites if each is not site])
    recovery = rng.choice(_RECOVERIES).format(town=elsewhere)
    storm = Storm(kind, site, rng.choice(MONTHS), fill(damage), first_help, recovery)
    risks = tuple(Risk(fill(name), (fill(first), fill(second))) for name, first, second in rng.sample(_RISKS, k=3))
    return Events(causes, projects, recall, storm, risks)
