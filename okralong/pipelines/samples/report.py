"""Write the annual report of a company: core sections that state every fact, and filler up to the wanted length."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.samples.blocks import Block, Heading, Paragraph, Row, Table, mark, word_count
from okralong.pipelines.samples.words import MONTHS, SECTIONS, TOWNS
from okralong.pipelines.samples.world import Accounts, Company, Events, Segment, draw_events, rose

_SENTENCES: Final = (3, 5)  # sentences per filler paragraph; project default
_PARAGRAPHS_A_PART: Final = 8  # filler under one sub-heading; project default


@dataclass(frozen=True, slots=True)
class Report:
    """One company's year, as blocks in reading order."""

    company: Company
    year: int
    events: Events
    blocks: tuple[Block, ...]

    @property
    def doc_id(self) -> str:
        """The document's id, e.g. "tidewater-instruments-2023"."""
        return self.company.doc_id(self.year)

    @property
    def title(self) -> str:
        """The document's title."""
        return f"{self.company.name}: Annual Report {self.year}"


def write_report(company: Company, year: int, seed: int, words: int) -> Report:
    """Write the report on ``year`` with about ``words`` words, at least its core of about 1,300 words."""
    rng = random.Random(f"{seed}/{company.slug}/{year}/prose")
    writer, events = Writer(rng), draw_events(company, year, seed)
    opening: list[Block] = [
        Heading(f"{company.name}: Annual Report {year}", 1),
        *letter(company, year, events, writer),
        Heading("Segments"),
        segment_table(company, year),
    ]
    for segment in company.segments:
        opening += segment_part(company, year, events, segment, writer)
    parts = [
        opening,
        [*sites(company), employee_table(company, year)],
        year_of_work(events),
        numbers(company, year, writer),
        people(company, writer),
        risks(events),
        finances(company, year),
    ]
    missing = words - sum(word_count(block) for part in parts for block in part)
    filler = _filler(company, writer, missing)
    # A filler section follows each core section, so that facts are spread over the whole report.
    ordered = [block for part, more in zip(parts, filler, strict=True) for block in (*part, *more)]
    return Report(company, year, events, tuple(ordered))


def _filler(company: Company, writer: Writer, missing: int) -> list[list[Block]]:
    """Return the blocks of each filler section, a paragraph to each in turn until ``missing`` words are written."""
    sections: list[list[Block]] = [[] for _ in SECTIONS]
    written = 0
    while missing > 0:
        (title, templates), blocks = list(SECTIONS.items())[written % len(SECTIONS)], sections[written % len(SECTIONS)]
        context = _context(company, writer.rng)
        if not blocks:
            blocks.append(Heading(title))
            missing -= word_count(blocks[-1])
        elif written // len(SECTIONS) % _PARAGRAPHS_A_PART == 0:
            blocks.append(Heading(f"{title}, part {written // len(SECTIONS) // _PARAGRAPHS_A_PART + 1}", 3))
            missing -= word_count(blocks[-1])
        blocks.append(Paragraph(writer.paragraph(templates, context, writer.rng.randint(*_SENTENCES))))
        missing -= word_count(blocks[-1])
        written += 1
    return sections


def _context(company: Company, rng: random.Random) -> Context:
    """Return a paragraph's slots: a product with its works and segment, so that filler never contradicts the core."""
    product = rng.choice(company.products)
    segment = next(each for each in company.segments if each.name == product.segment)
    return {
        "product": product.name,
        "noun": product.noun,
        "segment": segment.name,
        "head": segment.head.name,
        "town": product.site.town,
        "manager": product.site.manager,
        "town2": rng.choice([site.town for site in company.sites if site is not product.site]),
        "person": [person.name for person in company.officers],
        "peer": company.peers or ("Fernsby & Daughters",),
        "school": TOWNS,
        "material": company.trade.materials,
        "customers": company.trade.customers,
        "month": MONTHS,
    }


# The core of every report, one function per section: each fact that a question may ask for, stated once and marked. The
# question makers use the fact keys that are spelled here.


