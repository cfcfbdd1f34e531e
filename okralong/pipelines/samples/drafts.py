"""Drafts of questions about the made-up reports, by type, each with its answer and the facts that prove it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Protocol

from okralong.pipelines.core.types import QuestionType
from okralong.pipelines.samples.blocks import cell
from okralong.pipelines.samples.report import QUARTERS, Report
from okralong.pipelines.samples.world import Company, rose


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before rendering, with its evidence as (doc_id, fact key).

    ``answers`` are equivalent wordings, the plainest first; empty for an unanswerable question, where ``absent`` is the
    phrase that no document of the scope contains. ``calculation`` is the expression of an arithmetic answer in the
    report's own figures, with its unit ("(12.5 - 10) / 10 * 100 %").
    """

    question: str
    type: QuestionType
    doc_ids: tuple[str, ...]
    answers: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]
    absent: str = ""
    calculation: str = ""


# Questions on one report.


class _Ask(Protocol):
    """Makes a draft on one report from the keys of its facts."""

    def __call__(self, question: str, answer: str | tuple[str, ...], *keys: str, calculation: str = "") -> Draft: ...


def _asking(report: Report, kind: QuestionType) -> _Ask:
    def ask(question: str, answer: str | tuple[str, ...], *keys: str, calculation: str = "") -> Draft:
        answers = (answer,) if isinstance(answer, str) else answer
        evidence = tuple((report.doc_id, key) for key in keys)
        return Draft(question, kind, (report.doc_id,), answers, evidence, calculation=calculation)

    return ask


def extractive(report: Report) -> Iterator[Draft]:
    """Yield questions whose answer is a literal span."""
    company, year, ask = report.company, report.year, _asking(report, "extractive")
    yield ask(f"Who founded {company.name}?", company.founder, "founder")
    yield ask(f"In which town is the head office of {company.name}?", company.town, "town")
    for metric in company.disclosed:
        shown = metric.show(company.figures[metric.key, year])
        yield ask(f"What was {metric.ask} at {company.name} in {year}?", shown, f"now/{metric.key}")
    for project in report.events.projects:
        question = f"How much does project {project.name} of {company.name} save each year?"
        yield ask(question, f"${project.saving} million", f"saving/{project.name}")
    for site in company.sites:
        works = f"the {site.town} works of {company.name}"
        yield ask(f"Who manages {works}?", site.manager, f"manager/{site.town}")
        yield ask(f"In which year was {works} opened?", str(site.opened), f"opened/{site.town}")
    for person in company.officers:
        question = f"For which firm did {person.name} work before joining {company.name}?"
        yield ask(question, person.former_firm, f"firm/{person.name}")
    recall = report.events.recall
    question = f"In which month of {year} did {company.name} recall the {recall.product.name}?"
    yield ask(question, recall.month, "recall/month")


def abstractive(report: Report) -> Iterator[Draft]:
    """Yield questions whose answer restates a paragraph."""
    company, year, events = report.company, report.year, report.events

    def ask(question: str, answer: str, key: str) -> Draft:
        return _asking(report, "abstractive")(question, f"{answer[0].upper()}{answer[1:]}.", key)

    for segment in company.segments:
        verb = "rise" if rose(company, segment.name, year) else "fall"
        question = f"Why did the sales of {segment.name} at {company.name} {verb} in {year}?"
        yield ask(question, ", and ".join(events.causes[segment.name]), f"why/{segment.name}")
    recall, storm = events.recall, events.storm
    yield ask(
        f"Why did {company.name} recall the {recall.product.name} in {year}, and how was the matter put right?",
        f"it was recalled because of {recall.fault}; the service people {recall.remedy}",
        "recall",
    )
    yield ask(
        f"Summarize how {company.name} dealt with the {storm.kind} at its {storm.site.town} works in {year}.",
        f"the staff {storm.first_help}, and the company then {storm.recovery}",
        "storm",
    )
    for risk in events.risks:
        question = f"How did {company.name} guard itself against {risk.name}, according to its {year} report?"
        yield ask(question, f"it {risk.measures[0]} and {risk.measures[1]}", f"risk/{risk.name}")
    for project in events.projects:
        answer = (
            f"{project.leader.name} led it at the {project.site.town} works; its aim is {project.purpose}, and it "
            f"saves ${project.saving} million a year"
        )
        question = f"Describe project {project.name} of {company.name} and what it brings."
        yield ask(question, answer, f"project/{project.name}")


