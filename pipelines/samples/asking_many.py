"""Questions that need several places: comparisons over two sources, and chains of facts.

Multi-source questions take a second report, of another company or of the same company's other year, or two people of
one company. Multi-bridge questions name the second fact only through the first.
"""

from __future__ import annotations

from collections.abc import Iterator

from okralong.pipelines.samples.blocks import cell
from okralong.pipelines.samples.gold import Draft, thousands
from okralong.pipelines.samples.report import Report


def between_people(report: Report) -> Iterator[Draft]:
    """Two sources in one report: the biographies of two officers, or the histories of two works."""
    company, scope = report.company, (report.doc_id,)
    for one, other in zip(company.officers, company.officers[1:], strict=False):
        yield Draft(
            f"Who joined {company.name} earlier, {one.name} or {other.name}?",
            "multi-source",
            scope,
            (min(one, other, key=lambda person: person.joined).name,),
            tuple((report.doc_id, f"joined/{person.name}") for person in (one, other)),
        )
    for here, there in zip(company.sites, company.sites[1:], strict=False):
        yield Draft(
            f"Which works of {company.name} was opened earlier, {here.town} or {there.town}?",
            "multi-source",
            scope,
            (min(here, there, key=lambda site: site.opened).town,),
            tuple((report.doc_id, f"opened/{site.town}") for site in (here, there)),
        )


def between_reports(one: Report, other: Report) -> Iterator[Draft]:
    """Two sources in two reports: other years of one company, or two companies."""
    scope = (one.doc_id, other.doc_id)
    mine, theirs = one.company, other.company
    for metric in mine.disclosed:
        if metric not in theirs.disclosed:
            continue
        here, there = mine.figures[metric.key, one.year], theirs.figures[metric.key, other.year]
        evidence = tuple((doc_id, f"now/{metric.key}") for doc_id in scope)
        if mine is theirs:
            question = (
                f"According to the two annual reports of {mine.name}, what was {metric.ask} in {one.year} and in "
                f"{other.year}?"
            )
            answer = f"{metric.show(here)} in {one.year} and {metric.show(there)} in {other.year}"
            yield Draft(question, "multi-source", scope, (answer,), evidence)
        elif here != there:
            question = (
                f"Which company reports the higher figure for {metric.ask}: {mine.name} for {one.year} or "
                f"{theirs.name} for {other.year}?"
            )
            answer = mine.name if here > there else theirs.name
            yield Draft(question, "multi-source", scope, (answer,), evidence)
    if mine is not theirs and mine.founded != theirs.founded:
        yield Draft(
            f"Which company was founded earlier, {mine.name} or {theirs.name}?",
            "multi-source",
            scope,
            (min(mine, theirs, key=lambda company: company.founded).name,),
            tuple((doc_id, "founded") for doc_id in scope),
        )


def chains(report: Report) -> Iterator[Draft]:
    """Multi-bridge: head to revenue, product to manager, project to biography, recall to headcount."""
    company, year, doc_id = report.company, report.year, report.doc_id

    def ask(question: str, answers: tuple[str, ...], *keys: str) -> Draft:
        return Draft(question, "multi-bridge", (doc_id,), answers, tuple((doc_id, key) for key in keys))

    for segment in company.segments:
        yield ask(
            f"What was the {year} revenue of the {company.name} segment that {segment.head.name} leads?",
            thousands(company.accounts[year].segments[segment.name]),
            f"head/{segment.name}",
            cell("segments", segment.name, year),
        )
        yield ask(
            f"In which town did the head of the {segment.name} segment of {company.name} study?",
            (segment.head.school_town,),
            f"head/{segment.name}",
            f"school/{segment.head.name}",
        )
    for product in company.products:
        made, town = f"made/{product.name}", product.site.town
        yield ask(
            f"Who manages the works of {company.name} at which the {product.name} is made?",
            (product.site.manager,),
            made,
            f"manager/{town}",
        )
        yield ask(
            f"In which year was the works opened where {company.name} makes the {product.name}?",
            (str(product.site.opened),),
            made,
            f"opened/{town}",
        )
    for project in report.events.projects:
        lead, person = f"leader/{project.name}", project.leader
        yield ask(
            f"For which firm had the leader of project {project.name} of {company.name} worked before?",
            (person.former_firm,),
            lead,
            f"firm/{person.name}",
        )
    recalled = report.events.recall.product
    heads = company.accounts[year].employees[recalled.site.town]
    yield ask(
        f"How many people worked, at the end of {year}, at the works that makes the product recalled by "
        f"{company.name} that year?",
        (f"{heads:,}",),
        "recall/product",
        f"made/{recalled.name}",
        cell("employees", recalled.site.town, year),
    )