def letter(company: Company, year: int, events: Events, writer: Writer) -> list[Block]:
    """Write the chief executive's letter, which introduces the company."""
    accounts = company.accounts
    direction = "more" if accounts[year].revenue > accounts[year - 1].revenue else "less"
    opening = writer.sentence(
        (
            "Dear shareholders, {year} was a year of [plain work and good tempers|small repairs and long letters].",
            "Dear shareholders, [if {year} had a sound, it was that of a full workshop|we have had easier years, "
            "and duller ones].",
        ),
        {"year": str(year)},
    )
    about = (
        f"{company.name} was founded in {mark('founded', str(company.founded))} by {mark('founder', company.founder)} "
        f"and has its head office in {mark('town', company.town)}. We sold {direction} than in {year - 1}, and the "
        f"pages that follow say where and why. A {events.storm.kind} and a recall tested us; both are told in full."
    )
    signed = f"{mark('chief', company.chief.name)}, chief executive"
    return [Heading(f"Letter for the year {year}"), Paragraph(opening), Paragraph(about), Paragraph(signed)]


def segment_part(company: Company, year: int, events: Events, segment: Segment, writer: Writer) -> list[Block]:
    """Write about one segment: its head, its goods, where they are made, and why sales rose or fell."""
    first, second = segment.products
    intro = writer.sentence(
        (
            "The {segment} segment is led by {head}.",
            "At the head of {segment} stood, all through {year}, {head}.",
            "{head} leads the {segment} segment.",
        ),
        {"segment": segment.name, "year": str(year), "head": mark(f"head/{segment.name}", segment.head.name)},
    )
    goods = " ".join(
        f"The {product.name} is made at our works in {mark(f'made/{product.name}', product.site.town)}."
        for product in (first, second)
    )
    cause, other = events.causes[segment.name]
    verb = "rose" if rose(company, segment.name, year) else "fell"
    lead, linked = writer.rng.choice((("because", "and because"), ("for two reasons:", "and")))
    why = f"Sales of {segment.name} {verb} in {year} {lead} {cause}, {linked} {other}."
    return [Heading(segment.name, 3), Paragraph(f"{intro} {goods}"), Paragraph(why, f"why/{segment.name}")]


def sites(company: Company) -> list[Block]:
    """Write about the works: manager, opening year and place of each."""
    parts = [
        f"{site.town}: opened in {mark(f'opened/{site.town}', str(site.opened))} {site.landmark}; "
        f"works manager {mark(f'manager/{site.town}', site.manager)}."
        for site in company.sites
    ]
    return [Heading("The works"), *(Paragraph(part) for part in parts)]


def people(company: Company, writer: Writer) -> list[Block]:
    """Write the biographies of the officers, without what they lead, so that a question must combine two sources."""
    blocks: list[Block] = [Heading("People")]
    for person in company.officers:
        key = person.name
        text = writer.sentence(
            (
                "{name} joined the company in {joined}, after years as {post} at {firm}. {Pronoun} read {subject} in "
                "{school} and {pastime}.",
                "{name} studied {subject} in {school}, was {post} at {firm}, and came to us in {joined}. In free hours "
                "{pronoun} {pastime}.",
            ),
            {
                "name": person.name,
                "joined": mark(f"joined/{key}", str(person.joined)),
                "post": person.former_post,
                "firm": mark(f"firm/{key}", person.former_firm),
                "subject": person.subject,
                "school": mark(f"school/{key}", person.school_town),
                "pastime": mark(f"pastime/{key}", person.pastime),
                "pronoun": person.pronoun,
                "Pronoun": person.pronoun.capitalize(),
            },
        )
        blocks.append(Paragraph(text))
    return blocks


def year_of_work(events: Events) -> list[Block]:
    """Write about projects, the recall and the storm."""
    blocks: list[Block] = [Heading("Projects and mishaps")]
    blocks += [
        Paragraph(
            f"Project {project.name} ({project.purpose}) was led by "
            f"{mark(f'leader/{project.name}', project.leader.name)} at the {project.site.town} works and saves "
            f"{mark(f'saving/{project.name}', f'${project.saving} million')} a year.",
            f"project/{project.name}",
        )
        for project in events.projects
    ]
    recall, storm = events.recall, events.storm
    blocks.append(
        Paragraph(
            f"In {mark('recall/month', recall.month)} we recalled {mark('recall/pieces', f'{recall.pieces:,}')} pieces "
            f"of the {mark('recall/product', recall.product.name)} because of {recall.fault}. "
            f"Our service people {recall.remedy}.",
            "recall",
        )
    )
    blocks.append(
        Paragraph(
            f"In {storm.month} a {storm.kind} struck the {storm.site.town} works. {storm.damage}. "
            f"The staff {storm.first_help}; the company then {storm.recovery}.",
            "storm",
        )
    )
    return blocks


