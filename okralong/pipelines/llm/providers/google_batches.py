"""Google's Batch API, with requests and results in files.

https://ai.google.dev/gemini-api/docs/batch-api describes the protocol.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

import httpx2
from google.genai import errors, types
from google.genai.client import AsyncClient

from okralong.pipelines.llm.providers.base import BatchApi, BatchError, RemoteBatch, checked_id, whole
from okralong.pipelines.llm.providers.gemini import TOO_LONG, GeminiDialect
from okralong.pipelines.llm.records import Call
from okralong.pipelines.llm.usage import mapping

LAST_RESPONSE: ContextVar[httpx2.Response | None] = ContextVar("response", default=None)
"""The last response that the current task received: the SDK's objects lack some of what it says."""
PAGE: Final = 100
MOST_PAGES: Final = 10_000  # project default
"""Number of pages after which a list of batches counts as endless."""
TRANSFER_MS: Final = 1_800_000  # project default
"""The longest pause in milliseconds during the transfer of a file."""
HTTP_STATUS: Final = {1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}
"""HTTP statuses of google.rpc codes, which errors within a batch have."""
ENDED: Final = {
    "SUCCEEDED": "completed",
    "PARTIALLY_SUCCEEDED": "completed",
    "FAILED": "failed",
    "EXPIRED": "expired",
    "CANCELLED": "cancelled",
}
"""The ends of ``BATCH_STATE_`` or ``JOB_STATE_``, and our names of them."""


class GoogleBatches(BatchApi):
    """The batches of one run. A batch is recognized by its display name."""

    def __init__(self, api: AsyncClient, model: str, run_id: str) -> None:
        self._api, self._model, self._run_id = api, model, run_id

    def line(self, custom_id: str, body: str) -> bytes:
        """See ``BatchApi``."""
        given = json.loads(body)
        request: dict[str, Any] = {"contents": given.pop("contents")}
        if (said := given.pop("system_instruction", None)) is not None:
            request["systemInstruction"] = {"parts": [{"text": said}]}
        thinking = given.pop("thinking_config", None)
        config = {_camel(name): value for name, value in given.items()}
        if thinking is not None:
            config["thinkingConfig"] = {_camel(name): value for name, value in thinking.items()}
        request["generationConfig"] = config
        return (json.dumps({"key": custom_id, "request": request}, separators=(",", ":")) + "\n").encode()

    async def upload(self, lines: Sequence[bytes]) -> str:
        """Upload an input file; return its name."""
        options = types.HttpOptions(timeout=TRANSFER_MS)
        config = types.UploadFileConfig(mime_type="application/jsonl", http_options=options)
        made = await self._api.files.upload(file=io.BytesIO(b"".join(lines)), config=config)
        return f"files/{_own_id(made.name, 'files')}"

    async def create(self, uploaded: str, number: int) -> RemoteBatch:
        """See ``BatchApi``."""
        config = types.CreateBatchJobConfig(display_name=self._name(number))
        await self._api.batches.create(model=self._model, src=uploaded, config=config)
        return _batch(_told())

    async def find(self, wanted: Mapping[int, Sequence[Call]]) -> dict[int, list[RemoteBatch]]:
        """Read the account's list of batches until all are found, or to its end."""
        names = {self._name(number): number for number in wanted}
        found: dict[int, list[RemoteBatch]] = defaultdict(list)
        missing, seen, token = set(wanted), set[str](), None
        for _ in range(MOST_PAGES):
            config = types.ListBatchJobsConfig(page_size=PAGE, page_token=token)
            await self._api.batches.list(config=config)
            page = _told()
            listed = page.get("operations")
            new = [each for each in map(mapping, listed if isinstance(listed, list) else []) if _key(each) not in seen]
            for each in new:
                seen.add(_key(each))
                number = names.get(str(mapping(each.get("metadata")).get("displayName")))
                if number is not None:
                    found[number].insert(0, _batch(each))
                    missing.discard(number)
            token = page.get("nextPageToken")
            if not missing or not new or not isinstance(token, str) or not token:
                return dict(found)
        raise ValueError(f"its list of batches has more than {MOST_PAGES} pages")

    async def look(self, batch_id: str) -> RemoteBatch:
        """See ``BatchApi``."""
        await self._api.batches.get(name=f"batches/{batch_id}")
        return _batch(_told())

    async def cancel(self, batch_id: str) -> None:
        """See ``BatchApi``."""
        try:
            await self._api.batches.cancel(name=f"batches/{batch_id}")
        except errors.ClientError as error:
            if error.code not in (400, 409):  # it has ended, or is about to
                raise

    async def read(self, file_id: str, most_bytes: int) -> bytes:
        """See ``BatchApi``."""
        content = _Content(most_bytes)
        try:
            config = types.DownloadFileConfig(http_options=types.HttpOptions(timeout=TRANSFER_MS))
            await self._api.files.download(file=f"files/{file_id}", destination=content, config=config)
        except _FullError:  # the last line then cannot be parsed
            pass
        return content.getvalue()

    def result(self, line: dict[str, Any]) -> dict[str, Any]:
        """See ``BatchApi``."""
        custom_id, told = line["key"], mapping(line.get("response"))
        if told:
            body: object = GeminiDialect().whole(told)
            response = {"status_code": 200, "request_id": told.get("responseId"), "body": body}
            return {"custom_id": custom_id, "response": response}
        error = mapping(line.get("error"))
        code, said = error.get("code"), str(error.get("message"))
        named = {"code": "context_length_exceeded"} if TOO_LONG.search(said) else {}
        status = HTTP_STATUS.get(code, 500) if isinstance(code, int) else 500
        response = {"status_code": status, "request_id": "", "body": {"error": {"message": said, **named}}}
        return {"custom_id": custom_id, "response": response}

    def _name(self, number: int) -> str:
        return f"okralong {self._run_id} {number}"


