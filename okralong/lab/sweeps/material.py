"""Prepare the inputs of a sweep's cells: questions, archives and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import yaml

from okralong.lab.datasets.pooling import PooledQuestion
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.sets import Material, Say
from okralong.lab.evidence.tools import BenchTools, gold_labels
from okralong.lab.evidence.writers import GoldWriter
from okralong.lab.sweeps.config import CellPlan, CompressedBy, Sweep, SweepFolder, SweepSet
from okralong.lab.sweeps.gold_questions import write_gold_questions
from okralong.pipelines.answering.analyzers.analyzer import Labels
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import primary_retrieval
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Analysis, NobodyAsked
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.sara.config import NONE

CELL_FILE = "cell.json"
"""The file in a cell's folder with the cell's names and the relative path of its questions."""


def read_material(sweep: Sweep, data: Path, work: Path, say: Say) -> Material:
    """Read, split, draw and pool all sets, without embedding. Raises InputError if one cannot be read."""
    gold = any(variant.analyzer == "gold" for variant in sweep.variants.values())
    return Material.read(
        sweep,
        sweep.sets,
        sweep.side,
        data,
        work,
        say,
        embedding=sweep.embedding,
        every=sweep.every,
        gold_types=gold,
    )


def build(
    material: Material,
    chosen: SweepSet,
    sizes: Sequence[int],
    embedding: str,
    table: CompressedBy = (NONE, EMBEDDED),
) -> Bench:
    """Return the archive of a set, with all chunk sizes of its cells and its table of compressed chunks.

    An existing archive is reused.
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
    """Write the files of questions and policies, and the file with the names of each cell."""
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
    """Write the gold labels of a set's questions, for the chunks of primary retrieval under ``policy``.

    They are the labels of the bench: the set's own type, and pattern and evidence from retrieval and the marked
    evidence.
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


def write_labels(path: Path, labels: Iterable[tuple[str, Labels]]) -> None:
    """Write a file that ``GivenLabels.load`` reads."""
    rows = (
        {"query_id": query_id, "type": kind, "pattern": pattern, "evidence": evidence}
        for query_id, (kind, pattern, evidence) in labels
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
