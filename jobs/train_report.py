"""``okralong train --report``: trained analyzers or readers held against the rows of the test side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml
from rich.console import Console

if TYPE_CHECKING:
    from okralong.pipelines.lab.training.reader_eval import Asker
    from okralong.pipelines.llm.config import LlmConfig


REPLIES: Final = "reader-replies.jsonl"
"""Beside the rows: the texts that readers replied, so that a report that was killed goes on."""


def report_on(config: str, rows: Path, out: Path) -> None:
    """Write the report that ``config`` describes: one with ``readers`` or one with ``analyzers``."""
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import read_config

    console = Console()
    said = yaml.safe_load(read_config(config)[1])
    of_readers = isinstance(said, dict) and "readers" in said
    command = f"okralong train {config} --report --rows ROWS --out {out.name}"
    page, data = (_readers if of_readers else _analyzers)(config, rows, out, command, console)
    say_line(console, page.read_text(encoding="utf-8"))
    say_line(console, f"written: {page} and {data}")


def _analyzers(config: str, rows: Path, out: Path, command: str, _: Console) -> list[Path]:
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.lab.training.analyzer_data import read_rows
    from okralong.pipelines.lab.training.analyzer_eval import ReportConfig, analyzer_report, write_analyzer_report

    found = analyzer_report(load_config(ReportConfig, config), read_rows(Folder.of(rows), "test"))
    return write_analyzer_report(out, command, found)


def _readers(config: str, rows: Path, out: Path, command: str, console: Console) -> list[Path]:
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.indexing.embedding import SentenceEmbedder, available_threads
    from okralong.pipelines.lab.encoder import LIMIT
    from okralong.pipelines.lab.evidence.writers import KeptReplies
    from okralong.pipelines.lab.training.reader_data import read_reading
    from okralong.pipelines.lab.training.reader_eval import ReaderReportConfig, reader_report, write_reader_report
    from okralong.pipelines.models.weights import EMBEDDED, resolve_embedding_model

    settings, test = load_config(ReaderReportConfig, config), read_reading(Folder.of(rows), "test")
    encoder = SentenceEmbedder(resolve_embedding_model(EMBEDDED).path, LIMIT, threads=available_threads())
    kept = KeptReplies(rows / REPLIES)
    found = reader_report(settings, test, _served, kept, encoder.encode, lambda line: say_line(console, line))
    return write_reader_report(out, command, found)


@contextmanager
def _served(llm: LlmConfig) -> Iterator[Asker]:
    import openai

    from okralong.jobs.generator import generator
    from okralong.pipelines.lab.training.reader_eval import Asker

    with generator(llm, None) as served:
        # No key leaves this machine: an embedded server asks for none.
        client = openai.OpenAI(base_url=served.address, api_key="none", timeout=served.llm.timeout_s, max_retries=0)
        yield Asker(served.llm, client, served.facts["identity"])
