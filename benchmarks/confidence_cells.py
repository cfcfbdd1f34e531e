"""Ask documents for amounts that code finds, as runs that `okralong calibrate` reads: cells, statements, calculations.

    python -m benchmarks.confidence_cells DATA --out cells [--sides tune validation train]

Few questions of a run are answered in this way, and each costs nothing but one reading of the cross-encoder. Every
question of TAT-QA and FinQA whose gold answer is an amount is asked of its document, and a quarter of them of another
document, where only a refusal is right. Primary retrieval and analysis are left out, so their signals are not known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from okralong.lab.datasets.base import DataSet, Item
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.registry import read_dataset
from okralong.lab.datasets.split import Side, Split
from okralong.lab.sweeps.material import CELL_FILE
from okralong.pipelines.answering.answer_types import value_read
from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.confidence import with_confidence
from okralong.pipelines.answering.confidence_model import ConfidenceModel
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.readers.calculation import Calculation
from okralong.pipelines.answering.readers.statement import Statement
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Answer, Document, Plan, Question, Reading
from okralong.pipelines.llm.journal import RunLog
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.reporting.metrics import gold_quantity
from okralong.pipelines.run.rows import BEGUN, answer_row

SETS: Final = (("tatqa", "dev"), ("finqa", "dev"), ("finqa", "train"))
WITHHELD: Final = 0.25
"""The share of questions that are asked of another document."""
QUESTIONS: Final = "questions.jsonl"


@dataclass
class OneDocument:
    """What the readers need of ``Tools``, for a scope of one document."""

    document: Document
    answer_type: str
    policy: Policy
    reranker: Any
    scope_size: int = 1
    reads: bool = True
    reads_answers: bool = True
    cross_encoder: str = "cross-encoder"

    @property
    def confidence(self) -> ConfidenceModel:
        """A model without heads: only the signals are wanted."""
        return ConfidenceModel(heads={}, fitted={}, generators=(), answers="", sources={})

    def named(self, query: str) -> dict[str, float]:
        """See ``Tools``."""
        return {}

    async def documents(self) -> list[tuple[str, int]]:
        """See ``Tools``."""
        return [(self.document.doc_id, 0)]

    async def full_text(self, doc_id: str) -> Document:
        """See ``Tools``."""
        return self.document

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """See ``Tools``."""
        found: list[Reading] = self.reranker.read_each([(query, list(passages))])[0]
        return found


def kind_of(item: Item) -> str:
    """Return the answer type of an item's gold answer, "" if it is no amount."""
    answers = item.gold.question.answers
    if not answers or not all(gold_quantity(answer) is not None for answer in answers):
        return ""
    return "percent" if any("%" in answer for answer in answers) else "number"


def text_of(dataset: DataSet, item: Item) -> Document:
    """Return the texts of an item as one document."""
    return Document(item.text_ids[0], "\n\n".join(dataset.texts[each].text for each in item.text_ids))


async def answered(question: str, tools: OneDocument) -> Answer | None:
    """Return the answer by cell, statement or calculation, with its signals, or None."""
    given = cast(Tools, tools)
    ask = Ask(question, given, cast(Plan, None))
    for reader in (Statement(), Calculation()):
        found = await reader.read(ask, ()) if reader.fits(ask) else None
        if found is not None:
            return await with_confidence(given, question, await value_read(question, ask.wanted, found))
    return None


async def ask_all(data: Path, sides: Sequence[Side], most: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ask up to ``most`` questions of each set and side; return the answers rows and the rows of gold questions."""
    catalog, split = load_catalog("datasets.yaml"), Split.load("split/manifest.parquet")
    policy, reranker = load_config(FullPolicy, "policy/default.yaml"), load_reranker(RerankerConfig())
    rows: list[dict[str, Any]] = []
    golds: list[dict[str, Any]] = []
    for name, part in SETS:
        whole = read_dataset(catalog.source(name, part), data)
        for side in sides:
            dataset = split.filter(whole, side)
            items = [item for item in dataset.items if item.text_ids and kind_of(item)][:most]
            for number, item in enumerate(items):
                gold = item.gold.question
                drawn = random.Random(gold.query_id)
                other = drawn.random() < WITHHELD
                source = items[(number + len(items) // 2) % len(items)] if other else item
                kind = kind_of(item) if drawn.random() < 0.7 else ""
                tools = OneDocument(text_of(dataset, source), kind, policy, reranker)
                found = await answered(gold.question, tools)
                if found is None:
                    continue
                asked = Question(
                    f"{name} {side} {gold.query_id}", gold.question, (source.text_ids[0],), answer_type=kind
                )
                rows.append(answer_row(asked, asked.doc_ids, found, "okralong", {}))
                right = [UNANSWERABLE] if other else list(gold.answers)
                golds.append(
                    {"query_id": asked.query_id, "question": asked.question, "answers": right, "answer_type": kind}
                    | {"dataset": name, "documents": [source.text_ids[0]]}
                )
    return rows, golds


def write(rows: Sequence[dict[str, Any]], golds: Sequence[dict[str, Any]], out: Path) -> None:
    """Write the run's folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / QUESTIONS).write_text("".join(json.dumps(each) + "\n" for each in golds))
    (out / CELL_FILE).write_text(json.dumps({"questions": QUESTIONS}))
    (out / BEGUN).write_text("{}")
    log = RunLog.open(Folder.of(str(out)))
    for row in rows:
        log.append("answers", row)
    refused = log.write(log.take_pending())
    log.close()
    if refused:
        raise SystemExit(f"Rows do not fit the table: {refused}")


def main() -> None:
    """Ask and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--sides", nargs="*", default=["tune", "validation"])
    parser.add_argument("--most", type=int, default=10_000, help="questions of each set and side at most")
    parser.add_argument("--out", type=Path, required=True, help="the run's folder")
    given = parser.parse_args()
    rows, golds = asyncio.run(ask_all(given.data, given.sides, given.most))
    write(rows, golds, given.out)
    print(len(rows), "answers")


if __name__ == "__main__":
    main()
