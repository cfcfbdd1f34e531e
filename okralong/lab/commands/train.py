"""What the training commands need beside the CLI: labels by the generator, and reports that serve what was trained."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import yaml
from rich.console import Console

from okralong.jobs.generator import Generator, generator
from okralong.jobs.terminal import say_line
from okralong.lab.training.rows.cross_encoder_rows import RankingConfig, passages_to_ask_about
from okralong.lab.training.rows.labels import Labelled, explain_rows, is_unlabelled, label_rows
from okralong.lab.training.rows.question_writer_rows import WrittenQuestion, read_written, write_passages
from okralong.lab.training.rows.tables import ANALYZER_ROWS, READER_ROWS, ReadingRow, TrainingRow
from okralong.pipelines.core.config import load_config, read_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.llm.records import Totals
from okralong.pipelines.llm.snapshots import drift
from okralong.pipelines.models.weights import EMBEDDED, available_cores, resolve_embedding_model
from okralong.pipelines.run.config import RunConfig

if TYPE_CHECKING:
    from okralong.lab.training.learners.fit import Say
    from okralong.lab.training.reader_report import Asker
    from okralong.pipelines.llm.config import LlmConfig

LABELS = "labels"
RATIONALES = "rationales"
"""The folders beside the rows with journal and ledger of labels and of rationales: what was paid for is not asked
again."""

R = TypeVar("R")


class Labeller:
    """Labels rows, or explains their answers, by the generator of ``config``, at its price and within ``budget_usd``.

    Raises ConfigError for the embedded generator, whose guesses are no labels.
    """

    def __init__(self, config: RunConfig, out: Path, console: Console) -> None:
        if config.llm.base_url == EMBEDDED:
            raise ConfigError(
                "The embedded model is too small to label rows. Give --llm an answer config whose llm.base_url and "
                "llm.model name a large model, and a budget_usd."
            )
        if config.llm.mode == "batch":
            raise ConfigError(
                "Labels are asked for in real time, and the answer config of --llm says llm.mode: batch. Give one that "
                "says realtime."
            )
        self.model = config.llm.model
        self.over_budget = 0
        self._config = config
        self._out = out
        self._console = console

    def __call__(self, rows: list[TrainingRow]) -> list[TrainingRow]:
        """The rows, with what could be had of the labels that they lack."""
        open_rows = sum(map(is_unlabelled, rows))
        if not open_rows:
            return rows
        llm = self._config.llm
        say_line(self._console, f"  {open_rows:,} rows are labelled by {llm.model} at {llm.base_url}")
        return self._asked(partial(label_rows, rows), LABELS)

    def explain(self, rows: list[ReadingRow]) -> list[ReadingRow]:
        """InstructRAG's rows of the reader's: those of which a rationale could be had."""
        llm = self._config.llm
        say_line(self._console, f"  answers of {len(rows):,} rows are explained by {llm.model} at {llm.base_url}")
        return self._asked(partial(explain_rows, rows), RATIONALES)

    def _asked(self, ask: Callable[[LlmClient, int], Awaitable[Labelled[R]]], place: str) -> list[R]:
        folder = self._out / place
        with generator(self._config.llm, self._out) as served:
            for note in served.notes:
                say_line(self._console, f"  {note}", style="yellow")
            found, totals = asyncio.run(_ask(ask, self._config, served, Folder.of(folder)))
        self.over_budget += found.counts.get("over_budget", 0)
        said = ", ".join(f"{count:,} {name}" for name, count in sorted(found.counts.items()))
        paid = f"{totals.calls:,} calls, ${totals.settled_usd:.4f} so far ({folder})"
        say_line(self._console, f"  {said}; {paid}")
        if (warning := drift(totals.snapshots)) is not None:
            say_line(self._console, f"  {warning}", style="yellow")
        return found.rows


async def _ask(
    ask: Callable[[LlmClient, int], Awaitable[R]], config: RunConfig, served: Generator, folder: Folder
) -> tuple[R, Totals]:
    ledger = RunLedger(folder, config.budget_usd)
    llm = served.llm
    gateway = Gateway(ledger, [LocalLimiter(endpoint.limits) for endpoint in llm.all_endpoints])
    client = LlmClient(llm, gateway, PriceTable.load(config.prices), address=served.address, tags=config.tags)
    try:
        return await ask(client, config.concurrency), await ledger.totals()
    finally:
        await client.aclose()
        await ledger.close()


PASSAGES: Final = "passages.json"
WRITTEN: Final = "written.jsonl"
"""Beside the rows: what a question writer is to ask about, and what it wrote, so that one that was killed goes on."""


def written_questions(
    config: RankingConfig, data: Path, work: Path, out: Path, writer: Path, export: bool, say: Say
) -> list[WrittenQuestion]:
    """What ``writer`` writes about the train side's passages; with ``export`` only these passages are written.

    Raises ConfigError where there is no such writer, before any set is read.
    """
    if not export and not (writer / "config.json").is_file():
        raise ConfigError(
            f"{writer} holds no question writer. Give the folder that `okralong train training/question_writer.yaml` "
            "wrote."
        )
    asked = passages_to_ask_about(config, data, work, say)
    wanted = sum(sum(ask.values()) for ask in asked.passages.values())
    said = "all" if asked.questions is None else f"about {asked.questions:,}"
    say(f"{len(asked.passages):,} passages, {wanted:,} questions, of which {said} are written")
    if export:
        write_passages(out / PASSAGES, asked)
        command = "python -m okralong.lab.training.learners.question_writer"
        say(f"written: {out / PASSAGES}. `{command} {writer} {PASSAGES} {WRITTEN}` writes what belongs beside it.")
        return []
    from okralong.lab.training.learners.question_writer import write_questions

    out.mkdir(parents=True, exist_ok=True)
    write_questions(writer, asked.passages, asked.questions, out / WRITTEN, say)
    return read_written(out / WRITTEN)


REPLIES: Final = "reader-replies.jsonl"
"""Beside the rows: the texts that readers replied, so that a report that was killed goes on."""


def report_on(config: str, rows: Path, out: Path) -> None:
    """Write the report that ``config`` describes: one with ``readers`` or one with ``analyzers``."""
    console = Console()
    said = yaml.safe_load(read_config(config)[1])
    write = _readers if isinstance(said, dict) and "readers" in said else _analyzers
    command = f"okralong train {config} --report --rows ROWS --out {out.name}"
    page, data = write(config, rows, out, command, partial(say_line, console))
    say_line(console, page.read_text(encoding="utf-8"))
    say_line(console, f"written: {page} and {data}")


def _analyzers(config: str, rows: Path, out: Path, command: str, _: Say) -> list[Path]:
    from okralong.lab.training.analyzer_report import ReportConfig, analyzer_report, write_analyzer_report

    found = analyzer_report(load_config(ReportConfig, config), ANALYZER_ROWS.read(Folder.of(rows), "test"))
    return write_analyzer_report(out, command, found)


def _readers(config: str, rows: Path, out: Path, command: str, say: Say) -> list[Path]:
    from okralong.lab.datasets.encoder import LIMIT
    from okralong.lab.evidence.writers import KeptReplies
    from okralong.lab.training.reader_report import ReaderReportConfig, reader_report, write_reader_report
    from okralong.pipelines.indexing.embedding import SentenceEmbedder

    settings, test = load_config(ReaderReportConfig, config), READER_ROWS.read(Folder.of(rows), "test")
    encoder = SentenceEmbedder(resolve_embedding_model(EMBEDDED).path, LIMIT, threads=available_cores())
    found = reader_report(settings, test, _served, KeptReplies(rows / REPLIES), encoder.encode, say)
    return write_reader_report(out, command, found)


@contextmanager
def _served(llm: LlmConfig) -> Iterator[Asker]:
    import openai

    from okralong.lab.training.reader_report import Asker

    with generator(llm, None) as served:
        # No key leaves this machine: an embedded server asks for none.
        client = openai.OpenAI(base_url=served.address, api_key="none", timeout=served.llm.timeout_s, max_retries=0)
        yield Asker(served.llm, client, served.facts["identity"])
