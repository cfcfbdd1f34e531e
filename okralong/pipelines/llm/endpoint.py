"""One endpoint: its key, the client that reaches it, the request fields it accepts, and whether it can be used."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import openai

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.errors import ApiError, connection_message, scrub
from okralong.pipelines.llm.network import bound_error_page, check_proxy, trouble, trust
from okralong.pipelines.models.weights import EMBEDDED

NO_KEY = "none"
"""Sent to servers of one's own, which want some key but do not look at it."""
CHECK_TIMEOUT_S = 10.0
_STREAM = re.compile(r"\bstream", re.IGNORECASE)
LEFT_OUT: Final = ("temperature", "top_p", "seed", "prompt_cache_key")
"""Fields that are left out where an endpoint refuses them: the reply is as good without."""


class RequestFields:
    """Which fields of a request an endpoint takes, as far as it has said, and what it calls the limit of a reply.

    Of schemas: one that refuses a schema of ours takes none; of one that refuses a schema that came with a question, it
    is known of that one alone. Replies are asked for as streams, so that one that ignores its limit can be aborted,
    until the endpoint refuses that or streams a reply without its usage.
    """

    def __init__(self, limit_field: str = "max_tokens", *, stream: bool = False, schema_optional: bool = True) -> None:
        self.limit_field = limit_field
        self._schema_optional = schema_optional
        self.streams = False
        """Whether the endpoint has streamed a reply."""
        self._stream = stream
        self._stream_options = True
        self._refused: set[str] = set()
        self._no_schema = False
        self._schemas: set[str] = set()

    def left_out(self, json_schema: str | None) -> frozenset[str]:
        """The fields that a request with this schema (None: none) is sent without."""
        schema = self._no_schema or json_schema in self._schemas
        return frozenset(self._refused | {"response_format"} if schema else self._refused)

    @property
    def streaming(self) -> dict[str, Any]:
        """The fields by which a reply is asked for as a stream, usage at its end; none where it is not."""
        if not self._stream:
            return {}
        return {"stream": True} | ({"stream_options": {"include_usage": True}} if self._stream_options else {})

    def came(self, streamed: bool, usage_told: bool) -> bool:
        """A reply came; return whether replies are no longer streamed from here on, since its usage was not told."""
        self.streams = streamed
        if streamed and not usage_told:
            self.streams = self._stream = False
            return True
        return False

    def refuse(self, api_error: ApiError, sent: Collection[str], json_schema: str | None) -> str:
        """What the endpoint refused a request for whose fields were ``sent``, and will not be sent again; "" where it
        is nothing that can be left out. ``json_schema`` None: the form of the reply is not to be given up.
        """
        if api_error.http_status not in (400, 422):
            return ""
        if api_error.names("max_tokens") and api_error.names("max_completion_tokens"):
            for name, other in (LIMIT_FIELDS, LIMIT_FIELDS[::-1]):
                if name in sent:
                    self.limit_field = other
                    return name
        if "stream" in sent and _STREAM.search(api_error.message):
            if self._stream_options and "stream_options" in api_error.message:
                self._stream_options = False
                return "stream_options"
            self._stream = False
            return "stream"
        for name in LEFT_OUT:
            if name in sent and api_error.names(name):
                self._refused.add(name)
                return name
        if json_schema is not None and self._schema_optional and "response_format" in sent and api_error.names_format:
            self._schemas.add(json_schema)
            self._no_schema = self._no_schema or bool(json.loads(json_schema)["strict"])
            return "response_format"
        return ""


LIMIT_FIELDS: Final = ("max_tokens", "max_completion_tokens")
"""What the limit of a reply is called, by most servers and by OpenAI's models that think."""
EndpointState = Literal["ready", "down", "untrusted", "no_key", "wrong_key", "unknown_model", "unchecked"]


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """``ok`` is False when a run would fail. ``unchecked``: the server lists no models; the first call will tell."""

    ok: bool
    state: EndpointState
    message: str


def read_key(config: EndpointConfig) -> str:
    """The key from the environment; servers other than OpenAI and Azure may go without.

    Raises ConfigError when it is missing and needed.
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
    """The SDK's client with its own retries off, so that each attempt is seen and paid for knowingly.

    Requests travel by aiohttp, which takes a third to a half of the processor time of the SDK's own way
    (benchmarks/results/gateway.md). ``transport`` (an httpx transport) carries them in the network's place. Proxy and
    certificates are those of the environment; raises ConfigError when it names certificates that cannot be read, or a
    proxy that is none of HTTP. Where there are large ``uploads``, requests travel by httpx: by aiohttp nothing ends one
    that the other side stops reading. ``on_headers`` sees the headers of each response.
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
    """Ask for the list of models, which costs nothing. ``address`` is where an embedded model listens now."""
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
            said = connection_message(error, key)
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
        except Exception as error:
            note = f"{where} is up but its list of models cannot be read ({scrub(str(error), key)[:200]})."
            return EndpointStatus(True, "unchecked", note)
    if config.api_version is not None or not names:
        return EndpointStatus(True, "unchecked", f"{where} takes the key; its list does not name deployments.")
    if config.model not in names:
        some = ", ".join(sorted(names)[:20])
        return EndpointStatus(
            False, "unknown_model", f"{where} has no model {config.model!r}. It has: {some}. Correct llm.model."
        )
    return EndpointStatus(True, "ready", f"{where} is up, takes the key and has {config.model}.")
