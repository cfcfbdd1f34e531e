"""Drafts of questions about the made-up reports, by type, each with its answer and the facts that prove it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from itertools import pairwise
from typing import Protocol

from okralong.pipelines.core.types import QuestionType
from okralong.pipelines.samples.blocks import cell
from okralong.pipelines.samples.report import QUARTERS, Report
from okralong.pipelines.samples.words import Lexicon
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
    words, say = company.words, _saying(company)
    yield ask(say("ask_founder"), company.founder, "founder")
    yield ask(say("ask_town"), company.town, "town")
    for metric in company.disclosed:
        shown = words.show(metric, company.figures[metric.key, year])
        yield ask(say("ask_metric", metric=metric.ask, year=year), shown, f"now/{metric.key}")
    for project in report.events.projects:
        saving = say("saving", saving=words.number(project.saving))
        yield ask(say("ask_saving", project=project.name), saving, f"saving/{project.name}")
    for site in company.sites:
        yield ask(say("ask_manager", town=site.town), site.manager, f"manager/{site.town}")
        yield ask(say("ask_opened", town=site.town), str(site.opened), f"opened/{site.town}")
    for person in company.officers:
        yield ask(say("ask_firm", person=person.name), person.former_firm, f"firm/{person.name}")
    recall = report.events.recall
    yield ask(say("ask_recalled", year=year, product=recall.product.name), recall.month, "recall/month")


def _saying(company: Company) -> Callable[..., str]:
    """Return ``Lexicon.say`` with the company's name as the slot "company"."""
    return partial(company.words.say, company=company.name)


def abstractive(report: Report) -> Iterator[Draft]:
    """Yield questions whose answer restates a paragraph."""
    company, year, events = report.company, report.year, report.events
    say = _saying(company)

    def ask(question: str, answer: str, key: str) -> Draft:
        text = say("sentence", text=f"{answer[0].upper()}{answer[1:]}")
        return _asking(report, "abstractive")(question, text, key)

    for segment in company.segments:
        question = say(
            "ask_why_rise" if rose(company, segment.name, year) else "ask_why_fall", segment=segment.name, year=year
        )
        causes = say("and_causes").join(events.causes[segment.name])
        yield ask(question, say("why_answer", causes=causes), f"why/{segment.name}")
    recall, storm = events.recall, events.storm
    yield ask(
        say("ask_recall", product=recall.product.name, year=year),
        say("recall_answer", fault=recall.fault, remedy=recall.remedy),
        "recall",
    )
    yield ask(
        say("ask_storm", storm=storm.kind, town=storm.site.town, year=year),
        say("storm_answer", help=storm.first_help, recovery=storm.recovery),
        "storm",
    )
    for risk in events.risks:
        answer = say("risk_answer", first=risk.measures[0], second=risk.measures[1])
        yield ask(say("ask_risk", risk=risk.name, year=year), answer, f"risk/{risk.name}")
    for project in events.projects:
        answer = say(
            "project_answer",
            leader=project.leader.name,
            town=project.site.town,
            purpose=project.purpose,
            saving=say("saving", saving=company.words.number(project.saving)),
        )
        yield ask(say("ask_project", project=project.name), answer, f"project/{project.name}")


