"""Several readers on the same test rows: what they answer, cite and refuse, in which form, at what speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.core.types import InputError, Message
from okralong.pipelines.evaluation.evidence.model_writer import KeptReplies
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.reader.asking import Asker, Speed, speed_of
from okralong.pipelines.reader.figures import FIGURES, difference, figure
from okralong.pipelines.reader.marks import Marks, mark, well_formed
from okralong.pipelines.reader.report_config import TRIVIAL, ReaderReportConfig
from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.reader.sentence import Embed, best_sentence
from okralong.pipelines.reporting.statistics import Estimate

Serve = Callable[[LlmConfig], AbstractContextManager[Asker]]
Say = Callable[[str], None]


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
        found.figures[name] = {key: figure(ratio, asked, each) for key, ratio in FIGURES.items()}
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
    ratio = FIGURES["F1, evidence in view"]
    found = {}
    for kind in kinds:
        at = [index for index, row in enumerate(rows) if kind in (row.type, row.source) and row.answerable]
        if at:
            found[f"{kind} ({len(at)})"] = figure(ratio, [rows[index] for index in at], [marks[index] for index in at])
    return found


def _formed(every: Sequence[tuple[ReadingRow, str]]) -> dict[str, tuple[float, int]]:
    found = {}
    for role in dict.fromkeys(row.role for row, _ in every):
        right = [well_formed(role, reply) for row, reply in every if row.role == role]
        found[role] = (sum(right) / len(right), len(right))
    return found
