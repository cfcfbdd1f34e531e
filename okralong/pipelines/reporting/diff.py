"""The differences between two runs of the same questions, as a table and as a page. No gold answers are needed.

Answers are compared by ``same_answer``, evidence by the hashes, pages and quotes of the cited documents.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from okralong.pipelines.core.schemas import DIFFERENCES, FLAT_ANSWERS
from okralong.pipelines.llm.records import NAME_CHARS, models_named
from okralong.pipelines.reporting.causes import CAUSES, AnswerSide, Cause, Replayed, causes, counted_causes
from okralong.pipelines.reporting.export import Exported
from okralong.pipelines.reporting.inert import escaped as _text
from okralong.pipelines.reporting.inert import inert_page
from okralong.pipelines.reporting.metrics import normalise, token_f1
from okralong.pipelines.reporting.rows import bounded, replied_by
from okralong.pipelines.run.corrections import correction_line
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.periods import dates

CHANGES: Final[Mapping[str, str]] = {
    "changed": "changed",
    "newly_answered": "newly answered",
    "newly_unanswerable": "newly unanswerable",
    "failed": "newly failed or over budget",
    "new_question": "new or reworded",
    "corrected": "corrected, withdrawn or reopened",
    "moved": "same answer, different evidence",
    "gone": "no longer asked",
}
"""The kinds of change, in the order in which they are shown."""
MATTERING: Final = frozenset(CHANGES) - {"corrected", "moved", "gone"}
SAME: Final = "same"
BY_PEOPLE: Final = "corrected"
"""The change of an answer of which only the correction differs."""
_NO_ANSWER: Final = ("failed", "invalid_output", "over_budget")


@dataclass(frozen=True)
class RunDiff:
    """The differences of two runs.

    Attributes:
        table: One row per question that differs, the important changes first: ``DIFFERENCES`` and carried columns.
        counts: Number of questions by change, including ``same``.
        causes: Number of differences by cause (``reporting/causes.py``).
        replied: Which models gave the answers of both runs, in words; "" if unknown.
    """

    table: pa.Table
    counts: Mapping[str, int]
    causes: Mapping[str, int]
    replied: str = ""

    @property
    def matters(self) -> bool:
        """Whether an important change occurred."""
        return any(self.counts.get(change) for change in MATTERING)

    def lines(self) -> list[str]:
        """Return a line of text for each kind of change that occurs."""
        found = [f"{self.counts[name]:,} {words}" for name, words in CHANGES.items() if self.counts.get(name)]
        rest = [f"by cause: {why}" if (why := counted_causes(self.causes)) else "", self.replied]
        return [*found, f"{self.counts.get(SAME, 0):,} unchanged", *filter(None, rest)]


def diff_runs(
    before: Exported | None, after: Exported, journals: tuple[Replayed, Replayed] | tuple[None, None] = (None, None)
) -> RunDiff:
    """Compare two runs by query_id. Without ``before`` every question is new.

    Without the ``journals`` of both runs most causes are unknown.
    """
    old, new = ({} if each is None else _sides(each) for each in (before, after))
    found = [
        (change, row)
        for query_id in sorted({*old, *new})
        for change, row in [_difference(old.get(query_id), new.get(query_id))]
    ]
    counts = Counter(change for change, _ in found)
    order = list(CHANGES)
    rows = sorted((row for change, row in found if change != SAME), key=lambda row: order.index(row["change"]))
    replayed = [row["query_id"] for row in rows if row["change"] != BY_PEOPLE]
    why = causes({each: (_rested(old, each), _rested(new, each)) for each in replayed}, *journals)
    for row in (row for row in rows if row["change"] == BY_PEOPLE):
        why[row["query_id"]] = Cause("correction", row["after_correction"] or "the correction was withdrawn")
    rows = [row | {"cause": why[row["query_id"]].name, "because": why[row["query_id"]].because} for row in rows]
    table = pa.Table.from_pylist(rows, schema=DIFFERENCES)
    for name in _carried(before, after):
        column = pa.array([row["carried"].get(name) for row in rows], pa.string())
        table = table.append_column(
            pa.field(f"carried_{name}" if name in table.column_names else name, pa.string()), column
        )
    return RunDiff(table, dict(counts), dict(Counter(each.name for each in why.values())), _replied(before, after))


def _replied(before: Exported | None, after: Exported) -> str:
    sides = {when: _models(run) for when, run in (("before", before), ("after", after)) if run is not None}
    if len(set(sides.values())) < 2:
        return f"answered by {named}" if (named := _models(after)) else ""
    return "answered " + ", ".join(f"{when} by {named or 'nothing'}" for when, named in sides.items())


def _models(run: Exported) -> str:
    counts = replied_by(run.answers.select(["replied_by"]).to_pylist())
    return models_named(f"{bounded(name, NAME_CHARS)} ({count:,})" for name, count in counts)


@dataclass(frozen=True)
class _Side:
    row: Mapping[str, Any]
    citations: Sequence[Mapping[str, Any]]

    @property
    def evidence(self) -> dict[str, frozenset[Any]]:
        """The evidence of the answer by aspect: document, page and quote."""
        known = all(each["quote"] is not None for each in self.citations)
        places = [(each["doc_id"], each["section"]) for each in self.citations]
        words = [
            normalise(each["quote"]) if known else (each["start_char"], each["end_char"]) for each in self.citations
        ]
        return {
            "document": frozenset((each["doc_id"], each["document_sha256"]) for each in self.citations),
            "page": frozenset(places),
            "quote": frozenset(words),
        }

    def cells(self, when: str) -> dict[str, Any]:
        """Return the columns of one side of a difference."""
        sources = dict.fromkeys(
            f"{each['doc_id']}{', ' + each['section'] if each['section'] else ''}" for each in self.citations
        )
        named = {
            name: self.row[name] for name in ("answer", "status", "number", "quote", "link", "night", "replied_by")
        }
        more = {"source": "; ".join(sources), "correction": correction_line(self.row) or None}
        return {f"{when}_{name}": value for name, value in (named | more).items()}


def _sides(run: Exported) -> dict[str, _Side]:
    citations: dict[str, list[dict[str, Any]]] = {}
    for row in run.citations.to_pylist():
        citations.setdefault(row["query_id"], []).append(row)
    return {row["query_id"]: _Side(row, citations.get(row["query_id"], [])) for row in run.answers.to_pylist()}


def _rested(sides: Mapping[str, _Side], query_id: str) -> AnswerSide | None:
    side = sides.get(query_id)
    hashes = {} if side is None else {each["doc_id"]: each["document_sha256"] for each in side.citations}
    return None if side is None else AnswerSide(side.row, hashes)


def _difference(old: _Side | None, new: _Side | None) -> tuple[str, dict[str, Any]]:
    change, what = _change(old, new)
    if old and new and correction_line(old.row) != correction_line(new.row):
        change, what = BY_PEOPLE if change == SAME else change, [*what, "correction"]
    shown = new or old
    assert shown is not None
    answers = [each.row["answer"] for each in (old, new) if each is not None and each.row["status"] == "answered"]
    row = {
        "query_id": shown.row["query_id"],
        "question": shown.row["question"],
        "change": change,
        "matters": change in MATTERING,
        "what": ", ".join(what),
        **(old.cells("before") if old else {}),
        **(new.cells("after") if new else {}),
        "similarity": token_f1(*answers) if len(answers) == 2 else None,
        "error": new.row["error"] if new else None,
        "carried": {name: shown.row[name] for name in list(shown.row) if name not in FLAT_ANSWERS.names},
    }
    return change, row


def _change(old: _Side | None, new: _Side | None) -> tuple[str, list[str]]:
    """Return the kind of change and the aspects that differ."""
    if new is None:
        return "gone", []
    if old is None:
        return "new_question", []
    if normalise(old.row["question"]) != normalise(new.row["question"]):
        return "new_question", ["question"]
    before, after = old.row["status"], new.row["status"]
    if after in _NO_ANSWER:
        return (SAME if before in _NO_ANSWER else "failed"), []
    if before != after:
        return ("newly_answered" if after == "answered" else "newly_unanswerable"), []
    if after != "answered":
        return SAME, []
    held = old.evidence
    moved = [name for name, found in new.evidence.items() if found != held[name]]
    if not same_answer(old.row["answer"], new.row["answer"], new.row["question"]):
        return "changed", ["answer", *moved]
    return ("moved" if moved else SAME), moved


def _carried(before: Exported | None, after: Exported) -> list[str]:
    names = [*after.answers.column_names, *(before.answers.column_names if before else ())]
    return [name for name in dict.fromkeys(names) if name not in FLAT_ANSWERS.names]


# --------
# The differences as a self-contained page without scripts, which cannot load or run anything.

MOST_ON_PAGE: Final = 2_000  # project default
"""Maximum number of differences on the page; the table has all."""
WORDS_CHARS: Final = 1_500  # project default
"""Maximum length of an answer or quote on the page."""
_STYLE: Final = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--old:#c0392b;--new:#1e8449}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.facts{opacity:.75}.counts{display:flex;flex-wrap:wrap;gap:.75rem;padding:0;list-style:none}
.counts li{border:1px solid var(--line);border-radius:.5rem;padding:.4rem .8rem}.counts b{font-size:1.2rem}
article{border:1px solid var(--line);border-radius:.5rem;padding:.6rem 1rem;margin:.75rem 0;overflow-wrap:anywhere}
article h3{font-size:1rem;margin:0 0 .4rem}article h3 code{font-weight:normal;opacity:.75;margin-right:.5rem}
.sides{display:grid;grid-template-columns:1fr 1fr;gap:1rem}@media(max-width:45rem){.sides{grid-template-columns:1fr}}
.sides h4{margin:0;font-size:.8rem;opacity:.75;font-weight:normal}.sides p{margin:.2rem 0;white-space:pre-wrap}
blockquote{margin:.4rem 0;padding:.2rem .6rem;border-left:3px solid var(--line);background:var(--soft)}
blockquote{white-space:pre-wrap}
del{color:var(--old)}ins{color:var(--new);text-decoration:none;font-weight:600}.what{opacity:.75;margin:.2rem 0}
"""


