"""Of each document of a question of Loong, whether the context shown for it holds the asked value; and what the
embedded default makes of it.

    python -m benchmarks.loong.shown --data DATA --work WORK --kinds comparison clustering --std-rag --out FILE

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
the method, which a generator would write, asks for the value of each of the first four companies by name. Std-RAG
searches an archive of its own, of chunks of its size alone with their vectors. ``--counts`` measures over documents
once for each number of chunks that a document shows (``over_documents.count``). Questions are parted into two halves by
the SHA-256 of their id, so that a number can be chosen on one and reported on the other.

The embedded default's answers: code and the cross-encoder read each cell, code works with the values; where the
generator would be asked it says "unanswerable" here (``--generator``: the embedded one is asked). A spotlight question
for a value is asked as one of money by the method; it is right where its value agrees with the gold one. Of bands the
companies that stand in the band of the gold answer are counted. Loong's own bands often take a figure in thousands as
it stands; "without scales" are the bands of the figures as they stand in the filing, of the cells that are right. Of
cells those are right that have the marked figure.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from okralong.lab.datasets.base import load_catalog
from okralong.lab.datasets.encoder import EACH, cached_encoder
from okralong.lab.datasets.financial import LOONG
from okralong.lab.datasets.pooling import PooledQuestion, whole
from okralong.lab.evidence.bench import Bench, BenchTools, analyzed_by, reader_of
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore
from okralong.lab.evidence.writers import GoldWriter
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.documents_task import task_by_rules
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Message, Passage, QuestionError, Reply, TypedValue, Usage
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.endpoint import NO_KEY, open_client
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.methods.registry import load_strategy
from okralong.pipelines.models.serving import EmbeddedServer
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.sara.artifact import NONE
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.table_operations import Cell, Refused, carry_out
from okralong.pipelines.statements.values import agrees

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
REPLY_TOKENS = {"generate": 160, "split": 96}
"""As in the shipped answer config."""


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
    """One question under one method: pairs shown of those marked, documents with a passage shown, tokens of prompts
    and of the filings whole.
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
    """In which half of the questions one is: "first" or "second"."""
    own = query_id.removeprefix(f"{LOONG}-")
    return ("first", "second")[int(hashlib.sha256(own.encode()).hexdigest(), 16) % 2]


# --------
# What is shown.


def chosen(bench_questions: Sequence[PooledQuestion], kinds: Sequence[str]) -> Iterator[tuple[PooledQuestion, str]]:
    """The questions of these kinds, in an order that mixes them."""
    for question in sorted(bench_questions, key=lambda each: each.item.gold.question.query_id):
        if (kind := question.item.gold.source_type) in kinds:
            yield question, kind


class CellTools(BenchTools):
    """The bench's tools, which keep what each document answered: ``cells`` by doc_id."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.cells: dict[str, Answer] = {}

    async def _branch(self, branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
        found, seconds = await super()._branch(branch, path)
        if path.startswith("cells/") and branch.doc_ids and "/" not in path.removeprefix("cells/"):
            self.cells[branch.doc_ids[0]] = found
        return found, seconds


def tools_of(bench: Bench, policy: Policy, question: PooledQuestion, queries: tuple[str, ...]) -> CellTools:
    """The bench's tools for one question over its own documents."""
    retrievals, analyze = bench.retrievals, analyzed_by(KeywordRules())
    reader = reader_of(load_config(Policy, "policy/default.yaml"))  # it answers even where it does not rank
    tools = CellTools(retrievals, policy, question.doc_ids, queries, analyze, GoldWriter(), reader=reader)
    if not retrievals.archive.has_vectors:
        tools.ports = replace(tools.ports, embed=None)
    return tools


@dataclass(frozen=True)
class Benches:
    """The archive that all methods search, and that of Std-RAG, None where it is not measured. ``sizes`` are the tokens
    of each filing.
    """

    main: Bench
    std_rag: Bench | None
    sizes: Mapping[str, int]
    marks: Sequence[Mark]

    async def measured(self, policy: Policy, method: str, question: PooledQuestion, kind: str, name: str = "") -> Row:
        """A method, with nobody asked; ``name`` is what the table calls it."""
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


