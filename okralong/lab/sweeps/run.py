"""What a sweep is run with: its sets as questions and archives, one budget for all cells, the scores of a cell, and
what it may cost.

A set's questions lie in a file that ``okralong answer`` asks and that scoring reads. Beside the columns of a questions
file a row has ``dataset``, ``parts`` (what answer recall looks for) and ``documents`` (the sources that the question is
about, which are drawn together). A plain questions file will do: its parts are then its answers, its documents the
``doc_ids``. ``evidence`` are ranges, "doc_id:start:end"; anything else there is not known by its place, and no recall
of it is measured.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from threading import Lock
from typing import Any, Final

import yaml

from okralong.lab.datasets.answers import one_part
from okralong.lab.datasets.base import Item
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.datasets.gold import Gold, Parts
from okralong.lab.datasets.pooling import Pooled, PooledQuestion, Span
from okralong.lab.datasets.split import Split
from okralong.lab.evidence.bench import Bench, BenchTools, gold_labels, measure
from okralong.lab.evidence.sets import DataSetStore, Say, check_types
from okralong.lab.evidence.writers import GoldWriter
from okralong.lab.sweeps.config import (
    CellName,
    CellPlan,
    CompressedBy,
    Sweep,
    SweepFolder,
    SweepSet,
)
from okralong.lab.sweeps.judge import MARKS
from okralong.lab.sweeps.metrics import citation_precision
from okralong.pipelines.answering.analyzers.analyzer import Labels, write_labels
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import primary_retrieval
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import Analysis, InputError, MetricError, NobodyAsked, Passage
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.llm.bill import ARTIFACT, COLUMNS, bill
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import USED
from okralong.pipelines.llm.replay import calls_begun
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.metrics import Typed, answer_marks
from okralong.pipelines.reporting.sources import evidence_span, spans_of
from okralong.pipelines.reporting.statistics import joined_by_documents
from okralong.pipelines.run.questions import question_row, read_questions
from okralong.pipelines.run.rows import artifacts_taken
from okralong.pipelines.sara.config import NONE

CELL_FILE = "cell.json"
"""In a cell's folder: what it is called, and where its questions lie from there."""


@dataclass(frozen=True)
class Material:
    """The sets of a sweep as questions and documents, and the store that indexes them."""

    store: DataSetStore
    pooled: dict[str, Pooled]


def read_material(sweep: Sweep, data: Path, work: Path, say: Say) -> Material:
    """All sets, read, split, drawn and pooled; nothing is embedded yet. Raises InputError when one cannot be had."""
    store = DataSetStore(
        catalog=load_catalog(sweep.catalog),
        split=None if sweep.side == "all" else Split.load(sweep.split),
        data=data,
        work=work,
        side=sweep.side,
        seed=sweep.seed,
        encoder=cached_encoder(work, sweep.embedding),
        say=say,
    )
    pooled = {chosen.named: store.pooled(chosen, sweep.every) for chosen in sweep.sets}
    gold = [variant for variant in sweep.variants.values() if variant.analyzer == "gold"]
    for chosen in sweep.sets if gold else ():
        check_types(chosen, pooled[chosen.named])
    return Material(store, pooled)


def build(
    material: Material,
    chosen: SweepSet,
    sizes: Sequence[int],
    embedding: str,
    table: CompressedBy = (NONE, EMBEDDED),
) -> Bench:
    """The archive of a set at all chunk sizes that its cells need, with its table of compressed chunks; one that is
    there is found again.
    """
    compressor, generator = table
    config = IndexConfig(
        granularities=list(sizes),
        embedding=EmbeddingConfig(of="each", model=embedding),
        compressor=compressor,
        generator=generator,
    )
    return material.store.bench(chosen, material.pooled[chosen.named], config)


def write_cell_files(folder: SweepFolder, plans: Sequence[CellPlan], material: Material) -> None:
    """Questions, policies, and what each cell is called."""
    for chosen in {plan.named.set: plan.chosen for plan in plans}.values():
        file = folder.questions(chosen)
        write_gold_questions(Folder.of(file.parent), file.name, material.pooled[chosen.named].questions)
    for plan in plans:
        place = folder.policy(plan.named.variant)
        body = yaml.safe_dump(plan.policy.model_dump(mode="json"), sort_keys=False)
        Folder.of(place.parent).write_bytes(place.name, body.encode())
        questions = f"../../{folder.questions(plan.chosen).relative_to(folder.path)}"
        named = {**asdict(plan.named), "questions": questions}
        Folder.of(folder.cell(plan.named.cell)).write_bytes(CELL_FILE, json.dumps(named, indent=1).encode())


