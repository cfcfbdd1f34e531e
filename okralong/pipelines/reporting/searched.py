"""What was searched for answers that were not found: queries, terms, sections read, and the nearest passages.

All of it is in the run's journal and in ``answers``; the texts come from the archive.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.archive.search import query_terms
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.schemas import FLAT_SEARCHED
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.journal import FragmentedTable, read_settled
from okralong.pipelines.reporting.cited import Cited, cited
from okralong.pipelines.reporting.rows import bounded
from okralong.pipelines.statements.line_items import items_needed, with_substitutes

if TYPE_CHECKING:
    from okralong.pipelines.archive.archive import Archive

UNFOUND: Final = "unanswerable"
NEAREST: Final = 5  # project default
"""Maximum number of passages listed per question."""
TEXT_CHARS: Final = 300  # project default
"""Maximum length of a listed passage."""
SECTIONS: Final = 40  # project default
"""Maximum number of passages whose sections are listed."""

Span = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Nearest:
    """A passage that was found. Scores are None where that retriever did not find it, or nothing read it.

    Attributes:
        read: Whether the passage was in the last prompt, or read by the cross-encoder or rules.
        bm25: The score by words.
        cosine: The similarity of its vector to the query's.
        answerable: The cross-encoder's probability that it holds the answer.
    """

    doc_id: str
    start_char: int
    end_char: int
    section: str
    link: str
    text: str
    read: bool
    bm25: float | None
    cosine: float | None
    answerable: float | None


@dataclass(frozen=True, slots=True)
class Searched:
    """What was searched for one question.

    Attributes:
        queries: The searches, each once, in order.
        terms: The stems by which BM25 searched.
        synonyms: Other names of the line items that the question names, by which rules read statements.
        found: How many passages the searches found.
        sections: The pages, sheets or sections of the passages read, by document: "report: page 3, page 7".
        nearest: The nearest passages, those read first.
    """

    query_id: str
    question: str
    scope: Sequence[str]
    queries: Sequence[str]
    terms: Sequence[str]
    synonyms: Sequence[str]
    found: int
    sections: Sequence[str]
    nearest: Sequence[Nearest]

    def lines(self) -> list[tuple[str, str]]:
        """Return the facts by name, for readers."""
        read = sum(each.read for each in self.nearest)
        said = {
            "documents": ", ".join(self.scope) or "the whole archive",
            "searches": "; ".join(self.queries) or "none was recorded",
            "terms": ", ".join(self.terms),
            "names looked for in tables": ", ".join(self.synonyms),
            "sections read": "; ".join(self.sections),
            "passages": f"{self.found:,} found; the nearest {len(self.nearest)} are below, {read} of them read",
        }
        return [(name, words) for name, words in said.items() if words]


def searched(run: Folder, answers: Iterable[Mapping[str, Any]], archive: Archive | None) -> dict[str, Searched]:
    """Return what was searched for each unanswerable question among the rows ``answers``, by query_id."""
    rows = {row["query_id"]: row for row in answers if row["status"] == UNFOUND}
    if not rows:
        return {}
    wanted = pa.array(sorted(rows), pa.string())

    def read(journal: FragmentedTable) -> dict[str, _Trace]:
        found: dict[str, _Trace] = {}
        for part in journal.read_fragments(["query_id", "kind", "body"]):
            mine = pc.and_(
                pc.is_in(part["query_id"], value_set=wanted),
                pc.is_in(part["kind"], pa.array(["retrieval", "readings"])),
            )
            for batch in part.filter(mine).to_batches(256):
                for row in batch.to_pylist():
                    found.setdefault(row["query_id"], _Trace()).add(row["kind"], json.loads(row["body"]))
        return found

    traces = read_settled(run, "journal", read)
    order = sorted(rows.values(), key=lambda row: row["doc_ids"] or [])  # reads each document once
    return {row["query_id"]: _searched(row, traces.get(row["query_id"], _Trace()), archive) for row in order}


@dataclass(slots=True)
class _Trace:
    """The searches of a question: queries, scores by passage, and the cross-encoder's readings by hash of the text."""

    queries: dict[str, None] = field(default_factory=dict)
    exact: dict[Span, float] = field(default_factory=dict)
    semantic: dict[Span, float] = field(default_factory=dict)
    readings: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == "readings":
            pairs = zip(body["wanted"]["passages"], body["readings"], strict=False)
            self.readings |= {text: reading[1] for text, reading in pairs if reading[1] is not None}
            return
        self.queries[body["wanted"]["query"]] = None
        for scores, side in ((self.exact, "exact"), (self.semantic, "semantic")):
            for _, doc_id, _, _, start, end, _, _, score in body[side]:
                span = (doc_id, start, end)
                scores[span] = max(score, scores.get(span, score))


