"""Measure for each document of a Loong question whether the context shows the value that the question asks for.

    python -m benchmarks.loong.shown --data DATA --work WORK --kinds comparison clustering --std-rag --out FILE

``marks.jsonl`` holds one line per pair of a question and a document whose value is known: the character offsets of the
value in the document (as the adapter reads it), and the first 16 digits of the SHA-256 of its digits. The marks were
set by hand:

- Comparison and clustering: in each filing, the line of its statements that carries the label (balance sheet, statement
  of operations or cash flows; the cover for shares outstanding). Its first column, the current period, is the value.
  "Operating and administrative expenses" is the line of general and administrative expenses, "net profit" is net income
  or loss, "total profit" is income before tax. A filing without such a line has no mark.
- Spotlight: the figure of the gold answer (or of the question, where it asks for the company) in that company's filing.
- Chain: the figure that the gold answer gives for a year, in that year's filing.

A value of four digits or more counts wherever it occurs in its document, a shorter one only in a line with the label. A
pair counts as shown when a passage of its document contains one of these places completely.

No model is called: the analyzer is the keyword rules, and prompts are only counted (o200k tokens). The split of the
method, which a generator would write, asks for the value of each of the first four companies by name. Std-RAG searches
an archive of its own, with only its chunk size and vectors. ``--counts`` repeats ``over_documents`` for several numbers
of chunks per document (``over_documents.count``). The questions are divided into halves by the SHA-256 of their id, so
that a number can be chosen on one half and reported on the other.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.encoder import EACH, cached_encoder
from okralong.lab.datasets.financial import LOONG
from okralong.lab.datasets.pooling import PooledQuestion, whole
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.retrievals import reader_of
from okralong.lab.evidence.sets import DataSetStore
from okralong.lab.evidence.tools import BenchTools, analyzed_by
from okralong.lab.evidence.writers import GoldWriter
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.workflows.documents_rules import task_by_rules
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Passage
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.methods.registry import FullPolicy, load_strategy
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.sara.config import NONE

NO_VECTORS = EmbeddingConfig(of="none")
MARKS = Path(__file__).parent / "marks.jsonl"
KINDS = ("spotlight", "comparison", "clustering", "chain")
STD_RAG = "std_rag"
METHODS = {
    STD_RAG: "Std-RAG (5 x 512, dense)",
    "budget_rag": "plain RAG (5 x 512, BM25)",
    "okralong": "the method",
    "over_documents": "over documents",
}
PLAIN = {"budget_rag.granularity": 512, "budget_rag.candidates": 5, "budget_rag.max_tokens": 4096}


@dataclass(frozen=True)
class Mark:
    """The places of the asked value in one document of a question."""

    query_id: str
    kind: str
    doc_id: str
    places: tuple[tuple[int, int], ...]

    def shown_in(self, context: Sequence[Passage]) -> bool:
        """Return whether a passage contains one of the places completely."""
        return any(
            each.doc_id == self.doc_id and each.start_char <= start and end <= each.end_char
            for each in context
            for start, end in self.places
        )


def read_marks() -> list[Mark]:
    """Return all marks."""
    rows = [json.loads(line) for line in MARKS.read_text().splitlines()]
    return [
        Mark(f"{LOONG}-{row['query_id']}", row["kind"], row["doc_id"], tuple(map(tuple, row["places"]))) for row in rows
    ]


@dataclass(frozen=True)
class Row:
    """One question with one method.

    Shown and marked pairs, documents with a passage, tokens of prompts and of the complete filings.
    """

    query_id: str
    kind: str
    method: str
    shown: int
    marked: int
    covered: int
    documents: int
    tokens: int
    long_context: int


def half_of(query_id: str) -> str:
    """Return which half of the questions one is in: "first" or "second"."""
    own = query_id.removeprefix(f"{LOONG}-")
    return ("first", "second")[int(hashlib.sha256(own.encode()).hexdigest(), 16) % 2]


def chosen(bench_questions: Sequence[PooledQuestion], kinds: Sequence[str]) -> Iterator[tuple[PooledQuestion, str]]:
    """Yield the questions of these kinds, in a mixed order."""
    for question in sorted(bench_questions, key=lambda each: each.item.gold.question.query_id):
        if (kind := question.item.gold.source_type) in kinds:
            yield question, kind


def tools_of(bench: Bench, policy: Policy, question: PooledQuestion, queries: tuple[str, ...]) -> BenchTools:
    """Return the bench's tools for one question over its own documents."""
    retrievals, analyze = bench.retrievals, analyzed_by(KeywordRules())
    reader = reader_of(load_config(FullPolicy, "policy/default.yaml"))
    tools = BenchTools(retrievals, policy, question.doc_ids, queries, analyze, GoldWriter(), reader=reader)
    if not retrievals.archive.has_vectors:
        tools.ports = replace(tools.ports, models=tools.models.having(embed=None))
    return tools


