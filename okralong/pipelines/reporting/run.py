"""The report of one run, from its tables, its archive and, where they are given, the gold answers.

A document is never embedded whole: of each cited or gold span its surroundings, of long spans beginning and end. The
text is cut into pieces here, so that the page need not count characters (Python and JavaScript count them differently).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from statistics import fmean, median
from typing import Any, Final

from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, Document, Question, QuestionError
from okralong.pipelines.llm.journal import FragmentedTable, read_run_table
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.llm.records import MODELS_NAMED, NAME_CHARS, models_named
from okralong.pipelines.llm.request import content_shown
from okralong.pipelines.reporting.charts import WORKFLOWS, Groups, Panel, confusion, latency, workflow_mix
from okralong.pipelines.reporting.cited import archive_of, cited
from okralong.pipelines.reporting.export import flat_row
from okralong.pipelines.reporting.matrix import Matrix
from okralong.pipelines.reporting.page import QUESTION_CHARS, Report, Tile, compact
from okralong.pipelines.reporting.page_pictures import DEFAULT_MEGABYTES, Drawn, PageMarks
from okralong.pipelines.reporting.rows import (
    ACCURACY,
    MEASURES,
    Row,
    bounded,
    figures,
    in_order,
    known_measures,
    replied_by,
    run_row,
)
from okralong.pipelines.reporting.statistics import Estimate, joined_by_documents
from okralong.pipelines.reporting.tables import (
    Cell,
    Column,
    Table,
    confusion_tables,
    latency_table,
    measure_column,
    number,
    question_table,
    written,
)
from okralong.pipelines.run.rows import BEGUN

TextOf = Callable[[str], str | None]
"""The text of a document by its doc_id; None where it cannot be had."""

ALL: Final = "all questions"
TRAINED: Final = ("heads", "label_scorer")
"""Kinds of analyzer that have an adapter."""
CALL_COLUMNS: Final = [*COLUMNS, "query_id", "role", "queue_s", "latency_s"]


def run_report(
    run: Folder,
    golds: Mapping[str, Question],
    details: int,
    *,
    megabytes: float = DEFAULT_MEGABYTES,
    links: bool = True,
) -> Report:
    """The report of a run, finished or not. ``golds`` are questions with gold answers by query_id, where known.

    ``details`` bounds the questions that can be opened; the others have a line in the table. ``megabytes`` bounds the
    pictures of cited pages, 0 for none. With ``links`` sources can be opened, so the page says where they lie.
    """
    begun = json.loads(run.read_bytes(BEGUN))
    answers = sorted(read_run_table(run, "answers").to_pylist(), key=lambda row: str(row["query_id"]))
    ledger = read_run_table(run, "ledger", CALL_COLUMNS).to_pylist()
    rows = run_rows(answers, ledger, golds)
    archive, missing = archive_of(begun)
    marks = PageMarks()
    opened = run_details(run, answers[:details], golds, archive, marks if megabytes > 0 else None, links=links)
    drawn = Drawn() if archive is None else marks.draw(archive, megabytes)
    groups = _grouped(rows, lambda row: row.type or row.analysed, TYPES)  # by gold, where it is known
    workflows = _grouped(rows, lambda row: row.workflow, WORKFLOWS)
    matrix = confusion(ALL, rows)
    panel = Panel("by question type", {name: figures(own, [*MEASURES]) for name, own in groups.items()}, compares=False)
    manifest = run.read_manifest()
    notes = [*([missing] if missing else []), *drawn.notes]
    if manifest is None:
        notes.append("The run is not complete: this is what it had when the report was made.")
    elif manifest.get("bad_rows"):
        notes.append(f"{manifest['bad_rows']} rows of the questions file could not be asked; failures has the reasons.")
    if not any("f1" in row.measures for row in rows):
        notes.append("No gold answers are known here, so nothing says whether an answer is right (see --questions).")
    return Report(
        kind="run",
        title=f"Run {'/'.join(PurePosixPath(run.path).parts[-2:])}",
        facts=facts(begun, manifest, answers),
        tiles=_tiles(rows, ledger, panel.points[ALL]),
        panels=[panel],
        tables=[
            _group_table("types", "By question type", "Type", groups),
            _group_table("workflows", "By workflow", "Workflow", workflows),
            latency_table(workflows, "Workflow"),
            _calls_table(ledger),
        ],
        latency=latency(groups),
        mix=workflow_mix(_grouped(rows, lambda row: row.analysed, TYPES)),
        confusions=[matrix] if matrix else [],
        rows=rows,
        details=opened,
        drawn=drawn,
        files_only=[question_table(rows), *confusion_tables([matrix] if matrix else [])],
        notes=notes,
        setup=_setup(manifest or begun),
        matrix=_matrix(answers, begun, archive),
    )


def _matrix(
    answers: Sequence[Mapping[str, Any]], begun: Mapping[str, Any], archive: Archive | None
) -> dict[str, Any] | None:
    """What was asked of each document by itself, as the page takes it."""
    cells = [flat_row(row, begun, None) for row in answers if row["asked_id"]]
    titles: dict[str, str] = {}
    if cells and archive is not None:
        known = archive.metadata().select(["doc_id", "title"]).to_pydict()
        titles = {doc_id: title for doc_id, title in zip(known["doc_id"], known["title"], strict=True) if title}
    made = Matrix.of(cells, begun.get("columns") or (), titles)
    return None if made is None else made.for_page({row["query_id"]: at for at, row in enumerate(answers)})


def run_rows(
    answers: Sequence[Mapping[str, Any]], ledger: Sequence[Mapping[str, Any]], golds: Mapping[str, Question]
) -> list[Row]:
    """A row for each answer, in their order. Those that a chain of shared documents joins are drawn together."""
    calls: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for call in ledger:
        calls[call["query_id"]].append(call)
    shares = any(call["status"] == "cached" for call in ledger)
    clusters = joined_by_documents([tuple(each["doc_ids"] or ()) or (f"#{each['query_id']}",) for each in answers])
    return [
        run_row(
            answer,
            golds.get(answer["query_id"]),
            bill(calls[answer["query_id"]]).alone_usd if shares else None,
            evidence_recall(gold_spans(golds.get(answer["query_id"])), spans_of(answer["context"])),
            cluster,
        )
        for answer, cluster in zip(answers, clusters, strict=True)
    ]


def _grouped(rows: Sequence[Row], name_of: Callable[[Row], str], order: Sequence[str]) -> Groups:
    """All questions, then those of each name, the known ones in ``order``."""
    names = in_order(filter(None, map(name_of, rows)), order)
    return {ALL: rows} | {name: [row for row in rows if name_of(row) == name] for name in names}


def _group_table(name: str, title: str, of: str, groups: Groups) -> Table:
    """Accuracy, cost and time of each group, with intervals."""
    shown = {group: figures(rows, [*MEASURES]) for group, rows in groups.items()}
    measures = known_measures(shown.values(), MEASURES)
    columns = [
        Column("group", of),
        *(Column(key, key.capitalize(), "count") for key in ("questions", "answered", "cited")),
        *map(measure_column, measures),
    ]
    lines: list[list[Cell]] = []
    for group, rows in groups.items():
        answered = sum(row.status == "answered" for row in rows)
        counts: list[Cell] = [len(rows), answered, sum(row.cited for row in rows)]
        lines.append([group, *counts, *map(shown[group].get, measures)])
    note = "Means over questions, with 95 % intervals (bootstrap over documents). Questions that failed score 0."
    return Table(name, title, note, columns, lines)


def _calls_table(ledger: Iterable[Mapping[str, Any]]) -> Table:
    """What the ledger says of each role's attempts."""
    by_role: dict[str, list[Mapping[str, Any]]] = {}
    for row in ledger:
        by_role.setdefault(row["role"] or "", []).append(row)
    rows: list[Sequence[Cell]] = []
    for role, held in sorted(by_role.items()):
        ended = [row["status"] for row in held]
        good = [row for row in held if row["status"] == "ok"]
        rows.append(
            [
                role,
                len(held),
                *(ended.count(status) for status in ("ok", "cached", "failed", "unknown")),
                sum(row["prompt_tokens"] or 0 for row in good),
                sum(row["completion_tokens"] or 0 for row in good),
                float(sum(row["cost_usd"] or 0.0 for row in held)),
                fmean(row["queue_s"] or 0.0 for row in good) if good else None,
                fmean(row["latency_s"] or 0.0 for row in good) if good else None,
            ]
        )
    columns = [
        Column("role", "Role"),
        Column("attempts", "Attempts", "count"),
        *(Column(status, status, "count") for status in ("ok", "cached", "failed", "unknown")),
        Column("prompt_tokens", "Input tokens", "tokens"),
        Column("completion_tokens", "Output tokens", "tokens"),
        Column("cost_usd", "Cost", "usd"),
        Column("queue_s", "Mean queue, s", "seconds"),
        Column("latency_s", "Mean latency, s", "seconds"),
    ]
    return Table("calls", "Calls by role", "Attempts in the ledger; tokens of those that were answered.", columns, rows)


