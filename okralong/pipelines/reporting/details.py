"""The details of a report's questions, shown when a question is opened: one JSON object per question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Document, Question, QuestionError
from okralong.pipelines.llm.records import MODELS_NAMED, NAME_CHARS
from okralong.pipelines.reporting.cited import cited
from okralong.pipelines.reporting.page import QUESTION_CHARS, compact
from okralong.pipelines.reporting.page_pictures import PageMarks
from okralong.pipelines.reporting.rows import bounded, public
from okralong.pipelines.reporting.searched import Searched, for_page
from okralong.pipelines.reporting.sources import Span, gold_spans, sources, spans_of
from okralong.pipelines.reporting.steps import Step, journal_steps
from okralong.pipelines.run.corrections import Correction


def run_details(
    run: Folder,
    answers: Sequence[Mapping[str, Any]],
    golds: Mapping[str, Question],
    archive: Archive | None,
    marks: PageMarks | None = None,
    corrections: Mapping[str, Correction] | None = None,
    looked: Mapping[str, Searched] | None = None,
    *,
    links: bool = False,
) -> list[str]:
    """Return the details of each answer as JSON, in order. Each document is read once.

    ``marks`` collects the quotes whose pages are to be drawn. With ``links``, there are links to the source files.
    """
    steps = journal_steps(run, frozenset(answer["query_id"] for answer in answers))
    found = [""] * len(answers)
    for at in sorted(range(len(answers)), key=lambda n: sorted(answers[n]["doc_ids"] or ())):
        answer = answers[at]
        query_id = answer["query_id"]
        held = json.loads(steps.pop(query_id, "[]"))
        correction = (corrections or {}).get(query_id)
        detail = detail_of(answer, golds.get(query_id), held, _Cites(archive, marks, links, at), correction)
        if (one := (looked or {}).get(query_id)) is not None:
            detail["searched"] = for_page(one)
        found[at] = compact(detail)
    return found


@dataclass(frozen=True, slots=True)
class _Cites:
    """Looks up the sources of question ``row`` in the archive."""

    archive: Archive | None
    marks: PageMarks | None
    links: bool
    row: int

    def document(self, doc_id: str) -> Document | None:
        try:
            return self.archive.document(doc_id) if self.archive is not None else None
        except QuestionError:
            return None

    def text(self, doc_id: str) -> str | None:
        document = self.document(doc_id)
        return None if document is None else document.text

    def places(self, spans: Sequence[Span], rank: Mapping[Span, int]) -> dict[str, Any]:
        """Return file, section, link and page marks of a window. ``rank`` gives the order of the cited spans."""
        keys = ("doc_id", "start_char", "end_char")
        held = [cited(self.archive, dict(zip(keys, span, strict=True))) for span in spans]
        sections = dict.fromkeys(f"{each.section}{SCANNED if each.ocr else ''}" for each in held if each.section)
        document = self.document(spans[0][0])
        marks: list[int] = []
        if self.marks is not None and document is not None:
            for span in (span for span in spans if span in rank):
                marks += self.marks.add(document, span[1], span[2], (rank[span], self.row))
        return {
            "file": bounded(PurePosixPath(held[0].source_uri).name, 200),
            "section": bounded(", ".join(sections), 200),
            "link": held[0].link if self.links and held[0].link.startswith(OPENED) else "",
            "marks": marks,
        }


SCANNED: Final = " (read from an image)"
OPENED: Final = ("file://", "http://", "https://")
"""Allowed schemes of links; others could run code or do not work in a browser."""

ANSWER_CHARS: Final = 4_000
NAMES: Final = 50  # project default
"""Maximum number of listed documents of a scope, and of gold answers."""
_PLAN_KEYS: Final = ("workflow", "granularity", "count", "exact_weight", "semantic_weight", "reasons")

Detail = dict[str, Any]


def detail_of(
    answer: Mapping[str, Any],
    gold: Question | None,
    steps: Sequence[Step],
    cites: _Cites,
    correction: Correction | None = None,
) -> Detail:
    """Return the details of a row of ``answers``."""
    context = spans_of(answer["context"])
    quoted = spans_of(answer["citations"])
    question = answer["question"] or ""
    rank = {span: at for at, span in reversed(list(enumerate(quoted)))}
    return {
        "question": bounded(question, ANSWER_CHARS) if len(question) > QUESTION_CHARS else "",
        "scope": [bounded(doc_id, 200) for doc_id in (answer["doc_ids"] or ())[:NAMES]],
        "answer": bounded(answer["answer"] or "", ANSWER_CHARS),
        "error": bounded(answer["error"] or "", ANSWER_CHARS),
        "correction": "" if correction is None else bounded(str(correction), ANSWER_CHARS),
        "golds": [bounded(text, ANSWER_CHARS) for text in (gold.answers if gold else ())[:NAMES]],
        "context": len(context),
        "replied_by": bounded(public(answer["replied_by"] or ""), MODELS_NAMED * NAME_CHARS),
        **{key: answer[key] for key in ("context_tokens", "calls", "prompt_tokens", "completion_tokens")},
        "analysis": _analysis(answer["analysis"]),
        "plan": _plan(answer["plan"]),
        "seconds": [[stage, round(spent, 3)] for stage, spent in sorted(answer["seconds"] or ())],
        "sources": [
            [
                *(bounded(each.doc_id, 200), each.start_char, each.end_char, each.seen, each.pieces),
                cites.places(each.spans, rank),
            ]
            for each in sources(quoted, gold_spans(gold), context, cites.text)
        ],
        "steps": list(steps),
    }


def _analysis(body: str | None) -> dict[str, Any] | None:
    if not body:
        return None
    said = json.loads(body)
    fields = {name: said.get(f"{name}_probabilities") or {} for name in ("type", "pattern")}
    if said.get("evidence_probability") is not None:
        fields["evidence"] = {"at hand": float(said["evidence_probability"])}
    return {
        "analyzer": bounded(said.get("analyzer", ""), 200),
        "odds": [
            [name, [[label, round(float(p), 4)] for label, p in odds.items()]] for name, odds in fields.items() if odds
        ],
    }


def _plan(body: str | None) -> dict[str, Any] | None:
    if not body:
        return None
    said = json.loads(body)
    return {key: said[key] for key in _PLAN_KEYS if key in said}
