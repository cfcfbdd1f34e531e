"""Several readers on the same test rows: what they answer, cite and refuse, in which form, at what speed.

Each is served and asked over HTTP, as a run would ask it. Figures alone are written: the rows hold texts of the sets.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
import openai
from numpy.typing import NDArray
from pydantic import Field, model_validator

from okralong.lab.datasets.pooling import Span
from okralong.lab.evidence.writers import KeptReplies
from okralong.lab.sweeps.metrics import scores
from okralong.lab.training.learners.fit import Say
from okralong.lab.training.rows.tables import ReadingRow
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompts import UNANSWERABLE, answer_prompt, parse_answer, with_demonstration
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.types import Citation, InputError, Message, Passage, ReplyError
from okralong.pipelines.llm.config import CompletionLimits, LlmConfig
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.statistics import (
    Estimate,
    Floats,
    Resample,
    estimate,
    joined_by_documents,
    ratio,
    resample,
)
from okralong.pipelines.reporting.tables import NONE, estimate_words, markdown_table, write_markdown_report

TRIVIAL: Final = "best sentence"
"""The name of the reader that every report has, which is no model."""


class ReaderReportConfig(Settings):
    """What ``configs/training/reader_report.yaml`` may say: which readers a report compares.

    ``readers`` by the names that the report gives them, each an ``llm`` section with base_url embedded. Their
    ``max_completion_tokens`` are the report's ``limits``.

    ``rows`` answer rows are asked, the first ones of the test side's drawn order, ``split`` and ``step`` rows of those
    roles; ``expressions`` rows of arithmetic type are asked both for the expression and for the result. ``timed``
    further answer rows are for the speed alone. ``base`` names the reader against which the others are held.
    """

    readers: dict[str, LlmConfig] = Field(min_length=1)
    base: str
    rows: Annotated[int, Field(ge=1)]
    split: Annotated[int, Field(ge=0)] = 0
    step: Annotated[int, Field(ge=0)] = 0
    expressions: Annotated[int, Field(ge=0)] = 0
    timed: Annotated[int, Field(ge=1)] = 8
    limits: CompletionLimits = CompletionLimits()

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        if self.base not in self.readers:
            raise ValueError(f"base: {self.base!r} is none of the readers ({', '.join(self.readers)})")
        if TRIVIAL in self.readers:
            raise ValueError(f"readers: {TRIVIAL!r} is the trivial reader's name, which every report has")
        remote = [name for name, llm in self.readers.items() if llm.base_url != EMBEDDED]
        if remote:
            raise ValueError(f"readers.{remote[0]}.base_url: a report serves its readers itself; say embedded")
        return self


@dataclass
class ReaderReport:
    """By reader: ``figures`` by name; ``by_kind`` F1 by "type" and "set" of rows whose evidence is in view;
    ``gains`` over the base; ``arithmetic`` numeric match when asked for the expression and for the result;
    ``formed`` share of replies of the right form by role, with how many were asked; ``terms`` how it was asked."""

    rows: int
    base: str
    figures: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    by_kind: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    gains: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    arithmetic: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    formed: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict)
    speed: dict[str, Speed] = field(default_factory=dict)
    terms: dict[str, dict[str, bool]] = field(default_factory=dict)


def reader_report(
    config: ReaderReportConfig,
    test: Sequence[ReadingRow],
    serve: Serve,
    kept: KeptReplies,
    embed: Embed,
    say: Say,
) -> ReaderReport:
    """Ask every reader the same rows; what one replied before is taken from ``kept``.

    Raises InputError when there are no answer rows, and what serving raises.
    """
    asked = [row for row in test if row.role == "generate"][: config.rows]
    others = [row for role, most in (("split", config.split), ("step", config.step)) for row in _of(test, role)[:most]]
    timed = _of(test, "generate")[config.rows :][: config.timed]
    sums = [row for row in _of(test, "generate") if row.type == "arithmetic" and row.answerable][: config.expressions]
    if not asked:
        raise InputError("The test side has no answer rows. Make rows of more sets, or of sets that have a test side.")
    found = ReaderReport(len(asked), config.base)
    marks: dict[str, list[Marks]] = {TRIVIAL: [best_sentence(row, embed) for row in asked]}
    for name, llm in config.readers.items():
        with serve(llm.model_copy(update={"max_completion_tokens": config.limits})) as asker:
            calculator = bool(asker.llm.calculator)
            say(f"{name}: {len(asked)} answers, {len(others)} other replies, {2 * len(sums)} calculations")
            found.terms[name] = {
                "demonstrations": bool(asker.llm.demonstrations),
                "calculator": calculator,
                "grammar": bool(asker.llm.constrained),
            }
            ask = partial(asker.remembered, kept)
            replies = [ask("generate", _prompt(row, calculator)) for row in asked]
            other = [(row, ask(row.role, row.messages)) for row in others]
            for way in ("expression", "result") if sums else ():
                said = [ask("generate", _prompt(row, way == "expression")) for row in sums]
                found.arithmetic.setdefault(name, {})[way] = _numeric(sums, said, way == "expression")
            if timed:
                # Never from memory, and prompts that the server has not seen: its cache reads those for nothing.
                found.speed[name] = speed_of([asker.ask("generate", _prompt(row, calculator)) for row in timed])
        marks[name] = [mark(row, reply, calculator) for row, reply in zip(asked, replies, strict=True)]
        every = [*zip(asked, replies, strict=True), *other]
        found.formed[name] = _formed(every)
    for name, each in marks.items():
        found.figures[name] = {key: figure(of, asked, each) for key, of in FIGURES.items()}
        found.by_kind[name] = _by_kind(asked, each)
        if name != config.base:
            found.gains[name] = {key: difference(FIGURES[key], asked, each, marks[config.base]) for key in FIGURES}
    return found


def _of(rows: Sequence[ReadingRow], role: str) -> list[ReadingRow]:
    return [row for row in rows if row.role == role]


def _prompt(row: ReadingRow, calculator: bool) -> list[Message]:
    return answer_prompt(row.question, row.passages, calculator=calculator)


def _numbers(row: ReadingRow, marks: Marks) -> tuple[float, float]:
    return (float(bool(marks.numeric)), 1.0) if marks.numeric is not None else (0.0, 0.0)


def _numeric(rows: Sequence[ReadingRow], replies: Sequence[str], calculator: bool) -> Estimate:
    return figure(_numbers, rows, [mark(row, reply, calculator) for row, reply in zip(rows, replies, strict=True)])


def _by_kind(rows: Sequence[ReadingRow], marks: Sequence[Marks]) -> dict[str, Estimate]:
    """F1 with the evidence in view, by type and by source."""
    kinds = [*sorted({row.type for row in rows}), *sorted({row.source for row in rows})]
    f1 = FIGURES["F1, evidence in view"]
    found = {}
    for kind in kinds:
        at = [index for index, row in enumerate(rows) if kind in (row.type, row.source) and row.answerable]
        if at:
            found[f"{kind} ({len(at)})"] = figure(f1, [rows[index] for index in at], [marks[index] for index in at])
    return found


def _formed(every: Sequence[tuple[ReadingRow, str]]) -> dict[str, tuple[float, int]]:
    found = {}
    for role in dict.fromkeys(row.role for row, _ in every):
        right = [well_formed(role, reply) for row, reply in every if row.role == role]
        found[role] = (sum(right) / len(right), len(right))
    return found


def write_reader_report(folder: Path, command: str, report: ReaderReport) -> list[Path]:
    """``reader.md`` and ``reader.json``."""
    kinds = list(dict.fromkeys(kind for found in report.by_kind.values() for kind in found))
    roles = list(dict.fromkeys(role for found in report.formed.values() for role in found))
    formed = [[role, *(_share(found.get(role)) for found in report.formed.values())] for role in roles]
    speed = [
        [name, f"{each.seconds:.1f}", _rate(each.read), _rate(each.written)] for name, each in report.speed.items()
    ]
    sections = [
        "# Readers on test rows",
        f"`{command}`",
        f"{report.rows:,} answer prompts over documents of the test side, of which no reader saw one; every reader is "
        "shown the same passages. Intervals: 95 %, questions on the same documents drawn together. The sets are "
        f"subsets of the public ones. *{TRIVIAL}* is no model: the sentence of the passages whose embedding is "
        "nearest to the question's. Where the gold answer is a number, an answer that is a number within 1 % of it "
        "has F1 and EM 1. "
        "Evidence is in view when all gold pieces are, or a quarter of a summary's. A citation is right when it "
        "touches gold evidence. Readers differ in what they are shown beside the passages, too: "
        + "; ".join(f"{name}: {_terms(terms)}" for name, terms in report.terms.items())
        + ".",
        _estimates("figure", list(FIGURES), report.figures),
        f"## Gains over {report.base}, paired",
        _estimates("figure", list(FIGURES), report.gains),
        "## F1 with the evidence in view, by type and by set (rows)",
        _estimates("kind", kinds, report.by_kind),
        "## Calculations: the gold number, asked for the expression (which the executor works out) or for the result",
        _estimates("asked for", ["expression", "result"], report.arithmetic),
        "## Replies of the right form to the letter, by role (asked)",
        markdown_table(["role", *report.formed], formed),
        "## Speed on this machine, one answer after the other",
        markdown_table(["reader", "seconds an answer", "tokens/s read", "tokens/s written"], speed),
    ]
    return write_markdown_report(folder, "reader", sections, report)


def _estimates(first: str, keys: Sequence[str], found: Mapping[str, Mapping[str, Estimate]]) -> str:
    lines = ([key, *(estimate_words(each.get(key)) for each in found.values())] for key in keys)
    return markdown_table([first, *found], lines)


def _terms(terms: Mapping[str, bool]) -> str:
    return ", ".join(key if value else f"no {key}" for key, value in terms.items())


def _rate(tokens: float | None) -> str:
    return NONE if tokens is None else f"{tokens:,.0f}"


def _share(found: tuple[float, int] | None) -> str:
    return NONE if found is None else f"{found[0]:.3f} ({found[1]})"


@dataclass(frozen=True, slots=True)
class Said:
    """A reply with what it took, in seconds from sending to the last byte.

    ``read`` and ``written`` are the tokens that the server really read and wrote with the milliseconds that each took,
    as llama.cpp says; (0, 0.0) from a server that does not. Tokens found in its cache are not read.
    """

    text: str
    seconds: float
    read: tuple[int, float] = (0, 0.0)
    written: tuple[int, float] = (0, 0.0)


@dataclass(frozen=True, slots=True)
class Speed:
    """Over some replies: seconds an answer, and tokens a second while reading and while writing (None: unknown)."""

    seconds: float
    read: float | None
    written: float | None


def speed_of(replies: Sequence[Said]) -> Speed:
    """The speed of at least one reply."""

    def rate(parts: Sequence[tuple[int, float]]) -> float | None:
        spent = sum(milliseconds for _, milliseconds in parts)
        return 1000 * sum(tokens for tokens, _ in parts) / spent if spent else None

    seconds = sum(said.seconds for said in replies) / len(replies)
    return Speed(seconds, rate([said.read for said in replies]), rate([said.written for said in replies]))


@dataclass(frozen=True)
class Asker:
    """A served reader. ``llm`` is settled as for a run, ``identity`` is that of weights and engine; questions are asked
    one after the other.
    """

    llm: LlmConfig
    client: openai.OpenAI
    identity: str

    def remembered(self, kept: KeptReplies, role: str, messages: Sequence[Message]) -> str:
        """The text of ``ask``, or what the same reader replied before: a report that was killed goes on."""
        request = self._request(role, messages)
        key = hashlib.sha256(f"{self.identity}|{request.canonical()}".encode()).hexdigest()
        found = kept.get(key)
        if found is None:
            found = self.ask(role, messages).text
            kept.keep(key, found)
        return found

    def ask(self, role: str, messages: Sequence[Message]) -> Said:
        """The reply to a prompt of ``role``."""
        request = self._request(role, messages)
        started = time.perf_counter()
        reply = self.client.chat.completions.create(**request.parameters())
        seconds = time.perf_counter() - started
        read, written = _timings(reply)
        text = reply.choices[0].message.content or ""
        return Said(text, seconds, read, written)

    def _request(self, role: str, messages: Sequence[Message]) -> LlmRequest:
        return LlmRequest(
            model=self.llm.model,
            base_url=self.llm.base_url,
            messages=tuple(with_demonstration(messages, role) if self.llm.demonstrations else messages),
            max_tokens=self.llm.completion_limit(role),
            temperature=0.0,
            seed=self.llm.seed,
            grammar=grammar(role, messages) if self.llm.constrained else None,
        )


def _timings(reply: Any) -> tuple[tuple[int, float], tuple[int, float]]:
    """Tokens read and written with their milliseconds, from what llama.cpp's server adds to the protocol."""
    said = (reply.model_extra or {}).get("timings") or {}
    read = int(said.get("prompt_n", 0)), float(said.get("prompt_ms", 0.0))
    return read, (int(said.get("predicted_n", 0)), float(said.get("predicted_ms", 0.0)))


