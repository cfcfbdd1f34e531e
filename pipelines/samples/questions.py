"""A question in the making: its wording, its gold answers, and the facts that prove them, by key."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import Document, InputError, Question, QuestionType
from okralong.pipelines.samples.text import FORMATS, Format, Rendered, Report, cell, render, write_report
from okralong.pipelines.samples.world import Company, company_names, draw_company, rose


@dataclass(frozen=True, slots=True)
class Draft:
    """A question whose evidence is named by (doc_id, fact key); spans come with the rendering.

    ``answers`` are equally good wordings, the first the plainest; empty if unanswerable, and then ``absent`` is the
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


def rounded(value: Decimal, places: int) -> str:
    """The value with so many decimals, halves up, as a person rounds; thousands separated."""
    return f"{value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):,}"


def percentage(now: Decimal, then: Decimal) -> str:
    """The size of the change from ``then`` to ``now``, e.g. "12.4%"; the question says which way it went."""
    return f"{rounded(abs(now - then) / then * 100, 1)}%"


def change(now: Decimal, then: Decimal) -> str:
    """The formula of ``percentage``."""
    high, low = max(now, then), min(now, then)
    return f"({high:,} - {low:,}) / {then:,} * 100 %"


def thousands(value: int) -> tuple[str, ...]:
    """Ways to write an amount that a table gives in thousands of dollars."""
    return f"${value:,} thousand", f"{value:,}", f"${rounded(Decimal(value) / 1000, 1)} million"


# --------
# Questions that nothing in their scope answers, shaped like those of every type that something does answer.
#
# They ask for figures that the company withholds, and for goods and people that belong to another company. Each draft
# names the ``absent`` phrase; one whose phrase is in the text after all (a name shared by chance) is dropped.


def unanswerable(report: Report, text: str, stranger: Company) -> Iterator[Draft]:
    """Unanswerable drafts on one report, whose plain ``text`` decides; ``stranger`` lends people and goods."""
    lowered = text.lower()
    for draft in _candidates(report, stranger):
        if draft.absent.lower() not in lowered:
            yield draft


def _candidates(report: Report, stranger: Company) -> Iterator[Draft]:
    company, year = report.company, report.year

    def ask(kind: QuestionType, question: str, absent: str) -> Draft:
        return Draft(question, kind, (report.doc_id,), (), (), absent)

    for metric in company.withheld:
        yield ask("extractive", f"What was {metric.ask} at {company.name} in {year}?", metric.term)
        yield ask(
            "arithmetic",
            f"By what percentage did {metric.ask} at {company.name} change from {year - 1} to {year}?",
            metric.term,
        )
        disclosed = company.disclosed[0]
        yield ask(
            "multi-source",
            f"What were {disclosed.ask} and {metric.ask} at {company.name} in {year}?",
            metric.term,
        )
    for segment in stranger.segments:
        head = segment.head.name
        yield ask("multi-bridge", f"What was the {year} revenue of the {company.name} segment that {head} leads?", head)
        for product in segment.products:
            yield ask("abstractive", f"Why did {company.name} recall the {product.name} in {year}?", product.name)


# --------
# Questions that need several places: comparisons over two sources, and chains of facts.
#
# Multi-source questions take a second report, of another company or of the same company's other year, or two people of
# one company. Multi-bridge questions name the second fact only through the first.


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


# --------
# Questions that one place in one report answers: extractive, abstractive and arithmetic ones.


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


# --------
# The sample archive: fictional annual reports and questions with exact gold, any number of them, from one seed.
#
# The kinds of question are dealt in turn: the five types, then an unanswerable one. An unanswerable question has a
# ``query_id`` that ends in "-unanswerable", no answers and no evidence; its type says which type it is shaped like.