# --------
# What the embedded default answers.

Score = tuple[int, int]
"""How many are right, of how many."""


@dataclass
class Scores:
    """By kind of question and what is counted, one score a question."""

    found: dict[tuple[str, str], list[Score]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, counted: str, right: int, of: int = 1) -> None:
        """One question's."""
        if of:
            self.found[kind, counted].append((int(right), of))


_ASKS_COMPANY = re.compile(r"^What (?:is the name of the )?company\b", re.IGNORECASE)


async def embedded(
    bench: Bench, policy: Policy, question: PooledQuestion, kind: str, method: str, ask: Any = None
) -> tuple[Answer, CellTools]:
    """What the embedded default answers by a method. ``ask`` is the embedded generator, None: nobody is asked."""
    tools = tools_of(bench, policy, question, ())
    tools.ports = replace(tools.ports, reads_spans=True, reads_answers=True)
    if ask is not None:
        tools.ports = replace(tools.ports, complete=ask, short_contract=True, window=ask.window)
    asked = question.item.gold.question
    answer_type = "money" if kind == "spotlight" and not _ASKS_COMPANY.search(asked.question) else ""
    tools.question = replace(asked, doc_ids=question.doc_ids, answer_type=answer_type)
    try:
        return await load_strategy(method)(tools.question, tools), tools
    except QuestionError as error:
        return Answer("failed", "", error=str(error)), tools


@dataclass
class Generator:
    """The embedded generator as a port of the tools."""

    server: EmbeddedServer

    @property
    def window(self) -> int:
        """Tokens of prompt and reply together."""
        return self.server.window

    async def __call__(
        self,
        query_id: str,
        path: str,
        role: str,
        messages: Sequence[Message],
        *,
        logprobs: bool = False,
        answer_type: str = "",
    ) -> Reply:
        """See ``Complete``."""
        request = LlmRequest(
            self.server.model, "embedded", tuple(messages), max_tokens=REPLY_TOKENS.get(role, 160), seed=7
        )
        config = LlmConfig(model=self.server.model, timeout_s=600.0)
        async with open_client(config, self.server.base_url, NO_KEY) as client:
            found = await client.chat.completions.create(**request.parameters())
        return Reply(found.choices[0].message.content or "", self.server.model, Usage(), "stop", 0.0)


_NO_ANSWER = Answer("unanswerable", "")


def spotlight_score(question: PooledQuestion, companies: Mapping[str, str], answer: Answer) -> tuple[str, bool]:
    """What a spotlight question asks for, and whether the answer is right. ``companies`` are doc_ids by name."""
    asked = question.item.gold.question
    gold = asked.answers[0]
    if _ASKS_COMPANY.search(asked.question):
        named = gold.casefold() in answer.answer.casefold() or answer.answer.startswith(f"{companies.get(gold)}")
        return "companies by a value", named
    return "values", answer.value is not None and agrees("money", answer.value, gold)


def cells_right(tools: CellTools, texts: Mapping[str, str], own: Sequence[Mark]) -> tuple[list[str], int]:
    """The documents whose cell has the marked figure, of how many marked ones."""
    figures = {mark.doc_id: _digits(texts[mark.doc_id][slice(*mark.places[0])]) for mark in own}
    said = {doc_id: _digits(tools.cells.get(doc_id, _NO_ANSWER).answer) for doc_id in figures}
    return [doc_id for doc_id, figure in figures.items() if said[doc_id] == figure], len(figures)


def _digits(said: str) -> str:
    return re.sub(r"\D", "", said)


def bands_said(answer: Answer) -> dict[str, str]:
    """The band of each document in an answer."""
    said: dict[str, str] = {}
    for part in answer.answer.partition(" (no value found")[0].split("; "):
        name, _, members = part.partition(": ")
        said |= {member.strip(): name for member in members.split(", ")}
    return said