async def write_gold_labels(file: Path, bench: Bench, policy: Policy) -> None:
    """The gold labels of a set's questions, with the chunks that primary retrieval finds under ``policy``.

    They are the bench's: the set's own type, and pattern and evidence as our retrievers make them of what is marked.
    """
    rows = [(q.item.gold.question.query_id, await _labels(bench, policy, q)) for q in bench.pooled.questions]
    write_labels(file, rows)


async def _labels(bench: Bench, policy: Policy, question: PooledQuestion) -> Labels:
    tools = BenchTools(bench.retrievals, policy, question.doc_ids, (), _nobody, GoldWriter())
    asked = question.item.gold.question
    chunks, _ = await primary_retrieval(tools, "primary/retrieve", asked.question)
    found = await gold_labels(bench.retrievals, bench.texts, question, policy.primary.granularity, chunks)
    pattern, evidence = found or ("same", False)
    return asked.type, pattern, evidence


async def _nobody(*_: object) -> Analysis:
    raise NobodyAsked("Gold labels are made without an analyzer.")


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with its gold. ``cluster`` is one name for all questions of the file that a chain of shared documents
    joins."""

    gold: Gold
    evidence: tuple[Span, ...]
    cluster: str


def write_gold_questions(folder: Folder, name: str, questions: Iterable[PooledQuestion]) -> None:
    """Write the file ``name`` in ``folder``, asked of the documents that the questions were pooled into."""
    rows = []
    for each in questions:
        spans = tuple(f"{span.doc_id}:{span.start_char}:{span.end_char}" for span in each.evidence)
        gold = each.item.gold
        asked = replace(gold.question, doc_ids=each.doc_ids, evidence=spans)
        known = {"dataset": gold.dataset, "parts": gold.parts, "documents": each.item.documents or each.doc_ids}
        rows.append(json.dumps({**question_row(asked), **known}, ensure_ascii=False) + "\n")
    folder.write_bytes(name, "".join(rows).encode())


def read_gold_questions(path: str | Path) -> list[GoldQuestion]:
    """The questions of such a file, or of a plain questions file, in its order.

    Raises InputError for a file that cannot be read, for a row that cannot be asked, and for one whose gold is none.
    """
    questions, bad = read_questions(path, strict=False)
    if bad:
        raise InputError(f"{bad[0].message} Scores need every question of the file.")
    extra = _extra_columns(path)
    golds, documents, places = [], [], []
    for question in questions:
        more = extra.get(question.query_id, {})
        try:
            parts: Parts = (
                tuple(tuple(map(str, _listed(part))) for part in _listed(more["parts"]))
                if "parts" in more
                else one_part(question.answers)
            )
            named = _listed(more.get("documents") or question.doc_ids)
            about = tuple(map(str, named)) or (f"{path}#{question.query_id}",)
        except TypeError as error:
            raise InputError(
                f"{path}: the question {question.query_id!r} has no gold that can be read: {error}. `parts` is a list "
                "of lists of wordings, `documents` a list of names. Correct the row, or leave both columns out."
            ) from error
        golds.append(Gold(question, str(more.get("dataset", "")), parts=parts))
        documents.append(about)
        places.append(_places(question.evidence))
    clusters = joined_by_documents(documents)
    return [GoldQuestion(*row) for row in zip(golds, places, clusters, strict=True)]


def _listed(value: Any) -> Sequence[Any]:
    """The value, a list. Raises TypeError for any other: of a text the letters would be taken one by one."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{value!r} is no list")
    return value


def _extra_columns(path: str | Path) -> Mapping[str, Mapping[str, Any]]:
    """What a jsonl file says beside the columns of a questions file; other kinds of file have no such columns."""
    if Path(path).suffix.lower() not in (".jsonl", ".ndjson"):
        return {}
    where = Folder.of(Path(path).parent)
    lines = where.read_bytes(Path(path).name).decode("utf-8-sig").split("\n")
    rows = (json.loads(line) for line in lines if line.strip())
    return {str(row["query_id"]): row for row in rows if row.get("query_id") not in (None, "")}


def _places(evidence: Sequence[str]) -> tuple[Span, ...]:
    """The ranges; none at all when one of them is no range, so that no recall is of half of the evidence."""
    found = [span for each in evidence if (span := evidence_span(each)) is not None]
    return tuple(Span(*span) for span in found) if len(found) == len(evidence) else ()


