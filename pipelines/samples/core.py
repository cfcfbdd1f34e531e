"""The part of a report that every length has: each fact that a question may ask for, stated once and marked.

One function a section; each returns its blocks. Fact keys are spelled here and read by the question makers.
"""

from __future__ import annotations

from okralong.pipelines.samples import statements
from okralong.pipelines.samples.blocks import Block, Heading, Paragraph, mark
from okralong.pipelines.samples.events import Events, rose
from okralong.pipelines.samples.grammar import Writer
from okralong.pipelines.samples.world import Company, Segment


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
        statements.income_table(company, year),
        statements.quarter_table(company, year),
        statements.region_table(company, year),
        statements.balance_table(company, year),
        statements.cash_table(company, year),
    ]