UNANSWERABLE: Final = "-unanswerable"
"""The end of the ``query_id`` of a question that its scope does not answer."""
MINIMUM_WORDS: Final = 1_500
"""The core of a report alone has about 1,300 words; below this length ``words`` could not be kept."""
_KINDS: Final = 6


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample archive. Offsets in ``questions`` and ``documents`` are into the plain-text rendering.

    ``reports`` and ``drafts`` are what both were made from, in the same order, for other renderings.
    """

    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    reports: tuple[Report, ...]
    drafts: tuple[Draft, ...]


def generate(reports: int = 6, questions: int = 20, seed: int = 7, words: int = 18_000) -> Sample:
    """A sample of ``reports`` annual reports of about ``words`` words each, with ``questions`` questions.

    Companies report on two successive years each. The same arguments give the same sample, byte for byte.
    Raises InputError for an impossible number, or when more questions are asked for than the reports can bear.
    """
    if reports < 1 or questions < 0 or words < MINIMUM_WORDS:
        raise InputError(
            f"A sample needs reports >= 1, questions >= 0 and words >= {MINIMUM_WORDS:,}, but reports={reports}, "
            f"questions={questions} and words={words} were asked for. Change the number that is out of range."
        )
    # One company more than reports need: it lends its people and goods to the unanswerable questions.
    names = company_names((reports + 1) // 2 + 1, seed)
    companies = [draw_company(index, names, seed) for index in range(len(names))]
    volumes = [write_report(company, year, seed, words) for company in companies[:-1] for year in company.years]
    volumes = volumes[:reports]
    rendered = [render(volume.blocks, "txt") for volume in volumes]
    documents = tuple(_document(volume, page) for volume, page in zip(volumes, rendered, strict=True))
    drafts = _deal(volumes, rendered, companies, questions, seed)
    pages = {volume.doc_id: page for volume, page in zip(volumes, rendered, strict=True)}
    asked = tuple(_place(draft, number, pages) for number, draft in enumerate(drafts, start=1))
    return Sample(documents, asked, tuple(volumes), tuple(drafts))


def _place(draft: Draft, number: int, pages: dict[str, Rendered]) -> Question:
    """The draft as question ``number``, its evidence as "doc_id:start:end" into the rendered pages."""
    spans = [(doc_id, *pages[doc_id].spans[key]) for doc_id, key in draft.evidence]
    suffix = UNANSWERABLE if draft.absent else ""
    return Question(
        query_id=f"q{number:04d}-{draft.type}{suffix}",
        question=draft.question,
        doc_ids=draft.doc_ids,
        answers=draft.answers,
        evidence=tuple(f"{doc_id}:{start}:{end}" for doc_id, start, end in spans),
        type=draft.type,
    )


def _document(report: Report, page: Rendered) -> Document:
    digest = hashlib.sha256(page.text.encode()).hexdigest()
    tables = tuple(replace(table, table_id=f"{report.doc_id}/{table.table_id}") for table in page.tables)
    return Document(report.doc_id, page.text, report.title, f"{report.doc_id}.txt", digest, tables=tables)


def _deal(
    reports: Sequence[Report], pages: Sequence[Rendered], companies: Sequence[Company], wanted: int, seed: int
) -> list[Draft]:
    """Drafts in turn over the kinds, and within a kind in turn over the reports, until there are enough."""
    kinds = [_kind(kind, reports, pages, companies, seed) for kind in range(_KINDS)]
    dealt: list[Draft] = []
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while kinds and len(dealt) < wanted:
        for kind in list(kinds):
            draft = next((each for each in kind if (each.question, each.doc_ids) not in seen), None)
            if draft is None:
                kinds.remove(kind)
                continue
            seen.add((draft.question, draft.doc_ids))
            dealt.append(draft)
    if len(dealt) < wanted:
        raise InputError(
            f"A sample of {len(reports)} reports has no more than {len(dealt)} questions, but {wanted} were asked "
            "for. Ask for fewer questions, or for more reports."
        )
    return dealt[:wanted]


def _kind(
    kind: int, reports: Sequence[Report], pages: Sequence[Rendered], companies: Sequence[Company], seed: int
) -> Iterator[Draft]:
    """All drafts of one kind, a round over the reports at a time, each report's own in a drawn order."""
    hands = [
        _hand(kind, at, reports, pages[at].text, companies, seed)
        # Every kind starts at another report, so that few questions still speak of many reports.
        for at in (*range(kind % len(reports), len(reports)), *range(kind % len(reports)))
    ]
    while hands:
        for hand in list(hands):
            draft = next(hand, None)
            if draft is None:
                hands.remove(hand)
            else:
                yield draft