def arithmetic(report: Report) -> Iterator[Draft]:
    """Yield questions with a computed answer; the evidence is its operands, in the order of the formula."""
    company, year, ask = report.company, report.year, _asking(report, "arithmetic")
    now, then = company.accounts[year], company.accounts[year - 1]
    words, say = company.words, _saying(company)
    shown, label = words.number, words.label

    def by_percentage(what: str, new: Decimal, old: Decimal, *keys: str) -> Draft:
        question = say("ask_rise" if new > old else "ask_fall", what=what, last=year - 1, year=year)
        answer = say("percent", value=_rounded(abs(new - old) / old * 100, 1, words))
        high, low = shown(max(new, old)), shown(min(new, old))
        return ask(question, answer, *keys, calculation=f"({high} - {low}) / {shown(old)} * 100 %")

    for metric in company.disclosed:
        new, old = company.figures[metric.key, year], company.figures[metric.key, year - 1]
        if new != old:
            yield by_percentage(metric.ask, new, old, f"now/{metric.key}", f"then/{metric.key}")
    for segment in company.segments:
        name = segment.name
        new, old = Decimal(now.segments[name]), Decimal(then.segments[name])
        cells = cell("segments", name, year), cell("segments", name, year - 1)
        yield by_percentage(say("revenue_of", segment=name), new, old, *cells)
    for first, second in pairwise(segment.name for segment in company.segments):
        one, other = now.segments[first], now.segments[second]
        yield ask(
            say("ask_sum", year=year, first=first, second=second),
            _thousands(one + other, words),
            cell("segments", first, year),
            cell("segments", second, year),
            calculation=say("calculated", expression=f"{shown(one)} + {shown(other)}"),
        )
    total = label("Total revenue")
    most, least = max(now.revenue, then.revenue), min(now.revenue, then.revenue)
    yield ask(
        say("ask_difference", year=year, last=year - 1),
        _thousands(abs(now.revenue - then.revenue), words),
        cell("segments", total, year),
        cell("segments", total, year - 1),
        calculation=say("calculated", expression=f"{shown(most)} - {shown(least)}"),
    )
    yield ask(
        say("ask_average", year=year),
        _thousands(int((Decimal(now.revenue) / 4).to_integral_value()), words),
        *(cell("quarters", label(name), year) for name in QUARTERS),
        calculation=say("calculated_average", expression=" + ".join(map(shown, now.quarters))),
    )
    sheet = now.balance
    current = sheet["Cash"] + sheet["Receivables"] + sheet["Inventories"]
    owed = sheet["Payables"] + sheet["Short-term loans"]
    yield ask(
        say("ask_ratio", year=year),
        _rounded(Decimal(current) / owed, 2, words),
        cell("balance", label("Current assets"), year),
        cell("balance", label("Current liabilities"), year),
        calculation=f"{shown(current)} / {shown(owed)}",
    )


def chains(report: Report) -> Iterator[Draft]:
    """Yield multi-bridge questions, where the first fact names the second.

    The chains are head to revenue, product to manager, project to biography, and recall to headcount.
    """
    company, year, ask = report.company, report.year, _asking(report, "multi-bridge")
    words, say = company.words, _saying(company)
    for segment in company.segments:
        head = f"head/{segment.name}"
        yield ask(
            say("ask_revenue_led", year=year, head=segment.head.name),
            _thousands(company.accounts[year].segments[segment.name], words),
            head,
            cell("segments", segment.name, year),
        )
        question = say("ask_school_of_head", segment=segment.name)
        yield ask(question, segment.head.school_town, head, f"school/{segment.head.name}")
    for product in company.products:
        made, site = f"made/{product.name}", product.site
        question = say("ask_manager_of_product", product=product.name)
        yield ask(question, site.manager, made, f"manager/{site.town}")
        question = say("ask_opened_of_product", product=product.name)
        yield ask(question, str(site.opened), made, f"opened/{site.town}")
    for project in report.events.projects:
        question = say("ask_firm_of_leader", project=project.name)
        yield ask(question, project.leader.former_firm, f"leader/{project.name}", f"firm/{project.leader.name}")
    recalled = report.events.recall.product
    yield ask(
        say("ask_heads", year=year),
        words.number(company.accounts[year].employees[recalled.site.town]),
        "recall/product",
        f"made/{recalled.name}",
        cell("employees", recalled.site.town, year),
    )


