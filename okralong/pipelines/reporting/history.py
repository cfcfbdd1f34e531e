"""The history of a nightly as one page: what each question's answer was over the nights, and why it changed.

The page shows the nights that ``keep`` has left. It has no scripts and cannot load anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import DIFFERENCES as DIFFERENCES_SCHEMA
from okralong.pipelines.core.schemas import completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.causes import CAUSES, counted_causes
from okralong.pipelines.reporting.diff import BY_PEOPLE, CHANGES, MATTERING, Value, pieces
from okralong.pipelines.reporting.export import Exported
from okralong.pipelines.reporting.inert import escaped, inert_page
from okralong.pipelines.reporting.matrix import words_of
from okralong.pipelines.reporting.rows import bounded
from okralong.pipelines.run.corrections import CORRECTED, correction_line
from okralong.pipelines.run.nightly import CURRENT, DIFFERENCES, NIGHTS, RUN, Night, nights
from okralong.pipelines.run.rows import BEGUN, table
from okralong.pipelines.statements.amounts import UNKNOWN

HISTORY: Final = "history.html"
"""The page in the folder of a nightly."""
NIGHTS_SHOWN: Final = 60  # project default
"""The most nights on the page; the newest are shown."""
QUESTIONS_SHOWN: Final = 2_000  # project default
"""The most questions on the page."""
WORDS_CHARS: Final = 240  # project default
"""Maximum length of a question, an answer or a finding."""
_NEEDED: Final = (
    "query_id",
    "change",
    "matters",
    "cause",
    "because",
    "before_answer",
    "before_status",
    "before_number",
)
_CHANGED: Final = (MATTERING - {"new_question"}) | {BY_PEOPLE}
"""The changes that are marked."""
_ANSWER: Final = ["query_id", "status", "answer", "answer_type", "number", "scale"]
BEFORE: Final = "before"
"""The name of the point before the oldest kept night."""


@dataclass(frozen=True)
class KeptNight:
    """A night whose folder exists: its answers and its differences by query_id, and what it cost."""

    night: Night
    answers: Mapping[str, Mapping[str, Any]]
    differences: Mapping[str, Mapping[str, Any]]
    usd: float

    compared: bool

    @property
    def canaries(self) -> Mapping[str, Any] | None:
        """The verdict on the canaries, of the second endpoint if that was asked; None without canaries."""
        note: Mapping[str, Any] | None = self.night.notes.get("canaries")
        return note and {**note, **(note.get("second") or {})}

    @classmethod
    def read(cls, folder: Folder, night: Night) -> KeptNight:
        """Read a night of the nightly in ``folder``; one that is not finished may lack parts."""
        place = folder.at(NIGHTS, night.name)
        run = place.at(RUN)
        answers = {row["query_id"]: row for row in read_run_table(run, "answers", _ANSWER).to_pylist()}
        found: dict[str, Mapping[str, Any]] = {}
        compared = place.exists(f"{DIFFERENCES}.html")
        if place.exists(f"{DIFFERENCES}.parquet"):
            with place.open(f"{DIFFERENCES}.parquet") as file:
                known = pq.read_table(file)
            wanted = DIFFERENCES_SCHEMA.empty_table().select(list(_NEEDED)).schema
            found = {row["query_id"]: row for row in completed(known, wanted).to_pylist()}
        usd = bill(table(run, "ledger", COLUMNS)).billed_usd + (night.notes.get("canaries") or {}).get("usd", 0.0)
        return cls(night, answers, found, usd, compared)


@dataclass(frozen=True, slots=True)
class Point:
    """A question in one night. ``status`` is "" if it had not been asked by then."""

    night: str
    status: str
    number: float | None
    changed: bool


@dataclass(frozen=True)
class QuestionHistory:
    """A question of ``current``: its row of the flat answers, its points by night, and its last change."""

    row: Mapping[str, Any]
    points: Sequence[Point]
    last: Mapping[str, Any] | None
    last_night: str
    failed_checks: Sequence[str]

    @property
    def order(self) -> tuple[bool, tuple[int, ...]]:
        """The key by which questions that need a look come first: failed checks, then the newest changes."""
        return not self.failed_checks, tuple(-each for each in _order(self.last_night))


def _order(name: str) -> tuple[int, ...]:
    day, _, number = name.partition(".")
    return (int(day.replace("-", "") or 0), int(number or 1))


@dataclass(frozen=True)
class History:
    """What the page shows. ``older`` is the number of answers from nights that are no longer kept."""

    name: str
    kept: Sequence[KeptNight]
    questions: Sequence[QuestionHistory]
    older: int

    @classmethod
    def of(cls, folder: Folder) -> History:
        """Read a nightly's folder. Raises InputError if it has no night."""
        current = folder.at(CURRENT)
        kept = [KeptNight.read(folder, night) for night in nights(folder)[-NIGHTS_SHOWN:]]
        name = folder.path.rstrip("/").rpartition("/")[2]
        if not current.exists(BEGUN):
            if not kept:
                raise InputError(f"{folder.path} has no night yet, so there is no history. Run okralong nightly first.")
            return cls(name, kept, (), 0)
        exported = Exported.of(current)
        failed: dict[str, list[str]] = {}
        if exported.matrix is not None:
            for cell, found in exported.matrix.failed().items():
                if cell in exported.matrix.cells:
                    failed.setdefault(exported.matrix.cells[cell]["query_id"], []).extend(found)
        rows = exported.answers.to_pylist()
        questions = [_history(row, kept, failed.get(row["query_id"], ())) for row in rows]
        names = {each.night.name for each in kept}
        older = sum(row["night"] not in names for row in rows)
        return cls(name, kept, sorted(questions, key=lambda q: q.order), older)


