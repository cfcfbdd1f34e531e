"""Reaching an endpoint: the HTTP client for it, and a free check that says what is wrong before anything is spent."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import openai

from okralong.pipelines.answering.llm.endpoint_config import EndpointConfig
from okralong.pipelines.answering.llm.faults import scrub
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import EMBEDDED

NO_KEY = "none"
"""Sent to servers of one's own, which want some key but do not look at it."""
CHECK_TIMEOUT_S = 10.0

EndpointState = Literal["ready", "down", "no_key", "wrong_key", "unknown_model", "unchecked"]


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
    config: EndpointConfig, address: str, key: str, timeout_s: float = CHECK_TIMEOUT_S, transport: Any = None
) -> openai.AsyncOpenAI:
    """The SDK's client with its own retries off, so that each attempt is seen and paid for knowingly.

    ``transport`` (an httpx transport) carries the requests in the network's place.
    """
    timeout = openai.Timeout(timeout_s, connect=min(CHECK_TIMEOUT_S, timeout_s))
    if config.api_version is not None:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=address,
            azure_deployment=config.model,
            api_version=config.api_version,
            api_key=key,
            max_retries=0,
            timeout=timeout,
        )
    http = None if transport is None else openai.DefaultAsyncHttpxClient(transport=transport, timeout=timeout)
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
    async with open_client(config, where, key) as client:
        try:
            names = [model.id async for model in await client.models.list()]
        except openai.APIConnectionError as error:
            said = scrub(str(error), key)
            return EndpointStatus(
                False, "down", f"{where} cannot be reached ({said}). Start the server, or mend llm.base_url."
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
            False, "unknown_model", f"{where} has no model {config.model!r}. It has: {some}. Mend llm.model."
        )
    return EndpointStatus(True, "ready", f"{where} is up, takes the key and has {config.model}.")
