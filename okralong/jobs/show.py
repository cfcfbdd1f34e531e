"""Printing of runs: the summary at the end of a run, and ``okralong show`` for a run or one question."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.rule import Rule
from rich.style import Style
from rich.text import Text

from okralong.jobs.grid import Grid, Heading, shortened
from okralong.jobs.terminal import printable, say, say_line, seconds_by_stage, widen_plain
from okralong.pipelines.answering.answer_types import SCHEMA, AnswerType
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError, QuestionError, Usage
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.records import MODELS_NAMED, NAME_CHARS
from okralong.pipelines.llm.request import content_shown
from okralong.pipelines.reporting.cited import Cited, archive_of, cited
from okralong.pipelines.reporting.matrix import words_of
from okralong.pipelines.reporting.metrics import Typed, answer_marks
from okralong.pipelines.reporting.rows import replied_by
from okralong.pipelines.run.corrections import Correction, corrections_of
from okralong.pipelines.run.rows import BEGUN, artifacts_taken, in_question_order, table

if TYPE_CHECKING:
    from okralong.pipelines.archive.archive import Archive
    from okralong.pipelines.reporting.searched import Searched

ROWS_SHOWN = 40
ANSWER_CHARS = 160
QUESTION_CHARS = 120
REFERENCE_MODEL = "gpt-4o-2024-08-06"
"""The paper's generator (appendix B.2), whose prices give runs on a local model a comparable cost."""


