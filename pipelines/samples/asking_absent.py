"""Questions that nothing in their scope answers, shaped like those of every type that something does answer.

They ask for figures that the company withholds, and for goods and people that belong to another company. Each draft
names the ``absent`` phrase; one whose phrase is in the text after all (a name shared by chance) is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from okralong.pipelines.core.types import QuestionType
from okralong.pipelines.samples.gold import Draft
from okralong.pipelines.samples.report import Report
from okralong.pipelines.samples.world import Company


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
