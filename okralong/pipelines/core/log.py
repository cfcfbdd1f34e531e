"""Write the logs of actors as searchable JSON lines with run and question.

They go to standard error, which Ray keeps in a file per process for a cluster's log collector.
"""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, TextIO

ROOT: Final = "okralong"
run: ContextVar[str] = ContextVar("run", default="")
query_id: ContextVar[str] = ContextVar("query_id", default="")
"""Set when a question starts; each question runs in a task with its own context."""


class JsonLines(logging.Formatter):
    """Formats a record as one object: at, level, logger, message, and run, query_id and error if known."""

    def __init__(self, of_run: str = "") -> None:
        super().__init__()
        self._run = of_run

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "run": run.get() or self._run,
            "query_id": query_id.get(),
            "error": self.formatException(record.exc_info) if record.exc_info else "",
        }
        return json.dumps({key: value for key, value in line.items() if value}, ensure_ascii=False)


def log_as_json(of_run: str, to: TextIO | None = None) -> None:
    """Write this process's okralong logs from INFO on to ``to`` (default: standard error) as JSON lines of the run."""
    handler = logging.StreamHandler(to or sys.stderr)
    handler.setFormatter(JsonLines(of_run))
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