def numbers(company: Company, year: int, writer: Writer) -> list[Block]:
    """Write the disclosed figures of this year and the last as running text, a few per paragraph."""
    sentences = []
    for metric in company.disclosed:
        now, then = (metric.show(company.figures[metric.key, at]) for at in (year, year - 1))
        facts = {"now": mark(f"now/{metric.key}", now), "then": mark(f"then/{metric.key}", then)}
        sentences.append(writer.sentence(metric.templates, {**facts, "year": str(year), "last": str(year - 1)}))
    writer.rng.shuffle(sentences)
    grouped = [" ".join(sentences[start : start + 3]) for start in range(0, len(sentences), 3)]
    return [Heading("The year in numbers"), *(Paragraph(text) for text in grouped)]


def risks(events: Events) -> list[Block]:
    """Write the risks and the measures against each."""
    parts = [
        Paragraph(
            f"A risk that the board watches is {risk.name}. Against it the company {risk.measures[0]}; "
            f"it also {risk.measures[1]}.",
            f"risk/{risk.name}",
        )
        for risk in events.risks
    ]
    return [Heading("Risks"), *parts]


# The tables of a report, built from the accounts: every subtotal and total names the rows that it sums.

_SHOWN_YEARS = 2
_THOUSANDS = "in thousands of dollars"
QUARTERS: Final = ("First quarter", "Second quarter", "Third quarter", "Fourth quarter")

Plan = Mapping[str, tuple[str, ...]]
"""The rows of a table in order: a label without parts is an item, a label with parts is their sum."""


def _statement(
    company: Company, year: int, table_id: str, title: str, items: Callable[[Accounts], Mapping[str, int]], plan: Plan
) -> Table:
    """Return a table of two years, this one first; ``items`` returns a year's figures by label."""
    years = [year - back for back in range(_SHOWN_YEARS)]
    figures = [items(company.accounts[each]) for each in years]
    known: dict[str, tuple[int, ...]] = {}
    for label, parts in plan.items():
        summed = zip(*(known[part] for part in parts), strict=True)
        known[label] = tuple(map(sum, summed)) if parts else tuple(each[label] for each in figures)
    rows = tuple(Row(label, values, plan[label]) for label, values in known.items())
    return Table(table_id, title, tuple(map(str, years)), rows)


