"""The interface of a provider: everything that depends on a company's protocol or SDK, for one open endpoint.

``Provider`` sends requests and reads replies, errors and headers. ``BatchApi`` does so for batches. Replies are
translated to the form of OpenAI's chat completion (``completion.Dialect``), because all checks are written for it, and
the lines of a batch's results to that of OpenAI's Batch API. Limits, budget, journal, retries and resuming are the same
for all providers, and elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import Message
from okralong.pipelines.llm.completion import Received
from okralong.pipelines.llm.config import PROVIDERS, EndpointConfig
from okralong.pipelines.llm.errors import ApiError, Asked
from okralong.pipelines.llm.providers.fields import RequestFields, WireFields
from okralong.pipelines.llm.rate_limit import RateLimitHeaders, read_headers
from okralong.pipelines.llm.records import NAME_CHARS, Call
from okralong.pipelines.llm.request import LlmRequest, prefix_key
from okralong.pipelines.llm.usage import Bounds

CHECK_TIMEOUT_S: Final = 10.0
MOST_NAMED: Final = 100  # project default
"""The most errors that are read per batch. Endpoints may not list more, so if there are this many, any line may be
wrong."""
ENDED: Final = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class Connection:
    """How requests reach an endpoint.

    Attributes:
        address: The endpoint's URL, or that at which an embedded model listens.
        key: The endpoint's key.
        timeout_s: Seconds after which a request times out.
        transport: An httpx transport that replaces the network.
        uploads: Whether large requests are sent. They go through httpx, since aiohttp never ends a large upload that
            the server stops reading.
        on_headers: Function that is called with the headers of each response.
    """

    address: str
    key: str
    timeout_s: float = CHECK_TIMEOUT_S
    transport: Any = None
    uploads: bool = False
    on_headers: Callable[[Mapping[str, str]], None] | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a request for models, batches or files.

    ``status`` is the HTTP status, 0 without a response, and None if a response cannot be read. ``said`` is what the
    server or the system says, without keys.
    """

    status: int | None
    said: str


class Provider(ABC):
    """An open endpoint. Its SDK never retries, because each attempt needs a ledger row."""

    wire: ClassVar[WireFields] = WireFields()
    request_id_header: ClassVar[str] = "x-request-id"
    caches_on_request: ClassVar[bool] = False
    """True if a prefix is cached only on request."""

    def __init__(self, endpoint: EndpointConfig, key: str) -> None:
        self.endpoint, self.key = endpoint, key

    @property
    def asked(self) -> Asked:
        """The description of the endpoint for messages."""
        asked = Asked(self.endpoint.base_url, self.endpoint.model, self.endpoint.api_key_env)
        official = PROVIDERS[self.endpoint.provider].base_url
        return replace(asked, form=f"such as {official}") if official else asked

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""

    @abstractmethod
    def body(self, request: LlmRequest, fields: RequestFields, *, shared: bool = False) -> dict[str, Any]:
        """Return the body of a request, with those of its fields that the endpoint accepts.

        ``shared`` means that another prompt begins alike (see ``PrefixTurns``), so that caching the prefix pays. The
        caller adds ``fields.streaming`` and ``tier`` for calls in real time, and nothing for batches.
        """

    def prefix_key(self, messages: Sequence[Message]) -> str | None:
        """Return a hash of the prefix that the endpoint caches, None for prompts that are too short."""
        return prefix_key(messages)

    def permit_tokens(self, prompt_tokens: int, max_tokens: int) -> int:
        """Return the tokens that a request takes from the endpoint's limit of tokens per minute."""
        return prompt_tokens + max_tokens

    def tier(self, flex: bool) -> dict[str, Any]:
        """Return the fields of a request that choose the flex or the standard tier."""
        return {"service_tier": "flex" if flex else "default"}

    @abstractmethod
    async def send(
        self, body: Mapping[str, Any], bounds: Bounds, count: CountTokens, timeout_s: float | None = None
    ) -> tuple[Received, Mapping[str, str]]:
        """Send a request; return its reply as a chat completion, and the headers of the response.

        Without ``timeout_s``, the timeout with which the endpoint was opened applies. Raises any exception that
        ``api_error`` classifies.
        """

    @abstractmethod
    def api_error(self, error: Exception) -> ApiError:
        """Classify an exception of ``send`` or of the batches."""

    @abstractmethod
    def failure(self, error: Exception) -> Failure:
        """Return the status and words of an exception of ``model_names`` or of the batches."""

    @abstractmethod
    def error_headers(self, error: Exception) -> Mapping[str, str]:
        """Return the headers of the error response behind ``error``, {} without a response."""

    def rate_limits(
        self,
        headers: Mapping[str, str],
        *,
        taken: bool,
        slow_down: bool = False,
        retry_after: float | None = None,
    ) -> RateLimitHeaders:
        """Return the rate limits in the headers of a response (see ``RateLimitHeaders``)."""
        return read_headers(headers, taken=taken, slow_down=slow_down, retry_after=retry_after)

    @abstractmethod
    async def model_names(self) -> list[str]:
        """List the endpoint's models, which is free."""

    @abstractmethod
    async def has_batches(self) -> bool | None:
        """Return whether the endpoint has a Batch API; None if unknown."""

    @abstractmethod
    def batch_api(self, run_id: str, tell: Callable[[str], None]) -> BatchApi:
        """Return the endpoint's batches of the run ``run_id``; ``tell`` passes a note to the user."""


