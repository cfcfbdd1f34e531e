"""Write the annual report of a company: core sections that state every fact, and filler up to the wanted length."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.samples.blocks import Block, Heading, Paragraph, Row, Table, mark, word_count
from okralong.pipelines.samples.words import ENGLISH
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
        return self.company.words.say("title", name=self.company.name, year=self.year)


def write_report(company: Company, year: int, seed: int, words: int) -> Report:
    """Write the report on ``year`` with about ``words`` words, at least its core of about 1,300 words."""
    rng = random.Random(f"{seed}/{company.slug}/{year}/prose")
    say = company.words.say
    writer, events = Writer(rng, company.words.language), draw_events(company, year, seed)
    opening: list[Block] = [
        Heading(say("title", name=company.name, year=year), 1),
        *letter(company, year, events, writer),
        Heading(say("segments")),
        segment_table(company, year),
    ]
    for segment in company.segments:
        opening += segment_part(company, year, events, segment, writer)
    parts = [
        opening,
        [*sites(company), employee_table(company, year)],
        year_of_work(company, events),
        numbers(company, year, writer),
        people(company, writer),
        risks(company, events),
        finances(company, year),
    ]
    missing = words - sum(word_count(block) for part in parts for block in part)
    filler = _filler(company, writer, missing)
    # A filler section follows each core section, so that facts are spread over the whole report.
    ordered = [block for part, more in zip(parts, filler, strict=True) for block in (*part, *more)]
    return Report(company, year, events, tuple(ordered))


def _filler(company: Company, writer: Writer, missing: int) -> list[list[Block]]:
    """Return the blocks of each filler section, a paragraph to each in turn until ``missing`` words are written."""
    templated = list(company.words.sections.items())
    sections: list[list[Block]] = [[] for _ in templated]
    written = 0
    while missing > 0:
        (title, templates), blocks = templated[written % len(templated)], sections[written % len(templated)]
        context = _context(company, writer.rng)
        if not blocks:
            blocks.append(Heading(title))
            missing -= word_count(blocks[-1])
        elif written // len(templated) % _PARAGRAPHS_A_PART == 0:
            number = written // len(templated) // _PARAGRAPHS_A_PART + 1
            blocks.append(Heading(company.words.say("part", title=title, number=number), 3))
            missing -= word_count(blocks[-1])
        sentences = writer.sentences(templates, context, writer.rng.randint(*_SENTENCES))
        blocks.append(Paragraph(company.words.joined(sentences)))
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
        "peer": company.peers or (company.words.say("peer"),),
        "school": company.words.towns,
        "material": company.trade.materials,
        "customers": company.trade.customers,
        "month": company.words.months,
    }


# The core of every report, one function per section: each fact that a question may ask for, stated once and marked. The
# question makers use the fact keys that are spelled here.


def letter(company: Company, year: int, events: Events, writer: Writer) -> list[Block]:
    """Write the chief executive's letter, which introduces the company."""
    accounts, say = company.accounts, company.words.say
    grew = accounts[year].revenue > accounts[year - 1].revenue
    opening = writer.sentence(company.words.phrases["opening"], {"year": str(year)})
    about = say(
        "about",
        name=company.name,
        founded=mark("founded", str(company.founded)),
        founder=mark("founder", company.founder),
        town=mark("town", company.town),
        direction=say("more" if grew else "less"),
        last=year - 1,
        storm=events.storm.kind,
    )
    signed = say("signed", chief=mark("chief", company.chief.name))
    return [Heading(say("letter", year=year)), Paragraph(opening), Paragraph(about), Paragraph(signed)]


def segment_part(company: Company, year: int, events: Events, segment: Segment, writer: Writer) -> list[Block]:
    """Write about one segment: its head, its goods, where they are made, and why sales rose or fell."""
    words, say = company.words, company.words.say
    intro = writer.sentence(
        words.phrases["led"],
        {"segment": segment.name, "year": str(year), "head": mark(f"head/{segment.name}", segment.head.name)},
    )
    goods = (
        say("made", product=product.name, town=mark(f"made/{product.name}", product.site.town))
        for product in segment.products
    )
    cause, other = events.causes[segment.name]
    verb = say("rose" if rose(company, segment.name, year) else "fell")
    lead, linked = writer.rng.choice(words.phrases["leads"])
    why = say("why", segment=segment.name, verb=verb, year=year, lead=lead, cause=cause, linked=linked, other=other)
    told = Paragraph(words.joined([intro, *goods]))
    return [Heading(segment.name, 3), told, Paragraph(why, f"why/{segment.name}")]


