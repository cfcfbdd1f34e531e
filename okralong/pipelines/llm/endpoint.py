"""One endpoint: its key, its provider, and a check whether it is usable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Literal

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.config import PROVIDERS, EndpointConfig
from okralong.pipelines.llm.errors import redirected, scrub
from okralong.pipelines.llm.network import trouble
from okralong.pipelines.llm.providers.base import Connection, Provider
from okralong.pipelines.models.weights import EMBEDDED

NO_KEY = "none"
"""Sent as the key to self-hosted servers; their protocol requires one, but they ignore it."""

NEED_KEYS: Final = ("openai.com", "azure.com", "anthropic.com", "googleapis.com", "amazonaws.com", "api.aws")
"""Parts of the addresses of endpoints that refuse requests without a key."""

EndpointState = Literal["ready", "down", "untrusted", "unusable", "no_key", "wrong_key", "unknown_model", "unchecked"]


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The result of a check; "unchecked" if the server lists no models, so that only the first call can tell."""

    ok: bool
    state: EndpointState
    message: str


def read_key(config: EndpointConfig) -> str:
    """Return the key from the environment, or ``NO_KEY``.

    Raises ConfigError if it is missing at an address that requires one (``NEED_KEYS``).
    """
    key = os.environ.get(config.api_key_env, "").strip()
    if key or config.base_url == EMBEDDED:
        return key or NO_KEY
    if any(host in config.base_url for host in NEED_KEYS):
        raise ConfigError(
            f"{config.base_url} needs a key, and the environment variable {config.api_key_env} is not set. Set it on "
            "every node (never in a config or in a Ray runtime_env, where it would be shown), or name another variable "
            "in llm.api_key_env."
        )
    return NO_KEY


def open_provider(config: EndpointConfig, connection: Connection, prompt_cache: str = "never") -> Provider:
    """Open an endpoint with the SDK of its provider.

    ``prompt_cache`` is ``llm.prompt_cache_key``: whether requests are sent in a way that lets the endpoint cache
    prompts. Raises ConfigError if the SDK is not installed, or if the environment names certificates that cannot be
    read, or a proxy that is not an HTTP proxy.
    """
    try:
        adapter = import_module(f"okralong.pipelines.llm.providers.{config.provider}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"llm.provider is {config.provider}, and its SDK is not installed (no module {error.name!r}). Run pip "
            f"install '.[{PROVIDERS[config.provider].extra}]' in the checkout on every node, or choose another "
            "provider."
        ) from error
    opened: Provider = adapter.open_provider(config, connection, prompt_cache)
    return opened


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
        opened = open_provider(config, Connection(where, key))
    except ConfigError as error:
        return EndpointStatus(False, "unusable", str(error))
    try:
        names = await opened.model_names()
    except Exception as error:  # an SDK raises any exception if the body is not a list of models
        return _not_listed(opened, error, where)
    finally:
        await opened.aclose()
    if config.api_version is not None or not names:
        return EndpointStatus(True, "unchecked", f"{where} takes the key; its list does not name deployments.")
    if config.model not in names:
        some = ", ".join(sorted(names)[:20])
        return EndpointStatus(
            False, "unknown_model", f"{where} has no model {config.model!r}. It has: {some}. Correct llm.model."
        )
    return EndpointStatus(True, "ready", f"{where} is up, takes the key and has {config.model}.")


def _not_listed(opened: Provider, error: Exception, where: str) -> EndpointStatus:
    """Return what it means that an endpoint does not list its models."""
    config, failure = opened.endpoint, opened.failure(error)
    if failure.status == 0:
        if said := scrub(trouble(error, where), opened.key):
            return EndpointStatus(False, "untrusted" if "certificate that" in said else "down", said)
        said = failure.said.rstrip(".")
        return EndpointStatus(
            False, "down", f"{where} cannot be reached ({said}). Start the server, or correct llm.base_url."
        )
    if moved := redirected(failure.status, opened.error_headers(error), where):
        return EndpointStatus(False, "unusable", scrub(moved, opened.key))
    if failure.status in (401, 403):
        return EndpointStatus(
            False,
            "wrong_key",
            f"{where} refuses the key in {config.api_key_env} ({failure.status}). Set that variable to a valid key on "
            "every node.",
        )
    if failure.status is None:
        note = f"{where} is up but its list of models cannot be read, so {config.model} was not checked."
    else:
        note = f"{where} is up but lists no models ({failure.status}), so {config.model} was not checked."
    return EndpointStatus(True, "unchecked", note)
