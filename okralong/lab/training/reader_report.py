"""Compare readers (models with reader adapters) on test rows: answers, citations, refusals, form and speed.

Each reader is served and called over HTTP, as in a run. Only figures are written, since rows have texts of the sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from okralong.lab.evidence.report_files import estimate_words, write_markdown_report
from okralong.lab.evidence.writers import KeptReplies
from okralong.lab.training.asking import Serve, Speed, speed_of
from okralong.lab.training.learners.fit import Say
from okralong.lab.training.reader_marks import (
    FIGURES,
    Embed,
    Marks,
    best_sentence,
    difference,
    figure,
    mark,
    well_formed,
)
from okralong.lab.training.rows.tables import ReadingRow
from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import InputError, Message
from okralong.pipelines.llm.config import CompletionLimits, LlmConfig
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.reporting.tables import NONE, markdown_table

TRIVIAL: Final = "best sentence"
"""The name of a trivial reader, not a model, that every report has."""


class ReaderReportConfig(Settings):
    """The readers that a report compares, as in ``configs/training/reader_report.yaml``.

    ``readers`` has the readers by their names in the report: ``llm`` sections with ``base_url`` embedded, whose
    ``max_completion_tokens`` are replaced by ``limits``. They reply to ``rows`` answer rows, which are the first in the
    test side's drawn order, to ``split`` and ``step`` rows of those roles, and to ``expressions`` rows of arithmetic
    type, both for the expression and for the result. ``timed`` further answer rows are used only to measure speed. All
    readers are compared with the reader ``base``.
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
            raise ValueError(f"base: {self.base!r} is not one of the readers ({', '.join(self.readers)})")
        if TRIVIAL in self.readers:
            raise ValueError(f"readers: {TRIVIAL!r} is the trivial reader's name, which every report has")
        remote = [name for name, llm in self.readers.items() if llm.base_url != EMBEDDED]
        if remote:
            raise ValueError(f"readers.{remote[0]}.base_url: a report serves its readers itself; set it to embedded")
        return self


@dataclass
class ReaderReport:
    """The figures of a comparison of readers; mappings are by reader.

    Attributes:
        rows: The number of answer rows.
        base: The reader that the others are compared with.
        figures: Each reader's figures by name.
        by_kind: F1 by type and by set, for rows whose prompt has the evidence.
        gains: Figures minus those of ``base``.
        arithmetic: Numeric match with prompts that ask for the expression, and with prompts that ask for the result.
        formed: The share of well-formed replies and the number of replies, by role.
        speed: Seconds per answer and tokens per second.
        terms: The options of prompts: demonstrations, calculator, grammar.
    """

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
    """Call every reader with the same rows. Earlier replies are reused from ``kept``.

    Raises InputError if there are no answer rows, and what serving raises.
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
                # Speed is never measured with stored replies, and only with new prompts, which the server has not
                # cached.
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
    """Return F1 for rows whose prompt has the evidence, by type and by source."""
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
    """Write ``reader.md`` and ``reader.json``."""
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