def print_summary(
    console: Console, run: Folder, stopped: str, golds: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print a run's questions (only the first ones of a long run) and its totals.

    ``stopped`` says why the run stopped, or is "". ``golds`` are gold answers by query_id.
    """
    rows = in_question_order(run, table(run, "answers"))
    widen_plain(console)
    typed = any(row["value"] is not None for row in rows[:ROWS_SHOWN])
    texts = ("answer", *(("value", "period") if typed else ()), "sources")
    grid = Grid(
        [
            Heading("question"),
            Heading("type", "short"),
            Heading("workflow", "short"),
            *map(Heading, texts),
            Heading("tokens", "number"),
            Heading("cost", "number"),
        ]
    )
    for row in rows[:ROWS_SHOWN]:
        grid.add(*_cells(row, typed))
    grid.print(console)
    if len(rows) > ROWS_SHOWN:
        console.print(f"... and {len(rows) - ROWS_SHOWN} more in {run.path}/answers")
    usage = Usage(
        sum(row["prompt_tokens"] or 0 for row in rows),
        sum(row["cached_tokens"] or 0 for row in rows),
        sum(row["completion_tokens"] or 0 for row in rows),
    )
    statuses: dict[str, int] = {}
    for row in rows:
        statuses[row["status"]] = statuses.get(row["status"], 0) + 1
    cost = sum(row["cost_usd"] or 0.0 for row in rows)
    reference = PriceTable.load().price(REFERENCE_MODEL).cost(usage)
    sums = f"{usage.prompt_tokens:,} prompt + {usage.completion_tokens:,} completion tokens"
    ended = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "no question finished yet"
    backed = sum(bool(row["cited"]) for row in rows)
    by = [f"{_cut(name)} ({count})" for name, count in replied_by(rows)]
    named = [f"replied: {', '.join(by[:MODELS_NAMED])}{' and others' if len(by) > MODELS_NAMED else ''}"] if by else []
    for line in (
        f"{ended}; {backed} cited; analyzer: {', '.join(sorted(_analyzers(rows))) or 'none'}",
        *named,
        f"{sums} = {usage.weighted_tokens:,} weighted (input + 4 x output)",
        f"cost ${cost:.4f}; the same tokens at {REFERENCE_MODEL} prices: ${reference:.4f}",
        *_bill(run, cost),
        *_score(rows, golds or {}),
        *_corrected(run),
        f"run folder: {run.path}; show one answer with its sources: okralong show {run.path} QUERY_ID",
    ):
        say_line(console, line)
    if stopped:
        say_line(console, f"stopped: {stopped}", style="red")


LEAST_SHOWN_USD: Final = 0.0001


def _bill(run: Folder, cost: float) -> list[str]:
    """Return lines on shared replies, batches, artifacts, tags, and spending beyond the answers' ``cost``."""
    billed = bill(table(run, "ledger", COLUMNS))
    lines = []
    beside = billed.billed_usd - billed.artifacts_usd - cost
    if beside >= LEAST_SHOWN_USD:
        lines.append(f"billed ${billed.billed_usd:.4f} in total, of which ${beside:.4f} for unfinished questions")
    if billed.unknown_usd >= LEAST_SHOWN_USD:
        lines.append(
            f"up to ${billed.unknown_usd:.4f} more may have been billed, for {counted(billed.unknown_calls, 'call')} "
            "cut off, aborted or beyond llm.window (status unknown in the ledger)"
        )
    if billed.dear_calls:
        lines.append(
            f"{counted(billed.dear_calls, 'reply', 'replies')} cost up to {billed.dearest:.1f} times what prompt and "
            "limit allow: the endpoint ignores limits, or bills thought or a prompt that it does not show"
        )
    if billed.shared:
        lines.append(
            f"billed ${billed.billed_usd:.4f}; without {counted(billed.shared, 'reply')} from other runs it would "
            f"have been ${billed.alone_usd:.4f}"
        )
    if billed.batch_calls:
        lines.append(
            f"billed ${billed.batch_usd:.4f} for {counted(billed.batch_calls, 'batch call')}, "
            f"${billed.billed_usd - billed.batch_usd:.4f} for "
            f"{counted(billed.calls - billed.batch_calls, 'real-time call')}"
        )
    if billed.artifact_calls:
        lines.append(
            f"billed ${billed.artifacts_usd:.4f} for {counted(billed.artifact_calls, 'call')} that built data shared "
            "by several questions, such as summaries of documents"
        )
    taken, unkept = artifacts_taken(run)
    if taken:
        cost = math.fsum(each.expense.cost_usd for each in taken)
        calls = sum(each.expense.calls for each in taken)
        named = counted(len(taken), "summary or graph", "summaries or graphs")
        lines.append(
            f"{named} of documents {agreeing(len(taken), 'was')} reused from the archive; "
            f"{agreeing(len(taken), 'its')} cost had been ${cost:.4f} for {counted(calls, 'call')}"
        )
    if unkept:  # usually all for the same reason
        named = counted(len(unkept), "summary or graph", "summaries or graphs")
        lines.append(f"{named} of documents {agreeing(len(unkept), 'was')} not saved in the archive: {unkept[0]}")
    if billed.by_tag:
        costs = ", ".join(f"{name}={value} ${cost:.4f}" for (name, value), cost in billed.by_tag.items())
        lines.append(f"billed by tag: {costs}")
    return lines


def _score(rows: list[dict[str, Any]], golds: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a line with the mean F1 and exact match, or nothing without gold answers.

    As in the report, a failed question scores 0, and one that is over_budget is not counted.
    """
    marked = (
        answer_marks("", row["status"], row["answer"] or "", golds.get(row["query_id"]) or [], Typed.of(row))
        for row in rows
    )
    held = [(marks.f1, marks.em) for marks in marked if marks.f1 is not None and marks.em is not None]
    if not held:
        return []
    f1, exact = fmean(each[0] for each in held), fmean(each[1] for each in held)
    return [f"against the gold answers of {counted(len(held), 'question')}: F1 {f1:.2f}, exact match {exact:.2f}"]


def _corrected(run: Folder) -> list[str]:
    """Return a line that counts the corrections, or nothing."""
    known = corrections_of(run).values()
    opened = sum(bool(each.reopened) for each in known)
    words = f"{counted(len(known), 'answer')} corrected, {opened:,} of them reopened; okralong corrections {run.path}"
    return [words] if known else []


def _analyzers(rows: list[dict[str, Any]]) -> set[str]:
    return {json.loads(row["analysis"])["analyzer"] for row in rows if row["analysis"]}


def _cut(name: str) -> str:
    """Shorten a model name, which an endpoint chooses itself."""
    longest = MODELS_NAMED * NAME_CHARS
    return name if len(name) <= longest else f"{name[:longest]} ..."


def _cells(row: dict[str, Any], typed: bool) -> list[str]:
    analysis = json.loads(row["analysis"]) if row["analysis"] else None
    plan = json.loads(row["plan"]) if row["plan"] else None
    answer = row["answer"] if row["status"] == "answered" else f"({row['status']}) {row['error'] or ''}".strip()
    sources = ", ".join(sorted({span["doc_id"] for span in row["citations"]}))
    values = [words_of(row) if row["value"] is not None else "", row["period"] or ""] if typed else []
    return [
        f"{row['query_id']}  {shortened(row['question'], QUESTION_CHARS)}",
        analysis["type"] if analysis else "-",
        plan["workflow"] if plan else "-",
        shortened(answer, ANSWER_CHARS),
        *(shortened(each, ANSWER_CHARS) for each in values),
        sources or "uncited",
        f"{(row['prompt_tokens'] or 0) + (row['completion_tokens'] or 0):,}",
        f"${row['cost_usd'] or 0.0:.4f}",
    ]


# --------
# ``okralong show``

QUOTE_CHARS = 400
IDS_SHOWN = 8
CHUNK_CHARS = 240
CHUNKS_SHOWN = 3
FOUND_CHARS = 600
SEARCHED_CHARS = 600


def command(
    run: Annotated[str, typer.Argument(help="A run folder.")],
    query_id: Annotated[str | None, typer.Argument(help="The question to show; the whole run if omitted.")] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Also show all steps: chunks, analysis, plan, each prompt and reply.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="As --all, without shortening chunks and quotes.")] = False,
) -> None:
    """Show a run, or one question: its answer with quote, page and file of each source."""
    folder, console = Folder.of(run), Console()
    if not folder.exists(BEGUN):
        raise InputError(
            f"{run} is not a run folder (it has no {BEGUN}). Give the folder named by okralong answer --run."
        )
    if query_id is None:
        print_summary(console, folder, "" if folder.read_manifest() else "the run is incomplete")
        return
    rows = [row for row in table(folder, "answers") if row["query_id"] == query_id]
    steps = [row for row in table(folder, "journal") if row["query_id"] == query_id]
    if not rows and not steps:
        known = ", ".join(row["query_id"] for row in table(folder, "answers", ["query_id"])[:8])
        raise InputError(f"{run} has no question {query_id!r}. Its first ones are: {known}.")
    printer = _Printer(console, _archive(folder, console), full)
    if rows:
        printer.answer(rows[0], corrections_of(folder).get(str(query_id)))
        from okralong.pipelines.reporting.searched import (
            searched,  # loads the index, which the command line does not need
        )

        printer.searched(searched(folder, rows, printer.archive).get(str(query_id)))
    if not rows or whole or full:
        printer.way(steps)
    else:
        say_line(console, f"all steps: okralong show {shlex.quote(run)} {shlex.quote(query_id)} --all", style="dim")


def _archive(folder: Folder, console: Console) -> Archive | None:
    """Open the run's archive for the texts of chunks and citations; None if it is missing or has changed."""
    archive, missing = archive_of(folder.read_json(BEGUN))
    if missing:
        say(console, missing, style="red")
    return archive


class _Printer:
    def __init__(self, console: Console, archive: Archive | None, full: bool) -> None:
        self._places: dict[str, tuple[str, int, int]] = {}
        self._console = console
        self.archive = archive
        self._limit = None if full else CHUNK_CHARS
        self._full = full

    def answer(self, row: dict[str, Any], correction: Correction | None = None) -> None:
        """Print the question, its answer and the quotes of its citations."""
        self._line(f"{row['query_id']}  {row['question']}", style="bold")
        self._line(f"scope: {self._scope(row['doc_ids'])}", 2)
        for name, value in row["carried"] or ():
            self._line(f"{name}: {value}", 2)
        sure = "" if row["confidence"] is None else f", confidence {row['confidence']:.2f}"
        self._rule(f"answer: {row['status']}{sure}")
        self._line(row["answer"] or "-", 2, "bold")
        if row["value"] is not None:
            for name, said in _value_lines(row):
                self._line(f"{name}: {said}", 2)
        if correction is not None:
            self._line(str(correction), 2, "yellow" if correction.reopened else "green")
        if row["escalated"]:
            how = "with the full text" if row["escalated"] == "precise" else f"with {row['escalated']}"
            known = row["first_confidence"]
            why = "was doubtful" if known is None else f"had a confidence of {known:.2f}"
            self._line(f"repeated {how}, because the first answer {why}", 2)
        if row["error"]:
            self._line(row["error"], 2, "red")
        if row["replied_by"]:
            self._line(f"replied by {_cut(row['replied_by'])}", 2)
        spans = row["citations"]
        self._rule(f"sources: {len(spans) or 'none, the answer is uncited'}")
        for number, span in enumerate(spans, start=1):
            self._source(number, cited(self.archive, span))
        stages = dict(row["seconds"] or ())
        total = stages.pop("total", sum(stages.values()))
        self._rule("cost")
        calls = counted(row["calls"] or 0, "call")
        self._line(
            f"{calls}, {row['prompt_tokens'] or 0:,} + {row['completion_tokens'] or 0:,} tokens, "
            f"${row['cost_usd'] or 0.0:.6f}; context {counted(row['context_tokens'] or 0, 'token')}; "
            f"seconds: {seconds_by_stage(stages, total)}",
            2,
        )

    def searched(self, found: Searched | None) -> None:
        """Print what was searched for a question without an answer."""
        if found is None:
            return
        from okralong.pipelines.reporting.searched import scores

        self._rule("searched")
        for name, words in found.lines():
            limit = None if self._full else SEARCHED_CHARS
            self._line(f"{name}: {words if limit is None else shortened(words, limit)}", 2)
        for number, each in enumerate(found.nearest, start=1):
            place = each.section or f"characters {each.start_char}-{each.end_char}"
            self._line(f"[{number}] {each.doc_id}, {place}: {scores(each)}", 2)
            self._line(f"> {each.text}", 6, "dim")

    def _scope(self, doc_ids: Sequence[str]) -> str:
        if not doc_ids:
            return "the whole archive"
        shown = doc_ids if self._full else doc_ids[:IDS_SHOWN]
        more = f" and {counted(len(doc_ids) - len(shown), 'more document')}" if len(shown) < len(doc_ids) else ""
        return ", ".join(shown) + more

    def _source(self, number: int, source: Cited) -> None:
        """Print the place of a source (page, sheet, heading ...), its file and its quote."""
        place = source.section or f"characters {source.start_char}-{source.end_char}"
        read = ", read from an image" if source.ocr else ""
        self._line(f"[{number}] {source.doc_id}, {place}{read}", 2)
        if source.source_uri:  # unwrapped, so that it can be copied
            link = Style(link=printable(source.link))
            self._console.print(Text(f"      {printable(source.source_uri)}", style=link), soft_wrap=True)
        quote = source.quote.strip()
        cut = not self._full and len(quote) > QUOTE_CHARS
        for line in (f"{quote[:QUOTE_CHARS]} ... (--full shows all)" if cut else quote).splitlines():
            self._line(f"> {line}", 6, "green")

    def way(self, steps: list[dict[str, Any]]) -> None:
        """Print all journal steps of the question in order."""
        printers = {
            "retrieval": self._retrieval,
            "analysis": self._analysis,
            "plan": self._plan,
            "selection": self._selection,
            "readings": self._readings,
            "found": self._found,
            "request": self._request,
            "reply": self._reply,
        }
        for step in sorted(steps, key=lambda each: int(each["seq"])):
            if (printer := printers.get(step["kind"])) is not None:  # a newer version may write other kinds
                printer(step["path"], json.loads(step["body"]))

    def _readings(self, path: str, body: dict[str, Any]) -> None:
        readings = body["readings"]
        self._rule(f"{path}: {counted(len(readings), 'passage')} read by the cross-encoder")
        self._line(f"query: {body['wanted']['query']}", 2)
        sure = [f"{reading[1]:.2f}" for reading in readings if reading[1] is not None]
        if sure:
            self._line(f"probability of holding the answer, in reading order: {', '.join(sure)}", 2)

    def _retrieval(self, path: str, body: dict[str, Any]) -> None:
        wanted = body["wanted"]
        self._rule(f"{path}: top {wanted['k']} of {wanted['granularity']}-token chunks for each retriever")
        self._line(f"query: {wanted['query']}", 2)
        for name, shown_as in (("exact", "BM25"), ("semantic", "dense")):
            self._line(f"{shown_as} ({counted(len(body[name]), 'chunk')})", 2, "bold")
            for chunk_id, doc_id, _, _, start, end, _, _, score in body[name][:CHUNKS_SHOWN]:
                self._line(f"{score:8.3f}  {chunk_id}  {doc_id}:{start}-{end}", 4)
                self._line(self._text(doc_id, start, end), 14)
            self._places |= {row[0]: (row[1], row[4], row[5]) for row in body[name]}

    def _analysis(self, path: str, record: dict[str, Any]) -> None:
        body = record["analysis"]
        self._rule(
            f"{path}: analysis by {body['analyzer']} of the question and {counted(len(record['chunk_ids']), 'chunk')}"
        )
        for chunk_id in record["chunk_ids"]:
            doc_id, start, end = self._places[chunk_id]
            self._line(f"{chunk_id}  {doc_id}:{start}-{end}", 2)
            self._line(self._text(doc_id, start, end), 4)
        self._line(f"type      {body['type']}  {_odds(body['type_probabilities'])}", 2)
        if body["pattern"] is not None:
            self._line(f"pattern   {body['pattern']}  {_odds(body['pattern_probabilities'])}", 2)
        if body["evidence"] is not None:
            at_hand = "at hand" if body["evidence"] else "not at hand"
            self._line(f"evidence  {at_hand}  (p = {body['evidence_probability']:.2f})", 2)

    def _plan(self, path: str, body: dict[str, Any]) -> None:
        weights = f"{body['exact_weight']:g} : {body['semantic_weight']:g}"
        size = f"{counted(body['count'], 'chunk')} of {body['granularity']} tokens"
        if body["max_tokens"] is not None:
            size += f" ({body['max_tokens']} tokens at most)"
        self._rule(f"{path}: {body['workflow']}, {size}, BM25 : dense = {weights}")
        for reason in body["reasons"]:
            self._line(f"- {reason}", 2)

    def _selection(self, path: str, body: dict[str, Any]) -> None:
        pool = body["wanted"]["pool"]
        self._rule(f"{path}: {counted(len(body['chosen']), 'chunk')} selected one by one from the best {len(pool)}")
        for chunk_id in body["chosen"]:
            self._line(f"rank {pool.index(chunk_id) + 1:3}  {chunk_id}", 2)

    def _found(self, path: str, body: dict[str, Any]) -> None:
        wanted = ", ".join(f"{name} {value}" for name, value in body["wanted"].items())
        self._rule(f"{path}: found locally")
        for said in (wanted, json.dumps(body["found"], ensure_ascii=False)):
            self._line(said if len(said) <= FOUND_CHARS else f"{said[:FOUND_CHARS]} ... [{len(said):,} characters]", 2)

    def _request(self, path: str, body: dict[str, Any]) -> None:
        self._rule(f"{path}: request")
        for message in body["request"].get("messages", []):
            self._line(message.get("role"), 2, "bold")
            self._line(content_shown(message.get("content")), 4)

    def _reply(self, path: str, body: dict[str, Any]) -> None:
        reply, call = body["reply"], body["call"]
        tokens = f"{call['prompt_tokens']:,} + {call['completion_tokens']:,} tokens"
        by, cost = _cut(reply.get("model") or "a model"), f"${call['cost_usd']:.6f}"
        self._rule(f"{path}: {by} replied ({tokens}, {cost}, {call['latency_s']:.1f} s)")
        self._line(reply.get("text", ""), 4)

    def _text(self, doc_id: str, start: int, end: int) -> str:
        if self.archive is None:
            return "..."
        try:
            text = self.archive.document(doc_id).text[start:end].strip()
        except QuestionError as error:
            return f"({error})"
        limit = self._limit
        return text if limit is None or len(text) <= limit else f"{text[:limit]} ... [{len(text) - limit:,} more]"

    def _rule(self, title: str) -> None:
        self._console.print(Rule(Text(printable(title), style="cyan"), align="left", style="cyan"))

    def _line(self, text: object, indent: int = 0, style: str = "") -> None:
        say(self._console, text, indent=indent, style=style)


def _value_lines(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a typed answer's value by name; each value of a list with its own parts."""
    wanted = AnswerType.of(row["answer_type"] or "")
    yield "type", wanted.kind if wanted.kind == SCHEMA else str(wanted)
    if wanted.many:
        for each in json.loads(row["value"]):
            more = ", ".join(f"{name} {said}" for name, said in each.items() if name not in ("value", "number"))
            yield "value", f"{each['value']} ({more})" if more else str(each["value"])
        return
    yield "value", str(row["value"])
    yield from ((name, str(row[name])) for name in ("unit", "scale", "currency", "period") if row[name])


def _odds(probabilities: dict[str, float]) -> str:
    ordered = sorted(probabilities.items(), key=lambda item: (-item[1], item[0]))
    return "(" + ", ".join(f"{name} {value:.2f}" for name, value in ordered) + ")"