def sites(company: Company) -> list[Block]:
    """Write about the works: manager, opening year and place of each."""
    say = company.words.say
    parts = [
        say(
            "site",
            town=site.town,
            opened=mark(f"opened/{site.town}", str(site.opened)),
            landmark=site.landmark,
            manager=mark(f"manager/{site.town}", site.manager),
        )
        for site in company.sites
    ]
    return [Heading(say("works")), *(Paragraph(part) for part in parts)]


def people(company: Company, writer: Writer) -> list[Block]:
    """Write the biographies of the officers, without what they lead, so that a question must combine two sources."""
    blocks: list[Block] = [Heading(company.words.say("people"))]
    for person in company.officers:
        key = person.name
        text = writer.sentence(
            company.words.phrases["biography"],
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


def year_of_work(company: Company, events: Events) -> list[Block]:
    """Write about projects, the recall and the storm."""
    words, say = company.words, company.words.say
    blocks: list[Block] = [Heading(say("year_of_work"))]
    for project in events.projects:
        saving = say("saving", saving=words.number(project.saving))
        text = say(
            "project",
            name=project.name,
            purpose=project.purpose,
            leader=mark(f"leader/{project.name}", project.leader.name),
            town=project.site.town,
            saving=mark(f"saving/{project.name}", saving),
        )
        blocks.append(Paragraph(text, f"project/{project.name}"))
    recall, storm = events.recall, events.storm
    text = say(
        "recall",
        month=mark("recall/month", recall.month),
        pieces=mark("recall/pieces", words.number(recall.pieces)),
        product=mark("recall/product", recall.product.name),
        fault=recall.fault,
        remedy=recall.remedy,
    )
    blocks.append(Paragraph(text, "recall"))
    text = say(
        "storm",
        month=storm.month,
        storm=storm.kind,
        town=storm.site.town,
        damage=storm.damage,
        help=storm.first_help,
        recovery=storm.recovery,
    )
    blocks.append(Paragraph(text, "storm"))
    return blocks


def numbers(company: Company, year: int, writer: Writer) -> list[Block]:
    """Write the disclosed figures of this year and the last as running text, a few per paragraph."""
    words = company.words
    sentences = []
    for metric in company.disclosed:
        now, then = (words.show(metric, company.figures[metric.key, at]) for at in (year, year - 1))
        facts = {"now": mark(f"now/{metric.key}", now), "then": mark(f"then/{metric.key}", then)}
        sentences.append(writer.sentence(metric.templates, {**facts, "year": str(year), "last": str(year - 1)}))
    writer.rng.shuffle(sentences)
    grouped = [words.joined(sentences[start : start + 3]) for start in range(0, len(sentences), 3)]
    return [Heading(words.say("numbers")), *(Paragraph(text) for text in grouped)]


def risks(company: Company, events: Events) -> list[Block]:
    """Write the risks and the measures against each."""
    say = company.words.say
    parts = [
        Paragraph(
            say("risk", risk=risk.name, first=risk.measures[0], second=risk.measures[1]),
            f"risk/{risk.name}",
        )
        for risk in events.risks
    ]
    return [Heading(say("risks")), *parts]


# The tables of a report, built from the accounts: every subtotal and total names the rows that it sums.

_SHOWN_YEARS = 2
QUARTERS: Final = ("First quarter", "Second quarter", "Third quarter", "Fourth quarter")

Plan = Mapping[str, tuple[str, ...]]
"""The rows of a table in order: a label without parts is an item, a label with parts is their sum."""


def _statement(
    company: Company, year: int, table_id: str, title: str, items: Callable[[Accounts], Mapping[str, int]], plan: Plan
) -> Table:
    """Return a table of two years, this one first; ``items`` returns a year's figures by label.

    Labels are our own keys; the table has those of the report's language.
    """
    label = company.words.label
    years = [year - back for back in range(_SHOWN_YEARS)]
    figures = [items(company.accounts[each]) for each in years]
    known: dict[str, tuple[int, ...]] = {}
    for key, parts in plan.items():
        summed = zip(*(known[part] for part in parts), strict=True)
        known[key] = tuple(map(sum, summed)) if parts else tuple(each[key] for each in figures)
    rows = tuple(Row(label(key), values, tuple(map(label, plan[key]))) for key, values in known.items())
    return Table(table_id, title, tuple(map(str, years)), rows)


def _summed(total: str, labels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the plan of items and their sum."""
    return {**dict.fromkeys(labels, ()), total: tuple(labels)}


def segment_table(company: Company, year: int) -> Table:
    """Return the revenue by segment, with the operating subtotal and the eliminations."""
    plan = _summed("Operating segments", [segment.name for segment in company.segments])
    plan |= {"Eliminations": (), "Total revenue": ("Operating segments", "Eliminations")}
    title = company.words.say("in_thousands", title=company.words.label("Revenue by segment"))
    return _statement(company, year, "segments", title, lambda a: {**a.segments, "Eliminations": a.other}, plan)


def employee_table(company: Company, year: int) -> Table:
    """Return the employees by works at year-end."""
    plan = _summed("All works", [site.town for site in company.sites])
    title = company.words.say("heads", title=company.words.label("Employees by works at year-end"))
    return _statement(company, year, "employees", title, lambda a: a.employees, plan)


def finances(company: Company, year: int) -> list[Block]:
    """Return the financial statements.

    Expenses are in parentheses, total assets equal total liabilities and equity, and the cash flow leads from opening
    to closing cash.
    """

    def statement(table_id: str, title: str, items: Callable[[Accounts], Mapping[str, int]], plan: Plan) -> Table:
        shown = company.words.say("in_thousands", title=company.words.label(title))
        return _statement(company, year, table_id, shown, items, plan)

    regions = list(company.accounts[year].regions)
    return [
        Heading(company.words.say("finances")),
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


def expand(template: str, rng: random.Random, context: Context, language: str = ENGLISH) -> str:
    """Make the choices of a template, fill its slots, and in English turn "a" into "an" where necessary."""
    text = template
    while match := _CHOICE.search(text):
        text = text[: match.start()] + rng.choice(match.group(1).split("|")) + text[match.end() :]
    filled = {name: value if isinstance(value, str) else rng.choice(value) for name, value in context.items()}
    filled["n"], filled["m"] = str(rng.randint(3, 19)), str(rng.randint(21, 97))
    filled["day"] = str(rng.randint(1, 28))
    text = text.format_map(filled)
    if language == ENGLISH:
        text = _ARTICLE.sub(r"\1n ", text)
    return text[0].upper() + text[1:]


class Writer:
    """Writes sentences for one report and avoids repetitions within it."""

    def __init__(self, rng: random.Random, language: str = ENGLISH) -> None:
        self.rng, self._language = rng, language
        self._said: set[str] = set()
        self._unused: dict[tuple[str, ...], list[str]] = {}

    def sentence(self, templates: Sequence[str], context: Context) -> str:
        """Return a sentence from one of the templates, new to this report if possible."""
        for _ in range(_ATTEMPTS):
            text = expand(self.rng.choice(templates), self.rng, context, self._language)
            if text not in self._said:
                break
        self._said.add(text)
        return text

    def sentences(self, templates: tuple[str, ...], context: Context, sentences: int) -> list[str]:
        """Return several sentences from different templates, shuffled so that all templates are used equally often."""
        chosen: list[str] = []
        while len(chosen) < min(sentences, len(templates)):
            unused = self._unused.setdefault(templates, [])
            if not unused:
                unused += self.rng.sample(templates, k=len(templates))
            template = unused.pop()
            if template not in chosen:
                chosen.append(template)
        return [self.sentence((template,), context) for template in chosen]
