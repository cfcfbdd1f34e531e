"""Of each document of a question of Loong, whether the context shown for it holds the asked value; and what the
embedded default makes of it.

    python -m benchmarks.loong.shown --data DATA --work WORK --kinds comparison clustering --out FILE

``marks.jsonl`` beside this file holds one line for each pair of a question and a document whose value is known: the
characters of the document, as the adapter reads it, where the value stands, and the first 16 digits of the SHA-256 of
its digits. How they were marked:

- Comparison and clustering: of each filing the line of its statements that bears the label was looked up by a person
  (balance sheet, statement of operations, of cash flows; of the cover for shares outstanding), and its first column,
  the current period, is the value. "Operating and administrative expenses" is the line of general and administrative
  expenses, "net profit" net income or loss, "total profit" that before tax. A filing without such a line has no mark.
- Spotlight: the figure of the gold answer, or of the question where it asks for the company, in that company's filing.
- Chain: the figure that the gold answer gives for a year, in that year's filing.

A value of four digits or more counts wherever it stands in its document, a shorter one only in a line that bears the
label. A pair counts as shown where a passage of its document holds one of these places whole.

Nobody is asked: the analyzer is that of keyword rules, prompts are counted in o200k tokens and not sent. The split of
the method, which a generator would write, asks for the value of each of the first four companies by name.

``answers`` are those of the embedded default: the cross-encoder reads each cell, code works with the values; where the
generator would be asked it says "unanswerable" here. Spotlight values agree as values; of clustering the companies that
stand in the band of the gold answer are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from okralong.pipelines.answering.analyzer_rules import KeywordRules
from okralong.pipelines.answering.answer_types import with_value
from okralong.pipelines.answering.documents_task import task_by_rules
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.values import agrees
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Passage, Question, QuestionError
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.lab.datasets.base import load_catalog
from okralong.pipelines.lab.datasets.financial import LOONG
from okralong.pipelines.lab.datasets.pooling import PooledQuestion, whole
from okralong.pipelines.lab.encoder import EACH, cached_encoder
from okralong.pipelines.lab.evidence.bench import Bench, BenchTools, analyzed_by, reader_of
from okralong.pipelines.lab.evidence.config import SetChoice
from okralong.pipelines.lab.evidence.sets import DataSetStore
from okralong.pipelines.lab.evidence.writers import GoldWriter
from okralong.pipelines.methods.registry import load_strategy
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.sara.artifact import NONE

NO_VECTORS = EmbeddingConfig(of="none")
MARKS = Path(__file__).parent / "marks.jsonl"
KINDS = ("spotlight", "comparison", "clustering", "chain")
METHODS = {
    "std_rag": "Std-RAG (5 x 512, dense)",
    "budget_rag": "plain RAG (5 x 512, BM25)",
    "okralong": "the method",
    "over_documents": "over documents",
}
PLAIN = {"budget_rag.granularity": 512, "budget_rag.candidates": 5, "budget_rag.max_tokens": 4096}


@dataclass(frozen=True)
class Mark:
    """Where the asked value of one document of a question stands."""

    query_id: str
    kind: str
    doc_id: str
    places: tuple[tuple[int, int], ...]

    def shown_in(self, context: Sequence[Passage]) -> bool:
        """Whether a passage holds one of the places whole."""
        return any(
            each.doc_id == self.doc_id and each.start_char <= start and end <= each.end_char
            for each in context
            for start, end in self.places
        )


def read_marks() -> list[Mark]:
    """All marks."""
    rows = [json.loads(line) for line in MARKS.read_text().splitlines()]
    return [
        Mark(f"{LOONG}-{row['query_id']}", row["kind"], row["doc_id"], tuple(map(tuple, row["places"]))) for row in rows
    ]


@dataclass(frozen=True)
class Row:
    """One question under one method: pairs shown of those marked, documents with a passage shown, tokens of prompts."""

    kind: str
    method: str
    shown: int
    marked: int
    covered: int
    documents: int
    tokens: int


def chosen(bench_questions: Sequence[PooledQuestion], kinds: Sequence[str]) -> Iterator[tuple[PooledQuestion, str]]:
    """The questions of these kinds, in an order that mixes them."""
    for question in sorted(bench_questions, key=lambda each: each.item.gold.question.query_id):
        if (kind := question.item.gold.source_type) in kinds:
            yield question, kind


def tools_of(bench: Bench, policy: Policy, question: PooledQuestion, queries: tuple[str, ...]) -> BenchTools:
    """The bench's tools for one question over its own documents."""
    retrievals, analyze = bench.retrievals, analyzed_by(KeywordRules())
    reader = reader_of(load_config(Policy, "policy/default.yaml"))  # it answers even where it does not rank
    tools = BenchTools(retrievals, policy, question.doc_ids, queries, analyze, GoldWriter(), reader=reader)
    if not retrievals.archive.has_vectors:
        tools.ports = replace(tools.ports, embed=None)
    return tools