Serve = Callable[[LlmConfig], AbstractContextManager[Asker]]
"""Serves a reader as its ``llm`` section says, for as long as the context lasts."""


_EVIDENCE: Final = r'Evidence: \[\d{1,2}\] "[^"\n]+"'
_FORMS: Final = {
    "generate": re.compile(rf"(?:{_EVIDENCE}\n)*Answer: [^\n]+"),
    "step": re.compile(rf"(?:{_EVIDENCE}\n|Evidence: none\n)+Query: [^\n]+\nAnswer: [^\n]+"),
    "split": re.compile(r"[^\n]+\?(?:\n[^\n]+\?){0,3}"),
}
"""The replies that the contracts ask for, word for word; the parsers forgive much more."""


@dataclass(frozen=True, slots=True)
class Marks:
    """One answer. ``f1`` and ``exact`` are 0 to 1, ``numeric`` None where no gold answer is a number. Of an
    answer that is nothing but the right number both are 1: gold numbers are rounded as their writers liked.

    ``said_unanswerable`` is what the reply says; ``cited`` counts its citations, ``right`` those that touch gold
    evidence, ``pieces`` the gold pieces in the prompt and ``found`` those that a citation touches.
    """

    answer: str
    f1: float
    exact: float
    numeric: bool | None
    said_unanswerable: bool
    cited: int
    right: int
    pieces: int
    found: int