def diff_page(diff: RunDiff, title: str, facts: Sequence[str]) -> bytes:
    """Return the page in UTF-8. ``facts`` are shown below the title."""
    return inert_page(title, _STYLE, _body(diff, title, facts))


def _body(diff: RunDiff, title: str, facts: Sequence[str]) -> Iterator[str]:
    facts = [*facts, *([diff.replied] if diff.replied else [])]
    yield f"<h1>{_text(title)}</h1>" + "".join(f'<p class="facts">{_text(each)}</p>' for each in facts)
    yield '<ul class="counts">'
    for name, words in {**CHANGES, SAME: "unchanged"}.items():
        if count := diff.counts.get(name):
            yield f"<li><b>{count:,}</b> {words}</li>"
    yield "</ul>"
    if diff.causes:
        yield '<ul class="counts causes"><li>by cause</li>'
        for name, words in CAUSES.items():
            if count := diff.causes.get(name):
                yield f"<li><b>{count:,}</b> {words}</li>"
        yield "</ul>"
    if not diff.table.num_rows:
        yield "<p>Nothing changed.</p>"
    heading = ""
    for row in diff.table.slice(0, MOST_ON_PAGE).to_pylist():
        if row["change"] != heading:
            heading = row["change"]
            yield f'<h2 id="{heading}">{_text(CHANGES[heading].capitalize())}</h2>'
        yield _article(row)
    if (more := diff.table.num_rows - MOST_ON_PAGE) > 0:
        yield f"<p>{more:,} more are in the table.</p>"


