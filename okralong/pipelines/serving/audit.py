"""The logs of a service: a line of JSON for each request, without tokens and keys, and one for each warning."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from okralong.pipelines.core.log import JsonLines

logger = logging.getLogger(__name__)

MOST_PATH_CHARS: Final = 200
"""Longest path in a line; anybody may send one. # project default"""


class AuditLog:
    """Appends to ``audit/DATE.jsonl`` in the service's folder, which only its owner may read."""

    def __init__(self, folder: Path, questions: Literal["hash", "text", "none"]) -> None:
        self._folder, self._questions = folder, questions

    def write(
        self,
        caller: str,
        endpoint: str,
        status: int,
        *,
        question: str = "",
        query_id: str = "",
        cost_usd: float = 0.0,
        seconds: float = 0.0,
    ) -> None:
        """Append a request. A disk error goes to the log of warnings: the request was carried out."""
        now = datetime.now(UTC)
        row: dict[str, Any] = {
            "at": now.isoformat(timespec="milliseconds"),
            "token": caller,
            "endpoint": endpoint[:MOST_PATH_CHARS],
            "status": status,
            "query_id": query_id or None,
            "cost_usd": cost_usd,
            "seconds": round(seconds, 3),
        }
        if question and self._questions == "hash":
            row["question_sha256"] = hashlib.sha256(question.encode("utf-8", "replace")).hexdigest()
        elif question and self._questions == "text":
            row["question"] = question
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self._folder / f"{now:%Y-%m-%d}.jsonl").open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")  # ASCII: some readers take other characters for ends of lines
        except OSError as error:
            logger.warning("The audit log cannot be written: %s", error)


LOG: Final = "service.log"
MOST_WAITING: Final = 1_000
"""Lines kept while no disk has room. # project default"""


class ServiceLog(logging.Handler):
    """Appends warnings to ``service.log`` in the service's folder.

    While that cannot be written, as on a full disk, they go to a file in the temporary folder, or are kept.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(JsonLines())
        self._path = folder / LOG
        self._other: Path | None = None
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        self._waiting.append(f"{self.format(record)}\n")
        try:
            self._write(self._path)
        except OSError:
            with suppress(OSError):
                if self._other is None:
                    self._other = Path(tempfile.mkstemp(prefix="okralong-serve-", suffix=".log")[1])
                self._write(self._other)

    def _write(self, path: Path) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.writelines(self._waiting)
        self._waiting.clear()