def single_look_ups(report: Report) -> Iterator[Draft]:
    """Yield the single look-ups that make up multi-bridge questions and comparisons.

    Each answer is a literal span, with similar ones near it.
    """
    company, year, ask = report.company, report.year, _asking(report, "extractive")
    words, say = company.words, _saying(company)

    def each_way(key: str, **slots: object) -> list[str]:
        return [template.format(company=company.name, **slots) for template in words.phrases[key]]

    for segment in company.segments:
        for question in each_way("look_up_head", segment=segment.name):
            yield ask(question, segment.head.name, f"head/{segment.name}")
        for product in segment.products:
            for question in each_way("look_up_made", product=product.name):
                yield ask(question, product.site.town, f"made/{product.name}")
    for site in company.sites:
        for question in each_way("look_up_manager", town=site.town):
            yield ask(question, site.manager, f"manager/{site.town}")
        yield ask(say("look_up_opened", town=site.town), str(site.opened), f"opened/{site.town}")
    for person in company.officers:
        for question in each_way("look_up_joined", person=person.name):
            yield ask(question, str(person.joined), f"joined/{person.name}")
        yield ask(say("look_up_school", person=person.name), person.school_town, f"school/{person.name}")
        yield ask(say("look_up_firm", person=person.name), person.former_firm, f"firm/{person.name}")
    for project in report.events.projects:
        for question in each_way("look_up_leader", project=project.name):
            yield ask(question, project.leader.name, f"leader/{project.name}")
    recalled = report.events.recall.product.name
    yield ask(say("look_up_recalled", year=year), recalled, "recall/product")


def _rounded(value: Decimal, places: int, words: Lexicon) -> str:
    """Return the value rounded half up to ``places`` decimals, with thousands separated."""
    return words.number(value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def _thousands(value: int, words: Lexicon) -> tuple[str, ...]:
    """Return notations of an amount that a table gives in thousands."""
    forms = {"thousand": words.number(value), "million": _rounded(Decimal(value) / 1000, 1, words)}
    return tuple(template.format(**forms) for template in words.phrases["thousands"])


# Multi-source questions compare two people, two works or two years of a company, or two companies.


def between_people(report: Report) -> Iterator[Draft]:
    """Yield questions with two sources in one report: biographies of two officers, or histories of two works."""
    company, ask, say = report.company, _asking(report, "multi-source"), _saying(report.company)
    for one, other in pairwise(company.officers):
        first = min(one, other, key=lambda person: person.joined)
        question = say("ask_joined_earlier", one=one.name, other=other.name)
        yield ask(question, first.name, f"joined/{one.name}", f"joined/{other.name}")
    for here, there in pairwise(company.sites):
        older = min(here, there, key=lambda site: site.opened)
        question = say("ask_opened_earlier", one=here.town, other=there.town)
        yield ask(question, older.town, f"opened/{here.town}", f"opened/{there.town}")


def between_reports(one: Report, other: Report) -> Iterator[Draft]:
    """Yield questions on two reports, of two years or two companies; none if both are the same."""
    if one is other:
        return
    scope = (one.doc_id, other.doc_id)
    mine, theirs = one.company, other.company
    words, say = mine.words, _saying(mine)

    def ask(question: str, answer: str, key: str) -> Draft:
        return Draft(question, "multi-source", scope, (answer,), tuple((doc_id, key) for doc_id in scope))

    for metric in mine.disclosed:
        if metric not in theirs.disclosed:
            continue
        here, there = mine.figures[metric.key, one.year], theirs.figures[metric.key, other.year]
        if mine is theirs:
            question = say("ask_two_years", metric=metric.ask, first=one.year, second=other.year)
            figures = {"one": words.show(metric, here), "other": words.show(metric, there)}
            answer = say("two_years_answer", first=one.year, second=other.year, **figures)
            yield ask(question, answer, f"now/{metric.key}")
        elif here != there:
            question = say(
                "ask_higher", metric=metric.ask, one=mine.name, first=one.year, other=theirs.name, second=other.year
            )
            yield ask(question, (mine if here > there else theirs).name, f"now/{metric.key}")
    if mine is not theirs and mine.founded != theirs.founded:
        older = min(mine, theirs, key=lambda company: company.founded)
        yield ask(say("ask_older", one=mine.name, other=theirs.name), older.name, "founded")


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
    say, disclosed = _saying(company), company.disclosed[0]
    for metric in company.withheld:
        ask, term = metric.ask, metric.term
        yield "extractive", say("ask_metric", metric=ask, year=year), term
        yield "arithmetic", say("ask_change", metric=ask, last=year - 1, year=year), term
        yield "multi-source", say("ask_two_metrics", one=disclosed.ask, other=ask, year=year), term
    for segment in stranger.segments:
        head = segment.head.name
        yield "multi-bridge", say("ask_stranger_revenue", year=year, head=head), head
        for product in segment.products:
            yield "abstractive", say("ask_stranger_recall", year=year, product=product.name), product.name