def _article(row: Mapping[str, Any]) -> str:
    before, after = (bounded(row[f"{when}_answer"] or "", WORDS_CHARS) for when in ("before", "after"))
    marked = _marked(before, after) if row["change"] == "changed" else (_text(before), _text(after))
    sides = "".join(
        _side(when, words, row)
        for when, words in zip(("before", "after"), marked, strict=True)
        if row[f"{when}_status"]
    )
    what = f'<p class="what">changed: {_text(row["what"])}</p>' if row["what"] else ""
    why = f'<p class="what">cause: {_text(CAUSES[row["cause"]])} ({_text(bounded(row["because"], 300))})</p>'
    error = f'<p class="what">{_text(bounded(row["error"], WORDS_CHARS))}</p>' if row["error"] else ""
    name = _text(row["query_id"])
    return (
        f'<article id="q-{name}"><h3><code>{name}</code>{_text(bounded(row["question"], WORDS_CHARS))}</h3>'
        f'{what}{why}{error}<div class="sides">{sides}</div></article>'
    )


def _side(when: str, words: str, row: Mapping[str, Any]) -> str:
    night = f", night {_text(row[f'{when}_night'])}" if row[f"{when}_night"] else ""
    by = f", by {_text(bounded(row[f'{when}_replied_by'], NAME_CHARS))}" if row[f"{when}_replied_by"] else ""
    status = row[f"{when}_status"]
    said = words if status == "answered" else f"({_text(status)})"
    source, link = _text(bounded(row[f"{when}_source"] or "", 300)), row[f"{when}_link"] or ""
    if source and link.startswith(("http://", "https://", "file://")):
        source = f'<a rel="noreferrer noopener" href="{_text(link)}">{source}</a>'
    quote = (
        f"<blockquote>{_text(bounded(row[f'{when}_quote'], WORDS_CHARS))}</blockquote>" if row[f"{when}_quote"] else ""
    )
    corrected = (
        f'<p class="what">{_text(bounded(told, WORDS_CHARS))}</p>' if (told := row[f"{when}_correction"]) else ""
    )
    return f"<div><h4>{when}{night}{by}</h4><p>{said}</p>{corrected}{quote}<p>{source}</p></div>"