def _hand(
    kind: int, at: int, reports: Sequence[Report], text: str, companies: Sequence[Company], seed: int
) -> Iterator[Draft]:
    """One report's drafts of one kind, shuffled, made when first asked for."""
    report, later = reports[at], reports[(at + 1) % len(reports)]
    if kind == 0:
        drafts = extractive(report)
    elif kind == 1:
        drafts = abstractive(report)
    elif kind == 2:
        drafts = arithmetic(report)
    elif kind == 3:
        pair = between_reports(report, later) if later is not report else iter(())
        drafts = chain(pair, between_people(report))
    elif kind == 4:
        drafts = chains(report)
    else:
        stranger = companies[at // len(report.company.years) + 1]
        drafts = unanswerable(report, text, stranger)
    hand = list(drafts)
    random.Random(f"{seed}/{report.doc_id}/{kind}").shuffle(hand)
    yield from hand


# --------
# Writes a sample to a folder: one file a report below ``reports/``, and ``questions.jsonl`` beside it.


def write_sample(sample: Sample, folder: str | Path, formats: Sequence[Format] = ("txt",)) -> None:
    """Write the reports as ``reports/DOC_ID.txt`` (or .md, .html: the formats take turns) and ``questions.jsonl``.

    A question row has query_id, question, doc_ids, answers, evidence and type. Evidence is "doc_id:start:end" into
    the file as written for txt and md. For html, where each reader extracts a text of its own, it is the quoted text.
    Raises InputError for an unknown or missing format.
    """
    if not formats or any(form not in FORMATS for form in formats):
        raise InputError(f"Cannot write a sample in the formats {list(formats)}; choose from {list(FORMATS)}.")
    target = Path(folder)
    reports = target / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    pages: dict[str, Rendered] = {}
    for number, report in enumerate(sample.reports):
        form = formats[number % len(formats)]
        page = render(report.blocks, form)
        (reports / f"{report.doc_id}.{form}").write_text(page.text, encoding="utf-8", newline="\n")
        pages[report.doc_id] = page
    quotes = _quotes(sample)
    with (target / "questions.jsonl").open("w", encoding="utf-8", newline="\n") as out:
        for question, draft in zip(sample.questions, sample.drafts, strict=True):
            row = {
                "query_id": question.query_id,
                "question": question.question,
                "doc_ids": list(question.doc_ids),
                "answers": list(question.answers),
                "evidence": [
                    _evidence(pages[doc_id], doc_id, key, quotes[plain])
                    for (doc_id, key), plain in zip(draft.evidence, question.evidence, strict=True)
                ],
                "type": question.type,
            }
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def _evidence(page: Rendered, doc_id: str, key: str, quote: str) -> str:
    """The fact's place in the page, or its words where the page has no offsets."""
    if key not in page.spans:
        return quote
    start, end = page.spans[key]
    return f"{doc_id}:{start}:{end}"


def _quotes(sample: Sample) -> dict[str, str]:
    """For each piece of evidence of the plain rendering, the words that it points at."""
    texts = {document.doc_id: document.text for document in sample.documents}
    quotes = {}
    for evidence in (each for question in sample.questions for each in question.evidence):
        doc_id, start, end = evidence.rsplit(":", 2)
        quotes[evidence] = texts[doc_id][int(start) : int(end)]
    return quotes
