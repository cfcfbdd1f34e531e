"""Evidence recall of ways to embed, by the evidence bench's own methods and comparisons."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from okralong.lab.datasets.pooling import Pooled
from okralong.lab.evidence.bench import Bench, PolicyRun, Row, Shown, run_plain, run_policy
from okralong.lab.evidence.config import Method, PlainMethod, PolicyMethod, SetChoice, Sweep
from okralong.lab.evidence.report import over_sets, set_figures
from okralong.lab.evidence.sweep import scaled_policies
from okralong.lab.evidence.writers import GoldWriter, as_question
from okralong.pipelines.reporting.statistics import Estimate

PLAIN: Final = "float32"
"""The way that ships; the others are compared with it."""

SEED: Final = 7

SETS: Final = [
    SetChoice(name="hotpotqa", part="dev", pool_tokens=20_000),
    SetChoice(name="2wikimultihopqa", part="dev", pool_tokens=20_000),
    SetChoice(name="musique", part="train", pool_tokens=20_000),
    SetChoice(name="tatqa", part="dev", pool_tokens=20_000, fill=["finqa dev"]),
    SetChoice(name="finqa", part="dev", pool_tokens=20_000),
    SetChoice(name="qasper", part="train", pool_tokens=20_000, fill=["qasper_annotations all"]),
    SetChoice(name="qmsum", part="train", pool_tokens=20_000, limit=10),
]
"""Those of configs/evidence/rules.yaml, with fewer questions of QMSum, whose documents are half of all."""

MOST_QUESTIONS: Final = 100
"""Of a set, drawn with the seed; the documents stay. Only TAT-QA's set has more."""

SCALES: Final = [0.67, 1.0, 1.5, 2.0]

METHODS: Final[dict[str, Method]] = {
    "dense, 6 chunks of 150": PlainMethod(
        retriever="semantic", granularity=150, count=6, counts=[1, 2, 3, 4, 6, 9, 12, 18]
    ),
    "dense, 5 chunks of 512": PlainMethod(retriever="semantic", granularity=512, count=5, counts=[1, 2, 3, 5, 8, 12]),
    "default policy": PolicyMethod(policy="policy/default.yaml", analyzer="gold", scales=SCALES),
}
"""Dense vectors alone, and fused with BM25 as the default policy does; its labels and queries are the sets' own."""


@dataclass(frozen=True, slots=True)
class Recall:
    """A way under a method: mean evidence recall over the sets at the method's own count, and the difference to the
    plain way's at its tokens, with its interval; ``by_set`` is that for each set.
    """

    tokens: float
    recall: float
    difference: Estimate | None
    by_set: dict[str, Estimate | None]


def fewer(pooled: Pooled) -> Pooled:
    """A set with at most ``MOST_QUESTIONS``, in their order."""
    questions = pooled.questions
    places = random.Random(SEED).sample(range(len(questions)), min(MOST_QUESTIONS, len(questions)))
    return replace(pooled, questions=tuple(questions[place] for place in sorted(places)))


def rows_of(bench: Bench, way: str) -> dict[str, list[Row]]:
    """Every question of a bench under every method."""
    items = [question.item for question in bench.pooled.questions]
    asked = [item.gold.question.question for item in items]
    bench.retrievals.prepare(asked + [as_question(query) for item in items for query in item.gold_queries])
    return {name: asyncio.run(_rows(bench, way, method)) for name, method in METHODS.items()}


def kept_rows(file: Path, bench: Bench, way: str) -> dict[str, list[Row]]:
    """The same, from ``file`` where it is there; else it is written."""
    if not file.exists():
        found = {name: [asdict(row) for row in rows] for name, rows in rows_of(bench, way).items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(found))
        partial.rename(file)
    return {name: [_row(**fields) for fields in rows] for name, rows in json.loads(file.read_text()).items()}


def _row(documents: list[str], shown: dict[str, Any], **fields: Any) -> Row:
    return Row(documents=tuple(documents), shown=Shown(**shown), **fields)


async def _rows(bench: Bench, way: str, method: Method) -> list[Row]:
    if isinstance(method, PlainMethod):
        return await run_plain(bench, way, method)
    policies = scaled_policies(method)
    return [
        row
        for scale, policy in policies.items()
        for row in await run_policy(bench, way, PolicyRun(policy, None, GoldWriter()), scale)
    ]


def compared(rows: Mapping[str, Sequence[Row]], ways: Sequence[str]) -> dict[str, dict[str, Recall]]:
    """By method and way; ``rows`` are those of all ways by method, and ``ways`` begin with the plain one."""
    return {name: _compared(METHODS[name], of_method, ways) for name, of_method in rows.items()}


def _compared(method: Method, rows: Sequence[Row], ways: Sequence[str]) -> dict[str, Recall]:
    sweep = Sweep(
        title="Ways to embed", side="tune", seed=SEED, sets=SETS, methods=dict.fromkeys(ways, method), against=[PLAIN]
    )
    names = list(dict.fromkeys(row.dataset for row in rows))
    figures = [set_figures(sweep, name, rows) for name in names]
    against = over_sets(sweep, rows, names)[PLAIN]
    found = {}
    for way in ways:
        own = [each.methods[way] for each in figures]
        found[way] = Recall(
            tokens=sum(each.tokens for each in own) / len(own),
            recall=sum(each.recall.value or 0.0 for each in own) / len(own),
            difference=against[way].recall_difference if way in against else None,
            by_set={
                each.name: each.against[PLAIN][way].recall_difference if way in each.against[PLAIN] else None
                for each in figures
            },
        )
    return found
