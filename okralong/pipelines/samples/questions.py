"""Generate the sample archive: any number of made-up annual reports and questions with exact gold, from one seed.

Questions alternate between the five types and unanswerable ones. An unanswerable question has a ``query_id`` that ends
in "-unanswerable", no answers and no evidence; it has the type that it imitates.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import Document, InputError, Question
from okralong.pipelines.core.wording import counted
from okralong.pipelines.samples.blocks import FORMATS, Format, Rendered, render
from okralong.pipelines.samples.drafts import (
    Draft,
    abstractive,
    arithmetic,
    between_people,
    between_reports,
    chains,
    extractive,
    single_look_ups,
    unanswerable,
)
from okralong.pipelines.samples.report import Report, write_report
from okralong.pipelines.samples.words import ENGLISH, lexicon
from okralong.pipelines.samples.world import Company, company_names, draw_company

UNANSWERABLE: Final = "-unanswerable"
"""Suffix of the ``query_id`` of a question that its scope does not answer."""
MINIMUM_WORDS: Final = 1_500
"""The core of a report has about 1,300 words."""
RESERVED_SEEDS: Final = range(9000, 9100)
"""Seeds of the reports that published figures come from; training, tuning and row-making refuse them."""
_KINDS: Final = 6


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample archive. Offsets in ``questions`` and ``documents`` refer to the plain-text rendering.

    ``reports`` and ``drafts`` are their sources, in the same order, for other renderings.
    """

    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    reports: tuple[Report, ...]
    drafts: tuple[Draft, ...]