def arithmetic(report: Report) -> Iterator[Draft]:
    """Yield questions with a computed answer; the evidence is its operands, in the order of the formula."""
    company, year, ask = report.company, report.year, _asking(report, "arithmetic")
    now, then = company.accounts[year], company.accounts[year - 1]

    def by_percentage(what: str, new: Decimal, old: Decimal, *keys: str) -> Draft:
        verb = "rise" if new > old else "fall"
        question = f"By what percentage did {what} at {company.name} {verb} from {year - 1} to {year}?"
        answer = f"{_rounded(abs(new - old) / old * 100, 1)}%"
        high, low = max(new, old), min(new, old)
        return ask(question, answer, *keys, calculation=f"({high:,} - {low:,}) / {old:,} * 100 %")

    for metric in company.disclosed:
        new, old = company.figures[metric.key, year], company.figures[metric.key, year - 1]
        if new != old:
            yield by_percentage(metric.ask, new, old, f"now/{metric.key}", f"then/{metric.key}")
    for segment in company.segments:
        name = segment.name
        new, old = Decimal(now.segments[name]), Decimal(then.segments[name])
        cells = cell("segments", name, year), cell("segments", name, year - 1)
        yield by_percentage(f"the revenue of {name}", new, old, *cells)
    for first, second in pairwise(segment.name for segment in company.segments):
        one, other = now.segments[first], now.segments[second]
        yield ask(
            f"What was the sum of the {year} revenues of {first} and {second} at {company.name}?",
            _thousands(one + other),
            cell("segments", first, year),
            cell("segments", second, year),
            calculation=f"$({one:,} + {other:,}) thousand",
        )
    yield ask(
        f"What is the difference between the total revenue of {company.name} in {year} and in {year - 1}?",
        _thousands(abs(now.revenue - then.revenue)),
        cell("segments", "Total revenue", year),
        cell("segments", "Total revenue", year - 1),
        calculation=f"$({max(now.revenue, then.revenue):,} - {min(now.revenue, then.revenue):,}) thousand",
    )
    yield ask(
        f"What was the average quarterly revenue of {company.name} in {year}, to the nearest thousand dollars?",
        _thousands(int((Decimal(now.revenue) / 4).to_integral_value())),
        *(cell("quarters", name, year) for name in QUARTERS),
        calculation=f"$({' + '.join(f'{each:,}' for each in now.quarters)}) / 4 thousand",
    )
    sheet = now.balance
    current = sheet["Cash"] + sheet["Receivables"] + sheet["Inventories"]
    owed = sheet["Payables"] + sheet["Short-term loans"]
    yield ask(
        f"What was the ratio of current assets to current liabilities of {company.name} at the end of {year}?",
        _rounded(Decimal(current) / owed, 2),
        cell("balance", "Current assets", year),
        cell("balance", "Current liabilities", year),
        calculation=f"{current:,} / {owed:,}",
    )


def chains(report: Report) -> Iterator[Draft]:
    """Yield multi-bridge questions, where the first fact names the second.

    The chains are head to revenue, product to manager, project to biography, and recall to headcount.
    """
    company, year, ask = report.company, report.year, _asking(report, "multi-bridge")
    for segment in company.segments:
        head = f"head/{segment.name}"
        yield ask(
            f"What was the {year} revenue of the {company.name} segment that {segment.head.name} leads?",
            _thousands(company.accounts[year].segments[segment.name]),
            head,
            cell("segments", segment.name, year),
        )
        question = f"In which town did the head of the {segment.name} segment of {company.name} study?"
        yield ask(question, segment.head.school_town, head, f"school/{segment.head.name}")
    for product in company.products:
        made, site = f"made/{product.name}", product.site
        question = f"Who manages the works of {company.name} at which the {product.name} is made?"
        yield ask(question, site.manager, made, f"manager/{site.town}")
        question = f"In which year was the works opened where {company.name} makes the {product.name}?"
        yield ask(question, str(site.opened), made, f"opened/{site.town}")
    for project in report.events.projects:
        question = f"For which firm had the leader of project {project.name} of {company.name} worked before?"
        yield ask(question, project.leader.former_firm, f"leader/{project.name}", f"firm/{project.leader.name}")
    recalled = report.events.recall.product
    yield ask(
        f"How many people worked, at the end of {year}, at the works that makes the product recalled by "
        f"{company.name} that year?",
        f"{company.accounts[year].employees[recalled.site.town]:,}",
        "recall/product",
        f"made/{recalled.name}",
        cell("employees", recalled.site.town, year),
    )


