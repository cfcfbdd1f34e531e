"""OpenAI's protocol, which Azure and many other servers speak too, on the SDK ``openai``.

https:

platform.openai.com/docs/guides/batch describes the Batch API.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Final

import openai

from okralong.pipelines.llm.completion import name_of
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.providers.base import (
    MOST_NAMED,
    BatchApi,
    BatchError,
    Connection,
    RemoteBatch,
    checked_id,
    whole,
)
from okralong.pipelines.llm.providers.fields import RequestFields
from okralong.pipelines.llm.providers.stainless import StainlessProvider, open_http
from okralong.pipelines.llm.records import Call
from okralong.pipelines.llm.request import LlmRequest, prefix_key

CHAT_URL: Final = "/v1/chat/completions"
RUN_KEY: Final = "okralong_run"
BATCH_KEY: Final = "okralong_wave"
"""Keys of a batch's metadata: the id of the run, and the number of the batch within the run."""
PAGE: Final = 100
MOST_PAGES: Final = 10_000  # project default
"""Number of pages after which a list of batches counts as endless (a million batches)."""
LONG_LIST: Final = 5  # project default
"""Number of pages after which the user gets a note that the list is long."""
TRANSFER_S: Final = 1800.0  # project default
"""The longest pause in seconds during the transfer of a file; 200 MB take minutes."""
_KEYED = re.compile(r"//([^/]+\.)?(openai\.com|azure\.com|mistral\.ai)(/|:|\Z)")
"""Hosts of endpoints that document ``prompt_cache_key`` (November 2026)."""


def open_client(config: EndpointConfig, connection: Connection) -> openai.AsyncOpenAI:
    """Open the SDK's client, with its retries turned off. Raises ConfigError as ``open_http`` does."""
    http, timeout = open_http(openai, connection)
    shared: Any = {"api_key": connection.key, "max_retries": 0, "timeout": timeout, "http_client": http}
    if config.api_version is None:
        return openai.AsyncOpenAI(base_url=connection.address, **shared)
    return openai.AsyncAzureOpenAI(
        azure_endpoint=connection.address, azure_deployment=config.model, api_version=config.api_version, **shared
    )


def open_provider(config: EndpointConfig, connection: Connection, prompt_cache: str) -> OpenAiProvider:
    """Open an endpoint; see ``endpoint.open_provider``."""
    return OpenAiProvider(config, connection.key, open_client(config, connection), prompt_cache)


class OpenAiProvider(StainlessProvider):
    """OpenAI, Azure, and servers with OpenAI's protocol."""

    sdk: ClassVar[ModuleType] = openai
    path: ClassVar[str] = "/chat/completions"
    options: ClassVar[Mapping[str, Any]] = {"security": {"bearer_auth": True}}

    def __init__(self, endpoint: EndpointConfig, key: str, http: openai.AsyncOpenAI, prompt_cache: str) -> None:
        """``prompt_cache`` is ``llm.prompt_cache_key``."""
        super().__init__(endpoint, key, http)
        self._keyed = prompt_cache == "always" or (
            prompt_cache == "auto" and _KEYED.search(endpoint.base_url) is not None
        )

    def body(self, request: LlmRequest, fields: RequestFields, *, shared: bool = False) -> dict[str, Any]:
        """See ``Provider``."""
        left_out = fields.left_out(request.json_schema)
        body = request.parameters(fields.limit_field, self.endpoint.model, left_out)
        body |= body.pop("extra_body", {})
        if self._keyed and "prompt_cache_key" not in left_out and (key := prefix_key(request.messages)) is not None:
            body["prompt_cache_key"] = key
        return body

    def batch_api(self, run_id: str, tell: Callable[[str], None]) -> BatchApi:
        """See ``Provider``."""
        return OpenAiBatches(self.http, run_id, tell)


