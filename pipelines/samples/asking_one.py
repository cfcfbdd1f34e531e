"""Questions that one place in one report answers: extractive, abstractive and arithmetic ones."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from okralong.pipelines.core.types import QuestionType
from okralong.pipelines.samples.blocks import cell
from okralong.pipelines.samples.events import rose
from okralong.pipelines.samples.gold import Draft, change, percentage, rounded, thousands
from okralong.pipelines.samples.report import Report


def _draft(
    report: Report, kind: QuestionType, question: str, answers: tuple[str, ...], *keys: str, calculation: str = ""
) -> Draft:
    scope = report.doc_id
    return Draft(question, kind, (scope,), answers, tuple((scope, key) for key in keys), calculation=calculation)


def extractive(report: Report) -> Iterator[Draft]:
    """The answer stands literally in the span."""
    company, year, events = report.company, report.year, report.events

    def ask(question: str, answer: str, key: str) -> Draft:
        return _draft(report, "extractive", question, (answer,), key)

    yield ask(f"Who founded {company.name}?", company.founder, "founder")
    yield ask(f"In which town is the head office of {company.name}?", company.town, "town")
    for metric in company.disclosed:
        shown = metric.show(company.figures[metric.key, year])
        yield ask(f"What was {metric.ask} at {company.name} in {year}?", shown, f"now/{metric.key}")
    for project in events.projects:
        yield ask(
            f"How much does project {project.name} of {company.name} save each year?",
            f"${project.saving} million",
            f"saving/{project.name}",
        )
    for site in company.sites:
        yield ask(f"Who manages the {site.town} works of {company.name}?", site.manager, f"manager/{site.town}")
        yield ask(
            f"In which year was the {site.town} works of {company.name} opened?",
            str(site.opened),
            f"opened/{site.town}",
        )
    for person in company.officers:
        yield ask(
            f"For which firm did {person.name} work before joining {company.name}?",
            person.former_firm,
            f"firm/{person.name}",
        )
    recall = events.recall
    yield ask(
        f"In which month of {year} did {company.name} recall the {recall.product.name}?", recall.month, "recall/month"
    )


def abstractive(report: Report) -> Iterator[Draft]:
    """The answer restates a paragraph."""
    company, year, events = report.company, report.year, report.events

    def ask(question: str, answer: str, key: str) -> Draft:
        return _draft(report, "abstractive", question, (answer[0].upper() + answer[1:] + ".",), key)

    for segment in company.segments:
        verb = "rise" if rose(company, segment.name, year) else "fall"
        first, second = events.causes[segment.name]
        question = f"Why did the sales of {segment.name} at {company.name} {verb} in {year}?"
        yield ask(question, f"{first}, and {second}", f"why/{segment.name}")
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
        yield ask(
            f"How did {company.name} guard itself against {risk.name}, according to its {year} report?",
            f"it {risk.measures[0]} and {risk.measures[1]}",
            f"risk/{risk.name}",
        )
    for project in events.projects:
        yield ask(
            f"Describe project {project.name} of {company.name} and what it brings.",
            f"{project.leader.name} led it at the {project.site.town} works; its aim is {project.purpose}, and it "
            f"saves ${project.saving} million a year",
            f"project/{project.name}",
        )


def arithmetic(report: Report) -> Iterator[Draft]:
    """The answer is computed; the evidence is its operands, in the order of the formula."""
    company, year = report.company, report.year
    now, then = company.accounts[year], company.accounts[year - 1]

    def ask(question: str, answers: tuple[str, ...], calculation: str, *keys: str) -> Draft:
        return _draft(report, "arithmetic", question, answers, *keys, calculation=calculation)

    for metric in company.disclosed:
        new, old = company.figures[metric.key, year], company.figures[metric.key, year - 1]
        verb = "rise" if new > old else "fall"
        question = f"By what percentage did {metric.ask} at {company.name} {verb} from {year - 1} to {year}?"
        if new != old:
            yield ask(question, (percentage(new, old),), change(new, old), f"now/{metric.key}", f"then/{metric.key}")
    for segment in company.segments:
        name = segment.name
        new, old = Decimal(now.segments[name]), Decimal(then.segments[name])
        verb = "rise" if new > old else "fall"
        question = f"By what percentage did the revenue of {name} at {company.name} {verb} from {year - 1} to {year}?"
        places = cell("segments", name, year), cell("segments", name, year - 1)
        yield ask(question, (percentage(new, old),), change(new, old), *places)
    for first, second in zip(company.segments, company.segments[1:], strict=False):
        one, other = now.segments[first.name], now.segments[second.name]
        yield ask(
            f"What was the sum of the {year} revenues of {first.name} and {second.name} at {company.name}?",
            thousands(one + other),
            f"$({one:,} + {other:,}) thousand",
            cell("segments", first.name, year),
            cell("segments", second.name, year),
        )
    yield ask(
        f"What is the difference between the total revenue of {company.name} in {year} and in {year - 1}?",
        thousands(abs(now.revenue - then.revenue)),
        f"$({max(now.revenue, then.revenue):,} - {min(now.revenue, then.revenue):,}) thousand",
        cell("segments", "Total revenue", year),
        cell("segments", "Total revenue", year - 1),
    )
    names = ("First quarter", "Second quarter", "Third quarter", "Fourth quarter")
    average = int((Decimal(now.revenue) / 4).to_integral_value())
    yield ask(
        f"What was the average quarterly revenue of {company.name} in {year}, to the nearest thousand dollars?",
        thousands(average),
        f"$({' + '.join(f'{each:,}' for each in now.quarters)}) / 4 thousand",
        *(cell("quarters", name, year) for name in names),
    )
    sheet = now.balance
    current = sheet["Cash"] + sheet["Receivables"] + sheet["Inventories"]
    owed = sheet["Payables"] + sheet["Short-term loans"]
    yield ask(
        f"What was the ratio of current assets to current liabilities of {company.name} at the end of {year}?",
        (rounded(Decimal(current) / owed, 2),),
        f"{current:,} / {owed:,}",
        cell("balance", "Current assets", year),
        cell("balance", "Current liabilities", year),
    )