def _tiles(rows: Sequence[Row], ledger: Sequence[Mapping[str, Any]], means: Mapping[str, Estimate]) -> list[Tile]:
    """What the run comes to."""
    billed = bill(ledger)
    answered = sum(row.status == "answered" for row in rows)
    with_source = sum(row.cited for row in rows)
    found = [Tile("Questions", f"{len(rows):,}", f"{answered:,} answered, {with_source:,} cited")]
    for measure in ("f1", "em", "evidence_recall"):
        if measure in means:
            value, interval = written(measure_column(measure), means[measure])
            found.append(Tile(ACCURACY[measure], value, interval and f"95 %: {interval}"))
    tokens = [row.measures["weighted_tokens"] for row in rows if "weighted_tokens" in row.measures]
    per_question = number("tokens", sum(tokens) / len(tokens) if tokens else None)
    found.append(Tile("Tokens a question", per_question, f"input + 4 x output; {sum(tokens):,.0f} in all"))
    alone = f"alone {number('usd', billed.alone_usd)}" if billed.shared else f"{billed.calls:,} calls"
    found.append(Tile("Billed", number("usd", billed.billed_usd), alone))
    seconds = [row.measures["seconds_total"] for row in rows if "seconds_total" in row.measures]
    if seconds:
        found.append(Tile("Median time", f"{median(seconds):,.1f} s", "a question, waiting included"))
    return found


