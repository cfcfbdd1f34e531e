"""Write a report, described by a config, on trained analyzers or reader adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml
from rich.console import Console

from okralong.actors.generator import generator
from okralong.jobs.terminal import say_line
from okralong.lab.training.rows.tables import ANALYZER_ROWS, READER_ROWS
from okralong.pipelines.core.config import load_config, read_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.models.weights import EMBEDDED, available_cores, resolve_embedding_model

if TYPE_CHECKING:
    from okralong.lab.training.asking import Asker
    from okralong.lab.training.learners.fit import Say
    from okralong.pipelines.llm.config import LlmConfig


REPLIES: Final = "reader-replies.jsonl"
"""The file, next to the rows, with the replies of readers, from which an interrupted report is resumed."""


def report_on(config: str, rows: Path, out: Path) -> None:
    """Write the report that ``config`` describes. The config has either ``readers`` or ``analyzers``."""
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

    from okralong.lab.training.asking import Asker

    with generator(llm, None) as served:
        # An embedded server needs no key.
        client = openai.OpenAI(base_url=served.address, api_key="none", timeout=served.llm.timeout_s, max_retries=0)
        yield Asker(served.llm, client, served.facts["identity"])
