"""Answer questions whose passages are known to contain the answer or not, by span or by a small generator.

    okralong train-data DATA --for cross_encoder --out ROWS
    python -m benchmarks.answers --rows ROWS --side test --out spans.jsonl
    python -m benchmarks.answers --rows ROWS --side test --by bare --contract short --order rank --out bare.jsonl

There is no archive and no retrieval: the context of a question is the passages of its row that the cross-encoder ranks
first, by rank or in a random order seeded by its id. ``--by spans`` uses the shipped cross-encoder without refusals,
``reader`` the embedded model with the shipped reader adapter, ``bare`` the one without. Generators are prompted and
parsed as in a run (``answering/generate.py``), in batches, without a server. Each table row is one file; *failures* are
replies without an answer, *uncited* answers without a citation.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast

from benchmarks.spans import questions_of
from okralong.actors.generator import as_served
from okralong.lab.evidence.report_files import estimate_words
from okralong.lab.training.rows.tables import RankingRow
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.prompts import UNANSWERABLE, with_demonstration
from okralong.pipelines.answering.readers.spans import span_answer
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.codec import decode, encode
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Message, Passage, QuestionError, Reading, Reply, ReplyError, Usage
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.models.merged_model import merged_model
from okralong.pipelines.models.weights import EMBEDDED, SMOLLM_WINDOW, available_cores, converted_model, settle
from okralong.pipelines.reporting.metrics import answer_marks
from okralong.pipelines.reporting.statistics import clustered_mean, joined_by_documents
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.sara.generator import MixedGenerator, Text
from okralong.pipelines.sara.prompts import Asked, MixedMessage, RefusedError

BATCH: Final = 8
"""Prompts that are answered together; ours."""
By = Literal["spans", "reader", "bare"]
Order = Literal["rank", "drawn"]


@dataclass(frozen=True)
class Marked:
    """An answer with its scores.

    ``f1`` and ``em`` against the gold answers (none means unanswerable). ``texts`` are the passages of its context,
    ``readings`` the cross-encoder's output for them, ``source`` the data set, ``cluster`` the documents that are
    resampled together, ``reply`` the generator's text.
    """

    source: str
    query_id: str
    question: str
    golds: tuple[str, ...]
    answer: Answer
    texts: tuple[str, ...]
    readings: tuple[Reading, ...]
    f1: float
    em: float
    cluster: str
    reply: str = ""


@dataclass
class Replies:
    """What ``generate`` needs of ``Tools``, over a model in this process that answers what waits in batches."""

    model: MixedGenerator
    llm: LlmConfig
    texts: dict[str, str] = field(default_factory=dict)
    answer_type: str = ""
    _waiting: list[tuple[str, Sequence[Message], asyncio.Future[Reply]]] = field(default_factory=list)

    @property
    def calculator(self) -> bool:
        """See ``Tools``."""
        return bool(self.llm.calculator)

    @property
    def short_contract(self) -> bool:
        """See ``Tools``."""
        return self.llm.short_contract

    @property
    def window(self) -> int:
        """See ``Tools``."""
        return self.llm.window

    def count(self, text: str) -> int:
        """Tokens of ``text`` at most: the embedded model's are no more than twice o200k's."""
        return 2 * count_tokens(text)

    def completion_limit(self, role: str) -> int:
        """See ``Tools``."""
        return self.llm.completion_limit(role)

    async def complete(self, step: str, messages: Sequence[Message], role: str, **_: Any) -> Reply:
        """Return the reply to a prompt, with its example if the model is shown one."""
        asked = with_demonstration(messages, role, self.short_contract) if self.llm.demonstrations else messages
        promised: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, asked, promised))
        return await promised

    def write(self) -> bool:
        """Answer a batch of what waits, long prompts first; whether there was any."""
        self._waiting.sort(key=lambda each: sum(len(message.content) for message in each[1]))
        taken, self._waiting = self._waiting[-BATCH:], self._waiting[:-BATCH]
        limit = self.completion_limit("generate")
        asked = [
            Asked(tuple(MixedMessage(each.role, (Text(each.content),)) for each in messages), limit)
            for _, messages, _ in taken
        ]
        for (step, _, promised), said in zip(taken, self.model.answer(asked), strict=True):
            if isinstance(said, RefusedError):
                promised.set_exception(QuestionError(str(said)))
                continue
            self.texts[step] = said.text
            usage = Usage(said.prompt_tokens, 0, said.completion_tokens)
            promised.set_result(Reply(said.text, "embedded", usage, said.finish_reason, 0.0))
        return bool(taken)


def loaded(by: By, contract: str, limit: int) -> Replies:
    """Load the embedded model and the config with which a run would call it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    config = load_config(RunConfig, "answer.yaml").llm
    reader = "none" if by == "bare" else config.reader
    changed = {"contract": contract, "reader": reader, "max_completion_tokens": {"generate": limit}}
    asked = LlmConfig.model_validate({**config.model_dump(), **changed})
    found = asked.found_reader()
    folder = converted_model() if found is None else merged_model(found.folder, EMBEDDED)
    target, dtype = settle("auto", "auto", available_cores())
    causal: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return Replies(MixedGenerator(causal.to(device=target), tokenizer, SMOLLM_WINDOW), as_served(asked))