# --------
# One budget for many cells: what a cell may spend is taken out before it begins, and its rest put back after it.

HELD: Final = ("ok", "unknown")
"""Statuses of attempts that cost something, or may have."""


@dataclass
class SharedBudget:
    """``total_usd`` for all cells, None without a cap; ``spent`` is what each has cost before.

    The grants of cells that run and what all others have spent never pass the total together. Safe between threads.
    """

    total_usd: float | None
    spent: dict[str, float]
    _granted: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def free_usd(self) -> float | None:
        """What is neither spent nor granted."""
        if self.total_usd is None:
            return None
        idle = sum(usd for cell, usd in self.spent.items() if cell not in self._granted)
        return max(0.0, self.total_usd - idle - sum(self._granted.values()))

    def grant(self, cell: str, sharers: int) -> float | None:
        """The cap of a cell, with what it has spent before: an even share of what is free for the ``sharers``, the cell
        itself among them, that may be waiting for some. None without a cap."""
        with self._lock:
            free = self.free_usd
            if free is None:
                return None
            self._granted[cell] = self.spent.get(cell, 0.0) + free / max(1, sharers)
            return self._granted[cell]

    def settle(self, cell: str, spent_usd: float) -> None:
        """A cell has ended and has cost so much in all: the rest of its grant is free again."""
        with self._lock:
            self._granted.pop(cell, None)
            self.spent[cell] = spent_usd


def spent_usd(run: Folder) -> float:
    """What a run folder counts against its cap: what was billed, and the reserves of attempts of unknown end.

    A process that was killed left attempts without a ledger row, which the run's next process writes: they count here
    already, since other cells may be given the rest before.
    """
    rows = read_run_table(run, "ledger", ["call_id", "attempt", "status", "cost_usd"]).to_pylist()
    settled = {(row["call_id"], row["attempt"]) for row in rows}
    owed = {} if run.exists(MANIFEST) else calls_begun(run)
    counted = [row for row in rows if row["status"] in HELD]
    counted += [call for key, call in owed.items() if key not in settled and call["status"] in HELD]
    return math.fsum(row["cost_usd"] or 0.0 for row in counted)


def spent_before(folders: Mapping[str, Folder]) -> dict[str, float]:
    """By cell: what its folder holds already."""
    return {cell: spent_usd(folder) for cell, folder in folders.items()}


# --------
# From a run folder and the gold of its questions to rows of the table ``scores``. An error in a metric is raised.

Text = Callable[[str], str]
"""The text of a document of the archive by its doc_id."""

JUDGED: Final = "judge"
"""The column of the judge's verdict, and the beginning of those of its marks."""
ANALYSIS: Final = frozenset({"analyze"})
RETRIEVAL: Final = frozenset({"retrieve", "select"})
TOTAL: Final = "total"
"""Stages of ``answers.seconds``; any other stage is a role of the generator. Branches run beside each other, so stages
may add up to more than the total."""


def score_rows(
    run: Folder,
    named: CellName,
    golds: Sequence[GoldQuestion],
    text: Text,
    judged: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
) -> list[dict[str, Any]]:
    """A row for each question that the run has finished, in the order of ``golds``.

    ``judged`` is what the judge said with each seed, by query_id: its verdicts as ``judge``, and its four marks by
    their names; a row has the means. Raises InputError when the run was asked
    other words under one of the query_ids, MetricError when a metric cannot be worked out.
    """
    answers = {row["query_id"]: row for row in read_run_table(run, "answers").to_pylist()}
    attempts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_run_table(run, "ledger", ["query_id", *COLUMNS]).to_pylist():
        attempts[row["query_id"]].append(row)
    rows: list[dict[str, Any]] = []
    for gold in golds:
        asked = gold.gold.question
        row = answers.get(asked.query_id)
        if row is None:
            continue
        if row["question"].strip() != asked.question.strip():
            raise InputError(
                f"{run.path} was asked other words under the query_id {asked.query_id!r} than the gold questions have. "
                "Score it with the questions file that it was asked."
            )
        try:
            said = _said((judged or {}).get(asked.query_id, {}))
            rows.append(_row(named, gold, row, attempts[asked.query_id], text, said))
        except Exception as error:
            raise MetricError(
                f"The question {asked.query_id!r} of {run.path} cannot be scored: {type(error).__name__}: {error}. No "
                "table was written, since a score that is left out would make the others wrong."
            ) from error
    return rows


