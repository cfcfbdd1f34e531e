"""The answers of the last night: pages of the table, and one answer with its citations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.reporting.export import Exported
from okralong.pipelines.run.nightly import CURRENT, NIGHTS, RUN, nights
from okralong.pipelines.run.rows import BEGUN, table
from okralong.pipelines.serving.asked import Refused

LISTED: Final = (
    *("query_id", "asked_id", "question", "answer", "status", "value", "number", "unit", "scale", "currency", "period"),
    *("confidence", "doc_id", "title", "section", "page", "quote", "link", "scope", "night", "finished_at", "error"),
)
"""Columns of a page of answers. ``/answers/{query_id}`` has all."""
_PLACES: Final = ("link", "source_uri")


@dataclass(frozen=True)
class _Tables:
    """The tables of a night, and the state of the folder that they were read from."""

    seen: tuple[Any, ...]
    night: str
    answers: list[dict[str, Any]]
    citations: Mapping[str, list[dict[str, Any]]]


class NightAnswers:
    """The folder of a nightly. Its tables are read again when a night has changed them. Threads may share it."""

    def __init__(self, folder: Folder, links: bool) -> None:
        self._folder, self._links = folder, links
        self._tables: _Tables | None = None

    def page(self, document: str, column: str, status: str, offset: int, limit: int) -> dict[str, Any]:
        """Return the answers that match all filters, from ``offset`` on. Raises Refused before the first night."""
        tables = self._read()
        found = [row for row in tables.answers if self._matches(row, document, column, status)]
        rows = [{name: row[name] for name in LISTED if name in row} for row in found[offset : offset + limit]]
        after = offset + len(rows)
        return {
            "night": tables.night,
            "total": len(found),
            "offset": offset,
            "next_offset": after if after < len(found) else None,
            "answers": rows,
        }

    def answer(self, query_id: str) -> dict[str, Any]:
        """Return an answer with all its citations. Raises Refused if there is none."""
        tables = self._read()
        row = next((each for each in tables.answers if each["query_id"] == query_id), None)
        if row is None:
            raise Refused(404, "not_found", f"The night {tables.night} has no answer {query_id!r}. List them: /answers")
        return row | {"citations": tables.citations.get(query_id, [])}

    def cost(self) -> dict[str, Any]:
        """Return the name of the last finished night and the dollars that it was billed."""
        done = [night for night in nights(self._folder) if night.phase == "done"]
        if not done:
            return {"name": None, "billed_usd": 0.0}
        run = self._folder.at(NIGHTS, done[-1].name, RUN)
        return {"name": done[-1].name, "billed_usd": bill(table(run, "ledger", COLUMNS)).billed_usd}

    def _matches(self, row: Mapping[str, Any], document: str, column: str, status: str) -> bool:
        documents = [row["doc_id"] or "", *(row["scope"] or "").split("; ")]
        if document and not any(fnmatchcase(each, document) for each in documents):
            return False
        return (not column or column in (row["asked_id"], row["query_id"])) and (not status or row["status"] == status)

    def _read(self) -> _Tables:
        current = self._folder.at(CURRENT)
        try:
            begun = current.read_bytes(BEGUN) if current.exists(BEGUN) else b"{}"
            seen = begun, *current.at("answers").names()
            if self._tables is not None and self._tables.seen == seen:
                return self._tables
            exported = Exported.of(current)
        except (InputError, FileNotFoundError) as error:
            raise Refused(404, "no_night", "No night has ended yet, so there are no answers of one.") from error
        citations: dict[str, list[dict[str, Any]]] = {}
        for row in exported.citations.to_pylist():
            citations.setdefault(row["query_id"], []).append(self._plain(row))
        night = str(json.loads(begun).get("night") or "")
        self._tables = _Tables(seen, night, [self._plain(row) for row in exported.answers.to_pylist()], citations)
        return self._tables

    def _plain(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: value.isoformat() if isinstance(value, (date, datetime)) else value
            for name, value in row.items()
            if self._links or name not in _PLACES
        }