def bands_without_scales(question: PooledQuestion, tools: CellTools, right: Sequence[str]) -> dict[str, str]:
    """The band of each of these documents by the figure as it stands in the filing."""
    task = task_by_rules(question.item.gold.question.question)
    said: dict[str, str] = {}
    for doc_id in right if task is not None and task.operation is not None else ():
        written, value = amounts(tools.cells[doc_id].answer), tools.cells[doc_id].value
        if not written or value is None or task is None or task.operation is None:
            continue
        bare = TypedValue(f"{written[0].digits:f}", float(written[0].digits), value.unit, "", value.currency)
        with suppress(Refused, StopIteration):
            outcome = carry_out(task.operation, [Cell(doc_id, AnswerType.of(task.answer_type).kind, bare)])
            said[doc_id] = next(name for name, places in outcome.groups if places)
    return said


def band_score(question: PooledQuestion, companies: Mapping[str, str], said: Mapping[str, str]) -> Score:
    """Companies in the band of the gold answer, of those that it names."""
    gold = json.loads(question.item.gold.question.answers[0])
    pairs = [(name, member) for name, members in gold.items() for member in members if member in companies]
    return sum(_same(said.get(companies[member], ""), name) for name, member in pairs), len(pairs)


def _same(one: str, other: str) -> bool:
    return re.sub(r"\W+", " ", one).casefold() == re.sub(r"\W+", " ", other).casefold()


def company_score(question: PooledQuestion, companies: Mapping[str, str], answer: Answer) -> bool | None:
    """Whether the company that a comparison names is the gold one; None where the gold answer is no single company."""
    gold = question.item.gold.question.answers[0].casefold()
    named = [(name, doc_id) for name, doc_id in companies.items() if name.casefold().rstrip(".") in gold]
    if len(named) != 1:
        return None
    name, doc_id = named[0]
    others = [each for each in companies if each != name and each.casefold().rstrip(".") in answer.answer.casefold()]
    said = name.casefold().rstrip(".") in answer.answer.casefold() and not others
    return answer.status == "answered" and (answer.answer.startswith(f"{doc_id}:") or said)


def score(
    scores: Scores,
    question: PooledQuestion,
    kind: str,
    companies: Mapping[str, str],
    answer: Answer,
    tools: CellTools,
    texts: Mapping[str, str],
    own: Sequence[Mark],
) -> None:
    """Add what is right of one answer."""
    if kind == "spotlight":
        counted, good = spotlight_score(question, companies, answer)
        scores.add(kind, counted, good)
        scores.add(kind, "all", good)
        return
    right, marked = cells_right(tools, texts, own) if tools.cells else ([], 0)
    scores.add(kind, "cells", len(right), marked)
    if kind == "clustering":
        said = bands_said(answer)
        scores.add(kind, "bands", *band_score(question, companies, said))
        if tools.cells:
            bare = said | bands_without_scales(question, tools, right)
            scores.add(kind, "bands without scales", *band_score(question, companies, bare))
    elif kind == "comparison" and (known := company_score(question, companies, answer)) is not None:
        scores.add(kind, "companies", known)


