"""Judge the answers of a sweep's cells, with a journal and ledger of the judge in the folder of each cell."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from okralong.actors.generator import StartedGenerator, generator
from okralong.lab.sweeps.budget import SharedBudget, spent_usd
from okralong.lab.sweeps.config import JudgeConfig
from okralong.lab.sweeps.gold_questions import GoldQuestion
from okralong.lab.sweeps.judge import MARKS, ToJudge, ToMark, judge, mark
from okralong.lab.sweeps.paid_calls import paid_client
from okralong.lab.sweeps.scores import JUDGED, Text
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, OverBudget, Question
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.metrics import UNANSWERABLE, best, exact_match
from okralong.pipelines.reporting.sources import spans_of
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.rows import JUDGE, table

S = TypeVar("S")
T = TypeVar("T")
Runs = Mapping[str, tuple[Path, Sequence[GoldQuestion]]]
"""The folder and gold questions of each run, by cell."""
Verdicts = Mapping[str, Mapping[str, float]]
"""Verdicts, 1 or 0, by cell and query_id."""
Marks = Mapping[str, Mapping[str, Mapping[str, float]]]
"""SARA's four marks, 0 to 1, by cell, query_id and name."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The judge's verdicts and marks, with one element for each seed."""

    verdicts: Sequence[Verdicts] = ()
    marks: Sequence[Marks] = ()

    def of(self, cell: str) -> dict[str, dict[str, list[float]]]:
        """Return the values of a cell with each seed, by query_id and name; the name of verdicts is ``judge``."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for verdicts in self.verdicts:
            for query_id, verdict in verdicts.get(cell, {}).items():
                found[query_id][JUDGED].append(verdict)
        for marks in self.marks:
            for query_id, given in marks.get(cell, {}).items():
                for name, value in given.items():
                    found[query_id][name].append(value)
        return found


def judge_sweep(said: JudgeConfig, runs: Runs, texts: Mapping[str, Text], budget: SharedBudget) -> tuple[Judged, str]:
    """Judge all cells with as many seeds as ``budget`` allows. Also return why seeds are missing, or ""."""
    config = judge_config(said)
    verdicts, paid = each_seed(partial(judge_cells, runs, config, budget), said.seeds)
    marks: list[Marks] = []
    if said.marks and paid:
        marks, paid = each_seed(partial(mark_cells, runs, texts, config, budget), said.seeds)
    if paid:
        return Judged(verdicts, marks), ""
    four = f", and the four marks of {len(marks)}" if said.marks else ""
    return Judged(verdicts, marks), (
        f"The budget of ${budget.total_usd} over the whole sweep is too small for the judge, so the tables have its "
        f"verdicts with {len(verdicts)} of {said.seeds} seeds{four}. Raise budget_usd and run the same command: "
        "finished verdicts are kept."
    )


def each_seed(ask: Callable[[int], S], seeds: int) -> tuple[list[S], bool]:
    """Return the results of ``ask`` for each seed that the budget allows, and whether these are all seeds."""
    found: list[S] = []
    for turn in range(seeds):
        try:
            found.append(ask(turn))
        except OverBudget:
            return found, False
    return found, True


def judge_config(said: JudgeConfig) -> RunConfig:
    """Load the answer config whose ``llm`` judges. Raises ConfigError if it is unusable or has the embedded model."""
    config = load_config(RunConfig, said.answer, dict(said.overrides))
    if config.llm.base_url == EMBEDDED or config.llm.mode == "batch":
        raise ConfigError(
            "judge uses the embedded model, which is too small, or batch mode, which it does not support. "
            "Set llm.base_url, llm.model and llm.mode: realtime in judge.overrides."
        )
    PriceTable.load(config.prices).price(config.llm.model, config.llm.price)
    return config


def judge_cells(runs: Runs, config: RunConfig, budget: SharedBudget, turn: int = 0) -> dict[str, dict[str, float]]:
    """Return verdicts by cell and query_id, paid out of the ``budget``.

    Answered questions that have gold answers are judged. Other finished questions get 0, or 1 if they are
    "unanswerable" and that is the gold answer. ``turn`` is added to the judge's seed (null counts as 0). Raises as
    ``judge`` does, and EndpointError if the endpoint cannot be reached.
    """

    def to_judge(_: str, question: Question, row: Mapping[str, Any]) -> ToJudge:
        return ToJudge(question.query_id, question.question, question.answers, row["answer"] or "")

    return _over_cells(runs, config, budget, turn, to_judge, judge, lambda right: right)