def _marked(before: str, after: str) -> tuple[str, str]:
    """Return both answers as HTML with their differing words marked."""
    old, new = before.split(), after.split()
    left, right = [], []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = _text(" ".join(old[a:b])), _text(" ".join(new[c:d]))
        left += [gone if what == "equal" else f"<del>{gone}</del>"] if gone else []
        right += [come if what == "equal" else f"<ins>{come}</ins>"] if come else []
    return " ".join(left), " ".join(right)


# Equality of answers. Numbers and dates are compared by value with unit and scale, other words after normalization:
# "$1.2 billion" equals "1,200 million dollars", and "3 March 2023" equals "2023-03-03". Nothing is rounded.


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a date in an answer. ``unit`` is a currency ("USD"), "%", "date", or ""."""

    amount: Decimal | date
    unit: str = ""

    def agrees(self, other: Value) -> bool:
        """Return whether both are equal. Only one may name the currency, which the question may have stated."""
        said = self.unit or other.unit
        units = self.unit == other.unit or ("" in (self.unit, other.unit) and said not in ("%", "date"))
        return units and self.amount == other.amount


def same_answer(before: str, after: str, question: str = "") -> bool:
    """Return whether two answers to the ``question`` mean the same.

    Words must agree one by one, ignoring filler words ("it is", "the"). If the answers have a single value, the
    question's words are ignored too: asked for revenue, "Revenue was $5 million" equals "$5 million". Negations always
    count.
    """
    first, second = pieces(before), pieces(after)
    numbers, others = ([each for each in found if isinstance(each, Value)] for found in (first, second))
    if len(numbers) != len(others) or not all(map(Value.agrees, numbers, others)):
        return False
    if len(numbers) == 1:
        free = _FRAME | (set(normalise(question).split()) - _DENYING)
        words, found = ({each for each in said if isinstance(each, str)} - free for said in (first, second))
        return words == found
    return _shape(first) == _shape(second)


def pieces(text: str) -> list[str | Value]:
    """Return the normalized words and the values of an answer in order."""
    days = [(span, Value(date.fromisoformat(day), "date")) for span, day in dates(text) if len(day) == _DAY]
    numbers = [
        ((each.start, each.end), Value((each.digits * each.factor).normalize(), each.unit or each.currency))
        for each in amounts(text)
        if not any(start < each.end and each.start < end for (start, end), _ in days)
    ]
    found: list[str | Value] = []
    at = 0
    for (start, end), value in sorted([*days, *numbers], key=lambda each: each[0]):
        found += [*normalise(text[at:start]).split(), value]
        at = end
    return [*found, *normalise(text[at:]).split()]


_DAY: Final = len("2023-06-30")


def _shape(said: list[str | Value]) -> list[str]:
    """Return the words in order with a placeholder for each value."""
    return ["#" if isinstance(each, Value) else each for each in said if each not in _FRAME]


_FRAME: Final = frozenset(
    ("it", "its", "is", "was", "are", "were", "be", "been", "that", "this", "there", "of", "in", "at", "for", "answer")
)
"""Filler words that are ignored in comparisons."""
_DENYING: Final = frozenset(
    ("no", "not", "never", "none", "neither", "nor", "without", "isnt", "wasnt", "didnt", "doesnt")
)