def shown(row: RankingRow, readings: Sequence[Reading], passages: int, order: Order) -> list[tuple[Passage, Reading]]:
    """Return the first-ranked passages with their readings."""
    pairs = [
        (Passage(f"p{n}", 0, len(text), text, count_tokens(text), 1.0), reading)
        for n, (text, reading) in enumerate(zip(row.passages, readings, strict=True))
    ]
    first = sorted(pairs, key=lambda pair: -pair[1].relevance)[:passages]
    if order == "drawn":
        random.Random(row.query_id).shuffle(first)
    return first


async def answers(
    rows: Sequence[RankingRow], found: Sequence[Sequence[Reading]], replies: Replies | None, passages: int, order: Order
) -> list[Marked]:
    """Answer each question, by span if ``replies`` is None. Rows and readings are those of ``questions_of``."""
    clusters = joined_by_documents([row.documents for row in rows])

    async def one(row: RankingRow, readings: Sequence[Reading], cluster: str) -> Marked:
        pairs = shown(row, readings, passages, order)
        context, of_them = [passage for passage, _ in pairs], tuple(reading for _, reading in pairs)
        if replies is None:
            answer = span_answer(context, of_them)
        else:
            try:
                answer = await generate(cast(Tools, replies), row.query_id, row.question, context)
            except (QuestionError, ReplyError) as error:
                answer = Answer("failed", "", error=str(error), context=tuple(context))
        spans = zip(row.passages, row.starts, row.ends, strict=True)
        golds = tuple(text[start:end] for text, start, end in spans if start >= 0) if any(row.answerable) else ()
        marks = answer_marks("", answer.status, answer.answer, golds or (UNANSWERABLE,))
        said = "" if replies is None else replies.texts.get(row.query_id, "")
        texts = tuple(passage.text for passage in context)
        at = (row.source, row.query_id, row.question, golds, answer, texts, of_them)
        return Marked(*at, marks.f1 or 0.0, marks.em or 0.0, cluster, said)

    every = [asyncio.ensure_future(one(*each)) for each in zip(rows, found, clusters, strict=True)]
    while replies is not None and not all(each.done() for each in every):
        await asyncio.sleep(0.01)
        replies.write()
    return list(await asyncio.gather(*every))


def write_answers(file: Path, rows: Sequence[Marked]) -> None:
    """Write one answer per line, as JSON."""
    file.write_text("".join(f"{encode(row)}\n" for row in rows), encoding="utf-8")


def read_answers(file: Path) -> list[Marked]:
    """Read a file of ``write_answers``."""
    return [decode(Marked, line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def line(name: str, rows: Sequence[Marked]) -> list[str]:
    """Return a table row."""

    def mean(part: Sequence[Marked], value: Callable[[Marked], float]) -> str:
        return estimate_words(clustered_mean([value(row) for row in part], [row.cluster for row in part]))

    can, cannot = [row for row in rows if row.golds], [row for row in rows if not row.golds]
    given = [row for row in rows if row.answer.status == "answered"]
    return [
        name,
        f"{len(rows):,}",
        mean(rows, lambda row: float(row.answer.status == "failed")),
        mean(given, lambda row: float(not row.answer.citations)),
        mean(can, lambda row: row.f1),
        mean(can, lambda row: float(row.answer.status == "unanswerable")),
        mean(cannot, lambda row: float(row.answer.status == "unanswerable")),
    ]


HEAD: Final = ["answers", "questions", "failures", "uncited", "F1, answerable", "answerable refused", "others refused"]


def main() -> None:
    """Answer, write the answers, and print a table of files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="*", help="files of answers to show, instead of answering")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--side", choices=["validation", "test"], default="validation")
    parser.add_argument("--limit", type=int, default=700, help="questions of each kind at most")
    parser.add_argument("--by", choices=["spans", "reader", "bare"], default="spans")
    parser.add_argument("--contract", choices=["auto", "full", "short"], default="auto")
    parser.add_argument("--order", choices=["rank", "drawn"], default="rank")
    parser.add_argument("--passages", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64, help="of a reply at most")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.rows is not None:
        placed, empty = questions_of(given.rows, given.side, given.limit)
        rows = [row for row in (*placed, *empty) if not row.source.startswith("sample ")]  # made-up reports
        found = load_reranker(RerankerConfig()).read_each([(row.question, list(row.passages)) for row in rows])
        replies = None if given.by == "spans" else loaded(given.by, given.contract, given.tokens)
        write_answers(given.out, asyncio.run(answers(rows, found, replies, given.passages, given.order)))
        given.files = [given.out]
    print(markdown_table(HEAD, [line(file.stem, read_answers(file)) for file in given.files]))


if __name__ == "__main__":
    main()