def _history(row: Mapping[str, Any], kept: Sequence[KeptNight], failed: Sequence[str]) -> QuestionHistory:
    query_id = row["query_id"]
    known = _at_first(row, kept)
    has_before = any(each["before_status"] for each in (kept[0].differences if kept else {}).values())
    points = [Point(BEFORE, known["status"], number_of(known), False)] if has_before else []
    last: Mapping[str, Any] | None = None
    last_night = ""
    for each in kept:
        known = each.answers.get(query_id, known)
        difference = each.differences.get(query_id)
        changed = difference is not None and difference["change"] in _CHANGED
        if difference is not None and changed:
            last, last_night = difference, each.night.name
        points.append(Point(each.night.name, known["status"], number_of(known), changed))
    return QuestionHistory(row, points, last, last_night, failed)


def _at_first(row: Mapping[str, Any], kept: Sequence[KeptNight]) -> Mapping[str, Any]:
    """Return what is known of the answer before the kept nights: its first difference, or no change since."""
    query_id = row["query_id"]
    for each in kept:
        if (difference := each.differences.get(query_id)) is not None:
            before = {name: difference[f"before_{name}"] for name in ("status", "answer", "number")}
            return before | {"status": before["status"] or "", "answer_type": row["answer_type"]}
        if query_id in each.answers:
            return each.answers[query_id]
    return row


def number_of(row: Mapping[str, Any]) -> float | None:
    """Return the amount that an answer states: that of its type, or the only number in its words."""
    if row["status"] != "answered":
        return None
    if row["answer_type"] or row["number"] is not None:
        return None if row["number"] is None or row.get("scale") == UNKNOWN else float(row["number"])
    values = [each for each in pieces(row["answer"] or "") if isinstance(each, Value)]
    only = values[0].amount if len(values) == 1 else None
    return float(only) if isinstance(only, Decimal) else None


