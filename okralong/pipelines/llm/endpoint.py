"""One endpoint: its key, its HTTP client, the request fields that it accepts, and a check whether it is usable."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import openai

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.errors import LIMITS, ApiError, connection_message, scrub
from okralong.pipelines.llm.network import bound_error_page, check_proxy, trouble, trust
from okralong.pipelines.models.weights import EMBEDDED

NO_KEY = "none"
"""Sent as the key to self-hosted servers; their protocol requires one, but they ignore it."""
CHECK_TIMEOUT_S = 10.0
LEFT_OUT: Final = ("temperature", "top_p", "seed", "prompt_cache_key", "stop")
"""Fields that are left out if an endpoint refuses them, since replies are about as good without."""

WHOLE_REPLIES: Final = "replies that are not streamed"
"""The refusal of an endpoint that only streams its replies."""


class RequestFields:
    """The request fields that an endpoint accepts, learned from its refusals.

    If an endpoint refuses one of our own (strict) schemas, later requests have no schema; if it refuses a user's
    schema, only that schema is left out. Replies are requested as streams, since a stream that exceeds its limit can be
    aborted, until the endpoint refuses to stream or a reply comes without its usage.
    """

    def __init__(self, limit_field: str = "max_tokens", *, stream: bool = False, schema_optional: bool = True) -> None:
        """If ``schema_optional`` is False, the JSON schema of a reply is never left out."""
        self.limit_field = limit_field
        self.streams = False
        """True if the endpoint streamed its last reply."""
        self._schema_optional = schema_optional
        self._stream = self._may_stream = stream
        self._must_stream = False
        self._stream_options = True
        self._refused: set[str] = set()
        self._no_schema = False
        self._no_json = False
        self._schemas: set[str] = set()
        self._noted: set[str] = set()

    def left_out(self, json_schema: str | None) -> frozenset[str]:
        """Return the fields to leave out of a request with this schema."""
        no_format = self._no_json if json_schema is None else self._no_schema or json_schema in self._schemas
        return frozenset(self._refused | {"response_format"} if no_format else self._refused)

    @property
    def streaming(self) -> dict[str, Any]:
        """The fields that request a stream with usage at its end; empty if replies are not streamed."""
        if not self._stream:
            return {}
        return {"stream": True} | ({"stream_options": {"include_usage": True}} if self._stream_options else {})

    def note_reply(self, streamed: bool, usage_told: bool) -> bool:
        """Note a reply. Return True if it came without usage, so that later replies are not streamed."""
        self.streams = streamed
        if streamed and not usage_told and not self._must_stream:
            self.streams = self._stream = False
            return True
        return False

    def is_news(self, refused: str) -> bool:
        """Return whether this is the first refusal of a field; calls already in flight may bring further ones."""
        new = refused not in self._noted
        self._noted.add(refused)
        return new

    def refuse(self, api_error: ApiError, sent: Collection[str], json_schema: str | None) -> str:
        """Note a refusal; return the field that later requests leave out or rename, or "" if there is none.

        ``sent`` are the request's fields. If ``json_schema`` is None, a ``response_format`` only asks for JSON.
        """
        if api_error.body is None:
            return ""
        if api_error.wants_stream:
            if "stream" in sent or not self._may_stream:
                return ""
            self._stream = self._must_stream = True
            return WHOLE_REPLIES
        named = api_error.refused(sent)
        if renamed := self._renamed_limit(api_error, sent):
            return renamed
        if "stream_options" in named and self._stream_options:
            self._stream_options = False
            return "stream_options"
        for name in LEFT_OUT:
            if name in named:
                self._refused.add(name)
                return name
        if "stream" in sent and api_error.about_streams:
            self._stream = self._may_stream = False
            return "stream"
        if "response_format" in sent and api_error.refuses_format:
            if json_schema is None:
                self._no_json = True
                return "response_format"
            if self._schema_optional:
                self._schemas.add(json_schema)
                self._no_schema = self._no_schema or bool(json.loads(json_schema)["strict"])
                return "response_format"
        return ""

    def _renamed_limit(self, api_error: ApiError, sent: Collection[str]) -> str:
        """Rename the field that limits a reply if the endpoint refuses its name; return the old name, or ""."""
        for name, other in (LIMITS, LIMITS[::-1]):
            both = api_error.body is not None and all(each in api_error.body.words for each in LIMITS)
            refused = name in api_error.refused([name]) and api_error.refuses_whatever_value
            if name in sent and (refused or both) and f"not {other}" not in self._noted:
                self._noted.add(f"not {name}")
                self.limit_field = other
                return name
        return ""


EndpointState = Literal["ready", "down", "untrusted", "no_key", "wrong_key", "unknown_model", "unchecked"]


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The result of a check; "unchecked" if the server lists no models, so that only the first call can tell."""

    ok: bool
    state: EndpointState
    message: str