class _FullError(Exception):
    """A file is longer than the bytes that are read."""


class _Content(io.BytesIO):
    """The beginning of a file."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._room = most_bytes

    def write(self, data: Any) -> int:
        written = super().write(data[: self._room])
        self._room -= written
        if written < len(data):
            raise _FullError
        return written


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _told() -> Mapping[str, Any]:
    """Return the JSON of the response that the SDK has just read; its own objects lack counts and errors."""
    response = LAST_RESPONSE.get()
    found = None if response is None else response.json()
    if not isinstance(found, Mapping):
        raise ValueError("a body that is no object")
    return found


def _key(batch: Mapping[str, Any]) -> str:
    return str(batch.get("name"))[:200]


def _own_id(name: object, kind: str) -> str:
    """Return the id in the name of a resource, such as ``batches/ID``."""
    return checked_id(str(name).removeprefix(f"{kind}/") if name else None)


def _batch(told: Mapping[str, Any]) -> RemoteBatch:
    """Read an operation. Raises ValueError if it has no name or state."""
    metadata = mapping(told.get("metadata"))
    state = metadata.get("state")
    if not isinstance(state, str):
        raise ValueError("a batch without a state")
    output = mapping(metadata.get("output")) or mapping(told.get("response"))
    file, error = output.get("responsesFile"), mapping(told.get("error"))
    said = str(error.get("message"))[:500]
    stats = metadata.get("batchStats")
    return RemoteBatch(
        id=_own_id(told.get("name"), "batches"),
        status=ENDED.get(state.split("_STATE_")[-1], "in_progress"),
        output_file_id=None if file is None else _own_id(file, "files"),
        errors=(BatchError(str(error.get("code")), said),) if error else (),
        completed=_counted(stats, "successfulRequestCount"),
        total=_counted(stats, "requestCount"),
    )


def _counted(stats: object, name: str) -> int | None:
    """Return a count, which is a string; one of 0 is left out."""
    if not isinstance(stats, Mapping):
        return None
    text = str(stats.get(name, "0"))
    return whole(int(text)) if text.isascii() and text.isdecimal() and len(text) <= 10 else None