async def measured(
    bench: Bench, policy: Policy, method: str, question: PooledQuestion, kind: str, marks: Sequence[Mark]
) -> Row:
    """A method, with nobody asked."""
    asked = question.item.gold.question
    task = task_by_rules(asked.question)
    of_each = tuple(f"{task.ask.rstrip('?')} of {name}?" for name in _names(question.doc_ids)) if task else ()
    tools = tools_of(bench, policy, question, of_each[:4])
    answer = await load_strategy(method)(replace(asked, doc_ids=question.doc_ids), tools)
    own = [mark for mark in marks if mark.query_id == asked.query_id]
    covered = {passage.doc_id for passage in answer.context} & set(question.doc_ids)
    shown = sum(mark.shown_in(answer.context) for mark in own)
    return Row(kind, method, shown, len(own), len(covered), len(question.doc_ids), tools.prompt_tokens)


def _names(doc_ids: Sequence[str]) -> list[str]:
    return [re.sub(r"^\d{4}_|_j$", "", each).replace("_", " ") for each in doc_ids]


async def embedded(bench: Bench, policy: Policy, question: PooledQuestion, kind: str) -> tuple[Answer, Any]:
    """What the embedded default answers where it goes over documents, of a spotlight question the method."""
    tools = tools_of(bench, policy, question, ())
    tools.ports = replace(tools.ports, reads_spans=True, reads_answers=True)
    asked = replace(question.item.gold.question, doc_ids=question.doc_ids, answer_type="")
    name = "okralong" if kind == "spotlight" else "over_documents"
    try:
        return await load_strategy(name)(asked, tools), tools
    except QuestionError as error:
        return Answer("failed", "", error=str(error)), tools


def band_score(question: PooledQuestion, companies: Mapping[str, str], answer: Answer) -> tuple[int, int]:
    """Companies in the band of the gold answer, of those that it names. ``companies`` are doc_ids by name."""
    gold = json.loads(question.item.gold.question.answers[0])
    said: dict[str, str] = {}
    for part in answer.answer.partition(" (no value found")[0].split("; "):
        name, _, members = part.partition(": ")
        said |= {member.strip(): name for member in members.split(", ")}
    pairs = [(name, member) for name, members in gold.items() for member in members if member in companies]
    right = sum(_same(said.get(companies[member], ""), name) for name, member in pairs)
    return right, len(pairs)


def _same(one: str, other: str) -> bool:
    return re.sub(r"\W+", " ", one).casefold() == re.sub(r"\W+", " ", other).casefold()


def company_score(question: PooledQuestion, companies: Mapping[str, str], answer: Answer) -> bool | None:
    """Whether the company that a comparison names is the gold one; None where the gold answer is no single company."""
    gold = question.item.gold.question.answers[0].casefold()
    named = [doc_id for name, doc_id in companies.items() if name.casefold().rstrip(".") in gold]
    if len(named) != 1:
        return None
    return answer.answer.startswith(f"{named[0]}:")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--limit", type=int, help="only so many questions, those over the fewest new documents first")
    parser.add_argument(
        "--unranked", action="store_true", help="without the cross-encoder's ranking: a tenth of the time"
    )
    parser.add_argument("--bm25", action="store_true", help="over an archive without vectors, so without Std-RAG")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    store = DataSetStore(
        load_catalog("datasets.yaml"), None, given.data, given.work, "all", 7, cached_encoder(given.work), print
    )
    dataset = store.read("loong_finance", "all")
    items = [item for item in dataset.items if item.gold.source_type in given.kinds]
    items = items if given.limit is None else fewest_documents(items, given.limit)
    pooled = whole(replace(dataset, items=tuple(items)))
    overrides = PLAIN | ({"rerank.candidates": 0} if given.unranked else {})
    policy = load_config(Policy, "policy/default.yaml", overrides)
    config = IndexConfig(
        granularities=policy.granularities(), embedding=NO_VECTORS if given.bm25 else EACH, compressor=NONE
    )
    bench = store.bench(SetChoice(name="loong_finance", part="-".join(given.kinds)), pooled, config)
    file = given.data / "loong_finance" / "questions.jsonl"
    named = {
        f"{LOONG}-{row['query_id']}": {each["name"]: each["doc_id"] for each in row["documents"]}
        for row in map(json.loads, file.read_text().splitlines())
    }
    whole_tokens = {kind: _long_context(bench, kind) for kind in given.kinds}
    command = " ".join(["python -m benchmarks.loong.shown --data DATA --work WORK --kinds", *given.kinds])
    command += "" if given.limit is None else f" --limit {given.limit}"
    command += (" --unranked" if given.unranked else "") + (" --bm25" if given.bm25 else "")

    def save(rows: list[Row], right: dict[str, list[tuple[int, int]]]) -> None:
        """So far: a run of an hour may be stopped."""
        given.out.write_text(report(rows, right, whole_tokens, f"{command} --out FILE", len(pooled.documents)))

    asyncio.run(_all(bench, policy, given.kinds, named, save))
    print(given.out.read_text())