# --------
# The command.


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--limit", type=int, help="only so many questions, those over the fewest new documents first")
    parser.add_argument("--unranked", action="store_true", help="without the cross-encoder's ranking")
    parser.add_argument("--bm25", action="store_true", help="over an archive without vectors")
    parser.add_argument("--std-rag", action="store_true", help="measure Std-RAG too, over an archive of its own")
    parser.add_argument("--counts", nargs="+", type=int, default=[], help="over documents with so many chunks each")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS), help="measure these methods")
    parser.add_argument("--answers", nargs="*", choices=METHODS, default=[], help="whose answers are looked at")
    parser.add_argument("--generator", action="store_true", help="the embedded generator is asked for these answers")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    store = DataSetStore(
        load_catalog("datasets.yaml"), None, given.data, given.work, "all", 7, cached_encoder(given.work), print
    )
    dataset = store.read("loong_finance", "all")
    items = [item for item in dataset.items if item.gold.source_type in given.kinds]
    items = items if given.limit is None else fewest_documents(items, given.limit)
    pooled = whole(replace(dataset, items=tuple(items)))
    overrides: dict[str, Any] = PLAIN | ({"rerank.candidates": 0} if given.unranked else {})
    part = "-".join(given.kinds) + ("" if given.limit is None else f"-{given.limit}")
    policy = load_config(Policy, "policy/default.yaml", overrides)
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
    file = given.data / "loong_finance" / "questions.jsonl"
    named = {
        f"{LOONG}-{row['query_id']}": {each["name"]: each["doc_id"] for each in row["documents"]}
        for row in map(json.loads, file.read_text().splitlines())
    }
    done = Report(_command(given), len(pooled.documents))

    async def run() -> None:
        questions = list(chosen(pooled.questions, given.kinds))
        for question, kind in questions:
            for method in given.only:
                if method != STD_RAG or std_rag is not None:
                    done.rows.append(await benches.measured(policy, method, question, kind))
            for count in given.counts:
                fewer = load_config(Policy, "policy/default.yaml", overrides | {"over_documents.count": count})
                name = f"over documents, {count} chunks"
                done.rows.append(await benches.measured(fewer, "over_documents", question, kind, name))
        given.out.write_text(str(done))  # the answers come last: they take the time, and a run may be stopped
        with EmbeddedServer.start() if given.generator else nullcontext() as server:
            ask = None if server is None else Generator(server)
            for question, kind in questions:
                own = [mark for mark in benches.marks if mark.query_id == question.item.gold.question.query_id]
                for method in given.answers:
                    answer, tools = await embedded(main_bench, policy, question, kind, method, ask)
                    asked = question.item.gold.question
                    print(method, kind, asked.question[:70], "=>", answer.status, answer.answer[:160], flush=True)
                    companies = named[asked.query_id]
                    score(done.scores[METHODS[method]], question, kind, companies, answer, tools, main_bench.texts, own)
                given.out.write_text(str(done))

    asyncio.run(run())
    print(given.out.read_text())


def _command(given: argparse.Namespace) -> str:
    said = ["python -m benchmarks.loong.shown --data DATA --work WORK --kinds", *given.kinds]
    said += [] if given.limit is None else [f"--limit {given.limit}"]
    for flag in ("unranked", "bm25", "std_rag", "generator"):
        said += [f"--{flag.replace('_', '-')}"] if getattr(given, flag) else []
    said += ["--only", *given.only] if given.only != list(METHODS) else []
    said += ["--counts", *map(str, given.counts)] if given.counts else []
    said += ["--answers", *given.answers] if given.answers else []
    return " ".join([*said, "--out FILE"])


def fewest_documents(items: Sequence[Any], limit: int) -> list[Any]:
    """So many items, each time the one that brings the fewest documents that are not there yet."""
    left, taken, have = list(items), [], set[str]()
    while left and len(taken) < limit:
        best = min(left, key=lambda item: (len(set(item.text_ids) - have), item.gold.question.query_id))
        left.remove(best)
        taken.append(best)
        have |= set(best.text_ids)
    return taken


@dataclass
class Report:
    """The tables of a command, of what was measured so far over ``documents`` filings."""

    command: str
    documents: int
    rows: list[Row] = field(default_factory=list)
    scores: dict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))

    def __str__(self) -> str:
        """In Markdown."""
        parts = ["# Loong, finance: asked values shown, without a key", f"    {self.command}"]
        parts += [f"Over {self.documents} filings.", self._shown([None])]
        if any("chunks" in row.method for row in self.rows):
            parts += ["Each half of the questions by itself:", self._shown(["first", "second"])]
        if self.scores:
            head = ["method", "kind", "counted", "questions", "right", "share"]
            table = [
                [method, kind, counted, str(len(found)), *_share(sum(a for a, _ in found), sum(b for _, b in found))]
                for method, scores in self.scores.items()
                for (kind, counted), found in scores.found.items()
            ]
            parts += ["Answers of the embedded default:", markdown_table(head, table)]
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