def _searched(row: Mapping[str, Any], trace: _Trace, archive: Archive | None) -> Searched:
    context = [(each["doc_id"], each["start_char"], each["end_char"]) for each in row["context"] or ()]
    spans = dict.fromkeys((*context, *sorted({*trace.exact, *trace.semantic}, key=lambda each: _rank(each, trace))))
    nearest = [_nearest(span, trace, archive, span in context) for span in list(spans)[:NEAREST]]
    queries = list(trace.queries) or [row["question"]]
    languages = archive.languages_of(row["doc_ids"] or ()) if archive is not None else [ENGLISH]
    places: dict[str, dict[str, None]] = {}
    for span in context[:SECTIONS]:
        places.setdefault(span[0], {})[_place(cited(archive, _row(span)), span)] = None
    shown = [each for item in items_needed(row["question"]) for one in with_substitutes(item) for each in one.names]
    return Searched(
        row["query_id"],
        row["question"],
        list(row["doc_ids"] or ()),
        queries,
        list(dict.fromkeys(term for query in queries for term in query_terms(query, languages))),
        list(dict.fromkeys(shown)),
        len({*trace.exact, *trace.semantic}),
        [f"{doc_id}: {', '.join(held)}" for doc_id, held in places.items()],
        nearest,
    )


def _rank(span: Span, trace: _Trace) -> tuple[float, Span]:
    """Order passages by the sum of their scores, each relative to the best, nearest first."""
    parts = [
        scores[span] / max(max(scores.values()), 1e-9) for scores in (trace.exact, trace.semantic) if span in scores
    ]
    return -sum(parts), span


def _nearest(span: Span, trace: _Trace, archive: Archive | None, read: bool) -> Nearest:
    each = cited(archive, _row(span))
    whole = archive.document(span[0]).text[span[1] : span[2]] if each.sha256 and archive is not None else ""
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]  # as in question_tools.py
    text = bounded(" ".join(whole.split()), TEXT_CHARS)
    scores = trace.exact.get(span), trace.semantic.get(span), trace.readings.get(digest)
    return Nearest(*span, each.section, each.link, text, read, *scores)


def _row(span: Span) -> dict[str, Any]:
    return dict(zip(("doc_id", "start_char", "end_char"), span, strict=True))


def _place(each: Cited, span: Span) -> str:
    return each.section or f"characters {span[1]}-{span[2]}"


def searched_table(found: Iterable[Searched]) -> pa.Table:
    """Return a row per nearest passage as ``FLAT_SEARCHED``; a question without any has one row."""
    rows: list[dict[str, Any]] = []
    for one in found:
        about = {
            "query_id": one.query_id,
            "question": one.question,
            "scope": "; ".join(one.scope),
            "queries": "; ".join(one.queries),
            "terms": ", ".join(one.terms),
            "synonyms": ", ".join(one.synonyms),
            "sections": "; ".join(one.sections),
            "found": one.found,
        }
        passages = [{"number": at, **asdict(each)} for at, each in enumerate(one.nearest, start=1)]
        rows += [about | passage for passage in passages or [{}]]
    return pa.Table.from_pylist(rows, schema=FLAT_SEARCHED)


def for_page(one: Searched) -> dict[str, Any]:
    """Return the JSON for the report's script."""
    return {
        "facts": [[name, bounded(words, 2_000)] for name, words in one.lines()],
        "nearest": [
            [
                f"{each.doc_id}, {each.section or f'characters {each.start_char}-{each.end_char}'}",
                scores(each),
                each.text,
            ]
            for each in one.nearest
        ],
    }


def scores(one: Nearest) -> str:
    """Return the scores of a passage in words."""
    known = {"BM25": one.bm25, "cosine": one.cosine, "holds the answer": one.answerable}
    said = [f"{name} {value:.3g}" for name, value in known.items() if value is not None]
    return ", ".join([*said, "read" if one.read else "not read"])