class OpenAiBatches(BatchApi):
    """OpenAI's Batch API. A batch is recognized by the run and the number in its metadata."""

    def __init__(self, http: openai.AsyncOpenAI, run_id: str, tell: Callable[[str], None]) -> None:
        self._http, self._run_id, self._tell = http, run_id, tell

    def line(self, custom_id: str, body: str) -> bytes:
        """See ``BatchApi``."""
        return f'{{"custom_id":"{custom_id}","method":"POST","url":"{CHAT_URL}","body":{body}}}\n'.encode()

    async def upload(self, lines: Sequence[bytes]) -> str:
        """Upload an input file; return its id."""
        files = self._http.with_options(timeout=TRANSFER_S).files
        return str((await files.create(file=("requests.jsonl", b"".join(lines)), purpose="batch")).id)

    async def create(self, uploaded: str, number: int) -> RemoteBatch:
        """See ``BatchApi``."""
        marks = {RUN_KEY: self._run_id, BATCH_KEY: str(number)}
        return _read(
            await self._http.batches.create(
                input_file_id=uploaded, endpoint=CHAT_URL, completion_window="24h", metadata=marks
            )
        )

    async def find(self, wanted: Mapping[int, Sequence[Call]]) -> dict[int, list[RemoteBatch]]:
        """Read the account's list of batches until all are found, or to its end."""
        return await self._listed(wanted.keys())

    async def look(self, batch_id: str) -> RemoteBatch:
        """See ``BatchApi``."""
        return _read(await self._http.batches.retrieve(batch_id))

    async def cancel(self, batch_id: str) -> None:
        """See ``BatchApi``."""
        try:
            await self._http.batches.cancel(batch_id)
        except (openai.ConflictError, openai.BadRequestError):  # it has ended, or is about to
            return

    async def read(self, file_id: str, most_bytes: int) -> bytes:
        """See ``BatchApi``."""
        files = self._http.with_options(timeout=TRANSFER_S).files
        parts: list[bytes] = []
        left = most_bytes
        async with files.with_streaming_response.content(file_id) as response:
            async for part in response.iter_bytes():
                parts.append(part[:left])
                left -= len(parts[-1])
                if not left:  # skip the rest; the last line then cannot be parsed
                    break
        return b"".join(parts)

    async def _listed(self, numbers: Collection[int]) -> dict[int, list[RemoteBatch]]:
        found: dict[int, list[RemoteBatch]] = defaultdict(list)
        missing, seen = set(numbers), set[str]()
        page = await self._http.batches.list(limit=PAGE)  # the newest first
        for count in range(1, MOST_PAGES + 1):
            new = [batch for batch in page.data or [] if name_of(getattr(batch, "id", "")) not in seen]
            for batch in new:
                seen.add(name_of(getattr(batch, "id", "")))
                number = self._number_of(batch)
                if number in numbers:
                    found[number].insert(0, _read(batch))
                    missing.discard(number)
            if not missing or not new or not page.has_next_page():
                return dict(found)
            if count == LONG_LIST:
                self._tell(
                    f"The account has more than {PAGE * LONG_LIST} batches. All are listed, to find those that this "
                    "run may have created before it was stopped; this may take some minutes."
                )
            page = await page.get_next_page()
        raise ValueError(f"its list of batches has more than {MOST_PAGES} pages")

    def _number_of(self, batch: Any) -> int:
        """Return the batch's number within this run, or 0 if another run created it."""
        marks = batch.metadata if isinstance(getattr(batch, "metadata", None), Mapping) else {}
        number = str(marks.get(BATCH_KEY))[:10]
        own = marks.get(RUN_KEY) == self._run_id and number.isascii() and number.isdecimal()
        return int(number) if own else 0


def _read(batch: Any) -> RemoteBatch:
    """Convert a batch of the SDK, which does not check types. Raises ValueError if it has no id or status."""
    status = getattr(batch, "status", None)
    if not isinstance(status, str):
        raise ValueError("a batch without a status")
    told = getattr(getattr(batch, "errors", None), "data", None)
    counts = getattr(batch, "request_counts", None)
    return RemoteBatch(
        id=checked_id(getattr(batch, "id", None)),
        status=name_of(status),
        output_file_id=_file_id(getattr(batch, "output_file_id", None)),
        error_file_id=_file_id(getattr(batch, "error_file_id", None)),
        errors=tuple(_error(each) for each in (told if isinstance(told, list) else [])[:MOST_NAMED]),
        completed=whole(getattr(counts, "completed", None)),
        total=whole(getattr(counts, "total", None)),
    )


def _error(told: Any) -> BatchError:
    code, message = (name_of(getattr(told, name, None)) for name in ("code", "message"))
    return BatchError(code or "unnamed", message, whole(getattr(told, "line", None)))


def _file_id(told: object) -> str | None:
    return None if told is None or told == "" else checked_id(told)
