"""Logs of actors as lines of JSON that name the run and the question, so that a night's logs can be searched.

They go to standard error, which Ray keeps in a file for each process and a cluster's log collector picks up.
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
"""Set where a question is taken up; each question is carried by a task with a context of its own."""


class JsonLines(logging.Formatter):
    """One object a record: at, level, logger, message, and where they are known run, query_id and error."""

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
    """Let this process's okralong logs, from INFO on, go to ``to`` (standard error) as lines of JSON of that run."""
    handler = logging.StreamHandler(to or sys.stderr)
    handler.setFormatter(JsonLines(of_run))
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
