"""Requests to a service, the questions that they ask, and the events of their answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol, Self

from pydantic import Field

from okralong.pipelines.answering.answer_types import names_schema_file, slow_schema_reason
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.reporting.cited import Cited
from okralong.pipelines.run.questions import read_questions
from okralong.pipelines.serving.tokens import Caller

SOURCES_SHOWN: Final = 8
"""Places in an event ``sources``. # project default"""
MOST_FOUND: Final = 50
"""Most chunks that a search returns. # project default"""
MOST_ROWS: Final = 500
"""Most answers on a page. # project default"""
MOST_NAME_CHARS: Final = 1_000
"""Longest entry of ``doc_ids`` or ``choices``. # project default"""
RETRY_S: Final = 30
"""Seconds after which a service that cannot answer now may be asked again. # project default"""


class Refused(Exception):
    """Raised for a request that gets an error: HTTP status, kind and message.

    ``retry_after_s`` is 0 if it is unknown. ``cost_usd`` is the cost of a question that failed.
    """

    def __init__(
        self, status: int, kind: str, message: str, retry_after_s: int = 0, *, cost_usd: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.retry_after_s, self.cost_usd = status, kind, retry_after_s, cost_usd or 0.0

    def body(self) -> dict[str, Any]:
        """Return the reply in the form of OpenAI's errors."""
        return {"error": {"message": str(self), "type": self.kind, "code": self.kind, "param": None}}


class AskRequest(Settings):
    """A question to the archive: ``/ask``.

    - ``question``: its words.
    - ``doc_ids``: ids or patterns of documents; by default the whole archive.
    - ``where``: a filter over the documents' metadata.
    - ``type``: the type of the answer, such as money, date or list of text; by default text.
    - ``choices``: the possible answers, with the type choices.
    """

    question: str
    doc_ids: list[Annotated[str, Field(max_length=MOST_NAME_CHARS)]] = Field(default_factory=list, max_length=1_000)
    where: str = ""
    type: str = ""
    choices: list[Annotated[str, Field(max_length=MOST_NAME_CHARS)]] = Field(default_factory=list, max_length=100)

    def to_question(self, query_id: str, most_chars: int) -> Question:
        """Return the question. Raises Refused if it cannot be asked."""
        if not self.question.strip():
            raise Refused(422, "invalid_request", "The question is empty. Write its text.")
        longest = max(len(self.question), len(self.where), len(self.type))
        if longest > most_chars:
            raise Refused(
                422,
                "too_long",
                f"The question, its filter or type has {longest:,} characters; {most_chars:,} are the limit.",
            )
        if names_schema_file(self.type.strip()):
            raise Refused(
                422, "invalid_request", "type names a file. Give the JSON schema itself, or a kind of answer."
            )
        if any(each.strip().lower() == "each" for each in self.doc_ids):
            raise Refused(
                422, "invalid_request", "A request asks one question: doc_ids may not be 'each'. Name documents."
            )
        row: dict[str, Any] = {"query_id": query_id, "question": self.question}
        given = {"doc_ids": self.doc_ids, "where": self.where, "answer_type": self.type, "choices": self.choices}
        row |= {name: value for name, value in given.items() if value}
        try:
            (question,), _ = read_questions([row])
        except Exception as error:  # InputError; its message names a file of questions, which nobody sent
            raise Refused(422, "invalid_request", _without_place(str(error))) from error
        if why := slow_schema_reason(self.type):
            raise Refused(
                422, "invalid_request", f"Checking answers against this JSON schema could take very long: {why}."
            )
        return question


def _without_place(message: str) -> str:
    for words in ("No row of the questions given can be asked. The first problem: ", "the questions given, row 1: "):
        message = message.replace(words, "")
    return message


def query_id_of(caller: str, asked: AskRequest, setup: str, key: str) -> str:
    """Return the id of a question: the same request of the same token has the same id, in the run of one day.

    ``setup`` is the fingerprint of the run. ``key`` is the header ``Idempotency-Key``: another key asks again.
    """
    parts = [caller, asked.model_dump(mode="json"), setup, key]
    return f"{caller}.{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]}"


def caller_of(query_id: str) -> str:
    """Return the name of the token that asked a question; "" for artifacts, which all questions share."""
    return "" if "/" in query_id else query_id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an answer in progress: ``plan``, ``sources``, ``answer`` or ``error``, and its data."""

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def sse(self) -> str:
        """Return it as a server-sent event."""
        # In ASCII: some clients take U+2028, which documents have, for the end of a line.
        return f"event: {self.name}\ndata: {json.dumps(self.data)}\n\n"


PLAN_KEYS: Final = ("workflow", "granularity", "count", "max_sub_questions", "max_steps", "reasons")


def plan_event(row: JournalRow) -> Event:
    """Return the event of a recorded plan."""
    plan = json.loads(row.body)
    return Event("plan", {name: plan[name] for name in PLAN_KEYS if name in plan})


def retrieved_spans(row: JournalRow) -> list[dict[str, Any]]:
    """Return the first chunks of a recorded retrieval, exact and semantic ones in turn, each once."""
    body = json.loads(row.body)
    found: dict[str, dict[str, Any]] = {}
    lists = [body["exact"], body["semantic"]]
    for rank in range(max(map(len, lists), default=0)):
        for hits in lists:
            if rank < len(hits):
                chunk_id, doc_id, *_ = hits[rank]
                start, end = hits[rank][4], hits[rank][5]
                found.setdefault(chunk_id, {"doc_id": doc_id, "start_char": start, "end_char": end})
    return list(found.values())[:SOURCES_SHOWN]


def citation(each: Cited, links: bool, *, quote: bool = True) -> dict[str, Any]:
    """Return the JSON of a citation, with the document's address only if ``links``."""
    told: dict[str, Any] = {
        "document": each.doc_id,
        "title": each.title or None,
        "place": each.section or None,
        "page": each.page,
        "start_char": each.start_char,
        "end_char": each.end_char,
        "sha256": each.sha256 or None,
    }
    if quote:
        told["quote"] = each.quote
    if links:
        told["link"] = each.link or None
    return told


ANSWER_KEYS: Final = (
    *("query_id", "question", "status", "answer", "answer_type", "value", "number", "unit", "scale", "currency"),
    *("period", "confidence", "strategy", "replied_by", "calls", "prompt_tokens", "cached_tokens"),
    *("completion_tokens", "cost_usd", "error"),
)
"""Columns of an answers row that an event ``answer`` repeats."""


def answer_data(row: Mapping[str, Any], citations: Sequence[Mapping[str, Any]], replayed: bool) -> dict[str, Any]:
    """Return the data of an event ``answer``. ``replayed``: it was answered before, so it cost nothing this time."""
    told = {name: row.get(name) for name in ANSWER_KEYS}
    told["seconds"] = dict(row.get("seconds") or ()).get("total")
    return told | {"citations": list(citations), "replayed": replayed}


def check_answered(row: Mapping[str, Any]) -> None:
    """Raise Refused for the answers row of a question that failed or did not fit the budget."""
    said = str(row["error"] or "").partition("\n")[0]
    if row["status"] == "over_budget":
        raise Refused(402, "budget_exhausted", said, cost_usd=row["cost_usd"])
    if row["status"] == "failed":
        raise Refused(502, "failed", said or "The question could not be answered.", cost_usd=row["cost_usd"])


class ServicePort(Protocol):
    """A service as its protocols (HTTP, OpenAI's, MCP) use it; ``jobs/service.py`` implements it.

    It is open within ``async with``.
    """

    async def __aenter__(self) -> Self:
        """Open it. Raises OkraError if the archive or config cannot be used."""
        ...

    async def __aexit__(self, kind: Any, error: Any, at: Any) -> None:
        """Send nothing more, wait for the calls in flight, and close it."""
        ...

    def ask(self, caller: Caller, asked: AskRequest, key: str = "") -> AsyncIterator[Event]:
        """Yield the events of an answer; closing the iterator abandons the question. Raises Refused."""
        ...

    async def search(self, asked: AskRequest, count: int) -> list[dict[str, Any]]:
        """Return the chunks that fit best, with scores; calls no generator. Raises Refused."""
        ...

    async def tonight(
        self, document: str = "", column: str = "", status: str = "", offset: int = 0, limit: int = 50
    ) -> dict[str, Any]:
        """Return a page of the last night's answers. Raises Refused if there is no night."""
        ...

    async def answer_of(self, query_id: str) -> dict[str, Any]:
        """Return an answer of the last night with all its citations. Raises Refused."""
        ...

    async def cost(self, caller: Caller) -> dict[str, Any]:
        """Return the US dollars spent today and in the last night, and those left."""
        ...

    async def facts(self) -> dict[str, Any]:
        """Return the service's state and the version of its archive."""
        ...


async def final(events: AsyncIterator[Event]) -> dict[str, Any]:
    """Return the data of the event ``answer``."""
    async with aclosing(events):  # type: ignore[type-var]
        async for event in events:
            if event.name == "answer":
                return dict(event.data)
    raise Refused(500, "internal_error", "The question ended without an answer.")