def mark(row: ReadingRow, reply: str, calculator: bool = True) -> Marks:
    """The marks of a reply to an answer prompt; one that holds no answer has 0 throughout.

    With ``calculator`` a formula is worked out, as the executor does where the prompt asked for one.
    """
    try:
        parsed = parse_answer(reply)
    except ReplyError:
        return mark_text(row, "")
    answer = calculate(parsed.answer) if calculator else parsed.answer
    return mark_text(row, answer, find_citations(parsed.evidence, row.passages))


def well_formed(role: str, reply: str) -> bool:
    """Whether a reply has the form that its prompt asks for, to the letter."""
    return _FORMS[role].fullmatch(reply.strip()) is not None


def mark_text(row: ReadingRow, answer: str, citations: Sequence[Citation] = ()) -> Marks:
    """The marks of an answer with its citations."""
    shown = [piece for piece in row.evidence if any(_touch(piece, each) for each in row.passages)]
    right = [each for each in citations if any(_touch(piece, each) for piece in row.evidence)]
    f1, exact, numeric = scores(answer, row.answers)
    return Marks(
        answer=answer,
        f1=f1,
        exact=exact,
        numeric=numeric,
        said_unanswerable=answer == UNANSWERABLE,
        cited=len(citations),
        right=len(right),
        pieces=len(shown),
        found=sum(any(_touch(piece, each) for each in citations) for piece in shown),
    )