@dataclass(frozen=True, slots=True)
class BatchError:
    """An error of a batch; ``line`` counts from 1, or is None if the error is not about a single line."""

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as the endpoint describes it; a count is None if it is missing or impossible.

    ``status`` is one of ``ENDED``, or anything else while the batch is under way. ``output_file_id`` and
    ``error_file_id`` are what ``BatchApi.read`` takes.
    """

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: tuple[BatchError, ...] = ()
    completed: int | None = None
    total: int | None = None

    @property
    def ended(self) -> bool:
        """True if the batch will bring no more results."""
        return self.status in ENDED


class BatchApi(ABC):
    """The batches of one run at one endpoint, without retries. Methods raise what ``Provider.failure`` takes."""

    @abstractmethod
    def line(self, custom_id: str, body: str) -> bytes:
        """Return a request as ``upload`` takes it; ``body`` is the JSON of ``Provider.body``."""

    @abstractmethod
    async def upload(self, lines: Sequence[bytes]) -> Any:
        """Send the requests of a batch, if the protocol sends them beforehand; return what ``create`` takes."""

    @abstractmethod
    async def create(self, uploaded: Any, number: int) -> RemoteBatch:
        """Create the run's batch ``number``."""

    @abstractmethod
    async def find(self, wanted: Mapping[int, Sequence[Call]]) -> dict[int, list[RemoteBatch]]:
        """Return the run's batches with these numbers and calls, as far as the endpoint has them, oldest first.

        Times are not compared closely, since the clocks of endpoint and machine may differ by hours.
        """

    @abstractmethod
    async def look(self, batch_id: str) -> RemoteBatch:
        """Fetch the current state of a batch."""

    @abstractmethod
    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch. It ends some minutes later and keeps finished requests; an ended one stays as it is."""

    @abstractmethod
    async def read(self, file_id: str, most_bytes: int) -> bytes:
        """Return a file of results, JSON lines, cut at ``most_bytes``."""

    def result(self, line: dict[str, Any]) -> dict[str, Any]:
        """Translate a line of results.

        The translation has the ``custom_id`` and either ``response`` (``status_code``, ``request_id``, and a chat
        completion or an error as ``body``) or ``error`` (``code``, ``message``), if it was not processed.
        """
        return line


def checked_id(told: object) -> str:
    """Return an id that the endpoint sent. Raises ValueError if it is not safe in a URL path."""
    if not isinstance(told, str) or not 0 < len(told) <= NAME_CHARS or not told.isprintable() or "/" in told:
        raise ValueError(f"an invalid id: {str(told)[:40]!r}")
    return told


def whole(told: object) -> int | None:
    """Return a count, or None if it cannot be one."""
    right = isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= 2**31
    return int(told) if right else None  # type: ignore[call-overload]
