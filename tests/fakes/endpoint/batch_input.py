"""Checking a batch's input file, line by line, as the endpoint does before it works on any of it.

Wrong lines are told with their number; one is enough to fail the batch. A body that a chat request would be refused for
is none of these: it fails by itself, later, and has a line in the error file. Codes and messages are those that
OpenAI's and Azure's guides list, or the nearest that is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

MOST_ERRORS: Final = 100
"""More are not told."""

BatchError = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One request of a batch."""

    custom_id: str
    body: dict[str, Any]


class _Wrong(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.param = code, param


def error(code: str, message: str, line: int | None = None, param: str | None = None) -> BatchError:
    """One of a batch's validation errors; ``line`` counts from 1."""
    return {"code": code, "message": message, "line": line, "param": param}


def read_items(content: bytes, url: str, models: frozenset[str], most: int) -> tuple[list[BatchItem], list[BatchError]]:
    """The requests of an input file, and what is wrong with it; a batch with any error is not worked on."""
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    if not lines:
        message = "The input file is empty. Please ensure that the batch contains at least one request."
        return [], [error("empty_file", message)]
    if len(lines) > most:
        message = f"The input file holds {len(lines)} requests, which exceeds the maximum of {most}."
        return [], [error("too_many_tasks", message)]
    items: list[BatchItem] = []
    errors: list[BatchError] = []
    seen: set[str] = set()
    model: str | None = None
    for number, line in lines:
        try:
            item = _item(line, url)
            if item.custom_id in seen:
                message = f"The custom_id '{item.custom_id}' is used by more than one request of this batch."
                raise _Wrong("duplicate_custom_id", message, "custom_id")
            seen.add(item.custom_id)
            model = model or item.body["model"]
            _check_model(item.body["model"], model, models)
        except _Wrong as wrong:
            errors.append(error(wrong.code, str(wrong), number, wrong.param))
        else:
            items.append(item)
    return items, errors[:MOST_ERRORS]


def _item(line: bytes, url: str) -> BatchItem:
    try:
        request = json.loads(line)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        raise _Wrong("invalid_json_line", "This line is not parseable as valid JSON.")
    for param in _lacking(request):
        raise _Wrong("missing_required_parameter", f"Missing required parameter: '{param}'.", param)
    if request["method"] != "POST":
        raise _Wrong("invalid_method", f"Invalid method: '{request['method']}'. Only POST is supported.", "method")
    if request["url"] != url:
        raise _Wrong("invalid_url", "The URL provided for this request does not match the batch endpoint.", "url")
    return BatchItem(request["custom_id"], request["body"])


def _lacking(request: dict[str, Any]) -> Iterator[str]:
    for param, kind in (("custom_id", str), ("method", str), ("url", str), ("body", dict)):
        if not isinstance(request.get(param), kind) or not request[param]:
            yield param
    if not isinstance(request.get("body", {}).get("model"), str):
        yield "body.model"


def _check_model(named: str, first: str, models: frozenset[str]) -> None:
    if named not in models:
        raise _Wrong(
            "model_not_found", f"The provided model '{named}' is not supported by the Batch API.", "body.model"
        )
    if named != first:
        message = (
            f"The provided model '{named}' does not match the rest of the batch, which uses '{first}'. "
            "Each batch must contain only requests for a single model."
        )
        raise _Wrong("mismatched_model", message, "body.model")