def _touch(piece: Span, place: Passage | Citation) -> bool:
    """Whether a piece of evidence and a passage or citation have a character in common."""
    return piece.doc_id == place.doc_id and piece.start_char < place.end_char and piece.end_char > place.start_char


Ratio = Callable[[ReadingRow, Marks], tuple[float, float]]
"""What a row adds to a figure's numerator and denominator; (0, 0): the figure does not look at it."""


def _mean(of: Callable[[Marks], float], when: Callable[[ReadingRow], bool] = lambda row: True) -> Ratio:
    return lambda row, marks: (of(marks), 1.0) if when(row) else (0.0, 0.0)


def _refused(row: ReadingRow, marks: Marks) -> bool:
    return marks.said_unanswerable and not row.answerable


_IN_VIEW: Final[Callable[[ReadingRow], bool]] = attrgetter("answerable")

FIGURES: Final[dict[str, Ratio]] = {
    "F1": _mean(lambda marks: marks.f1),
    "EM": _mean(lambda marks: marks.exact),
    "F1, evidence in view": _mean(lambda marks: marks.f1, _IN_VIEW),
    "EM, evidence in view": _mean(lambda marks: marks.exact, _IN_VIEW),
    "citation precision": lambda row, marks: (marks.right, marks.cited) if row.answerable and row.evidence else (0, 0),
    "citation recall": lambda row, marks: (marks.found, marks.pieces) if row.answerable else (0, 0),
    "unanswerable precision": lambda row, marks: (_refused(row, marks), marks.said_unanswerable),
    "unanswerable recall": lambda row, marks: (_refused(row, marks), not row.answerable),
}
"""Each a sum over rows divided by another. Citations count where there is evidence to cite: not of answers that should
not be there, and not where the set marks none."""


