"""OpenAI's chat completions over a service: requests, replies and streamed chunks."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from okralong.pipelines.serving.asked import AskRequest, Event, Refused

MODEL: Final = "okralong"
"""The name of the only model."""


class ChatRequest(BaseModel):
    """The fields of a request that the service uses; others, such as the temperature, are accepted and ignored.

    The last message of the user is the question; earlier messages are not read. ``doc_ids``, ``where``, ``type`` and
    ``choices`` are those of ``/ask`` (``extra_body`` in OpenAI's SDK).
    """

    model_config = ConfigDict(extra="ignore")

    messages: list[dict[str, Any]] = Field(min_length=1)
    model: str = MODEL
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    n: int | None = 1
    tools: list[Any] | None = None
    doc_ids: list[str] = Field(default_factory=list)
    where: str = ""
    type: str = ""
    choices: list[str] = Field(default_factory=list)

    def to_asked(self) -> AskRequest:
        """Return the question. Raises Refused."""
        if self.model != MODEL:
            raise Refused(404, "model_not_found", f"There is no model {self.model!r}; the model is {MODEL!r}.")
        if (self.n or 1) != 1:
            raise Refused(422, "invalid_request", "n may only be 1: a question has one answer.")
        if self.tools:
            raise Refused(422, "invalid_request", "tools are not supported: the service answers questions itself.")
        words = [_text(each.get("content")) for each in self.messages if each.get("role") == "user"]
        if not words or not words[-1].strip():
            raise Refused(422, "invalid_request", "No message of the user has text. The last one is the question.")
        given = {"doc_ids": self.doc_ids, "where": self.where, "type": self.type, "choices": self.choices}
        return AskRequest(question=words[-1].strip(), **given)  # type: ignore[arg-type]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def models() -> dict[str, Any]:
    """Return the reply of ``/v1/models``."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "okralong"}]}


def written(answer: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of an answer with its numbered sources, and the annotations that point to the numbers."""
    if answer["status"] != "answered":
        why = {"unanswerable": "The documents do not say it."}.get(answer["status"], answer.get("error") or "")
        return f"No answer ({answer['status']}). {why}".strip(), []
    text, lines = str(answer["answer"]), list[str]()
    annotations: list[dict[str, Any]] = []
    for number, each in enumerate(answer["citations"], start=1):
        mark = f" [{number}]"
        title = ", ".join(filter(None, (each["title"] or each["document"], each["place"])))
        source = {"title": title, "url": each.get("link") or f"okralong:{each['document']}"}
        place = {"start_index": len(text) + 1, "end_index": len(text) + len(mark)}
        annotations.append({"type": "url_citation", "url_citation": source | place})
        lines.append(f"[{number}] {title}: \u201c{' '.join(each['quote'].split())}\u201d")
        text += mark
    return "\n\n".join([text, "\n".join(lines)] if lines else [text]), annotations


def usage(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of an answer; those of a replayed one were used when it was made."""
    prompt, completion = answer["prompt_tokens"] or 0, answer["completion_tokens"] or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": answer["cached_tokens"] or 0},
    }


def completion(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion that is not streamed. ``okralong`` in the message has the whole answer."""
    text, annotations = written(answer)
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": annotations, "okralong": answer}
    return _envelope("chat.completion", answer) | {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": usage(answer),
    }


def _envelope(kind: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer['query_id']}", "object": kind, "created": int(time.time()), "model": MODEL}


async def streamed(events: AsyncIterator[Event], with_usage: bool) -> AsyncIterator[str]:
    """Yield the lines of a streamed completion. Plans and sources become comments, which clients ignore."""
    begun = False
    try:
        async for event in events:
            begun = True
            if event.name != "answer":
                yield f": {event.name}\n\n"
                continue
            for chunk in _chunks(event.data, with_usage):
                yield f"data: {json.dumps(chunk)}\n\n"
            yield "data: [DONE]\n\n"
    except Refused as error:
        if not begun:
            raise
        yield f"data: {json.dumps(error.body())}\n\n"


def _chunks(answer: Mapping[str, Any], with_usage: bool) -> Iterator[dict[str, Any]]:
    text, annotations = written(answer)
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": ""}, None),
        ({"content": text, "annotations": annotations, "okralong": answer}, None),
        ({}, "stop"),
    ]
    base = _envelope("chat.completion.chunk", answer)
    for delta, reason in deltas:
        yield base | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]}
    if with_usage:
        yield base | {"choices": [], "usage": usage(answer)}
