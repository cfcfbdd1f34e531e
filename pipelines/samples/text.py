"""What a report is made of before it is text: headings, paragraphs and tables, with marked facts.

A fact is marked where it is written, ``mark("founder", "Edith Quist")``, and survives every rendering: the renderer
strips the marks and notes where the marked words came to lie. So gold spans are exact by construction.
"""

from __future__ import annotations

import html
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from okralong.pipelines.core.types import TableSpan
from okralong.pipelines.samples.world import MONTHS, TOWNS, Accounts, Company, Events, Segment, draw_events, rose

# Private-use characters: no template and no name can contain them.
_OPEN: Final = "\ue000"
_MIDDLE: Final = "\ue001"
_CLOSE: Final = "\ue002"
MARK: Final = re.compile(f"{_OPEN}([^{_MIDDLE}]*){_MIDDLE}([^{_CLOSE}]*){_CLOSE}")


def mark(key: str, text: str) -> str:
    """``text`` as the statement of the fact ``key``. A key is marked once in a report."""
    return f"{_OPEN}{key}{_MIDDLE}{text}{_CLOSE}"


def unmarked(text: str) -> str:
    """The words alone."""
    return MARK.sub(r"\2", text)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 (the report), 2 (a section) or 3 (a part of it)."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; ``key`` makes the whole of it a fact, for questions that ask for a summary."""

    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A table row of whole numbers. ``total_of`` names the rows above that it sums; empty for an ordinary row."""

    label: str
    values: tuple[int, ...]
    total_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. The fact of a cell is ``table_id/row label/column``."""

    table_id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


Block = Heading | Paragraph | Table


def cell(table_id: str, label: str, column: int | str) -> str:
    """The fact key of a table cell."""
    return f"{table_id}/{label}/{column}"


def grouped(value: int) -> str:
    """A whole number as accounts print it: thousands separated, a negative one in parentheses."""
    return f"({-value:,})" if value < 0 else f"{value:,}"


def word_count(block: Block) -> int:
    """Words of a block, split at white space, about as the text rendering has them."""
    if isinstance(block, Table):
        head = len(block.title.split()) + sum(len(column.split()) for column in block.columns)
        return head + sum(len(row.label.split()) + len(row.values) for row in block.rows)
    return len(unmarked(block.text).split())


# --------
# Templates that become sentences: ``[a|b]`` is a choice, ``{slot}`` is filled from a context, choices may nest.
#
# A ``Writer`` remembers what a report has already said and rolls again rather than repeat itself.

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


# --------
# Blocks to text: plain (aligned columns), Markdown (pipes) or HTML (real tables), with the place of every fact.

Format = Literal["txt", "md", "html"]
FORMATS: tuple[Format, ...] = ("txt", "md", "html")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text with the character ranges of its facts and tables. For HTML both are empty: readers move the offsets."""

    text: str
    spans: Mapping[str, tuple[int, int]]
    tables: tuple[TableSpan, ...] = ()


def render(blocks: Sequence[Block], form: Format) -> Rendered:
    """The blocks as one text of the given format."""
    if form == "html":
        body = "\n".join(_html(block) for block in blocks)
        return Rendered(
            f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">\n<body>\n{body}\n</body></html>\n', {}
        )
    scroll = _Scroll()
    for block in blocks:
        if isinstance(block, Table):
            _table(scroll, block, form)
        elif isinstance(block, Heading):
            scroll.write(_heading(block, form))
        else:
            start = scroll.length
            scroll.write(block.text)
            if block.key:
                scroll.spans[block.key] = (start, scroll.length)
        scroll.write("\n\n")
    return Rendered(scroll.text().rstrip("\n") + "\n", scroll.spans, tuple(scroll.tables))


class _Scroll:
    """Text under way: takes marked text, keeps plain text, remembers where the facts are."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0
        self.spans: dict[str, tuple[int, int]] = {}
        self.tables: list[TableSpan] = []

    def write(self, marked: str) -> None:
        at = 0
        for match in MARK.finditer(marked):
            self._append(marked[at : match.start()])
            start = self.length
            self._append(match.group(2))
            self.spans[match.group(1)] = (start, self.length)
            at = match.end()
        self._append(marked[at:])

    def _append(self, plain: str) -> None:
        self._pieces.append(plain)
        self.length += len(plain)

    def text(self) -> str:
        return "".join(self._pieces)