def mark_cells(
    runs: Runs, texts: Mapping[str, Text], config: RunConfig, budget: SharedBudget, turn: int = 0
) -> dict[str, dict[str, Mapping[str, float]]]:
    """Return SARA's four marks by cell, query_id and name, paid out of the ``budget``.

    The same questions are judged as in ``judge_cells``; those without an answer have no mark for faithfulness.
    ``texts`` has, for each cell, a function that returns the documents with the contexts. Raises as ``judge_cells``
    does.
    """

    def to_mark(cell: str, question: Question, row: Mapping[str, Any]) -> ToMark:
        context = _context(row, texts[cell])
        return ToMark(question.query_id, question.question, question.answers, row["answer"] or "", context)

    return _over_cells(runs, config, budget, turn, to_mark, mark, lambda right: dict.fromkeys(MARKS[:-1], right))


def _over_cells(
    runs: Runs,
    config: RunConfig,
    budget: SharedBudget,
    turn: int,
    to_ask: Callable[[str, Question, Mapping[str, Any]], S],
    ask: Callable[..., Awaitable[Mapping[str, T]]],
    unanswered: Callable[[float], T],
) -> dict[str, dict[str, T]]:
    """Call ``ask(asked, client, at_once, turn=...)`` for each cell; ``unanswered`` returns the value of others."""
    llm = config.llm
    llm = llm.model_copy(update={"seed": (llm.seed or 0) + turn}) if turn else llm
    found: dict[str, dict[str, T]] = {}
    with generator(llm, None) as served:
        for cell, (run, golds) in runs.items():
            asked: list[S] = []
            found[cell] = {}
            for question, row in _ends(run, golds):
                if row["status"] == "answered":
                    asked.append(to_ask(cell, question, row))
                else:
                    found[cell][question.query_id] = unanswered(_rightly_unanswered(question, row))
            found[cell] |= _asked_in(cell, run, config, served, budget, partial(ask, asked, turn=turn))
    return found


def _ends(run: Path, golds: Sequence[GoldQuestion]) -> Iterator[tuple[Question, Mapping[str, Any]]]:
    """Yield the finished questions of a run that have gold answers, with their rows."""
    columns = ["query_id", "status", "answer", "context", "citations"]
    rows = {row["query_id"]: row for row in table(Folder.of(run), "answers", columns)}
    for each in golds:
        question = each.gold.question
        row = rows.get(question.query_id)
        if row is not None and row["status"] != "over_budget" and question.answers:
            yield question, row


def _rightly_unanswered(question: Question, row: Mapping[str, Any]) -> float:
    # The answer of an unanswerable question is that word, whatever the text in its row.
    return float(row["status"] == UNANSWERABLE and best(exact_match, UNANSWERABLE, question.answers))


LONG: Final = 4000  # project default
"""In a passage of more characters than this, the judge is shown the cited places before the rest."""
AROUND: Final = 900  # project default
"""Characters shown on each side of a cited place in a long passage."""


def _context(row: Mapping[str, Any], text: Text) -> tuple[str, ...]:
    """Return the context of an answer: cited passages first (of long ones, the cited places), then the rest."""
    cited = spans_of(row["citations"])
    first: list[tuple[str, int, int]] = []
    rest: list[tuple[str, int, int]] = []
    for doc_id, start, end in spans_of(row["context"]):
        inside = [(at, to) for doc, at, to in cited if doc == doc_id and start <= at < end]
        if end - start > LONG:
            first += [(doc_id, max(start, at - AROUND), min(end, to + AROUND)) for at, to in inside]
            rest.append((doc_id, start, end))
        else:
            (first if inside else rest).append((doc_id, start, end))
    shown = (text(doc_id)[start:end].strip() for doc_id, start, end in [*first, *rest])
    return tuple(words for words in shown if words)


def _asked_in(
    cell: str,
    run: Path,
    config: RunConfig,
    served: StartedGenerator,
    budget: SharedBudget,
    ask: Callable[[LlmClient, int], Awaitable[Mapping[str, T]]],
) -> Mapping[str, T]:
    """Return the result of ``ask`` with a client whose journal and ledger are in the cell's folder."""
    folder, name = Folder.of(run / JUDGE), f"{cell}/{JUDGE}"
    budget.settle(name, spent_usd(folder))
    cap = budget.grant(name, 1)

    async def asking() -> Mapping[str, T]:
        async with paid_client(config, served, folder, cap) as (client, _):
            try:
                return await ask(client, config.concurrency)
            except ExceptionGroup as group:
                raise group.exceptions[0] from None

    try:
        return asyncio.run(asking())
    finally:
        budget.settle(name, spent_usd(folder))