def facts(
    begun: Mapping[str, Any], manifest: Mapping[str, Any] | None, answers: Iterable[Mapping[str, Any]] = ()
) -> list[tuple[str, str]]:
    """With what the run was made, and who gave its ``answers``. Of places only their last part: a page travels further
    than a folder.
    """
    config = begun.get("config") or {}
    llm = config.get("llm") or {}
    analyzer = config.get("analyzer") or {}
    kind, adapter = str(analyzer.get("kind") or ""), PurePosixPath(str(analyzer.get("adapter") or "")).name
    model = (manifest or {}).get("generator", {}).get("model") or llm.get("model") or ""
    found = [
        ("strategy", str(config.get("strategy") or "")),
        ("generator", PurePosixPath(str(model)).name),
        ("replied", models_named(_public(name) for name, _ in replied_by(answers))),
        ("analyzer", f"{kind} {adapter if kind in TRAINED else ''}".strip()),
        ("policy", PurePosixPath(str(config.get("policy") or "")).stem),
        ("archive", PurePosixPath(str(begun.get("archive") or "")).name),
        ("seed", str(llm.get("seed") if llm.get("seed") is not None else "")),
        ("okralong", str(((manifest or {}).get("versions") or {}).get("okralong") or "")),
    ]
    return [(name, value) for name, value in found if value]


