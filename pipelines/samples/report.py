"""Puts a report together: the core sections, then tales dealt to their sections until the wanted length is reached."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.samples import core, statements
from okralong.pipelines.samples.blocks import Block, Heading, Paragraph, word_count
from okralong.pipelines.samples.events import Events, draw_events
from okralong.pipelines.samples.grammar import Context, Writer
from okralong.pipelines.samples.tales import SECTIONS
from okralong.pipelines.samples.vocabulary import MONTHS, TOWNS
from okralong.pipelines.samples.world import Company

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
        *core.letter(company, year, events, writer),
        Heading("Segments"),
        statements.segment_table(company, year),
    ]
    for segment in company.segments:
        opening += core.segment_part(company, year, events, segment, writer)
    parts = [
        opening,
        [*core.sites(company), statements.employee_table(company, year)],
        core.year_of_work(company, events),
        core.numbers(company, year, writer),
        core.people(company, writer),
        core.risks(company, events),
        core.finances(company, year),
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