@dataclass(frozen=True)
class Benches:
    """The archive of all methods, and Std-RAG's, or None if it is not measured. ``sizes`` are tokens per filing."""

    main: Bench
    std_rag: Bench | None
    sizes: Mapping[str, int]
    marks: Sequence[Mark]

    async def measured(self, policy: Policy, method: str, question: PooledQuestion, kind: str, name: str = "") -> Row:
        """Run a method without calling a generator; ``name`` is its name in the table."""
        bench = self.std_rag if method == STD_RAG and self.std_rag is not None else self.main
        asked = question.item.gold.question
        task = task_by_rules(asked.question)
        of_each = tuple(f"{task.ask.rstrip('?')} of {name}?" for name in _names(question.doc_ids)) if task else ()
        tools = tools_of(bench, policy, question, of_each[:4])
        answer = await load_strategy(method)(replace(asked, doc_ids=question.doc_ids), tools)
        own = [mark for mark in self.marks if mark.query_id == asked.query_id]
        covered = {passage.doc_id for passage in answer.context} & set(question.doc_ids)
        shown = sum(mark.shown_in(answer.context) for mark in own)
        whole_tokens = sum(self.sizes[doc_id] for doc_id in question.doc_ids)
        return Row(
            asked.query_id,
            kind,
            name or METHODS[method],
            shown,
            len(own),
            len(covered),
            len(question.doc_ids),
            tools.prompt_tokens,
            whole_tokens,
        )


def _names(doc_ids: Sequence[str]) -> list[str]:
    return [re.sub(r"^\d{4}_|_j$", "", each).replace("_", " ") for each in doc_ids]


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--unranked", action="store_true", help="without the cross-encoder's ranking")
    parser.add_argument("--bm25", action="store_true", help="over an archive without vectors")
    parser.add_argument("--std-rag", action="store_true", help="measure Std-RAG too, over an archive of its own")
    parser.add_argument("--counts", nargs="+", type=int, default=[], help="over documents with so many chunks each")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS), help="measure these methods")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    store = DataSetStore(
        load_catalog("datasets.yaml"), None, given.data, given.work, "all", 7, cached_encoder(given.work), print
    )
    dataset = store.read("loong_finance", "all")
    items = [item for item in dataset.items if item.gold.source_type in given.kinds]
    pooled = whole(replace(dataset, items=tuple(items)))
    overrides: dict[str, Any] = PLAIN | ({"rerank.candidates": 0} if given.unranked else {})
    part = "-".join(given.kinds)
    policy = load_config(FullPolicy, "policy/default.yaml", overrides)
    embedding = NO_VECTORS if given.bm25 else EACH
    config = IndexConfig(granularities=policy.granularities(), embedding=embedding, compressor=NONE)
    main_bench = store.bench(
        SetChoice(name="loong_finance", part=f"{part}{'-bm25' if given.bm25 else ''}"), pooled, config
    )
    std_rag = None
    if given.std_rag:
        own = IndexConfig(granularities=[policy.std_rag.granularity], embedding=EACH, compressor=NONE)
        std_rag = store.bench(SetChoice(name="loong_finance", part=f"{part}-std-rag"), pooled, own)
    sizes = {doc_id: count_tokens(text) for doc_id, text in main_bench.texts.items()}
    benches = Benches(main_bench, std_rag, sizes, read_marks())
    done = Report(_command(given), len(pooled.documents))

    async def run() -> None:
        for question, kind in chosen(pooled.questions, given.kinds):
            for method in given.only:
                if method != STD_RAG or std_rag is not None:
                    done.rows.append(await benches.measured(policy, method, question, kind))
            for count in given.counts:
                fewer = load_config(FullPolicy, "policy/default.yaml", overrides | {"over_documents.count": count})
                name = f"over documents, {count} chunks"
                done.rows.append(await benches.measured(fewer, "over_documents", question, kind, name))

    asyncio.run(run())
    given.out.write_text(str(done))
    print(done)


def _command(given: argparse.Namespace) -> str:
    said = ["python -m benchmarks.loong.shown --data DATA --work WORK --kinds", *given.kinds]
    for flag in ("unranked", "bm25", "std_rag"):
        said += [f"--{flag.replace('_', '-')}"] if getattr(given, flag) else []
    said += ["--only", *given.only] if given.only != list(METHODS) else []
    said += ["--counts", *map(str, given.counts)] if given.counts else []
    return " ".join([*said, "--out FILE"])


@dataclass
class Report:
    """The tables of a command over ``documents`` filings."""

    command: str
    documents: int
    rows: list[Row] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the report in Markdown."""
        parts = ["# Loong, finance: asked values shown, without a key", f"    {self.command}"]
        parts += [f"Over {self.documents} filings.", self._shown([None])]
        if any("chunks" in row.method for row in self.rows):
            parts += ["Each half of the questions by itself:", self._shown(["first", "second"])]
        return "\n\n".join([*parts, ""])

    def _shown(self, halves: Sequence[str | None]) -> str:
        head = ["kind", "method", "questions", "values shown", "share", "all shown", "documents covered", "tokens"]
        table = []
        for kind in dict.fromkeys(row.kind for row in self.rows):
            for half in halves:
                for method in dict.fromkeys(row.method for row in self.rows):
                    own = [row for row in self.rows if (row.kind, row.method) == (kind, method)]
                    own = [row for row in own if half is None or half_of(row.query_id) == half]
                    if not own:
                        continue
                    marked = [row for row in own if row.marked]
                    table.append(
                        [
                            kind if half is None else f"{kind}, {half} half",
                            method,
                            str(len(own)),
                            *_share(sum(row.shown for row in own), sum(row.marked for row in own)),
                            f"{sum(row.shown == row.marked for row in marked) / max(len(marked), 1):.3f}",
                            f"{sum(row.covered for row in own) / sum(row.documents for row in own):.3f}",
                            f"{sum(row.tokens for row in own) / len(own):,.0f}",
                            f"{sum(row.tokens for row in own) / sum(row.long_context for row in own):.4f}",
                        ]
                    )
        return markdown_table([*head, "of the filings whole"], table)


def _share(right: int, of: int) -> list[str]:
    return [f"{right} of {of}", f"{right / max(of, 1):.3f}"]


if __name__ == "__main__":
    main()