def fewest_documents(items: Sequence[Any], limit: int) -> list[Any]:
    """So many items, each time the one that brings the fewest documents that are not there yet."""
    left, taken, have = list(items), [], set[str]()
    while left and len(taken) < limit:
        best = min(left, key=lambda item: (len(set(item.text_ids) - have), item.gold.question.query_id))
        left.remove(best)
        taken.append(best)
        have |= set(best.text_ids)
    return taken


async def _all(
    bench: Bench,
    policy: Policy,
    kinds: Sequence[str],
    named: Mapping[str, Mapping[str, str]],
    save: Callable[[list[Row], dict[str, list[tuple[int, int]]]], None],
) -> None:
    marks = read_marks()
    rows: list[Row] = []
    right: dict[str, list[tuple[int, int]]] = defaultdict(list)
    methods = [each for each in METHODS if each != "std_rag" or bench.retrievals.archive.has_vectors]
    for question, kind in chosen(bench.pooled.questions, kinds):
        rows += [await measured(bench, policy, method, question, kind, marks) for method in methods]
    save(rows, right)  # the models come last: they take the time
    for question, kind in chosen(bench.pooled.questions, kinds):
        answer, _ = await embedded(bench, policy, question, kind)
        asked = question.item.gold.question
        print(kind, asked.question[:70], "=>", answer.status, answer.answer[:160], flush=True)
        companies = named[asked.query_id]
        if kind == "clustering":
            right[kind].append(band_score(question, companies, answer))
        elif kind == "comparison" and (known := company_score(question, companies, answer)) is not None:
            right[kind].append((int(known), 1))
        elif kind == "spotlight":
            typed = with_value(Question("", asked.question, answer_type="money"), answer)
            same = typed.value is not None and agrees("money", typed.value, asked.answers[0])
            right[kind].append((int(same or asked.answers[0].casefold() in answer.answer.casefold()), 1))
        save(rows, right)


def _long_context(bench: Bench, kind: str) -> float:
    """Mean tokens of the filings of a question, whole."""
    sizes = {doc_id: count_tokens(text) for doc_id, text in bench.texts.items()}
    sums = [sum(sizes[doc_id] for doc_id in question.doc_ids) for question, _ in chosen(bench.pooled.questions, [kind])]
    return sum(sums) / max(len(sums), 1)


def report(
    rows: Sequence[Row],
    right: Mapping[str, list[tuple[int, int]]],
    whole_tokens: Mapping[str, float],
    command: str,
    n: int,
) -> str:
    """The tables."""
    table = []
    for kind in dict.fromkeys(row.kind for row in rows):
        for method, name in METHODS.items():
            own = [row for row in rows if (row.kind, row.method) == (kind, method)]
            if not own:
                continue
            marked = sum(row.marked for row in own)
            tokens = sum(row.tokens for row in own) / len(own)
            table.append(
                [
                    kind,
                    name,
                    str(len(own)),
                    f"{sum(row.shown for row in own)} of {marked}",
                    f"{sum(row.shown for row in own) / max(marked, 1):.3f}",
                    f"{sum(row.covered for row in own) / sum(row.documents for row in own):.3f}",
                    f"{tokens:,.0f}",
                    f"{tokens / whole_tokens[kind]:.4f}",
                ]
            )
    head = ["kind", "method", "questions", "values shown", "share", "documents covered", "tokens", "of long context"]
    scores = [
        [
            kind,
            str(len(found)),
            f"{sum(a for a, _ in found)} of {sum(b for _, b in found)}",
            f"{sum(a for a, _ in found) / sum(b for _, b in found):.3f}",
        ]
        for kind, found in right.items()
    ]
    long = ", ".join(f"{kind} {tokens:,.0f}" for kind, tokens in whole_tokens.items())
    return "\n\n".join(
        [
            "# Loong, finance: asked values shown, without a key",
            f"    {command}",
            f"Over {n} filings. Long context, the filings whole: {long} tokens a question.",
            markdown_table(head, table),
            "The embedded default (the cross-encoder reads, code works with the values; no generator was asked):",
            markdown_table(["kind", "questions", "right", "share"], scores),
            "",
        ]
    )


if __name__ == "__main__":
    main()