def _said(by_seed: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The judge's columns of a row: means over seeds, and of several seeds what each said."""
    names = {JUDGED: by_seed.get(JUDGED), **{f"{JUDGED}_{name}": by_seed.get(name) for name in MARKS}}
    several = {name: list(values) for name, values in names.items() if values is not None and len(values) > 1}
    means = {name: fmean(values) if values else None for name, values in names.items()}
    return {**means, "judge_seeds": sorted(several.items()) or None}


def _row(
    named: CellName,
    gold: GoldQuestion,
    row: Mapping[str, Any],
    attempts: Sequence[Mapping[str, Any]],
    text: Text,
    judged: Mapping[str, Any],
) -> dict[str, Any]:
    question = gold.gold.question
    marks = answer_marks(gold.gold.dataset, row["status"], row["answer"] or "", question.answers, Typed.of(row))
    billed = bill(attempts)
    return {
        **asdict(named),
        "query_id": question.query_id,
        "cluster": f"{named.set}: {gold.cluster}",
        "type": question.type,
        "status": row["status"],
        "replied_by": row["replied_by"],
        **asdict(marks),
        **judged,
        **_shown(gold, row, text),
        "prompt_tokens": row["prompt_tokens"] or 0,
        "completion_tokens": row["completion_tokens"] or 0,
        "weighted_tokens": row["weighted_tokens"] or 0,
        "billed_usd": billed.billed_usd,
        "alone_usd": billed.alone_usd,
        **_seconds(dict(row["seconds"] or ()), any(attempt["status"] == "cached" for attempt in attempts)),
    }


def indexing_row(run: Folder, named: CellName) -> dict[str, Any] | None:
    """What a cell's method had written once for all its questions (RAPTOR's trees, GraphRAG's graphs), from the ledger;
    None where it had nothing written.

    ``artifacts`` are how many such things, those that the archive had among them, ``alone_usd`` what they cost if no
    reply came from another run and nothing from the archive. It stands in no question's row.
    """
    ledger = read_run_table(run, "ledger", COLUMNS).to_pylist()
    made = [row for row in ledger if row["query_id"].startswith(ARTIFACT) and row["status"] in USED]
    taken, _ = artifacts_taken(run)
    if not made and not taken:
        return None
    held = [each.expense for each in taken]
    return {
        **asdict(named),
        "artifacts": len({row["query_id"] for row in made} | {each.query_id for each in taken}),
        "calls": len(made) + sum(each.calls for each in held),
        "prompt_tokens": sum(row["prompt_tokens"] for row in made) + sum(each.prompt_tokens for each in held),
        "completion_tokens": sum(row["completion_tokens"] for row in made)
        + sum(each.completion_tokens for each in held),
        "alone_usd": bill(made).alone_usd + math.fsum(each.cost_usd for each in held),
    }


def _seconds(spent: Mapping[str, float], shared: bool) -> dict[str, float | None]:
    """By stage and in all. Of a question that another run's reply spared a wait nobody knows how long it takes."""
    rest = spent.keys() - ANALYSIS - RETRIEVAL - {TOTAL}
    stages = {"analysis": ANALYSIS, "retrieval": RETRIEVAL, "generation": rest, "total": {TOTAL}}
    return {
        f"seconds_{name}": None if shared else math.fsum(spent.get(stage, 0.0) for stage in held)
        for name, held in stages.items()
    }


def _shown(gold: GoldQuestion, row: Mapping[str, Any], text: Text) -> dict[str, float | None]:
    """Recalls of the context and the precision of citations; of a question that was not asked none is known."""
    if row["status"] == "over_budget":
        return dict.fromkeys(("answer_recall", "evidence_recall", "citation_precision"))
    context, citations = ([Span(*span) for span in spans_of(row[name])] for name in ("context", "citations"))
    texts = {span.doc_id: text(span.doc_id) for span in (*context, *citations, *gold.evidence)}
    passages = [
        Passage(s.doc_id, s.start_char, s.end_char, texts[s.doc_id][s.start_char : s.end_char], 0, 0.0) for s in context
    ]
    asked = PooledQuestion(Item(gold.gold, ()), (), gold.evidence, ())
    shown = measure(asked, passages, texts)
    return {
        "answer_recall": shown.answer_recall,
        "evidence_recall": shown.evidence_recall,
        "citation_precision": citation_precision(citations, gold.evidence, texts),
    }


# What a sweep may cost, before anything is indexed: from the sizes of policies and documents, and assumed replies.