def _heading(heading: Heading, form: Format) -> str:
    if form == "md":
        return f"{'#' * heading.level} {heading.text}"
    if heading.level == 1:
        return f"{heading.text.upper()}\n{'=' * len(heading.text)}"
    return f"{heading.text}\n{'-' * len(heading.text)}" if heading.level == 2 else heading.text


def _table(scroll: _Scroll, table: Table, form: Format) -> None:
    """Title line, header, rows. Figures are flush right; the span of a cell is its figure without the padding."""
    start = scroll.length
    labels = max(len(row.label) for row in table.rows)
    widths = [
        max(len(column), *(len(grouped(row.values[at])) for row in table.rows))
        for at, column in enumerate(table.columns)
    ]
    scroll.write(f"**Table: {table.title}**\n\n" if form == "md" else f"Table: {table.title}\n")
    left, gap, right = ("| ", " | ", " |") if form == "md" else ("", "   ", "")
    scroll.write(left + " " * labels)
    for column, width in zip(table.columns, widths, strict=True):
        scroll.write(gap + column.rjust(width))
    scroll.write(right)
    if form == "md":
        scroll.write(f"\n|{'-' * (labels + 2)}|" + "".join(f"{'-' * (width + 1)}:|" for width in widths))
    for row in table.rows:
        scroll.write(f"\n{left}{row.label.ljust(labels)}")
        for column, value, width in zip(table.columns, row.values, widths, strict=True):
            shown = grouped(value)
            scroll.write(gap + " " * (width - len(shown)))
            at = scroll.length
            scroll.write(shown)
            scroll.spans[cell(table.table_id, row.label, column)] = (at, scroll.length)
        scroll.write(right)
    scroll.tables.append(TableSpan(table.table_id, start, scroll.length))