def read_key(config: EndpointConfig) -> str:
    """Return the key from the environment, or ``NO_KEY``.

    Raises ConfigError if it is missing for OpenAI or Azure, which require one.
    """
    key = os.environ.get(config.api_key_env, "").strip()
    if key or config.base_url == EMBEDDED:
        return key or NO_KEY
    if "openai.com" in config.base_url or "azure.com" in config.base_url:
        raise ConfigError(
            f"{config.base_url} needs a key, and the environment variable {config.api_key_env} is not set. Set it on "
            "every node (never in a config or in a Ray runtime_env, where it would be shown), or name another variable "
            "in llm.api_key_env."
        )
    return NO_KEY


def open_client(
    config: EndpointConfig,
    address: str,
    key: str,
    timeout_s: float = CHECK_TIMEOUT_S,
    transport: Any = None,
    uploads: bool = False,
    on_headers: Callable[[Mapping[str, str]], None] | None = None,
) -> openai.AsyncOpenAI:
    """Open the SDK's client, with its retries turned off, since each attempt needs a ledger row.

    Requests go through aiohttp, which needs a third to half of the processor time of the SDK's default transport
    (benchmarks/results/gateway.md). Proxy and certificates are those of the environment.

    Args:
        config: The endpoint.
        address: The endpoint's URL, or that at which an embedded model listens.
        key: The endpoint's key.
        timeout_s: Seconds after which a request times out.
        transport: An httpx transport that replaces the network.
        uploads: Whether to send requests through httpx, since aiohttp never ends a large upload that the server stops
            reading.
        on_headers: Function that is called with the headers of each response.

    Raises:
        ConfigError: The environment names certificates that cannot be read, or a proxy that is not an HTTP proxy.
    """
    timeout = openai.Timeout(timeout_s, connect=min(CHECK_TIMEOUT_S, timeout_s))
    context = trust() if transport is None and address.startswith("https:") else None
    if transport is not None:
        http = openai.DefaultAsyncHttpxClient(transport=transport, timeout=timeout)
    else:
        check_proxy(address)
        kind = openai.DefaultAsyncHttpxClient if uploads else openai.DefaultAioHttpClient
        hooks = {"response": [bound_error_page]}
        http = kind(verify=True if context is None else context, timeout=timeout, event_hooks=hooks)
    if on_headers is not None:

        async def heard(response: Any) -> None:
            on_headers(response.headers)

        http.event_hooks["response"].append(heard)
    if config.api_version is not None:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=address,
            azure_deployment=config.model,
            api_version=config.api_version,
            api_key=key,
            max_retries=0,
            timeout=timeout,
            http_client=http,
        )
    return openai.AsyncOpenAI(base_url=address, api_key=key, max_retries=0, timeout=timeout, http_client=http)


async def check_endpoint(config: EndpointConfig, address: str | None = None) -> EndpointStatus:
    """Check an endpoint by listing its models, which is free. An embedded model listens at ``address``."""
    where = address or config.base_url
    try:
        key = read_key(config)
    except ConfigError as error:
        return EndpointStatus(False, "no_key", str(error))
    if where == EMBEDDED:
        return EndpointStatus(True, "unchecked", "The embedded model is started by the run itself.")
    try:
        opened = open_client(config, where, key)
    except ConfigError as error:
        return EndpointStatus(False, "untrusted", str(error))
    async with opened as client:
        try:
            names = [model.id async for model in await client.models.list()]
        except openai.APIConnectionError as error:
            said = scrub(trouble(error, where), key)
            if said:
                return EndpointStatus(False, "untrusted" if "certificate that" in said else "down", said)
            said = connection_message(error, key).rstrip(".")
            return EndpointStatus(
                False, "down", f"{where} cannot be reached ({said}). Start the server, or correct llm.base_url."
            )
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                return EndpointStatus(
                    False,
                    "wrong_key",
                    f"{where} refuses the key in {config.api_key_env} ({error.status_code}). Set that variable to a "
                    "valid key on every node.",
                )
            note = f"{where} is up but lists no models ({error.status_code}), so {config.model} was not checked."
            return EndpointStatus(True, "unchecked", note)
        except Exception:  # the SDK raises any exception if the body is not a list of models
            note = f"{where} is up but its list of models cannot be read, so {config.model} was not checked."
            return EndpointStatus(True, "unchecked", note)
    if config.api_version is not None or not names:
        return EndpointStatus(True, "unchecked", f"{where} takes the key; its list does not name deployments.")
    if config.model not in names:
        some = ", ".join(sorted(names)[:20])
        return EndpointStatus(
            False, "unknown_model", f"{where} has no model {config.model!r}. It has: {some}. Correct llm.model."
        )
    return EndpointStatus(True, "ready", f"{where} is up, takes the key and has {config.model}.")
