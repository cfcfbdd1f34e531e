"""The audit log of a service: a line of JSON for each request, without tokens and keys."""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

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
