"""Writes a sample to a folder: one file a report below ``reports/``, and ``questions.jsonl`` beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from okralong.pipelines.core.types import InputError
from okralong.pipelines.samples.rendering import FORMATS, Format, Rendered, render
from okralong.pipelines.samples.sample import Sample


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
