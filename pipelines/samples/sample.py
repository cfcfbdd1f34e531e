"""The sample archive: fictional annual reports and questions with exact gold, any number of them, from one seed.

The kinds of question are dealt in turn: the five types, then an unanswerable one. An unanswerable question has a
``query_id`` that ends in "-unanswerable", no answers and no evidence; its type says which type it is shaped like.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from okralong.pipelines.core.types import Document, InputError, Question
from okralong.pipelines.samples.asking_absent import unanswerable
from okralong.pipelines.samples.asking_many import between_people, between_reports, chains
from okralong.pipelines.samples.asking_one import abstractive, arithmetic, extractive
from okralong.pipelines.samples.gold import Draft
from okralong.pipelines.samples.rendering import Rendered, render
from okralong.pipelines.samples.report import Report, write_report
from okralong.pipelines.samples.world import Company, company_names, draw_company

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
