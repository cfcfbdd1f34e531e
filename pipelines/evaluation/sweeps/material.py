"""What the cells of a sweep share: a set's questions and its archive, built once, policies, and gold labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from okralong.pipelines.answering.analyzer import Labels, write_labels
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import primary_retrieval
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Analysis, NobodyAsked
from okralong.pipelines.evaluation.datasets.catalog import load_catalog
from okralong.pipelines.evaluation.datasets.pooling import Pooled, PooledQuestion
from okralong.pipelines.evaluation.evidence.bench import Bench
from okralong.pipelines.evaluation.evidence.encoder import cached_encoder
from okralong.pipelines.evaluation.evidence.gold_labels import gold_labels
from okralong.pipelines.evaluation.evidence.sets import Say, Shelf, check_types
from okralong.pipelines.evaluation.evidence.tools import BenchTools
from okralong.pipelines.evaluation.evidence.writers import GoldWriter
from okralong.pipelines.evaluation.split.split import Split
from okralong.pipelines.evaluation.sweeps.config import Sweep, SweepSet
from okralong.pipelines.evaluation.sweeps.expand import CellPlan, SweepFolder
from okralong.pipelines.evaluation.sweeps.gold_questions import write_gold_questions
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.sara.artifact import NONE

CELL_FILE = "cell.json"
"""In a cell's folder: what it is called, and where its questions lie from there."""


@dataclass(frozen=True)
class Material:
    """The sets of a sweep as questions and documents, and the shelf that indexes them."""

    shelf: Shelf
    pooled: dict[str, Pooled]


def read_material(sweep: Sweep, data: Path, work: Path, say: Say) -> Material:
    """All sets, read, split, drawn and pooled; nothing is embedded yet. Raises InputError when one cannot be had."""
    shelf = Shelf(
        catalog=load_catalog(sweep.catalog),
        split=None if sweep.side == "all" else Split.load(sweep.split),
        data=data,
        work=work,
        side=sweep.side,
        seed=sweep.seed,
        encoder=cached_encoder(work, sweep.embedding),
        say=say,
    )
    pooled = {chosen.named: shelf.pooled(chosen, sweep.every) for chosen in sweep.sets}
    gold = [variant for variant in sweep.variants.values() if variant.analyzer == "gold"]
    for chosen in sweep.sets if gold else ():
        check_types(chosen, pooled[chosen.named])
    return Material(shelf, pooled)


def build(material: Material, chosen: SweepSet, sizes: Sequence[int], embedding: str, compressor: str = NONE) -> Bench:
    """The archive of a set at all chunk sizes that its cells need, with the table of ``compressor`` (as an index config
    names it); one that is there is found again.
    """
    config = IndexConfig(granularities=list(sizes), embedding=EmbeddingConfig(model=embedding), compressor=compressor)
    return material.shelf.bench(chosen, material.pooled[chosen.named], config)


def write_cell_files(folder: SweepFolder, plans: Sequence[CellPlan], material: Material) -> None:
    """Questions, policies, and what each cell is called."""
    for chosen in {plan.named.set: plan.chosen for plan in plans}.values():
        file = folder.questions(chosen)
        write_gold_questions(Folder.of(file.parent), file.name, material.pooled[chosen.named].questions)
    for plan in plans:
        place = folder.policy(plan.named.variant)
        body = yaml.safe_dump(plan.policy.model_dump(mode="json"), sort_keys=False)
        Folder.of(place.parent).write_bytes(place.name, body.encode())
        named = {
            "cell": plan.named.cell,
            "method": plan.named.method,
            "set": plan.named.set,
            "variant": plan.named.variant,
            "seed": plan.named.seed,
            "questions": f"../../{folder.questions(plan.chosen).relative_to(folder.path)}",
        }
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