def _html(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{html.escape(unmarked(block.text))}</p>"
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    head = "".join(f"<th>{column}</th>" for column in ("", *block.columns))
    rows = "".join(
        f"<tr><th>{html.escape(row.label)}</th>{''.join(f'<td>{grouped(value)}</td>' for value in row.values)}</tr>\n"
        for row in block.rows
    )
    return f"<table>\n<caption>Table: {html.escape(block.title)}</caption>\n<tr>{head}</tr>\n{rows}</table>"


# --------
# The tables of a report, built from the accounts: every subtotal and total names the rows that it sums.

_SHOWN_YEARS = 2
_THOUSANDS = "in thousands of dollars"


def _rows(years: Sequence[Mapping[str, int]], plan: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[Row, ...]:
    """Rows in the order of ``plan``: a label alone is an item, a label with parts is their sum."""
    known: dict[str, tuple[int, ...]] = {}
    rows = []
    for label, parts in plan:
        if parts:
            known[label] = tuple(sum(column) for column in zip(*(known[part] for part in parts), strict=True))
        else:
            known[label] = tuple(year[label] for year in years)
        rows.append(Row(label, known[label], parts))
    return tuple(rows)


def _years(company: Company, year: int) -> tuple[tuple[str, ...], list[Accounts]]:
    shown = [year - back for back in range(_SHOWN_YEARS)]
    return tuple(str(each) for each in shown), [company.accounts[each] for each in shown]


def segment_table(company: Company, year: int) -> Table:
    """Revenue by segment, with the operating subtotal and the eliminations."""
    columns, accounts = _years(company, year)
    names = tuple(segment.name for segment in company.segments)
    plan = [*((name, ()) for name in names), ("Operating segments", names), ("Eliminations", ()),
            ("Total revenue", ("Operating segments", "Eliminations"))]  # fmt: skip
    rows = _rows([{**each.segments, "Eliminations": each.other} for each in accounts], plan)
    return Table("segments", f"Revenue by segment ({_THOUSANDS})", columns, rows)


def quarter_table(company: Company, year: int) -> Table:
    """Revenue by quarter."""
    columns, accounts = _years(company, year)
    names = ("First quarter", "Second quarter", "Third quarter", "Fourth quarter")
    sold = [dict(zip(names, each.quarters, strict=True)) for each in accounts]
    rows = _rows(sold, [*((name, ()) for name in names), ("Full year", names)])
    return Table("quarters", f"Revenue by quarter ({_THOUSANDS})", columns, rows)


def region_table(company: Company, year: int) -> Table:
    """Revenue by region of the customer."""
    columns, accounts = _years(company, year)
    names = tuple(accounts[0].regions)
    rows = _rows([each.regions for each in accounts], [*((name, ()) for name in names), ("All regions", names)])
    return Table("regions", f"Revenue by region ({_THOUSANDS})", columns, rows)


def employee_table(company: Company, year: int) -> Table:
    """Employees by works at year-end."""
    columns, accounts = _years(company, year)
    towns = tuple(site.town for site in company.sites)
    rows = _rows([each.employees for each in accounts], [*((town, ()) for town in towns), ("All works", towns)])
    return Table("employees", "Employees by works at year-end (heads)", columns, rows)


def income_table(company: Company, year: int) -> Table:
    """The income statement, expenses in parentheses."""
    columns, accounts = _years(company, year)
    plan: list[tuple[str, tuple[str, ...]]] = [
        ("Revenue", ()),
        ("Cost of goods sold", ()),
        ("Gross profit", ("Revenue", "Cost of goods sold")),
        ("Selling and administration", ()),
        ("Research and development", ()),
        ("Operating income", ("Gross profit", "Selling and administration", "Research and development")),
        ("Interest expense", ()),
        ("Income tax", ()),
        ("Net income", ("Operating income", "Interest expense", "Income tax")),
    ]
    rows = _rows([each.income for each in accounts], plan)
    return Table("income", f"Income statement ({_THOUSANDS})", columns, rows)


def balance_table(company: Company, year: int) -> Table:
    """The balance sheet; total assets equal total liabilities and equity."""
    columns, accounts = _years(company, year)
    plan: list[tuple[str, tuple[str, ...]]] = [
        ("Cash", ()), ("Receivables", ()), ("Inventories", ()),
        ("Current assets", ("Cash", "Receivables", "Inventories")),
        ("Land and buildings", ()), ("Machines", ()), ("Goodwill", ()),
        ("Total assets", ("Current assets", "Land and buildings", "Machines", "Goodwill")),
        ("Payables", ()), ("Short-term loans", ()),
        ("Current liabilities", ("Payables", "Short-term loans")),
        ("Long-term loans", ()), ("Pensions", ()), ("Equity", ()),
        ("Total liabilities and equity", ("Current liabilities", "Long-term loans", "Pensions", "Equity")),
    ]  # fmt: skip
    rows = _rows([each.balance for each in accounts], plan)
    return Table("balance", f"Balance sheet at 31 December ({_THOUSANDS})", columns, rows)


def cash_table(company: Company, year: int) -> Table:
    """The cash flow from opening to closing cash."""
    columns, accounts = _years(company, year)
    operating = ("Net income", "Depreciation", "Change in working capital")
    financing = ("Loans repaid", "Paid to shareholders")
    plan: list[tuple[str, tuple[str, ...]]] = [
        *((label, ()) for label in operating),
        ("Cash from operations", operating),
        ("Purchase of machines", ()),
        *((label, ()) for label in financing),
        ("Change in cash", ("Cash from operations", "Purchase of machines", *financing)),
        ("Cash at the start", ()),
        ("Closing cash", ("Cash at the start", "Change in cash")),
    ]
    rows = _rows([each.cash_flow for each in accounts], plan)
    return Table("cash", f"Cash flow ({_THOUSANDS})", columns, rows)


# --------
# The part of a report that every length has: each fact that a question may ask for, stated once and marked.
#
# One function a section; each returns its blocks. Fact keys are spelled here and read by the question makers.


def letter(company: Company, year: int, events: Events, writer: Writer) -> list[Block]:
    """The chief executive's opening: who and where we are."""
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
    """One segment: its head, its goods and where they are made, and why it rose or fell."""
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
    """The works: manager, opening year and place of each."""
    parts = [
        f"{site.town}: opened in {mark(f'opened/{site.town}', str(site.opened))} {site.landmark}; "
        f"works manager {mark(f'manager/{site.town}', site.manager)}."
        for site in company.sites
    ]
    return [Heading("The works"), *(Paragraph(part) for part in parts)]


def people(company: Company, writer: Writer) -> list[Block]:
    """Biographies of the officers. What they lead stands elsewhere, so that a question must go two ways."""
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


def year_of_work(company: Company, events: Events) -> list[Block]:
    """Projects, the recall and the storm."""
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
    """The disclosed figures in running text, this year's beside last year's, a few to a paragraph."""
    sentences = []
    for metric in company.disclosed:
        now, then = (metric.show(company.figures[metric.key, at]) for at in (year, year - 1))
        facts = {"now": mark(f"now/{metric.key}", now), "then": mark(f"then/{metric.key}", then)}
        sentences.append(writer.sentence(metric.templates, {**facts, "year": str(year), "last": str(year - 1)}))
    writer.rng.shuffle(sentences)
    grouped = [" ".join(sentences[start : start + 3]) for start in range(0, len(sentences), 3)]
    return [Heading("The year in numbers"), *(Paragraph(text) for text in grouped)]


def risks(company: Company, events: Events) -> list[Block]:
    """The risks with the measures against each."""
    parts = [
        Paragraph(
            f"A risk that the board watches is {risk.name}. Against it the company {risk.measures[0]}; "
            f"it also {risk.measures[1]}.",
            f"risk/{risk.name}",
        )
        for risk in events.risks
    ]
    return [Heading("Risks"), *parts]


def finances(company: Company, year: int) -> list[Block]:
    """The financial statements."""
    return [
        Heading("Financial statements"),
        income_table(company, year),
        quarter_table(company, year),
        region_table(company, year),
        balance_table(company, year),
        cash_table(company, year),
    ]


# --------
# Templates of the sections that grow with the length of a report. They tell of work, weather and people.
#
# They state no fact that a question asks for, and use no term of ``metrics.METRICS``; they do name the same goods,
# towns and people, which is what makes them good distractors.

CHRONICLE: Final = (
    "On {day} {month} the first {product} of the new pattern [left the benches|passed its test|was shown to "
    "{customers}] at {town}.",
    "{manager} [reports|writes|notes] that the {town} works [lost {n} hours to fog|finished {n} days ahead of "
    "plan|took on {n} hands for the season] in {month}.",
    "In {month} a delegation of {customers} [came to {town}|spent {n} hours in the halls] and [asked mostly about"
    " {material}|left with a {product} under each arm|praised the soup].",
    "[A crate|A wagon|A consignment] of {m} {noun} parts went astray on the way from {town} to {town2} and "
    "[turned up in {month}|was found by a retired postmaster|came home by bicycle].",
    "On {day} {month} {person} opened the new [gate house|tool store|drawing office|weighbridge] at {town}, [in "
    "rain|in bright sun|in a wind that took the ribbon].",
    "The {segment} people held their [spring|summer|autumn] meeting at {town2}; {n} proposals were [read "
    "aloud|pinned up|put to the vote] and {head} [promised an answer to each|wrote back within the week].",
    "{month} brought [late frost|long evenings|three weeks of drizzle|a heat wave], and the {town} works [moved "
    "its shifts to the early morning|kept its doors open until dusk|hung up its coats].",
    "A letter from {peer} [asked for a licence on the {product}|enquired after {m} {noun} castings|proposed a "
    "shared stand at the fair]; we [declined with thanks|agreed by return|are thinking it over].",
    "The clock over the {town} gate, wrong since {month}, was [set right|taken down|given to the school].",
    "{person} [addressed|visited|wrote to] the foremen at {town} about [waste of {material}|noise|overtime|the "
    "price of {material}], and {n} of them [replied in writing|stayed for tea|proposed remedies].",
    "A {noun} made at {town} [in the founder's day|{m} years ago] came back for repair in {month} and was [mended"
    " without charge|found to need only oil|put in the showcase].",
    "On {day} {month} the {town} fire company [practised on our roof|borrowed our ladder|gave a concert in the "
    "loading bay].",
    "[Nobody|Only {manager}] noticed at first that the {month} calendar of {town} had {n} Mondays; [the printer "
    "has apologised|it was kept].",
    "In {month} the {customers} of {town2} [sent a cheese|sent a bill by mistake|sent back an umbrella], [which "
    "was shared out|and received a {noun} brush in return].",
    "A film about the {product} was made at {town} over {n} days in {month}; [the lathe steals every "
    "scene|{person} is seen twice, from behind|it has been shown at {town2}].",
    "[Thieves|Jackdaws] took {m} brass caps from the yard at {town} in {month}; [{n} were found on a chimney|the "
    "fence has been mended|the rest were never missed].",
    "The yearly stocktaking at {town} found {m} more {noun} handles than the books allowed, [and one accordion|to"
    " general delight|an error of {month}].",
)  # fmt: skip

SEGMENT_DIARY: Final = (
    "{customers} [remain|are still|have become] the most faithful buyers of the {product}, [and the most "
    "exacting|though they pay late|and they tell each other].",
    "{head} [believes|told the board|has written] that {segment} [should keep to fewer goods and finish them "
    "better|needs its own drawing office|must learn to say no to small lots].",
    "The {product} [needs|takes] {n} [hours at the bench|separate operations|fittings of {material}], [two fewer "
    "than its predecessor|and a patient hand].",
    "A trial with {customers} at {town2} [ran for {n} weeks|began in {month}|was cut short by snow] and [showed "
    "that the {noun} wears well|led to a better handle|will be repeated].",
    "Dealers ask for the {noun} in [blue|green|three sizes|a left-handed form]; {segment} [has said yes|has said "
    "not yet|is making {m} on trial].",
    "[Competition|Pressure] came from {peer}, whose {noun} is [lighter|cheaper|louder] but [harder to mend|made "
    "of thinner {material}|sold without a spare].",
    "{segment} [moved its stock of spares|gave its night desk|handed its packing] to {town2}, which [saves {n} "
    "journeys a week|freed {m} square metres|pleased everyone but the drivers].",
    "[Complaints|Queries] about the {product} are answered by the people who made it; in {month} there were {n}, "
    "[most about the instructions|two of them in verse|all from one address].",
    "The catalogue of {segment} now has {m} pages, [half as many as before|an index among them|two of them "
    "pictures of the works cat].",
    "{manager} has given {segment} a bench at {town} for [odd jobs|urgent repairs|trying things that ought not to"
    " work].",
    "What {customers} value, says {head}, is [that a {noun} can be opened with a coin|that someone picks up the "
    "telephone|a promise kept to the day].",
    "Of every {m} {noun} castings, {n} were [measured twice|polished by hand|kept as samples] through the "
    "[first|second] half of the year.",
    "{segment} wrote to {m} old buyers of the {product}; {n} [wrote back|sent photographs|asked for the next size"
    " up].",
    "It was a [good|slow|curious] {month} for the {noun}: [half the lots went to {customers}|every second call "
    "came from {town2}|nothing sold until the last week and then everything].",
    "{head} [keeps a broken {noun} on the desk|answers one complaint each morning|has visited {m} buyers in "
    "person], [as a reminder|and sleeps the better for it].",
    "The instructions for the {product} now fit on [one page|a postcard]; [{n} warnings were found to be the same"
    " warning|a poet at {town} was consulted].",
    "Two of the {customers} who had gone to {peer} [came back|sent word that they might come back] in {month}, "
    "[the {noun} there having rusted|without giving a reason|and were met with coffee].",
)  # fmt: skip

WORKS_NOTES: Final = (
    "At {town} the [roof of hall {n}|heating|lift|yard drainage] was renewed [during the holidays|without a day's"
    " stop|in {month}].",
    "{manager} [walks the halls at {n} minutes past seven|has kept a diary of breakdowns since {month}|knows each"
    " lathe by its sound], and [it shows|the others have begun to copy it].",
    "The {product} line at {town} was [turned by ninety degrees|shortened by {n} metres|painted yellow], so that "
    "{material} [no longer crosses the aisle|arrives where it is used].",
    "{town} has {m} machines older than their operators, [all of them in use|two of them in love letters to the "
    "editor|and one that nobody dares to switch off].",
    "A party of {m} school children from {town2} saw the {town} works in {month} and [wrote {n} essays|asked why "
    "everything is green|went home with brass filings].",
    "The crane at {town}, rated for {n} tonnes, [was inspected|received a new cable|is to be replaced].",
    "Neighbours in {town} [complained of|have grown fond of] the [noon whistle|hammering|smell of varnish]; "
    "{manager} [met them in {month}|moved it to the far hall|sent flowers].",
    "The [stores|paint shop|tool room] of {town} kept {m} days' worth of {material}, [too much|about right|a "
    "little short of the rule].",
    "A new [press|saw|furnace|test stand] from {peer} [arrived at {town} in {month}|took {n} weeks to set up|came"
    " with a manual in four languages].",
    "Night work at {town} [ended in {month}|is now voluntary|was limited to {n} benches].",
    "The garden behind the {town} works gave {m} kilos of [plums|beans|potatoes], [shared by lot|made into "
    "jam|eaten on the spot].",
    "Since {month} {town} has [measured its draughts|weighed its sawdust|counted its keys]; {manager} [puts the "
    "figures on the door|found {m} too many].",
    "The bell at {town} that used to end the shift was [moved|muffled with {material}|lent to {town2}] and "
    "[nobody goes home late|two people have been late ever since].",
    "A swallow's nest above the {noun} bench at {town} [stopped the crane for {n} days|was left in peace until "
    "{month}|has its own entry in the plant register].",
    "{town} and {town2} [share a lorry|exchange foremen|compare tea] every {n} weeks, [which began as an "
    "economy|and each claims to have gained].",
    "Of the {m} windows at {town}, {n} were [puttied anew|opened for the first time in years|exchanged for double"
    " glass] in {month}.",
)  # fmt: skip

RISK_NOTES: Final = (
    "Should {material} [become scarce|double in price], the {product} would [cost about {n} percent more to "
    "make|have to be redesigned|be made in smaller lots].",
    "The board [discussed|took up] {month}'s failure of a supplier of {material} and [asked for a second "
    "source|found the stock sufficient|thanked the buyers for their calm].",
    "An exercise at {town} in {month} [assumed|pretended] that the {noun} drawings were lost; {manager}'s people "
    "[rebuilt them in {n} days|found {m} copies].",
    "If {customers} were to [buy abroad|delay their orders|pay by barter], {segment} would feel it within {n} weeks.",
    "{peer} may [lower its prices|bring out a {noun} of its own|court our dealers]; we [watch this|cannot prevent"
    " it|would rather be copied than ignored].",
    "Insurance covers the halls at {town} but not [the wait for new machines|spoiled {material}|the patience of "
    "{customers}].",
    "The road between {town} and {town2} floods [every {n} years|whenever it likes]; goods then [go by the "
    "hill|wait|travel by boat].",
    "{person} keeps a list of {m} small dangers, [from loose carpets to loose talk|ranked by cost|read out each "
    "{month}].",
    "No law suit is known that could [cost more than {n} days of trade|stop the {product}]; one about [a right of"
    " way at {town}|a borrowed trademark] goes on.",
    "Rules for {material} are likely to [tighten|change again]; {segment} has [a substitute in trial|written to "
    "the ministry|set aside {n} benches for tests].",
    "What would happen if {town} could not be reached for {n} days? {manager} [has tried it|has an answer in a "
    "sealed envelope|keeps a boat].",
    "A single [mould|gauge|spring winder] at {town} shapes every {noun}; [a twin is being made|its twin lies at "
    "{town2}|it is wrapped in flannel at night].",
    "{person} warned in {month} that [cheap money makes dear habits|a full store is also a debt|{customers} do "
    "not stay for ever]; the minutes record [agreement|silence, then agreement].",
    "We hold that the risk of [frost|mould|forged spare parts] for the {product} is [small|smaller than it "
    "was|worth {n} tests a year].",
)  # fmt: skip

PEOPLE_NOTES: Final = (
    "{manager} [celebrated {n} years in the post|received the long-service watch|taught a Saturday course] at "
    "{town}, and [a cake in the shape of a {noun} was cut|speeches were kept short].",
    "The works council at {town} [met {n} times|settled {n} questions], [most about shift rosters|chiefly about "
    "parking and soup|among them the length of the tea break].",
    "In {month} {m} people from {town} [changed places for a week|went] with colleagues at {town2}, [to see how "
    "the other half files|and came back with ideas about {material}].",
    "{person} [gave|read] a talk on [debt|the history of the {noun}|how to read a balance sheet] to {m} listeners"
    " at {town2}.",
    "The football side of {town} [lost to|beat|drew with] that of {peer} by [a goal|two goals|the toss of a coin]"
    " in {month}.",
    "A suggestion from the {product} bench, to [store {material} upright|number the drawers|warm the glue "
    "overnight], [saved {n} minutes a piece|won the yearly prize|was so simple that nobody had dared].",
    "Wages were raised in {month} by [agreement|a rule of two parts], and {n} grades became [fewer|clearer].",
    "The orchestra of the {town} works [performed on the quay|toured the {town2} old people's homes|lost its "
    "bassoon], with {person} [in the front row|turning pages].",
    "Nursery places at {town} now number {m}, [each with a hook and a picture of a {noun}|after {n} were added].",
    "{n} retired hands came back to {town} [to teach filing|for the {month} rush|because they missed the noise].",
    "{month} saw the [wedding|retirement|return] of a well-loved {noun} fitter at {town}, with {m} guests and [no"
    " speeches|three speeches|a brass band].",
    "The works newspaper of {town} [printed {n} recipes|ran a serial about a lost {noun}|held a contest for the "
    "worst pun on {material}] and [sold out|was read aloud at {town2}].",
    "{person} and {n} others [cycled|walked|rowed] from {town} to {town2} in {month} [for the hospital fund|on a "
    "wager|and took the bus home].",
    "Of those who left {town} in the year, {n} [went to {peer}|went to sea|set up on their own], and [some have "
    "asked to return|all were given a {noun}].",
    "At {town} the [left-handed|short-sighted|tall] among the staff now have [benches of their own|a say in the "
    "buying of tools], thanks to {manager}.",
)  # fmt: skip

RESEARCH_NOTES: Final = (
    "The laboratory tested [{n} grades of {material}|{material} from {n} makers] for the {product} and [kept "
    "one|kept two|rejected them all].",
    "A {noun} was run for {m} days without [oil|rest|supervision] at {town}; it [stopped on day {n}|outlasted its"
    " bench|is still running].",
    "With {peer} we [share|shared until {month}] a test stand for {noun} parts at {town2}, [and the electricity "
    "bill|and not a word about prices].",
    "{head} set {segment} the task of [halving the parts|removing every glued joint|making the case from "
    "{material}]; [{n} sketches exist|the first model squeaks|a verdict is due by {month}].",
    "An attempt to make the {product} from recycled {material} [failed at the {n}th try|succeeded in {month}|gave"
    " a handsome colour and a weak hinge].",
    "The drawing office at {town} has [scanned {m} folders of old plans|found a forgotten {noun} of great "
    "charm|replaced its lamp shades].",
    "Students from {school} measured [heat|noise|draught] at {n} points of the {noun}, and [found us "
    "out|confirmed the old rule of thumb|asked to stay].",
    "Field trials with {customers} used {m} pieces of the {product}; {n} were [returned with notes|worn to the "
    "rivets|best_effort kept].",
    "Nothing in the year was so useful as [the mistake of {month}|a broken {noun}|a complaint from {town2}], "
    "which [taught us to test cold|led to a stronger joint|is framed above the bench].",
    "A simpler {noun}, [without springs|with one screw|in {material} only], is [half ready|on {manager}'s desk|to"
    " be tried at {town}].",
    "The question whether a {noun} should [hum|click|be silent] was put to {m} {customers}; [they were "
    "divided|silence won|{head} decided].",
    "In {month} the first {noun} with [a glass back|a cork foot|no screws at all] was [dropped from a ladder|left"
    " in the sea|lent to a school] and [lived|was mourned|taught us much].",
    "{n} notebooks of the old master of {town} were [read|deciphered]; one holds [a recipe for {material} "
    "varnish|a cure for a sticking {noun}|remarks about his foreman].",
    "Trials of {material} from {town2} for the {product} [ended in {month}|go on], [and the smell has been "
    "remarked upon|with {m} samples to go].",
)  # fmt: skip

POLICY_NOTES: Final = (
    "Goods such as the {product} are [valued at cost|written down after {n} months], [unless {customers} have "
    "paid a deposit|unless {material} can be melted and used again].",
    "Machines at {town} are written off over {n} years; [moulds for the {noun}|patterns and jigs] over "
    "[five|six|eight].",
    "Revenue of {segment} is counted when the {noun} [leaves the gate|has been signed for|has run for a day at "
    "the buyer's].",
    "Leases run for {n} years at {town2} and include [a store for {material}|a quay|a house for the porter].",
    "A guarantee of {m} months is given on the {product}; [the reserve for it was reviewed in {month}|past years "
    "serve as a guide].",
    "Sums due from {customers} are [checked one by one|grouped by age]; those older than {m} weeks are "
    "[doubted|written down by a half].",
    "Contracts to buy {material} [until {month}|for {n} months ahead] are not shown in the balance sheet, since "
    "[both sides may withdraw|nothing has been delivered].",
    "Related parties: {person} [rents a boathouse to|sits without pay on the council of|lends paintings to] [the "
    "company|a club at {town2}]; the sums are [small|below the limit set by law].",
    "The choice of {n} years for halls at {town} is a judgement; [two years more or less would move "
    "little|auditors discussed it in {month}].",
    "Grants for [insulation|training|the quay] at {town} are [deducted from the cost of the thing|spread over {n}"
    " years].",
    "Tools under {m} dollars are [charged at once|not listed], save at {town}, where [custom rules|{manager} "
    "counts everything].",
    "Goods of {segment} on their way between {town} and {town2} at the year's end were [counted at "
    "{town2}|counted once, after some debate].",
    "A claim against {peer} for {material} that arrived wet in {month} is [not in the books until paid|shown at "
    "half its sum].",
    "Hours spent on the next {noun} are [charged to the year|carried forward only once {head} has signed that it "
    "will be sold].",
)  # fmt: skip

SECTIONS: Final = {
    "A chronicle of the year": CHRONICLE,
    "From the divisions": SEGMENT_DIARY,
    "Notes from the works": WORKS_NOTES,
    "Risk in daily life": RISK_NOTES,
    "Hands and heads": PEOPLE_NOTES,
    "Trying things": RESEARCH_NOTES,
    "How we count": POLICY_NOTES,
}

# --------
# Puts a report together: the core sections, then tales dealt to their sections until the wanted length is reached.

_SENTENCES: Final = (3, 5)  # sentences of a tale, ours
_TALES_BEFORE_PART: Final = 8  # a tale section gets a new sub-heading after so many paragraphs, ours


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
    """The report on ``year``, of about ``words`` words (never less than its core, about 1,300 words)."""
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
        year_of_work(company, events),
        numbers(company, year, writer),
        people(company, writer),
        risks(company, events),
        finances(company, year),
    ]
    missing = words - sum(word_count(block) for part in parts for block in part)
    tales = _tales(company, writer, missing)
    # A tale section follows each core section, so that facts lie all over the report and not in one heap.
    ordered = [block for part, tale in zip(parts, tales, strict=True) for block in (*part, *tale)]
    return Report(company, year, events, tuple(ordered))


def _tales(company: Company, writer: Writer, missing: int) -> list[list[Block]]:
    """For each tale section its blocks, dealt in turn until ``missing`` words are written."""
    sections: list[list[Block]] = [[] for _ in SECTIONS]
    dealt = 0
    while missing > 0:
        (title, templates), blocks = list(SECTIONS.items())[dealt % len(SECTIONS)], sections[dealt % len(SECTIONS)]
        context = _context(company, writer.rng)
        if not blocks:
            blocks.append(Heading(title))
            missing -= word_count(blocks[-1])
        elif dealt // len(SECTIONS) % _TALES_BEFORE_PART == 0:
            blocks.append(Heading(f"{title}, part {dealt // len(SECTIONS) // _TALES_BEFORE_PART + 1}", 3))
            missing -= word_count(blocks[-1])
        blocks.append(Paragraph(writer.paragraph(templates, context, writer.rng.randint(*_SENTENCES))))
        missing -= word_count(blocks[-1])
        dealt += 1
    return sections


def _context(company: Company, rng: random.Random) -> Context:
    """The slots of one tale: a product with its own works and segment, so that tales never gainsay the core."""
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