# --------
# The page.

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--now:#2471a3;--alarm:#c0392b;--good:#1e8449}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:78rem;padding:0 1rem}
h1{font-size:1.4rem;margin-bottom:.3rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.facts{opacity:.75;margin:.2rem 0}a{color:var(--now)}
.counts{display:flex;flex-wrap:wrap;gap:.6rem;padding:0;list-style:none}
.counts li{border:1px solid var(--line);border-radius:.5rem;padding:.3rem .7rem}.counts b{font-size:1.15rem}
table{border-collapse:collapse;width:100%}th{text-align:left;font-size:.8rem;opacity:.75;font-weight:normal}
th,td{padding:.45rem .6rem;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap;overflow-wrap:normal}
code{font-size:.85em;opacity:.75}.now{font-weight:600}.small{font-size:.85rem;opacity:.8}
.alarm{color:var(--alarm);margin:.3rem 0}.nights td:first-child{white-space:nowrap}
.cause{border:1px solid var(--line);border-radius:.4rem;padding:0 .35rem;white-space:nowrap}
.questions{table-layout:fixed}.questions th:nth-child(1){width:29%}.questions th:nth-child(2){width:19%}
.questions th:nth-child(3){width:19%}
svg{display:block;max-width:100%}svg.spark{width:13rem;height:2.4rem}
.line{fill:none;stroke:currentColor;stroke-opacity:.6;stroke-width:1.5;vector-effect:non-scaling-stroke}
.same{fill:currentColor;fill-opacity:.25}.changed{fill:var(--now)}.none{fill:none;stroke:currentColor;stroke-opacity:.4}
.bad{fill:var(--alarm)}.least{stroke:var(--alarm);stroke-dasharray:4 3;stroke-opacity:.7}
.gone{fill:none}.bar{fill:var(--now);fill-opacity:.6}
@media(max-width:50rem){
body{margin:1rem auto;padding:0 .75rem}
.questions,.questions tbody,.questions tr,.questions td{display:block}.questions thead{display:none}
.questions tr{border:1px solid var(--line);border-radius:.5rem;margin:.7rem 0;padding:.4rem .7rem}
.questions td{border:0;padding:.25rem 0}.questions td:empty{display:none}
.questions td[data-label]:before{content:attr(data-label);display:block;font-size:.75rem;opacity:.7}
.nights th,.nights td{padding:.35rem .3rem;font-size:.85rem}.nights .bars{display:none}
svg.spark{width:100%;max-width:20rem}
}
"""


def history_page(history: History, base: str = "") -> bytes:
    """Return the page in UTF-8. ``base`` is the address of the nightly's folder, "" for a page in it."""
    return inert_page(f"History of {history.name}", _STYLE, _body(history, base))


def _body(history: History, base: str) -> Iterator[str]:
    yield f"<h1>History of {escaped(history.name)}</h1>"
    for fact in _facts(history):
        yield f'<p class="facts">{escaped(fact)}</p>'
    ended = Counter(each.row["status"] for each in history.questions)
    failing = sum(bool(each.failed_checks) for each in history.questions)
    states = [each.row["correction"] for each in history.questions if each.row["correction"]]
    reopened = sum(state != CORRECTED for state in states)
    tiles = [*((count, name.replace("_", " ")) for name, count in ended.most_common())]
    tiles += [
        (failing, "with a failed check"),
        (len(states), "corrected"),
        (reopened, "to review: correction reopened"),
    ]
    yield '<ul class="counts">'
    yield from (f"<li><b>{count:,}</b> {escaped(words)}</li>" for count, words in tiles if count)
    yield "</ul>"
    yield from _nights_table(history.kept, base)
    yield from _canaries(history.kept)
    if not history.questions:
        return
    yield "<h2>Questions</h2>"
    yield (
        '<p class="small">Failed checks first, then the newest changes. A line shows the number over the nights; of '
        "other answers, each night is a square. Blue marks a changed or corrected answer, an outline a night "
        "without an answer.</p>"
    )
    yield '<table class="questions"><thead><tr><th>Question</th><th>Over the nights</th><th>Now</th>'
    yield "<th>Last change and its cause</th></tr></thead><tbody>"
    for each in history.questions[:QUESTIONS_SHOWN]:
        yield _question_row(each, base)
    yield "</tbody></table>"
    if (more := len(history.questions) - QUESTIONS_SHOWN) > 0:
        yield f"<p>{counted(more, 'more question')} in the export of {CURRENT}.</p>"


def _facts(history: History) -> Iterator[str]:
    if not history.kept:
        yield "No night is kept; the answers are those of the folder current."
        return
    first, last = history.kept[0].night.name, history.kept[-1].night.name
    usd = sum(each.usd for each in history.kept)
    span = first if first == last else f"{first} to {last}"
    yield f"{counted(len(history.kept), 'night')}, {span}; {_dollars(usd)} together"
    if history.older:
        yield f"{counted(history.older, 'answer')} from nights before {first}, which are no longer kept"


def _nights_table(kept: Sequence[KeptNight], base: str) -> Iterator[str]:
    if not kept:
        return
    yield '<h2>Nights</h2><table class="nights"><thead><tr><th>Night</th><th class="n">Asked</th>'
    yield '<th class="n">Matter</th><th>Differences by cause</th><th class="n">Cost</th><th class="bars"></th>'
    yield "</tr></thead><tbody>"
    most = max(each.usd for each in kept)
    for each in reversed(kept):
        night = each.night
        shown = _link(base, night.name, night.name) if each.compared else night.name
        causes = Counter(str(row["cause"] or "unknown") for row in each.differences.values())
        why = counted_causes(causes) or "none"
        if not each.compared:
            why = "stopped by the canaries" if night.phase == "done" else f"not finished (phase {night.phase})"
        matter = sum(bool(row["matters"]) for row in each.differences.values())
        bar = round(60 * each.usd / most, 1) if most else 0.0
        yield (
            f'<tr><td>{shown}</td><td class="n">{len(each.answers):,}</td><td class="n">{matter:,}</td>'
            f"<td>{escaped(why)}</td>"
            f'<td class="n">{_dollars(each.usd)}</td><td class="bars"><svg width="60" height="12" aria-hidden="true">'
            f'<rect class="bar" width="{bar}" height="12"/></svg></td></tr>'
        )
    yield "</tbody></table>"


def _canaries(kept: Sequence[KeptNight]) -> Iterator[str]:
    """Yield the share of right canaries over the nights as a line, with the least share as another."""
    asked = [(each.night.name, said) for each in kept if (said := each.canaries) and said.get("asked")]
    if not asked:
        return
    shares = [said["right"] / said["asked"] for _, said in asked]
    step = (_WIDE - 2 * _EDGE) / max(len(asked) - 1, 1)
    places = [
        (round(_EDGE + step * at, 1), round(_HIGH - _EDGE - share * (_HIGH - 2 * _EDGE), 1))
        for at, share in enumerate(shares)
    ]
    least = round(_HIGH - _EDGE - asked[-1][1]["min_right"] * (_HIGH - 2 * _EDGE), 1)
    marks = "".join(
        f'<circle class="{"bad" if share < said["min_right"] else "changed"}" cx="{x}" cy="{y}" r="3">'
        f"<title>{escaped(night)}: {said['right']:,} of {said['asked']:,} right, {escaped(said['outcome'])}</title>"
        f"</circle>"
        for (x, y), share, (night, said) in zip(places, shares, asked, strict=True)
    )
    night, last = asked[-1]
    words = (
        f"Night {night}: {last['right']:,} of {last['asked']:,} right, answered by {last['model']}; at least "
        f"{last['min_right']:.0%} are needed (dashed)."
    )
    yield "<h2>Canaries</h2>"
    yield (
        f'<svg class="spark" role="img" aria-label="{escaped(words)}" viewBox="0 0 {_WIDE} {_HIGH}">'
        f'<line class="least" x1="0" x2="{_WIDE}" y1="{least}" y2="{least}"/>'
        f'<polyline class="line" points="{" ".join(f"{x},{y}" for x, y in places)}"/>{marks}</svg>'
    )
    wrong = f" Wrong: {', '.join(last['wrong'])}." if last.get("wrong") else ""
    yield f'<p class="small">{escaped(bounded(words + wrong, 2 * WORDS_CHARS))}</p>'


def _question_row(each: QuestionHistory, base: str) -> str:
    row = each.row
    status = row["status"]
    now = words_of(row) if status == "answered" else f"({status.replace('_', ' ')})"
    source = ", ".join(filter(None, (row.get("doc_id"), row.get("section"))))
    link = row.get("link") or ""
    shown = escaped(bounded(source, WORDS_CHARS))
    if source and link.startswith(("http://", "https://", "file://")):
        shown = f'<a rel="noreferrer noopener" href="{escaped(link)}">{shown}</a>'
    since = f"night {row['night']}" if row["night"] else ""
    under = ". ".join(filter(None, (shown, escaped(since))))
    corrected = (
        f'<div class="small">{escaped(bounded(said, WORDS_CHARS))}</div>' if (said := correction_line(row)) else ""
    )
    scope = f"<br>{escaped(bounded(row['scope'], WORDS_CHARS))}" if row["asked_id"] and row["scope"] else ""
    checks = "".join(f'<p class="alarm">{escaped(bounded(found, WORDS_CHARS))}</p>' for found in each.failed_checks)
    return (
        f'<tr id="q-{escaped(row["query_id"])}"><td><code>{escaped(row["query_id"])}</code><br>'
        f"{escaped(bounded(row['question'], WORDS_CHARS))}{scope}</td>"
        f'<td data-label="Over the nights">{_spark(each, base)}</td>'
        f'<td data-label="Now"><div class="now">{escaped(bounded(now, WORDS_CHARS))}</div>'
        f'<div class="small">{under}</div>{corrected}</td>'
        f'<td data-label="Last change">{_last_change(each, base)}{checks}</td></tr>'
    )


def _last_change(each: QuestionHistory, base: str) -> str:
    row = each.last
    if row is None:
        return '<span class="small">none</span>'
    before = row["before_answer"] if row["before_status"] == "answered" else f"({row['before_status'] or 'not asked'})"
    cause = CAUSES[row["cause"] or "unknown"]
    because = f' <span class="small">{escaped(bounded(row["because"], WORDS_CHARS))}</span>' if row["because"] else ""
    return (
        f"{_link(base, each.last_night, each.last_night, each.row['query_id'])}: {escaped(CHANGES[row['change']])}, "
        f'before {escaped(bounded(before or "", WORDS_CHARS))}<br><span class="cause">{escaped(cause)}</span>{because}'
    )


def _link(base: str, night: str, words: str, query_id: str = "") -> str:
    mark = f"#q-{quote(query_id, safe='')}" if query_id else ""
    return f'<a href="{escaped(base)}{NIGHTS}/{quote(night)}/{DIFFERENCES}.html{escaped(mark)}">{escaped(words)}</a>'


_WIDE, _HIGH, _EDGE = 200, 36, 5
"""Size of a sparkline and its margin, in its own units."""


def _spark(each: QuestionHistory, base: str) -> str:
    """Return the sparkline of a question, with links to the nights in which it changed."""
    if not each.points:
        return ""
    step = (_WIDE - 2 * _EDGE) / max(len(each.points) - 1, 1)
    at = [round(_EDGE + step * number, 1) for number in range(len(each.points))]
    numbers = [point.number for point in each.points if point.number is not None]
    if numbers and (each.row["status"] != "answered" or number_of(each.row) is not None):
        marks = "".join(_line(each.points, at, min(numbers), max(numbers), each.row["query_id"], base))
        about = f"{_short(numbers[0])} to {_short(numbers[-1])}"
    else:
        size = max(2.0, min(10.0, step - 2))
        marks = "".join(
            _linked(
                point,
                each.row["query_id"],
                base,
                f'<rect class="{_kind(point)}" x="{round(x - size / 2, 1)}" y="{(_HIGH - 10) / 2}" '
                f'width="{round(size, 1)}" height="10">{_title(point)}</rect>',
            )
            for point, x in zip(each.points, at, strict=True)
        )
        about = counted(sum(point.changed for point in each.points), "change")
    label = escaped(f"{counted(len(each.points), 'night')}: {about}")
    return f'<svg class="spark" role="img" aria-label="{label}" viewBox="0 0 {_WIDE} {_HIGH}">{marks}</svg>'


def _line(
    points: Sequence[Point], at: Sequence[float], low: float, high: float, query_id: str, base: str
) -> Iterator[str]:
    def height(number: float) -> float:
        share = 0.5 if high == low else (number - low) / (high - low)
        return round(_HIGH - _EDGE - share * (_HIGH - 2 * _EDGE), 1)

    pieces_of_line: list[list[str]] = [[]]
    for point, x in zip(points, at, strict=True):
        if point.number is None:
            pieces_of_line.append([])
        else:
            pieces_of_line[-1].append(f"{x},{height(point.number)}")
    yield from (f'<polyline class="line" points="{" ".join(each)}"/>' for each in pieces_of_line if len(each) > 1)
    for place, (point, x) in enumerate(zip(points, at, strict=True)):
        y = _HIGH / 2 if point.number is None else height(point.number)
        radius = 4 if point.changed else 3 if point.number is None or place == len(points) - 1 else 1.5
        mark = f'<circle class="{_kind(point)}" cx="{x}" cy="{y}" r="{radius}">{_title(point)}</circle>'
        yield _linked(point, query_id, base, mark)


def _kind(point: Point) -> str:
    """Return the class of a mark."""
    if not point.status:
        return "gone"
    if point.changed:
        return "changed"
    return "same" if point.status == "answered" else "none"


def _title(point: Point) -> str:
    said = _short(point.number) if point.number is not None else (point.status or "not asked").replace("_", " ")
    return f"<title>{escaped(point.night)}: {escaped(said)}{', changed' if point.changed else ''}</title>"


def _linked(point: Point, query_id: str, base: str, mark: str) -> str:
    return _link(base, point.night, "", query_id).replace("</a>", f"{mark}</a>") if point.changed else mark


def _short(number: float) -> str:
    return f"{number:,.0f}" if number.is_integer() else f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.2f}"


def _dollars(usd: float) -> str:
    return f"${usd:,.4f}" if usd else "$0"