def _summed(total: str, labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the plan of items and their sum."""
    return {**dict.fromkeys(labels, ()), total: tuple(labels)}


def segment_table(company: Company, year: int) -> Table:
    """Return the revenue by segment, with the operating subtotal and the eliminations."""
    plan = _summed("Operating segments", [segment.name for segment in company.segments])
    plan |= {"Eliminations": (), "Total revenue": ("Operating segments", "Eliminations")}
    title = f"Revenue by segment ({_THOUSANDS})"
    return _statement(company, year, "segments", title, lambda a: {**a.segments, "Eliminations": a.other}, plan)


def employee_table(company: Company, year: int) -> Table:
    """Return the employees by works at year-end."""
    plan = _summed("All works", [site.town for site in company.sites])
    return _statement(company, year, "employees", "Employees by works at year-end (heads)", lambda a: a.employees, plan)


def finances(company: Company, year: int) -> list[Block]:
    """Return the financial statements.

    Expenses are in parentheses, total assets equal total liabilities and equity, and the cash flow leads from opening
    to closing cash.
    """

    def statement(table_id: str, title: str, items: Callable[[Accounts], Mapping[str, int]], plan: Plan) -> Table:
        return _statement(company, year, table_id, f"{title} ({_THOUSANDS})", items, plan)

    regions = list(company.accounts[year].regions)
    return [
        Heading("Financial statements"),
        statement("income", "Income statement", lambda a: a.income, _INCOME),
        statement(
            "quarters",
            "Revenue by quarter",
            lambda a: dict(zip(QUARTERS, a.quarters, strict=True)),
            _summed("Full year", QUARTERS),
        ),
        statement("regions", "Revenue by region", lambda a: a.regions, _summed("All regions", regions)),
        statement("balance", "Balance sheet at 31 December", lambda a: a.balance, _BALANCE),
        statement("cash", "Cash flow", lambda a: a.cash_flow, _CASH),
    ]


_INCOME: Final[Plan] = {
    "Revenue": (),
    "Cost of goods sold": (),
    "Gross profit": ("Revenue", "Cost of goods sold"),
    "Selling and administration": (),
    "Research and development": (),
    "Operating income": ("Gross profit", "Selling and administration", "Research and development"),
    "Interest expense": (),
    "Income tax": (),
    "Net income": ("Operating income", "Interest expense", "Income tax"),
}
_BALANCE: Final[Plan] = {
    **_summed("Current assets", ("Cash", "Receivables", "Inventories")),
    **dict.fromkeys(("Land and buildings", "Machines", "Goodwill"), ()),
    "Total assets": ("Current assets", "Land and buildings", "Machines", "Goodwill"),
    **_summed("Current liabilities", ("Payables", "Short-term loans")),
    **dict.fromkeys(("Long-term loans", "Pensions", "Equity"), ()),
    "Total liabilities and equity": ("Current liabilities", "Long-term loans", "Pensions", "Equity"),
}
_CASH: Final[Plan] = {
    **_summed("Cash from operations", ("Net income", "Depreciation", "Change in working capital")),
    **dict.fromkeys(("Purchase of machines", "Loans repaid", "Paid to shareholders"), ()),
    "Change in cash": ("Cash from operations", "Purchase of machines", "Loans repaid", "Paid to shareholders"),
    "Cash at the start": (),
    "Closing cash": ("Cash at the start", "Change in cash"),
}


# Sentences from templates: ``[a|b]`` is a choice, which may be nested, and ``{slot}`` is filled from a context.

_CHOICE: Final = re.compile(r"\[([^\[\]]*)\]")
_ARTICLE: Final = re.compile(r"\b([Aa]) (?=[\ue000-\ue002]?(?!one|uni|use|eu|ewe)[aeiou])", re.IGNORECASE)
_ATTEMPTS: Final = 12  # enough that repetitions are rare; project default

Context = Mapping[str, str | Sequence[str]]


def expand(template: str, rng: random.Random, context: Context) -> str:
    """Make the choices of a template, fill its slots, and turn "a" into "an" where necessary."""
    text = template
    while match := _CHOICE.search(text):
        text = text[: match.start()] + rng.choice(match.group(1).split("|")) + text[match.end() :]
    filled = {name: value if isinstance(value, str) else rng.choice(value) for name, value in context.items()}
    filled["n"], filled["m"] = str(rng.randint(3, 19)), str(rng.randint(21, 97))
    filled["day"] = str(rng.randint(1, 28))
    text = _ARTICLE.sub(r"\1n ", text.format_map(filled))
    return text[0].upper() + text[1:]


class Writer:
    """Writes sentences for one report and avoids repetitions within it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._said: set[str] = set()
        self._unused: dict[tuple[str, ...], list[str]] = {}

    def sentence(self, templates: Sequence[str], context: Context) -> str:
        """Return a sentence from one of the templates, new to this report if possible."""
        for _ in range(_ATTEMPTS):
            text = expand(self.rng.choice(templates), self.rng, context)
            if text not in self._said:
                break
        self._said.add(text)
        return text

    def paragraph(self, templates: tuple[str, ...], context: Context, sentences: int) -> str:
        """Return several sentences from different templates, shuffled so that all templates are used equally often."""
        chosen: list[str] = []
        while len(chosen) < min(sentences, len(templates)):
            unused = self._unused.setdefault(templates, [])
            if not unused:
                unused += self.rng.sample(templates, k=len(templates))
            template = unused.pop()
            if template not in chosen:
                chosen.append(template)
        return " ".join(self.sentence((template,), context) for template in chosen)