def figure(of: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks]) -> Estimate:
    """A figure with its 95 % interval; not defined where no row counts."""
    return estimate(*ratio(*_sums(of, rows, marks), _drawn(rows)))


def difference(of: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks], others: Sequence[Marks]) -> Estimate:
    """How much larger the figure of ``marks`` is than that of ``others``, on the same rows and paired draws."""
    drawn = _drawn(rows)
    (mine, own), (theirs, other) = (ratio(*_sums(of, rows, each), drawn) for each in (marks, others))
    return estimate(mine - theirs, None if own is None or other is None else own - other)


def _sums(of: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks]) -> tuple[Floats, Floats]:
    pairs = np.array([of(row, each) for row, each in zip(rows, marks, strict=True)], dtype=np.float64)
    return pairs[:, 0], pairs[:, 1]


def _drawn(rows: Sequence[ReadingRow]) -> Resample | None:
    return resample(joined_by_documents([row.documents for row in rows]))


Embed = Callable[[list[str]], NDArray[np.float32]]
"""Unit vectors of some texts, (texts, dimension)."""


def best_sentence(row: ReadingRow, embed: Embed) -> Marks:
    """The marks of that sentence, cited as its own source."""
    places = [(passage, start, end) for passage in row.passages for start, end in _sentences(passage)]
    texts = [passage.text[start:end] for passage, start, end in places]
    vectors = embed([row.question, *texts])
    passage, start, end = places[int(np.argmax(vectors[1:] @ vectors[0]))]
    quote = passage.text[start:end]
    citation = Citation(passage.doc_id, passage.start_char + start, passage.start_char + end, quote)
    return mark_text(row, " ".join(quote.split()), [citation])


def _sentences(passage: Passage) -> list[tuple[int, int]]:
    ends = list(boundaries(passage.text, ()))
    spans = zip([0, *ends], ends, strict=False)
    return [(start, end) for start, end in spans if passage.text[start:end].strip()]