def single_look_ups(report: Report) -> Iterator[Draft]:
    """Yield the single look-ups that make up multi-bridge questions and comparisons.

    Each answer is a literal span, with similar ones near it.
    """
    company, year, ask = report.company, report.year, _asking(report, "extractive")
    for segment in company.segments:
        head = f"head/{segment.name}"
        yield ask(f"Who leads the {segment.name} segment of {company.name}?", segment.head.name, head)
        yield ask(f"Who is the head of the {segment.name} segment of {company.name}?", segment.head.name, head)
        for product in segment.products:
            made, town = f"made/{product.name}", product.site.town
            yield ask(f"At which works of {company.name} is the {product.name} made?", town, made)
            yield ask(f"Where does {company.name} make the {product.name}?", town, made)
    for site in company.sites:
        yield ask(f"Who manages the {site.town} works?", site.manager, f"manager/{site.town}")
        yield ask(f"Who is the manager of the works {site.town}?", site.manager, f"manager/{site.town}")
        yield ask(f"When was the works {site.town} opened?", str(site.opened), f"opened/{site.town}")
    for person in company.officers:
        joined = f"joined/{person.name}"
        yield ask(f"When did {person.name} join {company.name}?", str(person.joined), joined)
        yield ask(f"In which year did {person.name} come to {company.name}?", str(person.joined), joined)
        yield ask(f"In which town did {person.name} study?", person.school_town, f"school/{person.name}")
        yield ask(f"For which firm had {person.name} worked before?", person.former_firm, f"firm/{person.name}")
    for project in report.events.projects:
        leader = f"leader/{project.name}"
        yield ask(f"Who is the leader of project {project.name} of {company.name}?", project.leader.name, leader)
        yield ask(f"Who led project {project.name}?", project.leader.name, leader)
    recalled = report.events.recall.product.name
    yield ask(f"Which product was recalled by {company.name} in {year}?", recalled, "recall/product")


def _rounded(value: Decimal, places: int) -> str:
    """Return the value rounded half up to ``places`` decimals, with thousands separated."""
    return f"{value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,}"


def _thousands(value: int) -> tuple[str, ...]:
    """Return notations of an amount that a table gives in thousands of dollars."""
    return f"${value:,} thousand", f"{value:,}", f"${_rounded(Decimal(value) / 1000, 1)} million"


# Multi-source questions compare two people, two works or two years of a company, or two companies.


def between_people(report: Report) -> Iterator[Draft]:
    """Yield questions with two sources in one report: biographies of two officers, or histories of two works."""
    company, ask = report.company, _asking(report, "multi-source")
    for one, other in pairwise(company.officers):
        first = min(one, other, key=lambda person: person.joined)
        question = f"Who joined {company.name} earlier, {one.name} or {other.name}?"
        yield ask(question, first.name, f"joined/{one.name}", f"joined/{other.name}")
    for here, there in pairwise(company.sites):
        older = min(here, there, key=lambda site: site.opened)
        question = f"Which works of {company.name} was opened earlier, {here.town} or {there.town}?"
        yield ask(question, older.town, f"opened/{here.town}", f"opened/{there.town}")


def between_reports(one: Report, other: Report) -> Iterator[Draft]:
    """Yield questions on two reports, of two years or two companies; none if both are the same."""
    if one is other:
        return
    scope = (one.doc_id, other.doc_id)
    mine, theirs = one.company, other.company

    def ask(question: str, answer: str, key: str) -> Draft:
        return Draft(question, "multi-source", scope, (answer,), tuple((doc_id, key) for doc_id in scope))

    for metric in mine.disclosed:
        if metric not in theirs.disclosed:
            continue
        here, there = mine.figures[metric.key, one.year], theirs.figures[metric.key, other.year]
        if mine is theirs:
            question = (
                f"According to the two annual reports of {mine.name}, what was {metric.ask} in {one.year} and in "
                f"{other.year}?"
            )
            answer = f"{metric.show(here)} in {one.year} and {metric.show(there)} in {other.year}"
            yield ask(question, answer, f"now/{metric.key}")
        elif here != there:
            question = (
                f"Which company reports the higher figure for {metric.ask}: {mine.name} for {one.year} or "
                f"{theirs.name} for {other.year}?"
            )
            yield ask(question, (mine if here > there else theirs).name, f"now/{metric.key}")
    if mine is not theirs and mine.founded != theirs.founded:
        older = min(mine, theirs, key=lambda company: company.founded)
        yield ask(f"Which company was founded earlier, {mine.name} or {theirs.name}?", older.name, "founded")


# Unanswerable questions of each type: about figures that the company withholds, and about goods and people of another
# company.


def unanswerable(report: Report, text: str, stranger: Company) -> Iterator[Draft]:
    """Yield unanswerable questions on one report, with people and goods of ``stranger``.

    Drafts whose ``absent`` phrase happens to be in the plain ``text`` are dropped.
    """
    lowered = text.lower()
    for kind, question, absent in _unanswerable(report.company, report.year, stranger):
        if absent.lower() not in lowered:
            yield Draft(question, kind, (report.doc_id,), (), (), absent)


def _unanswerable(company: Company, year: int, stranger: Company) -> Iterator[tuple[QuestionType, str, str]]:
    name, disclosed = company.name, company.disclosed[0]
    for metric in company.withheld:
        ask, term = metric.ask, metric.term
        yield "extractive", f"What was {ask} at {name} in {year}?", term
        yield "arithmetic", f"By what percentage did {ask} at {name} change from {year - 1} to {year}?", term
        yield "multi-source", f"What were {disclosed.ask} and {ask} at {name} in {year}?", term
    for segment in stranger.segments:
        head = segment.head.name
        yield "multi-bridge", f"What was the {year} revenue of the {name} segment that {head} leads?", head
        for product in segment.products:
            yield "abstractive", f"Why did {name} recall the {product.name} in {year}?", product.name