def _setup(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Config, policy, generator and versions as the manifest has them; of absolute paths the last part."""
    return {key: _public(manifest[key]) for key in ("config", "policy", "generator", "versions") if key in manifest}


def _public(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _public(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_public(each) for each in value]
    if isinstance(value, str):
        return PurePosixPath(value).name if value.startswith(("/", "~")) else value
    return value


# --------
# What can be opened: all that a page holds of one question, as plain JSON.


def run_details(
    run: Folder,
    answers: Sequence[Mapping[str, Any]],
    golds: Mapping[str, Question],
    archive: Archive | None,
    marks: PageMarks | None = None,
    *,
    links: bool = False,
) -> list[str]:
    """The details of the answers as JSON, in their order. Documents are read one after the other, each once.

    ``marks`` collects the quotes whose pages are to be shown. With ``links`` the files of sources are named in full.
    """
    steps = journal_steps(run, frozenset(answer["query_id"] for answer in answers))
    found = [""] * len(answers)
    for at in sorted(range(len(answers)), key=lambda n: sorted(answers[n]["doc_ids"] or ())):
        answer = answers[at]
        query_id = answer["query_id"]
        held = json.loads(steps.pop(query_id, "[]"))
        found[at] = compact(detail_of(answer, golds.get(query_id), held, _Cites(archive, marks, links, at)))
    return found


@dataclass(frozen=True, slots=True)
class _Cites:
    """What the archive says of the sources of question ``row``."""

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
        """File and pages of the spans of a window, the link to the first, and the marks of those in ``rank``.

        ``rank`` has the cited ones with their order in the answer.
        """
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
"""Links that a browser opens; what else a URI may begin with could run, or leads nowhere."""

ANSWER_CHARS: Final = 4_000
NAMES: Final = 50
"""Documents of a scope, or gold answers, that are listed. Ours."""
_PLAN_KEYS: Final = ("workflow", "granularity", "count", "exact_weight", "semantic_weight", "reasons")

Detail = dict[str, Any]


def detail_of(answer: Mapping[str, Any], gold: Question | None, steps: Sequence[Step], cites: _Cites) -> Detail:
    """The detail of an ``answers`` row."""
    context = spans_of(answer["context"])
    quoted = spans_of(answer["citations"])
    question = answer["question"] or ""
    rank = {span: at for at, span in reversed(list(enumerate(quoted)))}
    return {
        "question": bounded(question, ANSWER_CHARS) if len(question) > QUESTION_CHARS else "",
        "scope": [bounded(doc_id, 200) for doc_id in (answer["doc_ids"] or ())[:NAMES]],
        "answer": bounded(answer["answer"] or "", ANSWER_CHARS),
        "error": bounded(answer["error"] or "", ANSWER_CHARS),
        "golds": [bounded(text, ANSWER_CHARS) for text in (gold.answers if gold else ())[:NAMES]],
        "context": len(context),
        "replied_by": bounded(_public(answer["replied_by"] or ""), MODELS_NAMED * NAME_CHARS),
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
    fields = {
        "type": said.get("type_probabilities") or {},
        "pattern": said.get("pattern_probabilities") or {},
        "evidence": {"at hand": float(said.get("evidence_probability") or 0.0)},
    }
    return {
        "analyzer": bounded(said.get("analyzer", ""), 200),
        "odds": [[name, [[label, round(float(p), 4)] for label, p in odds.items()]] for name, odds in fields.items()],
    }


def _plan(body: str | None) -> dict[str, Any] | None:
    if not body:
        return None
    said = json.loads(body)
    return {key: said[key] for key in _PLAN_KEYS if key in said}


# --------
# What the journal says of each question, shortened row by row: a long run's journal does not fit into memory.

READ_TRIES: Final = 50
_ROWS_AT_A_TIME: Final = 256
_COLUMNS: Final = ["seq", "query_id", "path", "kind", "body"]


def journal_steps(run: Folder, wanted: frozenset[str]) -> dict[str, str]:
    """The steps of each of the ``wanted`` questions in the order of the journal, as a JSON array.

    A run that goes on may merge its files meanwhile; they are then read again. Raises ArchiveError when they never
    hold still.
    """
    for _ in range(READ_TRIES):
        try:
            return _read(run, wanted)
        except FileNotFoundError:
            continue
    raise ArchiveError(f"The files of {run.path}/journal were replaced while they were read. Try again.")


def _read(run: Folder, wanted: frozenset[str]) -> dict[str, str]:
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for part in FragmentedTable(run, "journal", writer=False).read_fragments(_COLUMNS):
        for batch in part.to_batches(max_chunksize=_ROWS_AT_A_TIME):
            for row in batch.to_pylist():
                if row["query_id"] in wanted:
                    step = step_of(row["path"], row["kind"], row["body"])
                    if step is not None:
                        found[row["query_id"]][row["seq"]] = compact(step)
    return {query_id: f"[{','.join(steps[seq] for seq in sorted(steps))}]" for query_id, steps in found.items()}


# --------
# The journal's rows of a question as its page shows them: what was looked up, decided, asked and replied.
#
# Prompts are shortened where they quote documents: the passages of a prompt are spans of the archive, and what matters
# of them is shown as sources. Retrieved chunks are places and scores.

MESSAGE_CHARS: Final = 6_000
"""Of one message of a prompt, its passages shortened, and of a reply. Ours."""
PASSAGE_CHARS: Final = 160
"""Of each passage in a prompt. Ours."""
HITS_SHOWN: Final = 3
"""Chunks of each retriever. Ours."""

Step = list[Any]
"""``[path, kind, head, parts]``: the head is one line, the parts are pairs of a title and a text."""

_PASSAGE: Final = re.compile(r'<passage id="(\d{1,5})" doc="([^"]*)">\n(.*?)\n</passage>', re.DOTALL)


def step_of(path: str, kind: str, body: str) -> Step | None:
    """What to show of a journal row; None for one that says nothing more (the plan is shown by itself)."""
    maker = _MAKERS.get(kind)
    if maker is None:
        return None
    head, parts = maker(json.loads(body))
    return [bounded(path, 200), kind, head, parts]


def shortened(prompt: str) -> str:
    """A prompt's message with each passage cut to its first characters, and the whole within ``MESSAGE_CHARS``."""
    return bounded(_PASSAGE.sub(_short_passage, prompt), MESSAGE_CHARS)


def _short_passage(match: re.Match[str]) -> str:
    number, doc_id, text = match.groups()
    if len(text) > PASSAGE_CHARS:
        text = f"{text[:PASSAGE_CHARS].rstrip()} … [{len(text) - PASSAGE_CHARS:,} more characters]"
    return f"[passage {number} of {doc_id}]\n{text}\n"


def _retrieval(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    wanted = body["wanted"]
    parts = [("query", bounded(wanted["query"], MESSAGE_CHARS))]
    for side in ("exact", "semantic"):
        rows = body[side][:HITS_SHOWN]
        places = "\n".join(f"{row[8]:9.3f}  {bounded(row[1], 120)}:{row[4]}-{row[5]}" for row in rows)
        parts.append((f"{side}: best {len(rows)} of {len(body[side])}", places or "nothing"))
    return f"top {wanted['k']} of {wanted['granularity']}-token chunks for each retriever", parts


def _selection(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    pool = body["wanted"]["pool"]
    ranks = ", ".join(str(pool.index(chunk) + 1) for chunk in body["chosen"] if chunk in pool)
    return f"{len(body['chosen'])} chunks chosen one by one from the {len(pool)} best", [("ranks", ranks)]


def _request(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    request = body["request"]
    parts = [(str(m.get("role")), shortened(content_shown(m.get("content")))) for m in request.get("messages", [])]
    return f"asked {bounded(request.get('model', ''), 80)}", parts


def _reply(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    reply, call = body["reply"], body["call"]
    by = bounded(_public(reply.get("model") or "a model"), NAME_CHARS)
    head = (
        f"{by} replied: {call['prompt_tokens']:,} + {call['completion_tokens']:,} tokens, ${call['cost_usd']:.6f}, "
        f"{call['latency_s']:.1f} s"
    )
    parts = [("reply", bounded(reply.get("text", ""), MESSAGE_CHARS))]
    if body.get("refusal"):
        parts.append(("refusal", bounded(body["refusal"], MESSAGE_CHARS)))
    return head, parts


def _readings(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    sure = [f"{reading[1]:.2f}" for reading in body["readings"] if reading[1] is not None]
    held = [("hold the answer, in the order read", ", ".join(sure))] if sure else []
    return f"{len(body['readings'])} passages read by the cross-encoder", [("query", body["wanted"]["query"]), *held]


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], tuple[str, list[tuple[str, str]]]]]] = {
    "retrieval": _retrieval,
    "selection": _selection,
    "readings": _readings,
    "request": _request,
    "reply": _reply,
}


# --------
# What a question's page shows of its documents: the cited and the gold spans, highlighted in their surroundings.

AROUND: Final = 320
"""Characters shown before and after a span. Ours."""
HEAD, TAIL = 700, 300
"""Characters shown of the beginning and the end of a piece that is longer than both together. Ours."""
NEAR: Final = 80
"""How far a window is widened to begin with a line or a word, and to end with a word. Ours."""
MOST_SOURCES: Final = 12
"""Windows shown for one question. Ours."""

CITED, GOLD = 1, 2
"""What a piece is; 3 is both, 0 neither."""

Span = tuple[str, int, int]
"""``(doc_id, start_char, end_char)``."""
Piece = tuple[str, int]
"""``(text, what it is)``; a negative second entry says how many characters were left out there, its text is ""."""


@dataclass(frozen=True, slots=True)
class Source:
    """A window ``[start_char, end_char)`` of a document, and the ``spans`` in it, the cited ones first.

    ``seen``: all of them stood in the prompt's context.
    """

    doc_id: str
    start_char: int
    end_char: int
    seen: bool
    pieces: tuple[Piece, ...]
    spans: tuple[Span, ...]


def gold_spans(gold: Question | None) -> list[Span]:
    """The gold evidence of a question that is marked by its place."""
    return [span for each in (gold.evidence if gold else ()) if (span := evidence_span(each)) is not None]


def evidence_span(text: str) -> Span | None:
    """``doc_id:start:end``, as questions files write gold evidence, as a span; None for evidence in other words."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    start, end = int(parts[1]), int(parts[2])
    return (parts[0], start, end) if start < end else None


def spans_of(rows: Iterable[Any] | None) -> list[Span]:
    """The spans of a table's list of structs."""
    return [(row["doc_id"], row["start_char"], row["end_char"]) for row in rows or ()]


def evidence_recall(gold: Sequence[Span], context: Sequence[Span]) -> float | None:
    """The share of gold characters that stand in the context, 0 to 1; None without gold spans."""
    needed = sum(end - start for _, start, end in gold)
    if not needed:
        return None
    shown = 0
    for doc_id, start, end in gold:
        held = [(max(start, a), min(end, b)) for doc, a, b in context if doc == doc_id and a < end and b > start]
        shown += sum(b - a for a, b in _joined(held, 0))
    return shown / needed


def sources(quoted: Sequence[Span], gold: Sequence[Span], context: Sequence[Span], text_of: TextOf) -> list[Source]:
    """The windows of a question's spans: cited documents first, in the order of citation, then the others.

    ``text_of`` gives a document's text, or None where it cannot be had: its windows then have no pieces.
    """
    wanted: dict[str, list[Span]] = {}
    for span in (*quoted, *gold):
        wanted.setdefault(span[0], []).append(span)
    found = []
    for doc_id, spans in wanted.items():
        text = text_of(doc_id)
        shown = _joined([(start, end) for doc, start, end in context if doc == doc_id], 0)
        marks = [(start, end, CITED) for doc, start, end in quoted if doc == doc_id]
        marks += [(start, end, GOLD) for doc, start, end in gold if doc == doc_id]
        size = max(end for _, _, end in spans) if text is None else len(text)
        for start, end in _joined([(start, end) for _, start, end in spans], 2 * AROUND):
            inside = [(a, b) for a, b, _ in marks if start <= a and b <= end]
            seen = all(any(a >= low and b <= high for low, high in shown) for a, b in inside)
            low, high = min(size, max(0, start - AROUND)), min(size, end + AROUND)
            pieces = () if text is None else _pieces(text, low, high, marks)
            held = dict.fromkeys((doc_id, a, b) for a, b in inside)
            found.append(Source(doc_id, low, high, seen, pieces, tuple(held)))
    return found[:MOST_SOURCES]


def _pieces(text: str, low: int, high: int, marks: Sequence[tuple[int, int, int]]) -> tuple[Piece, ...]:
    low, high = _opening(text, low), _closing(text, high)
    edges = {low, high}
    edges.update(edge for start, end, _ in marks for edge in (start, end) if low < edge < high)
    ordered = sorted(edges)
    pieces: list[Piece] = []
    for start, end in pairwise(ordered):
        what = 0
        for a, b, kind in marks:
            if a <= start and end <= b:
                what |= kind
        if end - start <= HEAD + TAIL:
            pieces.append((text[start:end], what))
        else:
            left_out = end - start - HEAD - TAIL
            pieces += [
                (text[start : start + HEAD], what),
                ("", -left_out),
                (text[end - TAIL : end], what),
            ]
    return tuple(pieces)


def _opening(text: str, place: int) -> int:
    """``place`` moved back to where its line or its word begins, whichever is near."""
    if place <= 0:
        return 0
    line = text.rfind("\n", max(0, place - NEAR), place)
    if line >= 0:
        return line + 1
    near = range(place, max(0, place - NEAR), -1)
    return next((at for at in near if text[at - 1].isspace() and not text[at : at + 1].isspace()), place)


def _closing(text: str, place: int) -> int:
    """``place`` moved on to where its word ends, where that is near."""
    return next((at for at in range(place, min(len(text), place + NEAR)) if text[at].isspace()), min(place, len(text)))


def _joined(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Sorted ranges, those at most ``gap`` apart made one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1] + gap:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