def generate(
    reports: int = 6,
    questions: int = 20,
    seed: int = 7,
    words: int = 18_000,
    look_ups: int = 0,
    language: str = ENGLISH,
) -> Sample:
    """Generate ``reports`` annual reports of about ``words`` words each, with ``questions`` questions.

    They are followed by ``look_ups`` single questions of the kind that make up multi-bridge questions. Companies report
    on two successive years each. The same arguments give the same bytes. ``language`` is one of ``LANGUAGES``.

    Raises:
        InputError: A number is out of range, or the reports have too few questions.
    """
    if reports < 1 or questions < 0 or look_ups < 0 or words < MINIMUM_WORDS:
        raise InputError(
            f"A sample needs reports >= 1, questions >= 0, look_ups >= 0 and words >= {MINIMUM_WORDS:,}, but "
            f"reports={reports}, questions={questions}, look_ups={look_ups} and words={words} were given. Change "
            "the number that is out of range."
        )
    # One company without reports lends its people and goods to the unanswerable questions.
    lexemes = lexicon(language)
    names = company_names((reports + 1) // 2 + 1, seed, lexemes)
    companies = [draw_company(index, names, seed, lexemes) for index in range(len(names))]
    volumes = [write_report(company, year, seed, words) for company in companies[:-1] for year in company.years]
    volumes = volumes[:reports]
    rendered = [render(volume.blocks, "txt", language) for volume in volumes]
    documents = tuple(_document(volume, page) for volume, page in zip(volumes, rendered, strict=True))
    drafts = _in_turn(volumes, rendered, companies, questions, seed)
    drafts += _single(volumes, look_ups, seed)
    pages = {volume.doc_id: page for volume, page in zip(volumes, rendered, strict=True)}
    asked = tuple(_place(draft, number, pages) for number, draft in enumerate(drafts, start=1))
    return Sample(documents, asked, tuple(volumes), tuple(drafts))


def _place(draft: Draft, number: int, pages: dict[str, Rendered]) -> Question:
    """Return the draft as question ``number``, with evidence as "doc_id:start:end" in the rendered pages."""
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
    return Document(report.doc_id, page.text, report.title, f"{report.doc_id}.txt", digest, table_spans=tables)


def _in_turn(
    reports: Sequence[Report], pages: Sequence[Rendered], companies: Sequence[Company], wanted: int, seed: int
) -> list[Draft]:
    """Return drafts alternating over the kinds, and within a kind over the reports."""
    kinds = [_kind(kind, reports, pages, companies, seed) for kind in range(_KINDS)]
    taken: list[Draft] = []
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while kinds and len(taken) < wanted:
        for kind in list(kinds):
            draft = next((each for each in kind if (each.question, each.doc_ids) not in seen), None)
            if draft is None:
                kinds.remove(kind)
                continue
            seen.add((draft.question, draft.doc_ids))
            taken.append(draft)
    if len(taken) < wanted:
        raise InputError(
            f"A sample of {counted(len(reports), 'report')} has at most {counted(len(taken), 'question')}, but "
            f"{wanted} were asked for. Ask for fewer questions, or for more reports."
        )
    return taken[:wanted]


def _single(reports: Sequence[Report], wanted: int, seed: int) -> list[Draft]:
    """Draw ``wanted`` of the reports' look-ups."""
    found = [draft for report in reports for draft in single_look_ups(report)] if wanted else []
    if len(found) < wanted:
        raise InputError(
            f"A sample of {len(reports)} reports has at most {len(found)} look-ups, but {wanted} were asked for. "
            "Ask for fewer, or for more reports."
        )
    return random.Random(f"{seed}/look-ups").sample(found, wanted)


def _kind(
    kind: int, reports: Sequence[Report], pages: Sequence[Rendered], companies: Sequence[Company], seed: int
) -> Iterator[Draft]:
    """Yield all drafts of one kind, one per report in each round, in random order within a report."""
    by_report = [
        _of_report(kind, at, reports, pages[at].text, companies, seed)
        # Every kind starts at another report, so that even few questions cover many reports.
        for at in (*range(kind % len(reports), len(reports)), *range(kind % len(reports)))
    ]
    while by_report:
        for drafts in list(by_report):
            draft = next(drafts, None)
            if draft is None:
                by_report.remove(drafts)
            else:
                yield draft


def _of_report(
    kind: int, at: int, reports: Sequence[Report], text: str, companies: Sequence[Company], seed: int
) -> Iterator[Draft]:
    """Yield one report's drafts of one kind, shuffled, generated on first use."""
    report, later = reports[at], reports[(at + 1) % len(reports)]
    makers = (
        extractive(report),
        abstractive(report),
        arithmetic(report),
        chain(between_reports(report, later), between_people(report)),
        chains(report),
        unanswerable(report, text, companies[at // len(report.company.years) + 1]),
    )
    drafts = list(makers[kind])
    random.Random(f"{seed}/{report.doc_id}/{kind}").shuffle(drafts)
    yield from drafts


def write_sample(sample: Sample, folder: str | Path, formats: Sequence[Format] = ("txt",)) -> None:
    """Write ``questions.jsonl`` and the reports as ``reports/DOC_ID.txt`` (or .md, .html: the formats alternate).

    A question row has query_id, question, doc_ids, answers, evidence and type. Evidence is "doc_id:start:end" in the
    written file for txt and md, and the quoted text for html, where every parser extracts its own text.

    Raises:
        InputError: A format is unknown, or none is given.
    """
    if not formats or any(form not in FORMATS for form in formats):
        raise InputError(f"Cannot write a sample in the formats {list(formats)}; choose from {list(FORMATS)}.")
    target = Path(folder)
    reports = target / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    pages: dict[str, Rendered] = {}
    for number, report in enumerate(sample.reports):
        form = formats[number % len(formats)]
        page = render(report.blocks, form, report.company.words.language)
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
    """Return the fact's place in the page, or its words if the page has no offsets."""
    if key not in page.spans:
        return quote
    start, end = page.spans[key]
    return f"{doc_id}:{start}:{end}"


def _quotes(sample: Sample) -> dict[str, str]:
    """Return the quoted words of each piece of evidence in the plain rendering."""
    texts = {document.doc_id: document.text for document in sample.documents}
    quotes = {}
    for evidence in (each for question in sample.questions for each in question.evidence):
        doc_id, start, end = evidence.rsplit(":", 2)
        quotes[evidence] = texts[doc_id][int(start) : int(end)]
    return quotes
